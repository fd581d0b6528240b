# SPDX-License-Identifier: BSD-3-Clause
"""Fine-tuning of all layers: it learns, and goes no further than it helps."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers.estimators import federated
from helpers.fitted import once
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.moments import log_losses
from skgems.networks import Coordinates, Layers
from skgems.tuning import (
    _network,
    fine_tune_network,
    fit_inverse_temperature,
    train_plainly,
)
from skgems.tuning._network import NETWORK_STRENGTHS, best_if_sure
from skgems.tuning._penalised import TIE


@once
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.RandomState(0).permutation(len(y))
    return X[order] / 16, y[order]


def halfway(layers, other):
    """Layers whose weights lie in the middle of those of two."""
    a, b = ((*own.coefs, *own.intercepts) for own in (layers, other))
    arrays = [
        first + 0.5 * (second - first) for first, second in zip(a, b, strict=True)
    ]
    depth = len(layers.coefs)
    return Layers(arrays[:depth], arrays[depth:], layers.activation)


def layers_of(clf):
    """Layers with one column per class."""
    layers = Layers(clf.coefs_, clf.intercepts_, clf.activation)
    return layers.expanded(len(clf.classes_))


@once
def network(X, y, activation="relu", hidden=(16,)):
    clf = MLPClassifier(hidden, activation=activation, alpha=0.1, random_state=0)
    return layers_of(clf.set_params(solver="lbfgs", max_iter=5000).fit(X, y))


def tune(X, y, layers, **options):
    options = {"random_state": 0, "n_splits": 2, **options}
    return fine_tune_network(X, y, layers, **options)


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
    assert np.isfinite(tuned.strengths).any()
    assert tuned.losses.shape == (2, len(NETWORK_STRENGTHS) + 1)
    before = mean_loss(X[200:], y[200:], layers)
    after = mean_loss(X[200:], y[200:], tuned.layers)
    assert after < 0.9 * before
    learned = np.isfinite(tuned.strengths[1])
    assert learned != np.array_equal(tuned.layers.coefs[0], layers.coefs[0])
    assert learned or n_classes == 2  # little is left to learn of two classes


@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("sureness", [0.2, 6.0])
def test_probabilities_are_calibrated(n_classes, sureness):
    X, y = digits()
    y = y % n_classes
    layers = network(X[:80], y[:80]).scaled(sureness)
    tuned = tune(X[80:380], y[80:380], layers)
    assert np.isfinite(tuned.strength)
    X, y = X[380:], y[380:]
    gaps = []
    for each in (layers, tuned.layers):
        probabilities = softmax(each.logits(X), axis=1)
        accuracy = np.mean(probabilities.argmax(axis=1) == y)
        gaps.append(abs(probabilities.max(axis=1).mean() - accuracy))
    # Rounding decides how far two classes are learned, and 1417 rows know an accuracy
    # to 0.01. So the gap is compared with that of the start, not with one like it.
    assert gaps[1] < 0.05 < gaps[0]


def test_it_leaves_the_network_where_training_would_lose():
    X, y = digits()
    layers = network(X[:1000], y[:1000])
    # Labels that have nothing to do with the rows.
    for seed in range(2):
        noise = np.random.RandomState(seed).randint(10, size=30)
        flat = copy.deepcopy(layers)
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


@pytest.mark.parametrize("n_rows", [2, 4, 8, 20])
def test_a_few_correct_rows_cost_next_to_nothing(n_rows):
    X, y = digits()
    X_test, y_test = X[1000:], y[1000:]
    knows = network(X[:500], y[:500])
    poor = halfway(knows, network(X[:60], y[:60]))
    for layers in (knows, poor):
        untuned = np.mean(layers.logits(X_test).argmax(axis=1) == y_test)
        for seed in range(4):
            drawn = 500 + np.random.RandomState(seed).permutation(500)[:n_rows]
            if seed == 3:  # of one class
                drawn = 500 + np.flatnonzero(y[500:1000] == 3)[:n_rows]
            tuned = tune(X[drawn], y[drawn], layers, n_splits=5)
            found = np.mean(tuned.layers.logits(X_test).argmax(axis=1) == y_test)
            assert found >= untuned - 0.02


def test_many_rows_are_worth_a_network_of_their_own():
    X, y = digits()
    knows = network(X[:500], y[:500])
    # Outputs of which the nodes agreed on nothing.
    layers = knows.with_last(knows.last[:, np.random.RandomState(0).permutation(10)])
    tuned = tune(X[500:1100], y[500:1100], layers, n_splits=3)
    alone = network(X[500:1100], y[500:1100])
    X, y = X[1100:], y[1100:]
    found, rows_alone = (
        np.mean(each.logits(X).argmax(axis=1) == y) for each in (tuned.layers, alone)
    )
    assert found >= rows_alone - 0.01


def test_classes_that_the_rows_do_not_show_keep_their_outputs():
    X, y = digits()
    layers = network(np.roll(X[:300], 9, axis=1), y[:300])
    shown = np.flatnonzero(y[300:900] < 4) + 300
    tuned = tune(X[shown], y[shown], layers, hidden=False)
    assert np.isfinite(tuned.strength)
    np.testing.assert_allclose(
        tuned.layers.last[:, 4:], layers.last[:, 4:] * tuned.factor, atol=1e-10
    )
    assert not np.allclose(tuned.layers.last[:, :4], layers.last[:, :4] * tuned.factor)


def test_what_is_sure():
    losses = np.full((3, 100), 2.0)
    losses[1:] = np.array([[1.9], [1.97]])
    assert best_if_sure(losses) == 1  # 10 nats
    assert best_if_sure(losses[::2]) == 0  # 3 nats
    # As many nats on the mean, of one row: within its error.
    losses[1] = 2.0
    losses[1, 0] = -8.0
    assert best_if_sure(losses) == 0
    losses[1:] = np.array([[2.1], [np.inf]])
    assert best_if_sure(losses) == 0


def test_of_equal_losses_the_stronger_penalty_is_chosen():
    losses = np.full((4, 100), 2.0)
    losses[1:] = np.array([[1.9], [1.5], [1.5 - TIE / 2]])
    assert best_if_sure(losses) == 2
    losses[3] -= TIE
    assert best_if_sure(losses) == 3


def small(activation="tanh", seed=0):
    """Rows, labels and a network that has not seen them."""
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((40, 3))
    y = np.argmax(X @ rng.standard_normal((3, 3)), axis=1)
    shapes = [(3, 4), (4, 5), (5, 3)]
    coefs = [rng.standard_normal(shape) for shape in shapes]
    return X, y, Layers(coefs, [np.zeros(width) for _, width in shapes], activation)


@pytest.mark.parametrize("classes", [3, 2])
def test_gradients_are_slopes_and_steps_go_down(monkeypatch, classes):
    X, y, layers = small()
    X, y = X[y < classes], y[y < classes]
    searches, values = [], []

    def spy(objective, start, args, **how):
        searches.append((objective, args))
        found = minimize(objective, start, args, **how)
        values.append([objective(at, *args)[0] for at in (start, found.x)])
        return found

    monkeypatch.setattr(_network, "minimize", spy)
    monkeypatch.setattr(_network, "N_STEPS", 3)
    path = list(_network._path(X, y, layers, 0))
    assert [args[0] for _, args in searches] == NETWORK_STRENGTHS.tolist()
    objective, n_weights = searches[0][0], sum(W.size for W in layers.coefs) + 12
    loss, _ = objective(np.zeros(n_weights), 0.0)
    logits = layers.logits(X)[:, :classes]
    assert loss == pytest.approx(log_losses(logits, y)[0].mean())
    at = 0.3 * np.random.RandomState(1).standard_normal(n_weights)
    for strength in (0.0, 0.1):
        slopes = [
            (objective(at + e, strength)[0] - objective(at - e, strength)[0]) / 2e-6
            for e in 1e-6 * np.eye(n_weights)
        ]
        np.testing.assert_allclose(objective(at, strength)[1], slopes, atol=1e-7)
    assert all(after <= before for before, after in values)
    assert mean_loss(X, y, path[-1]) < mean_loss(X, y, layers)
    if classes == 2:  # what stands for no row
        np.testing.assert_array_equal(path[-1].last[:, 2], layers.last[:, 2])


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_the_last_layer_is_fitted_to_the_minimum(sparse_rows):
    X, y, layers = small()
    if sparse_rows:
        layers, X = Layers.of([layers.coefs[0][:, :3].copy()]), sparse.csr_matrix(X)
        layers = layers.with_last(np.random.RandomState(2).standard_normal((4, 3)))
    depth = layers.n_hidden_layers
    path = list(_network._path(X, y, layers, depth))
    assert len(path) == len(NETWORK_STRENGTHS)
    Z = layers.hidden(X, depth)
    size = np.sqrt(np.mean((Z.toarray() if sparse_rows else Z) ** 2))
    unit = np.append(np.full(Z.shape[1], 1 / size), 1.0)[:, None]

    def objective(found, strength):
        change = (found.last - layers.last) / unit
        return mean_loss(X, y, found) + strength * np.sum(change**2)

    losses = [mean_loss(X, y, each) for each in (layers, *path)]
    assert np.all(np.diff(losses) < 0)
    rng = np.random.RandomState(0)
    for found, strength in zip(path, NETWORK_STRENGTHS, strict=True):
        for before, after in zip(layers.coefs[:-1], found.coefs[:-1], strict=True):
            np.testing.assert_array_equal(before, after)
        here = objective(found, strength)
        for _ in range(3):
            step = unit * rng.standard_normal(layers.last.shape)
            for length in (0.1, 0.01, 0.001):
                assert (
                    objective(found.with_last(found.last + length * step), strength)
                    > here
                )


def test_rows_of_one_class_change_nothing():
    X, _, layers = small()
    for first in (0, 2):
        path = list(_network._path(X, np.ones(40, int), layers, first))
        assert len(path) == len(NETWORK_STRENGTHS)
        assert all(each is layers for each in path)


def test_units_of_weights_change_logits_alike():
    """As many units of each layer move the logits about as far."""
    X, _, layers = small("identity")
    larger = Layers([9 * W for W in layers.coefs], layers.intercepts, "identity")
    for net in (layers, larger):
        moves = []
        for layer, unit in enumerate(_network._units(X, net)):
            moved = []
            for seed in range(30):
                rng = np.random.RandomState(seed)
                coefs = list(net.coefs)
                shape = coefs[layer].shape
                step = 1e-3 * unit[:-1] * rng.standard_normal(shape)
                coefs[layer] = coefs[layer] + step / np.sqrt(shape[0])
                there = Layers(coefs, net.intercepts, "identity")
                moved.append(np.std(there.logits(X) - net.logits(X)))
            moves.append(np.mean(moved))
        # By the root of the units above at most.
        assert max(moves) < 4 * min(moves)


def test_the_start_is_judged_with_its_logits_scaled():
    X, y = digits()
    layers = network(X[:200], y[:200])
    tuned = tune(X[200:320], y[200:320], layers, hidden=False)
    logits = layers.logits(X[200:320])
    factor = fit_inverse_temperature(logits, y[200:320])
    expected = log_losses(factor * logits, y[200:320])[0].mean()
    assert tuned.losses[0, 0] == pytest.approx(expected)


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_weights_are_held_in_given_coordinates(sparse_rows):
    X, y = digits()
    layers = network(np.roll(X[:200], 9, axis=1), y[:200])
    rng = np.random.RandomState(0)
    moved = Coordinates(center=rng.normal(size=64), scale=np.exp(rng.normal(size=64)))
    # The same rows and network in other units.
    rows = X[200:320] * moved.scale + moved.center
    there = moved.give_back(layers)
    expected = tune(X[200:320], y[200:320], layers)
    assert np.isfinite(expected.strengths[1])
    form = sparse.csr_matrix if sparse_rows else np.asarray
    found = tune(form(rows), y[200:320], there, coordinates=moved)
    X = X[320:]
    np.testing.assert_array_equal(found.strengths, expected.strengths)
    # A search ends where it gains little, and rounding decides where. Sparse rows are
    # not centred, so the same weights are held about another point.
    near = 0.02 if sparse_rows else 0.005
    expected = softmax(expected.layers.logits(X[320:]), axis=1)
    rows = X[320:] * moved.scale + moved.center
    assert np.mean(np.abs(softmax(found.layers.logits(rows), axis=1) - expected)) < near
    if not sparse_rows:
        as_they_are = tune(X[200:320] * moved.scale + moved.center, y[200:320], there)
        other = softmax(as_they_are.layers.logits(rows), axis=1)
        assert np.mean(np.abs(other - expected)) > 2 * near


def test_the_first_step_follows_the_gradient(monkeypatch):
    X, y = digits()
    X, y = X[:60], y[:60]
    trained = network(X, y, "tanh", (5, 4))
    coefs = [0.5 * coef for coef in trained.coefs]
    start = Layers(coefs, trained.intercepts, trained.activation)
    # One batch, so one step: Adam's first has the sign of the gradient.
    X, y = X[:32], y[:32]
    monkeypatch.setattr(_network, "PLAIN_EPOCHS", 1)
    new = train_plainly(X, y, start, 0).layers.coefs
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
    assert np.isfinite(one.strengths[1])
    for tuned in (again, thin):
        np.testing.assert_array_equal(one.strengths, tuned.strengths)
    found = [tuned.layers.coefs for tuned in (one, again, thin, small)]
    for a, b, c, d in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.mean(np.abs(a - c)) < 0.01
        assert d.dtype == a.dtype


@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_a_handful_of_rows(n_rows):
    X, y = digits()
    layers = network(X[:300], y[:300])
    tuned = tune(X[300 : 300 + n_rows], y[300 : 300 + n_rows], layers)
    assert all(np.isfinite(coef).all() for coef in tuned.layers.coefs)
    assert np.isinf(tuned.strength) or n_rows > 1


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
    assert agg.fine_tuning_ is None
    public = data.X[::2], data.y[::2]
    last = copy.deepcopy(agg).fine_tune(*public, layers="last")
    both = copy.deepcopy(agg).fine_tune(*public)
    for before, after in zip(agg.coefs_[:-1], last.coefs_[:-1], strict=True):
        np.testing.assert_array_equal(before, after)
    np.testing.assert_allclose(
        both.to_estimator().predict_proba(data.X_test),
        both.predict_proba(data.X_test),
        atol=1e-6,
    )
    np.testing.assert_array_equal(both.last_layer_.coef_.T, both.coefs_[-1])
    if fine_tuning == "plain":
        assert both.fine_tuning_.strength == 0
        assert not np.array_equal(both.coefs_[0], agg.coefs_[0])
        return
    # No worse than the last layer alone, which is where it starts.
    X, y = data.X_test, data.y_test
    assert both.score(X, y) >= last.score(X, y) - 0.02
    assert both.fine_tuning_.strengths[0] == last.fine_tuning_.strengths[0]
    learned = np.isfinite(both.fine_tuning_.strengths[1])
    assert learned != np.array_equal(both.coefs_[0], agg.coefs_[0])


def test_losses_factors_and_result_are_those_of_the_strengths_chosen():
    rng = np.random.RandomState(0)
    _, _, layers = small()
    X = rng.standard_normal((150, 3))
    y = np.argmax(X + 0.7 * np.abs(X), axis=1)
    tuned = tune(X, y, layers, n_splits=3)
    assert np.isfinite(tuned.strengths).all()
    last, both = (
        1 + int(np.flatnonzero(NETWORK_STRENGTHS == strength)[0])
        for strength in tuned.strengths
    )
    # Each fold's model on the rows that it has not seen.
    folds = _network.deal_folds(y, 3, np.random.RandomState(0))
    logits = np.empty((150, 3))
    for train, test in folds:
        path = list(_network._path(X[train], y[train], layers, 2))
        logits[test] = path[last - 1].logits(X[test])
    factor = fit_inverse_temperature(logits, y)
    loss = log_losses(factor * logits, y)[0].mean()
    assert tuned.losses[0, last] == pytest.approx(loss, abs=1e-6)
    # All layers go on from there.
    assert tuned.losses[1, 0] == pytest.approx(tuned.losses[0, last], abs=1e-9)
    assert tuned.losses[1, both] < tuned.losses[1, 0]
    begun = list(_network._path(X, y, layers, 2))[last - 1]
    ended = list(_network._path(X, y, begun, 0))[both - 1].scaled(tuned.factor)
    for one, other in zip(ended.coefs, tuned.layers.coefs, strict=True):
        np.testing.assert_array_equal(one, other)
    assert tuned.factor != 1.0 and 0.1 < tuned.factor < 2.0


def test_a_unit_that_nothing_hears_is_held_too():
    X, _, layers = small()
    layers.coefs[1][0] = 0.0
    for unit, W in zip(_network._units(X, layers), layers.coefs, strict=True):
        assert np.isfinite(unit).all() and unit.max() < 100 * np.median(unit)
        assert np.broadcast_shapes(unit[:-1].shape, W.shape) == W.shape
