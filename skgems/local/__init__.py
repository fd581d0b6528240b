"""All that a node does with its own classifier and its own rows.

A `Member` is a classifier with rows, which stay where they are. A `LocalModel` reads
and trains a classifier, whatever its library; `local_model` finds the right one. What a
node replies to each task is in the room `tasks`.

>>> import numpy as np
>>> from sklearn.linear_model import LogisticRegression
>>> from skgems.local import Member
>>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array(["no", "yes", "yes"])
>>> member = Member.from_estimator("lyon", LogisticRegression().fit(X, y), X, y)
>>> member.class_sizes()["yes"], member.model.network.coefs[0].shape
(2, (1, 2))
"""

from ._cache import cached, cached_call, clear_cache, digest, recall, remember
from ._chunks import ChunkedMember, moments_of_chunks, stacked
from ._classifiers import (
    Description,
    Rows,
    indices_of,
    keeps_learning,
    naming_node,
    to_logits,
)
from ._closed_forms import (
    LEFT_OUT,
    WITHHELD,
    as_class_weight,
    closed_form,
    has_steps,
)
from ._costs import (
    LimitError,
    NodeShape,
    check_cost,
    check_cost_of_content,
    check_number_of_methods,
    check_reply_bytes,
)
from ._disclosed import (
    RESIDUALS,
    HeldTables,
    ruled,
    tables_that_hold,
    tellable_gradients,
    without_rare_values,
)
from ._disclosed_chunks import ruled_chunks
from ._disclosed_tables import ruled_table, seed_of
from ._expected_shares import OtherShare, other_share
from ._fitting import fit_local, net_seed
from ._fronts import learning_columns, opened_front
from ._lookup import local_model, net_of_state
from ._member import ROLES, Member, TooFewRowsError, class_sizes
from ._model import LocalModel, node_space, retrain_layers
from ._model_sums import JudgingRows, sum_over_rows
from ._moments import class_weight_of, moments
from ._own_residuals import has_linear_model
from ._penalties import penalty_of
from ._room_for_means import check_room_for_means
from ._seeds import seed_of_rows
from ._tails import N_COMBINATIONS, heaviest_features
from ._thresholds import average_threshold, decision_threshold, has_threshold
from ._told_before import TOLD, n_told_before, remember_told
