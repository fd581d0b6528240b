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

C = 3  # classes
D = 5  # features


def rows_in_parts(n=600):
    """Parts of a class have the same correlations, and very different variances."""
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(C, size=n))
    parts = 3 * y + rng.integers(3, size=n)
    mixing = np.eye(D) + 0.4 * rng.standard_normal((D, D))
    spread = np.array([0.2, 1.0, 4.0])[parts % 3][:, None]
    X = spread * (rng.standard_normal((n, D)) @ mixing) + rng.normal(size=(9, D))[parts]
    return X, y, parts


def divided_moments(*, form=np.asarray, kind="class", weights=None):
    """Class moments of these rows, in three parts a class."""
    X, y, parts = rows_in_parts()
    return class_moments(form(X), y, kind=kind, parts=parts, weights=weights)


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
@pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])
@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 600)])
def test_squares_of_parts_are_those_of_their_rows(form, kind, weights):
    X, y, parts = rows_in_parts()
    divided = divided_moments(form=form, kind=kind, weights=weights)
    w = np.ones(len(y)) if weights is None else weights
    for k, part in enumerate(np.unique(parts)):
        in_part = parts == part
        mean = np.average(X[in_part], axis=0, weights=w[in_part])
        squares = w[in_part] @ (X[in_part] - mean) ** 2
        np.testing.assert_allclose(divided.part_squares[k], squares, rtol=1e-9)
    # Their sum is the diagonal of the sum of scatters.
    total = divided.scatter.sum(axis=0)
    total = total if kind == "diagonal" else total.diagonal()
    np.testing.assert_allclose(divided.part_squares.sum(axis=0), total, rtol=1e-9)


def test_undivided_classes_have_no_squares_of_parts():
    X, y, _ = rows_in_parts()
    assert class_moments(X, y).part_squares is None


def test_squares_of_parts_are_weighted_and_dropped_with_the_scatter():
    divided = divided_moments()
    assert (divided.weighted(2.0).part_squares == 2 * divided.part_squares).all()
    assert divided.drop_scatter().part_squares is None


def test_squares_of_merged_parts_include_what_lies_between_the_parts():
    divided = divided_moments()
    by_class = divided.by_class()
    X, y, _ = rows_in_parts()
    squares_of_classes = np.stack(
        [((X[y == c] - X[y == c].mean(axis=0)) ** 2).sum(0) for c in (0, 1, 2)]
    )
    np.testing.assert_allclose(by_class.part_squares, squares_of_classes, rtol=1e-9)
    fewer = fewer_parts(divided, 6)
    total = fewer.part_squares.sum(axis=0)
    np.testing.assert_allclose(total, np.einsum("gii->i", fewer.scatter), rtol=1e-9)


def test_squares_of_parts_are_merged_if_all_nodes_have_them():
    divided = divided_moments()
    merged = merge_moments([divided, divided_moments()])
    assert merged.part_squares.shape == (18, D)
    assert merge_moments([divided, divided.by_class()]).part_squares is not None
    undivided = replace(divided, part_squares=None)
    assert merge_moments([divided, undivided]).part_squares is None


@pytest.mark.parametrize("kind", ["class", "diagonal"])
def test_squares_of_parts_come_back_from_a_message(kind):
    divided = divided_moments(kind=kind)
    part_squares = ClassMoments.from_content(divided.as_content()).part_squares
    np.testing.assert_array_equal(part_squares, divided.part_squares)


def loss_of_drawn_rows(W):
    """Log-loss of many rows that are drawn from a Gaussian for each part."""
    X, _, parts = rows_in_parts()
    rng = np.random.default_rng(3)
    total = 0.0
    for part in np.unique(parts):
        rows_of_part = X[parts == part]
        covariance = np.cov(rows_of_part.T, bias=True)
        drawn_rows = rng.multivariate_normal(
            rows_of_part.mean(axis=0), covariance, size=20_000
        )
        losses = -log_softmax(drawn_rows @ W[:-1] + W[-1], axis=1)[:, part // 3]
        total += len(rows_of_part) * losses.mean()
    return total


def test_with_variances_of_parts_the_loss_is_nearer_to_that_of_the_rows():
    rng = np.random.default_rng(1)
    divided = divided_moments().with_origin(np.zeros(D))
    of_classes = GaussianLoss(replace(divided, part_squares=None), C)
    of_parts = GaussianLoss(divided, C)
    for _ in range(3):
        W = 0.7 * rng.standard_normal((D + 1, C))
        expected = loss_of_drawn_rows(W)
        error_of_classes = abs(of_classes.value_and_gradient(W)[0] - expected)
        error_of_parts = abs(of_parts.value_and_gradient(W)[0] - expected)
        assert error_of_parts < error_of_classes / 2


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])
def test_the_gradient_is_the_derivative_of_the_loss(kind):
    loss = GaussianLoss(divided_moments(kind=kind), C)
    rng = np.random.default_rng(2)
    W = 0.5 * rng.standard_normal((D + 1, C))
    gradient = loss.value_and_gradient(W)[1]
    for _ in range(4):
        step = 1e-5 * rng.standard_normal(W.shape)
        ahead = loss.value_and_gradient(W + step)[0]
        behind = loss.value_and_gradient(W - step)[0]
        slope = (ahead - behind) / 2
        np.testing.assert_allclose(slope, np.vdot(gradient, step), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])
def test_the_losses_of_parts_add_up(kind):
    loss = GaussianLoss(divided_moments(kind=kind), C)
    W = 0.5 * np.random.default_rng(2).standard_normal((D + 1, C))
    of_first_parts = loss.value_and_gradient(W, parts=np.arange(4))[0]
    of_last_parts = loss.value_and_gradient(W, parts=np.arange(4, 9))[0]
    value = loss.value_and_gradient(W)[0]
    np.testing.assert_allclose(of_first_parts + of_last_parts, value, rtol=1e-9)


def test_a_class_keeps_its_variances_in_the_mean_over_its_rows():
    divided = divided_moments()
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
        # Variances of parts differ so much that no two share a covariance.
        assert len(set(assigned.of_part[in_class])) == in_class.sum()


def test_the_order_of_parts_does_not_matter():
    divided = divided_moments()
    W = 0.5 * np.random.default_rng(4).standard_normal((D + 1, C))
    value = GaussianLoss(divided, C).value_and_gradient(W)[0]
    order = np.random.default_rng(5).permutation(9)
    reordered = divided.some_parts(order)
    value_reordered = GaussianLoss(reordered, C).value_and_gradient(W)[0]
    np.testing.assert_allclose(value_reordered, value, rtol=1e-9)


def test_units_of_features_do_not_matter():
    divided = divided_moments()
    W = 0.5 * np.random.default_rng(4).standard_normal((D + 1, C))
    value = GaussianLoss(divided, C).value_and_gradient(W)[0]
    X, y, parts = rows_in_parts()
    units = np.array([1e-3, 1.0, 1e3, 7.0, 0.1])
    scaled = class_moments(X * units, y, parts=parts)
    V = np.vstack([W[:-1] / units[:, None], W[-1]])
    value_in_units = GaussianLoss(scaled, C).value_and_gradient(V)[0]
    np.testing.assert_allclose(value_in_units, value, rtol=1e-6)
    # The origin is scaled as the rows are, so that V needs no other intercept.
    np.testing.assert_allclose(
        scaled.origin @ V[:-1], divided.origin @ W[:-1], atol=1e-9
    )


def test_equal_variances_of_parts_give_the_loss_of_undivided_classes():
    divided = divided_moments()
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
    value, gradient = of_classes.value_and_gradient(W)
    value_of_parts, gradient_of_parts = of_equal_parts.value_and_gradient(W)
    # Half as many points stand for a Gaussian where classes are divided, hence 2 %.
    assert of_equal_parts.n_points == of_classes.n_points // 2
    np.testing.assert_allclose(value, value_of_parts, rtol=5e-3)
    difference = np.abs(gradient - gradient_of_parts).max()
    assert difference < 0.02 * np.abs(gradient).max()


def test_constant_features_have_no_variance_in_any_part():
    X, y, parts = rows_in_parts()
    X[:, 2] = 3.0
    sums = class_moments(X, y, parts=parts)
    assert not sums.part_squares[:, 2].any()
    W = np.ones((D + 1, C)) * np.arange(C)
    value, gradient = GaussianLoss(sums, C).value_and_gradient(W)
    assert np.isfinite(value) and np.isfinite(gradient).all()


@pytest.mark.parametrize("n_classes", [3, 20, 40, 70])
def test_covariances_are_64_in_all_or_one_of_each_class(n_classes):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), 40)
    parts = 20 * y + np.tile(np.arange(20), 2 * n_classes)
    X = (
        rng.standard_normal((len(y), D))
        * rng.uniform(0.1, 9, (20 * n_classes, D))[parts]
    )
    loss = GaussianLoss(class_moments(X, y, parts=parts), n_classes)
    W = rng.standard_normal((D + 1, n_classes))
    moves, covariance_of = loss.moves(W, np.ones(n_classes, dtype=bool))
    assert n_classes <= len(moves) <= max(64, n_classes)
    # More than one where there is room for more.
    assert (len(moves) > n_classes) == (n_classes < 64)
    classes = loss.moments.columns
    for g in range(len(moves)):
        assert len(np.unique(classes[covariance_of == g])) == 1


def test_classes_that_are_not_divided_are_merged_with_those_that_are():
    """A class of one part has the squares of its scatter, which are not sent twice."""
    X = np.random.default_rng(0).standard_normal((90, 3))
    y = np.arange(90) % 2
    parts = np.arange(90) % 6  # three of each class
    half = np.arange(90) < 40
    divided = class_moments(X[half], y[half], kind="class", parts=parts[half])
    plain = class_moments(X[~half], y[~half], kind="class")
    as_parts = class_moments(X[~half], y[~half], kind="class", parts=y[~half])
    assert plain.part_squares is None
    merged = merge_moments([divided, plain])
    expected = merge_moments([divided, as_parts])
    np.testing.assert_allclose(merged.part_squares, expected.part_squares, rtol=1e-12)
    shared = class_moments(X[~half], y[~half], kind="shared")
    assert merge_moments([divided, shared]).part_squares is None
    assert merge_moments([plain, plain]).part_squares is None
