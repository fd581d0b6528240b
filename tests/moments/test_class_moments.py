# SPDX-License-Identifier: BSD-3-Clause
"""Class moments of nodes add up to those of all rows, to the last digits."""

from __future__ import annotations

import tracemalloc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn import config_context

from skgems.moments import SHARED, class_moments, merge_moments, row_moments


def labelled_rows(n=300, *, d=4, n_classes=3, mean=0.0, seed=0):
    """Rows of classes whose means differ, and a label of every class at least once."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(
        np.append(np.arange(n_classes), rng.integers(n_classes, size=n))
    )
    X = rng.standard_normal((len(y), d)) @ rng.standard_normal((d, d))
    return X + mean * np.arange(1, d + 1) + 2.0 * y[:, None], y


def exact_sums(X, y, *, kind="class", weights=None):
    """Counts, means and scatter by class, in more digits than a double has."""
    X = X.astype(np.longdouble)
    w = np.ones(len(y)) if weights is None else weights
    w = w.astype(np.longdouble)
    counts = []
    means = []
    scatter = []
    for c in range(y.max() + 1):
        in_class = y == c
        counts.append(w[in_class].sum())
        means.append(w[in_class] @ X[in_class] / counts[-1])
        deviations = X[in_class] - means[-1]
        scatter.append((w[in_class, None] * deviations).T @ deviations)
    scatter = np.stack(scatter)
    if kind == "diagonal":
        scatter = np.einsum("cjj->cj", scatter)
    if kind == "shared":
        scatter = scatter.sum(axis=0, keepdims=True)
    return np.array(counts), np.stack(means), scatter


def assert_sums_are_exact(
    moments, X, y, *, kind="class", tolerance=1e-12, weights=None
):
    """Compare sums by class with those of long doubles; errors are relative."""
    moments = moments.by_class()
    counts, means, scatter = exact_sums(X, y, kind=kind, weights=weights)
    np.testing.assert_array_equal(moments.columns, np.arange(len(counts)))
    np.testing.assert_allclose(moments.counts, counts.astype(float), rtol=1e-13)
    size = np.sqrt(np.max(scatter) / counts.sum()).astype(float)
    mean_errors = moments.means + (moments.origin - means).astype(float)
    # Means are held less the origin, so they have as many digits as deviations.
    largest_mean = max(size, np.abs(moments.means).max())
    assert np.abs(mean_errors).max() <= tolerance * largest_mean
    assert moments.scatter.shape == scatter.shape
    error = np.abs(moments.scatter - scatter).max(axis=tuple(range(1, scatter.ndim)))
    largest = np.abs(scatter).max(axis=tuple(range(1, scatter.ndim)))
    assert (error <= tolerance * largest).all()
    if kind != "shared":
        assert moments.squares is None
        return
    squares = exact_sums(X, y, kind="diagonal", weights=weights)[2]
    assert moments.squares.shape == squares.shape
    assert np.abs(moments.squares - squares).max() <= tolerance * squares.max()


def moments_and_peak_memory(*args, **kwargs):
    """Class moments, and the most bytes that were held while they were summed."""
    tracemalloc.start()
    try:
        moments = class_moments(*args, **kwargs)
        return moments, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


kinds = pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_nodes=st.integers(1, 40),
    kind=st.sampled_from(["class", "shared", "diagonal"]),
    scale=st.sampled_from([(0.0, 1e-13), (1e3, 1e-12), (1e6, 1e-9)]),
    clusters=st.integers(1, 3),
    weighted=st.booleans(),
)
def test_moments_of_nodes_add_up_to_those_of_all_rows(
    *, seed, n_nodes, kind, scale, clusters, weighted
):
    mean, tolerance = scale
    X, y = labelled_rows(120, mean=mean, seed=seed)
    rng = np.random.default_rng(seed)
    nodes = rng.integers(n_nodes, size=len(y))
    weights = rng.uniform(0.1, 3.0, len(y)) if weighted else None
    parts = clusters * y + rng.integers(clusters, size=len(y))
    merged = merge_moments(
        class_moments(
            X[in_node],
            y[in_node],
            kind=kind,
            parts=parts[in_node],
            weights=None if weights is None else weights[in_node],
        )
        for in_node in (nodes == k for k in np.unique(nodes))
    )
    assert_sums_are_exact(merged, X, y, kind=kind, tolerance=tolerance, weights=weights)


@pytest.mark.parametrize(
    ("kind", "mean", "tolerance"),
    [("class", 1e3, 1e-12), ("shared", 1e6, 1e-9), ("diagonal", 1e6, 1e-9)],
)
def test_moments_of_hundreds_of_nodes_are_exact(kind, mean, tolerance):
    X, y = labelled_rows(1000, mean=mean)
    nodes = np.arange(len(y)) % 250
    one_by_one = (
        class_moments(X[nodes == k], y[nodes == k], kind=kind) for k in range(250)
    )
    assert_sums_are_exact(
        merge_moments(one_by_one), X, y, kind=kind, tolerance=tolerance
    )


def test_means_of_classes_that_are_far_apart_keep_their_digits():
    X, y = labelled_rows(mean=1e3)
    distant_rows = X + 1e6 * y[:, None]
    alone = class_moments(distant_rows, y)
    assert_sums_are_exact(alone, distant_rows, y, tolerance=1e-12)
    halves = [class_moments(distant_rows[i::2], y[i::2]) for i in range(2)]
    assert_sums_are_exact(merge_moments(halves), distant_rows, y, tolerance=1e-9)
    by_label = [class_moments(distant_rows[y == c], y[y == c]) for c in range(3)]
    assert_sums_are_exact(merge_moments(by_label), distant_rows, y, tolerance=1e-12)


@kinds
def test_constant_features_have_no_scatter_at_all(kind):
    rng = np.random.default_rng(0)
    X, y = labelled_rows(450)
    X = np.column_stack([X, np.full(len(y), 0.1), 0.1 * np.array([1, 7, 3])[y]])
    nodes = rng.integers(100, size=len(y))
    merged = merge_moments(
        class_moments(X[nodes == k], y[nodes == k], kind=kind) for k in np.unique(nodes)
    ).by_class()
    for moments in (class_moments(X, y, kind=kind), merged):
        np.testing.assert_array_equal(moments.scatter[..., 4:], 0.0)
        np.testing.assert_array_equal(moments.variances()[4], 0.0)
        assert moments.variances()[5] > 0
    if kind != "diagonal":
        np.testing.assert_array_equal(merged.total().covariance[4], 0.0)


def test_blocks_of_float32_are_summed_in_float64():
    # Numbers of so few digits that float32 holds the sums of a block, in whatever order
    # they are made, but not those of the three blocks of a class.
    y = np.arange(2**18) % 2
    X = np.random.default_rng(0).integers(-25, 26, size=(len(y), 6))
    narrow = X.astype(np.float32)
    with config_context(working_memory=1):
        moments = class_moments(narrow, y)
    assert moments.means.dtype == moments.scatter.dtype == np.float64
    assert moments.scatter.max() > 2**24
    assert_sums_are_exact(moments, narrow, y, tolerance=1e-12)
    np.testing.assert_array_equal(class_moments(narrow[:1], y[:1]).means, 0.0)


def test_float32_rows_lose_no_more_digits_than_their_products_round():
    X, y = labelled_rows(5000, d=6)
    narrow = X.astype(np.float32)
    # Each of the additions of a sum rounds once.
    tolerance = len(y) * np.finfo(np.float32).eps
    assert_sums_are_exact(class_moments(narrow, y), narrow, y, tolerance=tolerance)
    # Deviations from a row of the class are exact. Of few digits their sums are, too.
    distant_rows = (np.round(X * 16) / 16 + 4096 * y[:, None]).astype(np.float32)
    assert_sums_are_exact(
        class_moments(distant_rows, y), distant_rows, y, tolerance=1e-12
    )


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array])
@kinds
def test_sparse_rows_have_the_moments_of_dense_ones(form, kind):
    rng = np.random.default_rng(0)
    X, y = labelled_rows(200)
    X *= rng.random(X.shape) < 0.3
    row_weights = rng.uniform(0.5, 2.0, len(y))
    for chosen_weights in (None, row_weights):
        moments = class_moments(form(X), y, kind=kind, weights=chosen_weights)
        assert_sums_are_exact(moments, X, y, kind=kind, weights=chosen_weights)
        dense = class_moments(X, y, kind=kind, weights=chosen_weights)
        merged = merge_moments([moments, dense])
        weights_twice = None if chosen_weights is None else np.tile(chosen_weights, 2)
        assert_sums_are_exact(
            merged,
            np.vstack([X, X]),
            np.append(y, y),
            kind=kind,
            weights=weights_twice,
        )


def test_wide_sparse_rows_are_never_made_dense():
    rng = np.random.default_rng(0)
    n_rows = 50_000
    width = 20_000
    words = 20  # a row
    columns = rng.integers(width, size=(n_rows, words))
    start = np.arange(0, n_rows * words + 1, words)
    entries = rng.random(n_rows * words, dtype=np.float32)
    X = sparse.csr_matrix((entries, columns.ravel(), start), shape=(n_rows, width))
    X.sum_duplicates()
    y = rng.integers(5, size=n_rows)
    moments, peak = moments_and_peak_memory(X, y, kind="diagonal")
    assert moments.scatter.shape == (5, width)
    assert peak < 100 * 2**20  # dense rows would take 8 GB, a matrix 3 GB
    first_columns = slice(0, 40)
    expected = [X[y == c][:, first_columns].toarray().astype(float) for c in range(5)]
    scatter = np.stack([len(rows) * rows.var(axis=0) for rows in expected])
    np.testing.assert_allclose(moments.scatter[:, first_columns], scatter, rtol=1e-9)


@kinds
def test_rows_are_summed_within_the_working_memory(kind):
    X, y = labelled_rows(15_000, d=40)
    with config_context(working_memory=1):
        moments, peak = moments_and_peak_memory(X, y, kind=kind)
    assert peak < X.nbytes / 2
    assert_sums_are_exact(moments, X, y, kind=kind)


def six_rows_of_three_classes():
    """Classes of three rows, of two and of one."""
    return np.arange(12.0).reshape(6, 2) ** 2, np.array([0, 0, 0, 1, 1, 2])


def test_small_classes_add_to_the_shared_scatter_only():
    X, y = six_rows_of_three_classes()
    moments = class_moments(X, y, min_cluster_size=3)
    assert moments.columns.tolist() == [0] and moments.counts.tolist() == [3.0]
    assert moments.groups.tolist() == [0, SHARED]
    assert moments.group_counts.tolist() == [3.0, 3.0]
    scatter = exact_sums(X, y)[2].astype(float)
    np.testing.assert_allclose(moments.scatter, [scatter[0], scatter[1] + scatter[2]])
    shared = class_moments(X, y, kind="shared", min_cluster_size=3)
    np.testing.assert_allclose(shared.scatter, scatter.sum(axis=0, keepdims=True))
    np.testing.assert_allclose(shared.squares, [scatter[0].diagonal()])


def test_there_are_no_moments_if_no_class_has_min_cluster_size_rows():
    X, y = six_rows_of_three_classes()
    with pytest.raises(ValueError, match="min_cluster_size=4"):
        class_moments(X, y, min_cluster_size=4)


def test_there_are_no_moments_of_no_rows():
    X, y = six_rows_of_three_classes()
    with pytest.raises(ValueError, match="no rows"):
        class_moments(X[:0], y[:0])


def test_a_class_with_a_small_cluster_is_not_divided_into_clusters():
    X, y = labelled_rows(60, n_classes=2)
    parts = np.where(y == 0, np.arange(len(y)) % 2, 2 + (np.arange(len(y)) == 3))
    # A cluster of class 1 that has this row alone.
    y[3] = 1
    parts[3] = 3
    moments = class_moments(X, y, parts=parts, min_cluster_size=2)
    assert moments.columns.tolist() == [0, 0, 1]
    np.testing.assert_allclose(
        moments.origin + moments.means[2], X[y == 1].mean(axis=0), rtol=1e-12
    )
    for part in range(2):
        in_part = (y == 0) & (parts == part)
        np.testing.assert_allclose(
            moments.origin + moments.means[part], X[in_part].mean(axis=0), rtol=1e-12
        )
    assert_sums_are_exact(moments, X, y)


def test_merging_parts_keeps_the_sums_of_their_class():
    X, y = labelled_rows(90)
    parts = 4 * y + np.arange(len(y)) % 4
    moments = class_moments(X, y, parts=parts)
    assert len(moments.columns) == 12
    halves = moments.merged_parts(np.arange(12) // 2)
    assert len(halves.columns) == 6 and halves.n_rows == len(y)
    assert_sums_are_exact(halves, X, y)
    assert halves.merged_parts(np.arange(6)) is halves


@kinds
def test_renamed_classes_take_their_sums_with_them(kind):
    X, y = labelled_rows(60, mean=10.0)
    moments = class_moments(X, y, kind=kind)
    renamed = moments.renamed(np.array([2, 0, 1]))
    assert renamed.columns.tolist() == [2, 0, 1]
    assert renamed.groups.tolist() == ([-1] if kind == "shared" else [2, 0, 1])
    np.testing.assert_array_equal(
        renamed.class_counts(4), np.append(np.bincount(y)[[1, 2, 0]], 0)
    )
    order = [1, 2, 0]
    if kind == "shared":
        np.testing.assert_array_equal(renamed.squares, moments.squares[order])
    np.testing.assert_array_equal(
        merge_moments([renamed]).scatter,
        moments.scatter if kind == "shared" else moments.scatter[order],
    )


@kinds
def test_sums_about_another_origin_are_those_of_the_same_rows(kind):
    X, y = labelled_rows(60, mean=10.0)
    moments = class_moments(X, y, kind=kind)
    about_zero = moments.renamed(np.array([2, 0, 1])).with_origin(np.zeros(4))
    np.testing.assert_allclose(about_zero.means, moments.means + moments.origin)
    # Renamed back: 2, 0, 1 are the first, second and third class.
    merged = merge_moments([about_zero.renamed(np.array([1, 2, 0]))])
    assert_sums_are_exact(merged, X, y, kind=kind, tolerance=1e-10)


def test_the_total_is_the_mean_and_covariance_of_all_rows():
    X, y = labelled_rows(200, mean=1e3)
    expected = row_moments(X)
    for kind in ("class", "shared"):
        moments = class_moments(X, y, kind=kind, parts=2 * y + np.arange(len(y)) % 2)
        total = moments.total()
        assert total.n_rows == len(y)
        np.testing.assert_allclose(total.mean, expected.mean, rtol=1e-14)
        size = np.abs(expected.covariance).max()
        np.testing.assert_allclose(
            total.covariance, expected.covariance, atol=1e-12 * size
        )
        np.testing.assert_allclose(
            moments.variances(), expected.covariance.diagonal(), rtol=1e-11
        )
        np.testing.assert_allclose(moments.origin + moments.mean(), total.mean)
    diagonal = class_moments(X, y, kind="diagonal")
    np.testing.assert_allclose(
        diagonal.variances(), expected.covariance.diagonal(), rtol=1e-11
    )


def test_variances_alone_have_no_covariance_of_all_rows():
    X, y = labelled_rows(200, mean=1e3)
    with pytest.raises(ValueError, match="variances alone"):
        class_moments(X, y, kind="diagonal").total()


def test_moments_by_class_and_shared_ones_can_be_merged():
    X, y = labelled_rows(100)
    by_class = class_moments(X[:60], y[:60])
    shared = class_moments(X[60:], y[60:], kind="shared")
    merged = merge_moments([shared, by_class])
    assert merged.groups.tolist() == [0, 1, 2, SHARED]
    np.testing.assert_array_equal(merged.group_counts[:3], by_class.counts)
    np.testing.assert_allclose(
        merged.by_class().squares, class_moments(X, y, kind="diagonal").scatter
    )
    np.testing.assert_allclose(
        merged.by_class().covariance_within_parts(),
        class_moments(X, y, kind="shared").covariance_within_parts(),
        rtol=1e-12,
        atol=1e-13,
    )
    # Both scatters have a share of what lies between the two nodes' means of a class.
    total = class_moments(X, y).total().covariance
    np.testing.assert_allclose(merged.total().covariance, total, rtol=1e-12, atol=1e-13)


def test_moments_that_do_not_go_together_are_not_merged():
    X, y = labelled_rows(100)
    by_class = class_moments(X[:60], y[:60])
    with pytest.raises(ValueError, match="variances alone cannot be merged"):
        merge_moments([by_class, class_moments(X, y, kind="diagonal")])
    with pytest.raises(ValueError, match="4 features cannot be merged .* of 3"):
        merge_moments([class_moments(X[:, :3], y), by_class])
    with pytest.raises(ValueError, match="no moments"):
        merge_moments([])


def test_rows_of_weight_zero_count_for_nothing():
    X, y = labelled_rows(60)
    weights = (np.arange(len(y)) % 3 > 0).astype(float)
    has_weight = weights > 0
    assert_sums_are_exact(
        class_moments(X, y, weights=weights), X[has_weight], y[has_weight]
    )
    weights_without_class_2 = np.where(y == 2, 0.0, 1.0)
    moments = class_moments(X, y, weights=weights_without_class_2)
    assert moments.counts[2] == 0 and np.isfinite(moments.means).all()
    np.testing.assert_array_equal(moments.scatter[2], 0.0)


@kinds
def test_a_constant_feature_of_sparse_rows_has_no_scatter(kind):
    X, y = labelled_rows(500)
    X[:, 1] = 0.1
    moments = class_moments(sparse.csr_matrix(X), y, kind=kind)
    np.testing.assert_array_equal(moments.scatter[:, 1], 0.0)
    if kind == "shared":
        np.testing.assert_array_equal(moments.squares[:, 1], 0.0)


@kinds
def test_a_weight_of_two_counts_rows_twice(kind):
    X, y = labelled_rows(60)
    moments = class_moments(X, y, kind=kind)
    weights = np.full(len(y), 2.0)
    assert_sums_are_exact(moments.weighted(2.0), X, y, kind=kind, weights=weights)
    moments_of_weights = class_moments(X, y, kind=kind, weights=weights)
    assert_sums_are_exact(moments_of_weights, X, y, kind=kind, weights=weights)


@kinds
def test_the_size_of_logits_is_that_of_the_rows_less_their_mean(kind):
    X, y = labelled_rows(60)
    moments = class_moments(X, y, kind=kind)
    W = np.random.default_rng(0).standard_normal((5, 3))
    size = moments.logit_size(W)
    logits = X @ W[:-1] + W[-1]
    logits -= logits.mean(axis=1, keepdims=True)
    if kind != "diagonal":
        np.testing.assert_allclose(size, np.sqrt(np.mean(logits**2)))
    # A term that all outputs have in common does not change it.
    assert moments.logit_size(W + np.arange(5.0)[:, None]) == pytest.approx(size)


def test_a_constant_feature_of_many_parts_stays_constant():
    """Sums of that many rows are off by more than a few units in the last place."""
    y = np.arange(20_000) % 2
    X = np.where(y == 0, 0.1, 0.7)[:, None]
    parts = class_moments(X, y, kind="diagonal", parts=np.arange(len(y)))
    assert len(parts.columns) == len(y)
    np.testing.assert_array_equal(parts.by_class().scatter, 0.0)


@kinds
def test_merging_does_not_hold_the_scatters_of_single_nodes(kind):
    # Each node has a class that no other has, so that no scatters are added up.
    X, y = labelled_rows(60, n_classes=5)
    references = []
    n_held = []

    def arriving():
        for c in range(5):
            moments = class_moments(X[y == c], y[y == c], kind=kind)
            memory = moments.scatter
            owner = memory if memory.base is None else memory.base
            references.append(weakref.ref(owner))
            del memory, owner
            # The first node is held, as its origin is that of all; and the last one.
            earlier = references[1:-2]
            n_held.append(sum(reference() is not None for reference in earlier))
            yield moments

    merged = merge_moments(arriving())
    assert merged.groups.tolist() == ([-1] if kind == "shared" else [0, 1, 2, 3, 4])
    assert n_held == [0] * 5
