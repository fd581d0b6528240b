# SPDX-License-Identifier: BSD-3-Clause
"""Averages of parameters at once, and networks that started apart."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from helpers.averaged import digits, locals_of, net
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
    models = locals_of(local, X, y, nodes)
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
    models = locals_of(net(), X, y, nodes)
    aggregate = ModelAveragingAggregator(models).fit()
    for layer in range(2):
        np.testing.assert_allclose(
            aggregate.coefs_[layer], np.mean([m.coefs_[layer] for m in models], axis=0)
        )
        np.testing.assert_allclose(
            aggregate.intercepts_[layer],
            np.mean([m.intercepts_[layer] for m in models], axis=0),
        )


def test_a_class_is_averaged_over_the_nodes_that_know_it():
    X, y, _, _, _ = digits()
    shares = [y <= 2, (y >= 1) & (y <= 3)]
    models = [LogisticRegression().fit(X[rows], y[rows]) for rows in shares]
    one, other = models
    aggregate = ModelAveragingAggregator(models, weights=[1.0, 3.0]).fit()
    np.testing.assert_array_equal(aggregate.classes_, [0, 1, 2, 3])
    by_hand = [
        one.coef_[0],
        (one.coef_[1] + 3 * other.coef_[0]) / 4,
        (one.coef_[2] + 3 * other.coef_[1]) / 4,
        other.coef_[2],
    ]
    np.testing.assert_allclose(aggregate.coef_, by_hand)


def test_networks_share_hidden_units_and_average_outputs_of_those_who_know():
    X, y, _, _, _ = digits()
    shares = [y <= 2, (y >= 1) & (y <= 3)]
    models = [net().fit(X[rows], y[rows]) for rows in shares]
    one, other = models
    aggregate = ModelAveragingAggregator(models, weights=[1.0, 3.0]).fit()
    hidden = (one.coefs_[0] + 3 * other.coefs_[0]) / 4
    np.testing.assert_allclose(aggregate.coefs_[0], hidden)
    by_hand = [
        one.intercepts_[1][0],
        (one.intercepts_[1][1] + 3 * other.intercepts_[1][0]) / 4,
        (one.intercepts_[1][2] + 3 * other.intercepts_[1][1]) / 4,
        other.intercepts_[1][2],
    ]
    np.testing.assert_allclose(aggregate.intercepts_[1], by_hand)


def test_weights_by_rows_and_by_classes():
    X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    y, nodes = np.array([0, 1, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 1, 1])
    models = [
        SGDClassifier(random_state=k).fit(X % (k + 2), y, coef_init=None)
        for k in range(2)
    ]
    for k, model in enumerate(models):
        model.coef_, model.intercept_ = np.full((1, 1), 1.0 + k), np.zeros(1)

    def coef(weights):
        aggregate = ModelAveragingAggregator(models, weights=weights)
        return aggregate.fit(X, y, nodes=nodes).coef_[0, 0]

    assert coef("equal") == pytest.approx(1.5)
    assert coef("n_samples") == pytest.approx((2 * 1 + 4 * 2) / 6)
    # Class 0: one row each; class 1: one row and three. A class has half of w.
    assert coef("class_counts") == pytest.approx((1.5 + 1.75) / 2)


def test_weights_that_cannot_be():
    X, y, nodes, _, _ = digits()
    models = locals_of(LogisticRegression(), X, y, nodes)
    with pytest.raises(ValueError, match="counts rows: give fit the rows"):
        ModelAveragingAggregator(models, weights="n_samples").fit()
    for weights in ([1.0, 2.0], [1.0, 0.0, 1.0], [1.0, np.inf, 1.0], [[1.0]]):
        with pytest.raises(ValueError, match=r"one positive number per node \(3\)"):
            ModelAveragingAggregator(models, weights=weights).fit()


@pytest.mark.parametrize("weights", ["equal", "n_samples", "class_counts", [1, 5, 9]])
@pytest.mark.parametrize(
    "local",
    [net(max_iter=3), SGDClassifier(), RidgeClassifier(), LogisticRegression()],
    ids=lambda local: type(local).__name__,
)
@pytest.mark.parametrize("n_classes", [2, 10])
def test_equal_models_average_to_themselves(weights, local, n_classes):
    X, y, nodes, X_test, _ = digits()
    X, y, nodes = X[y < n_classes], y[y < n_classes], nodes[y < n_classes]
    model = locals_of(local, X, y, np.zeros(len(y), dtype=int))[0]
    aggregate = ModelAveragingAggregator([model] * 3, weights=weights)
    aggregate.fit(X, y, nodes=nodes)
    np.testing.assert_array_equal(aggregate.predict(X_test), model.predict(X_test))
    if hasattr(model, "coef_"):
        own = np.atleast_2d(model.coef_)
        np.testing.assert_allclose(aggregate.coef_, own, rtol=1e-12)
        np.testing.assert_allclose(aggregate.intercept_, model.intercept_, rtol=1e-12)
    else:
        for mean, own in zip(aggregate.coefs_, model.coefs_, strict=True):
            np.testing.assert_allclose(mean, own, rtol=1e-12)


def large_model(kind, rng):
    if kind == "network":
        model = MLPClassifier((800,), max_iter=1).fit(np.eye(10), range(10))
        model.coefs_ = [rng.normal(size=c.shape) for c in model.coefs_]
        return model
    model = LogisticRegression()
    model.coef_ = np.array(rng.normal(size=(10, 2_000)), order=kind)
    model.intercept_ = rng.normal(size=10)
    model.classes_, model.n_features_in_ = np.arange(10), 2_000
    return model


# Networks of random weights have nothing in common.
@pytest.mark.filterwarnings("ignore::skgems.averaging.StartedApartWarning")
@pytest.mark.parametrize("kind", ["C", "F", "network"])
def test_memory_is_that_of_three_models(kind):
    rng = np.random.RandomState(0)
    models = [large_model(kind, rng) for _ in range(20)]
    given = models[0].coef_.copy() if kind != "network" else models[0].coefs_[0].copy()
    aggregate = ModelAveragingAggregator(models).fit()
    tracemalloc.start()
    aggregate.fit()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # And 100 KiB for all else.
    assert peak < 3 * 8 * 2_000 * 10 + 100 * 2**10
    if kind == "network":
        expected = np.mean([model.coefs_[0] for model in models], axis=0)
        np.testing.assert_allclose(aggregate.coefs_[0], expected)
        np.testing.assert_array_equal(models[0].coefs_[0], given)
    else:
        expected = np.mean([model.coef_ for model in models], axis=0)
        np.testing.assert_allclose(aggregate.coef_, expected)
        np.testing.assert_array_equal(models[0].coef_, given)


@pytest.mark.parametrize("local", [LogisticRegression(), net(max_iter=1)])
def test_weights_that_are_not_finite_name_the_node(local):
    X, y, nodes, _, _ = digits()
    models = locals_of(local, X, y, nodes)
    weights = models[1].coef_ if hasattr(models[1], "coef_") else models[1].coefs_[0]
    weights[2, 3] = np.nan
    with pytest.raises(ValueError, match="Node '1': coef.* not finite"):
        ModelAveragingAggregator(models).fit()


def test_unequal_shapes_point_to_what_can():
    X, y, nodes, _, _ = digits(2)
    narrow, wide = locals_of(net(), X, y, nodes)
    wide = MLPClassifier((9,), max_iter=1).fit(X, y)
    with pytest.raises(ValueError, match="'a' and 'b'.*PFNMAggregator"):
        ModelAveragingAggregator([("a", narrow), ("b", wide)]).fit()
    tanh = net(activation="tanh").fit(X, y)
    with pytest.raises(ValueError, match="different activations"):
        ModelAveragingAggregator([narrow, tanh]).fit()
    with pytest.raises(TypeError, match="Node '0': DecisionTreeClassifier"):
        ModelAveragingAggregator([DecisionTreeClassifier().fit(X, y)]).fit()


def test_permuted_copies_average_to_the_network_only_if_aligned():
    X, y, _, X_test, y_test = digits()
    model = net().fit(X, y)
    shuffled = net().fit(X, y)
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


def test_every_layer_of_every_node_is_put_in_the_order_of_the_first():
    X, y, _, X_test, _ = digits()
    model = MLPClassifier((12, 9), max_iter=5, random_state=0).fit(X, y)
    models = [model]
    for seed in (1, 2, 3):
        rng = np.random.RandomState(seed)
        one, two = rng.permutation(12), rng.permutation(9)
        shuffled = pickle.loads(pickle.dumps(model))
        a, b, c = model.coefs_
        shuffled.coefs_ = [a[:, one], b[np.ix_(one, two)], c[two]]
        u, v, w = model.intercepts_
        shuffled.intercepts_ = [u[one], v[two], w]
        models.append(shuffled)
    for n_rounds in (0, 1):
        aggregate = ModelAveragingAggregator(
            models,
            align="permutation",
            n_rounds=n_rounds,
            local_epochs=1,
            learning_rate=1e-12,
        )
        # Rounds at no rate show where training would start.
        aggregate.fit(X, y, nodes=np.arange(len(y)) % 4)
        np.testing.assert_allclose(
            aggregate.predict_proba(X_test), model.predict_proba(X_test), atol=1e-7
        )


def test_pipelines_are_folded():
    X, y, nodes, X_test, _ = digits()
    X = X + 0.01 * np.random.RandomState(0).normal(size=X.shape)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    models = locals_of(model, X, y, nodes)
    aggregate = ModelAveragingAggregator(models).fit()
    np.testing.assert_allclose(
        aggregate.decision_function(X_test),
        np.mean([m.decision_function(X_test) for m in models], axis=0),
        atol=1e-8,
    )


@pytest.mark.filterwarnings("ignore::skgems.averaging.StartedApartWarning")
def test_common_start_is_what_makes_networks_average():
    X, y, _, X_test, y_test = digits()
    scores = {
        common: ModelAveragingAggregator(
            [net(random_state=None, max_iter=4, learning_rate_init=0.1)] * 3,
            common_init=common,
            random_state=0,
        )
        .fit(X, y)
        .score(X_test, y_test)
        for common in (True, False)
    }
    assert scores[True] > scores[False] + 0.1


# ---- networks that started apart ----------------------------------------------


def digit_networks(seeds, hidden=(32,), **options):
    """One network for each seed, each on digits of its own."""
    X, y, nodes, _, _ = digits(len(seeds), disjoint=True)
    return [
        MLPClassifier(hidden, random_state=seed, max_iter=20, **options).fit(
            X[nodes == k], y[nodes == k]
        )
        for k, seed in enumerate(seeds)
    ]


@pytest.mark.parametrize("hidden", [(32,), (300,), (24, 16)])
def test_networks_that_started_apart_draw_a_warning(hidden):
    networks = digit_networks([0, 0, 1], hidden)
    members = list(zip(["north", "east", "south"], networks, strict=True))
    with pytest.warns(StartedApartWarning) as caught:
        ModelAveragingAggregator(members).fit()
    assert len(caught) == 1
    assert caught[0].filename == __file__
    text = str(caught[0].message)
    assert "'north' are like those of 'south' by chance" in text
    assert "'east'" not in text
    assert "align='permutation'" in text
    assert "PFNMAggregator" in text
    assert len(text.splitlines()) <= 3
    ModelAveragingAggregator(members, align="permutation").fit()


def test_warning_of_many_nodes_names_a_few():
    networks = digit_networks([0, 1]) + digit_networks([2, 3])
    with pytest.warns(StartedApartWarning, match="and 7 more by chance"):
        ModelAveragingAggregator([networks[0], *networks[1:] * 5]).fit()


@pytest.mark.parametrize(
    "options",
    [{}, {"solver": "sgd", "learning_rate_init": 0.1}, {"solver": "lbfgs", "alpha": 1}],
)
def test_networks_that_started_alike_draw_none(options):
    networks = digit_networks([3, 3], **options)
    ModelAveragingAggregator(networks).fit()
    ModelAveragingAggregator([networks[0], networks[0]]).fit()


def test_where_nothing_can_start_apart_there_is_no_warning():
    X, y, nodes, _, _ = digits(2)
    one, other = digit_networks([0, 1])
    ModelAveragingAggregator([one]).fit()
    ModelAveragingAggregator([one, other], n_rounds=1).fit(X, y, nodes=nodes)
    ModelAveragingAggregator([net(random_state=None)] * 2, random_state=0).fit(X, y)
    linear = [SGDClassifier(random_state=k).fit(X, y) for k in (0, 1)]
    ModelAveragingAggregator(linear).fit()


def test_one_unit_does_not_tell_and_draws_no_warning():
    ModelAveragingAggregator(digit_networks([0, 1], (1,))).fit()


def test_each_of_nine_starts_is_told_from_the_first():
    X, y, nodes, _, _ = digits(2)
    own, others = (np.flatnonzero(nodes == k)[:200] for k in range(2))
    networks = [
        MLPClassifier((30,), random_state=seed, max_iter=20).fit(X[rows], y[rows])
        for seed, rows in enumerate([own] + [others] * 9)
    ]
    of_one_start = MLPClassifier((30,), random_state=0, max_iter=20)
    networks.append(of_one_start.fit(X[others], y[others]))
    names = [str(k) for k in range(11)]
    for name, network in zip(names[1:10], networks[1:10], strict=True):
        with pytest.warns(StartedApartWarning, match=f"'0' are like those of '{name}'"):
            ModelAveragingAggregator([("0", networks[0]), (name, network)]).fit()
    ModelAveragingAggregator([networks[0], networks[10]]).fit()
