# SPDX-License-Identifier: BSD-3-Clause
"""Larger siblings have what their parents had less the smaller ones."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.trees import assert_same_forest, binned_rows, boosted, grown

import skgems.trees._levels
from skgems.trees import BoostingRules, TreeRules, leaves_of

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
