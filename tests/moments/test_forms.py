# SPDX-License-Identifier: BSD-3-Clause
"""What is made of sums is what scikit-learn learns on all rows at one place."""

from __future__ import annotations

import json
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import svd
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems.asking import common_form
from skgems.local import closed_form
from skgems.moments import PooledForm, class_moments, merge_moments


def pooled(kind, moments, n_classes, **parameters):
    """W of the pooled classifier of a kind."""
    if isinstance(parameters.get("priors"), list):  # numbers, not pairs with labels
        parameters["priors"] = np.array(parameters["priors"])
    return PooledForm(kind=kind, parameters=parameters).fit(moments, range(n_classes))[
        0
    ]


pooled_ridge = partial(pooled, "ridge")
pooled_lda = partial(pooled, "lda")
pooled_nearest_centroid = partial(pooled, "nearest_centroid")


def dealt(X, y, nodes, kind="class", weights=None, **options):
    """Moments of each node's rows, merged."""
    return merge_moments(
        class_moments(
            X[nodes == k],
            y[nodes == k],
            kind=kind,
            weights=None if weights is None else weights[nodes == k],
            **options,
        )
        for k in np.unique(nodes)
    )


def rows_of(rng, n, d, n_classes, *, mean=0.0, flavor="plain"):
    # Two rows of a class at least: scikit-learn warns of fewer.
    y = np.append(np.repeat(np.arange(n_classes), 2), rng.integers(n_classes, size=n))
    y = rng.permutation(y)
    X = rng.normal(size=(len(y), d)) @ (np.eye(d) + rng.normal(size=(d, d)) / d)
    X += rng.normal(size=(n_classes, d))[y]
    if flavor == "collinear":
        X = np.column_stack([X, X[:, 0] + X[:, 1], X[:, 0] - 3 * X[:, 1]])
    elif flavor == "constant":
        X = np.column_stack([np.full(len(y), 3.0), X, np.zeros(len(y))])
    return X + mean, y


def weights_of(clf):
    """Columns of a class each, of a fitted scikit-learn classifier."""
    coef = np.atleast_2d(clf.coef_)
    W = np.vstack([coef.T, np.broadcast_to(np.ravel(clf.intercept_), len(coef))])
    return np.hstack([-W / 2, W / 2]) if W.shape[1] == 1 else W


def centroids_of(clf):
    """Minus the squared distances that `predict` compares, less what is common."""
    scale = 1.0
    log_priors = 0.0
    if not np.isclose(clf.class_prior_, 1 / len(clf.classes_)).all():
        deviation = clf.within_class_std_dev_
        scale = np.where(deviation > 0, deviation, 1.0)
        log_priors = np.log(clf.class_prior_)
    # Squares of means of 1e6 would cost twelve digits.
    center = clf.centroids_.mean(axis=0)
    Z = (clf.centroids_ - center) / scale
    W = np.vstack([2 * (Z / scale).T, 2 * log_priors - np.sum(Z**2, axis=1)])
    W[-1] -= center @ W[:-1]
    return W


def least_norm(X, y, n_classes, *, alpha, fit_intercept=True, weights=None):
    """Ridge by the singular values of the rows that are not rounding."""
    weights = np.ones(len(y)) if weights is None else weights
    T = 2.0 * np.eye(n_classes)[y] - 1.0
    mean = np.zeros(X.shape[1])
    mean_target = np.zeros(n_classes)
    if fit_intercept:
        mean = weights @ X / weights.sum()
        mean_target = weights @ T / weights.sum()
    root = np.sqrt(weights)[:, None]
    U, s, Vt = svd(root * (X - mean), full_matrices=False)
    is_kept = s > 1e-9 * s[0]
    gains = s[is_kept, None] / (s[is_kept, None] ** 2 + alpha)
    W = Vt[is_kept].T @ (gains * (U[:, is_kept].T @ (root * (T - mean_target))))
    W = np.vstack([W, mean_target - mean @ W])
    return np.outer(W[:, 1], [-0.5, 0.5]) if n_classes == 2 else W


def assert_same_model(W, expected, X, *, tolerance=1e-8, shared=True):
    """Weights, relative to the largest; intercepts to what rows make of weights."""
    assert W.shape == expected.shape
    if shared:  # all classes may have something in common
        W = W - W.mean(axis=1, keepdims=True)
        expected = expected - expected.mean(axis=1, keepdims=True)
    size = np.abs(expected[:-1]).max()
    assert np.abs(W[:-1] - expected[:-1]).max() <= tolerance * size
    sizes = np.abs(expected[-1]) + np.abs(X).max(axis=0) @ np.abs(expected[:-1])
    assert (np.abs(W[-1] - expected[-1]) <= tolerance * sizes).all()
    centered = X - X.mean(axis=0)
    largest_score = np.abs(centered @ expected[:-1]).max()
    differences = centered @ (W[:-1] - expected[:-1])
    assert np.abs(differences).max() <= tolerance * largest_score


partitions = {
    "seed": st.integers(0, 2**32 - 1),
    "n_nodes": st.integers(1, 9),
    "n_classes": st.integers(2, 5),
    "d": st.integers(2, 7),
    "mean": st.sampled_from([0.0, 1e3, 1e6]),
    "by_label": st.booleans(),
}


def drawn_partition(*, seed, n_nodes, n_classes, d, mean, by_label, flavor="plain"):
    """Rows, labels, the node of each row, and the number of classes."""
    rng = np.random.default_rng(seed)
    X, y = rows_of(rng, 20 * d, d, n_classes, mean=mean, flavor=flavor)
    nodes = y % n_nodes if by_label else rng.integers(n_nodes, size=len(y))
    return X, y, nodes, n_classes


@settings(max_examples=20, deadline=None)
@given(
    **partitions,
    alpha=st.sampled_from([1e-8, 1e-2, 1.0, 100.0]),
    fit_intercept=st.booleans(),
    class_weight=st.sampled_from([None, "balanced", "dict"]),
    weighted=st.booleans(),
)
def test_ridge_of_any_partition(
    alpha, fit_intercept, class_weight, weighted, **partition
):
    X, y, nodes, n_classes = drawn_partition(**partition)
    if class_weight == "dict":
        class_weight = {0: 3.0, 1: 0.25}
    options = {
        "alpha": alpha,
        "fit_intercept": fit_intercept,
        "class_weight": class_weight,
    }
    weights = None
    if weighted and class_weight != "balanced":
        weights = np.random.default_rng(partition["seed"]).uniform(0.1, 3.0, len(y))
    kind = "shared" if class_weight is None else "class"
    moments = dealt(X, y, nodes, kind, weights)
    W = pooled_ridge(moments, n_classes, **options)
    # Of scikit-learn's solvers only this one bears means of 1e6 without an intercept.
    solver = "auto" if fit_intercept else "svd"
    pooled = RidgeClassifier(solver=solver, **options).fit(X, y, sample_weight=weights)
    assert_same_model(W, weights_of(pooled), X, shared=False)


@settings(max_examples=20, deadline=None)
@given(
    **partitions,
    solver=st.sampled_from(["svd", "lsqr", "eigen"]),
    shrinkage=st.sampled_from([None, 0.0, 0.3, 1.0]),
    has_priors=st.booleans(),
)
def test_lda_of_any_partition(solver, shrinkage, has_priors, **partition):
    X, y, nodes, n_classes = drawn_partition(**partition)
    priors = np.arange(1.0, n_classes + 1)
    options = {
        "solver": solver,
        "shrinkage": None if solver == "svd" else shrinkage,
        "priors": priors / priors.sum() if has_priors else None,
    }
    kind = "class" if has_priors and solver != "svd" else "shared"
    W = pooled_lda(dealt(X, y, nodes, kind), n_classes, **options)
    pooled = LinearDiscriminantAnalysis(**options).fit(X, y)
    # Means less their mean lose that much in scikit-learn already.
    assert_same_model(W, weights_of(pooled), X)


@settings(max_examples=20, deadline=None)
@given(
    **partitions,
    shrink_threshold=st.sampled_from([None, 0.2, 2.0]),
    priors=st.sampled_from(["uniform", "empirical", "ascending"]),
    flavor=st.sampled_from(["plain", "constant"]),
)
def test_nearest_centroid_of_any_partition(
    shrink_threshold, priors, flavor, **partition
):
    X, y, nodes, n_classes = drawn_partition(**partition, flavor=flavor)
    if priors == "ascending":
        priors = np.arange(1.0, n_classes + 1)
        priors = list(priors / priors.sum())
    options = {"shrink_threshold": shrink_threshold, "priors": priors}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of constant features
        pooled = NearestCentroid(**options).fit(X, y)
    expected = centroids_of(pooled)
    spread = np.ptp(expected[:-1], axis=1).max()
    if spread < 0.1:
        return  # centroids shrunk to nearly one
    for kind in ("diagonal", "shared"):
        W = pooled_nearest_centroid(dealt(X, y, nodes, kind), n_classes, **options)
        # Shrunk centroids are small beside such a mean, and lose digits to it.
        tolerance = 1e-8 if partition["mean"] < 1e6 else 1e-7
        assert_same_model(W, expected, X, tolerance=tolerance)
        if partition["mean"] < 1e6:  # distances lose too many digits there
            predicted = np.argmax(X @ W[:-1] + W[-1], axis=1)
            np.testing.assert_array_equal(predicted, pooled.predict(X))


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_nodes=st.integers(1, 6),
    n_classes=st.integers(2, 4),
    flavor=st.sampled_from(["plain", "collinear", "constant"]),
    few_rows=st.booleans(),
    alpha=st.sampled_from([0.0, 1e-8, 1e-3, 1.0]),
    fit_intercept=st.booleans(),
    mean=st.sampled_from([0.0, 1e3]),
)
def test_ridge_of_singular_moments(
    seed, n_nodes, n_classes, flavor, few_rows, alpha, fit_intercept, mean
):
    rng = np.random.default_rng(seed)
    n, d = (7, 30) if few_rows else (60, 4)
    if mean and flavor == "collinear":
        mean = 0.0  # adding would round, and the rows vary a little across
    X, y = rows_of(rng, n, d, n_classes, mean=mean, flavor=flavor)
    nodes = rng.integers(n_nodes, size=len(y))
    options = {"alpha": alpha, "fit_intercept": fit_intercept}
    W = pooled_ridge(dealt(X, y, nodes), n_classes, **options)
    expected = least_norm(X, y, n_classes, **options)
    assert_same_model(W, expected, X, shared=False)
    if alpha > 1e-8:  # with less, scikit-learn's own weights are partly rounding
        solver = "auto" if fit_intercept else "svd"
        pooled = RidgeClassifier(solver=solver, **options).fit(X, y)
        assert_same_model(W, weights_of(pooled), X, shared=False, tolerance=1e-7)
    elif alpha:  # rows do not see that part
        pooled = RidgeClassifier(solver="svd", **options).fit(X, y)
        logits = X @ W[:-1] + W[-1]
        scores = X @ weights_of(pooled)[:-1] + weights_of(pooled)[-1]
        np.testing.assert_allclose(logits, scores, atol=1e-8 * np.abs(scores).max())


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_nodes=st.integers(1, 6),
    n_classes=st.integers(2, 4),
    flavor=st.sampled_from(["plain", "collinear", "constant"]),
    few_rows=st.booleans(),
    has_priors=st.booleans(),
)
def test_lda_of_singular_moments(
    seed, n_nodes, n_classes, flavor, few_rows, has_priors
):
    rng = np.random.default_rng(seed)
    n, d = (7, 30) if few_rows else (60, 4)
    X, y = rows_of(rng, n, d, n_classes, flavor=flavor)
    moments = dealt(X, y, rng.integers(n_nodes, size=len(y)))
    priors = np.full(n_classes, 1 / n_classes) if has_priors else None
    W = pooled_lda(moments, n_classes, priors=priors)
    pooled = LinearDiscriminantAnalysis(priors=priors).fit(X, y)
    assert_same_model(W, weights_of(pooled), X)
    # The solution of least norm; scikit-learn's takes some rounding for variance.
    W = pooled_lda(moments, n_classes, solver="lsqr", priors=priors)
    counts = np.bincount(y)
    shares = counts / len(y) if priors is None else priors
    means = np.stack([X[y == c].mean(axis=0) for c in range(n_classes)])
    weighted_deviations = (X - means[y]) * np.sqrt(shares / counts)[y, None]
    inverse = np.linalg.pinv(weighted_deviations, rcond=1e-9)
    coef = means @ (inverse @ inverse.T)
    intercepts = np.log(shares) - 0.5 * np.sum(means * coef, axis=1)
    expected = np.vstack([coef.T, intercepts])
    if n_classes == 2:
        expected = np.outer(expected[:, 1] - expected[:, 0], [-0.5, 0.5])
    assert_same_model(W, expected, X)
    W = pooled_lda(moments, n_classes, solver="lsqr", shrinkage=0.1)
    pooled = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1).fit(X, y)
    assert_same_model(W, weights_of(pooled), X)


@pytest.mark.parametrize("mean", [0.0, 4.0, 1024.0])
def test_no_intercept_and_rows_that_are_exactly_collinear(mean):
    """The mean adds no direction then, but by rounding, which a small alpha favors."""
    rng = np.random.default_rng(0)
    for _ in range(8):
        Z = mean + np.round(rng.normal(size=(80, 4)) * 2**20) / 2**20
        X = np.column_stack([Z, Z[:, 0] + Z[:, 2]])
        y = rng.integers(3, size=80)
        moments = dealt(X, y, rng.integers(3, size=80))
        W = pooled_ridge(moments, 3, alpha=1e-8, fit_intercept=False)
        expected = least_norm(X, y, 3, alpha=1e-8, fit_intercept=False)
        assert_same_model(W, expected, X, shared=False, tolerance=1e-10)


def test_units_cost_no_digits():
    rng = np.random.default_rng(0)
    X, y = rows_of(rng, 300, 6, 4)
    scale = 10.0 ** np.arange(-9, 9, 3)
    nodes = rng.integers(3, size=len(y))
    plain, scaled = dealt(X, y, nodes), dealt(X * scale, y, nodes)
    for solver in ("svd", "lsqr"):
        # Before scikit-learn 1.9 they divide by other numbers of rows.
        expected = weights_of(LinearDiscriminantAnalysis(solver=solver).fit(X, y))
        W = pooled_lda(scaled, 4, solver=solver)
        W[:-1] *= scale[:, None]
        assert_same_model(W, expected, X)
    W = pooled_ridge(scaled, 4, alpha=0.0)
    W[:-1] *= scale[:, None]
    assert_same_model(W, pooled_ridge(plain, 4, alpha=0.0), X, shared=False)


def test_hundreds_of_nodes():
    rng = np.random.default_rng(0)
    X, y = rows_of(rng, 1500, 8, 6, mean=1e6)
    nodes = rng.permutation(np.arange(len(y)) % 300)
    moments = dealt(X, y, nodes)
    W = pooled_ridge(moments, 6, alpha=1e-8, class_weight="balanced")
    expected = weights_of(
        RidgeClassifier(alpha=1e-8, class_weight="balanced").fit(X, y)
    )
    assert_same_model(W, expected, X, shared=False, tolerance=1e-9)
    expected = weights_of(LinearDiscriminantAnalysis().fit(X, y))
    assert_same_model(pooled_lda(moments, 6), expected, X)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e6 + 0.1])
def test_what_is_constant_by_class_stays_so_over_nodes(value):
    """Else rounding between nodes is taken for variance, and has all the weight."""
    rng = np.random.default_rng(0)
    X, y = rows_of(rng, 600, 3, 3)
    X = np.column_stack([X, np.full(len(y), value), value * np.array([1, 7, 3])[y]])
    nodes = rng.permutation(np.arange(len(y)) % 150)
    for moments in (class_moments(X, y), dealt(X, y, nodes), dealt(X, y, y)):
        W = pooled_lda(moments, 3)
        expected = weights_of(LinearDiscriminantAnalysis().fit(X[:, :3], y))
        # No variance within classes: scikit-learn leaves such features out as well.
        np.testing.assert_array_equal(W[3:5], 0.0)
        assert_same_model(W[[0, 1, 2, 5]], expected, X[:, :3])
        W = pooled_ridge(moments, 3, alpha=1e-8)
        assert np.abs(W[3]).max() == 0.0


def test_classes_far_apart():
    """A place for all rows would cost the digits that the distances take."""
    rng = np.random.default_rng(0)
    X, y = rows_of(rng, 400, 4, 3)
    X_apart = X + 1e6 * y[:, None]
    nodes = rng.integers(4, size=len(y))
    moments = dealt(X_apart, y, nodes)
    deviations = X - np.stack([X[y == c].mean(axis=0) for c in range(3)])[y]
    within = deviations.T @ deviations / len(y)
    np.testing.assert_allclose(
        moments.by_class().covariance_within_parts(), within, rtol=1e-8, atol=1e-9
    )
    pooled = LinearDiscriminantAnalysis(solver="eigen").fit(X_apart, y)
    W = pooled_lda(moments, 3, solver="eigen")
    assert_same_model(W, weights_of(pooled), X_apart)


def test_clusters_do_not_matter():
    rng = np.random.default_rng(0)
    X, y = rows_of(rng, 200, 4, 3)
    parts = 10 * y + rng.integers(4, size=len(y))
    clusters = class_moments(X, y, parts=parts)
    expected = weights_of(LinearDiscriminantAnalysis().fit(X, y))
    assert_same_model(pooled_lda(clusters, 3), expected, X)
    expected = weights_of(RidgeClassifier(class_weight="balanced").fit(X, y))
    W = pooled_ridge(clusters, 3, alpha=1.0, class_weight="balanced")
    assert_same_model(W, expected, X, shared=False)


def test_one_class_has_nothing_to_decide():
    X = np.arange(6.0).reshape(3, 2)
    moments = class_moments(X, np.zeros(3, dtype=int))
    for W in (
        pooled_ridge(moments, 1, alpha=1.0),
        pooled_lda(moments, 1),
        pooled_nearest_centroid(moments, 1),
    ):
        np.testing.assert_array_equal(W, np.zeros((3, 1)))


def test_rows_without_any_variance():
    X = np.ones((6, 2))
    y = np.array([0, 0, 1, 1, 1, 1])
    moments = class_moments(X, y)
    W = pooled_ridge(moments, 2, alpha=0.0)
    np.testing.assert_allclose(W, [[0, 0], [0, 0], [-1 / 6, 1 / 6]])
    for solver in ("svd", "lsqr"):
        W = pooled_lda(moments, 2, solver=solver)
        np.testing.assert_allclose(W[-1, 1] - W[-1, 0], np.log(2.0))
        np.testing.assert_array_equal(W[:-1], 0.0)


def test_priors_that_do_not_sum_to_one_and_priors_of_zero():
    X, y = rows_of(np.random.default_rng(0), 60, 3, 2)
    moments = class_moments(X, y)
    W = pooled_lda(moments, 2, priors=[2.0, 6.0])
    np.testing.assert_allclose(W, pooled_lda(moments, 2, priors=[0.25, 0.75]))
    W = pooled_lda(moments, 2, priors=[0.0, 1.0])
    assert np.isfinite(W[:-1]).all() and W[-1].tolist() == [-np.inf, np.inf]


@pytest.mark.parametrize(
    ("kind", "n_classes", "parameters", "match"),
    [
        ("shared", 3, {"class_weight": "balanced"}, "scatter of each class"),
        ("diagonal", 3, {}, "moments='diagonal'"),
        ("class", 4, {}, r"no rows of the classes \[3\]"),
        ("class", 2, {}, "of 3 classes, but 2"),
        ("class", 3, {"class_weight": "even"}, "'even' is not known"),
    ],
)
def test_ridge_says_what_moments_lack(kind, n_classes, parameters, match):
    X, y = rows_of(np.random.default_rng(0), 30, 2, 3)
    with pytest.raises(ValueError, match=match):
        pooled_ridge(class_moments(X, y, kind=kind), n_classes, alpha=1.0, **parameters)


def test_lda_says_what_moments_lack():
    X, y = rows_of(np.random.default_rng(0), 30, 2, 3)
    shared = class_moments(X, y, kind="shared")
    priors = np.full(3, 1 / 3)
    with pytest.raises(ValueError, match="scatter of each class"):
        pooled_lda(shared, 3, solver="lsqr", priors=priors)
    pooled_lda(shared, 3, priors=priors)
    with pytest.raises(ValueError, match="3 numbers"):
        pooled_lda(shared, 3, priors=[0.5, 0.5])
    with pytest.raises(ValueError, match="shrinkage needs"):
        pooled_lda(shared, 3, shrinkage=0.1)
    mixed = merge_moments([shared, class_moments(X, y)])
    with pytest.raises(ValueError, match="scatter of each class"):
        pooled_ridge(mixed, 3, alpha=1.0, class_weight="balanced")
    expected = weights_of(RidgeClassifier().fit(np.vstack([X, X]), np.append(y, y)))
    assert_same_model(pooled_ridge(mixed, 3, alpha=1.0), expected, X, shared=False)


def test_rows_without_a_mean_are_an_error():
    X, y = rows_of(np.random.default_rng(0), 30, 2, 3)
    X = np.vstack([X, X[:2]])
    y = np.append(y, [3, 4])
    with_two_classes_of_one_row = class_moments(X, y, min_cluster_size=2)
    with_more_of_these = class_moments(X[:6] + 1.0, np.repeat([3, 4], 3))
    moments = merge_moments([with_two_classes_of_one_row, with_more_of_these])
    with pytest.raises(ValueError, match="min_rows"):
        pooled_ridge(moments, 5, alpha=1.0)


# ---- which classifiers these are -----------------------------------------------

X, Y = rows_of(np.random.default_rng(0), 90, 3, 3)
LABELS = np.array(["no", "perhaps", "yes"])
y = LABELS[Y]


def form_of(**nodes):
    forms = {name: closed_form(clf.fit(X, y)) for name, clf in nodes.items()}
    # As messages have them.
    return common_form(json.loads(json.dumps(forms)))


@pytest.mark.parametrize(
    ("clf", "scatter"),
    [
        (RidgeClassifier(alpha=0.3), "shared"),
        (RidgeClassifier(alpha=np.array([0.3]), fit_intercept=False), "shared"),
        (RidgeClassifier(class_weight="balanced"), "class"),
        (RidgeClassifier(class_weight={"yes": 9, "no": 0.5}), "class"),
        (RidgeClassifier(class_weight={}), "shared"),
        (LinearDiscriminantAnalysis(tol=0.8), "shared"),
        (LinearDiscriminantAnalysis(priors=[0.1, 0.7, 0.2]), "shared"),
        (LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.2), "shared"),
        (LinearDiscriminantAnalysis(solver="eigen"), "shared"),
        (LinearDiscriminantAnalysis("eigen", priors=[0.1, 0.7, 0.2]), "class"),
        (NearestCentroid(), "diagonal"),
        (NearestCentroid(shrink_threshold=0.4, priors="empirical"), "diagonal"),
        (NearestCentroid(priors=[0.1, 0.7, 0.2]), "diagonal"),
    ],
)
def test_the_form_of_a_classifier_makes_the_classifier(clf, scatter):
    form = form_of(lyon=clf, paris=clf)
    assert form.is_exact and form.reason == "" and form.scatter == scatter
    nodes = np.arange(len(Y)) % 4
    W, judged = form.fit(dealt(X, Y, nodes, scatter), LABELS)
    assert judged.kind == form.kind and judged.parameters == form.parameters
    assert judged.is_exact or clf.priors == "uniform"
    pooled = clf.fit(X, y)
    expected = centroids_of(pooled) if scatter == "diagonal" else weights_of(pooled)
    assert_same_model(W, expected, X, shared=form.kind != "ridge")


def test_wrappers_are_taken_off_and_solvers_of_one_equation_are_one():
    search = GridSearchCV(RidgeClassifier(), {"alpha": [2.0]}, cv=2)
    frozen = FrozenEstimator(RidgeClassifier(alpha=2.0).fit(X, y))
    bare = make_pipeline("passthrough", RidgeClassifier(alpha=2.0, solver="lsqr"))
    assert form_of(a=search, b=frozen, c=bare).parameters["alpha"] == 2.0
    form = form_of(
        a=LinearDiscriminantAnalysis(solver="lsqr", n_components=1),
        b=LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.0, tol=0.1),
    )
    assert form.is_exact


class OwnRidge(RidgeClassifier):
    pass


def lda(**options):
    return LinearDiscriminantAnalysis(**{"solver": "lsqr"} | options)


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        (
            {"a": RidgeClassifier(), "b": RidgeClassifier(alpha=2.0)},
            "alpha is 1.0 at node 'a' and 2.0 at node 'b'.",
        ),
        (
            {"a": RidgeClassifier(), "b": RidgeClassifier(fit_intercept=False)},
            "fit_intercept is True at node 'a' and False at node 'b'.",
        ),
        (
            {"a": RidgeClassifier(class_weight="balanced"), "b": RidgeClassifier()},
            "class_weight is 'balanced' at node 'a' and None at node 'b'.",
        ),
        (
            {"a": RidgeClassifier(), "b": lda(), "c": RidgeClassifier()},
            "the kind of classifier is 'ridge' at nodes 'a', 'c' and 'lda' "
            "at node 'b'.",
        ),
        (
            {"a": lda(solver="svd"), "b": lda()},
            "solver is 'svd' at node 'a' and 'lsqr' at node 'b'.",
        ),
        (
            {"a": lda(solver="svd"), "b": lda(solver="svd", tol=0.5)},
            "tol is 0.0001 at node 'a' and 0.5 at node 'b'.",
        ),
        (
            {"a": lda(shrinkage=0.1), "b": lda()},
            "shrinkage is 0.1 at node 'a' and None at node 'b'.",
        ),
        (
            {"a": lda(shrinkage="auto"), "b": lda(), "c": lda(shrinkage="auto")},
            "LinearDiscriminantAnalysis has shrinkage='auto' at nodes 'a', 'c'.",
        ),
        (
            {"a": lda(covariance_estimator=PCA()), "b": lda()},
            "LinearDiscriminantAnalysis has a covariance_estimator at node 'a'.",
        ),
        (
            {"a": NearestCentroid(metric="manhattan")},
            "NearestCentroid has metric='manhattan' at node 'a'.",
        ),
        (
            {"a": RidgeClassifier(positive=True)},
            "RidgeClassifier has positive=True at node 'a'.",
        ),
        (
            {"a": RidgeClassifier(alpha=np.array([1.0, 2.0, 3.0]))},
            "RidgeClassifier has an alpha for each output at node 'a'.",
        ),
        (
            {"a": RidgeClassifierCV(), "b": LogisticRegression()},
            "RidgeClassifierCV is not a function of sums at node 'a' and "
            "LogisticRegression is not a function of sums at node 'b'.",
        ),
        ({"a": OwnRidge()}, "OwnRidge is not a function of sums at node 'a'."),
        (
            {"a": make_pipeline(StandardScaler(), RidgeClassifier())},
            "RidgeClassifier has steps of a pipeline, fitted at the node, before it at "
            "node 'a'.",
        ),
        (
            {name: RidgeClassifier(alpha=1 + (name == "e")) for name in "abcdefgh"},
            "alpha is 1.0 at nodes 'a', 'b', 'c', 'd', 'f' and 2 others and 2.0 at "
            "node 'e'.",
        ),
    ],
)
def test_the_reason_names_what_differs_and_where(nodes, reason):
    forms = {}
    for name, clf in nodes.items():
        # A PCA has no covariances to fit to, and the form need not be of a fitted one.
        cannot_fit = getattr(clf, "covariance_estimator", None) is not None
        forms[name] = closed_form(clf if cannot_fit else clf.fit(X, y))
    form = common_form(forms)
    assert not form.is_exact and form.reason == reason
    with pytest.raises(ValueError, match="not a function of sums"):
        form.fit(class_moments(X, Y), LABELS)


def test_priors_are_those_of_the_classes_of_a_node():
    priors = [0.4, 0.6]
    forms = []
    for is_at_node in (Y < 2, Y != 1):
        clf = lda(priors=priors).fit(X[is_at_node], y[is_at_node])
        forms.append(closed_form(clf))
    assert common_form({"a": forms[0], "b": forms[0]}).is_exact
    differing = common_form({"a": forms[0], "b": forms[1]})
    assert "priors is [['no', 0.4], ['perhaps'" in differing.reason
    with pytest.raises(ValueError, match="priors are those of the classes"):
        common_form({"a": forms[0]}).fit(class_moments(X, Y), LABELS)
    with pytest.raises(ValueError, match="no nodes"):
        common_form({})
