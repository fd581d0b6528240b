# SPDX-License-Identifier: BSD-3-Clause
"""Histograms are counts by hand, add up over nodes, and draw rows by a secret."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.trees import binned_rows, split_over_nodes, weights_of_trees

import skgems.trees._histograms
from skgems.trees import (
    N_BINS,
    TYPES_OF_COUNTS,
    Asked,
    Cells,
    bootstrap_weights,
    class_cells,
    class_histograms,
    rounded_cells,
    rounded_histograms,
)


def problem(seed, *, n_trees=3, n_classes=3):
    """Rows at leaves 0 to 9, of trees that have some of the leaves each."""
    rng = np.random.default_rng(seed)
    codes, labels = binned_rows(seed, n_rows=60, n_classes=n_classes, missing=0.1)
    leaves_of_trees = [[0, 3, 5, 6], [1, 4, 9], [2, 7, 8]][:n_trees]
    leaves = np.stack([rng.choice(own, 60) for own in leaves_of_trees], axis=1)
    asked = Asked(
        leaves=np.array([3, 6, 9, 2, 7], dtype=np.int32),
        features=np.array([[0, 1], [1, 3], [0, 2], [2, 3], [0, 3]], dtype=np.int32),
    )
    return codes, labels, leaves, asked


def counted_by_hand(codes, labels, leaves, asked, *, n_classes, weights):
    """One row after the other."""
    histograms = np.zeros((*asked.features.shape, N_BINS + 1, n_classes), dtype=int)
    for row, tree in np.ndindex(leaves.shape):
        for place in np.flatnonzero(asked.leaves == leaves[row, tree]):
            for drawn, feature in enumerate(asked.features[place]):
                cell = place, drawn, codes[row, feature], labels[row]
                histograms[cell] += weights[row, tree]
    return histograms


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("is_weighted", [False, True])
def test_rows_are_counted(seed, is_weighted):
    codes, labels, leaves, asked = problem(seed)
    weights = weights_of_trees(60, 3) if is_weighted else np.ones((60, 3), dtype=int)
    histograms = class_histograms(
        codes,
        labels,
        leaves,
        asked,
        n_classes=3,
        weights=weights if is_weighted else None,
    )
    assert histograms.dtype == np.int64
    assert histograms.shape == asked.shape(3)
    np.testing.assert_array_equal(
        histograms,
        counted_by_hand(codes, labels, leaves, asked, n_classes=3, weights=weights),
    )


@pytest.mark.parametrize("sizes", [[30], [0, 1, 20], [1] * 59])
def test_histograms_add_up_over_nodes(sizes):
    codes, labels, leaves, asked = problem(0)
    weights = weights_of_trees(60, 3)
    parts = [
        class_histograms(
            codes[rows],
            labels[rows],
            leaves[rows],
            asked,
            n_classes=3,
            weights=weights[rows],
        )
        for rows in split_over_nodes(60, sizes)
    ]
    whole = class_histograms(codes, labels, leaves, asked, n_classes=3, weights=weights)
    np.testing.assert_array_equal(sum(parts), whole)


def test_nothing_is_counted_where_nothing_is_asked():
    codes, labels, leaves, _ = problem(0)
    asked = Asked(leaves=np.zeros(0, np.int32), features=np.zeros((0, 2), np.int32))
    shape = class_histograms(codes, labels, leaves, asked, n_classes=3).shape
    assert shape == (0, 2, N_BINS + 1, 3)


# ---- cells that hold rows ----------------------------------------------------------


def counted_cells(seed, *, is_weighted):
    """Cells and histograms of the same rows."""
    codes, labels, leaves, asked = problem(seed)
    weights = weights_of_trees(60, 3) if is_weighted else None
    options = {"n_classes": 3, "weights": weights}
    cells = class_cells(codes, labels, leaves, asked, **options)
    return cells, class_histograms(codes, labels, leaves, asked, **options)


# Rows times features that are sorted at once: of all trees, of one, of two.
@pytest.mark.parametrize("n_sorted", [2**21, 1, 240])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_cells_are_those_of_histograms_that_hold_rows(
    seed, is_weighted, n_sorted, monkeypatch
):
    monkeypatch.setattr(skgems.trees._histograms, "NUMBERS_AT_ONCE", n_sorted)
    cells, histograms = counted_cells(seed, is_weighted=is_weighted)
    assert histograms.size > 60 * 3 * 2  # more cells than rows that are counted
    np.testing.assert_array_equal(cells.indices, np.flatnonzero(histograms))
    np.testing.assert_array_equal(cells.counts, histograms[histograms > 0])


def test_cells_of_few_leaves_with_many_rows_are_the_same():
    codes, labels = binned_rows(0, n_rows=2000)
    leaves = np.zeros((2000, 1), dtype=np.int32)
    asked = Asked(leaves=np.array([0]), features=np.array([[1, 3]]))
    cells = class_cells(codes, labels, leaves, asked, n_classes=2)
    histograms = class_histograms(codes, labels, leaves, asked, n_classes=2)
    np.testing.assert_array_equal(cells.indices, np.flatnonzero(histograms))
    np.testing.assert_array_equal(cells.counts, histograms[histograms > 0])


@pytest.mark.parametrize("is_weighted", [False, True])
def test_no_cells_hold_rows_where_leaves_have_none(is_weighted):
    codes, labels, leaves, asked = problem(0)
    leaves = np.full_like(leaves, 11)  # of which nobody asks
    weights = weights_of_trees(60, 3) if is_weighted else None
    cells = class_cells(codes, labels, leaves, asked, n_classes=3, weights=weights)
    assert len(cells.indices) == len(cells.counts) == 0


@pytest.mark.parametrize("n_cells", [2**20, 1])
@pytest.mark.parametrize("step", [2, 5])
def test_rounded_cells_are_those_of_rounded_histograms(step, n_cells, monkeypatch):
    monkeypatch.setattr(skgems.trees._histograms, "NUMBERS_AT_ONCE", n_cells)
    cells, histograms = counted_cells(0, is_weighted=True)
    rounded = rounded_cells(cells, histograms.shape, step)
    expected = rounded_histograms(histograms, step)
    assert 0 < np.count_nonzero(expected) < np.count_nonzero(histograms)
    np.testing.assert_array_equal(rounded.indices, np.flatnonzero(expected))
    np.testing.assert_array_equal(rounded.counts, expected[expected != 0])


@pytest.mark.parametrize(
    ("largest", "dtype"),
    [(2**15 - 1, "int16"), (2**15, "int32"), (2**31 - 1, "int32"), (2**31, "int64")],
)
def test_sums_have_the_smallest_type_that_holds_them(largest, dtype):
    cells = Cells(indices=np.array([1, 4]), counts=np.array([largest - 1, 3]))
    one = Cells(indices=np.array([1]), counts=np.array([1]))
    histograms = np.zeros((2, 3), dtype=TYPES_OF_COUNTS[0])
    for part in (cells, one):
        histograms = part.added_to(histograms)
    assert histograms.dtype == dtype
    assert histograms.tolist() == [[0, largest, 0], [0, 3, 0]]
    assert one.added_to(histograms.astype(np.int64)).dtype == np.int64


def test_weights_follow_from_the_secret_alone():
    secret = bytes(range(16))
    weights = bootstrap_weights(500, 4, secret)
    np.testing.assert_array_equal(bootstrap_weights(500, 4, secret), weights)
    other = bootstrap_weights(500, 4, bytes(range(1, 17)))
    assert (other != weights).mean() > 0.5
    last_byte_differs = bootstrap_weights(500, 4, secret[:-1] + b"\xff")
    assert (last_byte_differs != weights).mean() > 0.5


def test_trees_draw_rows_of_their_own():
    weights = bootstrap_weights(500, 4, bytes(16))
    assert (weights[:, 0] != weights[:, 1]).mean() > 0.5


def test_the_first_trees_draw_the_same_rows_whatever_the_number_of_trees():
    secret = bytes(range(16))
    np.testing.assert_array_equal(
        bootstrap_weights(50, 3, secret), bootstrap_weights(50, 9, secret)[:, :3]
    )


def test_a_row_is_drawn_once_on_average():
    """Poisson with mean 1; of 40,000 the mean has a standard deviation of 0.005."""
    weights = bootstrap_weights(20_000, 2, bytes(16))
    assert abs(weights.mean() - 1) < 0.025
    assert abs(weights.var() - 1) < 0.05
    assert weights.dtype == np.uint8


def test_no_row_is_drawn_more_often_than_the_most(monkeypatch):
    monkeypatch.setattr(skgems.trees._histograms, "_MOST_WEIGHT", 2)
    assert bootstrap_weights(1000, 1, bytes(16)).max() == 2


# ---- rounding ------------------------------------------------------------------------


def counts_of_few_bins(seed, *, n_classes=3):
    """Histograms of leaves of 0 to 60 rows, in up to 30 of the bins."""
    rng = np.random.default_rng(seed)
    histograms = np.zeros((8, 3, N_BINS + 1, n_classes), dtype=np.int64)
    for leaf, drawn in np.ndindex(histograms.shape[:2]):
        labels = rng.integers(0, n_classes, 9 * leaf)
        bins = rng.choice(rng.choice(N_BINS + 1, 30), len(labels))
        np.add.at(histograms[leaf, drawn], (bins, labels), 1)
    return histograms


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("step", [2, 5, 10, 1000])
def test_counts_up_to_each_edge_are_rounded_by_half_a_step_at_most(seed, step):
    histograms = counts_of_few_bins(seed)
    rounded = rounded_histograms(histograms, step)
    assert rounded.dtype == np.int64
    assert rounded.min() >= 0
    assert (rounded % step == 0).all()
    error = np.cumsum(rounded, axis=2) - np.cumsum(histograms, axis=2)
    assert np.abs(error).max() <= step / 2


def test_all_features_have_the_same_rounded_totals():
    """So that a leaf has one number of rows, whatever feature splits it."""
    codes, labels, leaves, asked = problem(0)
    histograms = class_histograms(codes, labels, leaves, asked, n_classes=3)
    step = 3
    totals = rounded_histograms(histograms, step).sum(axis=2)
    assert totals.any()
    np.testing.assert_array_equal(totals[:, :1], totals[:, 1:])
    exact = histograms.sum(axis=2)
    np.testing.assert_array_equal(totals, np.rint(exact / step) * step)


def test_counts_that_are_multiples_stay_as_they_are():
    histograms = 4 * counts_of_few_bins(0)
    np.testing.assert_array_equal(rounded_histograms(histograms, 4), histograms)
    np.testing.assert_array_equal(rounded_histograms(histograms, 1), histograms)


def test_fewer_rows_than_half_a_step_are_not_seen():
    histograms = np.zeros((1, 1, N_BINS + 1, 2), dtype=np.int64)
    histograms[0, 0, 3] = [4, 5]
    histograms[0, 0, 7] = [0, 1]
    rounded = rounded_histograms(histograms, 10)[0, 0]
    assert rounded.sum(axis=0).tolist() == [0, 10]
    assert rounded[7].tolist() == [0, 10]  # 5 of 10 are rounded to even, and 6 up
