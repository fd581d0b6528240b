"""Fit a classifier of any kind at a node."""

import numpy as np
from sklearn import get_config
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from ..networks import final_step, is_skorch
from ._classifiers import Rows
from ._penalties import IN_PLACE_OF


def fit_local(
    estimator: object,
    X: Rows,
    y: np.ndarray,
    *,
    classes: np.ndarray,
    seed: int | None,
    weights: np.ndarray | None = None,
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
    weights : ndarray of shape (n_rows,), or None
        The `sample_weight` of the rows.

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
    options = {} if weights is None else _weights_for_fit(estimator, weights)
    if is_net:
        from ._skorch import fit_net  # which imports torch

        rng = np.random.RandomState(seed)
        return fit_net(estimator, X, y, classes=classes, rng=rng)
    return estimator.fit(X, y, **options)


def _weights_for_fit(estimator: object, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Return what hands weights of rows to a classifier's fit; TypeError if nothing."""
    routes_metadata = get_config()["enable_metadata_routing"]
    if isinstance(estimator, Pipeline) and not routes_metadata:
        name, step = estimator.steps[-1]
        options = _weights_for_fit(step, weights)
        return {f"{name}__{key}": value for key, value in options.items()}
    takes_weights = has_fit_parameter(estimator, "sample_weight")
    if not takes_weights and not (routes_metadata and isinstance(estimator, Pipeline)):
        raise TypeError(
            "its fit takes no sample_weight. Leave sample_weight out, or choose a "
            "classifier that takes it; or give fitted classifiers, and weights for the "
            "sums over rows alone."
        )
    return {"sample_weight": weights}


def net_seed(estimator: object, random_state: np.random.RandomState) -> int | None:
    """A seed for a skorch net, which has no ``random_state``; None for all else."""
    if not is_skorch(final_step(estimator)):
        return None
    return random_state.randint(2**31 - 1)  # what torch and numpy take as a seed
