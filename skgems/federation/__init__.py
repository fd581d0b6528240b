"""The nodes of a federation, their replies, and plans that run over channels.

`read_federation` makes a `Federation` from the input of ``fit``: nodes, their rows, and
their classes. A *plan* is a generator that yields requests and receives replies. `run`
carries it out over a channel, checks the replies, and takes from the `Record` of each
node what was asked before. `reply_to` is the node's side: it takes a request, and
nothing leaves the node but what it returns.

>>> import numpy as np
>>> from sklearn.dummy import DummyClassifier
>>> from skgems.federation import Message, Nodes, reply_to, run
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

from ..local import LimitError
from ..messages import (
    Agreement,
    Limits,
    Message,
    NotAgreedError,
    SignatureError,
    Terms,
    sign,
    signing_keys,
)
from ._account import NoiseSpentError, noise_of
from ._asked_before import RowsAskedAgainError
from ._asked_nodes import AskAgainError, Context
from ._channel import Channel, InProcess, Nodes, RowsAlone, as_channel
from ._decisions import warn_of_lost_decisions
from ._derived import agreement_in_words, allows_missing
from ._federation import Federation, Node, PublicRows
from ._fitting import fit_method, run_of
from ._fronts import fit_front, front_plan, owners_of
from ._given_rows import as_groups
from ._joining import federated_fit
from ._keep_replies import KeepRepliesMixin
from ._labels import (
    UnseenClassesWarning,
    check_labels,
    seen_classes_of,
    shown_labels,
)
from ._ledger import RowsChangedError, account_in, read_entries
from ._ledger_store import (
    LEDGER_FILE,
    PAUSE,
    LedgerBusyError,
    LedgerCopiedError,
    LedgerDamagedError,
    LedgerError,
    LedgerOlderError,
)
from ._lines import check_reply_of
from ._members import members_here, read_members
from ._nodes import (
    as_mask,
    check_feature_names,
    halves_of,
    parts_of_groups,
    raise_without_classifier,
    rows_of_nodes,
)
from ._plans import (
    MOST_GRIDS,
    Shares,
    ask_counts,
    ask_inverse_temperature,
    ask_shares,
    request_to_retrain,
)
from ._reading import read_federation
from ._record import Record
from ._region import region_summary
from ._replying import ReplyDeclinedError, answer, reply_of, reply_to
from ._report import WIDTH, Report, ReportMixin, printable
from ._rows import (
    AnyRows,
    AnyRowsWithMissing,
    cells_of,
    check_no_label_missing_at,
    column_member,
    member_of,
    ruled_column_member,
)
from ._run import RepliesMissingError, Run, run
from ._sending import LeftOutError, TooFewNodesError
from ._simulation import Simulation
from ._summarizing import SummarizingMixin
from ._summary import Summary, is_path, load_message
from ._trust import (
    check_merges_all,
    kept_names,
    reason_of_trust,
    trust_table,
    warn_of_contradictions,
    warn_of_trust,
)
from ._update_forget import KeptReplies, UpdateForgetMixin, records_of
from ._warnings import (
    MENDS_TAILS,
    ClassesLeftOutWarning,
    ClassWeightWarning,
    HeavyTailsWarning,
    IdentifierWarning,
    InterceptWarning,
    ManyRowsWarning,
    NodesDisagreeWarning,
    PenaltyWarning,
    RowsAskedAgainWarning,
    SameRowsWarning,
    SharedCovarianceWarning,
    VariancesOnlyWarning,
    nodes_of_many_rows,
    warn_of_columns_of_some,
    warn_of_identifiers,
    warn_of_many_classes,
    warn_of_many_rows,
    warn_of_neglected_columns,
    warn_of_other_shares,
    warn_of_repeated_identifiers,
    warn_of_shared_matrices,
    warn_of_tails,
    warn_of_variances,
    warn_of_written_numbers,
)

__all__ = [
    "Agreement",
    "AskAgainError",
    "Channel",
    "ClassWeightWarning",
    "ClassesLeftOutWarning",
    "Federation",
    "HeavyTailsWarning",
    "IdentifierWarning",
    "LedgerBusyError",
    "LedgerCopiedError",
    "LedgerDamagedError",
    "LedgerError",
    "LedgerOlderError",
    "InterceptWarning",
    "LeftOutError",
    "LimitError",
    "Limits",
    "ManyRowsWarning",
    "Message",
    "Node",
    "Nodes",
    "NodesDisagreeWarning",
    "NoiseSpentError",
    "NotAgreedError",
    "PenaltyWarning",
    "Record",
    "RepliesMissingError",
    "ReplyDeclinedError",
    "Report",
    "ReportMixin",
    "RowsAlone",
    "RowsAskedAgainError",
    "RowsAskedAgainWarning",
    "RowsChangedError",
    "SameRowsWarning",
    "SharedCovarianceWarning",
    "SignatureError",
    "SummarizingMixin",
    "Summary",
    "TooFewNodesError",
    "UnseenClassesWarning",
    "VariancesOnlyWarning",
    "fit_method",
    "read_federation",
    "reply_to",
    "run",
    "sign",
    "signing_keys",
]
