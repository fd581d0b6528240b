# SPDX-License-Identifier: BSD-3-Clause
"""Bins are those that scikit-learn's thresholds at their edges part."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from skgems.trees import N_BINS, bin_codes, upper_edges

MIDDLE = N_BINS // 2 - 1  # the bin whose upper edge is at the mean


def test_an_edge_is_the_last_value_of_its_bin():
    # Values are rounded to float32: the neighbours of an edge there lie on either side.
    edges = upper_edges()[:-1]
    below = edges.astype(np.float32)
    below = np.where(below > edges, np.nextafter(below, np.float32(-np.inf)), below)
    above = np.nextafter(below, np.float32(np.inf))
    np.testing.assert_array_equal(bin_codes(below[:, None])[:, 0], range(N_BINS - 1))
    np.testing.assert_array_equal(bin_codes(above[:, None])[:, 0], range(1, N_BINS))


def test_the_last_bin_has_no_edge():
    edges = upper_edges()
    assert len(edges) == N_BINS
    assert edges[-1] == np.inf
    assert (np.diff(edges) > 0).all()


def test_bins_are_narrow_about_the_mean_and_wide_far_from_it():
    edges = upper_edges()[:-1]
    np.testing.assert_allclose(edges, -edges[::-1], rtol=1e-12)
    assert edges[MIDDLE] == 0
    np.testing.assert_allclose(edges[[0, -1]], [-10.0, 10.0], atol=0.02)
    widths = np.diff(edges)
    assert (np.diff(widths[MIDDLE:]) > 0).all()
    np.testing.assert_allclose(widths[[MIDDLE, -1]], [0.1, 1.0], rtol=0.1)


@pytest.mark.parametrize("size", [10.1, 70.0, 1e30, np.inf])
def test_values_outside_are_in_the_first_or_the_last_bin(size):
    codes = bin_codes(np.array([[-size, size]]))
    assert codes.tolist() == [[0, N_BINS - 1]]


@pytest.mark.parametrize(("value", "bin"), [(0.0, 0), (-0.0, 0), (1e-9, 1), (-1e-9, 0)])
def test_the_mean_is_the_last_value_of_the_middle_bin(value, bin):
    assert bin_codes(np.array([[value]]))[0, 0] == MIDDLE + bin


def test_missing_values_have_a_bin_of_their_own():
    codes = bin_codes(np.array([[np.nan, 0.0]]))
    assert codes.tolist() == [[N_BINS, MIDDLE]]
    assert codes.dtype == np.uint8


def test_values_are_compared_in_float32():
    """As scikit-learn's trees do: a value a little above an edge is below it there."""
    edges = upper_edges()[:-1]
    slightly_above = np.nextafter(edges, np.inf)
    is_rounded_down = slightly_above.astype(np.float32) <= edges
    assert set(is_rounded_down) == {False, True}
    codes = bin_codes(slightly_above[:, None])[:, 0]
    np.testing.assert_array_equal(codes, np.arange(N_BINS - 1) + ~is_rounded_down)
    tree = DecisionTreeClassifier(max_depth=1)
    for edge, above, is_below in zip(
        edges, slightly_above, is_rounded_down, strict=True
    ):
        tree.fit([[edge - 1], [edge + 1]], [0, 1])
        tree.tree_.threshold[0] = edge
        assert tree.predict([[above]])[0] == (0 if is_below else 1)
