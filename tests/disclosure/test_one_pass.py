# SPDX-License-Identifier: BSD-3-Clause
"""All leverages of a class are below a bound, or one or two passes do not show it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from skgems.disclosure import KeptPasses
from skgems.disclosure._leverages import Design, largest_in_columns, leverages
from skgems.disclosure._one_pass import ClassPass, ClassRows

BOUND = 0.5


def class_of(X, *, parts=None, weights=None, known=None, indices=None) -> ClassPass:
    """Return the sums of some rows, whose residuals are zero."""
    n_rows = X.shape[0]
    known = np.zeros((n_rows, 0)) if known is None else known
    table = {
        "X": X,
        "indices": np.arange(n_rows) if indices is None else indices,
        "residuals": np.zeros_like(known),
        "known": known,
        "weights": np.ones(n_rows) if weights is None else weights,
    }
    sums = ClassPass.from_rows(ClassRows.from_table(**table, parts=None))
    if parts is None:
        return sums
    return sums.divided(ClassRows.from_table(**table, parts=parts))


def table(n_rows: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with codes that sum to 1, far from zero; parts and weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 6)) + 100.0
    codes = np.arange(n_rows) % 3
    X[:, 3:] = np.eye(3)[codes]
    return X, rng.integers(0, 3, n_rows), rng.uniform(0.9, 1.1, n_rows)


@pytest.mark.parametrize("make", [np.asarray, csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("far", [1.0, 6.0, 60.0])
def test_it_holds_where_no_leverage_is_large(far, make):
    X, parts, weights = table()
    X[7, 0] += far
    units = np.arange(len(X))
    of_parts = [
        largest_in_columns(
            Design(X=X[parts == p], groups=units[parts == p] * 0, units=np.arange(n)),
            weights[parts == p],
        ).max()
        for p, n in enumerate(np.bincount(parts))
    ]
    h = leverages(Design(X=X, groups=parts, units=units), weights)
    largest = max(h.max(), *of_parts)
    sums = class_of(make(X), parts=parts, weights=weights)
    assert sums.holds(None, bound=BOUND) == (largest < BOUND)
    assert not sums.holds(None, bound=0.99 * largest)


def test_rows_of_one_unit_are_one_row():
    X, _, _ = table()
    X[:3, 0] += 12.0
    units = np.maximum(np.arange(len(X)) - 2, 0)
    sums = class_of(X)
    assert sums.holds(None, bound=BOUND)
    assert not sums.holds(units, bound=BOUND)


@pytest.mark.parametrize("difference", [1e-2, 1e-6, 1e-9])
def test_it_does_not_hold_where_columns_differ_in_one_row(difference):
    X, parts, _ = table()
    X[:, 1] = X[:, 0]
    assert class_of(X, parts=parts).holds(None, bound=BOUND)
    X[7, 1] += difference
    assert not class_of(X, parts=parts).holds(None, bound=BOUND)


def test_known_sums_count_beside_those_that_are_told():
    X, _, weights = table()
    known = X[:, :1] * weights[:, None]
    assert class_of(X, known=known, weights=weights).holds(None, bound=BOUND)
    known[7] += 1e-3
    assert not class_of(X, known=known, weights=weights).holds(None, bound=BOUND)


def test_a_value_of_one_row_of_a_part_fails_there_alone():
    X, parts, _ = table()
    X[:, 3:] = 0.0
    X[np.flatnonzero(parts == 1)[0], 3] = 1.0
    X[parts == 0, 3] = np.arange((parts == 0).sum()) % 2
    sums = class_of(X, parts=parts)
    assert sums.fails_by_part(bound=BOUND)
    assert not sums.holds(None, bound=BOUND)
    assert class_of(X).holds(None, bound=BOUND)


def test_sums_about_means_of_parts_are_those_of_the_definition():
    X, parts, weights = table()
    indices = np.arange(50, 350)
    sums = class_of(X, parts=parts, weights=weights, indices=indices)
    scatter = np.zeros((6, 6))
    for part in range(3):
        of_part = indices[parts[indices] == part]
        squares = weights[of_part] ** 2
        deviations = X[of_part] - squares @ X[of_part] / squares.sum()
        scatter += (squares[:, None] * deviations).T @ deviations
        mean = squares @ X[of_part] / squares.sum()
        np.testing.assert_allclose(sums.means[part], mean, rtol=1e-9)
        np.testing.assert_allclose(sums.totals[part], squares.sum(), rtol=1e-9)
    np.testing.assert_allclose(sums.scatter, scatter, rtol=1e-9, atol=1e-9)


def test_sums_are_kept_until_rows_weights_or_residuals_change():
    X, _, weights = table()
    residuals = np.sin(X[:, :2])
    passes = KeptPasses()

    def sums_of(X, weights, residuals) -> ClassPass:
        rows = ClassRows.from_table(
            X,
            np.arange(len(X)),
            residuals=residuals,
            known=residuals,
            weights=weights,
            parts=None,
        )
        return passes.of_rows(0, rows)

    first = sums_of(X, weights, residuals)
    assert sums_of(X, weights.copy(), residuals.copy()) is first
    assert sums_of(X, 0.9 * weights, residuals) is not first
    second = sums_of(X, weights, 2.0 * residuals)
    assert second is not sums_of(X.copy(), weights, 2.0 * residuals)
