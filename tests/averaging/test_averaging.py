# SPDX-License-Identifier: BSD-3-Clause
"""Averages of parameters, at once and after rounds of training."""

from __future__ import annotations

import os
import pickle
import tracemalloc
import warnings
from unittest import SkipTest

import numpy as np
import pytest
from helpers.fitted import once
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import (
    LogisticRegression,
    Perceptron,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import estimator_checks_generator

from skgems import ModelAveragingAggregator
from skgems.averaging import StartedApartWarning
from skgems.datasets import partition_by_label, partition_homogeneous

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@once
def digits(n_nodes=3, *, disjoint=False):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    nodes = partition_homogeneous(y, n_nodes=n_nodes, random_state=0)
    if disjoint:
        nodes = partition_by_label(y, n_nodes)
    test = np.arange(len(y)) % 4 == 0
    return X[~test], y[~test], nodes[~test], X[test], y[test]


def net(**options):
    given = {"batch_size": 32, "solver": "sgd", "max_iter": 20, "random_state": 0}
    return MLPClassifier((32,), **{**given, **options})


@once
def locals_of(estimator, X, y, nodes):
    return [
        clone(estimator).fit(X[nodes == k], y[nodes == k])
        for k in range(nodes.max() + 1)
    ]


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


# ---- rounds -------------------------------------------------------------------


@pytest.mark.parametrize(
    "local",
    [net(), net(solver="adam"), SGDClassifier(loss="log_loss"), LogisticRegression()],
    ids=["sgd", "adam", "linear", "logistic"],
)
def test_rounds_come_close_to_pooled_rows(local):
    X, y, _, X_test, y_test = digits()
    rate = 0.01 if local.get_params().get("solver") == "adam" else 0.05
    aggregate = ModelAveragingAggregator(
        [local] * 3, n_rounds=4, local_epochs=4, learning_rate=rate, random_state=0
    ).fit(X, y)
    assert aggregate.score(X_test, y_test) > 0.9
    assert len(aggregate.history_) == 4
    first, last = aggregate.history_[0], aggregate.history_[-1]
    assert set(first["loss"]) == {"0", "1", "2"}
    assert np.mean(list(last["loss"].values())) < np.mean(list(first["loss"].values()))


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        (
            "cyclical",
            [[0.2 * 0.25**0.5, 0.05], [0.1414213562, 0.1, 0.0707106781, 0.05]],
        ),
        (
            "exponential",
            [
                [0.2 * 0.25 ** (e / 4) for e in (1, 2)],
                [0.2 * 0.25 ** (e / 4) for e in (3, 4, 5, 6)],
            ],
        ),
        ("constant", [[0.2] * 2, [0.2] * 4]),
    ],
)
@pytest.mark.parametrize("epochs", ["increasing", "fixed"])
def test_history_tells_epochs_rates_and_bytes(schedule, rates, epochs):
    X, y, _, _, _ = digits()
    aggregate = ModelAveragingAggregator(
        [("a", net()), ("b", net())],
        n_rounds=2,
        local_epochs=2,
        learning_rate=0.2,
        decay=0.25,
        schedule=schedule,
        epochs=epochs,
        epsilon=1e6,  # every model has settled
        random_state=0,
    ).fit(X, y)
    lengths = [2, 4] if epochs == "increasing" else [2, 2]
    if epochs == "fixed":
        again = {"cyclical": rates[0], "constant": rates[0]}
        rates = [rates[0], again.get(schedule, rates[1][:2])]
    history = aggregate.history_
    assert [entry["task"] for entry in history] == ["train", "train"]
    assert [entry["epochs"] for entry in history] == lengths
    for entry, expected in zip(history, rates, strict=True):
        np.testing.assert_allclose(entry["learning_rates"], expected)
        assert entry["left_out"] == [] and set(entry["loss"]) == {"a", "b"}
        # Two nodes, of eight bytes a parameter, and a few settings.
        arrays = 2 * 8 * (64 * 32 + 32 + 32 * 10 + 10)
        assert arrays < entry["bytes_sent"] < arrays + 500
        assert arrays < entry["bytes_received"] < arrays + 100
        assert 0 < entry["change"] < np.inf


def test_rounds_start_at_the_average_of_fitted_models():
    X, y, nodes, X_test, _ = digits()
    models = locals_of(net(), X, y, nodes)
    before = [array.copy() for m in models for array in m.coefs_]
    at_once = ModelAveragingAggregator(models).fit()
    still = ModelAveragingAggregator(
        models, n_rounds=1, local_epochs=1, learning_rate=1e-12, random_state=0
    ).fit(X, y, nodes=nodes)
    np.testing.assert_allclose(
        still.decision_function(X_test), at_once.decision_function(X_test), atol=1e-6
    )
    assert still.history_[0]["change"] < 1e-8
    after = [array for m in models for array in m.coefs_]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_rounds_widen_models_to_all_classes():
    X, y, nodes, X_test, y_test = digits(5, disjoint=True)
    models = locals_of(net(learning_rate_init=0.1), X, y, nodes)
    assert models[0].coefs_[-1].shape[1] == 1
    aggregate = ModelAveragingAggregator(
        models, n_rounds=12, local_epochs=2, learning_rate=0.1, random_state=0
    ).fit(X, y, nodes=nodes)
    assert aggregate.coefs_[-1].shape == (32, 10)
    at_once = ModelAveragingAggregator(models).fit()
    gain = aggregate.score(X_test, y_test) - at_once.score(X_test, y_test)
    assert gain > 0.2


@pytest.mark.slow  # as test_common.py, of more settings
def test_same_seed_same_result_whatever_n_jobs():
    X, y, _, X_test, _ = digits()

    def proba(seed, n_jobs=None):
        aggregate = ModelAveragingAggregator(
            [net(random_state=None)] * 3, n_rounds=2, n_jobs=n_jobs, random_state=seed
        )
        return aggregate.fit(X[:300], y[:300]).predict_proba(X_test)

    np.testing.assert_array_equal(proba(0), proba(0, n_jobs=2))
    assert not np.array_equal(proba(0), proba(1))


class Unreliable(SGDClassifier):
    """Fails to train where a feature says so."""

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        if classes is None and np.any(X[:, 0] > 50):
            raise OSError("disk full")
        return super().partial_fit(X, y, classes, sample_weight)


class Stumbling(SGDClassifier):
    """Fails in the first epoch that it trains in this process, then never."""

    failures = 0

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        if classes is None and not Stumbling.failures:
            Stumbling.failures += 1
            raise OSError("a moment")
        return super().partial_fit(X, y, classes, sample_weight)


def test_a_node_that_stumbles_is_asked_again():
    X, y, _, _, _ = digits()
    Stumbling.failures = 0
    aggregate = ModelAveragingAggregator(
        [Stumbling(loss="log_loss")] * 2, n_rounds=1, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        aggregate.fit(X, y)
    assert Stumbling.failures == 1
    assert aggregate.history_[0]["left_out"] == []
    sure = ModelAveragingAggregator(
        [SGDClassifier(loss="log_loss")] * 2, n_rounds=1, random_state=0
    ).fit(X, y)
    np.testing.assert_array_equal(aggregate.coef_, sure.coef_)


def test_a_failing_node_is_left_out_and_all_failing_is_an_error():
    X, y, nodes, X_test, y_test = digits()
    X = X.copy()
    X[np.flatnonzero(nodes == 1)[0], 0] = 99.0
    aggregate = ModelAveragingAggregator(
        Unreliable(loss="log_loss"), n_rounds=1, random_state=0
    )
    with pytest.warns(UserWarning, match="Node '1' failed twice.*disk full"):
        aggregate.fit(X, y, nodes=nodes)
    assert aggregate.history_[0]["left_out"] == ["1"]
    assert aggregate.score(X_test, y_test) > 0.7
    with pytest.raises(RuntimeError, match="Every node failed.*disk full"):
        aggregate.fit(X[nodes == 1], y[nodes == 1])


def test_what_cannot_train_in_rounds():
    X, y, nodes, _, _ = digits()
    piped = make_pipeline(StandardScaler(), LogisticRegression())
    for local, message in (
        (RidgeClassifier(), "RidgeClassifier cannot go on training.*What can: MLP"),
        (Perceptron(), "Perceptron cannot go on training"),
        (net(solver="lbfgs"), "MLPClassifier.solver='lbfgs'.*cannot go on training"),
        (LogisticRegression(solver="liblinear", max_iter=9), "cannot go on|liblinear"),
        (piped, "make_pipeline.StandardScaler.., aggregator"),
    ):
        if "liblinear" in message:
            rows = y < 2
            models = locals_of(local, X[rows], y[rows], nodes[rows])
        else:
            rows = slice(None)
            models = locals_of(local, X, y, nodes)
        with pytest.raises(TypeError, match=message):
            ModelAveragingAggregator(models, n_rounds=1).fit(
                X[rows], y[rows], nodes=nodes[rows]
            )


def test_what_cannot_train_is_named_before_anything_is_trained():
    X, y, nodes, _, _ = digits()
    named = [("a", SGDClassifier()), ("b", RidgeClassifier()), ("c", SGDClassifier())]
    with pytest.raises(TypeError, match="Node 'b': RidgeClassifier cannot go on"):
        ModelAveragingAggregator(named, n_rounds=1).fit(X, y, nodes=nodes)


def test_rounds_need_parameters_that_mean_the_same():
    X, y, nodes, X_test, y_test = digits()
    # As many features as classes: the arrays would even fit.
    X, X_test = X[:, 20:30], X_test[:, 20:30]
    layers, linear = MLPClassifier(()), LogisticRegression()
    for given in ([layers, linear, linear], [linear, linear, layers]):
        with pytest.raises(TypeError, match="MLPClassifier.*whose parameters differ"):
            ModelAveragingAggregator(given, n_rounds=1).fit(X, y, nodes=nodes)
    both = ModelAveragingAggregator(
        [SGDClassifier(loss="log_loss"), linear, linear], n_rounds=3, random_state=0
    )
    assert both.fit(X, y, nodes=nodes).score(X_test, y_test) > 0.6


def test_constant_nodes_train_as_the_others_do():
    X, y, _, X_test, y_test = digits()
    rest = y != 3
    models = [
        DummyClassifier().fit(X[~rest], y[~rest]),
        *(SGDClassifier(max_iter=9).fit(X[rest], y[rest]) for _ in range(2)),
    ]
    nodes = np.where(rest, 1 + np.arange(len(y)) % 2, 0)
    aggregate = ModelAveragingAggregator(
        models, n_rounds=10, local_epochs=1, learning_rate=0.1, random_state=0
    ).fit(X, y, nodes=nodes)
    of_three = y_test == 3
    assert np.mean(aggregate.predict(X_test[of_three]) == 3) > 0.5
    at_once = ModelAveragingAggregator(models).fit()
    assert not at_once.coef_[3].any()  # what has one class says nothing of it


@pytest.mark.parametrize("common", [True, False])
def test_first_weights_come_from_the_random_state(common):
    X, y, _, _, _ = digits()

    def first(seed=0, **options):
        aggregate = ModelAveragingAggregator(
            [net(random_state=None, **options)] * 2,
            n_rounds=1,
            local_epochs=1,
            learning_rate=1e-12,
            common_init=common,
            random_state=seed,
        )
        return aggregate.fit(X[:200], y[:200]).coefs_[0]

    np.testing.assert_array_equal(first(), first())
    assert not np.allclose(first(), first(seed=1))
    # The mean of two random matrices is smaller than either.
    assert (np.std(first()) > 0.9 * np.sqrt(2 / (64 + 32))) == common


def test_first_weights_are_those_of_an_estimators_own_seed():
    X, y, _, _, _ = digits()
    starts = [
        ModelAveragingAggregator(
            [net(random_state=own)] * 2,
            n_rounds=1,
            local_epochs=1,
            learning_rate=1e-12,
            random_state=seed,
        )
        .fit(X[:200], y[:200])
        .coefs_[0]
        for own, seed in ((3, 0), (3, 1), (4, 0))
    ]
    np.testing.assert_allclose(starts[0], starts[1], atol=1e-9)
    assert not np.allclose(starts[0], starts[2])


def test_rounds_need_rows_of_their_own():
    X, y, nodes, _, _ = digits()
    models = locals_of(LogisticRegression(), X, y, nodes)
    aggregate = ModelAveragingAggregator(models, n_rounds=1)
    with pytest.raises(ValueError, match="no rows of theirs to ask for a shared model"):
        aggregate.fit()
    with pytest.warns(UserWarning, match="nodes share classes"):
        aggregate.fit(X, y)


def test_search_over_rounds_and_decay():
    X, y, _, _, _ = digits()
    search = GridSearchCV(
        ModelAveragingAggregator([net()] * 2, learning_rate=0.1, random_state=0),
        {"n_rounds": [1, 3], "decay": [0.25, 1.0]},
        cv=2,
        error_score="raise",
    )
    search.fit(X[:400], y[:400])
    assert search.best_params_["n_rounds"] == 3


def test_clone_pickle_export_and_pipeline():
    X, y, nodes, X_test, _ = digits()
    models = locals_of(net(), X, y, nodes)
    pipe = make_pipeline(
        StandardScaler(),
        ModelAveragingAggregator(
            models, n_rounds=1, learning_rate=0.1, weights="n_samples", random_state=0
        ),
    )
    pipe.fit(X, y, modelaveragingaggregator__nodes=nodes)
    expected = pipe.predict_proba(X_test)
    again = clone(pipe).fit(X, y, modelaveragingaggregator__nodes=nodes)
    np.testing.assert_array_equal(again.predict_proba(X_test), expected)
    stored = pickle.loads(pickle.dumps(pipe))
    np.testing.assert_array_equal(stored.predict_proba(X_test), expected)
    scaler, aggregate = pipe[0], pipe[1]
    plain = aggregate.to_estimator()
    assert type(plain) is MLPClassifier
    np.testing.assert_allclose(plain.predict_proba(scaler.transform(X_test)), expected)


@pytest.mark.parametrize(
    "local",
    [net(random_state=3), LogisticRegression()],  # SGD has another rate for sparse rows
    ids=lambda local: type(local).__name__,
)
def test_sparse_rows_train_as_dense_ones(local):
    X, y, _, X_test, _ = digits()
    aggregate = ModelAveragingAggregator(
        [local] * 2, n_rounds=1, local_epochs=2, random_state=0
    )
    dense = aggregate.fit(X, y).decision_function(X_test)
    sparse = aggregate.fit(csr_matrix(X), y).decision_function(csr_matrix(X_test))
    np.testing.assert_allclose(sparse, dense, atol=1e-6)


def test_early_stopping_and_large_batches_are_no_obstacle():
    X, y, _, X_test, y_test = digits()
    local = net(early_stopping=True, batch_size=2000, learning_rate_init=0.1)
    aggregate = ModelAveragingAggregator(
        [local] * 2, n_rounds=2, local_epochs=2, learning_rate=0.1, random_state=0
    )
    assert aggregate.fit(X, y).score(X_test, y_test) > 0.15
    assert local.early_stopping and local.batch_size == 2000


def test_two_classes_in_rounds():
    X, y, _, X_test, y_test = digits()
    X, y = X[y < 2], np.array(["no", "yes"])[y[y < 2]]
    for local in (net(), SGDClassifier(loss="log_loss"), LogisticRegression()):
        aggregate = ModelAveragingAggregator(
            [local] * 3, n_rounds=3, learning_rate=0.1, random_state=0
        ).fit(X, y)
        expected = np.array(["no", "yes"])[y_test[y_test < 2]]
        assert aggregate.score(X_test[y_test < 2], expected) > 0.98
        assert aggregate.decision_function(X_test).ndim == 1


def test_convergence_warnings_are_those_of_the_local_estimators_only():
    X, y, _, _, _ = digits()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        ModelAveragingAggregator(
            [LogisticRegression()] * 2, n_rounds=2, local_epochs=1
        ).fit(X, y)


# ---- scikit-learn's own checks, in rounds -------------------------------------


def checks():
    local = MLPClassifier((8,), solver="sgd", batch_size=20, learning_rate_init=0.1)
    for estimators in (None, [local] * 2):
        aggregate = ModelAveragingAggregator(
            estimators, n_rounds=2, learning_rate=0.2, random_state=0
        )
        for instance, check in estimator_checks_generator(aggregate):
            kind = "default" if estimators is None else "networks"
            options = "-".join(str(v) for v in check.keywords.values())
            name = f"{kind}-{check.func.__name__}{options}"
            yield pytest.param(instance, check, id=name)


@pytest.mark.slow  # as test_common.py, in rounds
@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learns_checks_in_rounds(estimator, check):
    assert os.environ["SCIPY_ARRAY_API"] == "1"
    try:
        check(estimator)
    except SkipTest as reason:
        pytest.fail(f"a check skipped itself: {reason}")


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
    with pytest.warns(StartedApartWarning, match="and 2 more by chance"):
        ModelAveragingAggregator([networks[0], *networks[1:] * 2, networks[1]]).fit()


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
