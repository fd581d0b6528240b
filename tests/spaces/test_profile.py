# SPDX-License-Identifier: BSD-3-Clause
"""Profiles of good-enough spaces for outputs of which a node says nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skgems.spaces import (
    Accuracy,
    AccuracyProfile,
    DiagonalMetric,
    GramMetric,
    SpaceProfile,
)


def test_outputs_are_copied_by_hand():
    radii = AccuracyProfile(4, 1.0, np.arange(4.0), np.arange(5))
    center = np.array([[1.0, -1.0, 0.0], [2.0, 1.0, -3.0]])
    metric = GramMetric(np.array([[2.0]]), np.array([5.0]), np.array([1.0, 1.0, 0.2]))
    own = SpaceProfile(center, 2.0, metric, None, radii, Accuracy(), "certified")
    wide = own.of_outputs(np.array([2, 0, 2, 1]))
    # The mean of (-3, 2, -3, 1) is -3/4, which goes.
    expected = [[0.0, 1.0, 0.0, -1.0], [-2.25, 2.75, -2.25, 1.75]]
    np.testing.assert_allclose(wide.center, expected)
    assert wide.metric.output_weights.tolist() == [0.2, 1.0, 0.2, 1.0]
    assert wide.metric.scatter is metric.scatter and wide.outputs is None
    assert wide.radii is radii and wide.scale == 2.0
    same = own.of_outputs(np.arange(3))
    np.testing.assert_array_equal(same.center, center)
    uncentred = replace(own, center=center + 10.0).of_outputs(np.array([2, 0, 2, 1]))
    np.testing.assert_allclose(uncentred.center, np.array(expected) + 10.0)


def test_outputs_of_which_nothing_is_said_by_hand():
    radii = AccuracyProfile(4, 1.0, np.arange(4.0), np.arange(5))
    center = np.array([[1.0, -1.0], [2.0, 1.0]])
    metric = DiagonalMetric(np.array([[1.0, 2.0], [3.0, 4.0]]))
    known = np.ones(2, dtype=bool)
    own = SpaceProfile(center, 1.0, metric, known, radii, Accuracy(), "sampled")
    assert not own.last_is_free
    wide = own.of_outputs(np.array([1, -1, 0]))
    assert wide.center.tolist() == [[-1.0, 0.0, 1.0], [1.0, 0.0, 2.0]]
    assert wide.metric.precision.tolist() == [[2.0, 0.0, 1.0], [4.0, 0.0, 3.0]]
    assert wide.outputs.tolist() == [True, False, True]
    assert own.of_outputs(np.array([1, 0, -1])).last_is_free
    assert not wide.last_is_free
    # A constrained output that is not compared is not free.
    gram = GramMetric(np.array([[2.0]]), np.array([5.0]))
    silent = replace(own, metric=gram, outputs=np.array([True, False]))
    assert not silent.last_is_free
    assert silent.of_outputs(np.array([1, 0, 1])).outputs.tolist() == [
        False,
        True,
        False,
    ]
