# SPDX-License-Identifier: BSD-3-Clause
"""Directions of rows are those in which they vary, by factors as by eigenvectors."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.disclosure._directions import Directions


def columns_of(kind: str) -> np.ndarray:
    """Return 200 rows whose columns have length 1, or are 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    if kind == "correlated":
        X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    elif kind == "combination":
        X[:, 2] = X[:, 0] - 2.0 * X[:, 1]
    elif kind == "constant":
        X[:, 3] = 0.0
    elif kind == "nearly a combination":
        X[:, 2] = X[:, 0] + 1e-4 * X[:, 2]
    elif kind == "nothing":
        X[:] = 0.0
    lengths = np.linalg.norm(X, axis=0)
    return X / np.where(lengths > 0, lengths, 1.0)


@pytest.mark.parametrize(
    ("kind", "rank", "n_doubtful", "is_triangular"),
    [
        ("normal", 5, 0, True),
        ("correlated", 5, 0, True),
        ("combination", 4, 1, True),
        ("constant", 4, 0, True),
        # A square of 1e-8 of the length is left: eigenvectors have more digits of it.
        ("nearly a combination", 5, 0, False),
        ("nothing", 0, 0, False),
    ],
)
def test_lines_along_directions_have_the_leverages_as_squares(
    kind, rank, n_doubtful, is_triangular
):
    X = columns_of(kind)
    directions = Directions.from_products(X.T @ X)
    assert directions.rank == rank
    assert directions.doubtful.shape == (5, n_doubtful)
    assert (directions.columns is not None) == is_triangular
    lines = directions.lines(X)
    np.testing.assert_allclose(lines.T @ lines, np.eye(rank), atol=1e-6)
    projection = X @ np.linalg.pinv(X)
    h = np.square(lines).sum(axis=1)
    np.testing.assert_allclose(h, projection.diagonal(), atol=1e-6)
    np.testing.assert_allclose(X @ directions.doubtful, 0.0, atol=1e-12)


def test_a_direction_that_one_row_has_is_doubtful_and_along_that_row():
    X = columns_of("normal")
    X[:, 1] = X[:, 0]
    X[7, 1] += 1e-7
    directions = Directions.from_products(X.T @ X)
    assert directions.rank == 4
    along = np.abs(X @ directions.doubtful).ravel()
    assert along[7] > 1e-8
    assert np.delete(along, 7).max() < 0.5 * along[7]


def test_columns_may_be_scaled_for_their_products_alone():
    X = columns_of("combination")
    scale = np.array([1.0, 0.5, 2.0, 4.0, 0.25])
    directions = Directions.from_products(X.T @ X).of_unscaled(scale)
    expected = Directions.from_products(X.T @ X).lines(X)
    np.testing.assert_allclose(directions.lines(X / scale), expected, atol=1e-9)
