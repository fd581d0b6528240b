"""Classifiers that are functions of sums over rows: what all rows would give."""

from ._classifiers import CLASSIFIERS, shrunk_lda
from ._forms import PooledForm, common_form
from ._pooled import KeepRepliesMixin, PooledAggregator
