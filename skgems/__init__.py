"""Combine fitted classifiers of several parties into one, without their rows."""

__version__ = "0.1.0.dev0"  # before the imports, which use it

from . import tasks as _tasks  # noqa: F401 puts what nodes can be asked into a table
from .averaging import ModelAveragingAggregator
from .base import show_versions
from .channels import Exchange
from .disclosure import Disclosure
from .ensembles import (
    DistillationAggregator,
    EnsembleAggregator,
    combine,
    merge_forests,
)
from .gems import GEMSLogisticAggregator, GEMSMLPAggregator
from .guard import answer
from .pfnm import PFNMAggregator
from .pooled import PooledAggregator, PooledTransformer, describe, survey
from .private import Privacy

__all__ = [
    "Disclosure",
    "DistillationAggregator",
    "EnsembleAggregator",
    "Exchange",
    "GEMSLogisticAggregator",
    "GEMSMLPAggregator",
    "ModelAveragingAggregator",
    "PFNMAggregator",
    "PooledAggregator",
    "PooledTransformer",
    "Privacy",
    "answer",
    "combine",
    "describe",
    "merge_forests",
    "show_versions",
    "survey",
]
