# SPDX-License-Identifier: BSD-3-Clause
"""Arrays written as scikit-learn estimators predict what the arrays say."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skgems.networks import (
    Layers,
    read_network,
    to_logistic_regression,
    to_mlp_classifier,
)

LABELS = {2: np.array(["no", "yes"]), 3: np.array([2, 5, 7])}


def layers(sizes, dtype=np.float64):
    rng = np.random.RandomState(0)
    coefs = [rng.randn(a, b).astype(dtype) for a, b in zip(sizes, sizes[1:])]  # noqa: B905
    return coefs, [rng.randn(b).astype(dtype) for b in sizes[1:]]


def rows(dtype=np.float64):
    return np.random.RandomState(1).randn(30, 5).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_regression(n_classes, dtype):
    (coef,), (intercept,) = layers([5, n_classes], dtype)
    X, classes = rows(dtype), LABELS[n_classes]
    estimator = to_logistic_regression(coef.T, intercept, classes)
    logits = X @ coef + intercept
    expected = logits[:, 1] - logits[:, 0] if n_classes == 2 else logits
    check_is_fitted(estimator)
    tolerance = {"rtol": 1e-4, "atol": 1e-6}
    scores = estimator.decision_function(X)
    assert scores.dtype == dtype
    np.testing.assert_allclose(scores, expected, **tolerance)
    probabilities = estimator.predict_proba(X)
    np.testing.assert_allclose(probabilities, softmax(logits, 1), **tolerance)
    assert np.all(estimator.predict(X) == classes[logits.argmax(axis=1)])
    assert estimator.coef_.shape == (1 if n_classes == 2 else n_classes, 5)
    assert estimator.coef_.dtype == dtype
    assert estimator.n_features_in_ == 5
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(again.predict_proba(X), probabilities)
    np.testing.assert_allclose(
        estimator.predict_proba(sparse.csr_matrix(X)), probabilities, **tolerance
    )
    assert not hasattr(clone(estimator), "coef_")
    clone(estimator).fit(X, classes[np.arange(len(X)) % n_classes])
    coef[:] = 0  # a copy
    np.testing.assert_array_equal(estimator.predict_proba(X), probabilities)


def test_logistic_regression_round_trip_and_names():
    (coef,), (intercept,) = layers([5, 3])
    names = list("abcde")
    estimator = to_logistic_regression(
        coef.T, intercept, LABELS[3], feature_names_in=names
    )
    network = read_network(estimator)
    np.testing.assert_array_equal(network.coefs[0], coef)
    np.testing.assert_array_equal(network.intercepts[0], intercept)
    assert network.output == "softmax"
    assert network.feature_names_in.tolist() == names
    binary = to_logistic_regression(coef.T[:1], intercept[:1], LABELS[2])
    np.testing.assert_array_equal(binary.coef_, coef.T[:1])


@pytest.mark.parametrize(
    ("coef", "intercept", "classes", "message"),
    [
        (np.ones((5, 3)), np.ones(3), [1, 2, 3], r"coef of shape \(3, n_features\)"),
        (np.ones((3, 5)), np.ones(1), [1, 2, 3], r"intercept of shape \(3,\)"),
        (np.ones((3, 5)), np.ones(3), [1, 2], r"coef of shape \(1, n_features\)"),
        (np.ones((1, 5)), np.ones(1), [1], "at least two classes"),
    ],
)
def test_logistic_regression_that_does_not_fit(coef, intercept, classes, message):
    with pytest.raises(ValueError, match=message):
        to_logistic_regression(coef, intercept, classes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("hidden", [(), (4,), (4, 6)])
@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
def test_mlp_classifier(activation, hidden, n_classes, dtype):
    coefs, intercepts = layers([5, *hidden, n_classes], dtype)
    X, classes = rows(dtype), LABELS[n_classes]
    estimator = to_mlp_classifier(Layers(coefs, intercepts, activation), classes)
    check_is_fitted(estimator)
    network = read_network(estimator)
    assert network.activation == (activation,) * len(hidden) or not hidden
    logits = network.decision_function(X)
    Z = X
    for i in range(len(hidden)):
        Z = Z @ coefs[i] + intercepts[i]
        Z = {
            "relu": lambda Z: np.maximum(Z, 0),
            "tanh": np.tanh,
            "logistic": lambda Z: 1 / (1 + np.exp(-Z)),
            "identity": lambda Z: Z,
        }[activation](Z)
    logits = Z @ coefs[-1] + intercepts[-1]
    probabilities = estimator.predict_proba(X)
    np.testing.assert_allclose(probabilities, softmax(logits, 1), rtol=1e-3, atol=1e-6)
    assert probabilities.dtype == dtype
    assert np.all(estimator.predict(X) == classes[logits.argmax(axis=1)])
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(again.predict_proba(X), probabilities)
    np.testing.assert_allclose(
        estimator.predict_proba(sparse.csr_matrix(X)), probabilities, rtol=1e-4
    )
    assert clone(estimator).get_params() == estimator.get_params()
    assert not hasattr(clone(estimator), "coefs_")
    coefs[0][:] = 0  # a copy
    np.testing.assert_array_equal(estimator.predict_proba(X), probabilities)


def test_mlp_classifier_can_be_trained_further():
    coefs, intercepts = layers([5, 4, 3])
    X, y = rows(), LABELS[3][np.arange(30) % 3]
    estimator = to_mlp_classifier(Layers(coefs, intercepts, "relu"), LABELS[3])
    estimator.partial_fit(X, y)
    largest_change = np.abs(estimator.coefs_[0] - coefs[0]).max()
    assert 0 < largest_change < 0.01


def test_mlp_classifier_with_one_column_for_two_classes():
    coefs, intercepts = layers([5, 4, 1])
    estimator = to_mlp_classifier(Layers(coefs, intercepts, "tanh"), LABELS[2])
    np.testing.assert_array_equal(estimator.coefs_[1], coefs[1])


def test_mlp_classifier_that_does_not_fit():
    coefs, intercepts = layers([5, 4, 4, 3])
    with pytest.raises(ValueError, match="one activation for all hidden layers"):
        to_mlp_classifier(Layers(coefs, intercepts, ("relu", "tanh")), LABELS[3])
    with pytest.raises(ValueError, match="last layer of 1 columns, got 3"):
        to_mlp_classifier(Layers(coefs, intercepts, "relu"), LABELS[2])
    with pytest.raises(ValueError, match="at least two classes"):
        to_mlp_classifier(Layers(coefs, intercepts, "relu"), ["a"])
