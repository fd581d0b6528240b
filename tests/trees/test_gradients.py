# SPDX-License-Identifier: BSD-3-Clause
"""Gradients are those of scikit-learn's losses, and of a row the same bits anywhere."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.trees import binned_rows, boosted
from sklearn._loss import HalfBinomialLoss, HalfMultinomialLoss

from skgems.trees import SCALE, BoostingRules, leaves_of, raw_predictions
from skgems.trees._gradients import (
    baseline_of_counts,
    probabilities_of,
    scaled_gradients,
)

RNG = np.random.default_rng(0)
SPREADS = {"small": 1.0, "large": 20.0, "extreme": 1000.0}


def loss_of(n_classes):
    if n_classes == 2:
        return HalfBinomialLoss()
    return HalfMultinomialLoss(n_classes=n_classes)


@pytest.mark.parametrize("n_classes", [2, 3, 11])
@pytest.mark.parametrize("spread", SPREADS.values(), ids=SPREADS)
def test_gradients_are_those_of_the_loss_rounded(n_classes, spread):
    raw = spread * RNG.standard_normal((1 if n_classes == 2 else n_classes, 400))
    labels = RNG.integers(0, n_classes, 400)
    gradients, hessians = scaled_gradients(raw, labels)
    expected_gradients, expected_hessians = loss_of(n_classes).gradient_hessian(
        labels.astype(float), np.squeeze(raw.T)
    )
    for scaled, expected in (
        (gradients, expected_gradients),
        (hessians, expected_hessians),
    ):
        np.testing.assert_array_equal(scaled, np.rint(scaled))
        np.testing.assert_allclose(
            scaled / SCALE, np.reshape(expected.T, raw.shape), rtol=0, atol=0.51 / SCALE
        )
    assert np.abs(gradients).max() <= SCALE
    assert hessians.min() >= 0


@pytest.mark.parametrize("n_classes", [2, 3, 11])
def test_a_row_has_the_same_gradients_to_the_bit_beside_any_others(n_classes):
    raw = RNG.standard_normal((1 if n_classes == 2 else n_classes, 403))
    labels = RNG.integers(0, n_classes, 403)
    whole = np.stack(scaled_gradients(raw, labels))
    probabilities = probabilities_of(raw)
    for n_rows in (1, 2, 7, 100):
        parts = [
            scaled_gradients(raw[:, first : first + n_rows], labels[first:][:n_rows])
            for first in range(0, 403, n_rows)
        ]
        np.testing.assert_array_equal(np.concatenate(parts, axis=2), whole)
        parts = [
            probabilities_of(raw[:, first : first + n_rows])
            for first in range(0, 403, n_rows)
        ]
        np.testing.assert_array_equal(np.concatenate(parts, axis=1), probabilities)


@pytest.mark.parametrize(
    "class_counts", [[30, 70], [1, 999], [5, 0], [0, 5], [20, 50, 30], [0, 1, 9, 0]]
)
def test_the_baseline_is_that_of_scikit_learn(class_counts):
    labels = np.repeat(np.arange(len(class_counts)), class_counts).astype(float)
    expected = loss_of(len(class_counts)).fit_intercept_only(labels)
    np.testing.assert_allclose(
        baseline_of_counts(np.array(class_counts)), np.atleast_1d(expected), rtol=1e-12
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_raw_predictions_are_sums_of_values_in_the_order_of_the_trees(n_classes):
    codes, labels = binned_rows(0, n_classes=n_classes, missing=0.1)
    growth = boosted(codes, labels, BoostingRules(max_iter=4, max_depth=3))
    raw = raw_predictions(codes, growth.forest, growth.values, growth.baseline)
    leaves = leaves_of(codes, growth.forest)
    n_outputs = len(growth.baseline)
    assert raw.shape == (n_outputs, 300)
    for output, row in np.ndindex(n_outputs, 300):
        total = growth.baseline[output]
        for tree in range(output, growth.forest.n_trees, n_outputs):
            total = total + growth.values[leaves[row, tree]]
        assert raw[output, row] == total
