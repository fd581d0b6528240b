# SPDX-License-Identifier: BSD-3-Clause
"""Moments that are sent in fewer bytes are nearly the exact ones."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.moments import ClassMoments, class_moments

KINDS = ("class", "shared", "diagonal")
DTYPES = ("float32", "float16")


def labelled_rows(n_features=12, n_rows=300, seed=0):
    """Correlated rows of three classes."""
    rng = np.random.RandomState(seed)
    y = rng.randint(3, size=n_rows)
    mixed = rng.standard_normal((n_rows, n_features)) @ rng.standard_normal(
        (n_features, n_features)
    )
    return mixed + 3 * y[:, None], y


def round_trip(moments, **options):
    """Moments as they come out of a message that has these options."""
    return ClassMoments.from_arrays(moments.as_arrays(**options))


def correlations(scatter):
    """The correlations of each scatter matrix."""
    size = np.sqrt(np.einsum("gii->gi", scatter))
    return scatter / size[:, :, None] / size[:, None, :]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_moments_come_back_exactly_but_for_rounding(kind, dtype):
    X, y = labelled_rows()
    exact = class_moments(X, y, kind=kind)
    rounded = round_trip(exact, dtype=dtype)
    eps = np.finfo(dtype).eps
    for name in ("origin", "columns", "counts", "groups", "group_counts"):
        np.testing.assert_array_equal(getattr(rounded, name), getattr(exact, name))
    within = exact.within() if kind == "diagonal" else exact.within().diagonal()
    differences = np.abs(rounded.means - exact.means) / np.sqrt(within)
    assert differences.max() <= eps * np.abs(exact.means / np.sqrt(within)).max()
    if kind == "diagonal":
        np.testing.assert_allclose(rounded.scatter, exact.scatter, rtol=3 * eps)
        return
    # Correlations are sent a little too small, so that no eigenvalue becomes negative.
    slack = 2 * np.sqrt(X.shape[1]) * eps
    difference = correlations(rounded.scatter) - correlations(exact.scatter)
    assert np.abs(difference).max() <= slack
    np.testing.assert_allclose(
        np.einsum("gii->gi", rounded.scatter),
        np.einsum("gii->gi", exact.scatter),
        rtol=3 * eps,
    )
    if kind == "shared":
        np.testing.assert_allclose(rounded.squares, exact.squares, rtol=4 * eps)


@pytest.mark.parametrize("kind", ["class", "shared"])
@pytest.mark.parametrize("rank", [6, 12, 50])
def test_a_rank_that_saves_no_bytes_keeps_the_whole_matrices(kind, rank):
    X, y = labelled_rows()
    moments = class_moments(X, y, kind=kind)
    arrays = moments.as_arrays(dtype="float16", rank=rank)
    assert arrays.keys() == moments.as_arrays(dtype="float16").keys()
    np.testing.assert_allclose(
        round_trip(moments, rank=rank).scatter, moments.scatter, rtol=1e-6, atol=1e-4
    )


def test_a_low_rank_keeps_the_diagonal_and_the_largest_directions():
    rng = np.random.RandomState(0)
    direction = rng.standard_normal((1, 20))
    X = rng.standard_normal((200, 1)) @ direction + rng.standard_normal((200, 20)) / 50
    moments = class_moments(X, np.zeros(200, dtype=int))
    of_rank_1 = round_trip(moments, rank=1)
    np.testing.assert_allclose(
        of_rank_1.scatter[0].diagonal(), moments.scatter[0].diagonal(), rtol=1e-6
    )
    np.testing.assert_allclose(
        correlations(of_rank_1.scatter), correlations(moments.scatter), atol=0.05
    )


@pytest.mark.parametrize("rank", [None, 3])
@pytest.mark.parametrize("dtype", ["float64", *DTYPES])
@pytest.mark.parametrize("n_rows", [8, 30, 400])
def test_rounding_makes_no_eigenvalue_negative(dtype, rank, n_rows):
    # With fewer rows than features the exact matrix has eigenvalues that are 0.
    X, _ = labelled_rows(60, n_rows)
    moments = class_moments(X, np.zeros(n_rows, dtype=int))
    rounded = round_trip(moments, dtype=dtype, rank=rank)
    eigenvalues = np.linalg.eigvalsh(correlations(rounded.scatter)[0])
    assert eigenvalues[0] > -1e-6 * eigenvalues[-1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [None, 2])
def test_constant_features_stay_constant(kind, dtype, rank):
    X, y = labelled_rows()
    X[:, 3] = 7.0
    # Features that are constant within classes, in large units and in small ones.
    X[:, 4] = 1e6 * y
    X[:, 5] = 1e-9 * y
    exact = class_moments(X, y, kind=kind)
    rounded = round_trip(exact, dtype=dtype, rank=rank)
    assert not rounded.means[:, 3].any()
    assert not rounded.scatter[..., 3:6].any()
    np.testing.assert_allclose(
        rounded.means[:, 4:6], exact.means[:, 4:6], rtol=np.finfo(dtype).eps
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rank", [None, 2])
def test_units_of_features_do_not_matter(kind, rank):
    X, y = labelled_rows()
    units = 2.0 ** np.linspace(-30, 30, X.shape[1]).astype(int)
    rounded = round_trip(class_moments(X, y, kind=kind), dtype="float16", rank=rank)
    rounded_in_units = round_trip(
        class_moments(X * units, y, kind=kind), dtype="float16", rank=rank
    )
    np.testing.assert_allclose(rounded_in_units.means, rounded.means * units, rtol=1e-6)
    squares = units**2 if kind == "diagonal" else np.outer(units, units)
    expected = rounded.scatter * squares
    tolerance = 1e-2 if rank else 1e-6
    np.testing.assert_allclose(
        rounded_in_units.scatter, expected, rtol=tolerance, atol=0
    )


def test_means_far_apart_do_not_overflow_float16():
    X = np.random.RandomState(0).standard_normal((40, 2)) * 1e-7
    y = np.repeat([0, 1], 20)
    X[y == 1] += 5.0
    exact = class_moments(X, y, kind="diagonal")
    rounded = round_trip(exact, dtype="float16")
    np.testing.assert_allclose(rounded.means, exact.means, rtol=1e-3, atol=1e-3)


def n_bytes(moments, **options):
    """Bytes of the large arrays of a message."""
    arrays = moments.as_arrays(**options)
    small = {"origin", "columns", "counts", "groups", "group_counts", "unit"}
    return sum(array.nbytes for name, array in arrays.items() if name not in small)


@pytest.mark.parametrize(
    "dtype, width", [("float64", 8), ("float32", 4), ("float16", 2)]
)
def test_a_message_has_as_many_bytes_as_its_numbers(dtype, width):
    X, y = labelled_rows()
    d = X.shape[1]
    n_classes = 3
    # Diagonals are part of the matrices in float64, and deviations beside correlations.
    n_scatter = n_classes * (d * (d - 1) // 2 + d)
    n_means = n_classes * d
    moments = class_moments(X, y)
    assert n_bytes(moments, dtype=dtype) == width * (n_means + n_scatter)
    # Of each feature a mean, a deviation and two numbers of the directions.
    n_of_rank_2 = n_classes * d * (1 + 1 + 2)
    assert n_bytes(moments, dtype=dtype, rank=2) == width * n_of_rank_2
    diagonal = class_moments(X, y, kind="diagonal")
    assert n_bytes(diagonal, dtype=dtype) == width * 2 * n_classes * d
