# SPDX-License-Identifier: BSD-3-Clause
"""Boosted trees are those of scikit-learn on the same bins, however rows are split."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.trees import (
    ThresholdTree,
    answer_of,
    assert_same_forest,
    binned_rows,
    boosted,
    columns_of,
    split_over_nodes,
    vertices_alike,
)
from sklearn.ensemble import HistGradientBoostingClassifier

from skgems.trees import (
    SCALE,
    BoostedGrowth,
    BoostedRows,
    BoostingRules,
    leaves_of,
    raw_predictions,
)
from skgems.trees._gradient_splits import leaf_losses, leaf_values
from skgems.trees._gradients import scaled_gradients


@pytest.mark.parametrize("n_classes", [2, 9])
@pytest.mark.parametrize("sizes", [[150], [0, 1, 40]])
@pytest.mark.parametrize("forgets", [False, True])
def test_the_same_trees_grow_however_rows_are_split_over_nodes(
    n_classes, sizes, forgets
):
    codes, labels = binned_rows(1, n_classes=n_classes, missing=0.05)
    rules = BoostingRules(max_iter=3, max_depth=4, min_samples_leaf=5)
    whole = boosted(codes, labels, rules, n_classes=n_classes)
    parts = boosted(
        codes,
        labels,
        rules,
        n_classes=n_classes,
        nodes=split_over_nodes(300, sizes),
        forgets=forgets,
    )
    assert whole.forest.n_vertices > 40
    assert_same_forest(whole.forest, parts.forest)
    np.testing.assert_array_equal(whole.values, parts.values)


def raw_of(growth, codes):
    return raw_predictions(codes, growth.forest, growth.values, growth.baseline)


def fitted(codes, labels, rules):
    """scikit-learn's classifier by the same rules."""
    return HistGradientBoostingClassifier(
        max_iter=rules.max_iter,
        max_depth=rules.max_depth,
        learning_rate=rules.learning_rate,
        l2_regularization=rules.l2_regularization,
        min_samples_leaf=rules.min_samples_leaf,
        max_leaf_nodes=None,
        early_stopping=False,
    ).fit(columns_of(codes), labels)


RULES = {
    "defaults": BoostingRules(max_iter=6, max_depth=3),
    "stumps": BoostingRules(max_iter=6, max_depth=1),
    "regularized": BoostingRules(max_iter=6, max_depth=3, l2_regularization=5.0),
    "fast": BoostingRules(max_iter=12, max_depth=2, learning_rate=0.7),
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_raw_predictions_are_those_of_scikit_learn(rules, n_classes, missing):
    """Of the rows that trees are fitted to, no splits of which have equal gains.

    scikit-learn rounds gradients to float32. Where a leaf has no row without a value,
    rounding decides there where such rows go.
    """
    codes, labels = binned_rows(2, n_rows=900, n_classes=n_classes, missing=missing)
    growth = boosted(codes, labels, rules)
    expected = fitted(codes, labels, rules).decision_function(columns_of(codes))
    raw = raw_of(growth, codes)
    np.testing.assert_allclose(raw, np.reshape(expected.T, raw.shape), atol=1e-5)
    assert raw.std() > 0.1
    assert growth.n_messages <= rules.most_messages


def test_a_rare_row_among_others_makes_no_huge_value():
    """Where hessians are near zero a value would be up to 1000."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, size=(400, 1))
    labels = codes[:, 0] % 2
    labels[np.flatnonzero(codes[:, 0] == 2)[0]] = 1  # one row among some 130
    rules = BoostingRules(max_iter=40, max_depth=1, learning_rate=0.7)
    growth = boosted(codes, labels, rules)
    assert np.abs(growth.values).max() <= 0.7 * 10.0
    # A bounded leaf of G gradients and H hessians loses 2 G v + H v^2.
    sums = np.array([[-4.0, 0.125, 20.0], [-4.0, 2.0, 20.0]]) * [SCALE, SCALE, 1.0]
    np.testing.assert_allclose(leaf_values(sums, 0.0), [10.0, 2.0])
    np.testing.assert_allclose(leaf_losses(sums, 0.0), [-80.0 + 12.5, -8.0])


def first_tree(classifier):
    """The first tree of a HistGradientBoostingClassifier."""
    nodes = classifier._predictors[0][0].nodes
    return ThresholdTree(
        feature=nodes["feature_idx"],
        threshold=nodes["num_threshold"],
        missing_left=nodes["missing_go_to_left"] == 1,
        left=nodes["left"],
        right=nodes["right"],
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_a_deep_tree_is_that_of_scikit_learn(n_classes, missing):
    """But where two splits gain the same, of which either may be taken.

    That is often so in the first tree: rows of a class have the same gradient.
    """
    codes, labels = binned_rows(2, n_rows=900, n_classes=n_classes, missing=missing)
    rules = BoostingRules(max_iter=1, max_depth=6, min_samples_leaf=3)
    growth = boosted(codes, labels, rules)
    tree = first_tree(fitted(codes, labels, rules))
    raw = np.repeat(growth.baseline[:, None], 900, axis=1)
    gradients, hessians = scaled_gradients(raw, labels)

    def loss_after(rows, sides):
        sides = np.ones(len(rows), dtype=bool) if sides is None else sides
        return sum(
            -(gradients[0, side].sum() ** 2) / hessians[0, side].sum()
            for side in (rows[sides], rows[~sides])
            if len(side)
        )

    n_same = n_tied = 0
    for _, rows, sides, other_sides in vertices_alike(growth.forest, tree, codes):
        if np.array_equal(sides, other_sides):
            n_same += 1
            continue
        n_tied += 1
        assert loss_after(rows, sides) == pytest.approx(
            loss_after(rows, other_sides), rel=1e-6
        )
    assert n_same > 20
    assert n_tied < n_same / 2


def test_rows_without_a_value_go_to_more_rows_where_there_were_none():
    codes, labels = binned_rows(2, n_rows=900)
    rules = BoostingRules(max_iter=5, max_depth=3)
    growth = boosted(codes, labels, rules)
    new_codes, _ = binned_rows(3, n_rows=200, missing=0.5)
    expected = fitted(codes, labels, rules).decision_function(columns_of(new_codes))
    np.testing.assert_allclose(raw_of(growth, new_codes)[0], expected, atol=1e-5)
    sides = growth.forest.missing_left[growth.forest.feature >= 0]
    assert set(sides) == {False, True}


def test_rows_are_classified_as_scikit_learn_does_where_gains_are_equal():
    """Of few rows with few bins."""
    accuracies = []
    for seed in range(4):
        codes, labels = binned_rows(seed, n_rows=700, n_classes=3, n_bins=8)
        rules = BoostingRules(max_iter=10, max_depth=4)
        train, test = slice(0, 400), slice(400, None)
        growth = boosted(codes[train], labels[train], rules)
        expected = fitted(codes[train], labels[train], rules).score(
            columns_of(codes[test]), labels[test]
        )
        predicted = raw_of(growth, codes[test]).argmax(axis=0)
        accuracies.append([np.mean(predicted == labels[test]), expected])
    means = np.mean(accuracies, axis=0)
    assert means[0] == pytest.approx(means[1], abs=0.003)
    assert means[1] > 0.6


def test_roots_of_all_iterations_come_first():
    codes, labels = binned_rows(0, n_classes=3)
    growth = BoostedGrowth(
        BoostingRules(max_iter=7, max_depth=2),
        n_features=4,
        class_counts=np.bincount(labels),
    )
    assert growth.forest.n_trees == growth.forest.n_vertices == 21
    assert growth.asked.leaves.tolist() == [0, 1, 2]
    assert growth.asked.features.tolist() == [[0, 1, 2, 3]] * 3
    np.testing.assert_array_equal(growth.values, np.zeros(21))
    raw = raw_of(growth, codes)
    np.testing.assert_array_equal(raw, np.repeat(growth.baseline[:, None], 300, axis=1))


def test_values_are_of_leaves_of_finished_trees_only():
    codes, labels = binned_rows(0)
    rules = BoostingRules(max_iter=3, max_depth=3, min_samples_leaf=5)
    growth = BoostedGrowth(rules, n_features=4, class_counts=np.bincount(labels))
    rows = BoostedRows(codes, labels, n_classes=2)
    while growth.is_open:
        growth.take(answer_of(rows, growth))
        trees = growth.forest.trees
        is_leaf = growth.forest.feature < 0
        is_finished = trees < growth.n_finished
        assert len(growth.values) == growth.forest.n_vertices
        np.testing.assert_array_equal(growth.values != 0, is_leaf & is_finished)
        if growth.is_open:
            assert set(trees[growth.asked.leaves]) == {growth.n_finished}
    assert growth.n_finished == 3
    assert growth.n_messages == 9


def test_the_loss_of_a_root_is_that_of_the_value_0():
    """So it is split wherever a split gains over adding nothing, as in scikit-learn."""
    codes, labels = binned_rows(0, n_classes=3)
    growth = boosted(codes, labels, BoostingRules(max_iter=2, max_depth=2))
    leaves = np.arange(growth.forest.n_vertices)
    losses = growth._losses(leaves)
    np.testing.assert_array_equal(losses[:6], np.zeros(6))
    np.testing.assert_array_equal(losses[6:], leaf_losses(growth._sums[6:], 0.0))
    assert (leaf_losses(growth._sums[3:6], 0.0) < 0).all()


def test_nodes_are_not_asked_about_leaves_that_are_too_small():
    codes = np.repeat([[0, 0], [9, 0], [9, 5]], [39, 30, 30], axis=0).astype(np.uint8)
    labels = np.repeat([0, 1, 0, 1, 0], [39, 25, 5, 15, 15])
    rules = BoostingRules(max_iter=1, max_depth=3)
    growth = BoostedGrowth(rules, n_features=2, class_counts=np.bincount(labels))
    rows = BoostedRows(codes, labels, n_classes=2)
    growth.take(answer_of(rows, growth))
    assert growth.forest.bin[0] == 0
    # The first is asked, of 39 rows, as it is the smaller one; 40 would be split.
    assert growth.asked.leaves.tolist() == [1]
    assert growth._may_split(np.array([1, 2])).tolist() == [False, True]
    growth.take(answer_of(rows, growth))
    assert growth.forest.feature.tolist() == [0, -1, 1, -1, -1]
    assert not growth.is_open


def test_the_learning_rate_multiplies_values():
    codes, labels = binned_rows(0)
    slow, fast = (
        boosted(
            codes,
            labels,
            BoostingRules(max_iter=1, max_depth=3, learning_rate=learning_rate),
        )
        for learning_rate in (0.1, 0.5)
    )
    np.testing.assert_allclose(5 * slow.values, fast.values)


def test_leaves_have_the_least_number_of_rows():
    codes, labels = binned_rows(0)
    rules = BoostingRules(max_iter=3, max_depth=6, min_samples_leaf=17)
    growth = boosted(codes, labels, rules)
    for reached in leaves_of(codes, growth.forest).T:
        assert np.unique(reached, return_counts=True)[1].min() >= 17
    assert BoostingRules(max_depth=3).min_samples_leaf == 20


def test_growth_ends_where_no_tree_can_be_split():
    """As all further iterations would have the same gradients."""
    codes, labels = binned_rows(0, n_rows=39)
    growth = boosted(codes, labels, BoostingRules(max_iter=50, max_depth=3))
    assert growth.n_messages == 1
    np.testing.assert_array_equal(growth.values, np.zeros(50))
    expected = fitted(codes, labels, growth.rules).decision_function(columns_of(codes))
    np.testing.assert_allclose(raw_of(growth, codes)[0], expected)


def test_growth_ends_where_all_rows_are_sure_of_their_class():
    """Hessians fall below the least, after some 20 iterations of fast learning."""
    codes = np.repeat([[0], [20]], 30, axis=0).astype(np.uint8)
    labels = np.repeat([0, 1], 30)
    rules = BoostingRules(max_iter=60, max_depth=2, learning_rate=1.0)
    growth = boosted(codes, labels, rules)
    assert 3 < growth.n_finished < 60
    expected = fitted(codes, labels, rules).decision_function(columns_of(codes))
    np.testing.assert_allclose(raw_of(growth, codes)[0], expected, rtol=1e-4)


def test_a_class_that_no_row_has_is_never_predicted():
    codes, labels = binned_rows(0, n_classes=3)
    growth = boosted(codes, labels, BoostingRules(max_iter=3, max_depth=3), n_classes=4)
    raw = raw_of(growth, codes)
    assert np.isfinite(raw).all()
    assert raw.argmax(axis=0).max() == 2
