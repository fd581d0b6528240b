# SPDX-License-Identifier: BSD-3-Clause
"""Variances of the parts of a class, and the loss of Gaussians that have them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import log_softmax

from skgems.moments import (
    ClassMoments,
    GaussianLoss,
    class_moments,
    fewer_parts,
    merge_moments,
)

C, D = 3, 5


def rows(seed=0, n=600):
    """Parts of a class that are alike in correlations, and far apart in spread."""
    rng = np.random.default_rng(seed)
    y = np.sort(rng.integers(C, size=n))
    parts = 3 * y + rng.integers(3, size=n)
    mixing = np.eye(D) + 0.4 * rng.standard_normal((D, D))
    spread = np.array([0.2, 1.0, 4.0])[parts % 3][:, None]
    X = spread * (rng.standard_normal((n, D)) @ mixing) + rng.normal(size=(9, D))[parts]
    return X, y, parts


def moments(form=np.asarray, kind="class", **options):
    X, y, parts = rows()
    return class_moments(form(X), y, kind=kind, parts=parts, **options)


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
@pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])
@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 600)])
def test_squares_of_parts_are_those_of_their_rows(form, kind, weights):
    X, y, parts = rows()
    sums = moments(form, kind, weights=weights)
    w = np.ones(len(y)) if weights is None else weights
    for k, part in enumerate(np.unique(parts)):
        in_part = parts == part
        mean = np.average(X[in_part], axis=0, weights=w[in_part])
        squares = w[in_part] @ (X[in_part] - mean) ** 2
        np.testing.assert_allclose(sums.part_squares[k], squares, rtol=1e-9)
    # Together they are the diagonals.
    total = sums.scatter.sum(axis=0)
    total = total if kind == "diagonal" else total.diagonal()
    np.testing.assert_allclose(sums.part_squares.sum(axis=0), total, rtol=1e-9)


def test_undivided_classes_have_none():
    X, y, _ = rows()
    assert class_moments(X, y).part_squares is None


def test_they_are_kept_by_what_is_done_to_parts():
    divided = moments()
    assert (divided.weighted(2.0).part_squares == 2 * divided.part_squares).all()
    assert divided.without_scatter().part_squares is None
    # Merged parts have what lies between them besides.
    by_class = divided.by_class()
    X, y, _ = rows()
    direct = np.stack(
        [((X[y == c] - X[y == c].mean(axis=0)) ** 2).sum(0) for c in (0, 1, 2)]
    )
    np.testing.assert_allclose(by_class.part_squares, direct, rtol=1e-9)
    fewer = fewer_parts(divided, 6)
    total = fewer.part_squares.sum(axis=0)
    np.testing.assert_allclose(total, np.einsum("gii->i", fewer.scatter), rtol=1e-9)
    merged = merge_moments([divided, moments()])
    assert merged.part_squares.shape == (18, D)
    assert merge_moments([divided, divided.by_class()]).part_squares is not None
    undivided = replace(divided, part_squares=None)
    assert merge_moments([divided, undivided]).part_squares is None


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("kind", ["class", "diagonal"])
def test_they_come_back_from_arrays(dtype, kind):
    divided = moments(kind=kind)
    arrays = divided.as_arrays(dtype=dtype)
    assert ("part_squares" in arrays) == (dtype == "float64")
    back = ClassMoments.from_arrays(arrays).part_squares
    tolerance = {"float64": 0.0, "float32": 1e-5, "float16": 5e-3}[dtype]
    np.testing.assert_allclose(back, divided.part_squares, rtol=tolerance)


def loss_of_drawn_rows(W):
    """Log-loss of many rows of the very Gaussians."""
    X, y, parts = rows(n=600)
    total, rng = 0.0, np.random.default_rng(3)
    for part in np.unique(parts):
        rows_of_part = X[parts == part]
        covariance = np.cov(rows_of_part.T, bias=True)
        drawn_rows = rng.multivariate_normal(
            rows_of_part.mean(axis=0), covariance, size=20_000
        )
        losses = -log_softmax(drawn_rows @ W[:-1] + W[-1], axis=1)[:, part // 3]
        total += len(rows_of_part) * losses.mean()
    return total


def test_the_loss_is_nearer_to_that_of_the_rows():
    rng, divided = np.random.default_rng(1), moments()
    divided = divided.about(np.zeros(D))
    of_classes = GaussianLoss(replace(divided, part_squares=None), C)
    of_parts = GaussianLoss(divided, C)
    for _ in range(3):
        W = 0.7 * rng.standard_normal((D + 1, C))
        expected = loss_of_drawn_rows(W)
        errors = [
            abs(loss.value_and_gradient(W)[0] - expected)
            for loss in (of_classes, of_parts)
        ]
        assert errors[1] < errors[0] / 2


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])
def test_the_gradient_is_that_of_the_loss(kind):
    loss = GaussianLoss(moments(kind=kind), C)
    rng = np.random.default_rng(2)
    W = 0.5 * rng.standard_normal((D + 1, C))
    value, gradient = loss.value_and_gradient(W)
    for _ in range(4):
        step = 1e-5 * rng.standard_normal(W.shape)
        change = [loss.value_and_gradient(W + s * step)[0] for s in (1, -1)]
        slope = (change[0] - change[1]) / 2
        np.testing.assert_allclose(slope, np.vdot(gradient, step), rtol=1e-3, atol=1e-6)
    # Of some parts it is theirs.
    halves = [
        loss.value_and_gradient(W, parts=some_parts)[0]
        for some_parts in (np.arange(4), np.arange(4, 9))
    ]
    np.testing.assert_allclose(sum(halves), value, rtol=1e-9)


def test_a_class_keeps_its_variances():
    """In the mean over its rows; what rows of its own add is the class's too."""
    divided = moments()
    assigned = GaussianLoss(divided, C)._part_covariances
    for c, group in enumerate(divided.scatter):
        in_class = divided.columns == c
        mean = sum(
            n * assigned.covariances[g].variances
            for n, g in zip(
                divided.counts[in_class], assigned.of_part[in_class], strict=True
            )
        )
        np.testing.assert_allclose(mean, group.diagonal(), rtol=0.05)
        # Far apart as they are, none has the covariance of another.
        assert len(set(assigned.of_part[in_class])) == in_class.sum()


def test_the_order_of_parts_and_units_of_features_do_not_matter():
    divided = moments()
    W = 0.5 * np.random.default_rng(4).standard_normal((D + 1, C))
    value = GaussianLoss(divided, C).value_and_gradient(W)[0]
    order = np.random.default_rng(5).permutation(9)
    mixed = divided.some_parts(order)
    other = GaussianLoss(mixed, C).value_and_gradient(W)[0]
    np.testing.assert_allclose(other, value, rtol=1e-9)
    X, y, parts = rows()
    units = np.array([1e-3, 1.0, 1e3, 7.0, 0.1])
    scaled = class_moments(X * units, y, parts=parts)
    V = np.vstack([W[:-1] / units[:, None], W[-1]])
    origin = divided.origin @ W[:-1] - scaled.origin @ V[:-1]
    other = GaussianLoss(scaled, C).value_and_gradient(V)[0]
    np.testing.assert_allclose(other, value, rtol=1e-6)
    np.testing.assert_allclose(origin, 0.0, atol=1e-9)


def test_parts_that_are_alike_change_nothing():
    divided = moments()
    class_squares = (
        divided.counts[:, None]
        * (np.einsum("gii->gi", divided.scatter) / divided.group_counts[:, None])[
            divided.columns
        ]
    )
    W = 0.5 * np.random.default_rng(6).standard_normal((D + 1, C))
    of_classes = GaussianLoss(replace(divided, part_squares=None), C)
    assert len(np.unique(GaussianLoss(divided, C)._part_covariances.of_part)) > C
    of_equal_parts = GaussianLoss(replace(divided, part_squares=class_squares), C)
    one, other = (loss.value_and_gradient(W) for loss in (of_classes, of_equal_parts))
    # There are half as many points where classes are divided.
    assert of_equal_parts.n_points == of_classes.n_points // 2
    np.testing.assert_allclose(one[0], other[0], rtol=5e-3)
    difference = np.abs(one[1] - other[1]).max()
    assert difference < 0.02 * np.abs(one[1]).max()


def test_constant_features_have_no_spread():
    X, y, parts = rows()
    X[:, 2] = 3.0
    sums = class_moments(X, y, parts=parts)
    assert not sums.part_squares[:, 2].any()
    W = np.ones((D + 1, C)) * np.arange(C)
    value, gradient = GaussianLoss(sums, C).value_and_gradient(W)
    assert np.isfinite(value) and np.isfinite(gradient).all()
