# SPDX-License-Identifier: BSD-3-Clause
"""The best splits of gradients, against all candidates in exact numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import skgems.trees._splits
from skgems.trees import N_BINS, SCALE
from skgems.trees._gradient_splits import (
    LEAST_HESSIAN,
    best_gradient_splits,
    leaf_losses,
    leaf_values,
)


def random_histograms(seed, *, n_leaves=5, n_features=3, has_missing=True, size=1.0):
    """Histograms of rows with random gradients; hessians are of the given size."""
    rng = np.random.default_rng(seed)
    shape = (n_leaves, n_features, N_BINS + 1, 3)
    histograms = np.zeros(shape, dtype=np.int64)
    for leaf in range(n_leaves):
        n_rows = rng.integers(2, 40)
        gradients = np.rint(rng.uniform(-1, 1, n_rows) * SCALE)
        hessians = np.rint(size * rng.uniform(0, 0.25, n_rows) * SCALE)
        rows = np.stack([gradients, hessians, np.ones(n_rows)], axis=1).astype(int)
        for feature in range(n_features):
            bins = rng.choice(N_BINS + has_missing, 6)
            np.add.at(histograms[leaf, feature], rng.choice(bins, n_rows), rows)
    return histograms


def candidates_of(histogram, *, loss, l2_regularization, min_samples_leaf):
    """All splits of a leaf: gain, feature, bin, missing_left and left sums.

    ``histogram`` is (n_features, N_BINS + 1, 3).
    """

    def loss_of(sums):
        gradient, hessian = (Fraction(int(number), SCALE) for number in sums[:2])
        return -(gradient**2) / (hessian + Fraction(l2_regularization))

    for feature, bin, missing_left in np.ndindex(len(histogram), N_BINS, 2):
        left = histogram[feature, : bin + 1].sum(axis=0)
        left = left + missing_left * histogram[feature, -1]
        right = histogram[feature].sum(axis=0) - left
        has_rows = min(left[2], right[2]) >= max(min_samples_leaf, 1)
        if has_rows and min(left[1], right[1]) >= 1e-3 * SCALE:
            gain = Fraction(loss) - loss_of(left) - loss_of(right)
            yield gain, feature, bin, bool(missing_left), left.tolist()


@pytest.mark.parametrize("has_missing", [False, True])
@pytest.mark.parametrize("min_samples_leaf", [1, 5])
@pytest.mark.parametrize("l2_regularization", [0.0, 2.5])
@pytest.mark.parametrize("size", [1.0, 1e-3], ids=["unsure", "sure"])
def test_the_best_split_is_best_of_all(
    *, has_missing, min_samples_leaf, l2_regularization, size
):
    histograms = random_histograms(0, has_missing=has_missing, size=size)
    losses = leaf_losses(histograms[:, 0].sum(axis=1), l2_regularization)
    splits = best_gradient_splits(
        histograms,
        losses=losses,
        l2_regularization=l2_regularization,
        min_samples_leaf=min_samples_leaf,
        has_missing=np.full(3, fill_value=True),
    )
    for leaf, histogram in enumerate(histograms):
        candidates = list(
            candidates_of(
                histogram,
                loss=losses[leaf],
                l2_regularization=l2_regularization,
                min_samples_leaf=min_samples_leaf,
            )
        )
        best_gain = max((gain for gain, *_ in candidates), default=-1)
        assert splits.is_valid[leaf] == (best_gain > 0)
        if not splits.is_valid[leaf]:
            continue
        chosen = [
            splits.feature[leaf],
            splits.bin[leaf],
            splits.missing_left[leaf],
            splits.left_sums[leaf].tolist(),
        ]
        tied = [
            split
            for gain, *split in candidates
            if best_gain - gain < 1e-9 * max(1, abs(best_gain))
        ]
        assert chosen == next(split for split in tied if split[-1] == chosen[-1])
        np.testing.assert_array_equal(
            splits.left_sums[leaf] + splits.right_sums[leaf], histogram[0].sum(axis=0)
        )
    assert splits.is_valid.any()


def histogram_of_two_bins(left, right):
    """One leaf and feature; sums of gradients and hessians are no whole numbers yet."""
    histograms = np.zeros((1, 1, N_BINS + 1, 3), dtype=np.int64)
    for bin, (gradient, hessian, n_rows) in ((3, left), (8, right)):
        histograms[0, 0, bin] = [gradient * SCALE, hessian, n_rows]
    return histograms


def split_of_two_bins(left, right, **changed):
    arguments = {
        "losses": np.zeros(1),
        "l2_regularization": 0.0,
        "min_samples_leaf": 1,
        "has_missing": np.array([False]),
    }
    return best_gradient_splits(
        histogram_of_two_bins(left, right), **(arguments | changed)
    )


@pytest.mark.parametrize("is_left", [True, False])
@pytest.mark.parametrize("lacking", [0, 1])
def test_both_sides_have_the_least_hessian(is_left, lacking):
    sides = [(2, LEAST_HESSIAN - lacking, 30), (-2, SCALE, 30)]
    splits = split_of_two_bins(*(sides if is_left else sides[::-1]))
    assert splits.is_valid[0] == (lacking == 0)
    assert pytest.approx(1e-3, rel=1e-5) == LEAST_HESSIAN / SCALE
    assert LEAST_HESSIAN / SCALE >= 1e-3


def test_equal_sides_gain_nothing():
    """But at a root, the value of which is 0 whatever its gradients are."""
    side = (2, SCALE, 30)
    whole = leaf_losses(np.array([4 * SCALE, 2 * SCALE, 60]), 0.0)
    assert not split_of_two_bins(side, side, losses=whole[None]).is_valid[0]
    assert split_of_two_bins(side, side).is_valid[0]


@pytest.mark.parametrize(("n_left", "n_right"), [(30, 20), (20, 30), (20, 20)])
def test_without_missing_values_these_will_go_to_the_side_of_more_rows(n_left, n_right):
    sides = (2, SCALE, n_left), (-2, SCALE, n_right)
    assert split_of_two_bins(*sides).missing_left[0] == (n_left > n_right)
    elsewhere = split_of_two_bins(*sides, has_missing=np.array([True]))
    assert not elsewhere.missing_left[0]


def test_values_are_newtons_steps():
    sums = np.array([[3 * SCALE, 2 * SCALE, 9], [-SCALE, SCALE, 4]])
    np.testing.assert_allclose(leaf_values(sums, 0.0), [-1.5, 1.0], rtol=1e-12)
    np.testing.assert_allclose(leaf_values(sums, 1.0), [-1.0, 0.5], rtol=1e-12)
    np.testing.assert_allclose(leaf_losses(sums, 1.0), [-3.0, -0.5], rtol=1e-12)


def test_leaves_that_are_looked_at_together_do_not_matter(monkeypatch):
    histograms = random_histograms(1, n_leaves=7)
    arguments = {
        "losses": np.array([0.0, -1e9, 0.0, 0.0, 0.0, -1e9, 0.0]),
        "l2_regularization": 1.0,
        "min_samples_leaf": 1,
        "has_missing": np.full(3, fill_value=True),
    }
    together = vars(best_gradient_splits(histograms, **arguments))
    monkeypatch.setattr(skgems.trees._splits, "NUMBERS_AT_ONCE", 2 * histograms[0].size)
    apart = vars(best_gradient_splits(histograms, **arguments))
    assert np.flatnonzero(~together["is_valid"]).tolist() == [1, 5]
    for name, array in together.items():
        np.testing.assert_array_equal(apart[name], array, name)


def test_no_leaves_have_no_splits():
    splits = best_gradient_splits(
        random_histograms(0)[:0],
        losses=np.zeros(0),
        l2_regularization=0.0,
        min_samples_leaf=1,
        has_missing=np.full(3, fill_value=True),
    )
    assert splits.is_valid.shape == (0,)
