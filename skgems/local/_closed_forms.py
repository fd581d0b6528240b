"""Which classifiers are functions of sums over their rows.

Ridge regression, linear discriminant analysis and nearest centroids depend on their
rows only by counts, means and scatter of classes. Sums of several nodes add up, so that
the classifier of all rows at one place can be made of them, exactly.

A *form* says how: a dict for JSON with the ``kind`` of such a classifier and its
parameters, or with the ``reason`` why a classifier is no function of sums. The server
compares the forms of all nodes.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import Pipeline

from ..networks import Network, final_step, unwrap

# Reasons why sums are not of all rows as they are, whatever the classifier is.
LEFT_OUT = "a class with too few rows to be in sums (min_rows)"
WITHHELD = "sums in which the rule of disclosure withholds something"


def closed_form(estimator: object, classes: ArrayLike | None = None) -> dict:
    """The form of a classifier.

    Parameters
    ----------
    estimator : object
        Of any kind, fitted or not.
    classes : array-like of shape (n_classes,) or None, default=None
        The labels that its ``priors`` belong to; None: its own ``classes_``.
    """
    classifier = final_step(estimator)
    name = type(classifier).__name__
    if isinstance(classifier, Network) and not classifier.has_classifier:
        return {"reason": "there is no classifier"}
    # Not its subclasses, which may do otherwise.
    read_form = _READERS.get(type(classifier))
    if read_form is None:
        return {"reason": f"{name} is not a function of sums"}
    if has_steps(estimator):
        return {
            "reason": f"{name} has steps of a pipeline, fitted at the node, before it"
        }
    return read_form(classifier, classes)


def has_steps(estimator: object) -> bool:
    """Report whether a classifier is in a pipeline, after steps that change rows."""
    pipeline = unwrap(estimator)
    if not isinstance(pipeline, Pipeline):
        return False
    *transformers, last = [step for _, step in pipeline.steps]
    changes_rows = any(step not in (None, "passthrough") for step in transformers)
    return changes_rows or has_steps(last)


def _ridge_form(classifier: RidgeClassifier, classes: ArrayLike | None) -> dict:
    if classifier.positive:
        return {"reason": "RidgeClassifier has positive=True"}
    if np.size(classifier.alpha) != 1:
        return {"reason": "RidgeClassifier has an alpha for each output"}
    return {
        "kind": "ridge",
        "alpha": float(np.ravel(classifier.alpha)[0]),
        "fit_intercept": bool(classifier.fit_intercept),
        "class_weight": as_class_weight(classifier.class_weight),
    }


def _lda_form(
    classifier: LinearDiscriminantAnalysis, classes: ArrayLike | None
) -> dict:
    if classifier.covariance_estimator is not None:
        return {"reason": "LinearDiscriminantAnalysis has a covariance_estimator"}
    shrinkage = classifier.shrinkage
    if isinstance(shrinkage, str):
        return {"reason": f"LinearDiscriminantAnalysis has shrinkage={shrinkage!r}"}
    priors = _priors_by_label(classifier, classes)
    if classifier.solver == "svd":
        tol = float(classifier.tol)
        return {"kind": "lda", "solver": "svd", "priors": priors, "tol": tol}
    # "lsqr" and "eigen" solve the same equations.
    return {
        "kind": "lda",
        "solver": "lsqr",
        "shrinkage": float(shrinkage) if shrinkage else None,
        "priors": priors,
    }


def _nearest_centroid_form(
    classifier: NearestCentroid, classes: ArrayLike | None
) -> dict:
    if classifier.metric != "euclidean":
        return {"reason": f"NearestCentroid has metric={classifier.metric!r}"}
    threshold = classifier.shrink_threshold
    return {
        "kind": "nearest_centroid",
        "shrink_threshold": None if threshold is None else float(threshold),
        "priors": _priors_by_label(classifier, classes),
    }


def _priors_by_label(
    classifier: LinearDiscriminantAnalysis | NearestCentroid,
    classes: ArrayLike | None,
) -> list | str | None:
    """Pairs of a label and its prior; None or a word as the classifier has it."""
    priors = classifier.priors
    if priors is None or isinstance(priors, str):
        return priors
    labels = classifier.classes_ if classes is None else classes
    probabilities = np.asarray(priors, dtype=float)
    if probabilities.shape != (len(labels),):
        raise ValueError(
            f"{type(classifier).__name__} has priors of shape {probabilities.shape}, "
            f"but there are {len(labels)} classes. Give one prior for each class."
        )
    return _sorted_pairs(labels.tolist(), probabilities.tolist())


def as_class_weight(class_weight: Mapping | str | None) -> str | list | None:
    """A parameter `class_weight` for JSON: "balanced", or pairs of label and weight."""
    if not isinstance(class_weight, dict) or not class_weight:
        return class_weight or None
    labels = np.asarray(list(class_weight)).tolist()
    return _sorted_pairs(labels, [float(weight) for weight in class_weight.values()])


def _sorted_pairs(labels: list, numbers: list) -> list:
    """Pairs of a label and its number, in one order: equal pairs are equal lists."""
    return sorted([label, n] for label, n in zip(labels, numbers, strict=True))


_READERS: Mapping[type, Callable[..., dict]] = {
    RidgeClassifier: _ridge_form,
    LinearDiscriminantAnalysis: _lda_form,
    NearestCentroid: _nearest_centroid_form,
}
