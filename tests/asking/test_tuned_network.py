# SPDX-License-Identifier: BSD-3-Clause
"""Fine-tuning of all layers: it learns, and stops where it no longer helps."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers.estimators import federated
from helpers.fitted import call_once
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.asking import _tuned_network as _network
from skgems.asking import fine_tune_network, train_plainly
from skgems.asking._penalised import TIE
from skgems.asking._tuned_network import NETWORK_STRENGTHS, best_if_sure
from skgems.gems import HiddenLayers
from skgems.moments import fit_inverse_temperature, log_losses
from skgems.networks import Coordinates, Layers


@call_once
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.RandomState(0).permutation(len(y))
    return X[order] / 16, y[order]


def midpoints(arrays, other_arrays):
    return [
        array + 0.5 * (other - array)
        for array, other in zip(arrays, other_arrays, strict=True)
    ]


def halfway(layers, other):
    """Layers whose weights lie in the middle of those of two."""
    return Layers(
        midpoints(layers.coefs, other.coefs),
        midpoints(layers.intercepts, other.intercepts),
        layers.activation,
    )


def layers_of(clf):
    """Layers with one column per class."""
    layers = Layers(clf.coefs_, clf.intercepts_, clf.activation)
    return layers.expanded(len(clf.classes_))


@call_once
def network(X, y, activation="relu", hidden=(16,)):
    clf = MLPClassifier(hidden, activation=activation, alpha=0.1, random_state=0)
    return layers_of(clf.set_params(solver="lbfgs", max_iter=5000).fit(X, y))


def tune(X, y, layers, *, random_state=0, n_splits=2, **options):
    return fine_tune_network(
        X, y, layers, random_state=random_state, n_splits=n_splits, **options
    )


tune_once = call_once(tune)


def mean_loss(X, y, layers):
    return log_losses(layers.logits(X), y)[0].mean()


def accuracy(X, y, layers):
    return np.mean(layers.logits(X).argmax(axis=1) == y)


@pytest.mark.parametrize(
    ("n_classes", "activation"),
    [(4, "relu"), (2, "tanh"), (4, "logistic"), (2, "identity")],
)
def test_it_learns_what_the_start_does_not_know(n_classes, activation):
    X, y = digits()
    X, y = X[y < n_classes], y[y < n_classes]
    moved_images = np.roll(X, 9, axis=1)
    layers = network(moved_images[:100], y[:100], activation, hidden=(8,))
    tuned = tune(X[100:200], y[100:200], layers)
    assert np.isfinite(tuned.strengths).any()
    assert tuned.losses.shape == (2, len(NETWORK_STRENGTHS) + 1)
    before = mean_loss(X[200:], y[200:], layers)
    after = mean_loss(X[200:], y[200:], tuned.layers)
    assert after < 0.9 * before
    learned = np.isfinite(tuned.strengths[1])
    assert learned != np.array_equal(tuned.layers.coefs[0], layers.coefs[0])
    assert learned or n_classes == 2  # little is left to learn of two classes


@pytest.mark.parametrize(("n_classes", "sureness"), [(2, 6.0), (10, 0.2)])
def test_probabilities_are_calibrated(n_classes, sureness):
    X, y = digits()
    y = y % n_classes
    layers = network(X[:80], y[:80]).scaled(sureness)
    tuned = tune(X[80:380], y[80:380], layers)
    assert np.isfinite(tuned.strength)
    X, y = X[380:], y[380:]

    def gap(network):
        """How far the mean confidence is from the accuracy."""
        probabilities = softmax(network.logits(X), axis=1)
        return abs(probabilities.max(axis=1).mean() - accuracy(X, y, network))

    # Rounding decides how far two classes are learned, and 1417 rows show an accuracy
    # to 0.01. So the gap is compared with that of the start, not with one like it.
    assert gap(tuned.layers) < 0.05 < gap(layers)


@pytest.mark.parametrize("seed", [0, 1])
def test_labels_without_a_relation_to_the_rows_are_not_learned(seed):
    X, y = digits()
    layers = network(X[:1000], y[:1000])
    for array in (*layers.coefs, *layers.intercepts):
        array[...] = 0.0
    noise = np.random.RandomState(seed).randint(10, size=30)
    tuned = tune(X[1000:1030], noise, layers, random_state=seed)
    # The loss of ten equal probabilities, and a little.
    assert mean_loss(X, y, tuned.layers) < np.log(10) + 0.1


def test_few_rows_that_the_network_knows_already_do_no_harm():
    X, y = digits()
    layers = network(X[:1000], y[:1000])
    tuned = tune(X[1000:1040], y[1000:1040], layers)
    loss_before = mean_loss(X[1040:], y[1040:], layers)
    assert mean_loss(X[1040:], y[1040:], tuned.layers) < loss_before + 0.05


@pytest.mark.parametrize("n_rows", [2, 8, 20])
def test_a_few_correct_rows_cost_next_to_nothing(n_rows):
    X, y = digits()
    X_test = X[1000:]
    y_test = y[1000:]
    good = network(X[:500], y[:500])
    poor = halfway(good, network(X[:60], y[:60]))
    draws = [
        500 + np.random.RandomState(seed).permutation(500)[:n_rows] for seed in range(3)
    ]
    of_one_class = 500 + np.flatnonzero(y[500:1000] == 3)[:n_rows]
    for layers in (good, poor):
        accuracy_before = accuracy(X_test, y_test, layers)
        for rows in (*draws, of_one_class):
            tuned = tune(X[rows], y[rows], layers, n_splits=5)
            assert accuracy(X_test, y_test, tuned.layers) >= accuracy_before - 0.02


def test_many_rows_are_worth_a_network_of_their_own():
    X, y = digits()
    trained = network(X[:500], y[:500])
    # Outputs in an order that has nothing to do with the classes.
    order = np.random.RandomState(0).permutation(10)
    layers = trained.with_last(trained.last[:, order])
    tuned = tune(X[500:1100], y[500:1100], layers, n_splits=3)
    of_rows_only = network(X[500:1100], y[500:1100])
    X_test = X[1100:]
    y_test = y[1100:]
    expected = accuracy(X_test, y_test, of_rows_only)
    assert accuracy(X_test, y_test, tuned.layers) >= expected - 0.01


def test_classes_that_the_rows_do_not_show_keep_their_outputs():
    X, y = digits()
    layers = network(np.roll(X[:300], 9, axis=1), y[:300])
    first_four_classes = np.flatnonzero(y[300:900] < 4) + 300
    tuned = tune(X[first_four_classes], y[first_four_classes], layers, hidden=False)
    assert np.isfinite(tuned.strength)
    np.testing.assert_allclose(
        tuned.layers.last[:, 4:], layers.last[:, 4:] * tuned.factor, atol=1e-10
    )
    assert not np.allclose(tuned.layers.last[:, :4], layers.last[:, :4] * tuned.factor)


def test_the_smallest_loss_is_taken_if_it_is_surely_smaller():
    """`best_if_sure` returns the index of a line of losses, 0 being the start."""
    losses = np.full((3, 100), 2.0)
    losses[1] = 1.9  # 10 nats less
    losses[2] = 1.97  # 3 nats less
    assert best_if_sure(losses) == 1


@pytest.mark.parametrize("change", [-0.03, 0.1, np.inf], ids=str)
def test_a_loss_that_is_not_surely_smaller_is_not_taken(change):
    losses = np.full((2, 100), 2.0)
    losses[1] += change
    assert best_if_sure(losses) == 0


def test_a_gain_of_a_single_row_is_not_sure():
    """As many nats in all are less than the error of their mean."""
    losses = np.full((2, 100), 2.0)
    losses[1, 0] = -8.0
    assert best_if_sure(losses) == 0


def test_the_stronger_penalty_is_chosen_where_losses_are_equal():
    losses = np.full((4, 100), 2.0)
    losses[1:] = np.array([[1.9], [1.5], [1.5 - TIE / 2]])
    assert best_if_sure(losses) == 2
    losses[3] -= TIE
    assert best_if_sure(losses) == 3


def small_task(activation="tanh", seed=0):
    """Rows, labels and a network that has not seen them."""
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((40, 3))
    y = np.argmax(X @ rng.standard_normal((3, 3)), axis=1)
    shapes = [(3, 4), (4, 5), (5, 3)]
    coefs = [rng.standard_normal(shape) for shape in shapes]
    return X, y, Layers(coefs, [np.zeros(width) for _, width in shapes], activation)


@pytest.fixture
def searches(monkeypatch):
    """The objective, strength, and values before and after, of each search."""
    searches = []

    def minimize_and_note(objective, start, args, **options):
        optimum = minimize(objective, start, args, **options)
        value_before, _ = objective(start, *args)
        value_after, _ = objective(optimum.x, *args)
        searches.append((objective, args[0], value_before, value_after))
        return optimum

    monkeypatch.setattr(_network, "minimize", minimize_and_note)
    monkeypatch.setattr(_network, "N_STEPS", 3)
    return searches


@pytest.mark.parametrize("n_classes", [3, 2])
def test_each_strength_is_searched_and_steps_go_down(searches, n_classes):
    X, y, layers = small_task()
    X, y = X[y < n_classes], y[y < n_classes]
    path = list(_network._path(X, y, layers, 0))
    strengths = [strength for _, strength, _, _ in searches]
    assert strengths == NETWORK_STRENGTHS.tolist()
    for _, _, value_before, value_after in searches:
        assert value_after <= value_before
    assert mean_loss(X, y, path[-1]) < mean_loss(X, y, layers)
    if n_classes == 2:  # the output of a class without rows stays
        np.testing.assert_array_equal(path[-1].last[:, 2], layers.last[:, 2])


@pytest.mark.parametrize("n_classes", [3, 2])
def test_gradients_are_slopes_of_the_objective(searches, n_classes):
    X, y, layers = small_task()
    X, y = X[y < n_classes], y[y < n_classes]
    list(_network._path(X, y, layers, 0))
    objective, *_ = searches[0]
    n_weights = sum(W.size for W in layers.coefs) + 12  # and as many intercepts
    loss, _ = objective(np.zeros(n_weights), 0.0)
    logits = layers.logits(X)[:, :n_classes]
    assert loss == pytest.approx(log_losses(logits, y)[0].mean())
    weights = 0.3 * np.random.RandomState(1).standard_normal(n_weights)
    for strength in (0.0, 0.1):
        slopes = [
            (objective(weights + e, strength)[0] - objective(weights - e, strength)[0])
            / 2e-6
            for e in 1e-6 * np.eye(n_weights)
        ]
        _, gradient = objective(weights, strength)
        np.testing.assert_allclose(gradient, slopes, atol=1e-7)


def unit_of_last_layer(Z):
    """A weight that moves logits by about one, (n_units + 1, 1), 1 for intercepts."""
    dense = Z.toarray() if sparse.issparse(Z) else Z
    size = np.sqrt(np.mean(dense**2))
    return np.append(np.full(Z.shape[1], 1 / size), 1.0)[:, None]


def assert_layers_below_are_unchanged(tuned, layers):
    """All weights but those of the last layer are those of the network before."""
    for W, expected in zip(tuned.coefs[:-1], layers.coefs[:-1], strict=True):
        np.testing.assert_array_equal(W, expected)


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_the_last_layer_is_fitted_to_the_minimum(sparse_rows):
    X, y, layers = small_task()
    if sparse_rows:  # only a single layer takes them
        X = sparse.csr_matrix(X)
        layers = Layers.from_weights([layers.coefs[0][:, :3].copy()])
        layers = layers.with_last(np.random.RandomState(2).standard_normal((4, 3)))
    depth = layers.n_hidden_layers
    path = list(_network._path(X, y, layers, depth))
    assert len(path) == len(NETWORK_STRENGTHS)
    unit = unit_of_last_layer(layers.hidden(X, depth))

    def objective(network, strength):
        change = (network.last - layers.last) / unit
        return mean_loss(X, y, network) + strength * np.sum(change**2)

    losses = [mean_loss(X, y, network) for network in (layers, *path)]
    assert np.all(np.diff(losses) < 0)
    rng = np.random.RandomState(0)
    for fitted, strength in zip(path, NETWORK_STRENGTHS, strict=True):
        assert_layers_below_are_unchanged(fitted, layers)
        minimum = objective(fitted, strength)
        for _ in range(3):
            step = unit * rng.standard_normal(layers.last.shape)
            for length in (0.1, 0.01, 0.001):
                stepped = fitted.with_last(fitted.last + length * step)
                assert objective(stepped, strength) > minimum


def test_rows_of_one_class_change_nothing():
    X, _, layers = small_task()
    for first in (0, 2):
        path = list(_network._path(X, np.ones(40, int), layers, first))
        assert len(path) == len(NETWORK_STRENGTHS)
        assert all(network is layers for network in path)


def mean_move_of_logits(X, layers, layer, unit):
    """How far logits move, on average, by random steps of one layer's weights."""
    moves = []
    for seed in range(30):
        rng = np.random.RandomState(seed)
        coefs = list(layers.coefs)
        shape = coefs[layer].shape
        step = 1e-3 * unit[:-1] * rng.standard_normal(shape)
        coefs[layer] = coefs[layer] + step / np.sqrt(shape[0])
        stepped = Layers(coefs, layers.intercepts, "identity")
        moves.append(np.std(stepped.logits(X) - layers.logits(X)))
    return np.mean(moves)


@pytest.mark.parametrize("factor", [1, 9])
def test_units_of_weights_change_logits_alike(factor):
    """As many units of each layer move the logits about as far."""
    X, _, layers = small_task("identity")
    coefs = [factor * W for W in layers.coefs]
    layers = Layers(coefs, layers.intercepts, "identity")
    moves = [
        mean_move_of_logits(X, layers, layer, unit)
        for layer, unit in enumerate(_network._units(X, layers))
    ]
    # They differ by the root of the number of units above at most.
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
    layers = network(np.roll(X[:200], 9, axis=1), y[:200], hidden=(8,))
    rng = np.random.RandomState(0)
    units = Coordinates(center=rng.normal(size=64), scale=np.exp(rng.normal(size=64)))
    # The same rows and network in other units.
    X_in_units = X * units.scale + units.center
    layers_in_units = units.give_back(layers)
    expected = tune_once(X[200:320], y[200:320], layers)
    assert np.isfinite(expected.strengths[1])
    rows = X_in_units[200:320]
    if sparse_rows:
        rows = sparse.csr_matrix(rows)
    tuned = tune(rows, y[200:320], layers_in_units, coordinates=units)
    np.testing.assert_array_equal(tuned.strengths, expected.strengths)

    # Rows that neither has seen.
    expected_proba = softmax(expected.layers.logits(X[640:]), axis=1)

    def mean_difference(network):
        proba = softmax(network.logits(X_in_units[640:]), axis=1)
        return np.mean(np.abs(proba - expected_proba))

    # A search ends where it gains little, and rounding decides where. Sparse rows are
    # not centered, so the same weights are held about another point.
    bound = 0.02 if sparse_rows else 0.005
    assert mean_difference(tuned.layers) < bound
    if not sparse_rows:
        without_coordinates = tune(X_in_units[200:320], y[200:320], layers_in_units)
        assert mean_difference(without_coordinates.layers) > 2 * bound


def test_the_first_step_follows_the_gradient(monkeypatch):
    X, y = digits()
    X, y = X[:60], y[:60]
    trained = network(X, y, "tanh", (5, 4))
    coefs = [0.5 * coef for coef in trained.coefs]
    start = Layers(coefs, trained.intercepts, trained.activation)
    # One batch, so one step: Adam's first has the sign of the gradient.
    X, y = X[:32], y[:32]
    monkeypatch.setattr(_network, "PLAIN_EPOCHS", 1)
    stepped_coefs = train_plainly(X, y, start, 0).layers.coefs

    def loss_with(layer, place, change):
        """The loss if one weight of one layer is another."""
        changed_coefs = [coef.copy() for coef in coefs]
        changed_coefs[layer][place] += change
        return mean_loss(X, y, Layers(changed_coefs, start.intercepts, "tanh"))

    for layer in range(3):
        for i, j in [(27, 0), (28, 1), (2, 3), (1, 2)]:
            place = (i % coefs[layer].shape[0], j)
            rise = loss_with(layer, place, 1e-5) - loss_with(layer, place, -1e-5)
            slope = rise / 2e-5
            if abs(slope) > 1e-5:  # below it rounding may decide the sign
                step = stepped_coefs[layer][place] - coefs[layer][place]
                assert np.sign(step) == -np.sign(slope)


@pytest.fixture
def network_of_moved_images():
    X, y = digits()
    return network(np.roll(X[:200], 9, axis=1), y[:200], hidden=(8,))


def test_equal_seeds_give_equal_networks(network_of_moved_images):
    X, y = digits()
    first = tune_once(X[:60], y[:60], network_of_moved_images)
    second = tune(X[:60], y[:60], network_of_moved_images)
    assert np.isfinite(first.strengths[1])
    np.testing.assert_array_equal(first.strengths, second.strengths)
    for W, expected in zip(second.layers.coefs, first.layers.coefs, strict=True):
        np.testing.assert_array_equal(W, expected)


def test_sparse_rows_give_the_same_network_but_for_rounding(network_of_moved_images):
    X, y = digits()
    dense = tune_once(X[:60], y[:60], network_of_moved_images)
    of_sparse = tune(sparse.csr_matrix(X[:60]), y[:60], network_of_moved_images)
    np.testing.assert_array_equal(of_sparse.strengths, dense.strengths)
    for W, expected in zip(of_sparse.layers.coefs, dense.layers.coefs, strict=True):
        assert np.mean(np.abs(W - expected)) < 0.01


def test_a_tuned_network_has_the_type_of_the_network_and_not_of_the_rows(
    network_of_moved_images,
):
    X, y = digits()
    tuned = tune(X[:60].astype(np.float32), y[:60], network_of_moved_images)
    for W in tuned.layers.coefs:
        assert W.dtype == np.float64


@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_a_handful_of_rows_gives_finite_weights(n_rows):
    X, y = digits()
    layers = network(X[:300], y[:300])
    tuned = tune(X[300 : 300 + n_rows], y[300 : 300 + n_rows], layers)
    assert all(np.isfinite(coef).all() for coef in tuned.layers.coefs)
    assert np.isinf(tuned.strength) or n_rows > 1


def fit_aggregate(dataset, fine_tuning):
    """An aggregate of small networks, which has not been tuned."""
    networks = [
        MLPClassifier(
            (12,), solver="lbfgs", alpha=0.1, max_iter=500, random_state=k
        ).fit(X, y)
        for k, (X, y) in enumerate(dataset.local_rows)
    ]
    last_layer = GEMSLogisticAggregator(
        intersection="consensus", fine_tuning=fine_tuning
    )
    agg = GEMSMLPAggregator(
        networks,
        hidden_layers=HiddenLayers(max_units=8),
        last_layer=last_layer,
        random_state=0,
    )
    return agg.fit(dataset.X, dataset.y, nodes=dataset.nodes)


@call_once
def aggregate_and_tuned(kind, fine_tuning):
    """An aggregate, and after its last layer was tuned, or all layers."""
    dataset = federated(kind)
    agg = fit_aggregate(dataset, fine_tuning)
    public_rows = dataset.X[::2], dataset.y[::2]
    last = copy.deepcopy(agg).fine_tune(*public_rows, layers="last")
    return agg, last, copy.deepcopy(agg).fine_tune(*public_rows)


@pytest.mark.parametrize("fine_tuning", ["penalized", "plain"])
@pytest.mark.parametrize("kind", ["disjoint", "binary"])
def test_an_aggregator_tunes_the_last_layer_or_all(fine_tuning, kind):
    dataset = federated(kind)
    agg, last, tuned = aggregate_and_tuned(kind, fine_tuning)
    assert agg.fine_tuning_ is None
    for W, expected in zip(last.coefs_[:-1], agg.coefs_[:-1], strict=True):
        np.testing.assert_array_equal(W, expected)
    np.testing.assert_allclose(
        tuned.to_estimator().predict_proba(dataset.X_test),
        tuned.predict_proba(dataset.X_test),
        atol=1e-6,
    )
    np.testing.assert_array_equal(tuned.last_layer_.coef_.T, tuned.coefs_[-1])


@pytest.mark.parametrize("kind", ["disjoint", "binary"])
def test_plain_tuning_of_an_aggregator_has_no_penalty(kind):
    agg, _, tuned = aggregate_and_tuned(kind, "plain")
    assert tuned.fine_tuning_.strength == 0
    assert not np.array_equal(tuned.coefs_[0], agg.coefs_[0])


@pytest.mark.parametrize("kind", ["disjoint", "binary"])
def test_tuning_of_all_layers_goes_on_from_the_last_one(kind):
    dataset = federated(kind)
    agg, last, tuned = aggregate_and_tuned(kind, "penalized")
    score_of_last = last.score(dataset.X_test, dataset.y_test)
    assert tuned.score(dataset.X_test, dataset.y_test) >= score_of_last - 0.02
    assert tuned.fine_tuning_.strengths[0] == last.fine_tuning_.strengths[0]
    has_learned = np.isfinite(tuned.fine_tuning_.strengths[1])
    assert has_learned != np.array_equal(tuned.coefs_[0], agg.coefs_[0])


def test_losses_factor_and_layers_are_those_of_the_strengths_chosen():
    rng = np.random.RandomState(0)
    _, _, layers = small_task()
    X = rng.standard_normal((150, 3))
    y = np.argmax(X + 0.7 * np.abs(X), axis=1)
    tuned = tune(X, y, layers, n_splits=3)
    assert np.isfinite(tuned.strengths).all()
    # The columns of `losses` of the chosen strengths; column 0 is the start.
    last, every = (
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
    assert tuned.losses[1, every] < tuned.losses[1, 0]
    with_last_tuned = list(_network._path(X, y, layers, 2))[last - 1]
    with_all_tuned = list(_network._path(X, y, with_last_tuned, 0))[every - 1]
    expected = with_all_tuned.scaled(tuned.factor)
    for W, expected_W in zip(tuned.layers.coefs, expected.coefs, strict=True):
        np.testing.assert_array_equal(W, expected_W)
    assert tuned.factor != 1.0
    assert 0.1 < tuned.factor < 2.0


def test_a_unit_without_outgoing_weights_is_held_too():
    X, _, layers = small_task()
    layers.coefs[1][0] = 0.0
    for unit, W in zip(_network._units(X, layers), layers.coefs, strict=True):
        assert np.isfinite(unit).all()
        assert unit.max() < 100 * np.median(unit)
        assert np.broadcast_shapes(unit[:-1].shape, W.shape) == W.shape
