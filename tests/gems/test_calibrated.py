# SPDX-License-Identifier: BSD-3-Clause
"""The factor on the logits of the last layers of networks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.gems import Moments, Spaces

N_NODES = 2
QUICK = GEMSLogisticAggregator(moments=Moments(n_components=1))


def rows(n_rows, seed):
    """Rows of three classes, a tenth of them with a label that is drawn anew."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_rows)
    X = rng.standard_normal((n_rows, 12))
    X[:, :3] += 3.0 * np.eye(3)[y]
    y = np.where(rng.random(n_rows) < 0.1, rng.integers(0, 3, n_rows), y)
    return X, y, np.arange(n_rows) % N_NODES


@pytest.fixture(scope="module")
def networks():
    X, y, nodes = rows(300, 0)
    return [
        MLPClassifier(
            (10,), solver="lbfgs", alpha=1.0, max_iter=5000, random_state=k
        ).fit(X[nodes == k], y[nodes == k])
        for k in range(N_NODES)
    ]


def fit(networks, n_rows=300, last_layer=QUICK, n_common_units=60, **fitting):
    X, y, nodes = rows(n_rows, 0)
    agg = GEMSMLPAggregator(
        networks,
        n_common_units=n_common_units,
        last_layer=last_layer,
        random_state=0,
    )
    return agg.fit(X, y, nodes=nodes, **fitting)


def logits_of(agg, X):
    log_proba = np.log(agg.predict_proba(X))
    return log_proba - log_proba.mean(axis=1, keepdims=True)


def uncalibrated_logits(agg, X):
    """Logits of the likeliest last layer for the nodes' sums, before any factor."""
    likelihood = agg.last_layer_.likelihood_
    W = likelihood.to_rows(likelihood.minimize(tol=1e-10))
    units = np.maximum(X @ agg.coefs_[0] + agg.intercepts_[0], 0.0)
    logits = units @ W[:-1] + W[-1]
    return logits - logits.mean(axis=1, keepdims=True)


def factor_of(agg, X):
    uncalibrated = uncalibrated_logits(agg, X)
    return np.vdot(logits_of(agg, X), uncalibrated) / np.vdot(
        uncalibrated, uncalibrated
    )


def best_factor(logits, y, *, per_factor=0.0):
    """The factor of the least sum of log-losses, and of so much for each factor."""

    def total(factor):
        loss = log_loss(y, softmax(factor * logits, axis=1), normalize=False)
        return loss + factor * per_factor

    return minimize_scalar(total, bounds=(0.05, 5.0)).x


@pytest.mark.parametrize("n_rows", [300, 120])
def test_the_factor_is_best_for_rows_less_what_parameters_gain(networks, n_rows):
    agg = fit(networks, n_rows)
    X, y, _ = rows(n_rows, 0)
    likelihood = agg.last_layer_.likelihood_
    n_parameters = likelihood.n_parameters(likelihood.minimize(tol=1e-10))
    logits = uncalibrated_logits(agg, X)
    of_rows = best_factor(logits, y)
    of_other_rows = best_factor(logits, y, per_factor=0.5 * n_parameters)
    expected = min(1.0, max(of_other_rows, 0.8 * of_rows))
    assert of_other_rows < 0.95 * of_rows
    assert factor_of(agg, X) == pytest.approx(expected, rel=0.02)


def test_probabilities_of_other_rows_are_better(networks):
    agg = fit(networks)
    X, y, _ = rows(4000, 1)
    logits = uncalibrated_logits(agg, X)
    before = log_loss(y, softmax(logits, axis=1))
    assert log_loss(y, agg.predict_proba(X)) < before - 0.01
    np.testing.assert_allclose(
        logits_of(agg, X), factor_of(agg, X) * logits, atol=0.05 * logits.std()
    )


def test_rows_that_are_held_out_have_the_best_factor_of_all(networks):
    held_out = np.arange(300) % 3 == 0
    agg = fit(networks, held_out=held_out)
    X, y, _ = rows(300, 0)
    best = best_factor(logits_of(agg, X[held_out]), y[held_out])
    assert best == pytest.approx(1.0, abs=0.02)
    rest = best_factor(logits_of(agg, X[~held_out]), y[~held_out])
    assert rest > 1.05


@pytest.mark.parametrize(
    "last_layer",
    [
        GEMSLogisticAggregator(C=1.0, moments=Moments(n_components=1)),
        GEMSLogisticAggregator(epsilon=0.1, spaces=Spaces(on_empty="ignore")),
    ],
)
def test_a_layer_that_the_user_bounds_is_left_as_it_is(networks, last_layer):
    agg = fit(networks, last_layer=last_layer, n_common_units=0)
    assert "evaluate" not in [entry["task"] for entry in agg.history_]
    if last_layer.C == 1.0:
        X, _, _ = rows(300, 0)
        assert factor_of(agg, X) == pytest.approx(1.0, abs=1e-3)


def test_it_takes_one_message(networks):
    agg = fit(networks)
    tasks = [entry["task"] for entry in agg.history_]
    assert tasks == ["neurons", "moments", "evaluate", "score"]
    assert agg._method().terms.most_requests(1)["evaluate"] == 1
    np.testing.assert_array_equal(agg.coefs_[-1].T, agg.last_layer_.coef_)
