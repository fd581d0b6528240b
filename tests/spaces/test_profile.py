# SPDX-License-Identifier: BSD-3-Clause
"""Profiles of good-enough spaces are those of other outputs too."""

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
    radii = AccuracyProfile(
        n_rows=4, score=1.0, radii=np.arange(4.0), may_lose=np.arange(5)
    )
    center = np.array([[1.0, -1.0, 0.0], [2.0, 1.0, -3.0]])
    metric = GramMetric(
        scatter=np.array([[2.0]]), mean=np.array([5.0]), output_weights=[1.0, 1.0, 0.2]
    )
    profile = SpaceProfile(
        center=center,
        scale=2.0,
        metric=metric,
        outputs=None,
        radii=radii,
        criterion=Accuracy(),
        construction="certified",
    )
    wide = profile.select_outputs(np.array([2, 0, 2, 1]))
    # The mean of (-3, 2, -3, 1) is -3/4, which goes.
    expected = [[0.0, 1.0, 0.0, -1.0], [-2.25, 2.75, -2.25, 1.75]]
    np.testing.assert_allclose(wide.center, expected)
    assert wide.metric.output_weights.tolist() == [0.2, 1.0, 0.2, 1.0]
    assert wide.metric.scatter is metric.scatter and wide.outputs is None
    assert wide.radii is radii and wide.scale == 2.0
    unchanged = profile.select_outputs(np.arange(3))
    np.testing.assert_array_equal(unchanged.center, center)
    uncentred = replace(profile, center=center + 10.0).select_outputs(
        np.array([2, 0, 2, 1])
    )
    np.testing.assert_allclose(uncentred.center, np.array(expected) + 10.0)


def test_outputs_about_which_a_node_says_nothing_by_hand():
    radii = AccuracyProfile(
        n_rows=4, score=1.0, radii=np.arange(4.0), may_lose=np.arange(5)
    )
    center = np.array([[1.0, -1.0], [2.0, 1.0]])
    metric = DiagonalMetric(np.array([[1.0, 2.0], [3.0, 4.0]]))
    profile = SpaceProfile(
        center=center,
        scale=1.0,
        metric=metric,
        outputs=np.ones(2, dtype=bool),
        radii=radii,
        criterion=Accuracy(),
        construction="sampled",
    )
    assert not profile.last_is_free
    wide = profile.select_outputs(np.array([1, -1, 0]))
    assert wide.center.tolist() == [[-1.0, 0.0, 1.0], [1.0, 0.0, 2.0]]
    assert wide.metric.precision.tolist() == [[2.0, 0.0, 1.0], [4.0, 0.0, 3.0]]
    assert wide.outputs.tolist() == [True, False, True]
    assert profile.select_outputs(np.array([1, 0, -1])).last_is_free
    assert not wide.last_is_free
    # A constrained output that is not compared is not free.
    gram = GramMetric(scatter=np.array([[2.0]]), mean=np.array([5.0]))
    silent = replace(profile, metric=gram, outputs=np.array([True, False]))
    assert not silent.last_is_free
    assert silent.select_outputs(np.array([1, 0, 1])).outputs.tolist() == [
        False,
        True,
        False,
    ]
