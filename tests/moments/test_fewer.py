# SPDX-License-Identifier: BSD-3-Clause
"""Parts that become one say in sums what they said before."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.moments import class_moments, fewer_parts


def parts_of(kind="class", n_rows=240):
    rng = np.random.default_rng(0)
    y = np.sort(rng.choice(3, n_rows, p=[0.7, 0.28, 0.02]))
    centres = 20.0 * rng.standard_normal((6, 3))
    # Parts of two rows, at two places a class, and a feature that is constant.
    X = centres[2 * y + (np.arange(n_rows) // 2) % 2] + rng.standard_normal((n_rows, 3))
    X[:, 2] = 3.0
    return X, y, class_moments(X, y, kind=kind, parts=np.arange(n_rows) // 2 + 200 * y)


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])
@pytest.mark.parametrize("most", [1, 6, 40])
def test_sums_stay_what_they_are(kind, most):
    X, y, moments = parts_of(kind)
    fewer = fewer_parts(moments, most)
    assert 3 <= len(fewer.columns) <= max(most, 3)
    one, other = fewer.by_class(), class_moments(X, y, kind=kind)
    np.testing.assert_array_equal(one.counts, other.counts)
    places = [own.origin + own.means for own in (one, other)]
    np.testing.assert_allclose(*places, rtol=1e-12)
    size = np.abs(other.scatter).max()
    np.testing.assert_allclose(one.scatter, other.scatter, atol=1e-12 * size)


def test_what_is_few_enough_stays_as_it_is():
    _, _, moments = parts_of()
    assert fewer_parts(moments, len(moments.columns)) is moments
    assert fewer_parts(moments, len(moments.columns) - 1) is not moments


def test_places_are_found_in_any_order_and_units():
    X, y, moments = parts_of("diagonal")
    fewer = fewer_parts(moments, 6)
    order = np.random.default_rng(1).permutation(len(y))
    parts = (np.arange(len(y)) // 2 + 200 * y)[order]
    units = np.array([1024.0, 0.125, 1.0])
    again = class_moments(X[order] * units, y[order], kind="diagonal", parts=parts)
    again = fewer_parts(again, 6)

    def places(own, unit):
        found = (own.origin + own.means) * unit
        return found[np.lexsort((found[:, 0].round(3), own.columns))]

    np.testing.assert_allclose(places(again, 1.0), places(fewer, units), rtol=1e-9)
