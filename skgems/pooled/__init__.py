"""Classifiers and transformers that are functions of sums: what all rows would give."""

from ._classifiers import CLASSIFIERS, shrunk_lda
from ._forms import PooledForm, common_form
from ._pooled import PooledAggregator
from ._transformer import PooledTransformer
