# SPDX-License-Identifier: BSD-3-Clause
"""Several tables of the same rows: which columns are new, and weights that hold."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tables_to_tell import leverages_by_definition

from skgems import Disclosure
from skgems.disclosure import Rows, Span, weights_of_tables

RULE = Disclosure()


def normal_rows(n_rows: int, n_columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n_rows, n_columns))


def rows_of(X: np.ndarray, n_classes: int = 2) -> Rows:
    n_rows = len(X)
    none = np.zeros((n_rows, 0))
    return Rows(
        X=X,
        codes=np.arange(n_rows) % n_classes,
        units=np.arange(n_rows),
        weights=np.ones(n_rows),
        residuals=none,
        known=none,
    )


def new_columns(X: np.ndarray, wider: np.ndarray) -> list[int]:
    """Return indices of the columns of a second table that the first lacks."""
    span, _ = Span.of_constants(len(X)).with_columns(X)
    return span.with_columns(wider)[1].tolist()


# Which columns are new ----------------------------------------------------------------


def test_columns_in_other_units_and_their_sums_are_not_new():
    X = 1e4 + normal_rows(50, 3)
    wider = np.column_stack([0.1 * X - 7.0, X @ [1.0, 2.0, 3.0], X[:, 0] ** 2])
    assert new_columns(X, wider) == [4]


def test_a_column_that_differs_in_one_row_is_new():
    X = normal_rows(50, 3)
    changed = X.copy()
    changed[7, 1] += 1e-8
    assert new_columns(X, changed) == [1]


def test_constant_columns_and_second_copies_are_not_needed():
    X = normal_rows(50, 1)
    _, needed = Span.of_constants(50).with_columns(np.hstack([np.ones((50, 1)), X, X]))
    assert len(needed) == 1
    assert needed[0] > 0


# Weights ------------------------------------------------------------------------------


def by_class(X: np.ndarray, n_own: int, codes: np.ndarray) -> np.ndarray:
    """Return columns of which each class has the first ones for itself."""
    own = [X[:, :n_own] * (codes == c)[:, None] for c in np.unique(codes)]
    return np.hstack([*own, X[:, n_own:]])


@pytest.mark.parametrize("n_own", [0, 4])
def test_no_row_is_most_of_a_sum_of_the_columns_of_all_tables(n_own):
    X = normal_rows(200, 4)
    X[:3] *= 8.0
    wider = np.hstack([X, np.cos(X @ normal_rows(4, 12, seed=1))])
    rows = rows_of(wider)
    weights = weights_of_tables(rows, RULE, n_own=n_own, n_unknowns=4, seed=lambda: 1)
    design = by_class(wider, n_own, rows.codes)
    before = leverages_by_definition(design, rows.codes, rows.weights, rows.units)
    h = leverages_by_definition(design, rows.codes, weights, rows.units)
    assert before.max() > 0.5 > h.max()


def test_what_differs_from_sums_that_were_told_before_is_of_many_rows():
    X = normal_rows(200, 4)
    X[:3] *= 8.0
    rows = rows_of(np.hstack([X, np.cos(X @ normal_rows(4, 12, seed=1))]))
    weights = weights_of_tables(rows, RULE, n_own=0, n_unknowns=4, seed=lambda: 1)
    Z = weights[:, None] * np.hstack([rows.codes[:, None] == [0, 1], rows.X])
    rest = 1.0 - Z @ np.linalg.lstsq(Z, np.ones(200), rcond=None)[0]
    Q = np.linalg.qr(np.column_stack([Z, rest]))[0]
    assert np.sum(Q**2, axis=1).max() < 0.5


def test_rows_without_large_leverages_keep_their_weights():
    rows = rows_of(normal_rows(2000, 4))
    weights = weights_of_tables(rows, RULE, n_own=4, n_unknowns=4, seed=lambda: 1)
    np.testing.assert_array_equal(weights, 1.0)


@pytest.mark.parametrize(
    ("n_rows", "n_unknowns", "n_own", "holds"),
    [
        # 20 columns are 210 products and 40 means; half of the numbers of the rows,
        (200, 3, 0, True),  # 300,
        (200, 2, 0, False),  # or 200, fewer than are told.
        # By class there are 45 products more of 9 columns.
        (200, 3, 9, True),
        (186, 3, 9, False),
        # 22 columns of 50 rows: leverages would be 0.44 on average.
        (50, 50, 0, False),
    ],
)
def test_fewer_numbers_are_told_than_would_fix_the_rows(
    n_rows, n_unknowns, n_own, holds
):
    rows = rows_of(normal_rows(n_rows, 20))
    weights = weights_of_tables(
        rows, RULE, n_own=n_own, n_unknowns=n_unknowns, seed=lambda: 1
    )
    assert (weights is not None) == holds


@pytest.mark.parametrize("n_told_before, holds", [(62, True), (63, False)])
def test_numbers_that_were_told_before_leave_fewer_for_tables(n_told_before, holds):
    rows = rows_of(normal_rows(40, 4))
    n_numbers = 4 * 5 / 2 + 2 * 4  # products, and a mean of each class
    n_at_most = RULE.unknowns * 40 * 4
    assert (n_numbers + n_told_before <= n_at_most) == holds
    weights = weights_of_tables(
        rows,
        RULE,
        n_own=0,
        n_unknowns=4,
        seed=lambda: 0,
        n_told_before=n_told_before,
    )
    assert (weights is not None) == holds
