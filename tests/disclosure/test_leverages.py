# SPDX-License-Identifier: BSD-3-Clause
"""No row has a leverage of the bound or more, whatever the table is."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tables_to_tell import KINDS, leverages_by_definition, table_of
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skgems import Disclosure
from skgems.disclosure._leverages import (
    Design,
    columns_lowered,
    largest_in_columns,
    leverages,
    lowered_weights,
)

any_design = st.tuples(
    st.integers(0, 2**32 - 1),
    st.sampled_from(KINDS),
    st.integers(6, 60),  # rows
    st.integers(1, 6),  # columns
    st.integers(1, 3),  # groups
    st.booleans(),  # several rows a unit
)


def design_of(case) -> tuple[Design, np.ndarray]:
    """Return a design and weights of its rows, from which one starts."""
    seed, kind, n_rows, n_columns, n_groups, has_units = case
    rng = np.random.default_rng(seed)
    groups = np.arange(n_rows) % n_groups
    units = np.arange(n_rows)
    if has_units:
        units = np.unique(units // 2 * n_groups + groups, return_inverse=True)[1]
    X = table_of(kind, n_rows, n_columns, rng)
    start = rng.uniform(0.5, 2.0, n_rows) if seed % 2 else np.ones(n_rows)
    return Design(X=X, groups=groups, units=units), start


@settings(max_examples=100, deadline=None)
@given(case=any_design)
def test_leverages_are_those_of_the_definition(case):
    design, weights = design_of(case)
    h = leverages_by_definition(design.X, design.groups, weights, design.units)
    np.testing.assert_allclose(leverages(design, weights), h, atol=1e-6)


@settings(max_examples=150, deadline=None)
@given(case=any_design, rows=st.integers(2, 5))
@example(case=(2, "duplicates", 6, 2, 2, False), rows=2)
def test_lowered_weights_hold_the_bound_or_there_are_none(case, rows):
    design, start = design_of(case)
    bound = Disclosure(rows=rows).leverage
    weights = lowered_weights(design, start, bound=bound, least_share=0.8)
    if weights is None:
        return
    assert (weights >= 0).all()
    assert (weights <= start * (1 + 1e-12)).all()
    assert weights.sum() > 0.8 * start.sum() - 1e-9
    h = leverages_by_definition(design.X, design.groups, weights, design.units)
    assert h.max() < 1.0 / (rows - 1) - 1e-8


def heavy_design(n_rows: int = 80) -> tuple[Design, np.ndarray]:
    """Return rows of which three have leverages near 1, and one of which is a copy."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4))
    X[3, 1] = 400.0
    X[7, 2] = -300.0
    X[9] = X[3]
    X[11, 0] = 1e6
    units = np.arange(n_rows)
    return Design(X=X, groups=units % 2, units=units), np.ones(n_rows)


def test_rows_alone_in_a_direction_weigh_less_and_others_what_they_did():
    design, start = heavy_design()
    assert leverages(design, start).max() > 0.99
    weights = lowered_weights(design, start, bound=0.5, least_share=0.8)
    assert leverages(design, weights).max() < 0.5
    assert (weights[[7, 11]] < 0.2).all()
    others = np.setdiff1d(np.arange(len(start)), [3, 7, 9, 11])
    np.testing.assert_array_equal(weights[others], 1.0)


def test_nothing_is_lowered_where_all_leverages_are_small():
    rng = np.random.default_rng(0)
    units = np.arange(300)
    design = Design(X=rng.normal(size=(300, 3)), groups=units % 2, units=units)
    start = np.ones(300)
    assert lowered_weights(design, start, bound=0.5, least_share=0.8) is start


def test_rows_of_one_unit_count_as_one_row():
    # Three equal visits of a patient have h = 1/3 each, and were read exactly.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    X[:3] = [500.0, 0.0]
    groups = np.zeros(60, dtype=int)
    units = np.maximum(np.arange(60) - 2, 0)
    together = Design(X=X, groups=groups, units=units)
    apart = Design(X=X, groups=groups, units=np.arange(60))
    start = np.ones(60)
    assert leverages(apart, start).max() < 0.5
    assert leverages(together, start).max() > 0.99
    weights = lowered_weights(together, start, bound=0.5, least_share=0.8)
    assert (weights[:3] < 0.2).all()
    assert leverages(together, weights).max() < 0.5


def test_a_row_alone_is_not_below_a_bound_of_1_by_rounding():
    X = np.random.default_rng(0).normal(size=(50, 1))
    X[:] = X > 9
    X[7] = 0.3
    units = np.arange(50)
    design = Design(X=X, groups=units * 0, units=units)
    bound = Disclosure(rows=2).leverage
    weights = lowered_weights(design, np.ones(50), bound=bound, least_share=0.8)
    assert weights[7] == 0.0


@pytest.mark.parametrize("difference", [1e-2, 1e-4, 1e-6, 1e-8])
def test_a_row_in_which_two_columns_differ_is_alone_however_little(difference):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    X[:, 1] = X[:, 0]
    X[7, 1] += difference
    units = np.arange(200)
    design = Design(X=X, groups=units % 2, units=units)
    assert leverages(design, np.ones(200))[7] > 0.99
    weights = lowered_weights(design, np.ones(200), bound=0.5, least_share=0.8)
    assert weights[7] == 0.0
    # Columns that are the same but for rounding have no such row.
    X[:, 1] = 3.0 * (X[:, 0] / 3.0)
    same = Design(X=X, groups=units % 2, units=units)
    assert lowered_weights(same, np.ones(200), bound=0.5, least_share=0.8).all()


@pytest.mark.parametrize("n_rows", [6, 8])
def test_there_are_no_weights_where_columns_are_many(n_rows):
    X = np.random.default_rng(0).normal(size=(n_rows, 5))
    units = np.arange(n_rows)
    design = Design(X=X, groups=np.zeros(n_rows, dtype=int), units=units)
    assert lowered_weights(design, np.ones(n_rows), bound=0.5, least_share=0.8) is None


def test_there_are_no_weights_where_too_much_weight_would_be_lost():
    # Each of the first 12 rows has a column for itself.
    X = np.zeros((40, 12))
    X[np.arange(12), np.arange(12)] = 1.0
    units = np.arange(40)
    design = Design(X=X, groups=np.zeros(40, dtype=int), units=units)
    assert lowered_weights(design, np.ones(40), bound=0.5, least_share=0.8) is None
    weights = lowered_weights(design, np.ones(40), bound=0.5, least_share=0.5)
    assert not weights[:12].any()


def test_weights_follow_the_rows_whatever_their_order_and_units_of_measure():
    design, start = heavy_design()
    weights = lowered_weights(design, start, bound=0.5, least_share=0.8)
    order = np.random.default_rng(1).permutation(len(start))
    moved = lowered_weights(design.of_rows(order), start, bound=0.5, least_share=0.8)
    # of_rows numbers the rows anew by their order in the table
    np.testing.assert_allclose(moved, weights[order], rtol=1e-6)
    other_units = Design(
        X=design.X * [1e-3, 1.0, 1e4, -7.0] + [0.0, 5.0, -3.0, 1.0],
        groups=design.groups,
        units=design.units,
    )
    scaled = lowered_weights(other_units, start, bound=0.5, least_share=0.8)
    np.testing.assert_allclose(scaled, weights, rtol=1e-6)


@settings(max_examples=100, deadline=None)
@given(case=any_design)
def test_no_column_alone_has_a_row_that_is_most_of_it(case):
    design, start = design_of(case)
    weights = columns_lowered(design, start, bound=0.5)
    assert (weights >= 0).all()
    assert (weights <= start * (1 + 1e-12)).all()
    largest = largest_in_columns(design, weights)
    for j in range(design.X.shape[1]):
        h = column_leverages_by_definition(design, weights, j)
        np.testing.assert_allclose(largest[j], h.max(), atol=1e-6)


def column_leverages_by_definition(
    design: Design, weights: np.ndarray, j: int
) -> np.ndarray:
    """Return leverages of units in sums by group of a column, and in its squares."""
    v = weights**2
    h = np.zeros(len(v))
    rest = np.zeros(len(v))
    for group in np.unique(design.groups):
        rows = design.groups == group
        total = v[rows].sum()
        if total:
            mean = v[rows] @ design.X[rows, j] / total
            rest[rows] = design.X[rows, j] - mean
            h[rows] = v[rows] / total
    size = np.abs(design.X[:, j]).max() * np.sqrt(len(v))
    spread = v @ rest**2
    if np.sqrt(spread) <= 1e-10 * size:
        return np.zeros(design.units.max() + 1)
    return np.bincount(design.units, h + v * rest**2 / spread)


def test_columns_of_heavy_tails_hold_the_bound_each():
    design, start = heavy_design()
    assert largest_in_columns(design, start).max() > 0.9
    weights = columns_lowered(design, start, bound=0.5)
    assert largest_in_columns(design, weights).max() < 0.5
