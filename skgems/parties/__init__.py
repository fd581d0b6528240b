"""Who takes part: estimators, rows and classes of the parties, and what they sent.

A `Federation` holds the nodes of a fit with their rows as far as one process has them.
Each `Node` has a classifier, or a `Summary` of what it sent, which is the public face
of its `Record`. What a node's own rows are read into is here, too, so that rows take
one way in a fit and at a node. Neither the server's runs nor a ledger are known here.

>>> import numpy as np
>>> from sklearn.dummy import DummyClassifier
>>> from skgems.local import Member
>>> from skgems.messages import Message
>>> from skgems.parties import reply_of
>>> X = np.zeros((30, 1))
>>> y = np.repeat(["ill", "well"], 15)
>>> member = Member.from_estimator("lyon", DummyClassifier().fit(X, y), X, y)
>>> reply_of(Message.of("counts"), member).counts
array([15, 15])
"""

from ..datasets import as_groups, missing_labels, parts_of_groups
from ._answering import reply_as_message, reply_of
from ._estimators import Members, members_here, read_members
from ._federation import Federation, Node, PublicRows
from ._front_states import check_states
from ._fronts import (
    fitted_without_learning,
    labels_of_rows,
    owners_of,
    raise_front_not_fitted,
)
from ._labels import (
    UnseenClassesWarning,
    check_labels,
    seen_classes_of,
    shown_labels,
    warn_of_unseen_classes,
)
from ._nodes import (
    RowsLike,
    WeightedRows,
    as_mask,
    check_feature_names,
    check_takes_weights,
    halves_of,
    node_names_of,
    raise_without_classifier,
    rows_of_nodes,
    weighted_rows,
)
from ._noisy import member_with_noise
from ._pickling import told_if_not_pickled
from ._reading import as_front_takes_them, read_parties
from ._record import Record, difference_in_words
from ._rows import (
    AnyRows,
    AnyRowsWithMissing,
    any_rows_for,
    cells_of,
    check_is_behind_front,
    check_no_label_missing_at,
    check_node,
    chunked_member_of,
    column_member,
    fitted_at_node,
    member_of,
    ruled_column_member,
    warn_of_another_front,
)
from ._ruled import RuledTable, table_under
from ._simulated_noise import noisy_summary, with_noisy_summaries
from ._simulation import Simulation
from ._small_classes import without_small_classes
from ._summary import Summary, is_path, load_message
from ._terms import allows_missing, settings_of_strangers, terms_of
from ._warnings import (
    ClassesLeftOutWarning,
    IdentifierWarning,
    columns_by_node,
    sentences_on_identifiers,
    warn_of_columns_of_some,
    warn_of_repeated_identifiers,
    warn_of_written_numbers,
)

__all__ = [
    "ClassesLeftOutWarning",
    "Federation",
    "IdentifierWarning",
    "Node",
    "Record",
    "Summary",
    "UnseenClassesWarning",
]
