# SPDX-License-Identifier: BSD-3-Clause
"""The expected log-loss of Gaussian rows, against drawn rows and differences."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from skgems.moments import GaussianLoss, class_moments, log_losses, merge_moments
from skgems.moments import _gaussian as gaussian

N_DRAWN = 10**5  # rows a class, for standard errors below 2 % of the loss
KINDS = ["class", "shared", "diagonal"]


def moments_of_rows(kind="class", *, n_classes=4, d=3, n=240, n_parts=1, seed=0):
    """Moments of rows whose classes differ in place, shape and number."""
    rng = np.random.default_rng(seed)
    y = np.sort(rng.integers(n_classes, size=n) * rng.integers(2, size=n))
    y[:n_classes] = np.arange(n_classes)
    shapes = rng.standard_normal((n_classes, d, d)) / np.sqrt(d)
    centers = 1.5 * rng.standard_normal((n_classes, d))
    X = np.einsum("ij,ijk->ik", rng.standard_normal((n, d)), shapes[y]) + centers[y]
    parts = y * n_parts + rng.integers(n_parts, size=n)
    return class_moments(X, y, kind=kind, parts=parts)


def drawn_model(moments, n_classes=4, *, size=0.8, seed=1):
    """Weights (n_features + 1, n_classes) with the standard deviation `size`."""
    rng = np.random.default_rng(seed)
    return size * rng.standard_normal((moments.n_features + 1, n_classes))


def class_covariance(moments, column):
    """Covariance of a class about the means of its parts, by its definition."""
    is_own_group = moments.groups == column
    if is_own_group.any():
        scatter = (
            moments.scatter[is_own_group][0] / moments.group_counts[is_own_group][0]
        )
    else:
        scatter = moments.scatter.sum(axis=0) / moments.group_counts.sum()
        count = moments.counts[moments.columns == column].sum()
        index = np.searchsorted(np.unique(moments.columns), column)
        ratio = np.sqrt(moments.squares[index] / count / scatter.diagonal())
        scatter = ratio[:, None] * scatter * ratio
    return np.diag(scatter) if scatter.ndim == 1 else scatter


class DrawnLoss(NamedTuple):
    """A loss estimated from drawn rows, with standard errors."""

    value: float
    gradient: np.ndarray  # as the weights
    value_error: float
    gradient_error: np.ndarray  # as the weights


def loss_of_drawn_rows(moments, W, seed=2):
    """Loss and gradient of `N_DRAWN` rows for each class."""
    rng = np.random.default_rng(seed)
    value = 0.0
    value_variance = 0.0
    gradient = np.zeros_like(W)
    gradient_variance = np.zeros_like(W)
    for column in np.unique(moments.columns):
        parts = np.flatnonzero(moments.columns == column)
        count = moments.counts[parts].sum()
        root = np.linalg.cholesky(class_covariance(moments, column))
        part = rng.choice(parts, N_DRAWN, p=moments.counts[parts] / count)
        noise = rng.standard_normal((N_DRAWN, moments.n_features))
        rows = np.column_stack([moments.means[part] + noise @ root.T, np.ones(N_DRAWN)])
        losses, residuals = log_losses(rows @ W, np.full(N_DRAWN, column))
        value += count * losses.mean()
        value_variance += count**2 * losses.var() / N_DRAWN
        mean = rows.T @ residuals / N_DRAWN
        squares = (rows**2).T @ residuals**2 / N_DRAWN
        gradient += count * mean
        gradient_variance += count**2 * (squares - mean**2) / N_DRAWN
    return DrawnLoss(
        value=value,
        gradient=gradient,
        value_error=np.sqrt(value_variance),
        gradient_error=np.sqrt(gradient_variance),
    )


def central_differences(function, W, step=1e-5):
    """Gradient at W of the first value that a function returns."""
    gradient = np.zeros_like(W)
    for index in np.ndindex(*W.shape):
        move = np.zeros_like(W)
        move[index] = step
        gradient[index] = (function(W + move)[0] - function(W - move)[0]) / (2 * step)
    return gradient


@pytest.mark.parametrize(
    ("kind", "n_parts", "n_classes"),
    [
        ("class", 1, 2),
        ("class", 3, 4),
        ("shared", 1, 4),
        ("shared", 3, 2),
        ("diagonal", 1, 2),
        ("diagonal", 3, 4),
    ],
)
def test_the_loss_is_the_mean_over_drawn_rows(kind, n_parts, n_classes):
    moments = moments_of_rows(kind, n_classes=n_classes, n_parts=n_parts)
    assert len(moments.columns) == n_parts * n_classes
    W = drawn_model(moments, n_classes)
    value, gradient = GaussianLoss(moments, n_classes).value_and_gradient(W)
    estimate = loss_of_drawn_rows(moments, W)
    # One of 2 to 32 numbers is off by 5 standard errors in one of 50,000 runs. The
    # points that stand for the Gaussians are off by about as much as the drawn rows.
    assert abs(value - estimate.value) < 5 * estimate.value_error < 0.02 * value
    largest = np.abs(gradient).max()
    differences = np.abs(gradient - estimate.gradient)
    assert (differences < 5 * estimate.gradient_error + 0.005 * largest).all()
    assert estimate.gradient_error.max() < 0.02 * largest


@pytest.mark.parametrize(
    ("kind", "case"),
    [
        ("class", "anywhere"),
        ("class", "far"),
        ("shared", "equal columns"),
        ("shared", "far"),
        ("diagonal", "anywhere"),
        ("diagonal", "equal columns"),
        ("diagonal", "zero"),
    ],
)
def test_the_gradient_is_the_derivative_of_the_value(kind, case):
    moments = moments_of_rows(kind, n_parts=2)
    W = drawn_model(moments, size=4.0 if case == "far" else 0.8)
    if case == "equal columns":
        W[:, 1:3] = W[:, :1]
    if case == "zero":
        W[:] = 0.0
    loss = GaussianLoss(moments, 4)
    gradient = loss.value_and_gradient(W)[1]
    expected = central_differences(loss.value_and_gradient, W)
    np.testing.assert_allclose(gradient, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_of_some_parts_and_outputs_is_as_if_there_were_no_others(kind):
    # Without squares of parts: which parts share a covariance depends on all of them.
    moments = replace(moments_of_rows(kind, n_parts=2), part_squares=None)
    loss = GaussianLoss(moments, 4)
    W = drawn_model(moments)
    outputs = np.array([True, False, True, True])
    parts = np.array([0, 4, 5, 7])

    def loss_of_parts(W):
        return loss.value_and_gradient(W, parts=parts, outputs=outputs)

    value, gradient = loss_of_parts(W)
    expected = central_differences(loss_of_parts, W)
    np.testing.assert_allclose(gradient, expected, atol=1e-6 * np.abs(expected).max())
    assert (gradient[:, 1] == 0).all()
    # Class 1 has no output, so that class 2 becomes 1, and class 3 becomes 2.
    fewer = moments_of_parts(moments, parts, np.array([0, -1, 1, 2]))
    value_alone, gradient_alone = GaussianLoss(fewer, 3).value_and_gradient(
        W[:, outputs]
    )
    assert value == pytest.approx(value_alone, rel=1e-12)
    np.testing.assert_allclose(gradient[:, outputs], gradient_alone, atol=1e-10)


def moments_of_parts(moments, parts, new_columns):
    """Moments that have some parts alone, with other numbers for the classes."""
    in_parts = (moments.groups < 0) | np.isin(moments.groups, moments.columns[parts])
    groups = moments.groups[in_parts]
    squares = moments.squares
    if squares is not None:
        counts_of_all = moments.class_counts(len(new_columns))
        counts_of_parts = np.bincount(
            moments.columns[parts], weights=moments.counts[parts]
        )
        classes = np.unique(moments.columns[parts])
        shares = counts_of_parts[classes] / counts_of_all[classes]
        squares = squares[classes] * shares[:, None]
    return replace(
        moments,
        columns=new_columns[moments.columns[parts]],
        counts=moments.counts[parts],
        means=moments.means[parts],
        groups=np.where(groups < 0, -1, new_columns[groups]),
        group_counts=moments.group_counts[in_parts],
        scatter=moments.scatter[in_parts],
        squares=squares,
    )


def test_the_losses_of_parts_add_up():
    moments = moments_of_rows(n_parts=3)
    loss = GaussianLoss(moments, 4)
    W = drawn_model(moments)
    value, gradient = loss.value_and_gradient(W)
    even_value, even_gradient = loss.value_and_gradient(W, parts=np.arange(0, 12, 2))
    odd_value, odd_gradient = loss.value_and_gradient(W, parts=np.arange(1, 12, 2))
    assert value == pytest.approx(even_value + odd_value, rel=1e-12)
    np.testing.assert_allclose(gradient, even_gradient + odd_gradient, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_shift_common_to_all_outputs_changes_nothing(kind):
    moments = moments_of_rows(kind)
    loss = GaussianLoss(moments, 4)
    W = drawn_model(moments)
    shift = 10.0 * drawn_model(moments, 1, seed=3)
    value, gradient = loss.value_and_gradient(W)
    shifted_value, shifted_gradient = loss.value_and_gradient(W + shift)
    assert shifted_value == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(
        shifted_gradient, gradient, atol=1e-9 * np.abs(gradient).max()
    )
    np.testing.assert_allclose(gradient.sum(axis=1), 0.0, atol=1e-9)


def test_parts_in_another_order_are_the_same_but_for_rounding():
    moments = moments_of_rows(n_parts=3)
    order = np.random.default_rng(0).permutation(12)
    groups = np.random.default_rng(1).permutation(4)
    reordered = replace(
        moments.some_parts(order),
        groups=moments.groups[groups],
        group_counts=moments.group_counts[groups],
        scatter=moments.scatter[groups],
    )
    W = drawn_model(moments)
    value, gradient = GaussianLoss(moments, 4).value_and_gradient(W)
    value_reordered, gradient_reordered = GaussianLoss(reordered, 4).value_and_gradient(
        W
    )
    assert value_reordered == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(
        gradient_reordered, gradient, atol=1e-12 * np.abs(gradient).max()
    )


def test_a_class_without_a_scatter_has_that_of_all_rows():
    moments = moments_of_rows("class")
    without_scatter_of_2 = replace(
        moments, groups=np.where(moments.groups == 2, -1, moments.groups)
    )
    W = drawn_model(moments)
    scatter = moments.scatter.copy()
    scatter[2] = moments.group_counts[2] * moments.covariance_within_parts()
    value, gradient = GaussianLoss(without_scatter_of_2, 4).value_and_gradient(W)
    with_scatter_of_all = replace(moments, scatter=scatter)
    expected, expected_gradient = GaussianLoss(
        with_scatter_of_all, 4
    ).value_and_gradient(W)
    assert value == pytest.approx(expected, rel=1e-12)
    assert value != pytest.approx(GaussianLoss(moments, 4).value_and_gradient(W)[0])
    np.testing.assert_allclose(
        gradient, expected_gradient, atol=1e-10 * np.abs(expected_gradient).max()
    )


def test_twice_the_rows_have_twice_the_loss():
    moments = moments_of_rows()
    W = drawn_model(moments)
    value, gradient = GaussianLoss(moments, 4).value_and_gradient(W)
    for twice in (moments.weighted(2.0), merge_moments([moments, moments])):
        twice_value, twice_gradient = GaussianLoss(twice, 4).value_and_gradient(W)
        assert twice_value == pytest.approx(2 * value, rel=1e-12)
        np.testing.assert_allclose(twice_gradient, 2 * gradient, atol=1e-10)


def test_many_parts_are_worked_on_in_blocks():
    # More than 64 parts a class of 1024 points each do not fit into one block.
    moments = moments_of_rows(n_parts=100, n=4000)
    assert np.bincount(moments.columns).max() > 64
    loss = GaussianLoss(moments, 4)
    W = drawn_model(moments)
    gradient = loss.value_and_gradient(W)[1]
    move = drawn_model(moments, seed=5)
    ahead = loss.value_and_gradient(W + 1e-5 * move)[0]
    behind = loss.value_and_gradient(W - 1e-5 * move)[0]
    assert np.vdot(gradient, move) == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)


def test_loss_and_gradient_are_finite_where_logits_are_in_the_thousands():
    moments = moments_of_rows()
    loss = GaussianLoss(moments, 4)
    W = 1e4 * drawn_model(moments)
    value, gradient = loss.value_and_gradient(W)
    assert np.isfinite(value) and np.isfinite(gradient).all()
    # Smaller logits have a smaller loss, and the gradient leads there.
    assert value > loss.value_and_gradient(0.5 * W)[0]
    assert np.vdot(gradient, W) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_class_has_no_loss(kind):
    moments = moments_of_rows(kind, n_classes=1)
    value, gradient = GaussianLoss(moments, 1).value_and_gradient(
        drawn_model(moments, 1)
    )
    assert value == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-9)


def curvature_in_weights(loss, W):
    variances, _ = loss.label_variances(W, np.ones(W.shape[1], dtype=bool))
    return loss.curvature_in_weights(variances)


@pytest.mark.parametrize("kind", KINDS)
def test_the_curvature_is_the_second_derivative_within_a_factor_of_two(kind):
    """It only preconditions the search, so it need not be exact."""
    moments = moments_of_rows(kind, n_parts=2)
    loss = GaussianLoss(moments, 4)
    W = drawn_model(moments, size=0.3)
    matrix = curvature_in_weights(loss, W)
    size = moments.n_features + 1
    # One matrix, the mean over outputs; or for variances the diagonal for each output.
    assert matrix.shape == ((size, 4) if kind == "diagonal" else (size, size))
    seconds = np.empty((4, size, size))
    for output in range(4):
        for j in range(size):
            move = np.zeros_like(W)
            move[j, output] = 1e-4
            ahead = loss.value_and_gradient(W + move)[1]
            behind = loss.value_and_gradient(W - move)[1]
            seconds[output, :, j] = (ahead - behind)[:, output] / 2e-4
    if kind == "diagonal":
        ratios = np.diagonal(seconds, axis1=1, axis2=2).T / matrix
    else:
        ratios = np.linalg.eigvals(np.linalg.solve(matrix, seconds.mean(axis=0))).real
    # A factor of two costs a search few steps.
    assert 0.5 < ratios.min() and ratios.max() < 2.0


@pytest.mark.parametrize("kind", KINDS)
def test_the_curvature_between_outputs_is_the_second_derivative_of_intercepts(kind):
    moments = moments_of_rows(kind, n_parts=3)
    loss = GaussianLoss(moments, 4)
    W = drawn_model(moments)
    between = loss.label_variances(W, np.ones(4, dtype=bool))[1]
    expected = np.empty((4, 4))
    for j in range(4):
        move = np.zeros_like(W)
        move[-1, j] = 1e-5
        ahead = loss.value_and_gradient(W + move)[1]
        expected[j] = (ahead - loss.value_and_gradient(W - move)[1])[-1] / 2e-5
    # It is computed from fewer points than the gradient, hence 5 %.
    np.testing.assert_allclose(between, expected, atol=0.05 * expected.diagonal().max())
    np.testing.assert_allclose(
        between.sum(axis=0), 0.0, atol=1e-9 * len(moments.counts)
    )
    apart = expected - np.diag(expected.diagonal())
    assert np.abs(apart).max() > 0.2 * expected.diagonal().max()


@pytest.mark.parametrize("kind", KINDS)
def test_the_curvature_is_finite_where_all_probabilities_are_0_or_1(kind):
    moments = moments_of_rows(kind)
    W = 1e3 * drawn_model(moments)
    matrix = curvature_in_weights(GaussianLoss(moments, 4), W)
    assert np.isfinite(matrix).all()


@pytest.mark.parametrize("kind", KINDS)
def test_with_very_many_classes_each_has_the_covariance_of_all_rows(monkeypatch, kind):
    moments = moments_of_rows(kind)
    W = drawn_model(moments)
    value_by_class, _ = GaussianLoss(moments, 4).value_and_gradient(W)
    monkeypatch.setattr(gaussian, "_MOST_WORK", 0)
    loss = GaussianLoss(moments, 4)
    value, gradient = loss.value_and_gradient(W)
    of_all = replace(
        moments,
        groups=np.array([-1]),
        group_counts=moments.group_counts.sum()[None],
        scatter=moments.scatter.sum(axis=0)[None],
        squares=None,
    )
    expected, expected_gradient = GaussianLoss(of_all, 4).value_and_gradient(W)
    assert value == pytest.approx(expected, rel=1e-12)
    assert value != pytest.approx(value_by_class, rel=1e-6)
    np.testing.assert_allclose(
        gradient, expected_gradient, atol=1e-10 * np.abs(expected_gradient).max()
    )
    np.testing.assert_allclose(
        curvature_in_weights(loss, W),
        curvature_in_weights(GaussianLoss(of_all, 4), W),
        rtol=1e-10,
        atol=1e-8,
    )


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_the_gradient_of_many_features_is_the_derivative_of_the_value(unit):
    # Products with large matrices are made with fewer digits, whatever the units are.
    n_features = 520
    rng = np.random.default_rng(0)
    y = np.arange(900) % 3
    units = unit * np.exp(rng.uniform(-3, 3, n_features))
    X = (rng.standard_normal((900, n_features)) + 0.2 * y[:, None]) * units
    X[:, 7] = 5.0  # does not vary
    moments = class_moments(X, y)
    loss = GaussianLoss(moments.with_origin(moments.origin + moments.mean()), 3)
    W = np.vstack(
        [rng.standard_normal((n_features, 3)) / units[:, None] / 20, [[0] * 3]]
    )
    step = np.vstack([rng.standard_normal((n_features, 3)) / units[:, None], [[0] * 3]])
    _, gradient = loss.value_and_gradient(W)
    small = 1e-3
    higher, _ = loss.value_and_gradient(W + small * step)
    lower, _ = loss.value_and_gradient(W - small * step)
    slope = np.vdot(gradient, step)
    np.testing.assert_allclose((higher - lower) / (2 * small), slope, rtol=1e-3)
