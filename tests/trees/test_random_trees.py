# SPDX-License-Identifier: BSD-3-Clause
"""Totally random trees are drawn from a seed alone, and their leaves counted."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from helpers.trees import binned_rows, split_over_nodes

from skgems.trees import (
    N_BINS,
    RandomTrees,
    leaf_counts,
    leaves_of,
    random_forest,
    rounded_leaf_counts,
    upper_edges,
)
from skgems.trees._random_trees import _probability_up_to_bin


def drawn(n_trees=4, max_depth=5, n_features=4, random_state=0):
    return random_forest(
        n_trees=n_trees,
        max_depth=max_depth,
        n_features=n_features,
        random_state=random_state,
    )


def vertices_by_level(forest):
    """Sorted: tree by tree, and from the left to the right."""
    return [np.sort(vertices) for vertices in forest.levels()]


def bins_left(forest):
    """For each vertex the first and last bin of each feature that rows may have."""
    n_features = forest.feature.max() + 1
    first = np.zeros((forest.n_vertices, n_features), dtype=int)
    last = np.full((forest.n_vertices, n_features), N_BINS - 1)
    for vertex in np.flatnonzero(forest.feature >= 0):  # parents come first
        left = forest.left[vertex]
        for side in (left, left + 1):
            first[side], last[side] = first[vertex], last[vertex]
        if (first[vertex] >= last[vertex]).all():
            continue
        feature, bin = forest.feature[vertex], forest.bin[vertex]
        last[left, feature] = bin
        first[left + 1, feature] = bin + 1
    return first, last


# ---- what is drawn -----------------------------------------------------------------


def test_all_levels_are_there_and_children_stand_side_by_side():
    forest = drawn()
    sizes = [len(vertices) for vertices in vertices_by_level(forest)]
    assert sizes == [4 * 2**level for level in range(6)]
    start = 0
    for vertices in vertices_by_level(forest):
        np.testing.assert_array_equal(vertices, start + np.arange(len(vertices)))
        start += len(vertices)
    leaves = np.arange(forest.n_vertices - 4 * 2**5, forest.n_vertices)
    np.testing.assert_array_equal(forest.trees[leaves], np.repeat(np.arange(4), 32))


def test_trees_follow_from_the_seed_and_the_first_ones_are_those_of_more_trees():
    forest, again, more = drawn(), drawn(), drawn(n_trees=6)
    np.testing.assert_array_equal(forest.feature, again.feature)
    np.testing.assert_array_equal(forest.bin, again.bin)
    for few, many in zip(
        vertices_by_level(forest), vertices_by_level(more), strict=True
    ):
        for name in ("feature", "bin", "missing_left"):
            np.testing.assert_array_equal(
                getattr(forest, name)[few], getattr(more, name)[many[: len(few)]]
            )
    assert (drawn(random_state=1).bin != forest.bin).any()


def test_trees_are_the_same_on_every_machine():
    """A node and a server that drew other trees would add up counts of other leaves."""
    forest = drawn(n_trees=20, max_depth=7, n_features=9, random_state=12)
    content = [forest.feature, forest.bin, forest.missing_left]
    digest = hashlib.sha256(b"".join(a.astype("<i4").tobytes() for a in content))
    assert digest.hexdigest()[:16] == "09a6d1343025bda0"


def test_no_probability_of_a_bin_is_near_the_middle_of_two_whole_numbers():
    """So that rounding by another library changes none of them."""
    from scipy.special import ndtr

    parts = 1e6 * np.diff(ndtr(upper_edges()), prepend=0.0)
    parts = parts[parts > 0.1]
    assert np.abs(parts % 1 - 0.5).min() > 1e-4
    assert _probability_up_to_bin()[-1] == pytest.approx(1e6, abs=N_BINS)


@pytest.mark.parametrize("n_features", [1, 2, 7])
def test_only_features_of_several_bins_are_drawn(n_features):
    """In 12 levels one or two are used up: all rows then go on to the left."""
    forest = drawn(n_trees=2, max_depth=12, n_features=n_features)
    first, last = bins_left(forest)
    n_used_up = 0
    for vertex in np.flatnonzero(forest.feature >= 0):
        feature, bin = forest.feature[vertex], forest.bin[vertex]
        if (first[vertex] >= last[vertex]).all():
            assert bin == N_BINS - 1 and forest.missing_left[vertex]
            n_used_up += 1
        else:
            assert first[vertex, feature] <= bin < last[vertex, feature]
    assert (n_used_up > 0) == (n_features <= 2)


def test_features_are_drawn_alike_and_so_are_sides_of_missing_values():
    forest = drawn(n_trees=40, max_depth=6, n_features=5)
    is_split = forest.feature >= 0
    n_drawn = np.bincount(forest.feature[is_split], minlength=5)
    assert np.abs(n_drawn - is_split.sum() / 5).max() < 4 * np.sqrt(is_split.sum() / 5)
    assert forest.missing_left[is_split].mean() == pytest.approx(0.5, abs=0.05)


def test_both_sides_of_a_split_have_a_fifth_of_the_probability():
    forest = drawn(n_trees=30, max_depth=1, n_features=3)
    up_to_bin = _probability_up_to_bin()
    share = up_to_bin[forest.bin[:30] + 1] / up_to_bin[-1]
    assert share.min() > 0.15 and share.max() < 0.85
    assert share.max() - share.min() > 0.4


def test_leaves_of_standard_normal_rows_are_about_equal():
    codes = np.searchsorted(
        upper_edges()[:-1], np.random.default_rng(0).standard_normal((4000, 6))
    ).astype(np.uint8)
    counts = leaf_counts(
        codes, np.zeros(4000, dtype=int), drawn(max_depth=4, n_features=6), n_classes=1
    )
    assert counts.min() > 4000 / 16 * 0.01 and counts.max() < 4000 / 16 * 8


# ---- counts ------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_counts_are_of_the_rows_that_reach_each_leaf(missing):
    codes, labels = binned_rows(0, n_classes=3, missing=missing)
    forest = drawn()
    counts = leaf_counts(codes, labels, forest, n_classes=3)
    assert counts.shape == (4, 32, 3)
    leaves = leaves_of(codes, forest) - (forest.n_vertices - 4 * 32)
    for tree, leaf, label in np.ndindex(counts.shape):
        is_there = (leaves[:, tree] == tree * 32 + leaf) & (labels == label)
        assert counts[tree, leaf, label] == is_there.sum()


def test_counts_of_nodes_add_up_to_those_of_all_rows():
    codes, labels = binned_rows(0, n_classes=3, missing=0.1)
    parts = [
        leaf_counts(codes[rows], labels[rows], drawn(), n_classes=3)
        for rows in split_over_nodes(len(codes), [1, 120])
    ]
    whole = leaf_counts(codes, labels, drawn(), n_classes=3)
    np.testing.assert_array_equal(sum(parts), whole)


@pytest.mark.parametrize("step", [2, 10])
def test_rounded_counts_of_every_vertex_are_wrong_by_a_step_at_most(step):
    codes, labels = binned_rows(0, n_classes=3)
    counts = leaf_counts(codes, labels, drawn(), n_classes=3)
    rounded = rounded_leaf_counts(counts, step)
    assert (rounded % step == 0).all() and rounded.min() >= 0
    assert (rounded != counts).any()
    while counts.shape[1]:
        assert np.abs(rounded - counts).max() <= step
        if counts.shape[1] == 1:
            break
        counts = counts[:, ::2] + counts[:, 1::2]
        rounded = rounded[:, ::2] + rounded[:, 1::2]
    assert np.abs(rounded - counts).max() <= step / 2  # of a whole tree


# ---- trees that predict ------------------------------------------------------------


def counted(forest, codes, labels, **parameters):
    counts = leaf_counts(codes, labels, forest, n_classes=labels.max() + 1)
    return RandomTrees(forest, counts, n_features=codes.shape[1], **parameters)


def rows_at(trees, codes, labels):
    """Rows by class at each vertex, by the ways of the rows."""
    leaves = leaves_of(codes, trees.forest)
    n_rows = np.zeros_like(trees.counts)
    for tree in range(leaves.shape[1]):
        np.add.at(n_rows, (leaves[:, tree], labels), 1)
    for vertex in np.flatnonzero(trees.forest.left >= 0)[::-1]:
        left = trees.forest.left[vertex]
        n_rows[vertex] = n_rows[left : left + 2].sum(axis=0)
    return n_rows


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize(
    "parameters", [{}, {"min_samples_leaf": 4}, {"min_samples_split": 30}]
)
def test_vertices_have_the_rows_that_reach_them(parameters, missing):
    codes, labels = binned_rows(0, n_classes=3, missing=missing)
    trees = counted(drawn(max_depth=9), codes, labels, **parameters)
    np.testing.assert_array_equal(trees.counts, rows_at(trees, codes, labels))
    n_rows = trees.counts.sum(axis=1)
    assert n_rows.min() >= parameters.get("min_samples_leaf", 1)
    is_split = trees.forest.feature >= 0
    assert n_rows[is_split].min() >= parameters.get("min_samples_split", 2)
    assert (np.count_nonzero(trees.counts[is_split], axis=1) > 1).all()
    np.testing.assert_array_equal(trees._trees, trees.forest.trees)
    for depth, vertices in enumerate(trees.forest.levels()):
        assert (trees.depths_of(vertices) == depth).all()
    for tree in range(4):
        assert trees.vertices_of(tree)[0] == tree


def test_rows_end_among_the_rows_of_their_leaf_in_the_complete_trees():
    """Only what has too few rows, or rows of one class, is joined with a neighbor."""
    codes, labels = binned_rows(0, n_classes=3)
    forest = drawn(max_depth=9)
    trees = counted(forest, codes, labels)
    complete = leaves_of(codes, forest)
    leaves = leaves_of(codes, trees.forest)
    for tree in range(4):
        for leaf in np.unique(complete[:, tree]):
            rows = complete[:, tree] == leaf
            assert len(np.unique(leaves[rows, tree])) == 1
    assert trees.forest.n_vertices < forest.n_vertices / 2


def test_a_side_without_rows_is_left_out_and_its_rows_take_the_other_side():
    codes = np.full((6, 1), 20, dtype=np.uint8)
    codes[3:] = 24
    labels = np.repeat([0, 1], 3)
    trees = counted(drawn(n_features=1, max_depth=8), codes, labels)
    for tree in range(4):
        root = trees.forest.left[tree]
        assert 20 <= trees.forest.bin[tree] < 24
        assert trees.counts[[root, root + 1]].tolist() == [[3, 0], [0, 3]]


def test_weights_of_classes():
    codes, labels = binned_rows(0, n_classes=3)
    forest = drawn()
    n_rows = np.bincount(labels)
    weights = counted(forest, codes, labels, class_weights="balanced")
    np.testing.assert_allclose(weights.class_weights_in_use, 300 / (3 * n_rows))
    assert counted(forest, codes, labels).class_weights_in_use.tolist() == [1, 1, 1]


@pytest.mark.parametrize(("min_samples_split", "n_vertices"), [(4, 3), (5, 1)])
def test_a_vertex_of_just_enough_rows_is_split(min_samples_split, n_vertices):
    forest = random_forest(n_trees=1, max_depth=1, n_features=1, random_state=0)
    counts = np.array([[[2, 0], [0, 2]]])
    trees = RandomTrees(
        forest, counts, n_features=1, min_samples_split=min_samples_split
    )
    assert trees.forest.n_vertices == n_vertices
