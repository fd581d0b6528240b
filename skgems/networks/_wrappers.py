"""The classifier inside what wraps it: frozen estimators, searches and pipelines."""

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline


def unwrap(estimator: object) -> object:
    """Without frozen estimators and fitted searches around it."""
    if isinstance(estimator, FrozenEstimator):
        return unwrap(estimator.estimator)
    inner = getattr(estimator, "best_estimator_", None)
    return estimator if inner is None else unwrap(inner)


def final_step(estimator: object) -> object:
    """Return the classifier in any wrappers, at the end of any pipelines."""
    inner = unwrap(estimator)
    return final_step(inner.steps[-1][1]) if isinstance(inner, Pipeline) else inner
