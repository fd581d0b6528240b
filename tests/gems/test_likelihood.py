# SPDX-License-Identifier: BSD-3-Clause
"""intersection="likelihood": nearly the model of all rows at one place."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from helpers.answering import let_nodes_answer
from helpers.disclosures import rule_of
from helpers.pooled_rows import (
    classifiers_of_nodes,
    dealt_data,
    default_aggregate,
    fitted_aggregate,
    split,
)
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator, ModelAveragingAggregator
from skgems.asking import Message
from skgems.datasets import partition_by_label
from skgems.gems import Moments, Spaces
from skgems.local import clear_cache
from skgems.messages import reply_in
from skgems.moments import Likelihood
from skgems.parties import reply_of
from skgems.spaces import EmptyIntersectionWarning, NoSpaceError, Sampled, intersect


@cache
def pooled(name, seed=0):
    X, y, _, _ = split(name, seed)
    return LogisticRegression(max_iter=2000).fit(X, y)


# ---- nearly the pooled model -------------------------------------------------------


# One row of 54 is 1.9 points, so small sets may miss a row.
MOST_BELOW = {
    "digits": 0.005,
    "wine": 1.01 / 72,
    "iris": 1.01 / 60,
    "cancer": 3.01 / 228,
}


@pytest.mark.parametrize(
    ("name", "dealing"),
    [
        ("digits", "disjoint"),
        pytest.param("digits", "dirichlet", marks=pytest.mark.slow),
        *[("wine", "disjoint"), ("wine", "homogeneous")],
        *[("iris", "dirichlet"), ("iris", "homogeneous")],
        *[("cancer", "disjoint"), ("cancer", "dirichlet")],
    ],
)
def test_accuracy_is_that_of_the_pooled_model(name, dealing):
    X, y, X_test, y_test, nodes = dealt_data(name, dealing)
    agg = default_aggregate(name, dealing)
    score = agg.score(X_test, y_test)
    assert score >= pooled(name).score(X_test, y_test) - MOST_BELOW[name]
    one_loss = log_loss(y_test, agg.predict_proba(X_test))
    whole_loss = log_loss(y_test, pooled(name).predict_proba(X_test))
    assert one_loss < whole_loss + 0.06
    alone = len(set(zip(y, nodes, strict=True))) == nodes.max() + 1
    words = "no node has a model" if alone else "LogisticRegression is not a function"
    assert not agg.exact_ and words in agg.pooled_form_.reason
    if dealing == "homogeneous":
        return
    clfs = agg.estimators_
    average = ModelAveragingAggregator(clfs).fit(X, y, nodes=nodes)
    assert score > average.score(X_test, y_test) + 0.02
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyIntersectionWarning)
        consensus = GEMSLogisticAggregator(
            clfs, intersection="consensus", random_state=0
        ).fit(X, y, nodes=nodes)
    # The sets of a few classes are easy for it, too.
    gap = score - consensus.score(X_test, y_test)
    assert gap > {"digits": 0.015, "iris": 0.05}.get(name, -0.02)


@pytest.mark.parametrize("kind", ["shared", "diagonal"])
def test_fewer_moments_cost_a_little(kind):
    X, y, X_test, y_test, nodes = dealt_data("digits", "disjoint")
    agg = fitted_aggregate(X, y, nodes, moments=kind)
    assert agg.likelihood_.loss.moments.is_diagonal == (kind == "diagonal")
    score = agg.score(X_test, y_test)
    pooled_score = pooled("digits").score(X_test, y_test)
    assert score > pooled_score - {"shared": 0.02, "diagonal": 0.08}[kind]
    assert (
        agg.history_[0]["bytes_received"]
        < default_aggregate("digits", "disjoint").history_[0]["bytes_received"] / 1.3
    )


@pytest.mark.parametrize(
    "kind",
    [
        # The mixed nodes are of these kinds, too.
        pytest.param(
            SGDClassifier(loss="log_loss", random_state=0), marks=pytest.mark.slow
        ),
        pytest.param(LinearSVC(), marks=pytest.mark.slow),
        RidgeClassifier(),
        [
            LogisticRegression(),
            LinearSVC(),
            RidgeClassifier(),
            SGDClassifier(random_state=0),
        ],
    ],
    ids=["sgd", "svc", "ridge", "mixed"],
)
@pytest.mark.filterwarnings("ignore::skgems.asking.HeavyTailsWarning")
def test_kinds_of_nodes(kind):
    X, y, X_test, y_test, nodes = dealt_data("digits", "dirichlet")
    agg = fitted_aggregate(X, y, nodes, kind, n_components=8)
    # All ridge nodes make the pooled RidgeClassifier.
    pooled_score = pooled("digits").score(X_test, y_test)
    if isinstance(kind, RidgeClassifier):
        pooled_score = RidgeClassifier().fit(X, y).score(X_test, y_test)
    assert agg.score(X_test, y_test) >= pooled_score - 0.01
    if isinstance(kind, list):
        assert not agg.exact_


def test_nodes_of_one_class_each():
    X, y, X_test, y_test = split("digits")
    agg = fitted_aggregate(X, y, y)
    assert [type(clf) for clf in agg.estimators_] == [DummyClassifier] * 10
    assert agg.score(X_test, y_test) > pooled("digits").score(X_test, y_test) - 0.01
    assert len(agg.good_enough_spaces(X, y, nodes=y)) == 10


def test_one_node_and_one_class():
    X, y, _, _ = split("iris")
    alone = fitted_aggregate(X, y, np.zeros(len(y), dtype=int))
    assert np.mean(alone.predict(X) == pooled("iris").predict(X)) > 0.97
    of_class = y == 1
    only = fitted_aggregate(X[of_class], y[of_class], np.arange(of_class.sum()) % 2)
    assert (only.predict(X) == 1).all()


@pytest.mark.filterwarnings("ignore::skgems.parties.ClassesLeftOutWarning")
def test_a_class_that_is_too_small_to_be_told_of_is_never_predicted():
    X, y, X_test, y_test = split("iris")
    is_kept = (y != 2) | (np.cumsum(y == 2) <= 3)
    X, y = X[is_kept], y[is_kept]
    nodes = np.arange(len(y)) % 2
    with pytest.warns(UserWarning, match=r"Nothing is known of the classes \[2\]"):
        agg = fitted_aggregate(X, y, nodes, disclosure=rule_of(5), epsilon="auto")
    assert agg.classes_.tolist() == [0, 1, 2]
    assert set(agg.predict(X_test)) == {0, 1}
    assert agg.predict_proba(X_test)[:, 2].max() < 1e-6
    two = y_test < 2
    assert agg.score(X_test[two], y_test[two]) == 1.0
    assert np.abs(agg.coef_).max() < 1e3 and np.abs(agg.intercept_).max() < 1e3


@pytest.mark.filterwarnings("ignore::skgems.parties.ClassesLeftOutWarning")
def test_where_sums_are_of_one_class_the_models_that_were_sent_are_averaged():
    """Each node tells sums of class 1 alone, and its model knows all three."""
    X, y, X_test, _ = split("wine")
    is_kept = (y == 1) | (np.cumsum(y == 0) <= 16) & (y == 0) | (y == 2)
    X, y = X[is_kept], y[is_kept]
    nodes = np.zeros(len(y), dtype=int)
    for c in range(3):
        nodes[y == c] = np.arange(np.sum(y == c)) % 2
    rule = rule_of(20)
    assert np.bincount(y[nodes == 0]).tolist()[1] >= 20
    assert max(np.bincount(y[nodes == k])[[0, 2]].max() for k in (0, 1)) < 20
    with pytest.warns(UserWarning, match=r"mean of the nodes' models.*\[0, 2\]"):
        agg = fitted_aggregate(X, y, nodes, disclosure=rule)
    clfs = classifiers_of_nodes(X, y, nodes)
    logits = np.mean([clf.decision_function(X_test) for clf in clfs], axis=0)
    proba = np.exp(logits - logits.max(axis=1, keepdims=True))
    proba /= proba.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(agg.predict_proba(X_test), proba, atol=1e-8)


# ---- epsilon -----------------------------------------------------------------------


@cache
def bounded_aggregate(geometry):
    """An aggregate of dirichlet digits that is bounded by an epsilon of 0.94."""
    X, y, _, _, nodes = dealt_data("digits", "dirichlet")
    agg = GEMSLogisticAggregator(
        default_aggregate("digits", "dirichlet").estimators_,
        epsilon=0.94,
        spaces=Spaces(geometry, construction=Sampled(100)),
        random_state=0,
    )
    return agg.fit(X, y, nodes=nodes)


@pytest.mark.parametrize(
    "geometry", ["gram", pytest.param("ball", marks=pytest.mark.slow)]
)
def test_a_given_epsilon_bounds_the_distance_to_every_node(geometry):
    bounded = bounded_aggregate(geometry)
    assert bounded.intersection_.found
    assert bounded.intersection_.method == "likelihood"
    scores = bounded.node_scores_
    assert scores["epsilon"] == [0.94] * 4
    radius = np.array(scores["radius"])
    assert (np.array(scores["distance"]) <= radius * (1 + 1e-9)).all()
    # Sampled spaces promise the level in the directions that were tried.
    assert min(scores["on_own_scale"]) > 0.94 - 0.03
    X_test, y_test = dealt_data("digits", "dirichlet")[2:4]
    assert bounded.score(X_test, y_test) > pooled("digits").score(X_test, y_test) - 0.06


@pytest.mark.parametrize(
    "geometry", ["gram", pytest.param("ball", marks=pytest.mark.slow)]
)
def test_a_given_epsilon_binds_and_changes_the_model(geometry):
    bounded = bounded_aggregate(geometry)
    distance = np.array(bounded.node_scores_["distance"])
    radius = np.array(bounded.node_scores_["radius"])
    assert (distance > radius * (1 - 1e-4)).any()
    free = default_aggregate("digits", "dirichlet")
    X_test = dealt_data("digits", "dirichlet")[2]
    change = bounded.predict_proba(X_test) - free.predict_proba(X_test)
    assert np.abs(change).max() > 0.1
    assert (bounded.predict(X_test) != free.predict(X_test)).any()


def test_spaces_that_bind_nothing_are_not_built(monkeypatch):
    X, y, _, _, nodes = dealt_data("iris", "dirichlet")
    tasks = []
    answer = reply_of

    def counting(request, member):
        tasks.append(request.task)
        return answer(request, member)

    let_nodes_answer(monkeypatch, counting)
    clear_cache()
    free = fitted_aggregate(X, y, nodes)
    assert free.spaces_ is None and free.intersection_ is None
    assert "moments" in tasks and "space" not in tasks
    for column in ("distance", "radius", "epsilon", "on_own_scale"):
        assert np.isnan(free.node_scores_[column]).all()
    # With bounds so wide that they keep everything the model is the same.
    wide = GEMSLogisticAggregator(free.estimators_, epsilon=0.01, random_state=0)
    wide.fit(X, y, nodes=nodes)
    assert wide.intersection_.n_iter == 0 and len(wide.spaces_) == 4
    np.testing.assert_array_equal(wide.coef_, free.coef_)
    np.testing.assert_array_equal(wide.intercept_, free.intercept_)


@pytest.mark.parametrize(
    ("geometry", "intersection"), [("gram", "consensus"), ("ellipsoid", "likelihood")]
)
def test_spaces_built_after_the_fit_are_those_that_bounded_it(geometry, intersection):
    X, y, _, _, nodes = dealt_data("iris", "dirichlet")
    agg = fitted_aggregate(
        X,
        y,
        nodes,
        epsilon=0.05,
        on_empty="ignore",
        geometry=geometry,
        intersection=intersection,
    )
    state = {name: id(attribute) for name, attribute in vars(agg).items()}
    spaces = agg.good_enough_spaces(X, y, nodes=nodes)
    assert state == {name: id(attribute) for name, attribute in vars(agg).items()}
    for space, expected in zip(spaces, agg.spaces_, strict=True):
        np.testing.assert_allclose(space.center, expected.center, rtol=1e-9, atol=1e-12)
        assert space.radius == pytest.approx(expected.radius)
        assert space.epsilon == expected.epsilon == 0.05
    # Rows of no node are an error, not an empty space.
    with pytest.raises(ValueError, match=r"Nodes \['0', '1', .*3'\] are given"):
        agg.good_enough_spaces()


@pytest.mark.parametrize(
    ("geometry", "intersection"), [("gram", "consensus"), ("ellipsoid", "likelihood")]
)
def test_spaces_built_after_the_fit_have_half_the_local_accuracy_as_their_epsilon(
    geometry, intersection
):
    X, y, _, _, nodes = dealt_data("iris", "dirichlet")
    agg = fitted_aggregate(X, y, nodes, geometry=geometry, intersection=intersection)
    spaces = agg.good_enough_spaces(X, y, nodes=nodes)
    local = [
        clf.score(X[nodes == k], y[nodes == k]) for k, clf in enumerate(agg.estimators_)
    ]
    half = [score / 2 for score in local]
    assert [space.epsilon for space in spaces] == pytest.approx(half)


def test_spaces_that_do_not_meet_are_proved_to():
    X, y, X_test, y_test, nodes = dealt_data("digits", "disjoint")
    agg = GEMSLogisticAggregator(
        default_aggregate("digits", "disjoint").estimators_,
        epsilon=1.0,
        spaces=Spaces(construction="certified"),
        random_state=0,
    )
    with pytest.warns(EmptyIntersectionWarning, match="do not intersect"):
        agg.fit(X, y, nodes=nodes)
    assert agg.intersection_.empty and agg.intersection_.lower_bound > 1.0
    expected = [space.distance(agg.intersection_.point) for space in agg.spaces_]
    assert agg.node_scores_["distance"] == pytest.approx(expected)
    # It is the point that misses the spaces least: as "deepest" finds it.
    deepest = intersect(agg.spaces_, method="deepest")
    np.testing.assert_allclose(agg.intersection_.point, deepest.point, atol=1e-6)


def test_nothing_that_is_exact_is_left_when_epsilon_is_given():
    X, y, _, _, nodes = dealt_data("iris", "homogeneous")
    agg = fitted_aggregate(X, y, nodes, RidgeClassifier(), epsilon=0.5)
    assert not agg.exact_ and "epsilon" in agg.pooled_form_.reason


def test_a_search_over_epsilon_asks_for_moments_once_a_fold(monkeypatch):
    X, y, _, _, nodes = dealt_data("iris", "dirichlet")
    answer = reply_of
    tasks = []

    def counting(request, member):
        tasks.append(request.task)
        return answer(request, member)

    let_nodes_answer(monkeypatch, counting)
    folds = StratifiedKFold(2).split(
        X, [f"{n}:{c}" for n, c in zip(nodes, y, strict=True)]
    )
    agg = GEMSLogisticAggregator(
        classifiers_of_nodes(X, y, nodes),
        moments=Moments(n_components=2),
        random_state=0,
    )
    grid = {"epsilon": ["auto", 0.3, 0.6]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GridSearchCV(agg, grid, cv=list(folds)).fit(X, y, nodes=nodes)
    # At "auto" there are none.
    assert tasks.count("moments") == 4 * (2 + 1)
    assert tasks.count("space") == 4 * 2 + (
        4 if search.best_params_["epsilon"] != "auto" else 0
    )
    assert search.best_score_ > 0.85


# ---- weights of nodes ----------------------------------------------------------------


def test_fits_that_differ_in_epsilon_alone_search_for_the_likeliest_model_once(
    monkeypatch,
):
    X, y, _, _ = split("iris")
    nodes = np.arange(len(y)) % 3
    clfs = classifiers_of_nodes(X, y, nodes)
    n_searches = 0
    bounded = Likelihood.bounded

    def counting(*args, **options):
        nonlocal n_searches
        n_searches += 1
        return bounded(*args, **options)

    monkeypatch.setattr(Likelihood, "bounded", counting)

    def fitted(**parameters):
        agg = GEMSLogisticAggregator(clfs, random_state=0, **parameters)
        return agg.fit(X, y, nodes=nodes)

    clear_cache()
    first = fitted()
    warm = [fitted(epsilon=epsilon) for epsilon in (0.2, 0.5)]
    assert n_searches == 1
    for agg in warm:
        clear_cache()
        cold = fitted(epsilon=agg.epsilon)
        np.testing.assert_array_equal(agg.coef_, cold.coef_)
        np.testing.assert_array_equal(agg.intercept_, cold.intercept_)
    assert n_searches == 3
    # What the search depends on is part of what it is found by.
    clear_cache()
    fitted()
    for parameters in (
        {"C": 0.1},
        {"fit_intercept": False},
        {"node_weight": [1, 2, 3]},
    ):
        n_before = n_searches
        other = fitted(**parameters)
        assert n_searches == n_before + 1
        assert not np.array_equal(other.coef_, first.coef_)


def weights_of(agg):
    return np.vstack([agg.coef_.T, agg.intercept_])


def test_nodes_count_by_their_rows_or_as_they_are_told():
    X, y, _, _ = split("iris")
    nodes = (np.random.RandomState(0).random(len(y)) < 0.3).astype(int)
    rows = np.bincount(nodes)
    auto = weights_of(fitted_aggregate(X, y, nodes))
    by_rows = weights_of(fitted_aggregate(X, y, nodes, node_weight="n_samples"))
    np.testing.assert_array_equal(by_rows, auto)
    by_numbers = weights_of(fitted_aggregate(X, y, nodes, node_weight=7.0 * rows))
    np.testing.assert_allclose(by_numbers, auto, atol=1e-3)
    equal = fitted_aggregate(X, y, nodes, node_weight="equal")
    assert np.abs(weights_of(equal) - auto).max() > 0.01
    counts = [m.counts.sum() for m in [equal.likelihood_.loss.moments]]
    assert counts[0] == pytest.approx(len(y))


@pytest.mark.parametrize("weight", [0.2, 5.0])
def test_weights_of_nodes_are_weights_of_their_rows(weight):
    X, y, _, _ = split("iris")
    nodes = np.arange(len(y)) % 2
    ratio = np.array([weight, 1.0])
    agg = fitted_aggregate(X, y, nodes, RidgeClassifier(), node_weight=ratio)
    rows = np.bincount(nodes)
    factors = ratio / ratio.sum() * len(y) / rows
    pooled_model = RidgeClassifier().fit(X, y, sample_weight=factors[nodes])
    np.testing.assert_allclose(agg.coef_, pooled_model.coef_, rtol=1e-8)
    assert np.abs(agg.coef_ - RidgeClassifier().fit(X, y).coef_).max() > 1e-4


def test_a_node_whose_model_says_nothing_does_not_stop_the_others():
    """It has no good-enough space: any change breaks its ties."""
    X, y, X_test, y_test = split("iris")
    nodes = np.arange(len(y)) % 2
    clfs = classifiers_of_nodes(X, y, nodes)
    clfs[1].coef_ = np.zeros_like(clfs[1].coef_)
    clfs[1].intercept_ = np.zeros(3)
    agg = GEMSLogisticAggregator(clfs, random_state=0).fit(X, y, nodes=nodes)
    assert agg.spaces_ is None and agg.score(X_test, y_test) > 0.9
    with pytest.raises(NoSpaceError, match="node '1': there is no good-enough"):
        agg.set_params(epsilon=0.3).fit(X, y, nodes=nodes)


# ---- merged networks -----------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
def test_the_last_layer_of_networks():
    X, y, X_test, y_test = split("digits")
    nodes = partition_by_label(y, 3)
    net = MLPClassifier((24,), solver="lbfgs", alpha=0.1, max_iter=100, random_state=0)
    nets = classifiers_of_nodes(X, y, nodes, net)
    scores = {}
    for method in ("likelihood", "consensus"):
        agg = GEMSMLPAggregator(
            nets,
            last_layer=GEMSLogisticAggregator(intersection=method),
            local_epochs=0,
            random_state=0,
        ).fit(X, y, nodes=nodes)
        scores[method] = agg.score(X_test, y_test)
        assert ("moments" in [entry["task"] for entry in agg.history_]) == (
            method == "likelihood"
        )
    assert scores["likelihood"] > scores["consensus"]
    assert scores["likelihood"] > 0.93


# ---- how it is asked -----------------------------------------------------------------


def test_it_is_the_same_over_bytes(monkeypatch):
    X, y, X_test, _, nodes = dealt_data("iris", "dirichlet")
    clfs = classifiers_of_nodes(X, y, nodes, [LogisticRegression(), RidgeClassifier()])
    moments = Moments(n_components=2)
    settings = {"random_state": 0, "epsilon": 0.6, "moments": moments}

    def fitted():
        clear_cache()
        agg = GEMSLogisticAggregator(clfs, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EmptyIntersectionWarning)
            return agg.fit(X, y, nodes=nodes)

    in_memory = fitted()
    answer = reply_of
    tasks = []

    def by_bytes(request, member):
        tasks.append(request.task)
        request = Message.from_bytes(request.to_bytes())
        reply = Message.of(request.task, **answer(request, member).as_content())
        return reply_in(Message.from_bytes(reply.to_bytes()))

    let_nodes_answer(monkeypatch, by_bytes)
    over_bytes = fitted()
    assert tasks.count("moments") == len(clfs)
    np.testing.assert_array_equal(weights_of(over_bytes), weights_of(in_memory))
    assert over_bytes.pooled_form_ == in_memory.pooled_form_


def test_it_is_the_same_in_two_processes():
    X, y, _, _, nodes = dealt_data("iris", "dirichlet")
    in_one_process = fitted_aggregate(X, y, nodes)
    clear_cache()
    in_two_processes = fitted_aggregate(X, y, nodes, n_jobs=2)
    np.testing.assert_array_equal(
        weights_of(in_two_processes), weights_of(in_one_process)
    )


@pytest.mark.parametrize("kind", [None, RidgeClassifier()], ids=["logistic", "ridge"])
def test_the_order_of_nodes_does_not_matter(kind):
    X, y, X_test, _, nodes = dealt_data("iris", "dirichlet")
    one = fitted_aggregate(X, y, nodes, kind)
    order = np.array([2, 0, 3, 1])
    clfs = [one.estimators_[k] for k in order]
    other = GEMSLogisticAggregator(clfs, random_state=0)
    other.fit(X, y, nodes=np.argsort(order)[nodes])
    np.testing.assert_allclose(
        other.predict_proba(X_test), one.predict_proba(X_test), atol=1e-6
    )


def test_units_and_zero_of_features_do_not_matter():
    X, y, X_test, _, nodes = dealt_data("iris", "dirichlet")
    a, b = np.array([1e-2, 5.0, 80.0, 1.0]), np.array([3.0, -40.0, 1e3, 0.0])
    scaled = make_pipeline(StandardScaler(), LogisticRegression())
    one = fitted_aggregate(X, y, nodes, scaled, n_components=2)
    other = fitted_aggregate(X * a + b, y, nodes, scaled, n_components=2)
    np.testing.assert_allclose(
        other.predict_proba(X_test * a + b), one.predict_proba(X_test), atol=1e-5
    )
    tight, loose = (
        fitted_aggregate(
            X * a + b, y, nodes, LinearDiscriminantAnalysis(), n_components=2
        ),
        fitted_aggregate(X, y, nodes, LinearDiscriminantAnalysis(), n_components=2),
    )
    np.testing.assert_allclose(
        tight.predict_proba(X_test * a + b), loose.predict_proba(X_test), atol=1e-7
    )


def test_C_is_that_of_logistic_regression():
    X, y, X_test, _, nodes = dealt_data("cancer", "homogeneous")
    sizes = []
    for C in (1e-3, 0.1):
        agg = fitted_aggregate(X, y, nodes, C=C)
        pooled_model = LogisticRegression(C=C, max_iter=2000).fit(X, y)
        sizes.append(np.linalg.norm(agg.coef_))
        assert sizes[-1] == pytest.approx(np.linalg.norm(pooled_model.coef_), rel=0.15)
        agree = np.mean(agg.predict(X_test) == pooled_model.predict(X_test))
        assert agree > 0.965
    assert sizes[0] < 0.6 * sizes[1]
