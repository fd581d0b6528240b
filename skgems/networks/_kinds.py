# SPDX-License-Identifier: BSD-3-Clause
"""Which classifier is inside its wrappers, and of which kind it is."""

from __future__ import annotations

from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline

# Where a class is defined, and its name: nothing is imported to know it.
_SKORCH = {
    ("skorch.classifier", "NeuralNetClassifier"),
    ("skorch.classifier", "NeuralNetBinaryClassifier"),
}
_TORCH_MODULE = ("torch.nn.modules.module", "Module")


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
    own = unwrap(estimator)
    if isinstance(own, OneVsRestClassifier):
        return len(getattr(own, "classes_", ())) == 1
    return isinstance(own, DummyClassifier)


def is_skorch(estimator) -> bool:
    """Whether it is a skorch classifier; imports neither skorch nor torch."""
    return not _SKORCH.isdisjoint(_class_paths(estimator))


def is_torch_module(estimator) -> bool:
    """Whether it is a bare torch module."""
    return _TORCH_MODULE in _class_paths(estimator)


def _class_paths(estimator):
    return [(base.__module__, base.__name__) for base in type(estimator).__mro__]
