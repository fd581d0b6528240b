# SPDX-License-Identifier: BSD-3-Clause
"""Fine-tuning of all layers: it learns, and goes no further than it helps."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from common_estimators import federated
from scipy import sparse
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.moments import log_losses
from skgems.networks import Layers
from skgems.tuning import fine_tune_network, train_layers
from skgems.tuning._network import SHARES


def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.RandomState(0).permutation(len(y))
    return X[order] / 16, y[order]


def layers_of(clf):
    """Layers with one column per class."""
    layers = Layers(clf.coefs_, clf.intercepts_, clf.activation)
    return layers.expanded(len(clf.classes_))


def network(X, y, activation="relu", hidden=(16,)):
    clf = MLPClassifier(hidden, activation=activation, alpha=0.1, random_state=0)
    return layers_of(clf.set_params(solver="lbfgs", max_iter=5000).fit(X, y))


def keeping(layers):
    """Fine-tuning of the last layer that leaves it as it is."""
    return lambda Z, y: layers.last


def tune(X, y, layers, **options):
    options = {"random_state": 0, "n_splits": 2, **options}
    return fine_tune_network(X, y, layers, keeping(layers), **options)


def mean_loss(X, y, layers):
    return log_losses(layers.logits(X), y)[0].mean()


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_it_learns_what_the_start_does_not_know(activation, n_classes):
    X, y = digits()
    X, y = X[y < n_classes], y[y < n_classes]
    wrong = np.roll(X, 9, axis=1)
    layers = network(wrong[:100], y[:100], activation)
    tuned = tune(X[100:200], y[100:200], layers)
    assert tuned.share > 0
    assert tuned.losses.shape == SHARES.shape
    before = mean_loss(X[200:], y[200:], layers)
    after = mean_loss(X[200:], y[200:], tuned.layers)
    assert after < 0.9 * before
    assert not np.array_equal(tuned.layers.coefs[0], layers.coefs[0])


@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("sureness", [0.3, 6.0])
def test_probabilities_are_calibrated(n_classes, sureness):
    X, y = digits()
    y = y % n_classes
    layers = network(X[:80], y[:80]).scaled(sureness)
    tuned = tune(X[80:380], y[80:380], layers)
    assert tuned.share > 0
    X, y = X[380:], y[380:]
    logits = tuned.layers.logits(X)
    gaps = []
    for scaled in (logits, logits / tuned.factor):
        probabilities = softmax(scaled, axis=1)
        accuracy = np.mean(probabilities.argmax(axis=1) == y)
        gaps.append(abs(probabilities.max(axis=1).mean() - accuracy))
    assert gaps[0] < min(0.05, gaps[1])


def test_it_leaves_the_network_where_training_would_lose():
    X, y = digits()
    layers = network(X[:1000], y[:1000])
    # Labels that have nothing to do with the rows.
    for seed in range(2):
        noise = np.random.RandomState(seed).randint(10, size=30)
        flat = layers.between(layers, 0.0)
        for array in (*flat.coefs, *flat.intercepts):
            array[...] = 0.0
        kept = tune(X[1000:1030], noise, flat, random_state=seed)
        assert mean_loss(X, y, kept.layers) < np.log(10) + 0.1
    # Rows that it knows already, far fewer than its weights.
    tuned = tune(X[1000:1040], y[1000:1040], layers)
    before, after = (
        mean_loss(X[1040:], y[1040:], each) for each in (layers, tuned.layers)
    )
    assert after < before + 0.05


def test_it_starts_where_the_last_layer_was_tuned():
    X, y = digits()
    layers = network(X[:500], y[:500])
    seen = []

    def tune_last(Z, labels):
        seen.append(len(labels))
        return layers.last * 0

    result = fine_tune_network(X[:50], y[:50], layers, tune_last)
    np.testing.assert_allclose(result.losses[0], np.log(10))
    # All rows once; each fold only its own.
    assert sorted(seen) == [40, 40, 40, 40, 40, 50]


def test_the_first_step_follows_the_gradient():
    X, y = digits()
    X, y = X[:60], y[:60]
    trained = network(X, y, "tanh", (5, 4))
    coefs = [0.5 * coef for coef in trained.coefs]
    start = Layers(coefs, trained.intercepts, trained.activation)
    # One batch, so one step: Adam's first has the sign of the gradient.
    X, y = X[:32], y[:32]
    new = train_layers(X, y, start, 1, 0).coefs
    for layer in range(3):
        for i, j in [(27, 0), (28, 1), (2, 3), (1, 2)]:
            i %= coefs[layer].shape[0]
            sides = []
            for delta in (1e-5, -1e-5):
                moved = [coef.copy() for coef in coefs]
                moved[layer][i, j] += delta
                sides.append(mean_loss(X, y, Layers(moved, start.intercepts, "tanh")))
            slope = (sides[0] - sides[1]) / 2e-5
            if abs(slope) > 1e-5:
                step = new[layer][i, j] - coefs[layer][i, j]
                assert np.sign(step) == -np.sign(slope)


def test_same_seed_same_result_whatever_the_rows_come_as():
    X, y = digits()
    layers = network(np.roll(X[:200], 9, axis=1), y[:200])
    one = tune(X[:80], y[:80], layers)
    again = tune(X[:80], y[:80], layers)
    thin = tune(sparse.csr_matrix(X[:80]), y[:80], layers)
    small = tune(X[:80].astype(np.float32), y[:80], layers)
    assert one.share == again.share == thin.share > 0
    found = [tuned.layers.coefs for tuned in (one, again, thin, small)]
    for a, b, c, d in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, atol=1e-8)
        assert d.dtype == a.dtype


@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_a_handful_of_rows(n_rows):
    X, y = digits()
    layers = network(X[:300], y[:300])
    tuned = tune(X[300 : 300 + n_rows], y[300 : 300 + n_rows], layers)
    assert all(np.isfinite(coef).all() for coef in tuned.layers.coefs)
    assert tuned.share == 0 or n_rows > 1


def locals_of(data):
    settings = {"solver": "lbfgs", "alpha": 0.1, "max_iter": 500}
    return [
        MLPClassifier((12,), random_state=k, **settings).fit(X, y)
        for k, (X, y) in enumerate(data.local_rows)
    ]


@pytest.mark.parametrize("fine_tuning", ["penalized", "plain"])
@pytest.mark.parametrize("kind", ["disjoint", "binary"])
def test_the_aggregator_tunes_all_layers(fine_tuning, kind):
    data = federated(kind)
    agg = GEMSMLPAggregator(
        locals_of(data),
        max_units=8,
        last_layer=GEMSLogisticAggregator(
            intersection="consensus", fine_tuning=fine_tuning
        ),
        random_state=0,
    ).fit(data.X, data.y, nodes=data.nodes)
    assert agg.fine_tuning_all_ is None
    public = data.X[::2], data.y[::2]
    last = copy.deepcopy(agg).fine_tune(*public)
    both = copy.deepcopy(agg).fine_tune(*public, layers="all")
    assert last.fine_tuning_all_ is None
    np.testing.assert_allclose(
        both.to_estimator().predict_proba(data.X_test),
        both.predict_proba(data.X_test),
        atol=1e-6,
    )
    if fine_tuning == "plain":
        assert both.fine_tuning_all_.n_epochs == 5
        return
    # No worse than the last layer alone, which is where it starts.
    X, y = data.X_test, data.y_test
    assert both.score(X, y) >= last.score(X, y) - 0.02
    if both.fine_tuning_all_.share == 0:
        np.testing.assert_array_equal(both.coefs_[-1], last.coefs_[-1])
    assert 0 <= both.fine_tuning_all_.share <= 1
    assert np.isfinite(both.fine_tuning_all_.losses).all()
