# SPDX-License-Identifier: BSD-3-Clause
"""One row moves the vector by at most 1, and its numbers add up in any order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skgems import Privacy
from skgems.private import NoisySums, PrivateRows, bounds_of, layout_of

# What a row may hold at worst.
HOSTILE = [0.0, -0.0, 1e308, -1e308, np.nan, np.inf, -np.inf, 5e-324, -1e-300]
HOSTILE += [0.5, -1.0, 1.0, 3.0, 1e-9, 2.0**53, "text", None]
LABELS = ["ill", "well", "unknown", None, 1, float("nan"), ("a", "b")]
# Bounds of a column: narrow, wide, of the smallest and the largest numbers.
BOUNDS = [(-1.0, 1.0), (0.0, 5e-324), (-1.7e308, 1.7e308), (1e-300, 1.0), (40.0, 90.0)]


pytestmark = pytest.mark.filterwarnings("ignore:Node 'lyon' tells of its rows")


def vector_of(privacy, X, y, *, by_class=False, **options):
    rows = PrivateRows(name="lyon", parts=lambda: [(X, y)], **options)
    return rows.vector(privacy, by_class=by_class)


@st.composite
def neighbors(draw):
    """A privacy, rows of a table, and one row more."""
    bounds = draw(st.lists(st.sampled_from(BOUNDS), min_size=1, max_size=6))
    low, high = zip(*bounds, strict=True)
    privacy = Privacy(
        classes=["ill", "well"],
        low=low,
        high=high,
        norm=draw(st.sampled_from([5e-324, 1e-306, 0.01, 0.2, 0.4, 1.0])),
    )
    value = st.one_of(st.sampled_from(HOSTILE), st.floats(width=64))
    row = st.lists(value, min_size=len(bounds), max_size=len(bounds))
    n_rows = draw(st.integers(1, 6))
    X = draw(st.lists(row, min_size=n_rows, max_size=n_rows))
    y = draw(st.lists(st.sampled_from(LABELS), min_size=n_rows, max_size=n_rows))
    return privacy, X, y


@pytest.mark.parametrize("norm", [5e-324, 1e-306, 1e-300])
def test_a_row_of_a_tiny_norm_moves_the_vector_by_at_most_1(norm):
    """Quotients by the norm would overflow, and show the signs of sums below noise."""
    privacy = Privacy(classes=["ill", "well"], low=[-1] * 2, high=[1] * 2, norm=norm)
    moved = vector_of(privacy, [[0.3, -0.2]], ["ill"])
    length = np.linalg.norm(layout_of(privacy).weights * moved)
    assert 0.999 < length <= 1.0 + 1e-12
    # A model of the same bounds shortens rows without a warning, too.
    shortened = bounds_of(privacy).within(np.array([[0.3, -0.2]]))
    assert np.linalg.norm(shortened) <= norm * 2


@settings(max_examples=150, deadline=None)
@given(neighbors(), st.booleans())
def test_one_row_moves_the_vector_by_at_most_1(case, by_class):
    privacy, X, y = case
    weights = layout_of(privacy, by_class=by_class).weights
    moved = vector_of(privacy, X, y, by_class=by_class)
    if len(X) > 1:
        moved = moved - vector_of(privacy, X[1:], y[1:], by_class=by_class)
    # Whole numbers times weights: the length of what one row adds.
    assert np.linalg.norm(weights * moved) <= 1.0 + 1e-12


def test_the_bound_is_nearly_reached():
    privacy = Privacy(classes=["ill", "well"], low=[-1, -1], high=[1, 1])
    moved = vector_of(privacy, [[1.0, 1.0]], ["ill"])
    assert np.linalg.norm(layout_of(privacy).weights * moved) > 0.9999


def test_rows_of_one_person_move_it_by_at_most_as_many():
    privacy = Privacy(classes=["ill", "well"], low=[-1], high=[1], rows_of_one=2)
    X = [[1.0], [0.5], [0.9], [0.7], [0.2]]
    y = ["ill", "ill", "ill", "ill", "well"]
    moved = vector_of(privacy, X, y, groups=[7, 7, 7, 7, 8])
    moved = moved - vector_of(privacy, X[4:], y[4:], groups=[8])
    length = np.linalg.norm(layout_of(privacy).weights * moved)
    assert 1.99 < length <= 2.0


def some_rows(n_rows=300, n_columns=5):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns)) * 10.0 ** rng.integers(-3, 3, n_columns)
    return X, rng.choice(["ill", "well"], n_rows), rng.integers(0, 40, n_rows)


def of_five_columns(**options):
    return Privacy(classes=["well", "ill"], low=[-3] * 5, high=[2] * 5, **options)


@pytest.mark.parametrize("has_groups", [False, True])
def test_the_order_of_rows_changes_no_bit(has_groups):
    privacy = of_five_columns(rows_of_one=2)
    X, y, groups = some_rows()
    order = np.random.default_rng(1).permutation(len(y))
    vectors = [
        PrivateRows(
            name="lyon",
            parts=lambda rows=rows: [(X[rows], y[rows])],
            groups=groups[rows] if has_groups else None,
        ).vector(privacy)
        for rows in (np.arange(len(y)), order)
    ]
    np.testing.assert_array_equal(*vectors)
    as_columns = PrivateRows(
        name="lyon",
        parts=lambda: [(np.asfortranarray(X), y)],
        groups=groups if has_groups else None,
    )
    np.testing.assert_array_equal(vectors[0], as_columns.vector(privacy))


def test_rows_dealt_over_nodes_or_chunks_change_no_bit(monkeypatch):
    privacy = of_five_columns()
    X, y, _ = some_rows()
    whole = vector_of(privacy, X, y)
    dealt = [vector_of(privacy, X[k::7], y[k::7]) for k in range(7)]
    np.testing.assert_array_equal(whole, sum(dealt))
    chunks = PrivateRows(
        name="lyon",
        parts=lambda: ((X[k : k + 90], y[k : k + 90]) for k in range(0, 300, 90)),
    )
    np.testing.assert_array_equal(whole, chunks.vector(privacy))
    module = "skgems.private._whole_rows"
    monkeypatch.setattr(f"{module}._NUMBERS_OF_BLOCK", 35)
    np.testing.assert_array_equal(whole, vector_of(privacy, X, y))


def test_sums_are_those_of_the_rows():
    """Against the formula of the module, written with matrices of floats."""
    privacy = of_five_columns()
    X, y, _ = some_rows()
    units = np.clip((X + 0.5) / 2.5, -1, 1) / (0.4 * np.sqrt(5))
    Z = units / np.maximum(np.linalg.norm(units, axis=1), 1.0)[:, None]
    layout = layout_of(privacy)
    sums = NoisySums.from_vector(vector_of(privacy, X, y), layout, sigma=0.0)
    is_ill = (y == "ill").astype(float)
    np.testing.assert_array_equal(sums.counts, [is_ill.sum(), 300 - is_ill.sum()])
    np.testing.assert_allclose(sums.sums, [is_ill @ Z, (1 - is_ill) @ Z], atol=0.02)
    np.testing.assert_allclose(sums.products[0], Z.T @ Z, atol=0.03)
    by_class = vector_of(privacy, X, y, by_class=True)
    layout = layout_of(privacy, by_class=True)
    products = NoisySums.from_vector(by_class, layout, sigma=0.0).products
    for matrix, label in zip(products, ["ill", "well"], strict=True):
        rows = Z[y == label]
        np.testing.assert_allclose(matrix, rows.T @ rows, atol=0.03)
    np.testing.assert_allclose(products.sum(axis=0), sums.products[0], rtol=1e-12)


def test_rows_within_bounds_are_the_rows_that_are_summed():
    X, _, _ = some_rows()
    X[0] = np.nan
    bounds = bounds_of(of_five_columns())
    within = bounds.within(X)
    np.testing.assert_array_equal(within[0], bounds.middle)
    assert np.all((within >= -3.0) & (within <= 2.0))
    z = (within - bounds.middle) / bounds.half / bounds.longest
    np.testing.assert_allclose(z, bounds.whole_rows(X) / (2**15 - 1), atol=1e-4)
    # What is within stays as it is.
    np.testing.assert_allclose(bounds.within(within), within, rtol=1e-12)
