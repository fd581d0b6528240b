# SPDX-License-Identifier: BSD-3-Clause
"""The loss that a node sends: by class, weighted, and the share of its gradient."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.moments import NodeLoss, class_moments, share_of_gradient


def node_loss_of(gradient, slope=None):
    """The loss of a node of 60 rows; 90 rows of all nodes have its model."""
    rng = np.random.default_rng(0)
    moments = class_moments(rng.standard_normal((60, 3)), np.arange(60) % 3)
    W = rng.standard_normal((4, 3))
    return NodeLoss(
        moments=moments,
        columns=np.arange(3),
        W=W,
        gradient=gradient,
        slope=slope,
        n_alike=90.0,
    )


def test_gradients_by_class_are_summed_with_the_weights_of_classes():
    by_class = np.random.default_rng(1).standard_normal((3, 4, 3))
    node = node_loss_of(by_class, 2.0 * by_class)
    assert node.is_by_class
    plain = node.sum_classes(None)
    assert not plain.is_by_class
    np.testing.assert_allclose(plain.gradient, by_class.sum(axis=0))
    weights = np.array([1.0, 0.0, 2.0])
    weighted = node.sum_classes(weights)
    expected = by_class[0] + 2.0 * by_class[2]
    np.testing.assert_allclose(weighted.gradient, expected)
    np.testing.assert_allclose(weighted.slope, 2.0 * expected)
    # A gradient that is summed already stays as it is.
    assert plain.sum_classes(weights).gradient is plain.gradient


def test_a_weight_multiplies_rows_and_gradients_but_not_the_model():
    gradient = np.random.default_rng(1).standard_normal((4, 3))
    node = node_loss_of(gradient)
    twice = node.weighted(2.0)
    assert twice.moments.n_rows == 120.0
    assert twice.n_alike == 180.0
    assert twice.W is node.W
    assert twice.slope is None
    np.testing.assert_array_equal(twice.gradient, 2.0 * gradient)


def test_the_share_grows_with_the_rows_and_falls_with_the_weights_of_a_model():
    # n / (n + d C), where d is 2 if variances are all that is known.
    assert share_of_gradient(100.0, 25, 4, diagonal=False) == 0.5
    assert share_of_gradient(100.0, 25, 4, diagonal=True) == pytest.approx(100 / 108)
    assert share_of_gradient(0.0, 25, 4, diagonal=False) == 0.0
