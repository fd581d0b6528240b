# SPDX-License-Identifier: BSD-3-Clause
"""Rows reach the leaves that one gets to by hand, whatever vertex they start from."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.trees import binned_rows

import skgems.trees._forest
from skgems.trees import N_BINS, Forest, leaves_of, mean_values

N_FEATURES = 4


def random_forests(seed, *, n_trees=3, n_levels=4):
    """A forest after each of its random splits."""
    rng = np.random.default_rng(seed)
    forests = [Forest.unsplit(n_trees)]
    for _ in range(n_levels):
        leaves = np.flatnonzero(forests[-1].feature < 0)
        vertices = rng.permutation(leaves)[: rng.integers(1, len(leaves) + 1)]
        n_split = len(vertices)
        forests.append(
            forests[-1].split(
                vertices,
                feature=rng.integers(0, N_FEATURES, n_split),
                bin=rng.integers(0, N_BINS, n_split),
                missing_left=rng.random(n_split) < 0.5,
            )
        )
    return forests


def leaf_by_hand(row, forest, vertex):
    """The leaf below a vertex that a row reaches; ``row`` has the row's bins."""
    while forest.feature[vertex] >= 0:
        value = row[forest.feature[vertex]]
        goes_left = value <= forest.bin[vertex]
        if value == N_BINS:
            goes_left = forest.missing_left[vertex]
        vertex = forest.left[vertex] + (0 if goes_left else 1)
    return vertex


def depth_by_hand(forest):
    """The largest number of splits above a vertex, each counted from the vertex up."""
    parent_of = {}
    for parent in np.flatnonzero(forest.feature >= 0).tolist():
        parent_of[forest.left[parent]] = parent_of[forest.left[parent] + 1] = parent
    depths = []
    for vertex in range(forest.n_vertices):
        depths.append(0)
        while vertex in parent_of:
            vertex = parent_of[vertex]
            depths[-1] += 1
    return max(depths)


@pytest.mark.parametrize("seed", range(4))
def test_rows_reach_the_leaves_that_they_reach_by_hand(seed, monkeypatch):
    monkeypatch.setattr(skgems.trees._forest, "NUMBERS_IN_CACHE", 22)  # 7 rows
    codes, _ = binned_rows(seed, n_rows=30, missing=0.2)
    forest = random_forests(seed)[-1]
    leaves = leaves_of(codes, forest)
    assert leaves.shape == (30, forest.n_trees)
    assert forest.depth() == depth_by_hand(forest)
    for row, tree in np.ndindex(leaves.shape):
        leaf = leaf_by_hand(codes[row], forest, tree)
        assert leaves[row, tree] == leaf
        assert forest.trees[leaf] == tree


@pytest.mark.parametrize("seed", range(4))
def test_rows_go_on_from_vertices_that_they_reached_before(seed, monkeypatch):
    monkeypatch.setattr(skgems.trees._forest, "NUMBERS_IN_CACHE", 21)
    codes, _ = binned_rows(seed, n_rows=50, missing=0.2)
    *_, earlier, _, last = random_forests(seed)
    start = leaves_of(codes, earlier)
    expected = leaves_of(codes, last)
    assert not np.array_equal(start, expected)
    np.testing.assert_array_equal(leaves_of(codes, last, start=start), expected)


def test_rows_may_go_through_some_of_the_trees_only():
    codes, _ = binned_rows(0, n_rows=50)
    forest = random_forests(0)[-1]
    start = np.broadcast_to(np.array([2, 0], dtype=np.int32), (50, 2))
    np.testing.assert_array_equal(
        leaves_of(codes, forest, start=start), leaves_of(codes, forest)[:, [2, 0]]
    )


def test_no_rows_reach_no_leaves():
    codes = np.zeros((0, N_FEATURES), dtype=np.uint8)
    assert leaves_of(codes, random_forests(0)[-1]).shape == (0, 3)


def test_a_split_leaves_the_forest_as_it_was():
    before = Forest.unsplit(2)
    after = before.split(
        np.array([1]), feature=[3], bin=[5], missing_left=np.array([True])
    )
    assert before.feature.tolist() == [-1, -1]
    assert after.feature.tolist() == [-1, 3, -1, -1]
    assert after.left.tolist() == [-1, 2, -1, -1]
    assert after.bin[1] == 5
    assert after.missing_left.tolist() == [False, True, False, False]
    assert after.trees.tolist() == [0, 1, 1, 1]
    assert (before.depth(), after.depth()) == (0, 1)


def test_mean_values_are_those_of_the_leaves_of_all_trees():
    forest = random_forests(0)[-1]
    codes, _ = binned_rows(0, n_features=N_FEATURES)
    values = np.random.default_rng(1).random((forest.n_vertices, 2))
    expected = values[leaves_of(codes, forest)].mean(axis=1)
    np.testing.assert_allclose(mean_values(codes, forest, values), expected)
