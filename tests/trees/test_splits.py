# SPDX-License-Identifier: BSD-3-Clause
"""The best splits of histograms, against all candidates in exact numbers."""

from __future__ import annotations

from fractions import Fraction
from math import log2

import numpy as np
import pytest

import skgems.trees._splits
from skgems.trees import CRITERIA, N_BINS
from skgems.trees._splits import best_splits


def random_histograms(seed, *, n_leaves=6, n_drawn=3, n_classes=3, has_missing=True):
    """Histograms of leaves in which few bins have rows, of equal rows per feature."""
    rng = np.random.default_rng(seed)
    shape = (n_leaves, n_drawn, N_BINS + 1, n_classes)
    histograms = np.zeros(shape, dtype=np.int64)
    for leaf in range(n_leaves):
        labels = rng.integers(0, n_classes, rng.integers(2, 40))
        for drawn in range(n_drawn):
            bins = rng.choice(N_BINS + has_missing, 6)
            codes = rng.choice(bins, len(labels))
            np.add.at(histograms[leaf, drawn], (codes, labels), 1)
    return histograms


def gini_score(counts):
    """The number of rows times the probability that two rows are of one class."""
    total = sum(counts)
    return sum(count**2 for count in counts) / total


def entropy_score(counts):
    total = sum(counts)
    return sum(float(n) * log2(n / total) for n in counts if n)


SCORES = {"gini": gini_score, "entropy": entropy_score, "log_loss": entropy_score}


def candidates_of(histogram, *, score, class_weights, min_samples_leaf):
    """All splits of a leaf: their gains, feature, bin, missing_left and left counts.

    Where no value is missing, those that come later go to the side of more rows.
    ``histogram`` is (n_drawn, N_BINS + 1, n_classes).
    """

    def gain_of(sides):
        weighted = [
            [int(n) * Fraction(w) for n, w in zip(side, class_weights, strict=True)]
            for side in sides
        ]
        whole = [a + b for a, b in zip(*weighted, strict=True)]
        return score(weighted[0]) + score(weighted[1]) - score(whole)

    for drawn, bin, missing_left in np.ndindex(len(histogram), N_BINS, 2):
        left = histogram[drawn, : bin + 1].sum(axis=0)
        left = left + missing_left * histogram[drawn, -1]
        right = histogram[drawn].sum(axis=0) - left
        if not histogram[drawn, -1].any():
            missing_left = left.sum() > right.sum()
        if min(left.sum(), right.sum()) >= max(min_samples_leaf, 1):
            yield gain_of([left, right]), drawn, bin, bool(missing_left), left.tolist()


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("has_missing", [False, True])
@pytest.mark.parametrize("min_samples_leaf", [1, 5])
@pytest.mark.parametrize("class_weights", [[1, 1, 1], [0.5, 3, 1.25]])
def test_the_best_split_is_best_of_all(
    criterion, *, has_missing, min_samples_leaf, class_weights
):
    histograms = random_histograms(0, has_missing=has_missing)
    splits = best_splits(
        histograms,
        criterion=criterion,
        class_weights=np.array(class_weights),
        min_samples_leaf=min_samples_leaf,
    )
    assert splits.is_valid.any()
    for leaf, histogram in enumerate(histograms):
        candidates = list(
            candidates_of(
                histogram,
                score=SCORES[criterion],
                class_weights=class_weights,
                min_samples_leaf=min_samples_leaf,
            )
        )
        assert splits.is_valid[leaf] == bool(candidates)
        if not candidates:
            continue
        best_gain = max(gain for gain, *_ in candidates)
        assert splits.gain[leaf] == pytest.approx(float(best_gain), abs=1e-9)
        chosen = (
            splits.drawn[leaf],
            splits.bin[leaf],
            splits.missing_left[leaf],
            splits.left_counts[leaf].tolist(),
        )
        tied = [split for gain, *split in candidates if float(best_gain - gain) < 1e-9]
        assert list(chosen) in tied
        # Of those that part the same counts, whose scores are the same numbers, the
        # first: of the lowest feature, then bin, with missing values on the right.
        assert list(chosen) == next(s for s in tied if s[-1] == chosen[-1])
        whole = histogram[0].sum(axis=0)
        np.testing.assert_array_equal(
            splits.right_counts[leaf], whole - splits.left_counts[leaf]
        )


@pytest.mark.parametrize("draws_bins", [False, True])
def test_leaves_that_are_looked_at_together_do_not_matter(monkeypatch, draws_bins):
    histograms = random_histograms(1, n_leaves=7)
    sizes = []

    def splits() -> dict:
        rng = np.random.RandomState(0) if draws_bins else None
        return vars(
            best_splits(
                histograms,
                criterion="gini",
                class_weights=np.ones(3),
                min_samples_leaf=1,
                rng=rng,
            )
        )

    def note_size(histograms, **arguments):
        sizes.append(len(histograms))
        return best_of_block(histograms, **arguments)

    best_of_block = skgems.trees._splits._best_of_block
    monkeypatch.setattr(skgems.trees._splits, "_best_of_block", note_size)
    together = splits()
    monkeypatch.setattr(skgems.trees._splits, "NUMBERS_AT_ONCE", 2 * histograms[0].size)
    apart = splits()
    assert sizes == [7, 2, 2, 2, 1]
    for name, array in together.items():
        np.testing.assert_array_equal(apart[name], array, name)


def test_no_leaves_have_no_splits():
    splits = best_splits(
        random_histograms(0)[:0],
        criterion="gini",
        class_weights=np.ones(3),
        min_samples_leaf=1,
    )
    assert splits.is_valid.shape == (0,)
    assert splits.left_counts.shape == (0, 3)


@pytest.mark.parametrize("has_missing", [False, True])
def test_leaves_without_any_row_with_a_value_have_no_splits(has_missing):
    """As where counts of small leaves are rounded to zero."""
    histograms = np.zeros((2, 3, N_BINS + 1, 2), dtype=np.int64)
    histograms[:, :, N_BINS] = 10 * has_missing
    splits = best_splits(
        histograms, criterion="gini", class_weights=np.ones(2), min_samples_leaf=1
    )
    assert not splits.is_valid.any()
    assert splits.is_constant.all()
    assert splits.left_counts.shape == splits.right_counts.shape == (2, 2)


def test_features_with_one_bin_are_constant():
    histograms = np.zeros((1, 4, N_BINS + 1, 2), dtype=np.int64)
    histograms[0, 0, 3] = [2, 2]
    histograms[0, 1, 3] = histograms[0, 1, 4] = [1, 1]
    histograms[0, 2, N_BINS] = [2, 2]  # all are missing
    histograms[0, 3, 3] = histograms[0, 3, N_BINS] = [1, 1]
    splits = best_splits(
        histograms, criterion="gini", class_weights=np.ones(2), min_samples_leaf=1
    )
    assert splits.is_constant.tolist() == [[True, False, True, False]]


def test_extremely_randomized_bins_lie_within_the_occupied_ones():
    """Any from the first to that before the last one is drawn, if it is empty too."""
    histograms = np.zeros((400, 1, N_BINS + 1, 2), dtype=np.int64)
    histograms[:, 0, 4] = [3, 0]
    histograms[:, 0, 9] = [0, 3]
    histograms[:, 0, N_BINS] = [1, 0]
    splits = best_splits(
        histograms,
        criterion="gini",
        class_weights=np.ones(2),
        min_samples_leaf=1,
        rng=np.random.RandomState(0),
    )
    assert splits.is_valid.all()
    assert set(splits.bin) == {4, 5, 6, 7, 8}
    assert splits.missing_left.all()  # the side that has its class
    assert splits.left_counts.tolist() == [[4, 0]] * 400


def test_extremely_randomized_trees_draw_a_bin_for_each_feature():
    """The best of the features is taken, at the bin that was drawn for it."""
    histograms = np.zeros((300, 2, N_BINS + 1, 2), dtype=np.int64)
    for feature, (first, last) in enumerate([(0, 4), (10, 20)]):
        histograms[:, feature, first] = [3 - feature, feature]
        histograms[:, feature, last] = [feature, 3 - feature]
    splits = best_splits(
        histograms,
        criterion="gini",
        class_weights=np.ones(2),
        min_samples_leaf=1,
        rng=np.random.RandomState(0),
    )
    assert set(splits.drawn) == {0}
    assert set(splits.bin) == {0, 1, 2, 3}
