# SPDX-License-Identifier: BSD-3-Clause
"""Sums of gradients are exact, whatever a node remembers of earlier messages."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.trees import answer_of, binned_rows, split_over_nodes

import skgems.trees._boosted_rows
from skgems.trees import (
    N_BINS,
    SCALE,
    Asked,
    BoostedGrowth,
    BoostedRows,
    BoostingRules,
    joined_histograms,
    leaves_of,
    raw_predictions,
)
from skgems.trees._boosted_rows import NUMBERS_IN_CACHE
from skgems.trees._gradients import scaled_gradients


def growth_of(codes, labels, *, n_messages, max_iter=4):
    """A growth of trees of depth 3 after some messages."""
    growth = BoostedGrowth(
        BoostingRules(max_iter=max_iter, max_depth=3),
        n_features=codes.shape[1],
        class_counts=np.bincount(labels),
    )
    rows = BoostedRows(codes, labels, n_classes=labels.max() + 1)
    for _ in range(n_messages):
        growth.take(answer_of(rows, growth))
    return growth


def summed_by_hand(codes, labels, growth):
    """One row after the other, in whole numbers of Python."""
    raw = raw_predictions(codes, growth.forest, growth.values, growth.baseline)
    gradients, hessians = scaled_gradients(raw, labels)
    leaves = leaves_of(codes, growth.forest)
    asked_leaves = growth.asked.leaves.tolist()
    shape = (len(asked_leaves), codes.shape[1], N_BINS + 1, 3)
    histograms = np.zeros(shape, dtype=object)
    for row, output in np.ndindex(len(codes), len(raw)):
        leaf = leaves[row, growth.n_finished + output]
        if leaf in asked_leaves:
            for feature, code in enumerate(codes[row]):
                sums = histograms[asked_leaves.index(leaf), feature, code]
                sums += np.array(
                    [int(gradients[output, row]), int(hessians[output, row]), 1],
                    dtype=object,
                )
    return histograms


@pytest.mark.parametrize("n_features", [1, 2, 5])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_messages", [0, 2, 3, 7])
@pytest.mark.parametrize("are_paired", [False, True])
def test_histograms_are_sums_over_rows(
    n_features, n_classes, n_messages, are_paired, monkeypatch
):
    monkeypatch.setattr(skgems.trees._boosted_rows, "NUMBERS_IN_CACHE", 64)
    monkeypatch.setattr(
        skgems.trees._boosted_rows._AskedRows, "are_paired", lambda _: are_paired
    )
    codes, labels = binned_rows(
        0, n_rows=200, n_features=n_features, n_classes=n_classes, missing=0.1
    )
    growth = growth_of(codes, labels, n_messages=n_messages)
    histograms = answer_of(BoostedRows(codes, labels, n_classes=n_classes), growth)
    assert histograms.dtype == np.int64
    expected = summed_by_hand(codes, labels, growth)
    assert expected[..., 2].sum() > 0
    np.testing.assert_array_equal(histograms, expected)


@pytest.mark.parametrize("sizes", [[100], [0, 1, 20], [1] * 30])
def test_histograms_add_up_over_nodes(sizes):
    codes, labels = binned_rows(0, n_classes=3, missing=0.1)
    growth = growth_of(codes, labels, n_messages=5)
    parts = [
        answer_of(BoostedRows(codes[rows], labels[rows], n_classes=3), growth)
        for rows in split_over_nodes(300, sizes)
    ]
    whole = answer_of(BoostedRows(codes, labels, n_classes=3), growth)
    np.testing.assert_array_equal(sum(parts), whole)


def test_sums_of_as_many_rows_as_are_summed_at_once_are_exact():
    assert NUMBERS_IN_CACHE * SCALE <= 2**53


def test_what_is_remembered_does_not_matter():
    """Nor whether messages were skipped, as by a node that was away."""
    codes, labels = binned_rows(0, n_classes=3)
    remembering = BoostedRows(codes, labels, n_classes=3)
    for n_messages in (0, 1, 4, 5, 11):
        growth = growth_of(codes, labels, n_messages=n_messages)
        forgetting = BoostedRows(codes, labels, n_classes=3)
        np.testing.assert_array_equal(
            answer_of(remembering, growth), answer_of(forgetting, growth)
        )


def test_a_message_may_be_answered_twice():
    codes, labels = binned_rows(0)
    growth = growth_of(codes, labels, n_messages=4)
    rows = BoostedRows(codes, labels, n_classes=2)
    np.testing.assert_array_equal(answer_of(rows, growth), answer_of(rows, growth))


def test_a_message_of_an_earlier_iteration_is_refused():
    codes, labels = binned_rows(0)
    rows = BoostedRows(codes, labels, n_classes=2)
    answer_of(rows, growth_of(codes, labels, n_messages=6))
    with pytest.raises(ValueError, match="2 trees were finished .* 1 in this one"):
        answer_of(rows, growth_of(codes, labels, n_messages=3))


def test_nothing_is_summed_where_nothing_is_asked():
    codes, labels = binned_rows(0)
    growth = growth_of(codes, labels, n_messages=1)
    growth.asked = Asked(
        leaves=np.zeros(0, np.int32), features=np.zeros((0, 4), np.int32)
    )
    rows = BoostedRows(codes, labels, n_classes=2)
    assert answer_of(rows, growth).shape == (0, 4, N_BINS + 1, 3)


# ---- joined bins ---------------------------------------------------------------------


def sums_of_few_rows(seed):
    """Histograms of a growth's leaves, of 0 to some 100 rows each."""
    codes, labels = binned_rows(seed, n_rows=600, missing=0.08)
    growth = growth_of(codes, labels, n_messages=2)
    histograms = answer_of(BoostedRows(codes, labels, n_classes=2), growth)
    assert len(histograms) > 1
    few = answer_of(BoostedRows(codes[:9], labels[:9], n_classes=2), growth)
    none = np.zeros_like(few)
    return np.concatenate([histograms, none, few])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("least", [2, 10, 40])
def test_a_bin_has_no_rows_or_at_least_so_many(seed, least):
    histograms = sums_of_few_rows(seed)
    joined = joined_histograms(histograms, least)
    n_rows = joined[..., 2]
    assert n_rows.any()
    assert ((n_rows == 0) | (n_rows >= least)).all()
    assert not joined[n_rows == 0].any()
    assert np.count_nonzero(n_rows) < np.count_nonzero(histograms[..., 2])


@pytest.mark.parametrize("least", [1, 2, 10, 40])
def test_joined_bins_have_all_rows_that_have_a_value(least):
    """Of each leaf and feature that has enough of them; else none."""
    histograms = sums_of_few_rows(0)
    joined = joined_histograms(histograms, least)
    totals = histograms[:, :, :N_BINS].sum(axis=2)
    is_enough = totals[..., 2:] >= least
    np.testing.assert_array_equal(
        joined[:, :, :N_BINS].sum(axis=2), np.where(is_enough, totals, 0)
    )
    missing = histograms[:, :, N_BINS]
    np.testing.assert_array_equal(
        joined[:, :, N_BINS], np.where(missing[..., 2:] >= least, missing, 0)
    )


@pytest.mark.parametrize("least", [2, 10])
def test_rows_wait_for_fewer_than_so_many_others(least):
    """Up to each edge: none too many, and fewer than so many too few.

    But the last bin that has rows, which takes what is left over.
    """
    histograms = sums_of_few_rows(0)
    up_to_edge = np.cumsum(histograms[:, :, :N_BINS, 2], axis=2)
    joined = joined_histograms(histograms, least)[:, :, :N_BINS, 2]
    has_rows_after = joined[:, :, ::-1].cumsum(axis=2)[:, :, ::-1] - joined > 0
    n_waiting = (up_to_edge - np.cumsum(joined, axis=2))[has_rows_after]
    assert len(n_waiting) > 100
    assert n_waiting.min() >= 0
    assert n_waiting.max() == least - 1


def test_bins_of_enough_rows_stay_as_they_are():
    histograms = sums_of_few_rows(0)
    np.testing.assert_array_equal(joined_histograms(histograms, 1), histograms)


def test_bins_are_joined_by_hand():
    histograms = np.zeros((1, 2, N_BINS + 1, 3), dtype=np.int64)
    for bin, sums in {
        2: [5, 1, 2],
        4: [-9, 2, 1],
        5: [1, 1, 4],
        8: [3, 3, 2],
        N_BINS: [7, 7, 2],
    }.items():
        histograms[0, 0, bin] = sums
    histograms[0, 1, N_BINS - 1] = [6, 6, 2]
    histograms[0, 1, N_BINS] = [-1, 1, 3]
    before = histograms.copy()
    joined = joined_histograms(histograms, 3)
    np.testing.assert_array_equal(histograms, before)
    of_bins = {
        (feature, bin): joined[0, feature, bin].tolist()
        for feature, bin in np.argwhere(joined[0, :, :, 2]).tolist()
    }
    assert of_bins == {
        (0, 4): [-4, 3, 3],
        (0, 5): [4, 4, 6],  # with what is left over
        (1, N_BINS): [-1, 1, 3],
    }
