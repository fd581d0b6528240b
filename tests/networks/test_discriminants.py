# SPDX-License-Identifier: BSD-3-Clause
"""Weights that rounding makes of constant features are left out of discriminants."""

from __future__ import annotations

import contextlib

import joblib
import numpy as np
import pytest
from helpers.classifiers import LABELS, rows_of_classes
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from skgems.networks import read_network

CONSTANTS = np.array([0.1, -3.7, 1 / 3, 1e5 / 7])


def with_constants(n_classes, dtype, apart=0.0):
    """Rows whose last features are constant, but no numbers that are kept exactly."""
    X, y = rows_of_classes(n_classes)
    X = X[:113]  # so that classes have odd sizes
    y = y[:113]
    X = X + apart * (y[:, None] == LABELS[np.arange(7) % 4])
    constants = np.broadcast_to(CONSTANTS, (len(X), 4))
    return np.hstack([X, constants]).astype(dtype), y


def made_of_rounding(X, y, ulps):
    """A discriminant as fitting may leave it, with features divided by mere rounding.

    Constant features have a deviation that is rounding, and large weights for it. As
    rounding differs between machines, it is put in by hand: means of classes are
    ``ulps`` last places apart in these features.
    """
    model = LinearDiscriminantAnalysis().fit(X[:, :-4], y)
    rng = np.random.RandomState(0)
    eps = np.finfo(X.dtype).eps
    shape = (len(model.means_), 4)
    means = X[0, -4:] * (1 + ulps * eps * rng.choice([-1, 0, 1], shape))
    model.means_ = np.hstack([model.means_, means.astype(X.dtype)])
    model.xbar_ = model.priors_ @ model.means_
    signs = rng.choice([-1.0, 1.0], (4, model.scalings_.shape[1]))
    large = signs / (eps * np.abs(X[0, -4:, None]))
    model.scalings_ = np.vstack([model.scalings_, large]).astype(X.dtype)
    scores = (model.means_ - model.xbar_) @ model.scalings_
    coef = scores @ model.scalings_.T
    intercept = np.log(model.priors_) - 0.5 * np.sum(scores**2, axis=1)
    intercept -= coef @ model.xbar_
    if len(coef) == 2:
        coef = np.diff(coef, axis=0)
        intercept = np.diff(intercept)
    model.coef_ = coef.astype(X.dtype)
    model.intercept_ = intercept.astype(X.dtype)
    model.n_features_in_ += 4
    return model


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_weights_of_constant_features_made_of_rounding_are_left_out(n_classes, dtype):
    X, y = with_constants(n_classes, dtype, apart=10.0)
    plain = LinearDiscriminantAnalysis().fit(X[:, :-4], y)
    model = made_of_rounding(X, y, ulps=0.5)
    before = joblib.hash(model)
    assert np.abs(model.coef_).max() > 1e-3 / np.finfo(dtype).eps
    for copy in (True, False):
        network = read_network(model, copy=copy)
        assert network.coefs[0].dtype == dtype
        assert np.abs(network.coefs[0]).max() < 100
        assert np.abs(network.coefs[0][-4:]).max() < 0.01
        labels = network.classes[network.decision_function(X).argmax(axis=1)]
        assert np.mean(labels == plain.predict(X[:, :-4])) > 0.95
    assert joblib.hash(model) == before


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_what_this_machine_makes_of_constants_is_left_out_or_an_error(n_classes, dtype):
    X, y = with_constants(n_classes, dtype, apart=10.0)
    plain = LinearDiscriminantAnalysis().fit(X[:, :-4], y)
    model = LinearDiscriminantAnalysis().fit(X, y)
    with contextlib.suppress(ValueError):
        network = read_network(model)
        assert np.abs(network.coefs[0]).max() < 100
        labels = network.classes[network.decision_function(X).argmax(axis=1)]
        assert np.mean(labels == plain.predict(X[:, :-4])) > 0.95


def test_discriminants_without_rounding_are_read_to_the_bit():
    X, y = rows_of_classes(3)
    X[:, 0] += 1e6  # far from zero, but it varies
    X = np.hstack([X, np.ones((len(X), 1))])  # constant, exactly
    model = LinearDiscriminantAnalysis().fit(X, y)
    np.testing.assert_array_equal(read_network(model).coefs[0], model.coef_.T)


def test_discriminants_that_rounding_outweighs_are_an_error():
    X, y = with_constants(4, np.float64)
    model = made_of_rounding(X, y, ulps=3)
    with pytest.raises(ValueError, match=r"Node 'ward': scalings_ .* \[7.*shrinkage"):
        read_network(model, name="ward")


def test_features_constant_within_classes_are_an_error():
    X, y = rows_of_classes(3)
    last_feature = {"cat": 0.1, "dog": 0.3, "eel": 0.7}
    X = np.hstack([X, [[last_feature[label]] for label in y]])
    model = LinearDiscriminantAnalysis().fit(X, y)
    with pytest.raises(ValueError, match=r"Node 'ward': scalings_ .* \[7\].*shrinkage"):
        read_network(model, name="ward")
