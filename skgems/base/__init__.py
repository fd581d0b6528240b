"""scikit-learn's protocol for aggregators: members, clone, prediction, export.

A new aggregator subclasses `BaseAggregator`: it stores its parameters, fits, calls
``_publish`` with its attributes, and says what the logits of rows are. It gets
validation, classes, ``predict_proba`` and searching. `MemberParametersMixin` makes
parameters of named estimators settable. No rows are read here but to validate them.
`ResultMixin` shows results of all rooms alike.

>>> import numpy as np
>>> from skgems.base import BaseAggregator
>>> class Coin(BaseAggregator):
...     def __init__(self, estimators=None, *, verbose=0):
...         self.estimators = estimators
...         self.verbose = verbose
...     def fit(self, X=None, y=None):
...         self._publish(classes_=np.array(["heads", "tails"]), n_features_in_=1)
...         return self
...     def _logits(self, X):
...         return np.zeros((len(X), 2))
>>> Coin().fit().predict_proba([[3.0]])
array([[0.5, 0.5]])
"""

from ._aggregator import Allows, BaseAggregator
from ._export import (
    LinearExportMixin,
    NetworkExportMixin,
    TunedNetworkMixin,
    layer_attributes,
    tuned_attributes,
    tuning_step,
)
from ._members import (
    PUBLIC_NAME,
    SEEDS_BELOW,
    MemberParametersMixin,
    NodePairs,
    check_are_no_parameters,
    is_channel,
    is_named,
    named_members,
    seeded_clone,
    split_by_state,
)
from ._method import Method, Takes
from ._parts import Part
from ._short_forms import NamesOnceMixin
from ._shown import (
    WIDTH,
    Columns,
    Definitions,
    Page,
    Paragraph,
    Points,
    Records,
    ResultMixin,
    Table,
    as_markdown,
    filled,
    printable,
)
from ._validation import (
    Features,
    check_no_label_missing,
    encode_labels,
    validated_for_fit,
    validated_public_rows,
    validated_rows_for_fit,
)
from ._versions import show_versions, versions
from ._warnings import (
    MOST_LISTED,
    as_own_warnings,
    keep_warnings_out_of_report,
    keeps_warnings,
    noted_warnings,
    shortened,
    silenced,
    warn_user,
)

__all__ = ["BaseAggregator", "MemberParametersMixin", "Method", "NetworkExportMixin"]
