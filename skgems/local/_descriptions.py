# SPDX-License-Identifier: BSD-3-Clause
"""What a fitted classifier knows and says of rows, without a look at its weights."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, softmax
from sklearn.dummy import DummyClassifier

from ..base._aggregator import BaseAggregator, Federation
from ..networks import Network
from ..networks._kinds import final_step, is_skorch
from ..networks._linear import label_array


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
        Anything with ``classes_``, a skorch net, or a Network.
    name : str, default="estimator"
        Name of the node, for messages.

    Returns
    -------
    description : Description

    Raises
    ------
    TypeError
        If it has no ``classes_``.
    """
    if isinstance(estimator, Network):
        return Description(
            estimator.classes,
            estimator.seen,
            estimator.n_features_in,
            estimator.feature_names_in,
        )
    final = final_step(estimator)
    if is_skorch(final):
        classes, seen = _columns(final, name)
    elif hasattr(estimator, "classes_"):
        classes = label_array(estimator, name=name)
        seen = np.ones(len(classes), dtype=bool)
        if isinstance(final, DummyClassifier):
            seen = np.asarray(final.class_prior_) > 0
    else:
        raise TypeError(
            f"Node {name!r}: {type(estimator).__name__} has no classes_, so what its "
            "outputs stand for is not known; give a fitted classifier."
        )
    return Description(
        classes,
        seen,
        getattr(estimator, "n_features_in_", None),
        getattr(estimator, "feature_names_in_", None),
    )


def _columns(net, name):
    from ..networks._skorch import _labels
    from ._training_skorch import n_outputs

    outputs = n_outputs(net)
    if outputs == 1:
        return np.arange(2), np.ones(2, dtype=bool)
    return _labels(net, outputs, name)


def probabilities(estimator, X, description: Description, classes) -> np.ndarray:
    """What a classifier says of rows, one column for each of ``classes``.

    Parameters
    ----------
    estimator : fitted classifier
        Without ``predict_proba``, the softmax of its scores stands for it (the
        sigmoid, with two classes).
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows; of more dimensions where the classifier takes them.
    description : Description
        Of this classifier.
    classes : ndarray of shape (n_classes,)
        Sorted labels.

    Returns
    -------
    proba : ndarray of shape (n_samples, n_classes)
        Zero for classes the classifier has no output for. Rows sum to one, as long
        as the classifier has no outputs beyond ``classes``.
    """
    own = _own_probabilities(estimator, X)
    column = {label: c for c, label in enumerate(np.asarray(classes).tolist())}
    target = np.array([column.get(label, -1) for label in description.classes.tolist()])
    proba = np.zeros((own.shape[0], len(column)))
    proba[:, target[target >= 0]] = own[:, target >= 0]
    return proba


def to_logits(proba: np.ndarray) -> np.ndarray:
    """Logits, centred over classes, whose softmax are given probabilities.

    Parameters
    ----------
    proba : ndarray of shape (n_samples, n_classes)
        Zeros are allowed.

    Returns
    -------
    logits : ndarray of shape (n_samples, n_classes)
    """
    logits = np.log(np.maximum(proba, np.finfo(proba.dtype).tiny))
    return logits - logits.mean(axis=1, keepdims=True)


def _own_probabilities(estimator, X):
    if isinstance(estimator, Network):
        return softmax(estimator.decision_function(X), axis=1)
    net = final_step(estimator)
    if is_skorch(net):
        from ._training_skorch import as_input

        proba = np.asarray(estimator.predict_proba(as_input(net, X)), dtype=np.float64)
        return proba.reshape(len(proba), -1)
    with warnings.catch_warnings():
        # Names were compared when X was validated.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        X = _named(X, getattr(estimator, "feature_names_in_", None))
        if hasattr(estimator, "predict_proba"):
            return estimator.predict_proba(X)
        if hasattr(estimator, "decision_function"):
            scores = estimator.decision_function(X)
            if scores.ndim == 1:
                positive = expit(scores)
                return np.stack([1 - positive, positive], axis=1)
            return softmax(scores, axis=1)
        return (estimator.predict(X)[:, None] == estimator.classes_).astype(float)


def _named(X, names):
    # Steps may choose columns by name. Whoever fitted on names has imported pandas.
    pandas = sys.modules.get("pandas")
    if names is None or pandas is None or not isinstance(X, np.ndarray):
        return X
    return pandas.DataFrame(X, columns=names, copy=False)


class LightAggregator(BaseAggregator):
    """Base of aggregators that keep no copy of the local weights.

    No rows are held out in simulation, since none judge a model.
    """

    validation_fraction = 0.0
    _allow_nd = True

    _parameter_constraints: dict = {
        name: allowed
        for name, allowed in BaseAggregator._parameter_constraints.items()
        if name != "validation_fraction"
    }

    def _describe(self, names, members) -> list[Description]:
        found = [
            describe(member, name=name)
            for name, member in zip(names, members, strict=True)
        ]
        known = [d.n_features_in for d in found if d.n_features_in is not None]
        # Rows, where there are any, were read before.
        fallback = known[0] if known else getattr(self, "n_features_in_", None)
        return [
            replace(d, n_features_in=fallback) if d.n_features_in is None else d
            for d in found
        ]

    def _read(self, X=None, y=None, nodes=None) -> Federation:
        if X is None and hasattr(self, "n_features_in_"):
            del self.n_features_in_
        federation = self._read_federation(X, y, nodes)
        if self.n_features_in_ is None:
            del self.n_features_in_
        for node in federation.nodes:
            self._log(
                f"node {node.name}: {type(node.estimator).__name__}, "
                f"{int(node.seen.sum())} classes, {len(node.training_rows)} rows"
            )
        return federation
