# SPDX-License-Identifier: BSD-3-Clause
"""Trees are those of scikit-learn on the same bins, however rows are split."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.trees import (
    ThresholdTree,
    assert_same_forest,
    binned_rows,
    columns_of,
    grown,
    split_over_nodes,
    vertices_alike,
    weights_of_trees,
)
from sklearn.tree import DecisionTreeClassifier

import skgems.trees._growth
from skgems.trees import N_MORE_LEVELS, TreeRules, leaves_of
from skgems.trees._growth import _drawn_features

FORESTS = {
    "decision tree": TreeRules(max_depth=12, max_features=4),
    "random forest": TreeRules(max_depth=8, max_features=2, criterion="entropy"),
    "extremely randomized": TreeRules(max_depth=6, max_features=2, draws_bins=True),
    "all features at random bins": TreeRules(
        max_depth=6, max_features=4, draws_bins=True, min_samples_leaf=3
    ),
}


@pytest.mark.parametrize("rules", FORESTS.values(), ids=FORESTS)
@pytest.mark.parametrize("sizes", [[150], [0, 1, 40], [250, 48]])
def test_the_same_forest_grows_however_rows_are_split_over_nodes(rules, sizes):
    codes, labels = binned_rows(1, n_classes=3, missing=0.05)
    weights = weights_of_trees(300, 3)
    whole = grown(codes, labels, rules, n_trees=3, weights=weights, n_classes=3)
    parts = grown(
        codes,
        labels,
        rules,
        n_trees=3,
        weights=weights,
        n_classes=3,
        nodes=split_over_nodes(300, sizes),
    )
    assert whole.forest.n_vertices > 20
    assert_same_forest(whole.forest, parts.forest)
    np.testing.assert_array_equal(whole.counts, parts.counts)


def threshold_tree(tree):
    """The arrays of a ``tree_`` of scikit-learn."""
    return ThresholdTree(
        feature=tree.feature,
        threshold=tree.threshold,
        missing_left=tree.missing_go_to_left == 1,
        left=tree.children_left,
        right=tree.children_right,
    )


def impurity_after(labels, sides, class_weights):
    """Of both sides together, times the weight of the rows."""
    total = 0.0
    for side in (labels[sides], labels[~sides]):
        weights = np.bincount(side, minlength=len(class_weights)) * class_weights
        total += weights.sum() - (weights**2).sum() / weights.sum()
    return total


PARAMETERS = [
    {},
    {"min_samples_leaf": 7},
    {"min_samples_split": 30},
    {"min_impurity_decrease": 0.004},
    {"class_weight": "balanced"},
    {"class_weight": {0: 1.0, 1: 5.0, 2: 0.5}},
    {"missing": 0.15},
    {"missing": 0.15, "min_samples_leaf": 7},
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
def test_a_deep_tree_is_that_of_scikit_learn(parameters):
    """But where two splits have the same score, of which either may be taken."""
    missing = parameters.get("missing", 0.0)
    codes, labels = binned_rows(0, n_rows=600, n_classes=3, missing=missing)
    class_weight = parameters.get("class_weight")
    numbers = {
        name: value
        for name, value in parameters.items()
        if name not in ("class_weight", "missing")
    }
    growth = grown(
        codes,
        labels,
        TreeRules(max_depth=30, max_features=4, **numbers),
        class_weights=(
            np.array([1.0, 5.0, 0.5])
            if isinstance(class_weight, dict)
            else class_weight
        ),
    )
    tree = DecisionTreeClassifier(class_weight=class_weight, random_state=0, **numbers)
    tree = threshold_tree(tree.fit(columns_of(codes), labels).tree_)
    weights = growth.class_weights_in_use
    n_same = n_tied = 0
    for vertex, rows, sides, other_sides in vertices_alike(growth.forest, tree, codes):
        assert (
            growth.counts[vertex].tolist()
            == np.bincount(labels[rows], minlength=3).tolist()
        )
        if sides is None and other_sides is not None:
            # The impurity of weights of one class is not quite 0 there.
            assert len(set(labels[rows])) == 1
        elif np.array_equal(sides, other_sides):
            n_same += 1
        else:
            n_tied += 1
            assert impurity_after(labels[rows], sides, weights) == pytest.approx(
                impurity_after(labels[rows], other_sides, weights), rel=1e-9
            )
    assert n_same > 10
    assert n_tied < n_same


def test_balanced_weights_are_the_same_for_classes_of_the_same_rows():
    codes, labels = binned_rows(0, n_classes=3)
    rules = TreeRules(max_depth=8, max_features=4)
    n_rows = np.bincount(labels)
    explicit = len(labels) / (3 * n_rows)
    assert len(set(n_rows)) > 1
    assert_same_forest(
        grown(codes, labels, rules, class_weights="balanced").forest,
        grown(codes, labels, rules, class_weights=explicit).forest,
    )


def test_trees_are_not_deeper_than_they_may_be():
    codes, labels = binned_rows(0, n_rows=600)
    growth = grown(codes, labels, TreeRules(max_depth=3, max_features=4))
    assert growth.forest.depth() == 3
    assert growth.n_messages == 3
    assert not growth.is_open


@pytest.mark.parametrize(("least_decrease", "n_vertices"), [(0.5, 3), (0.5001, 1)])
def test_a_split_lets_impurity_fall_by_the_least_decrease(least_decrease, n_vertices):
    """Two classes of four rows each, which one split parts: from 0.5 to 0."""
    codes = np.repeat([[0], [9]], 4, axis=0).astype(np.uint8)
    rules = TreeRules(max_depth=2, max_features=1, min_impurity_decrease=least_decrease)
    growth = grown(codes, np.repeat([0, 1], 4), rules)
    assert growth.forest.n_vertices == n_vertices


@pytest.mark.parametrize("min_samples_split", [8, 9])
def test_a_root_may_be_too_small(min_samples_split):
    codes = np.repeat([[0], [9]], 4, axis=0).astype(np.uint8)
    rules = TreeRules(max_depth=2, max_features=1, min_samples_split=min_samples_split)
    growth = grown(codes, np.repeat([0, 1], 4), rules)
    assert (growth.forest.n_vertices == 1) == (min_samples_split > 8)


def constant_but_for_one(n_constant):
    """Rows of features that cannot split them, but for the last one, which can."""
    codes = np.zeros((20, n_constant + 1), dtype=np.uint8)
    codes[10:, -1] = 5
    return codes, np.repeat([0, 1], 10)


@pytest.mark.parametrize(("n_rows", "n_messages"), [(7, 1), (8, 2)])
def test_leaves_that_are_too_small_to_be_split_are_not_asked_about(n_rows, n_messages):
    codes = np.repeat([[0], [9]], n_rows, axis=0).astype(np.uint8)
    labels = np.arange(2 * n_rows) // (n_rows + 1)  # the second leaf is mixed
    rules = TreeRules(max_depth=3, max_features=1, min_samples_leaf=4)
    assert grown(codes, labels, rules).n_messages == n_messages


def test_leaves_that_no_feature_can_split_are_not_asked_about_again():
    codes, labels = constant_but_for_one(n_constant=2)
    labels[:] = np.arange(20) % 2
    growth = grown(codes[:, :-1], labels, TreeRules(max_depth=3, max_features=2))
    assert growth.n_messages == 1
    growth = grown(codes, labels, TreeRules(max_depth=3, max_features=3))
    assert growth.n_messages == 2
    assert growth.forest.n_vertices == 3


def test_extremely_randomized_trees_take_random_bins():
    """Those of the best splits are the same in all trees."""
    codes, labels = binned_rows(0)
    bins, best_bins = (
        grown(
            codes,
            labels,
            TreeRules(max_depth=2, max_features=4, draws_bins=draws_bins),
            n_trees=20,
        ).forest.bin[:20]
        for draws_bins in (True, False)
    )
    assert len(set(best_bins)) == 1
    assert len(set(bins)) > 5


@pytest.mark.parametrize("max_features", [1, 3])
def test_a_tree_of_one_class_is_a_root(max_features):
    codes, _ = binned_rows(0, n_features=3)
    labels = np.full(300, 1)
    rules = TreeRules(max_depth=4, max_features=max_features)
    growth = grown(codes, labels, rules, n_trees=2, n_classes=3)
    assert growth.forest.n_vertices == 2
    assert growth.counts.tolist() == [[0, 300, 0]] * 2
    assert growth.n_messages == 1


def test_a_leaf_is_asked_about_other_features_where_those_drawn_cannot_split_it():
    codes, labels = constant_but_for_one(n_constant=2)
    seen = []
    rules = TreeRules(max_depth=1, max_features=1)
    growth = grown(codes, labels, rules, n_trees=30, seen=seen)
    assert (growth.forest.feature[:30] == 2).all()
    assert growth.n_messages == 3 == rules.most_messages
    asked_features = {tree: [] for tree in range(30)}
    for _, asked in seen:
        for leaf, (feature,) in zip(asked.leaves, asked.features, strict=True):
            asked_features[int(leaf)].append(int(feature))
    for features in asked_features.values():
        assert features[-1] == 2
        assert len(set(features)) == len(features)
    assert max(map(len, asked_features.values())) == 3


def test_a_leaf_is_asked_about_others_some_more_times_only():
    codes, labels = constant_but_for_one(n_constant=9)
    growth = grown(codes, labels, TreeRules(max_depth=1, max_features=1), n_trees=60)
    assert growth.n_messages == 1 + N_MORE_LEVELS
    n_split = (growth.forest.feature[:60] >= 0).sum()
    assert 0 < n_split < 40  # 3 of 10 features are tried, so 18 on average


def test_features_that_are_constant_in_a_leaf_are_not_drawn_for_its_children():
    codes, labels = binned_rows(0, n_features=5)
    codes[:, [0, 2]] = 7
    seen = []
    rules = TreeRules(max_depth=2, max_features=2)
    growth = grown(codes, labels, rules, n_trees=40, seen=seen)
    drawn_for_roots = seen[0][1].features
    tree_of_vertex = growth.forest.trees
    asked = seen[1][1]
    assert len(asked.leaves) > 40
    for leaf, features in zip(asked.leaves, asked.features, strict=True):
        of_root = drawn_for_roots[tree_of_vertex[leaf]]
        assert not {0, 2} & set(of_root) & set(features)
    assert {0, 2} & set(asked.features.ravel())


def test_excluded_features_are_drawn_where_others_do_not_suffice():
    excluded = np.array([[True, True, True, False], [False, True, False, True]])
    features = _drawn_features(excluded, 2, rng=np.random.RandomState(0))
    assert 3 in features[0]
    assert features[1].tolist() == [0, 2]
    assert (np.diff(features) > 0).all()


@pytest.mark.parametrize("n_leaves", [1, 5])
def test_every_feature_is_drawn_equally_often(monkeypatch, n_leaves):
    """2 of 4 for 4,000 leaves: 2,000 times, with a standard deviation of 32."""
    monkeypatch.setattr(skgems.trees._growth, "NUMBERS_IN_CACHE", 1000 * n_leaves)
    excluded = np.zeros((4000, 4), dtype=bool)
    features = _drawn_features(excluded, 2, rng=np.random.RandomState(0))
    assert np.abs(np.bincount(features.ravel()) - 2000).max() < 160


def test_trees_of_one_seed_are_the_same_and_of_others_not():
    codes, labels = binned_rows(0)
    rules = TreeRules(max_depth=4, max_features=2)
    first, second, third = (
        grown(codes, labels, rules, random_state=seed) for seed in (0, 0, 1)
    )
    assert_same_forest(first.forest, second.forest)
    assert not np.array_equal(first.forest.feature, third.forest.feature)


def test_counts_are_those_of_the_rows_that_reach_a_leaf():
    codes, labels = binned_rows(0, missing=0.1)
    weights = weights_of_trees(300, 2)
    rules = TreeRules(max_depth=5, max_features=2)
    growth = grown(codes, labels, rules, n_trees=2, weights=weights)
    leaves = leaves_of(codes, growth.forest)
    counts = np.zeros_like(growth.counts)
    for tree in range(2):
        np.add.at(counts, (leaves[:, tree], labels), weights[:, tree])
    is_leaf = growth.forest.feature < 0
    np.testing.assert_array_equal(growth.counts[is_leaf], counts[is_leaf])
