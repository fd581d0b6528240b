# SPDX-License-Identifier: BSD-3-Clause
"""Calibration slopes and intercepts, of rows and of what nodes tell."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from skgems.evaluation._calibration import (
    ScoredRows,
    calibration,
    pooled_calibration,
)


def rows_of(scores, is_positive):
    return ScoredRows(
        scores=scores, n_positive=is_positive * 1.0, n_negative=~is_positive * 1.0
    )


def scored(n_rows, *, slope=1.0, intercept=0.0, seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n_rows) * 1.5
    return scores, rng.random(n_rows) < expit(intercept + slope * scores)


def test_the_slope_is_that_of_a_logistic_regression():
    scores, is_positive = scored(400, slope=0.6, intercept=0.5)
    fitted = calibration(rows_of(scores, is_positive))
    reference = LogisticRegression(C=1e10, tol=1e-10).fit(scores[:, None], is_positive)
    assert fitted.slope == pytest.approx(reference.coef_[0, 0], rel=1e-4)
    expected = expit(fitted.intercept + scores).sum()
    assert expected == pytest.approx(is_positive.sum())


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_scores_that_part_the_classes_have_no_slope(sign):
    scores = np.arange(10.0) - 4.5
    fitted = calibration(rows_of(sign * scores, scores > 0))
    assert np.isnan([fitted.slope, fitted.intercept]).all()
    alone = calibration(rows_of(scores, np.ones(10, dtype=bool)))
    assert np.isnan(alone.slope)


def test_equal_scores_have_an_intercept_alone():
    fitted = calibration(rows_of(np.zeros(4), np.arange(4) < 1))
    assert np.isnan(fitted.slope)


def test_a_row_far_out_is_most_of_a_slope():
    scores, is_positive = scored(60)
    middle = calibration(rows_of(scores / 100, is_positive)).leverage
    far = calibration(
        rows_of(np.append(scores / 100, 1.0), np.append(is_positive, False))
    )
    assert middle < 0.3 < far.leverage
    # Rows of a patient count together.
    units = np.minimum(np.arange(60), 20)
    assert calibration(rows_of(scores, is_positive), units=units).leverage > 0.5


def test_all_nodes_have_the_slope_of_all_rows_though_bins_are_coarse():
    """Bins that are a shift away hardly matter, since sums follow what is told."""
    grid = np.linspace(-4.0, 4.0, 9)
    parts = []
    all_scores = []
    all_positive = []
    for seed, intercept in enumerate((0.3, -0.4, 0.1)):
        scores, is_positive = scored(600, slope=0.8, intercept=intercept, seed=seed)
        places = np.abs(scores[:, None] - grid).argmin(axis=1)
        all_scores.append(scores)
        all_positive.append(is_positive)
        told = calibration(rows_of(scores, is_positive))
        parts.append(
            ScoredRows(
                scores=grid + 0.1,
                n_positive=np.bincount(places[is_positive], minlength=9) * 1.0,
                n_negative=np.bincount(places[~is_positive], minlength=9) * 1.0,
                told=told,
            )
        )
    pooled = pooled_calibration(parts)
    reference = calibration(
        rows_of(np.concatenate(all_scores), np.concatenate(all_positive))
    )
    assert pooled.slope == pytest.approx(reference.slope, abs=0.02)
    assert pooled.intercept == pytest.approx(reference.intercept, abs=0.05)


def test_nodes_that_tell_no_slope_leave_none_if_they_have_most_rows():
    scores, is_positive = scored(100)
    known = rows_of(scores, is_positive)
    known = ScoredRows(
        scores=scores,
        n_positive=known.n_positive,
        n_negative=known.n_negative,
        told=calibration(known),
    )
    unknown = rows_of(scores, is_positive)
    assert not np.isnan(pooled_calibration([known, unknown]).slope)
    assert np.isnan(pooled_calibration([known, unknown, unknown]).slope)
    assert np.isnan(pooled_calibration([unknown]).slope)
