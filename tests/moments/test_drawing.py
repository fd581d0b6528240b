# SPDX-License-Identifier: BSD-3-Clause
"""Rows that are drawn from moments have these moments."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.moments import SHARED, class_moments, draw_rows, merge_moments


def moments_of_parts(kind, n_rows=4000):
    """Moments of three classes of two parts each, and a feature without spread."""
    rng = np.random.default_rng(0)
    y = rng.choice(3, n_rows, p=[0.6, 0.3, 0.1])
    parts = 2 * y + rng.integers(0, 2, n_rows)
    X = 5.0 * rng.normal(size=(6, 3))[parts] + 1e3
    X += rng.normal(size=X.shape) * np.array([[1.0, 0.1, 0.0]]) * (1 + y)[:, None]
    return class_moments(X, y, kind=kind, parts=parts)


@pytest.mark.parametrize("kind", ["class", "diagonal"])
def test_drawn_rows_have_the_counts_means_and_variances_of_classes(kind):
    moments = moments_of_parts(kind)
    X, y = draw_rows(moments, 60_000, random_state=0)
    drawn_moments = class_moments(X, y, kind="diagonal").by_class()
    expected = moments.by_class()
    np.testing.assert_allclose(
        drawn_moments.counts / drawn_moments.counts.sum(),
        expected.counts / expected.counts.sum(),
        atol=0.01,
    )
    np.testing.assert_allclose(
        drawn_moments.origin + drawn_moments.means,
        expected.origin + expected.means,
        atol=0.15,
    )
    squares = expected.scatter
    if kind == "class":
        squares = np.stack([s.diagonal() for s in squares])
    drawn_variances = drawn_moments.scatter / drawn_moments.group_counts[:, None]
    variances = squares / expected.group_counts[:, None]
    np.testing.assert_allclose(drawn_variances, variances, rtol=0.08, atol=1e-9)


def test_equal_seeds_draw_equal_rows():
    moments = moments_of_parts("diagonal")
    X, _ = draw_rows(moments, 50, random_state=1)
    X_of_equal_seed, _ = draw_rows(moments, 50, random_state=1)
    X_of_other_seed, _ = draw_rows(moments, 50, random_state=2)
    np.testing.assert_array_equal(X, X_of_equal_seed)
    assert not np.array_equal(X, X_of_other_seed)


def test_classes_without_variances_are_drawn_with_those_of_all_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1)) * 3.0
    y = np.arange(400) % 2
    shared = class_moments(X, y, kind="shared")
    drawn_rows, labels = draw_rows(shared, 20_000, random_state=0)
    for label in (0, 1):
        assert drawn_rows[labels == label].std() == pytest.approx(3.0, rel=0.1)
    of_one_row = class_moments(X[:1], y[:1], kind="diagonal")
    merged = merge_moments([class_moments(X, y, kind="diagonal"), of_one_row])
    assert np.isfinite(draw_rows(merged, 10, random_state=0)[0]).all()


def test_a_class_is_drawn_with_its_own_variances_beside_a_shared_scatter():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [60, 4, 4])
    X = rng.standard_normal((68, 2)) * np.where(y == 0, 1.0, 100.0)[:, None]
    moments = class_moments(X, y, min_cluster_size=5)
    assert moments.groups.tolist() == [0, SHARED]
    drawn_rows, classes = draw_rows(moments, 500, random_state=0)
    assert np.unique(classes).tolist() == [0]
    assert drawn_rows.std() < 2.0
