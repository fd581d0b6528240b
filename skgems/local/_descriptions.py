# SPDX-License-Identifier: BSD-3-Clause
"""What a fitted classifier knows and says of rows, without a look at its weights."""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax
from sklearn.utils.multiclass import _ovr_decision_function

from ..networks import Network, final_step, is_constant, label_array


@dataclass(frozen=True)
class Description:
    """The classes and features of a fitted classifier.

    Attributes
    ----------
    classes : ndarray of shape (n_outputs,)
        The label of each column of its probabilities.
    seen : ndarray of shape (n_outputs,), dtype bool
        Which of these it was fitted on.
    n_features_in : int or None
        None where it does not say.
    feature_names_in : ndarray of shape (n_features_in,) or None
    """

    classes: np.ndarray
    seen: np.ndarray
    n_features_in: int | None
    feature_names_in: np.ndarray | None


def describe(estimator, *, name: str = "estimator") -> Description:
    """Describe a fitted classifier of any kind.

    Parameters
    ----------
    estimator : fitted classifier
        Anything with ``classes_``, or a Network.
    name : str, default="estimator"
        Name of the node, for messages.

    Returns
    -------
    description : Description

    Raises
    ------
    TypeError
        If it has no ``classes_``.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skgems.local import describe
    >>> describe(DecisionTreeClassifier().fit([[0.0], [1.0]], ["a", "b"])).n_features_in
    1
    """
    if isinstance(estimator, Network):
        return Description(
            estimator.classes,
            estimator.seen,
            estimator.n_features_in,
            estimator.feature_names_in,
        )
    if not hasattr(estimator, "classes_"):
        raise TypeError(
            f"Node {name!r}: {type(estimator).__name__} has no classes_, so what its "
            "outputs stand for is not known; give a fitted classifier."
        )
    classes = label_array(estimator, name=name)
    seen = np.ones(len(classes), dtype=bool)
    prior = getattr(final_step(estimator), "class_prior_", None)
    if prior is not None and is_constant(final_step(estimator)):
        seen = np.asarray(prior) > 0
    return Description(
        classes,
        seen,
        getattr(estimator, "n_features_in_", None),
        getattr(estimator, "feature_names_in_", None),
    )


def own_probabilities(estimator, X) -> np.ndarray:
    """What a fitted classifier of scikit-learn's kind, or a Network, says of rows.

    Parameters
    ----------
    estimator : fitted classifier
        Without a ``predict_proba`` of one column per class, the softmax of its scores
        stands for it (the sigmoid, with two classes), where there is one for each
        class; scores of pairs of classes are turned into such. Without, what it
        predicts.
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows.

    Returns
    -------
    proba : ndarray of shape (n_samples, n_own_classes)
    """
    if isinstance(estimator, Network):
        return softmax(estimator.decision_function(X), axis=1)
    with _as_it_was_fitted(estimator, X) as X:
        if hasattr(estimator, "predict_proba"):
            proba = np.asarray(estimator.predict_proba(X))
            if proba.shape[1:] == (len(estimator.classes_),):
                return proba
        scores = None
        if hasattr(estimator, "decision_function"):
            scores = _class_scores(estimator, X)
        if scores is None:
            predicted = np.asarray(estimator.predict(X)).reshape(-1, 1)
            return (predicted == estimator.classes_).astype(float)
    check_told(scores, "scores")
    if scores.ndim == 1:
        positive = expit(scores)
        return np.stack([1 - positive, positive], axis=1)
    return softmax(scores, axis=1)


def check_told(values: np.ndarray, what: str) -> None:
    """Raise ValueError unless what a classifier says of rows is finite."""
    finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"its {what} are not finite (NaN or infinity) for {np.sum(~finite)} of "
            f"{len(finite)} rows; fit this model again."
        )


def own_predictions(estimator, X) -> np.ndarray:
    """Labels that a fitted classifier of scikit-learn's kind, or a Network, predicts.

    Parameters
    ----------
    estimator : fitted classifier
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows.

    Returns
    -------
    labels : ndarray of shape (n_samples,)
    """
    if isinstance(estimator, Network):
        return estimator.classes[np.argmax(estimator.decision_function(X), axis=1)]
    with _as_it_was_fitted(estimator, X) as X:
        return np.asarray(estimator.predict(X)).ravel()


def _class_scores(estimator, X) -> np.ndarray | None:
    """Scores of rows, one for each class (one column for two); None where others."""
    scores = np.asarray(estimator.decision_function(X))
    n_classes = len(estimator.classes_)
    if n_classes == 2 and scores.size == len(scores):
        return scores.ravel()
    n_pairs = n_classes * (n_classes - 1) // 2
    if scores.shape[1:] == (n_pairs,) and n_classes > 2 and _scores_pairs(estimator):
        # As scikit-learn itself does for decision_function_shape="ovr".
        return _ovr_decision_function(scores < 0, -scores, n_classes)
    return scores if scores.shape[1:] == (n_classes,) else None


def _scores_pairs(estimator) -> bool:
    """Whether a support vector machine inside scores pairs of classes."""
    while True:
        estimator = final_step(estimator)
        shape = getattr(estimator, "decision_function_shape", None)
        inner = getattr(estimator, "estimator_", None)
        if shape is not None or inner is None:
            return shape == "ovo"
        estimator = inner


def to_logits(proba: np.ndarray) -> np.ndarray:
    """Logits, centred over classes, whose softmax are given probabilities.

    Parameters
    ----------
    proba : ndarray of shape (n_samples, n_classes)
        Zeros are allowed.

    Returns
    -------
    logits : ndarray of shape (n_samples, n_classes)

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.local import to_logits
    >>> to_logits(np.array([[0.5, 0.5]]))
    array([[0., 0.]])
    """
    logits = np.log(np.maximum(proba, np.finfo(proba.dtype).tiny))
    return logits - logits.mean(axis=1, keepdims=True)


@contextmanager
def _as_it_was_fitted(estimator, X):
    """Rows with the names of columns that a classifier was fitted on, if any."""
    with warnings.catch_warnings():
        # Names were compared when X was validated.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield _named(X, getattr(estimator, "feature_names_in_", None))


def _named(X, names):
    # Steps may choose columns by name. Whoever fitted on names has imported pandas.
    pandas = sys.modules.get("pandas")
    if names is None or pandas is None or not isinstance(X, np.ndarray):
        return X
    return pandas.DataFrame(X, columns=names, copy=False)


def places(labels, classes) -> np.ndarray:
    """Place of each label among some classes, -1 where it has none.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
    classes : array-like of shape (n_classes,)

    Returns
    -------
    places : ndarray of shape (n_samples,), int

    Examples
    --------
    >>> from skgems.local import places
    >>> places(["b", "x", "b"], ["a", "b"])
    array([ 1, -1,  1])
    """
    place = {label: c for c, label in enumerate(np.asarray(classes).tolist())}
    found, index = np.unique(np.asarray(labels), return_inverse=True)
    own = np.array([place.get(label, -1) for label in found.tolist()], dtype=int)
    return own[index.ravel()]
