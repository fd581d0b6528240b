"""Fit a classifier of any kind at a node."""

import numpy as np
from sklearn.dummy import DummyClassifier

from ..networks import final_step, is_skorch
from ._classifiers import Rows
from ._penalties import IN_PLACE_OF


def fit_local(
    estimator: object, X: Rows, y: np.ndarray, *, classes: np.ndarray, seed: int | None
) -> object:
    """Fit a classifier in place, and return it; a constant one for rows of one class.

    Parameters
    ----------
    estimator : object
        Unfitted. Most kinds cannot be fitted to a single class, so then it stays so.
    X : {array, CSR matrix} of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
        Labels.
    classes : ndarray of shape (n_classes,)
        Those that the outputs of a skorch net stand for. Other kinds ignore it.
    seed : int or None
        For a skorch net, see `net_seed`. Other kinds ignore it.

    Returns
    -------
    fitted : object
        The estimator, or for rows of one class a DummyClassifier in its place.
    """
    is_net = is_skorch(final_step(estimator))
    if len(np.unique(y)) == 1:
        constant = DummyClassifier(strategy="most_frequent").fit(X, y)
        if not is_net:  # which may not be picklable
            setattr(constant, IN_PLACE_OF, estimator)
        return constant
    if is_net:
        from ._skorch import fit_net  # which imports torch

        rng = np.random.RandomState(seed)
        return fit_net(estimator, X, y, classes=classes, rng=rng)
    return estimator.fit(X, y)


def net_seed(estimator: object, random_state: np.random.RandomState) -> int | None:
    """A seed for a skorch net, which has no ``random_state``; None for all else."""
    if not is_skorch(final_step(estimator)):
        return None
    return random_state.randint(2**31 - 1)  # what torch and numpy take as a seed
