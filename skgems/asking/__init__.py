"""The server: plans, the runs that carry them out, channels, reports and warnings.

`fit_method` and `read_federation` begin a fit. A *plan* is a generator that yields
requests and receives replies. `run` carries it out over a channel, checks the replies,
and takes from the records of the nodes what was asked before. What the server does with
the answers beside a plan is here, too: means of models, and fine-tuning on public rows.
How a node keeps to its agreement is no matter of this room: it imports nothing of
`guard`.

>>> import numpy as np
>>> from sklearn.dummy import DummyClassifier
>>> from skgems.asking import Message, Nodes, run
>>> from skgems.guard import reply_to
>>> X = np.zeros((30, 1))
>>> y = np.repeat(["ill", "well"], 15)
>>> model = DummyClassifier().fit(X, y)
>>> def ask(requests):  # a channel, which may as well lead to other machines
...     for name, request in requests.items():
...         yield name, reply_to(request, model, X, y, name=name)
>>> def plan():
...     replies = yield Message.of("counts")
...     return sum(reply.counts for name, reply in replies)
>>> run(plan(), Nodes(ask, ["lyon", "paris"]))
array([30, 30])
"""

from ..messages import Message
from ._alignment import align_hidden_units, started_apart
from ._asked_nodes import AskAgainError, Context
from ._channel import Channel, InProcess, Nodes, RowsAlone, as_channel
from ._common_form import common_form
from ._decisions import warn_of_lost_decisions
from ._fitting import fit_method, run_of, run_over
from ._fronts import fit_front, front_plan
from ._joining import federated_fit
from ._keep_replies import KeepRepliesMixin
from ._lines import check_reply_of
from ._mean import Weight, mean_parameters, median_parameters
from ._noise import NOISE, NoisyMethod, check_goes_with_noise
from ._plans import (
    Shares,
    ask_counts,
    ask_inverse_temperature,
    ask_shares,
    request_to_retrain,
    shares_without_rows,
)
from ._reading import read_federation
from ._region import region_summary
from ._report import Report, ReportMixin
from ._rounds import learning_rates, relative_change
from ._run import RepliesMissingError, Run, run
from ._sending import LeftOutError, TooFewNodesError
from ._sizes import array_sizes, times_larger
from ._trust import (
    check_merges_all,
    reason_of_trust,
    trust_table,
    warn_of_contradictions,
    warn_of_trust,
)
from ._tuned_likelihood import ROUGH_TOL, TOL, tune_likelihood
from ._tuned_linear import FineTuned, fine_tune_linear
from ._tuned_network import FineTunedNetwork, fine_tune_network, train_plainly
from ._warnings import (
    MENDS_TAILS,
    ClassWeightWarning,
    HeavyTailsWarning,
    InterceptWarning,
    ManyRowsWarning,
    NodesDisagreeWarning,
    PenaltyWarning,
    SameRowsWarning,
    SharedCovarianceWarning,
    VariancesOnlyWarning,
    nodes_of_many_rows,
    warn_of_identifiers,
    warn_of_many_classes,
    warn_of_many_rows,
    warn_of_neglected_columns,
    warn_of_other_shares,
    warn_of_shared_matrices,
    warn_of_tails,
    warn_of_variances,
)

__all__ = [
    "AskAgainError",
    "Channel",
    "ClassWeightWarning",
    "HeavyTailsWarning",
    "InterceptWarning",
    "LeftOutError",
    "ManyRowsWarning",
    "Message",
    "Nodes",
    "NodesDisagreeWarning",
    "PenaltyWarning",
    "RepliesMissingError",
    "Report",
    "ReportMixin",
    "RowsAlone",
    "SameRowsWarning",
    "SharedCovarianceWarning",
    "TooFewNodesError",
    "VariancesOnlyWarning",
    "fit_method",
    "read_federation",
    "run",
]
