# SPDX-License-Identifier: BSD-3-Clause
"""Sums of the rows of each part, against sums of the rows of one part alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context

from skgems.moments import median_of_rows
from skgems.moments._part_sums import sum_parts

# Parts 0 and 2 add to the second scatter.
GROUP_OF_PART = np.array([1, 0, 1, 2])


def weighted_rows_in_parts(n_rows=200, n_features=3):
    """Rows, the part of each of them, and their weights."""
    rng = np.random.default_rng(0)
    part_of_row = rng.permutation(np.arange(n_rows) % 4)
    X = rng.standard_normal((n_rows, n_features)) + 10.0 * part_of_row[:, None]
    return X, part_of_row, rng.uniform(0.5, 2.0, n_rows)


def weighted_scatter(X, weights):
    """Scatter matrix of rows about their mean."""
    mean = np.average(X, axis=0, weights=weights)
    return (weights[:, None] * (X - mean)).T @ (X - mean)


@pytest.mark.parametrize("to_rows", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("is_diagonal", [False, True])
def test_sums_are_those_of_the_rows_of_each_part(to_rows, weighted, is_diagonal):
    X, part_of_row, weights = weighted_rows_in_parts()
    if not weighted:
        weights = np.ones(len(X))
    sums = sum_parts(
        to_rows(X),
        part_of_row,
        group_of_part=GROUP_OF_PART,
        n_groups=3,
        weights=weights if weighted else None,
        is_diagonal=is_diagonal,
        with_squares=True,
    )
    scatter = np.zeros((3, 3, 3))
    for part, group in enumerate(GROUP_OF_PART):
        in_part = part_of_row == part
        mean = np.average(X[in_part], axis=0, weights=weights[in_part])
        scatter_of_part = weighted_scatter(X[in_part], weights[in_part])
        assert sums.counts[part] == pytest.approx(weights[in_part].sum())
        np.testing.assert_allclose(sums.shifts[part] + sums.means[part], mean)
        squares = scatter_of_part.diagonal()
        np.testing.assert_allclose(sums.squares[part], squares, rtol=1e-9)
        scatter[group] += scatter_of_part
    if is_diagonal:
        scatter = np.einsum("gii->gi", scatter)
    np.testing.assert_allclose(sums.scatter, scatter, atol=1e-9)


def test_small_blocks_of_rows_make_the_same_sums_as_large_ones():
    X, part_of_row, _ = weighted_rows_in_parts(n_rows=40_000, n_features=40)

    def sums_of_rows():
        return sum_parts(
            X,
            part_of_row,
            group_of_part=GROUP_OF_PART,
            n_groups=3,
            weights=None,
            is_diagonal=False,
            with_squares=False,
        )

    with config_context(working_memory=1024):
        large_blocks = sums_of_rows()
    with config_context(working_memory=1):
        small_blocks = sums_of_rows()
    assert small_blocks.squares is None
    np.testing.assert_allclose(small_blocks.means, large_blocks.means, atol=1e-12)
    np.testing.assert_allclose(small_blocks.scatter, large_blocks.scatter, rtol=1e-9)


def test_the_origin_of_few_rows_is_a_median_and_none_of_them():
    X = np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 4.0]])
    rows = np.arange(3)
    np.testing.assert_array_equal(median_of_rows(X, rows), [2.0, 5.0])
    np.testing.assert_array_equal(median_of_rows(sparse.csr_matrix(X), rows), 0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [2, 9, 10, 24, 25, 30])
def test_the_origin_is_the_median_of_rows_to_the_bit(n_rows, dtype):
    X = np.random.RandomState(0).standard_normal((n_rows, 7)).astype(dtype)
    chosen = np.linspace(0, n_rows - 1, min(25, n_rows)).astype(int)
    expected = np.median(X[chosen], axis=0)
    origin = median_of_rows(X, np.arange(n_rows))
    assert origin.dtype == np.float64
    np.testing.assert_array_equal(origin, expected)
