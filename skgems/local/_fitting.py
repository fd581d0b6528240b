"""Fit a classifier of any kind at a node."""

import numpy as np
from sklearn.dummy import DummyClassifier

from ..networks import final_step, is_skorch


def fit_local(estimator, X, y, classes: np.ndarray, seed: int | None):
    """Fit in place; of one class a DummyClassifier. ``classes``, ``seed``: of nets."""
    of_net = is_skorch(final_step(estimator))
    if len(np.unique(y)) == 1:
        constant = DummyClassifier(strategy="most_frequent").fit(X, y)
        if not of_net:  # which may not be picklable
            constant.in_place_of_ = estimator
        return constant
    if of_net:
        from ._skorch import fit

        return fit(estimator, X, y, classes, np.random.RandomState(seed))
    return estimator.fit(X, y)


def net_seed(estimator, random_state: np.random.RandomState) -> int | None:
    """A seed for a skorch net, which has no ``random_state``; None for all else."""
    return random_state.randint(2**31 - 1) if is_skorch(final_step(estimator)) else None
