# SPDX-License-Identifier: BSD-3-Clause
"""intersection="likelihood": exactly the model of all rows; public rows."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.labels import assert_same_labels
from helpers.pooled_rows import (
    classifiers_of_nodes,
    dealt_data,
    default_aggregate,
    fitted_aggregate,
    partition,
    split,
)
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.special import softmax
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import euclidean_distances, log_loss
from sklearn.neighbors import NearestCentroid

from skgems import GEMSLogisticAggregator
from skgems.gems import Moments

# ---- exactly the pooled model --------------------------------------------------------


EXACT = {
    "ridge": RidgeClassifier(),
    "ridge of alpha 1e-8": RidgeClassifier(alpha=1e-8),
    "ridge balanced": RidgeClassifier(alpha=0.3, class_weight="balanced"),
    "ridge without intercept": RidgeClassifier(fit_intercept=False),
    "lda": LinearDiscriminantAnalysis(),
    "lda shrunk": LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.2),
    "lda eigen": LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1),
    "centroid": NearestCentroid(),
    "centroid shrunk": NearestCentroid(shrink_threshold=0.3),
}


KINDS = list(EXACT)


def decisions(clf, X):
    """Decision values less what all classes have in common."""
    if isinstance(clf, NearestCentroid):
        # What its predict goes by where priors are uniform.
        scores = -euclidean_distances(X, clf.centroids_, squared=True)
        if scores.shape[1] == 2:
            scores = scores[:, 1] - scores[:, 0]
    else:
        scores = clf.decision_function(X)
    return scores if scores.ndim == 1 else scores - scores.mean(axis=1, keepdims=True)


def assert_pooled(agg, pooled_model, X, rtol=1e-8):
    if isinstance(pooled_model, NearestCentroid):
        assert agg.pooled_form_.reason.startswith("the labels are those of")
        assert_same_labels(agg, pooled_model, X)
    else:
        assert agg.exact_ and agg.pooled_form_.reason == ""
    one, other = decisions(agg, X), decisions(pooled_model, X)
    np.testing.assert_allclose(one, other, atol=rtol * np.abs(other).max())
    if isinstance(pooled_model, RidgeClassifier):
        size = np.abs(pooled_model.coef_).max()
        coef = np.atleast_2d(pooled_model.coef_)
        coef = coef - (coef.mean(axis=0) if len(coef) > 1 else 0)
        aggregate_coef = agg.coef_ - (
            agg.coef_.mean(axis=0) if len(agg.coef_) > 1 else 0
        )
        np.testing.assert_allclose(aggregate_coef, coef, atol=rtol * size)
    assert_same_labels(agg, pooled_model, X)
    assert_same_labels(agg.to_estimator(), pooled_model, X)


@pytest.mark.filterwarnings("ignore")  # of classifiers of few rows
@settings(max_examples=10, deadline=None, derandomize=True, phases=[Phase.generate])
@given(
    seed=st.integers(0, 2**31 - 1),
    kind=st.sampled_from(KINDS),
    n_classes=st.integers(2, 4),
    n_features=st.integers(1, 6),
    mean=st.sampled_from([0.0, -3.0, 1e3]),
    dealing=st.lists(st.integers(0, 3), min_size=25, max_size=40),
    n_components=st.integers(1, 3),
)
def test_any_rows_dealt_to_any_nodes_make_the_pooled_model(
    seed, kind, n_classes, n_features, mean, dealing, n_components
):
    rng = np.random.default_rng(seed)
    n_rows = len(dealing)
    y = np.append(np.arange(n_classes), rng.integers(n_classes, size=n_rows))[:n_rows]
    X = rng.normal(size=(n_rows, n_features)) @ rng.normal(size=[n_features] * 2)
    X += mean + 2.0 * rng.normal(size=(n_classes, n_features))[y]
    # NearestCentroid refuses rows of which no feature varies.
    if seed % 3 == 0 and n_features > 1 and not kind.startswith("lda"):
        X[:, 0] = mean
        X[0, 0] += 1.0  # constant at all nodes but one
    nodes = np.unique(dealing, return_inverse=True)[1]
    # Discriminant analysis needs more rows than classes.
    has_few_rows = np.bincount(nodes) <= n_classes
    nodes = np.unique(
        np.where(has_few_rows[nodes], np.argmin(has_few_rows), nodes),
        return_inverse=True,
    )
    agg = fitted_aggregate(X, y, nodes[1], EXACT[kind], n_components=n_components)
    if all(isinstance(clf, DummyClassifier) for clf in agg.estimators_):
        return  # nodes of one class each have no parameters
    pooled_model = clone(EXACT[kind]).fit(X, y)
    if mean == 1e3 and "rounding may change" in agg.pooled_form_.reason:
        # Features that nearly repeat each other, and far from 0.
        assert "condition number" in agg.pooled_form_.reason
        assert_same_labels(agg, pooled_model, X)
        return
    assert_pooled(agg, pooled_model, X)


@pytest.mark.slow  # as of any rows dealt to any nodes, with real ones
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["iris", "cancer"])
@pytest.mark.parametrize("n_nodes", [2, 9])
def test_the_pooled_model_of_any_partition(name, kind, n_nodes):
    X, y, X_test, _ = split(name)
    nodes = np.random.RandomState(n_nodes).randint(n_nodes, size=len(y))
    # And some of one class only.
    nodes[y == 0] += (nodes[y == 0] == 0) * n_nodes
    agg = fitted_aggregate(X, y, nodes, EXACT[kind])
    assert any(isinstance(clf, DummyClassifier) for clf in agg.estimators_)
    assert_pooled(agg, clone(EXACT[kind]).fit(X, y), X_test)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "kind", [pytest.param("ridge", marks=pytest.mark.slow), "ridge of alpha 1e-8"]
)
def test_the_pooled_model_of_80_nodes(kind):
    """Of a few rows each, many of one class; far from 0 and of unequal units."""
    X, y, X_test, _ = split("wine")
    rng = np.random.RandomState(0)
    X = np.vstack([X] * 3) + 0.3 * rng.normal(size=(3 * len(X), 13))
    y = np.tile(y, 3)
    scale = np.logspace(-2, 3, 13)
    X = (X + 10.0) * scale
    X_test = (X_test + 10.0) * scale
    nodes = np.append(np.arange(80), rng.randint(80, size=len(y) - 80))
    agg = fitted_aggregate(X, y, nodes, EXACT[kind], n_components=2)
    assert sum(isinstance(clf, DummyClassifier) for clf in agg.estimators_) > 10
    assert_pooled(agg, clone(EXACT[kind]).fit(X, y), X_test)


@pytest.mark.parametrize("kind", ["ridge", "lda"])
def test_the_pooled_model_of_sparse_rows_and_of_shared_moments(kind):
    X, y, X_test, _, nodes = dealt_data("wine", "homogeneous")
    clfs = classifiers_of_nodes(X, y, nodes, EXACT[kind])
    pooled_model = clone(EXACT[kind]).fit(X, y)
    if kind == "ridge":
        sparse = GEMSLogisticAggregator(clfs, random_state=0)
        assert_pooled(sparse.fit(csr_matrix(X), y, nodes=nodes), pooled_model, X_test)
    shared = GEMSLogisticAggregator(clfs, moments="shared", random_state=0)
    assert_pooled(shared.fit(X, y, nodes=nodes), pooled_model, X_test)


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ([RidgeClassifier(), RidgeClassifier(alpha=2.0)], ["alpha", "'1'"]),
        (
            [RidgeClassifier(), RidgeClassifier(fit_intercept=False)],
            ["fit_intercept", "'1'"],
        ),
        (
            [
                LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1),
                LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.2),
            ],
            ["shrinkage", "'1'"],
        ),
        (
            [LinearDiscriminantAnalysis(), RidgeClassifier()],
            ["the kind of classifier", "'lda' at node '0'", "'ridge' at node '1'"],
        ),
        ([LogisticRegression(), RidgeClassifier()], ["LogisticRegression", "'0'"]),
        (
            [LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")] * 2,
            ["shrinkage='auto'"],
        ),
    ],
)
@pytest.mark.filterwarnings(
    "ignore::skgems.asking.PenaltyWarning",
    "ignore::skgems.asking.InterceptWarning",
)
def test_why_it_is_not_exact(kinds, words):
    X, y, X_test, y_test = split("iris")
    nodes = np.arange(len(y)) % 2
    agg = fitted_aggregate(X, y, nodes, kinds, n_components=2)
    assert not agg.exact_
    for word in words:
        assert word in agg.pooled_form_.reason
    # It is the likeliest instead.
    assert agg.score(X_test, y_test) > 0.9


def test_diagonal_moments_make_centroids():
    X, y, X_test, _ = split("iris")
    nodes = np.arange(len(y)) % 3
    centroid = fitted_aggregate(X, y, nodes, NearestCentroid(), moments="diagonal")
    assert_pooled(centroid, NearestCentroid().fit(X, y), X_test)


def test_diagonal_moments_make_no_ridge():
    X, y, _, _ = split("iris")
    nodes = np.arange(len(y)) % 3
    ridge = fitted_aggregate(X, y, nodes, RidgeClassifier(), moments="diagonal")
    assert not ridge.exact_ and "diagonal" in ridge.pooled_form_.reason


@pytest.mark.parametrize("columns", ["scales", "repeated", "one-hot"])
def test_what_rounding_decides_is_not_called_exact(columns):
    X, y, _, _, nodes = dealt_data("iris", "homogeneous")
    X = {
        "scales": X * [1e-4, 1e4, 1.0, 1e2],
        "repeated": np.column_stack([X, X[:, 0]]),
        "one-hot": np.eye(5)[np.digitize(X[:, 0], [-1.0, 0.0, 0.5, 1.0])],
    }[columns]
    agg = fitted_aggregate(X, y, nodes, LinearDiscriminantAnalysis(solver="lsqr"))
    assert not agg.exact_ and "condition number" in agg.pooled_form_.reason
    # It is made of sums all the same, to which units and repeats are nothing.
    if columns != "one-hot":
        Z, _, _, _, _ = dealt_data("iris", "homogeneous")
        expected = decisions(LinearDiscriminantAnalysis(solver="lsqr").fit(Z, y), Z)
        size = np.abs(expected).max()
        np.testing.assert_allclose(decisions(agg, X), expected, atol=1e-9 * size)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("digits", "ridge"),
        *[("cancer", "ridge of alpha 1e-8"), ("iris", "ridge of alpha 1e-8")],
    ],
)
def test_probabilities_of_what_has_none(name, kind):
    X, y, X_test, y_test, nodes = dealt_data(name, "dirichlet")
    agg = fitted_aggregate(X, y, nodes, EXACT[kind], n_components=4)
    assert agg.pooled_form_.kind == "ridge"
    raw = agg.decision_function(X_test)
    raw = np.column_stack([-raw / 2, raw / 2]) if raw.ndim == 1 else raw
    proba = agg.predict_proba(X_test)
    loss = log_loss(y_test, proba)
    assert loss < log_loss(y_test, softmax(raw, axis=1)) - 0.02
    # Nearly as good as the best factor on the rows themselves.
    factors = np.logspace(-3, 2, 40)
    best = min(log_loss(y_test, softmax(f * raw, axis=1)) for f in factors)
    assert loss < best + 0.04
    plain = agg.to_estimator()
    np.testing.assert_allclose(plain.predict_proba(X_test), proba, atol=1e-10)
    assert_same_labels(plain, agg, X_test)
    np.testing.assert_array_equal(np.argmax(proba, axis=1), agg.predict(X_test))


# ---- public rows ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [("iris", None), ("wine", RidgeClassifier()), ("cancer", None)],
    ids=["iris-logistic", "wine-ridge", "cancer-logistic"],
)
def test_a_few_right_rows_never_cost_much(name, kind):
    X, y, X_test, y_test, nodes = dealt_data(name, "disjoint")
    agg = fitted_aggregate(X, y, nodes, kind)
    before = agg.score(X_test, y_test)
    rng = np.random.RandomState(0)
    worst = 1.0
    state = dict(vars(agg))
    for n in (2, 4, 8, 8, 20):
        rows = rng.choice(len(y), n, replace=False)
        vars(agg).update(state)
        agg.fine_tune(X[rows], y[rows])
        assert agg.fine_tuning_.strength == 1.0 and not len(agg.fine_tuning_.losses)
        worst = min(worst, agg.score(X_test, y_test))
    assert not agg.exact_ and worst >= before - 0.02


@pytest.mark.slow  # as on smaller data
def test_a_few_right_rows_never_cost_much_on_digits():
    X, y, X_test, y_test, _ = dealt_data("digits", "disjoint")
    agg = default_aggregate("digits", "disjoint")
    before = agg.score(X_test, y_test)
    state = dict(vars(agg))
    rng = np.random.RandomState(1)
    try:
        for n in (2, 4, 10, 20):
            rows = rng.choice(len(y), n, replace=False)
            vars(agg).update(state)
            assert agg.fine_tune(X[rows], y[rows]).score(X_test, y_test) > before - 0.02
    finally:
        vars(agg).update(state)


@pytest.mark.parametrize("n", [50, pytest.param(100, marks=pytest.mark.slow)])
def test_with_many_public_rows_tuning_is_no_worse_than_without_them_or_without_nodes(n):
    """By half a point at most, in the mean of four draws of rows."""
    X, y, X_test, y_test = split("cancer")
    nodes = partition("disjoint", y)
    public = np.random.RandomState(0).random(len(y)) < 0.4
    of_nodes = np.flatnonzero(~public)
    agg = fitted_aggregate(X[of_nodes], y[of_nodes], nodes[of_nodes])
    before = agg.score(X_test, y_test)
    state = dict(vars(agg))
    tuned_scores = []
    scores_of_public_rows = []
    for seed in range(4):
        rows = np.flatnonzero(public)
        rows = np.random.RandomState(seed).choice(rows, n, replace=False)
        vars(agg).update(state)
        tuned = agg.fine_tune(X[rows], y[rows])
        tuned_scores.append(tuned.score(X_test, y_test))
        classifier = LogisticRegression(max_iter=2000).fit(X[rows], y[rows])
        scores_of_public_rows.append(classifier.score(X_test, y_test))
    assert np.mean(tuned_scores) > before - 0.005
    assert np.mean(tuned_scores) > np.mean(scores_of_public_rows) - 0.005


def test_rows_matter_where_nodes_are_wrong():
    """Nodes of a shifted world: many public rows outweigh them."""
    X, y, X_test, y_test = split("iris")
    rng = np.random.RandomState(0)
    wrong = np.array([1, 2, 0])[y]
    agg = fitted_aggregate(X, wrong, np.arange(len(y)) % 2, n_components=4)
    assert agg.score(X_test, y_test) < 0.1
    rows = rng.choice(len(y), 60, replace=False)
    agg.fine_tune(X[rows], y[rows])
    assert agg.score(X_test, y_test) > 0.9 and agg.fine_tuning_.strength > 10
    # As rows of nobody in fit, the same is done.
    nodes = np.append(np.arange(len(y)) % 2, np.full(60, -1))
    clfs = agg.estimators_
    with_public_rows = GEMSLogisticAggregator(
        clfs, moments=Moments(n_components=4), random_state=0
    )
    # Nodes that are all wrong do not contradict each other.
    with_public_rows.fit(
        np.vstack([X, X[rows]]), np.append(wrong, y[rows]), nodes=nodes
    )
    assert min(with_public_rows.node_scores_["loss"]) > 1.0
    np.testing.assert_allclose(
        with_public_rows.predict_proba(X_test), agg.predict_proba(X_test), atol=1e-6
    )


def test_natural_weights_are_those_of_one_more_node():
    """A few rows count as rows: nodes that had them would say nearly the same."""
    X, y, X_test, _ = split("cancer")
    nodes = np.arange(len(y)) % 2
    public = np.random.RandomState(0).choice(len(y), 20, replace=False)
    of_nodes = np.setdiff1d(np.arange(len(y)), public)
    # Clusters of fewer rows are other clusters.
    one = {"n_components": 1}
    agg = fitted_aggregate(X[of_nodes], y[of_nodes], nodes[of_nodes], **one)
    before = agg.decision_function(X_test)
    agg.fine_tune(X[public], y[public])
    expected = fitted_aggregate(X, y, nodes, **one).decision_function(X_test)
    gap_before = np.abs(before - expected).mean()
    assert 0 < np.abs(agg.decision_function(X_test) - expected).mean() < gap_before
