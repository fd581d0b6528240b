# SPDX-License-Identifier: BSD-3-Clause
"""Fit the classifier of a node, whatever its kind; errors of it name the node."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError

from ..networks import final_step, is_skorch

# What else is raised becomes a RuntimeError, the first of these that fits itself.
_KEPT = (NotFittedError, ValueError, TypeError)


def fit_local(estimator, X, y, classes: np.ndarray, seed: int | None):
    """Fit a classifier to the rows of a node, in place.

    Sorted ``classes`` and ``seed``, see `net_seed`, are for skorch nets. Rows of one
    class give a constant DummyClassifier, since no classifier learns from them.
    """
    if len(np.unique(y)) == 1:
        return DummyClassifier(strategy="most_frequent").fit(X, y)
    if is_skorch(final_step(estimator)):
        from ._skorch import fit

        return fit(estimator, X, y, classes, np.random.RandomState(seed))
    return estimator.fit(X, y)


def net_seed(estimator, random_state: np.random.RandomState) -> int | None:
    """A seed for a skorch net, which has no ``random_state``; None for all else."""
    return random_state.randint(2**31 - 1) if is_skorch(final_step(estimator)) else None


class Picklable:
    """A classifier that can be pickled for another process, whatever its kind.

    skorch's own pickles cannot hold modules of classes that a script or a notebook
    defines; those of joblib's workers can, where they are let do it.
    """

    def __init__(self, estimator):
        self.estimator = estimator

    def __reduce__(self):
        if is_skorch(self.estimator):
            return _unpickled, (type(self.estimator), vars(self.estimator))
        return Picklable, (self.estimator,)


def _unpickled(kind, state):
    estimator = object.__new__(kind)
    vars(estimator).update(state)
    return Picklable(estimator)


@contextmanager
def at_node(name: str, what: str) -> Iterator[None]:
    """Name the node, and ``what`` cannot be done, in errors raised within a block.

    NotFittedError, ValueError and TypeError keep their type, all else is a
    RuntimeError. The error of the classifier is the cause.
    """
    try:
        yield
    except MemoryError:
        raise
    except Exception as exc:
        message = str(exc)
        if message.startswith(f"Node {name!r}"):
            raise
        kind = next((kind for kind in _KEPT if isinstance(exc, kind)), RuntimeError)
        raise kind(f"Node {name!r}: {what} ({type(exc).__name__}): {message}") from exc
