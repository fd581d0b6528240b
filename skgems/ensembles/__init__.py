"""Votes of any classifiers, and one model distilled from them."""

from ._distillation import DistillationAggregator
from ._ensemble import EnsembleAggregator
from ._forests import merge_forests
