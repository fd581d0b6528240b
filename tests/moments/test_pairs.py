# SPDX-License-Identifier: BSD-3-Clause
"""A covariance is put together of products of some columns of each node."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skgems.moments import SHARED, class_moments, merge_moments


def rows_of_nodes(n_nodes, n_columns, rng):
    """Return rows and labels of each node, whose columns are correlated."""
    mixing = rng.normal(size=(n_columns, n_columns)) + 2 * np.eye(n_columns)
    sizes = rng.integers(20, 60, n_nodes)
    return [
        (rng.normal(size=(n, n_columns)) @ mixing + 5.0, np.arange(n) % 2)
        for n in sizes.tolist()
    ]


def merged_of(tables, blocks):
    """Return merged moments of nodes that tell the products of some columns each."""
    sums = [class_moments(X, y, kind="shared") for X, y in tables]
    return merge_moments(
        moments if block is None else moments.keep_products_of(block)
        for moments, block in zip(sums, blocks, strict=True)
    )


def shared_scatter(moments) -> np.ndarray:
    return moments.scatter[moments.groups.tolist().index(SHARED)]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_nodes=st.integers(1, 4), d=st.integers(1, 6))
def test_where_all_pairs_are_told_it_is_the_scatter_of_all_rows(seed, n_nodes, d):
    rng = np.random.default_rng(seed)
    tables = rows_of_nodes(n_nodes, d, rng)
    in_full = merged_of(tables, [None] * n_nodes)
    whole = np.ones(d, dtype=bool)
    merged = merged_of(tables, [whole] * n_nodes)
    scale = np.abs(shared_scatter(in_full)).max()
    # Small eigenvalues of correlations are raised, which these rows do not have all.
    deviations = np.sqrt(shared_scatter(in_full).diagonal())
    R = shared_scatter(in_full) / deviations[:, None] / deviations
    if np.linalg.eigvalsh(R)[0] > 0.0101:
        np.testing.assert_allclose(
            shared_scatter(merged), shared_scatter(in_full), atol=1e-9 * scale
        )
    np.testing.assert_array_equal(merged.means, in_full.means)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_nodes=st.integers(1, 4), d=st.integers(2, 6))
def test_squares_are_those_of_all_rows_and_eigenvalues_positive(seed, n_nodes, d):
    rng = np.random.default_rng(seed)
    tables = rows_of_nodes(n_nodes, d, rng)
    blocks = list(rng.random((n_nodes, d)) < 0.5)
    merged = shared_scatter(merged_of(tables, blocks))
    in_full = shared_scatter(merged_of(tables, [None] * n_nodes))
    np.testing.assert_allclose(merged.diagonal(), in_full.diagonal(), rtol=1e-9)
    np.testing.assert_allclose(merged, merged.T, rtol=1e-9, atol=1e-9)
    assert np.linalg.eigvalsh(merged)[0] > 0


def test_pairs_that_no_node_tells_have_no_correlation():
    rng = np.random.default_rng(0)
    tables = rows_of_nodes(2, 4, rng)
    first = np.array([True, True, False, False])
    merged = shared_scatter(merged_of(tables, [first, ~first]))
    is_told = first[:, None] == first
    np.testing.assert_allclose(merged[~is_told], 0.0, atol=1e-9)
    # Pairs that one node tells have the correlation of its rows.
    for (X, y), block in zip(tables, [first, ~first], strict=True):
        of_node = shared_scatter(class_moments(X, y, kind="shared"))
        i, j = np.flatnonzero(block)
        expected = of_node[i, j] / np.sqrt(of_node[i, i] * of_node[j, j])
        correlation = merged[i, j] / np.sqrt(merged[i, i] * merged[j, j])
        assert correlation == pytest.approx(expected, rel=1e-6)


def test_many_blocks_come_near_the_scatter_of_all_rows():
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(6, 6)) + 2 * np.eye(6)
    tables = [
        (rng.normal(size=(200, 6)) @ mixing, np.arange(200) % 2) for _ in "a" * 30
    ]
    blocks = list(np.argsort(rng.random((30, 6)), axis=1) < 3)
    merged = shared_scatter(merged_of(tables, blocks))
    in_full = shared_scatter(merged_of(tables, [None] * 30))
    nothing = np.diag(in_full.diagonal())
    missed = np.linalg.norm(merged - in_full) / np.linalg.norm(nothing - in_full)
    assert missed < 0.2
