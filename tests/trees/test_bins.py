# SPDX-License-Identifier: BSD-3-Clause
"""Bins are those that scikit-learn's thresholds at their edges part."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.trees import N_BINS, bin_codes, upper_edges


def test_an_edge_is_the_last_value_of_its_bin():
    edges = upper_edges()
    np.testing.assert_array_equal(bin_codes(edges[:, None])[:, 0], np.arange(N_BINS))
    above = np.nextafter(edges[:-1].astype(np.float32), np.float32(2))
    np.testing.assert_array_equal(bin_codes(above[:, None])[:, 0], np.arange(1, N_BINS))


@pytest.mark.parametrize("value", [-1.0, 0.0, 1e-9, 1.0, 7.0, np.inf, -np.inf])
def test_values_outside_are_in_the_first_or_the_last_bin(value):
    assert bin_codes(np.array([[value]]))[0, 0] == (0 if value < 0.5 else N_BINS - 1)


def test_missing_values_have_a_bin_of_their_own():
    codes = bin_codes(np.array([[np.nan, 0.5]]))
    assert codes.tolist() == [[N_BINS, N_BINS // 2 - 1]]
    assert codes.dtype == np.uint8


def test_values_are_compared_in_float32():
    """As scikit-learn's trees do: a value a little above an edge is at the edge."""
    assert bin_codes(np.array([[0.5 + 1e-12]]))[0, 0] == N_BINS // 2 - 1
