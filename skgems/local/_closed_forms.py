"""Which classifiers are functions of sums over their rows."""

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import Pipeline

from ..networks import Network, final_step, unwrap


def closed_form(estimator, classes=None) -> dict:
    """A classifier as a function of sums over its rows, or the ``reason`` why none."""
    own, name = final_step(estimator), type(final_step(estimator)).__name__
    if isinstance(own, Network) and not own.has_classifier:
        return {"reason": "there is no classifier"}
    # Not its subclasses, which may do otherwise.
    read = _FORMS.get(type(own))
    if read is None:
        return {"reason": f"{name} is not a function of sums"}
    steps = "steps of a pipeline, fitted at the node, before it"
    form = steps if has_steps(estimator) else read(own, classes)
    return {"reason": f"{name} has {form}"} if isinstance(form, str) else form


def has_steps(estimator) -> bool:
    own = unwrap(estimator)
    if not isinstance(own, Pipeline):
        return False
    *before, last = [step for _, step in own.steps]
    return any(step not in (None, "passthrough") for step in before) or has_steps(last)


def _ridge(own: RidgeClassifier, classes) -> dict | str:
    if own.positive:
        return "positive=True"
    if np.size(own.alpha) != 1:
        return "an alpha for each output"
    form = {"kind": "ridge", "alpha": float(np.ravel(own.alpha)[0])}
    form |= {"fit_intercept": bool(own.fit_intercept)}
    return form | {"class_weight": as_class_weight(own.class_weight)}


def _lda(own: LinearDiscriminantAnalysis, classes) -> dict | str:
    if own.covariance_estimator is not None:
        return "a covariance_estimator"
    if isinstance(own.shrinkage, str):
        return f"shrinkage={own.shrinkage!r}"
    priors = _of_classes(own.priors, own, classes)
    if own.solver == "svd":
        return {"kind": "lda", "solver": "svd", "priors": priors, "tol": float(own.tol)}
    # Both solve the same equations.
    shrinkage = float(own.shrinkage) if own.shrinkage else None
    return {"kind": "lda", "solver": "lsqr", "shrinkage": shrinkage, "priors": priors}


def _nearest_centroid(own: NearestCentroid, classes) -> dict | str:
    if own.metric != "euclidean":
        return f"metric={own.metric!r}"
    least, priors = own.shrink_threshold, _of_classes(own.priors, own, classes)
    least = None if least is None else float(least)
    return {"kind": "nearest_centroid", "shrink_threshold": least, "priors": priors}


def _of_classes(priors, own, classes) -> list | str | None:
    if priors is None or isinstance(priors, str):
        return priors
    labels = own.classes_ if classes is None else classes
    values = np.asarray(priors, dtype=float)
    if values.shape != (len(labels),):
        found = f"priors of shape {values.shape}, but there are {len(labels)} classes"
        raise ValueError(f"{type(own).__name__} has {found}.")
    return _pairs(labels.tolist(), values.tolist())


def as_class_weight(given) -> str | list | None:
    if not isinstance(given, dict) or not given:
        return given or None
    labels = np.asarray(list(given)).tolist()
    return _pairs(labels, [float(value) for value in given.values()])


def weights_of(given: list, labels) -> np.ndarray:
    known = dict(given)
    return np.array([known.get(label, 1.0) for label in np.asarray(labels).tolist()])


def _pairs(labels: list, values: list) -> list:
    """In one order, so that equal pairs are equal lists."""
    return sorted([label, value] for label, value in zip(labels, values, strict=True))


_FORMS = {
    RidgeClassifier: _ridge,
    LinearDiscriminantAnalysis: _lda,
    NearestCentroid: _nearest_centroid,
}
