# SPDX-License-Identifier: BSD-3-Clause
"""Averages of parameters at once, and networks that started apart."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from helpers.averaged import digits, fit_locals, make_net
from helpers.labels import assert_same_labels
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import (
    LogisticRegression,
    Perceptron,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skgems import ModelAveragingAggregator
from skgems.averaging import StartedApartWarning

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# ---- at once ------------------------------------------------------------------


LINEAR = [
    LogisticRegression(),
    SGDClassifier(),
    Perceptron(),
    RidgeClassifier(),
    LinearSVC(),
    LinearDiscriminantAnalysis(),
]


@pytest.mark.parametrize("local", LINEAR, ids=lambda local: type(local).__name__)
def test_linear_models_are_averaged_without_rows(local):
    X, y, nodes, X_test, _ = digits()
    models = fit_locals(local, X, y, nodes)
    aggregate = ModelAveragingAggregator(models).fit()
    np.testing.assert_allclose(
        aggregate.coef_, np.mean([m.coef_ for m in models], axis=0)
    )
    np.testing.assert_allclose(
        aggregate.decision_function(X_test),
        np.mean([m.decision_function(X_test) for m in models], axis=0),
        atol=1e-10,
    )


def test_networks_are_averaged_layer_by_layer():
    X, y, nodes, _, _ = digits()
    models = fit_locals(make_net(), X, y, nodes)
    aggregate = ModelAveragingAggregator(models).fit()
    for layer in range(2):
        np.testing.assert_allclose(
            aggregate.coefs_[layer], np.mean([m.coefs_[layer] for m in models], axis=0)
        )
        np.testing.assert_allclose(
            aggregate.intercepts_[layer],
            np.mean([m.intercepts_[layer] for m in models], axis=0),
        )


@pytest.fixture
def rows_of_two_nodes():
    """Rows of the digits 0 to 2, and of the digits 1 to 3."""
    X, y, _, _, _ = digits()
    return [(X[rows], y[rows]) for rows in (y <= 2, (y >= 1) & (y <= 3))]


def weighted_mean(first, second):
    """With the weights of the two nodes, which are 1 and 3."""
    return (first + 3 * second) / 4


def test_a_class_is_averaged_over_the_nodes_that_know_it(rows_of_two_nodes):
    models = [LogisticRegression().fit(X, y) for X, y in rows_of_two_nodes]
    first, second = models
    aggregate = ModelAveragingAggregator(models, node_weight=[1.0, 3.0]).fit()
    np.testing.assert_array_equal(aggregate.classes_, [0, 1, 2, 3])
    expected = [
        first.coef_[0],
        weighted_mean(first.coef_[1], second.coef_[0]),
        weighted_mean(first.coef_[2], second.coef_[1]),
        second.coef_[2],
    ]
    np.testing.assert_allclose(aggregate.coef_, expected)


def test_networks_share_hidden_units_and_average_outputs_of_those_who_know(
    rows_of_two_nodes,
):
    models = [make_net().fit(X, y) for X, y in rows_of_two_nodes]
    first, second = models
    aggregate = ModelAveragingAggregator(models, node_weight=[1.0, 3.0]).fit()
    np.testing.assert_allclose(
        aggregate.coefs_[0], weighted_mean(first.coefs_[0], second.coefs_[0])
    )
    outputs_of_first = first.intercepts_[1]
    outputs_of_second = second.intercepts_[1]
    expected = [
        outputs_of_first[0],
        weighted_mean(outputs_of_first[1], outputs_of_second[0]),
        weighted_mean(outputs_of_first[2], outputs_of_second[1]),
        outputs_of_second[2],
    ]
    np.testing.assert_allclose(aggregate.intercepts_[1], expected)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ("equal", 1.5),
        ("n_samples", (2 * 1 + 4 * 2) / 6),
        # Class 0 has a row at each node, class 1 one row and three: their averages are
        # 1.5 and 1.75. Half of the coefficient belongs to either class.
        ("class_counts", (1.5 + 1.75) / 2),
    ],
)
def test_weights_by_rows_and_by_classes(weights, expected):
    """The first model has the coefficient 1, the second has 2."""
    X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    y = np.array([0, 1, 0, 1, 1, 1])
    nodes = np.array([0, 0, 1, 1, 1, 1])
    models = []
    for coefficient in (1.0, 2.0):
        model = SGDClassifier(random_state=0).fit(X, y)
        model.coef_ = np.full((1, 1), coefficient)
        model.intercept_ = np.zeros(1)
        models.append(model)
    aggregate = ModelAveragingAggregator(models, node_weight=weights)
    aggregate.fit(X, y, nodes=nodes)
    assert aggregate.coef_[0, 0] == pytest.approx(expected)


def test_weights_by_rows_need_rows():
    X, y, nodes, _, _ = digits()
    models = fit_locals(LogisticRegression(), X, y, nodes)
    with pytest.raises(ValueError, match="needs the number of rows of each node"):
        ModelAveragingAggregator(models, node_weight="n_samples").fit()


@pytest.mark.parametrize(
    "weights", [[1.0, 2.0], [1.0, 0.0, 1.0], [1.0, np.inf, 1.0], [[1.0]]], ids=str
)
def test_weights_are_one_positive_number_per_node(weights):
    X, y, nodes, _, _ = digits()
    models = fit_locals(LogisticRegression(), X, y, nodes)
    with pytest.raises(ValueError, match=r"one positive number per node \(3\)"):
        ModelAveragingAggregator(models, node_weight=weights).fit()


@pytest.mark.parametrize("weights", ["equal", "n_samples", "class_counts", [1, 5, 9]])
@pytest.mark.parametrize(
    "local",
    [make_net(max_iter=3), SGDClassifier(), RidgeClassifier(), LogisticRegression()],
    ids=lambda local: type(local).__name__,
)
@pytest.mark.parametrize("n_classes", [2, 10])
def test_equal_models_average_to_themselves(weights, local, n_classes):
    X, y, nodes, X_test, _ = digits()
    X, y, nodes = X[y < n_classes], y[y < n_classes], nodes[y < n_classes]
    model = fit_locals(local, X, y, np.zeros(len(y), dtype=int))[0]
    aggregate = ModelAveragingAggregator([model] * 3, node_weight=weights)
    aggregate.fit(X, y, nodes=nodes)
    assert_same_labels(aggregate, model, X_test)
    if hasattr(model, "coef_"):
        expected = np.atleast_2d(model.coef_)
        np.testing.assert_allclose(aggregate.coef_, expected, rtol=1e-12)
        np.testing.assert_allclose(aggregate.intercept_, model.intercept_, rtol=1e-12)
    else:
        for mean, expected in zip(aggregate.coefs_, model.coefs_, strict=True):
            np.testing.assert_allclose(mean, expected, rtol=1e-12)


def large_network(rng):
    network = MLPClassifier((800,), max_iter=1).fit(np.eye(10), range(10))
    network.coefs_ = [rng.normal(size=coef.shape) for coef in network.coefs_]
    return network


def large_linear_model(rng, order):
    model = LogisticRegression()
    model.coef_ = np.array(rng.normal(size=(10, 2_000)), order=order)
    model.intercept_ = rng.normal(size=10)
    model.classes_ = np.arange(10)
    model.n_features_in_ = 2_000
    return model


def peak_memory_of(fit):
    """Bytes that a function needs at most while it runs."""
    tracemalloc.start()
    fit()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


# Three models of 10 times 2,000 numbers, and 100 KiB for all else.
MOST_BYTES = 3 * 8 * 2_000 * 10 + 100 * 2**10


@pytest.mark.parametrize("order", ["C", "F"])
def test_linear_models_are_averaged_in_the_memory_of_three(order):
    rng = np.random.RandomState(0)
    models = [large_linear_model(rng, order) for _ in range(20)]
    first_coef = models[0].coef_.copy()
    aggregate = ModelAveragingAggregator(models).fit()
    assert peak_memory_of(aggregate.fit) < MOST_BYTES
    expected = np.mean([model.coef_ for model in models], axis=0)
    np.testing.assert_allclose(aggregate.coef_, expected)
    np.testing.assert_array_equal(models[0].coef_, first_coef)


# Networks of random weights have nothing in common.
@pytest.mark.filterwarnings("ignore::skgems.averaging.StartedApartWarning")
def test_networks_are_averaged_in_the_memory_of_three():
    rng = np.random.RandomState(0)
    networks = [large_network(rng) for _ in range(20)]
    first_coef = networks[0].coefs_[0].copy()
    aggregate = ModelAveragingAggregator(networks).fit()
    assert peak_memory_of(aggregate.fit) < MOST_BYTES
    expected = np.mean([network.coefs_[0] for network in networks], axis=0)
    np.testing.assert_allclose(aggregate.coefs_[0], expected)
    np.testing.assert_array_equal(networks[0].coefs_[0], first_coef)


@pytest.mark.parametrize("local", [LogisticRegression(), make_net(max_iter=1)])
def test_weights_that_are_not_finite_name_the_node(local):
    X, y, nodes, _, _ = digits()
    models = fit_locals(local, X, y, nodes)
    weights = models[1].coef_ if hasattr(models[1], "coef_") else models[1].coefs_[0]
    weights[2, 3] = np.nan
    with pytest.raises(ValueError, match="Node '1': coef.* not finite"):
        ModelAveragingAggregator(models).fit()


def test_networks_of_different_shapes_are_an_error_that_names_pfnm():
    X, y, nodes, _, _ = digits(2)
    narrow = fit_locals(make_net(), X, y, nodes)[0]
    wide = MLPClassifier((9,), max_iter=1).fit(X, y)
    with pytest.raises(ValueError, match="'a' and 'b'.*PFNMAggregator"):
        ModelAveragingAggregator([("a", narrow), ("b", wide)]).fit()


def test_networks_of_different_activations_are_an_error():
    X, y, nodes, _, _ = digits(2)
    relu = fit_locals(make_net(), X, y, nodes)[0]
    tanh = make_net(activation="tanh").fit(X, y)
    with pytest.raises(ValueError, match="different activations"):
        ModelAveragingAggregator([relu, tanh]).fit()


def test_classifiers_without_weights_are_an_error():
    X, y, _, _, _ = digits(2)
    with pytest.raises(TypeError, match="Node '0': DecisionTreeClassifier"):
        ModelAveragingAggregator([DecisionTreeClassifier().fit(X, y)]).fit()


def test_permuted_copies_average_to_the_network_only_if_aligned():
    X, y, _, X_test, y_test = digits()
    model = make_net().fit(X, y)
    shuffled = make_net().fit(X, y)
    order = np.random.RandomState(1).permutation(32)
    shuffled.coefs_ = [model.coefs_[0][:, order], model.coefs_[1][order]]
    shuffled.intercepts_ = [model.intercepts_[0][order], model.intercepts_[1]]
    aligned = ModelAveragingAggregator([model, shuffled], align="permutation").fit()
    np.testing.assert_allclose(
        aligned.predict_proba(X_test), model.predict_proba(X_test)
    )
    with pytest.warns(StartedApartWarning):
        plain = ModelAveragingAggregator([model, shuffled]).fit()
    assert plain.score(X_test, y_test) < model.score(X_test, y_test) - 0.1


def shuffled_copy(model, seed):
    """The same network of two hidden layers with units in another order."""
    rng = np.random.RandomState(seed)
    first_order = rng.permutation(12)
    second_order = rng.permutation(9)
    shuffled = pickle.loads(pickle.dumps(model))
    W_1, W_2, W_3 = model.coefs_
    shuffled.coefs_ = [
        W_1[:, first_order],
        W_2[np.ix_(first_order, second_order)],
        W_3[second_order],
    ]
    b_1, b_2, b_3 = model.intercepts_
    shuffled.intercepts_ = [b_1[first_order], b_2[second_order], b_3]
    return shuffled


@pytest.mark.parametrize("n_rounds", [0, 1])
def test_every_layer_of_every_node_is_put_in_the_order_of_the_first(n_rounds):
    X, y, _, X_test, _ = digits()
    model = MLPClassifier((12, 9), max_iter=5, random_state=0).fit(X, y)
    aggregate = ModelAveragingAggregator(
        [model, *(shuffled_copy(model, seed) for seed in (1, 2, 3))],
        align="permutation",
        n_rounds=n_rounds,
        local_epochs=1,
        # Rounds at next to no rate show where training would start.
        learning_rate=1e-12,
    )
    aggregate.fit(X, y, nodes=np.arange(len(y)) % 4)
    np.testing.assert_allclose(
        aggregate.predict_proba(X_test), model.predict_proba(X_test), atol=1e-7
    )


def test_scalers_of_pipelines_are_folded_into_the_average():
    X, y, nodes, X_test, _ = digits()
    X = X + 0.01 * np.random.RandomState(0).normal(size=X.shape)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    models = fit_locals(model, X, y, nodes)
    aggregate = ModelAveragingAggregator(models).fit()
    np.testing.assert_allclose(
        aggregate.decision_function(X_test),
        np.mean([m.decision_function(X_test) for m in models], axis=0),
        atol=1e-8,
    )


@pytest.mark.filterwarnings("ignore::skgems.averaging.StartedApartWarning")
def test_networks_of_a_common_start_have_a_better_average():
    X, y, _, X_test, y_test = digits()
    score_of = {}
    for common_init in (True, False):
        unfitted = make_net(random_state=None, max_iter=4, learning_rate_init=0.1)
        aggregate = ModelAveragingAggregator(
            [unfitted] * 3, common_init=common_init, random_state=0
        )
        score_of[common_init] = aggregate.fit(X, y).score(X_test, y_test)
    assert score_of[True] > score_of[False] + 0.1


# ---- networks that started apart ----------------------------------------------


def digit_networks(seeds, hidden=(32,), **params):
    """One network for each seed, each on digits of its own."""
    X, y, nodes, _, _ = digits(len(seeds), disjoint=True)
    return [
        MLPClassifier(hidden, random_state=seed, max_iter=20, **params).fit(
            X[nodes == k], y[nodes == k]
        )
        for k, seed in enumerate(seeds)
    ]


@pytest.mark.parametrize("hidden", [(32,), (300,), (24, 16)])
def test_networks_that_started_apart_draw_a_warning(hidden):
    networks = digit_networks([0, 0, 1], hidden)
    members = list(zip(["north", "east", "south"], networks, strict=True))
    with pytest.warns(StartedApartWarning) as records:
        ModelAveragingAggregator(members).fit()
    (record,) = records
    assert record.filename == __file__
    text = str(record.message)
    assert "'north' are no more similar to those of 'south' than by chance" in text
    assert "'east'" not in text
    assert "align='permutation'" in text
    assert "PFNMAggregator" in text
    assert len(text.splitlines()) <= 3


def test_networks_that_are_aligned_draw_no_warning():
    networks = digit_networks([0, 0, 1])
    ModelAveragingAggregator(networks, align="permutation").fit()


def test_warning_of_many_nodes_names_a_few():
    networks = digit_networks([0, 1]) + digit_networks([2, 3])
    with pytest.warns(StartedApartWarning, match="and 7 more than by chance"):
        ModelAveragingAggregator([networks[0], *networks[1:] * 5]).fit()


@pytest.mark.parametrize(
    "params",
    [{}, {"solver": "sgd", "learning_rate_init": 0.1}, {"solver": "lbfgs", "alpha": 1}],
)
def test_networks_that_started_alike_draw_no_warning(params):
    networks = digit_networks([3, 3], **params)
    ModelAveragingAggregator(networks).fit()
    ModelAveragingAggregator([networks[0], networks[0]]).fit()


def test_one_network_draws_no_warning():
    ModelAveragingAggregator(digit_networks([0])).fit()


def test_rounds_draw_no_warning():
    X, y, nodes, _, _ = digits(2)
    networks = digit_networks([0, 1])
    ModelAveragingAggregator(networks, n_rounds=1).fit(X, y, nodes=nodes)


def test_networks_that_the_aggregator_starts_draw_no_warning():
    X, y, _, _, _ = digits(2)
    ModelAveragingAggregator([make_net(random_state=None)] * 2, random_state=0).fit(
        X, y
    )


def test_linear_models_draw_no_warning():
    X, y, _, _, _ = digits(2)
    linear = [SGDClassifier(random_state=k).fit(X, y) for k in (0, 1)]
    ModelAveragingAggregator(linear).fit()


def test_networks_of_one_unit_draw_no_warning():
    """A single unit does not show where it started."""
    ModelAveragingAggregator(digit_networks([0, 1], (1,))).fit()


def test_each_of_nine_starts_is_told_from_the_first():
    X, y, nodes, _, _ = digits(2)
    rows_of_first, rows_of_others = (np.flatnonzero(nodes == k)[:200] for k in range(2))

    def fit_network(seed, rows):
        network = MLPClassifier((30,), random_state=seed, max_iter=20)
        return network.fit(X[rows], y[rows])

    first = fit_network(0, rows_of_first)
    for seed in range(1, 10):
        other = fit_network(seed, rows_of_others)
        with pytest.warns(
            StartedApartWarning, match=f"'0' are no more similar to those of '{seed}'"
        ):
            ModelAveragingAggregator([("0", first), (str(seed), other)]).fit()
    of_the_same_start = fit_network(0, rows_of_others)
    ModelAveragingAggregator([first, of_the_same_start]).fit()
