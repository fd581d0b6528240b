# SPDX-License-Identifier: BSD-3-Clause
"""Counts of scores in bins, and the curves that they draw."""

from __future__ import annotations

import numpy as np
from scipy.special import expit
from sklearn.metrics import roc_curve

from skgems.evaluation import EDGES, ScoreBins


def bins_of(scores, is_positive):
    """Count rows in bins, each score being a log-odds."""
    places = np.searchsorted(EDGES, scores, side="right")
    return ScoreBins(
        positives=np.bincount(places[is_positive], minlength=len(EDGES) + 1),
        negatives=np.bincount(places[~is_positive], minlength=len(EDGES) + 1),
    )


def test_points_of_the_roc_curve_are_those_of_the_rows():
    rng = np.random.default_rng(0)
    is_positive = rng.random(300) < 0.4
    scores = rng.normal(size=300) + is_positive
    fpr, tpr, thresholds = bins_of(scores, is_positive).roc_curve()
    for k, threshold in enumerate(thresholds):
        taken = expit(scores) >= threshold
        assert tpr[k] == taken[is_positive].mean()
        assert fpr[k] == taken[~is_positive].mean()
    of_rows, _, _ = roc_curve(is_positive, scores)
    assert (fpr[0], fpr[-1]) == (of_rows[0], of_rows[-1])


def test_points_of_the_calibration_curve_are_shares_in_bins():
    bins = bins_of(np.array([-2.1, -2.1, 0.1, 0.1, 0.1]), np.arange(5) > 1)
    prob_true, prob_pred, n_rows = bins.calibration_curve()
    np.testing.assert_array_equal(prob_true, [0.0, 1.0])
    np.testing.assert_allclose(prob_pred, expit([-2.125, 0.125]))
    np.testing.assert_array_equal(n_rows, [2, 3])


def test_rates_without_rows_of_a_class_are_unknown():
    fpr, tpr, _ = bins_of(np.zeros(3), np.ones(3, dtype=bool)).roc_curve()
    assert np.isnan(fpr).all() and not np.isnan(tpr).any()
