# SPDX-License-Identifier: BSD-3-Clause
"""Arrays written as scikit-learn estimators predict what the arrays say."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skgems.networks import (
    Layers,
    read_network,
    to_logistic_regression,
    to_mlp_classifier,
)

# Labels of two and of three classes.
LABELS = {2: np.array(["no", "yes"]), 3: np.array([2, 5, 7])}
ACTIVATIONS = {
    "relu": lambda Z: np.maximum(Z, 0),
    "tanh": np.tanh,
    "logistic": lambda Z: 1 / (1 + np.exp(-Z)),
    "identity": lambda Z: Z,
}


def layers(sizes, dtype=np.float64):
    """Weights and biases between layers of these sizes."""
    rng = np.random.RandomState(0)
    pairs = list(zip(sizes[:-1], sizes[1:], strict=True))
    coefs = [rng.randn(n_in, n_out).astype(dtype) for n_in, n_out in pairs]
    intercepts = [rng.randn(n_out).astype(dtype) for _, n_out in pairs]
    return coefs, intercepts


def rows(dtype=np.float64):
    return np.random.RandomState(1).randn(30, 5).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_regression_predicts_what_the_arrays_say(n_classes, dtype):
    (coef,), (intercept,) = layers([5, n_classes], dtype)
    X = rows(dtype)
    classes = LABELS[n_classes]
    estimator = to_logistic_regression(coef.T, intercept, classes)
    check_is_fitted(estimator)
    assert estimator.coef_.shape == (1 if n_classes == 2 else n_classes, 5)
    assert estimator.coef_.dtype == dtype
    assert estimator.n_features_in_ == 5
    logits = X @ coef + intercept
    expected = logits[:, 1] - logits[:, 0] if n_classes == 2 else logits
    scores = estimator.decision_function(X)
    assert scores.dtype == dtype
    # Of float32.
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-6)
    probabilities = softmax(logits, 1)
    for rows_of_any_form in (X, sparse.csr_matrix(X)):
        np.testing.assert_allclose(
            estimator.predict_proba(rows_of_any_form),
            probabilities,
            rtol=1e-4,
            atol=1e-6,
        )
    assert np.all(estimator.predict(X) == classes[logits.argmax(axis=1)])


def assert_is_a_plain_estimator(estimator, X, y):
    """It can be pickled, and its clone is not fitted but can be."""
    unpickled = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(
        unpickled.predict_proba(X), estimator.predict_proba(X)
    )
    unfitted = clone(estimator)
    assert unfitted.get_params() == estimator.get_params()
    with pytest.raises(NotFittedError):
        check_is_fitted(unfitted)
    unfitted.fit(X, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_regression_that_is_written_is_plain_and_a_copy(n_classes, dtype):
    (coef,), (intercept,) = layers([5, n_classes], dtype)
    X = rows(dtype)
    estimator = to_logistic_regression(coef.T, intercept, LABELS[n_classes])
    y = LABELS[n_classes][np.arange(len(X)) % n_classes]
    assert_is_a_plain_estimator(estimator, X, y)
    before = estimator.predict_proba(X)
    coef[:] = 0
    np.testing.assert_array_equal(estimator.predict_proba(X), before)


def test_logistic_regression_that_is_written_can_be_read_with_its_names():
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
def test_shapes_that_do_not_fit_a_logistic_regression_are_errors(
    coef, intercept, classes, message
):
    with pytest.raises(ValueError, match=message):
        to_logistic_regression(coef, intercept, classes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("hidden", [(), (4,), (4, 6)])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_mlp_classifier_predicts_what_the_arrays_say(
    activation, hidden, n_classes, dtype
):
    coefs, intercepts = layers([5, *hidden, n_classes], dtype)
    X = rows(dtype)
    classes = LABELS[n_classes]
    estimator = to_mlp_classifier(Layers(coefs, intercepts, activation), classes)
    check_is_fitted(estimator)
    network = read_network(estimator)
    assert network.activation == (activation,) * len(hidden)
    Z = X
    for i in range(len(hidden)):
        Z = ACTIVATIONS[activation](Z @ coefs[i] + intercepts[i])
    logits = Z @ coefs[-1] + intercepts[-1]
    probabilities = estimator.predict_proba(X)
    assert probabilities.dtype == dtype
    np.testing.assert_allclose(probabilities, softmax(logits, 1), rtol=1e-3, atol=1e-6)
    assert np.all(estimator.predict(X) == classes[logits.argmax(axis=1)])
    np.testing.assert_allclose(
        estimator.predict_proba(sparse.csr_matrix(X)), probabilities, rtol=1e-4
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("activation", "hidden", "n_classes", "dtype"),
    [
        ("identity", (), 2, np.float64),
        ("relu", (4,), 2, np.float32),
        ("tanh", (4,), 3, np.float64),
        ("logistic", (4, 6), 3, np.float32),
    ],
)
def test_mlp_classifier_that_is_written_is_plain_and_a_copy(
    activation, hidden, n_classes, dtype
):
    coefs, intercepts = layers([5, *hidden, n_classes], dtype)
    X = rows(dtype)
    classes = LABELS[n_classes]
    estimator = to_mlp_classifier(Layers(coefs, intercepts, activation), classes)
    y = classes[np.arange(len(X)) % n_classes]
    assert_is_a_plain_estimator(estimator, X, y)
    before = estimator.predict_proba(X)
    coefs[0][:] = 0
    np.testing.assert_array_equal(estimator.predict_proba(X), before)


def test_mlp_classifier_can_be_trained_further():
    coefs, intercepts = layers([5, 4, 3])
    X = rows()
    y = LABELS[3][np.arange(30) % 3]
    estimator = to_mlp_classifier(Layers(coefs, intercepts, "relu"), LABELS[3])
    estimator.partial_fit(X, y)
    largest_change = np.abs(estimator.coefs_[0] - coefs[0]).max()
    assert 0 < largest_change < 0.01


def test_mlp_classifier_of_two_classes_may_have_one_column():
    coefs, intercepts = layers([5, 4, 1])
    estimator = to_mlp_classifier(Layers(coefs, intercepts, "tanh"), LABELS[2])
    np.testing.assert_array_equal(estimator.coefs_[1], coefs[1])


def test_layers_that_do_not_fit_an_mlp_classifier_are_errors():
    coefs, intercepts = layers([5, 4, 4, 3])
    with pytest.raises(ValueError, match="one activation for all hidden layers"):
        to_mlp_classifier(Layers(coefs, intercepts, ("relu", "tanh")), LABELS[3])
    with pytest.raises(ValueError, match="last layer of 1 columns, got 3"):
        to_mlp_classifier(Layers(coefs, intercepts, "relu"), LABELS[2])
    with pytest.raises(ValueError, match="at least two classes"):
        to_mlp_classifier(Layers(coefs, intercepts, "relu"), ["a"])
