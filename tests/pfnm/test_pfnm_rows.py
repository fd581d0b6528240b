# SPDX-License-Identifier: BSD-3-Clause
"""PFNMAggregator: counts, rounds, streams and public rows reach the match as said."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.neural_network import MLPClassifier

from skgems import PFNMAggregator
from skgems.asking import fine_tune_network
from skgems.networks import Layers, to_mlp_classifier
from skgems.pfnm import Matching
from skgems.pfnm._stream import common_part


def network(coefs, biases, n_classes=3, *, classes=None, activation="tanh", **trainer):
    """A fitted network of given weights; how it trains may be given too."""
    classes = np.arange(n_classes) if classes is None else np.array(classes)
    layers = Layers(
        [np.array(coef, dtype=float) for coef in coefs],
        [np.array(bias, dtype=float) for bias in biases],
        activation,
    )
    model = to_mlp_classifier(layers, classes)
    return model.set_params(**trainer)


def random_network(seed=0, n_features=3, width=4, n_classes=3, **options):
    rng = np.random.RandomState(seed)
    coefs = [rng.normal(size=(n_features, width)), rng.normal(size=(width, n_classes))]
    biases = [rng.normal(size=width), rng.normal(size=n_classes)]
    return network(coefs, biases, n_classes, **options)


def centred_logits(aggregate, X):
    logits = aggregate.decision_function(X)
    return logits - logits.mean(axis=1, keepdims=True)


# ---- shares of classes --------------------------------------------------------


def merged_biases(counts=None, *, seen=((0, 1, 2), (0, 1, 2)), **parameters):
    """Output biases of two networks of equal units: the merged, and each, centered."""
    models = []
    centred_biases = np.zeros((2, 3))
    for k, classes in enumerate(seen):
        bias = np.array([3.0, -1.0, 4.0])[: len(classes)] * (k + 1)
        centred_biases[k, classes] = bias - common_part(bias[None, :])[0]
        coefs = [np.eye(2), np.eye(2, len(classes))]
        models.append(network(coefs, [np.zeros(2), bias], classes=classes))
    aggregate = PFNMAggregator(models, random_state=0, **parameters)
    aggregate.fit(n_class_samples=counts)
    return aggregate.intercepts_[-1], centred_biases


def test_biases_of_a_class_are_averaged_by_its_rows():
    merged, biases = merged_biases([[1, 5, 2], [3, 5, 6]])
    share = np.array([[1 / 4, 1 / 2, 1 / 4], [3 / 4, 1 / 2, 3 / 4]])
    np.testing.assert_allclose(merged, (share * biases).sum(axis=0))


def test_a_class_without_rows_is_of_all_who_know_it_alike():
    merged, biases = merged_biases([[1, 0, 2], [3, 0, 6]])
    share = np.array([[1 / 4, 1 / 2, 1 / 4], [3 / 4, 1 / 2, 3 / 4]])
    np.testing.assert_allclose(merged, (share * biases).sum(axis=0))


def test_rows_of_a_class_that_a_network_does_not_know_do_not_count():
    merged, biases = merged_biases([[1, 4, 9], [3, 4, 0]], seen=((0, 1), (0, 1, 2)))
    share = np.array([[1 / 4, 1 / 2, 0], [3 / 4, 1 / 2, 1]])
    np.testing.assert_allclose(merged, (share * biases).sum(axis=0))


def test_an_updates_own_counts_weigh_its_networks():
    models = [random_network(seed) for seed in (0, 1)]
    bias = np.stack([model.intercepts_[-1] for model in models])
    bias -= common_part(bias)
    aggregate = PFNMAggregator([("a", models[0])]).fit()
    aggregate.update(
        [("a", models[0]), ("b", models[1])],
        n_class_samples=[[1, 1, 3], [3, 1, 1]],
    )
    share = np.array([1 / 4, 1 / 2, 3 / 4])
    # The first step counts as much as the second, and was not centered alone.
    first = models[0].intercepts_[-1]
    second = share * bias[0] + (1 - share) * bias[1]
    np.testing.assert_allclose(aggregate.intercepts_[-1], (first + second) / 2)


def test_in_simulation_the_rows_that_trained_are_counted():
    # Of 19 rows one is held out, of 10 as well: 18 to 9, not 1 to 1.
    counts = np.array([[19, 10, 10], [10, 10, 19]])
    y = np.concatenate([np.repeat(np.arange(3), of_node) for of_node in counts])
    X = np.random.RandomState(0).normal(size=(len(y), 2)) + y[:, None]
    local = MLPClassifier((3,), solver="lbfgs", alpha=1.0, max_iter=500)
    aggregate = PFNMAggregator([local, local], last_layer=None, random_state=0)
    aggregate.fit(X, y, nodes=np.repeat([0, 1], counts.sum(axis=1)))
    trained = counts - np.floor(0.1 * counts)
    share = trained / trained.sum(axis=0)
    bias = np.array([model.intercepts_[-1] for model in aggregate.estimators_])
    expected = (share * (bias - common_part(bias))).sum(axis=0)
    # All logits were made more or less sure alike.
    merged = aggregate.intercepts_[-1]
    factor = merged @ expected / (expected @ expected)
    np.testing.assert_allclose(merged, factor * expected, rtol=1e-6)


# ---- what a softmax says nothing of -------------------------------------------


def shifted(model, by):
    """The same function: all of a unit's outgoing weights moved together."""
    return network(
        [model.coefs_[0], model.coefs_[1] + np.array(by)[:, None]],
        [model.intercepts_[0], model.intercepts_[1] + 7.0],
        classes=model.classes_,
    )


def test_what_is_common_to_the_classes_of_a_node_does_not_matter():
    a = random_network(0)
    b = random_network(1, n_classes=4, classes=[1, 2, 3, 4])
    X = np.random.RandomState(0).normal(size=(20, 3))
    options = {"sigma": 1.0, "random_state": 0}
    plain = PFNMAggregator([a, b], **options).fit()
    b_shifted = shifted(b, [5.0, -3.0, 2.0, 9.0])
    aggregate = PFNMAggregator([a, b_shifted], **options).fit()
    np.testing.assert_allclose(aggregate.predict_proba(X), plain.predict_proba(X))


def test_what_is_common_to_the_classes_of_one_new_network_does_not_matter():
    a, b = random_network(0), random_network(1)
    X = np.random.RandomState(0).normal(size=(20, 3))
    after = []
    for new in (b, shifted(b, [5.0, -3.0, 2.0, 9.0])):
        aggregate = PFNMAggregator([("a", a)], sigma=1.0, random_state=0).fit()
        after.append(aggregate.update([("b", new)]).predict_proba(X))
    np.testing.assert_allclose(after[0], after[1])


def test_the_common_part_lies_between_the_mean_and_the_largest():
    W = np.random.RandomState(0).normal(size=(6, 4))
    common = common_part(W)
    assert common.shape == (6, 1)
    assert np.all(common > W.mean(axis=1, keepdims=True))
    assert np.all(common < W.max(axis=1, keepdims=True))
    shift = np.arange(6.0)[:, None]
    np.testing.assert_allclose(common_part(W + shift), common + shift)
    # One class has nothing beside what is common.
    np.testing.assert_array_equal(common_part(W[:, :1]), W[:, :1])


def test_a_single_network_comes_back_number_by_number():
    model = random_network(0)
    aggregate = PFNMAggregator([model], random_state=0).fit()
    order = aggregate.assignments_[0][0]
    np.testing.assert_allclose(aggregate.coefs_[0][:, order], model.coefs_[0])
    np.testing.assert_allclose(aggregate.coefs_[1][order], model.coefs_[1])
    np.testing.assert_allclose(aggregate.intercepts_[1], model.intercepts_[1])


# ---- the parameters -----------------------------------------------------------


def test_a_unit_is_as_sure_as_its_prior_and_those_who_have_it():
    common = [[3.0, 0.0], [0.0, 3.0]]
    models = [
        network([common, np.eye(2, 3)], [[0, 0], [0, 0, 0]]),
        network([common, np.eye(2, 3)], [[0, 0], [0, 0, 0]]),
    ]
    aggregate = PFNMAggregator(models, sigma=0.5, sigma0=2.0).fit()
    precision = 1 / 2.0**2 + 2 / 0.5**2
    atoms = aggregate.posterior_[0]
    np.testing.assert_allclose(atoms.precision[:, 0], precision)
    incoming = np.sort(np.abs(atoms.mean[:, :2]).max(axis=1))
    np.testing.assert_allclose(incoming, 3.0 * 2 / 0.5**2 / precision)
    # Each node has half of a class.
    np.testing.assert_allclose(atoms.precision[:, 1:], 1 / 2.0**2 + 1 / 0.5**2)


@pytest.mark.parametrize("is_stream", [False, True])
def test_in_the_paper_numbers_count_alike_as_they_are(is_stream):
    """Whatever rows a node has of a class, and what its classes have in common."""
    outgoing = np.array([[5.0, 1.0, 0.0]]), np.array([[7.0, 3.0, 1.0]])
    named = [
        (str(k), network([[[3.0]], last], [[0.0], [0.0, 0.0, 3.0 * k]]))
        for k, last in enumerate(outgoing)
    ]
    counts = [[1000, 1, 1], [1, 1, 1000]]
    aggregate = PFNMAggregator(
        named, sigma=0.5, sigma0=2.0, gamma0=1e-9, matching=Matching(model="paper")
    )
    if is_stream:
        aggregate.set_params(estimators=named[:1]).fit(n_class_samples=counts[:1])
        aggregate.update(named[1:], n_class_samples=counts[1:])
    else:
        aggregate.fit(n_class_samples=counts)
    two = 2 / 0.5**2 / (2 / 0.5**2 + 1 / 2.0**2)
    np.testing.assert_allclose(aggregate.coefs_[0], [[3.0 * two]])
    np.testing.assert_allclose(aggregate.coefs_[1], np.mean(outgoing, axis=0) * two)
    np.testing.assert_allclose(aggregate.intercepts_[1], [0.0, 0.0, 1.5])


def far_from_settled(**parameters):
    models = [random_network(seed, width=12) for seed in range(6)]
    return PFNMAggregator(models, sigma=1.0, random_state=0, **parameters).fit()


@pytest.mark.filterwarnings("ignore::skgems.pfnm.PoorMatchWarning")
def test_sweeps_are_bounded():
    free, bounded = far_from_settled(), far_from_settled(matching=Matching(max_iter=1))
    assert free.n_iter_ > 1 and bounded.n_iter_ == 1
    assert len(bounded.objective_[0]) == 2
    np.testing.assert_allclose(bounded.objective_[0], free.objective_[0][:2])


@pytest.mark.filterwarnings("ignore::skgems.pfnm.PoorMatchWarning")
def test_sweeps_end_where_they_gain_little():
    free, content = far_from_settled(), far_from_settled(matching=Matching(tol=1e3))
    assert len(content.objective_[0]) == 2 < len(free.objective_[0])


def test_later_new_units_of_a_node_cost_more_in_the_paper():
    # Two nodes of two orthogonal units of one size: to join costs a little more
    # than to open the first new unit, and less than to open the second.
    size = 1.0
    one = network([np.eye(4)[:, :2] * size, np.zeros((2, 3))], [[0] * 2, [0] * 3])
    two = network([np.eye(4)[:, 2:] * size, np.zeros((2, 3))], [[0] * 2, [0] * 3])
    # Alone each of four has size^2 / 2; together two have (size^2 + size^2) / 3.
    # With J = 2, m = 1: join 2 log(1), open 2 log(gamma0 / 2).
    gain = size**2 / 2 - (2 / 3 - 1 / 2) * size**2
    gamma0 = 2 * np.exp(-gain / 2 + 0.3)
    settings = {"sigma": 1.0, "gamma0": gamma0}
    units = {}
    for cost in ("exchangeable", "paper"):
        aggregate = PFNMAggregator(
            [one, two], matching=Matching(new_atom_cost=cost), **settings
        )
        units[cost] = aggregate.fit().n_units_
    assert units == {"exchangeable": (4,), "paper": (3,)}


# ---- rounds -------------------------------------------------------------------


def step_of_descent(model, X, y, rate):
    """One step on the mean log-loss of all rows."""
    hidden = np.tanh(X @ model.coefs_[0] + model.intercepts_[0])
    proba = softmax(hidden @ model.coefs_[1] + model.intercepts_[1], axis=1)
    top = (proba - np.eye(proba.shape[1])[y]) / len(y)
    low = top @ model.coefs_[1].T * (1 - hidden**2)
    return network(
        [
            model.coefs_[0] - rate * X.T @ low,
            model.coefs_[1] - rate * hidden.T @ top,
        ],
        [
            model.intercepts_[0] - rate * low.sum(axis=0),
            model.intercepts_[1] - rate * top.sum(axis=0),
        ],
    )


SGD = {
    "solver": "sgd",
    "learning_rate_init": 0.5,
    "momentum": 0.0,
    "nesterovs_momentum": False,
    "alpha": 0.0,
    "batch_size": 1000,
}


def rows(n_rows=24, n_classes=3, seed=0):
    rng = np.random.RandomState(seed)
    return rng.normal(size=(n_rows, 3)), np.arange(n_rows) % n_classes


@pytest.mark.parametrize(("n_rounds", "n_epochs"), [(2, 1), (2, 3), (4, 2)])
def test_rounds_train_at_a_tenth_of_the_nodes_own_rate(n_rounds, n_epochs):
    X, y = rows()
    model = random_network(0, **SGD)
    # A single node: what it trains is what comes out.
    aggregate = PFNMAggregator([model], n_rounds=n_rounds, local_epochs=n_epochs)
    aggregate.fit(X, y)
    expected = model
    for _ in range((n_rounds - 1) * n_epochs):
        expected = step_of_descent(expected, X, y, 0.1 * 0.5)
    np.testing.assert_allclose(
        aggregate.predict_proba(X), expected.predict_proba(X), rtol=1e-6
    )


def test_rows_of_classes_without_an_output_teach_nothing_in_rounds():
    X, y = rows(n_classes=5)
    models = [
        random_network(0, n_classes=5, **SGD),
        random_network(0, **SGD, classes=[1, 2, 3]),
    ]
    nodes = np.arange(len(y)) // 12
    has_output = np.isin(y, [1, 2, 3]) | (nodes == 0)
    # The rows that remain keep their number for the shares of classes.
    on_all = PFNMAggregator(models, n_rounds=2, sigma=0.5, random_state=0)
    on_rest = clone(on_all)
    on_all.fit(X, y, nodes)
    on_rest.fit(X[has_output], y[has_output], nodes[has_output])
    np.testing.assert_allclose(on_all.coefs_[0], on_rest.coefs_[0])


def test_rounds_train_on_the_rows_that_trained_in_simulation():
    # Rows of a class are equal, so it does not matter which of them are held out.
    counts = np.array([19, 10, 30])
    trained = counts - np.floor(0.1 * counts).astype(int)
    X = np.repeat(np.eye(3), counts, axis=0)
    y = np.repeat(np.arange(3), counts)
    X_trained = np.repeat(np.eye(3), trained, axis=0)
    y_trained = np.repeat(np.arange(3), trained)
    local = MLPClassifier((4,), activation="tanh").set_params(
        **{**SGD, "batch_size": len(y_trained), "tol": 1e9, "n_iter_no_change": 1}
    )
    aggregate = PFNMAggregator([local], n_rounds=2, local_epochs=1, random_state=0)
    aggregate.fit(X, y)
    expected = step_of_descent(
        aggregate.estimators_[0], X_trained, y_trained, 0.1 * 0.5
    )
    np.testing.assert_allclose(
        aggregate.predict_proba(np.eye(3)), expected.predict_proba(np.eye(3)), rtol=1e-6
    )


DEEP_A = [
    [[5.0, 0.0], [0.0, 5.0], [0.0, 0.0]],
    [[4.0, 0.3], [1.5, 4.0]],
    [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]],
]
DEEP_B = [
    [[5.2, 0.0], [0.0, 0.0], [0.0, 5.0]],
    [[4.2, 0.1], [0.7, 4.0]],
    [[2.2, 0.0, 0.0], [0.0, 1.8, 0.2]],
]
STILL = {**SGD, "learning_rate_init": 1e-20}


def same_after_rounds(models, X, y, nodes, **parameters):
    options = {"sigma": 1.0, "gamma0": 1.0, "random_state": 0, **parameters}
    once, thrice = (
        PFNMAggregator(models, n_rounds=n, **options).fit(X, y, nodes) for n in (1, 3)
    )
    np.testing.assert_allclose(
        centred_logits(thrice, X), centred_logits(once, X), rtol=1e-6, atol=1e-8
    )
    return once


@pytest.mark.parametrize("order", ["bottom_up", "top_down"])
def test_own_units_that_learn_nothing_are_merged_as_before(order):
    models = [
        network(coefs, [np.zeros(2), np.zeros(2), np.zeros(3)], **STILL)
        for coefs in (DEEP_A, DEEP_B)
    ]
    X, y = rows()
    once = same_after_rounds(
        models,
        X,
        y,
        np.arange(24) // 12,
        round_units="own",
        matching=Matching(layer_order=order),
    )
    if order == "bottom_up":
        # In each layer one unit is of both nodes; the lower ones go into it.
        assert once.n_units_ == (3, 3)


def test_own_units_of_nodes_that_lack_a_unit_above_are_merged_as_before():
    """From the top, weights to a unit that a node lacks are zeros in the mean."""
    apart = [[3.0, 0.0, 0.0], [0.0, 3.0, 0.0]], [[3.2, 0.0, 0.0], [0.0, 0.0, 3.0]]
    models = [
        network([*coefs[:2], last], [np.zeros(2), np.zeros(2), np.zeros(3)], **STILL)
        for coefs, last in zip((DEEP_A, DEEP_B), apart, strict=True)
    ]
    X, y = rows()
    once = same_after_rounds(
        models,
        X,
        y,
        np.arange(24) // 12,
        round_units="own",
        matching=Matching(layer_order="top_down"),
    )
    assert once.n_units_ == (3, 3)


def test_nodes_that_lack_classes_and_learn_nothing_are_merged_as_before():
    models = [
        random_network(0, **STILL),
        random_network(1, n_classes=3, classes=[1, 2, 3], **STILL),
    ]
    X, y = rows(n_rows=24)
    y[12:] += 1
    same_after_rounds(models, X, y, np.arange(24) // 12)


# ---- the confidence of probabilities ------------------------------------------


def log_loss(logits, y):
    return -np.mean(log_softmax(logits, axis=1)[np.arange(len(y)), y])


def test_confidence_is_that_of_the_nodes_rows_and_moves_all_logits_alike():
    models = [random_network(seed) for seed in (0, 1)]
    X, _ = rows(400)
    rng = np.random.RandomState(1)
    plain = PFNMAggregator(models, sigma=0.5, random_state=0).fit(
        n_class_samples=np.ones((2, 3))
    )
    logits = plain.decision_function(X)
    # Labels twice as sure as the logits are.
    y = np.array([rng.choice(3, p=p) for p in softmax(2 * logits, axis=1)])
    fitted = PFNMAggregator(models, sigma=0.5, last_layer=None, random_state=0).fit(
        X, y, np.arange(400) % 2, n_class_samples=np.ones((2, 3))
    )
    factors = fitted.decision_function(X) / logits
    np.testing.assert_allclose(factors, factors[0, 0], rtol=1e-6)
    best = minimize(lambda f: log_loss(f * logits, y), 1.0).x[0]
    assert factors[0, 0] == pytest.approx(best, rel=0.02)


def test_public_rows_do_not_set_the_confidence():
    models = [random_network(seed) for seed in (0, 1)]
    X, y = rows(9)
    y = models[0].predict(X)
    nodes = np.arange(9) % 2
    options = {"sigma": 0.5, "random_state": 0}
    counts = np.ones((2, 3))
    expected = PFNMAggregator(models, **options).fit(
        X, y, nodes, n_class_samples=counts
    )
    # One public row of the wrong label is too few to tune on.
    X = np.vstack([X, X[:1]])
    nodes = np.append(nodes, -1)
    y = np.append(y, (y[0] + 1) % 3)
    aggregate = PFNMAggregator(models, **options).fit(
        X, y, nodes, n_class_samples=counts
    )
    assert aggregate.fine_tuning_.strength == np.inf
    np.testing.assert_allclose(aggregate.coefs_[1], expected.coefs_[1])


def test_in_simulation_the_rows_held_out_set_the_confidence():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(120, 3))
    y = rng.randint(3, size=120)
    # Learned by heart: sure of the rows it trained on, and wrong on the others.
    local = MLPClassifier((60,), solver="lbfgs", alpha=1e-6, max_iter=2000)
    aggregate = PFNMAggregator(local, random_state=0)
    aggregate.fit(X, y, nodes=np.arange(120) % 2)
    for k, model in enumerate(aggregate.estimators_):
        assert model.predict_proba(X[k::2]).max(axis=1).mean() > 0.9
    assert aggregate.predict_proba(X).max(axis=1).mean() < 0.6


# ---- public rows --------------------------------------------------------------


def test_public_rows_and_fine_tuning_do_the_same():
    rng = np.random.RandomState(1)
    models = [
        network(
            [rng.normal(size=(3, 4)), rng.normal(size=(4, 3))],
            [np.zeros(4), np.zeros(3)],
        )
        for _ in range(2)
    ]
    X = rng.normal(size=(60, 3))
    y = (np.tanh(X) @ rng.normal(size=(3, 3))).argmax(axis=1)
    aggregate = PFNMAggregator(models, random_state=0).fit()
    last = deepcopy(aggregate).fine_tune(X, y, layers="last")
    np.testing.assert_array_equal(last.coefs_[0], aggregate.coefs_[0])
    assert np.isfinite(last.fine_tuning_.strength)
    expected = fine_tune_network(X, y, aggregate._layers, random_state=0)
    aggregate.fine_tune(X, y)
    np.testing.assert_array_equal(aggregate.fine_tuning_.losses, expected.losses)
    np.testing.assert_array_equal(aggregate.coefs_[0], expected.layers.coefs[0])


# ---- streams ------------------------------------------------------------------


def test_a_node_starts_from_the_units_it_has_used_most():
    width = 12
    aggregate = PFNMAggregator([random_network(0, width=width)], random_state=0).fit()
    favorites = [1, 4, 7, 10]
    aggregate._stream.popularity[0][0, favorites] = 10**9
    start = aggregate.node_init(0, 4, n_fresh=0)
    units = {tuple(unit) for unit in start.coefs_[0].T}
    assert units == {tuple(aggregate.coefs_[0][:, i]) for i in favorites}


def test_another_nodes_units_do_not_count():
    models = [random_network(seed, width=6) for seed in (0, 1)]
    aggregate = PFNMAggregator(
        [("a", models[0]), ("b", models[1])], sigma=1e-3, random_state=0
    ).fit()
    aggregate._stream.popularity[0][:] *= 10**9
    start = aggregate.node_init("b", 6, n_fresh=0)
    units_of_b = aggregate.coefs_[0][:, aggregate.assignments_[0][1]]
    assert aggregate.n_units_[0] > 6
    assert {tuple(u) for u in start.coefs_[0].T} == {tuple(u) for u in units_of_b.T}


@pytest.mark.parametrize(("n_units", "n_fresh"), [(8, 1), (30, 3), (39, 3)])
def test_a_tenth_of_the_units_of_a_node_is_fresh(n_units, n_fresh):
    aggregate = PFNMAggregator([random_network(0, width=40)], random_state=0).fit()
    start = aggregate.node_init(0, n_units)
    merged_units = {tuple(unit) for unit in aggregate.coefs_[0].T}
    fresh = [
        i for i in range(n_units) if tuple(start.coefs_[0][:, i]) not in merged_units
    ]
    assert len(fresh) == n_fresh and start.coefs_[0].shape == (3, n_units)
    assert not start.intercepts_[0][fresh].any()


def test_fresh_units_are_small_and_leave_the_network_nearly_as_it_was():
    model = random_network(0, n_features=50, width=50)
    aggregate = PFNMAggregator([model], random_state=0).fit()
    start = aggregate.node_init(0, n_fresh=50)
    merged_units = {tuple(unit) for unit in aggregate.coefs_[0].T}
    fresh = [i for i in range(100) if tuple(start.coefs_[0][:, i]) not in merged_units]
    # As usual: twice one over the numbers of inputs and outputs.
    assert start.coefs_[0][:, fresh].std() == pytest.approx(
        np.sqrt(2 / (50 + 100)), rel=0.1
    )
    assert start.coefs_[1][fresh].std() == pytest.approx(
        np.sqrt(2 / (100 + 3)), rel=0.3
    )


@pytest.mark.parametrize(("name", "n_units"), [("a", 1), ("c", 2)])
def test_a_unit_is_likelier_to_be_used_by_a_node_that_has_used_it(name, n_units):
    def unit(x, y):
        return network([[[x], [y]], np.zeros((1, 3))], [np.zeros(1), np.zeros(3)])

    cos = 1 / 8
    new = unit(2 * cos, 2 * np.sqrt(1 - cos**2))
    # With sigma = sigma0 = 1 to join the atom at (2, 0) gains (8 + 8 cos) / 3 - 2, an
    # atom of its own 2: one less. The log-odds of joining are log(2) if the node has
    # used it in the one step before and log(1 / 2) if not; of a new atom log(1 / 2).
    aggregate = PFNMAggregator([("a", unit(2.0, 0.0))], sigma=1.0).fit()
    assert aggregate.update([(name, new)]).n_units_ == (n_units,)
