# SPDX-License-Identifier: BSD-3-Clause
"""Columns that follow from others."""

from __future__ import annotations

import numpy as np

from skgems.evaluation import dependence_of


def products(X):
    A = np.column_stack([X, np.ones(len(X))])
    return A.T @ A, A


def test_the_first_category_is_the_reference():
    rng = np.random.default_rng(0)
    ward = rng.integers(3, size=60)[:, None] == np.arange(3)
    color = rng.integers(2, size=60)[:, None] == np.arange(2)
    X = np.column_stack([rng.normal(1e3, 1.0, 60), ward, color])
    P, A = products(X)
    found = dependence_of(P, 6)
    assert found.left_out == [1, 4]
    assert found.combined_with == [[2, 3], [5]]
    theta = rng.normal(size=7)
    moved = found.drop_left_out(theta)
    assert (moved[[1, 4]] == 0).all()
    np.testing.assert_allclose(A @ moved, A @ theta)
    # So it is of the parameters of several classes at once.
    both = found.drop_left_out(np.stack([theta, 2 * theta]))
    np.testing.assert_allclose(both[1], 2 * moved)


def test_constants_and_copies_are_left_out_in_any_unit():
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    X = np.column_stack(
        [np.full(40, 7.0), 1e-6 * x, 1e6 * x + 3.0, rng.normal(size=40)]
    )
    P, A = products(X)
    found = dependence_of(P, 4)
    assert found.left_out == [0, 1]
    assert found.combined_with == [[], [2]]
    theta = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    np.testing.assert_allclose(A @ found.drop_left_out(theta), A @ theta)


def test_columns_that_differ_a_little_stay():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1))
    X = np.column_stack([x, x + 1e-3 * rng.normal(size=(200, 1)), 1e5 + x**2])
    assert dependence_of(products(X)[0], 3).left_out == []


def test_where_no_row_is_undecided_nothing_is_said_of_columns():
    found = dependence_of(np.zeros((3, 3)), 2)
    assert found.left_out == []
    assert found.vectors.shape == (0, 3)
