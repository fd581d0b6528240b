# SPDX-License-Identifier: BSD-3-Clause
"""Parts are merged into fewer, without a change to the sums of classes."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.moments import class_moments, fewer_parts


def rows_and_moments(kind="class", n_rows=240):
    """Rows at two places a class, and their moments in parts of two rows."""
    rng = np.random.default_rng(0)
    y = np.sort(rng.choice(3, n_rows, p=[0.7, 0.28, 0.02]))
    centers = 20.0 * rng.standard_normal((6, 3))
    # The last feature is constant.
    X = centers[2 * y + (np.arange(n_rows) // 2) % 2] + rng.standard_normal((n_rows, 3))
    X[:, 2] = 3.0
    return X, y, class_moments(X, y, kind=kind, parts=np.arange(n_rows) // 2 + 200 * y)


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])
@pytest.mark.parametrize("most", [1, 6, 40])
def test_sums_of_classes_do_not_change(kind, most):
    X, y, moments = rows_and_moments(kind)
    fewer = fewer_parts(moments, most)
    assert 3 <= len(fewer.columns) <= max(most, 3)
    merged = fewer.by_class()
    expected = class_moments(X, y, kind=kind)
    np.testing.assert_array_equal(merged.counts, expected.counts)
    np.testing.assert_allclose(
        merged.origin + merged.means, expected.origin + expected.means, rtol=1e-12
    )
    size = np.abs(expected.scatter).max()
    np.testing.assert_allclose(merged.scatter, expected.scatter, atol=1e-12 * size)


def test_moments_of_few_enough_parts_stay_as_they_are():
    _, _, moments = rows_and_moments()
    assert fewer_parts(moments, len(moments.columns)) is moments
    assert fewer_parts(moments, len(moments.columns) - 1) is not moments


def test_parts_at_one_place_are_merged_in_any_order_and_units():
    X, y, moments = rows_and_moments("diagonal")
    fewer = fewer_parts(moments, 6)
    order = np.random.default_rng(1).permutation(len(y))
    parts = (np.arange(len(y)) // 2 + 200 * y)[order]
    units = np.array([1024.0, 0.125, 1.0])
    moments_in_units = class_moments(
        X[order] * units, y[order], kind="diagonal", parts=parts
    )
    fewer_in_units = fewer_parts(moments_in_units, 6)

    def sorted_means_in_units(merged, unit):
        means = (merged.origin + merged.means) * unit
        return means[np.lexsort((means[:, 0].round(3), merged.columns))]

    np.testing.assert_allclose(
        sorted_means_in_units(fewer_in_units, 1.0),
        sorted_means_in_units(fewer, units),
        rtol=1e-9,
    )
