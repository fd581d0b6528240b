# SPDX-License-Identifier: BSD-3-Clause
"""Sums over rows: gradient, information, and products of scores."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import log_softmax, softmax

from skgems.evaluation import (
    columns_that_are_told,
    matrix_of_triangle,
    score_sums,
    triangle_of,
)


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(50, 2))
    return Z, rng.integers(3, size=50), rng.normal(size=(3, 3)), rng.random(50)


def log_likelihood(theta, Z, columns, weights):
    W = np.column_stack([np.zeros(3), theta.reshape(2, 3).T])
    logits = log_softmax(np.column_stack([Z, np.ones(len(Z))]) @ W, axis=1)
    return weights @ logits[np.arange(len(Z)), columns]


def test_gradient_and_information_are_derivatives(case):
    Z, columns, W, weights = case
    theta = (W[:, 1:] - W[:, :1]).T.ravel()
    sums = score_sums(Z, columns, W, weights=weights)
    h = 1e-4
    for i, step in enumerate(h * np.eye(6)):
        ends = [
            log_likelihood(theta + sign * step, Z, columns, weights) for sign in (1, -1)
        ]
        np.testing.assert_allclose(
            (ends[0] - ends[1]) / (2 * h), sums.gradient[i], atol=1e-5
        )
        moved = [
            score_sums(
                Z,
                columns,
                np.column_stack([np.zeros(3), (theta + sign * step).reshape(2, 3).T]),
                weights=weights,
            ).gradient
            for sign in (1, -1)
        ]
        np.testing.assert_allclose(
            -(moved[0] - moved[1]) / (2 * h), sums.information[i], atol=1e-5
        )


def test_rows_of_a_unit_are_summed_before_they_are_squared(case):
    Z, columns, W, weights = case
    by_row = score_sums(Z, columns, W, weights=weights)
    same = score_sums(Z, columns, W, weights=weights, units=np.arange(50))
    np.testing.assert_allclose(same.middle, by_row.middle)
    units = np.arange(50) // 5
    by_unit = score_sums(Z, columns, W, weights=weights, units=units)
    scores = [
        score_sums(
            Z[units == u], columns[units == u], W, weights=weights[units == u]
        ).gradient
        for u in range(10)
    ]
    np.testing.assert_allclose(by_unit.middle, sum(np.outer(s, s) for s in scores))
    whole = score_sums(Z, columns, W, weights=weights, units=np.zeros(50))
    np.testing.assert_allclose(
        whole.middle, np.outer(by_row.gradient, by_row.gradient), atol=1e-9
    )


def test_sparse_rows_and_blocks_do_not_matter(case, monkeypatch):
    Z, columns, W, weights = case
    expected = score_sums(Z, columns, W, weights=weights)
    monkeypatch.setattr("skgems.evaluation._score_sums._BLOCK_BYTES", 8 * W.size * 7)
    for rows in (Z, csr_matrix(Z)):
        sums = score_sums(rows, columns, W, weights=weights)
        np.testing.assert_allclose(sums.gradient, expected.gradient)
        np.testing.assert_allclose(sums.information, expected.information)
        np.testing.assert_allclose(sums.middle, expected.middle)


def test_products_with_the_columns_that_are_told_are_the_sums(case):
    """What the rule of disclosure looks at is what leaves."""
    Z, columns, W, weights = case
    units = np.arange(50) // 2
    told = columns_that_are_told(Z, columns, W, weights=weights, units=units)
    extended = np.column_stack([Z, np.ones(50)])
    sums = score_sums(Z, columns, W, weights=weights, units=units)
    residuals, of_information, of_middle = told
    np.testing.assert_allclose(
        ((weights[:, None] * residuals).T @ extended).ravel(), sums.gradient
    )
    # Blocks (0, 0), (0, 1) and (1, 1) of the classes after the first.
    products = (weights[:, None] * extended).T @ of_information
    np.testing.assert_allclose(products[:, :3], sums.information[:3, :3])
    np.testing.assert_allclose(products[:, 3:6], sums.information[:3, 3:])
    products = (weights[:, None] * extended).T @ of_middle
    np.testing.assert_allclose(products[:, :6], sums.middle[:3])
    np.testing.assert_allclose(products[:, 6:], sums.middle[3:])


def test_triangles():
    matrix = np.array([[1.0, 2.0], [2.0, 3.0]])
    assert triangle_of(matrix).tolist() == [1.0, 2.0, 3.0]
    assert matrix_of_triangle(triangle_of(matrix), 2).tolist() == matrix.tolist()


def test_information_is_that_of_probabilities(case):
    Z, columns, W, _ = case
    extended = np.column_stack([Z, np.ones(50)])
    P = softmax(extended @ W, axis=1)
    V = np.einsum("nk,kl->nkl", P, np.eye(3)) - P[:, :, None] * P[:, None, :]
    whole = np.einsum("nkl,ni,nj->kilj", V, extended, extended).reshape(9, 9)
    np.testing.assert_allclose(score_sums(Z, columns, W).information, whole[3:, 3:])
