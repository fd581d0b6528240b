# SPDX-License-Identifier: BSD-3-Clause
"""The likeliest model in all spaces, against a solver that knows nothing of them."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from skgems.spaces import (
    DiagonalMetric,
    GoodEnoughSpace,
    GramMetric,
    ball_metric,
    intersect,
    likeliest,
    squared_norm,
)

SHAPE = (3, 3)  # of models: two features and the intercept, three outputs
N_ROWS = 200  # of the loss
# Tolerances of the solver, a tenth of what values are compared by. One in ten such
# problems stalls before the 1e-8 of its default, and rounding decides which.
SOLVER_TOLERANCES = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-6)
METRICS = ["ball", "ellipsoid", "gram"]


class SoftmaxLoss:
    """Summed log-loss of some rows, with a little ridge; counts its searches."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        y = rng.integers(3, size=N_ROWS)
        X = rng.standard_normal((N_ROWS, 2)) + np.array([[0, 1], [2, 0], [-1, -1]])[y]
        self.rows = np.column_stack([X, np.ones(N_ROWS)])
        self.y = y
        self.n_searches = 0

    def __call__(self, W):
        logits = self.rows @ W
        losses = logsumexp(logits, axis=1) - logits[np.arange(N_ROWS), self.y]
        residuals = softmax(logits, axis=1)
        residuals[np.arange(N_ROWS), self.y] -= 1.0
        return losses.sum() + 0.5 * np.sum(W**2), self.rows.T @ residuals + W

    def minimize(self, start, penalty, forces):
        self.n_searches += 1

        def value_and_gradient(flat):
            loss, gradient = self(flat.reshape(SHAPE))
            penalty_value, penalty_gradient = penalty(flat.reshape(SHAPE))
            return loss + penalty_value, (gradient + penalty_gradient).ravel()

        optimum = minimize(
            value_and_gradient,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"gtol": 1e-9, "ftol": 1e-15, "maxiter": 5000},
        )
        return optimum.x.reshape(SHAPE)

    def best(self):
        return self.minimize(np.zeros(SHAPE), lambda W: (0.0, np.zeros(SHAPE)), None)


def metric_of(kind, rng):
    if kind == "ball":
        return ball_metric(3, np.ones(3, dtype=bool))
    if kind == "ellipsoid":
        return DiagonalMetric(rng.lognormal(size=SHAPE))
    root = rng.standard_normal((3, 6))
    return GramMetric.from_matrix(root @ root.T / 6)


def spaces_of(kind, n_spaces=3, reach=0.7, seed=0):
    """Around one model; the smaller the reach the fewer models are in all."""
    rng = np.random.default_rng(seed)
    base = rng.standard_normal(SHAPE)
    spaces = []
    for _ in range(n_spaces):
        metric = metric_of(kind, rng)
        step = rng.standard_normal(SHAPE)
        length = np.sqrt(squared_norm(metric, step))
        # The base is in all of them, by more or less.
        radius = (1.0 + reach * rng.uniform()) * length
        spaces.append(
            GoodEnoughSpace(
                center=base + step, metric=metric, radius=radius, epsilon=0.9
            )
        )
    return spaces


def solution_by_cones(loss, spaces):
    """The same problem as a solver of cones sees it."""
    W = cp.Variable(SHAPE)
    logits = loss.rows @ W
    one_hot = np.eye(3)[loss.y]
    value = cp.sum(cp.log_sum_exp(logits, axis=1)) - cp.sum(
        cp.multiply(one_hot, logits)
    )
    bounds = []
    for space in spaces:
        terms = []
        for c in range(3):
            # The metric of one output, as a matrix.
            unit = np.zeros((3, *SHAPE))
            unit[np.arange(3), np.arange(3), c] = 1.0
            matrix = np.stack([space.metric.mv(e)[:, c] for e in unit])
            root = np.linalg.cholesky(matrix).T / space.radius
            terms.append(cp.sum_squares(root @ (W[:, c] - space.center[:, c])))
        bounds.append(sum(terms) <= 1.0)
    problem = cp.Problem(cp.Minimize(value + 0.5 * cp.sum_squares(W)), bounds)
    problem.solve(solver=cp.CLARABEL, **SOLVER_TOLERANCES)
    return W.value


@pytest.mark.parametrize(
    ("kind", "n_spaces"),
    [("ball", 1), ("ball", 5), ("ellipsoid", 2), ("gram", 1), ("gram", 5)],
)
def test_it_is_the_solution_of_the_bounded_problem(kind, n_spaces):
    loss = SoftmaxLoss()
    spaces = spaces_of(kind, n_spaces)
    start = loss.best()
    intersection = likeliest(spaces, loss.minimize, start, N_ROWS)
    expected = solution_by_cones(loss, spaces)
    assert (
        intersection.method == "likelihood"
        and intersection.found
        and not intersection.empty
    )
    np.testing.assert_allclose(intersection.point, expected, atol=1e-3)
    loss_value = loss(intersection.point)[0]
    assert loss_value == pytest.approx(loss(expected)[0], rel=1e-5)
    assert loss_value > loss(start)[0] + 1.0
    distances = [s.normalized_squared_distance(intersection.point) for s in spaces]
    assert intersection.max_distance == max(distances) <= 1.0
    np.testing.assert_array_equal(intersection.normalized_squared_distances, distances)
    # A bound that keeps it from where it would be is kept exactly.
    assert max(distances) > 1.0 - 1e-5


@pytest.mark.parametrize("kind", METRICS)
def test_weights_are_the_multipliers(kind):
    """What pulls at the point is balanced by the bounds, each with its multiplier."""
    loss = SoftmaxLoss()
    spaces = spaces_of(kind, 4)
    first = spaces[0]
    spaces.append(
        GoodEnoughSpace(
            center=first.center,
            metric=first.metric,
            radius=10 * first.radius,
            epsilon=0.9,
        )
    )
    intersection = likeliest(spaces, loss.minimize, loss.best(), N_ROWS)
    pulls = [
        2 * s.metric.mv(intersection.point - s.center) / s.radius**2 for s in spaces
    ]
    gradient = loss(intersection.point)[1]
    pull_of_bounds = sum(
        w * pull for w, pull in zip(intersection.weights, pulls, strict=True)
    )
    factor = -np.vdot(gradient, pull_of_bounds) / np.sum(pull_of_bounds**2)
    assert factor > 0
    # Where a bound does not bind it has no weight.
    slack = intersection.normalized_squared_distances < 1 - 1e-4
    assert (intersection.weights[slack] == 0).all() and slack.any()
    np.testing.assert_allclose(
        gradient + factor * pull_of_bounds, 0.0, atol=1e-3 * np.abs(gradient).max()
    )
    assert intersection.weights.sum() == pytest.approx(1.0)
    assert (intersection.weights >= 0).all()


@pytest.mark.parametrize("kind", ["ellipsoid", "gram"])
def test_bounds_of_very_unequal_units(kind):
    loss = SoftmaxLoss()
    spaces = spaces_of(kind, 3)
    reference = likeliest(spaces, loss.minimize, loss.best(), N_ROWS).point
    scaled = []
    for space, factor in zip(spaces, (1e-4, 1.0, 1e5), strict=True):
        metric = space.metric
        if kind == "gram":
            other = GramMetric.from_matrix(factor**2 * metric.gram)
        else:
            other = DiagonalMetric(factor**2 * metric.precision)
        scaled.append(
            GoodEnoughSpace(
                center=space.center,
                metric=other,
                radius=factor * space.radius,
                epsilon=0.9,
            )
        )
    intersection = likeliest(scaled, loss.minimize, loss.best(), N_ROWS)
    np.testing.assert_allclose(intersection.point, reference, atol=1e-4)


@pytest.mark.parametrize("kind", METRICS)
def test_a_model_in_all_spaces_is_left_as_it_is(kind):
    loss = SoftmaxLoss()
    start = loss.best()
    n_searches = loss.n_searches
    wide = [
        GoodEnoughSpace(
            center=s.center,
            metric=s.metric,
            radius=s.distance(start) * 1.001,
            epsilon=0.9,
        )
        for s in spaces_of(kind)
    ]
    intersection = likeliest(wide, loss.minimize, start, N_ROWS)
    assert intersection.point is start
    assert intersection.found and intersection.n_iter == 0
    assert intersection.lower_bound == 0 and not intersection.weights.any()
    assert loss.n_searches == n_searches


@pytest.mark.parametrize("kind", METRICS)
def test_that_there_is_no_intersection_is_proved(kind):
    loss = SoftmaxLoss()
    spaces = [
        GoodEnoughSpace(
            center=s.center, metric=s.metric, radius=0.2 * s.radius, epsilon=0.9
        )
        for s in spaces_of(kind)
    ]
    start = loss.best()
    n_searches = loss.n_searches
    intersection = likeliest(spaces, loss.minimize, start, N_ROWS)
    assert loss.n_searches == n_searches
    assert intersection.empty and not intersection.found
    assert intersection.method == "likelihood"
    assert 1.0 < intersection.lower_bound <= intersection.max_distance
    assert intersection.max_distance == pytest.approx(
        intersection.lower_bound, rel=1e-6
    )
    assert_weights_prove_the_bound(intersection, spaces)


def assert_weights_prove_the_bound(intersection, spaces):
    """The weighted mean of squared distances is at least the bound anywhere."""
    for seed in range(20):
        step = 0.3 * np.random.default_rng(seed).standard_normal(SHAPE)
        W = intersection.point + step
        distances = [space.normalized_squared_distance(W) for space in spaces]
        mean = sum(intersection.weights * np.array(distances))
        assert mean >= intersection.lower_bound - 1e-9


@pytest.mark.parametrize(
    "kind", [pytest.param("ellipsoid", marks=pytest.mark.slow), "gram"]
)
def test_an_intersection_that_is_nearly_a_point(kind):
    loss = SoftmaxLoss()
    spaces = spaces_of(kind)
    wide = likeliest(spaces, loss.minimize, loss.best(), N_ROWS)
    deepest = intersect(spaces, method="deepest")
    shrink = np.sqrt(deepest.max_distance) * (1 + 1e-3)
    tight = [
        GoodEnoughSpace(
            center=s.center, metric=s.metric, radius=shrink * s.radius, epsilon=0.9
        )
        for s in spaces
    ]
    intersection = likeliest(tight, loss.minimize, loss.best(), N_ROWS)
    assert intersection.found
    expected = solution_by_cones(loss, tight)
    assert loss(intersection.point)[0] == pytest.approx(loss(expected)[0], rel=1e-5)
    assert loss(deepest.point)[0] > loss(intersection.point)[0] > loss(wide.point)[0]


def test_the_order_of_spaces_does_not_matter():
    loss = SoftmaxLoss()
    spaces = spaces_of("gram", 4)
    forwards = likeliest(spaces, loss.minimize, loss.best(), N_ROWS)
    backwards = likeliest(spaces[::-1], loss.minimize, loss.best(), N_ROWS)
    np.testing.assert_allclose(backwards.point, forwards.point, atol=1e-5)
    np.testing.assert_allclose(backwards.weights, forwards.weights[::-1], atol=1e-4)


def test_spaces_of_two_families_are_an_error():
    loss = SoftmaxLoss()
    mixed = spaces_of("gram", 1) + spaces_of("ball", 1)
    with pytest.raises(TypeError, match="different geometries"):
        likeliest(mixed, loss.minimize, np.zeros(SHAPE), N_ROWS)
    with pytest.raises(ValueError, match="no space"):
        likeliest([], loss.minimize, np.zeros(SHAPE), N_ROWS)
