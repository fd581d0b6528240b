# SPDX-License-Identifier: BSD-3-Clause
"""A matrix sums rows by label."""

from __future__ import annotations

import numpy as np

from skgems.disclosure import indicator


def test_rows_are_summed_by_label_with_their_values():
    X = np.arange(8.0).reshape(4, 2)
    labels = np.array([2, 0, 2, 0])
    np.testing.assert_array_equal(
        indicator(labels, 3) @ X, [[8.0, 10.0], [0.0, 0.0], [4.0, 6.0]]
    )
    values = np.array([1.0, 2.0, 0.5, 0.0])
    np.testing.assert_array_equal(
        indicator(labels, 3, values) @ X, [[4.0, 6.0], [0.0, 0.0], [2.0, 3.5]]
    )
