# SPDX-License-Identifier: BSD-3-Clause
"""Which classifier is inside its wrappers, and of which kind it is."""

from __future__ import annotations

from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

# By the names of its classes, so that nothing imports skorch.
from ._read import _is_skorch as is_skorch

__all__ = ["final_step", "is_constant", "is_skorch", "unwrap"]


def unwrap(estimator):
    """The classifier inside FrozenEstimator and fitted searches."""
    while True:
        if isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator


def final_step(estimator):
    """The classifier inside all wrappers, pipelines too."""
    estimator = unwrap(estimator)
    while isinstance(estimator, Pipeline):
        estimator = unwrap(estimator.steps[-1][1])
    return estimator


def is_constant(estimator) -> bool:
    """Whether it is the constant model of a node whose rows show one class."""
    return isinstance(unwrap(estimator), DummyClassifier)
