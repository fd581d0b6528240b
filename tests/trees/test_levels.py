# SPDX-License-Identifier: BSD-3-Clause
"""Larger siblings have what their parents had less the smaller ones."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.trees import (
    answer_of,
    assert_same_forest,
    binned_rows,
    boosted,
    grown,
)

import skgems.trees._levels
from skgems.trees import (
    BoostedGrowth,
    BoostedRows,
    BoostingRules,
    Growth,
    TreeRules,
    class_histograms,
    leaves_of,
)

RULES = TreeRules(max_depth=9, max_features=4, min_samples_leaf=2)


@pytest.mark.parametrize("draws_bins", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_siblings_by_subtraction_are_those_that_are_asked_for(seed, draws_bins):
    codes, labels = binned_rows(seed, n_classes=3, missing=0.1)
    rules = TreeRules(max_depth=9, max_features=4, draws_bins=draws_bins)
    seen, seen_of_both = [], []
    subtracting = grown(codes, labels, rules, n_trees=2, seen=seen)
    both = grown(codes, labels, rules, n_trees=2, seen=seen_of_both, subtracts=False)
    assert_same_forest(subtracting.forest, both.forest)
    np.testing.assert_array_equal(subtracting.counts, both.counts)
    n_asked, n_asked_of_both = (
        sum(len(asked.leaves) for _, asked in messages)
        for messages in (seen, seen_of_both)
    )
    assert n_asked < 0.75 * n_asked_of_both


def test_nodes_count_at_most_half_of_their_rows_below_the_roots():
    """Also where only the larger of two siblings may be split."""
    codes, labels = binned_rows(0)
    seen = []
    grown(codes, labels, RULES, seen=seen)
    assert len(seen) > 5
    for forest, asked in seen[1:]:
        leaves = leaves_of(codes, forest)[:, 0]
        n_rows = np.bincount(leaves, minlength=forest.n_vertices)
        for leaf in asked.leaves:
            first_of_pair = forest.left[forest.left <= leaf].max()
            assert n_rows[leaf] <= n_rows[first_of_pair : first_of_pair + 2].sum() / 2


def test_a_smaller_sibling_is_asked_for_the_sake_of_the_larger_one():
    """A leaf of one row is asked, and not split; its sibling is split by the rest."""
    codes = np.array([[0], *[[4]] * 6, *[[8]] * 6], dtype=np.uint8)
    labels = np.array([2] + [0] * 6 + [1] * 6)
    labels[7] = 0
    # Weights that part the single row of its class first.
    seen = []
    growth = grown(
        codes,
        labels,
        TreeRules(max_depth=3, max_features=1),
        class_weights=np.array([1.0, 1.0, 90.0]),
        seen=seen,
    )
    asked = seen[1][1].leaves.tolist()
    assert growth.forest.bin[0] == 0
    assert asked == [1]
    assert growth.forest.feature[:5].tolist() == [0, -1, 0, -1, -1]
    assert growth.forest.bin[2] == 4


def test_features_are_not_subtracted_where_some_are_drawn():
    codes, labels = binned_rows(0)
    drawing = TreeRules(max_depth=3, max_features=3)
    assert not grown(codes, labels, drawing).subtracts


def test_histograms_of_parents_are_not_kept_where_they_are_large(monkeypatch):
    codes, labels = binned_rows(0, n_rows=400)
    seen, seen_of_both = [], []
    rules = BoostingRules(max_iter=3, max_depth=4)
    kept = grown(codes, labels, RULES, seen=seen)
    boosted_kept = boosted(codes, labels, rules)
    monkeypatch.setattr(skgems.trees._levels, "_MOST_KEPT", 0)
    not_kept = grown(codes, labels, RULES, seen=seen_of_both)
    assert_same_forest(kept.forest, not_kept.forest)
    assert len(seen_of_both[1][1].leaves) == 2 * len(seen[1][1].leaves)
    assert_same_forest(boosted_kept.forest, boosted(codes, labels, rules).forest)


# ---- nodes that leave --------------------------------------------------------------


def grown_with_a_loss(codes, labels, *, stays, level, max_features=4):
    """A Growth whose second node leaves at a level, and the leaves taken after that."""
    growth = Growth(
        TreeRules(max_depth=4, max_features=max_features),
        n_trees=2,
        n_features=codes.shape[1],
        n_classes=3,
    )
    opened = []
    while growth.is_open:
        rows = stays if growth.n_messages >= level else np.full(len(codes), True)
        if growth.n_messages == level:
            growth.lose_nodes()
        if growth.n_messages >= level:
            opened.extend(growth.asked.leaves.tolist())
            opened.extend(growth._larger.values())  # whose histograms are differences
        growth.take(
            class_histograms(
                codes[rows],
                labels[rows],
                leaves_of(codes[rows], growth.forest),
                growth.asked,
                n_classes=3,
            )
        )
    return growth, np.unique(opened)


@pytest.mark.parametrize("max_features", [2, 4])
@pytest.mark.parametrize("level", [1, 2, 3])
def test_leaves_that_open_after_a_node_left_have_the_rows_of_the_others(
    level, max_features
):
    codes, labels = binned_rows(0, n_classes=3, missing=0.05)
    stays = np.random.default_rng(1).random(len(codes)) < 0.6
    growth, opened = grown_with_a_loss(
        codes, labels, stays=stays, level=level, max_features=max_features
    )
    leaves = leaves_of(codes[stays], growth.forest)
    rows_at = np.zeros((growth.forest.n_vertices, 3), dtype=int)
    for vertex, label in zip(leaves.ravel(), labels[stays].repeat(2), strict=True):
        rows_at[vertex, label] += 1
    left = growth.forest.left
    for vertex in np.arange(len(left))[::-1]:  # children follow their parents
        if left[vertex] >= 0:
            rows_at[vertex] = rows_at[left[vertex] : left[vertex] + 2].sum(axis=0)
    assert len(opened) >= 4
    np.testing.assert_array_equal(growth.counts[opened], rows_at[opened])
    new_leaves = growth.forest.left[opened[growth.forest.feature[opened] >= 0]]
    new_vertices = np.concatenate([new_leaves, new_leaves + 1])
    np.testing.assert_array_equal(growth.counts[new_vertices], rows_at[new_vertices])


def test_larger_siblings_are_split_after_a_node_left():
    """In the same message as the children of the smaller ones."""
    codes, labels = binned_rows(0, n_classes=3)
    stays = np.arange(len(codes)) % 3 > 0
    growth, _ = grown_with_a_loss(codes, labels, stays=stays, level=1)
    assert (growth.forest.feature[2:6] >= 0).all()  # both children of both roots
    assert growth.n_messages == 5  # one more than levels


def test_boosted_trees_go_on_after_a_node_left_without_further_messages():
    codes, labels = binned_rows(0, n_classes=2)
    stays = np.arange(len(codes)) % 3 > 0
    rules = BoostingRules(max_iter=3, max_depth=3)
    growth = BoostedGrowth(
        rules, n_features=codes.shape[1], class_counts=np.bincount(labels)
    )
    nodes = [
        BoostedRows(codes[rows], labels[rows], n_classes=2) for rows in (stays, ~stays)
    ]
    while growth.is_open:
        if growth.n_messages == 1:
            nodes.pop()
            growth.lose_nodes()
        asked_before = growth.asked.leaves
        growth.take(sum(answer_of(rows, growth) for rows in nodes))
        if growth.n_messages > 1:
            gradients = growth._sums[asked_before, 2]
            leaves = leaves_of(codes[stays], growth.forest)
            n_rows = np.array([_n_below(growth, v, leaves) for v in asked_before])
            np.testing.assert_array_equal(gradients, n_rows)
    assert growth.n_messages <= rules.most_messages
    assert growth.n_finished == 3
    assert (growth.forest.feature[:3] >= 0).all()


def _n_below(growth, vertex, leaves):
    """How many rows have their leaf below a vertex."""
    below = {int(vertex)}
    for parent in np.flatnonzero(growth.forest.left >= 0):
        if int(parent) in below:
            left = int(growth.forest.left[parent])
            below |= {left, left + 1}
    return np.isin(leaves, list(below)).sum()
