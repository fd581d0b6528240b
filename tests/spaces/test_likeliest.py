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
)

SHAPE = (3, 3)
N_ROWS = 200
# Of the solver, a tenth of what values are compared by. Of such problems one in ten
# stalls before the 1e-8 of its default, and rounding decides which.
REACHED = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-6)
METRICS = ["ball", "ellipsoid", "gram"]


class SoftmaxLoss:
    """Summed log-loss of some rows, with a little ridge; counts its searches."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        y = rng.integers(3, size=N_ROWS)
        X = rng.standard_normal((N_ROWS, 2)) + np.array([[0, 1], [2, 0], [-1, -1]])[y]
        self.rows, self.y = np.column_stack([X, np.ones(N_ROWS)]), y
        self.n_searches = 0

    def __call__(self, W):
        logits = self.rows @ W
        losses = logsumexp(logits, axis=1) - logits[np.arange(N_ROWS), self.y]
        residuals = softmax(logits, axis=1)
        residuals[np.arange(N_ROWS), self.y] -= 1.0
        return losses.sum() + 0.5 * np.sum(W**2), self.rows.T @ residuals + W

    def minimize(self, start, extra, forces):
        self.n_searches += 1

        def flat(z):
            value, gradient = self(z.reshape(SHAPE))
            more, slope = extra(z.reshape(SHAPE))
            return value + more, (gradient + slope).ravel()

        options = {"gtol": 1e-9, "ftol": 1e-15, "maxiter": 5000}
        found = minimize(
            flat, start.ravel(), jac=True, method="L-BFGS-B", options=options
        )
        return found.x.reshape(SHAPE)

    def best(self):
        return self.minimize(np.zeros(SHAPE), lambda W: (0.0, np.zeros(SHAPE)), None)


def metric_of(kind, rng):
    if kind == "ball":
        return ball_metric(3, np.ones(3, dtype=bool))
    if kind == "ellipsoid":
        return DiagonalMetric(rng.lognormal(size=SHAPE))
    root = rng.standard_normal((3, 6))
    return GramMetric.of(root @ root.T / 6)


def spaces_of(kind, n_spaces=3, reach=0.7, seed=0):
    """Around one model; the smaller the reach the fewer models are in all."""
    rng = np.random.default_rng(seed)
    base, spaces = rng.standard_normal(SHAPE), []
    for _ in range(n_spaces):
        metric, step = metric_of(kind, rng), rng.standard_normal(SHAPE)
        length = np.sqrt(metric.squared_norm(step))
        # The base is in all of them, by more or less.
        radius = (1.0 + reach * rng.uniform()) * length
        spaces.append(GoodEnoughSpace(base + step, metric, radius, 0.9))
    return spaces


def solved(loss, spaces):
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
            matrix = np.stack([space.metric.apply(e)[:, c] for e in unit])
            root = np.linalg.cholesky(matrix).T / space.radius
            terms.append(cp.sum_squares(root @ (W[:, c] - space.center[:, c])))
        bounds.append(sum(terms) <= 1.0)
    problem = cp.Problem(cp.Minimize(value + 0.5 * cp.sum_squares(W)), bounds)
    problem.solve(solver=cp.CLARABEL, **REACHED)
    return W.value


@pytest.mark.parametrize("n_spaces", [1, 2, 5])
@pytest.mark.parametrize("kind", METRICS)
def test_it_is_the_solution_of_the_bounded_problem(kind, n_spaces):
    loss, spaces = SoftmaxLoss(), spaces_of(kind, n_spaces)
    start = loss.best()
    found = likeliest(spaces, loss.minimize, start, N_ROWS)
    expected = solved(loss, spaces)
    assert found.method == "likelihood" and found.found and not found.empty
    np.testing.assert_allclose(found.point, expected, atol=1e-3)
    value, best = loss(found.point)[0], loss(expected)[0]
    assert value == pytest.approx(best, rel=1e-5) and value > loss(start)[0] + 1.0
    distances = [s.normalized_squared_distance(found.point) for s in spaces]
    assert found.max_distance == max(distances) <= 1.0
    np.testing.assert_array_equal(found.normalized_squared_distances, distances)
    # A bound that keeps it from where it would be is kept exactly.
    assert max(distances) > 1.0 - 1e-5


@pytest.mark.parametrize("kind", METRICS)
def test_weights_are_the_multipliers(kind):
    """What pulls at the point is balanced by the bounds, each with its multiplier."""
    loss, spaces = SoftmaxLoss(), spaces_of(kind, 4)
    far = spaces[0]
    spaces.append(GoodEnoughSpace(far.center, far.metric, 10 * far.radius, 0.9))
    found = likeliest(spaces, loss.minimize, loss.best(), N_ROWS)
    pulls = [2 * s.metric.apply(found.point - s.center) / s.radius**2 for s in spaces]
    gradient = loss(found.point)[1]
    held = sum(w * pull for w, pull in zip(found.weights, pulls, strict=True))
    size = -np.vdot(gradient, held) / np.vdot(held, held)
    assert size > 0
    # Where a bound does not bind it has no weight.
    slack = found.normalized_squared_distances < 1 - 1e-4
    assert (found.weights[slack] == 0).all() and slack.any()
    np.testing.assert_allclose(
        gradient + size * held, 0.0, atol=1e-3 * np.abs(gradient).max()
    )
    assert found.weights.sum() == pytest.approx(1.0) and (found.weights >= 0).all()


@pytest.mark.parametrize("kind", METRICS)
def test_bounds_of_very_unequal_units(kind):
    loss = SoftmaxLoss()
    spaces = spaces_of(kind, 3)
    reference = likeliest(spaces, loss.minimize, loss.best(), N_ROWS).point
    scaled = []
    for space, factor in zip(spaces, (1e-4, 1.0, 1e5), strict=True):
        metric = space.metric
        if kind == "gram":
            other = GramMetric.of(factor**2 * metric.gram)
        else:
            other = DiagonalMetric(factor**2 * metric.precision)
        scaled.append(GoodEnoughSpace(space.center, other, factor * space.radius, 0.9))
    found = likeliest(scaled, loss.minimize, loss.best(), N_ROWS)
    np.testing.assert_allclose(found.point, reference, atol=1e-4)


@pytest.mark.parametrize("kind", METRICS)
def test_a_model_in_all_spaces_is_left_as_it_is(kind):
    loss = SoftmaxLoss()
    start = loss.best()
    n_searches = loss.n_searches
    wide = [
        GoodEnoughSpace(s.center, s.metric, s.distance(start) * 1.001, 0.9)
        for s in spaces_of(kind)
    ]
    found = likeliest(wide, loss.minimize, start, N_ROWS)
    assert found.point is start and found.found and found.n_iter == 0
    assert found.lower_bound == 0 and not found.weights.any()
    assert loss.n_searches == n_searches


@pytest.mark.parametrize("kind", METRICS)
def test_that_there_is_no_intersection_is_proved(kind):
    loss = SoftmaxLoss()
    spaces = [
        GoodEnoughSpace(s.center, s.metric, 0.2 * s.radius, 0.9)
        for s in spaces_of(kind)
    ]
    start = loss.best()
    n_searches = loss.n_searches
    found = likeliest(spaces, loss.minimize, start, N_ROWS)
    assert loss.n_searches == n_searches
    assert found.empty and not found.found and found.method == "likelihood"
    assert 1.0 < found.lower_bound <= found.max_distance
    assert found.max_distance == pytest.approx(found.lower_bound, rel=1e-6)
    # The proof, by hand: the weighted mean of distances is at least the bound anywhere.
    for seed in range(20):
        W = found.point + 0.3 * np.random.default_rng(seed).standard_normal(SHAPE)
        mean = sum(
            w * s.normalized_squared_distance(W)
            for w, s in zip(found.weights, spaces, strict=True)
        )
        assert mean >= found.lower_bound - 1e-9


@pytest.mark.parametrize("kind", METRICS)
def test_an_intersection_that_is_nearly_a_point(kind):
    loss, spaces = SoftmaxLoss(), spaces_of(kind)
    wide = likeliest(spaces, loss.minimize, loss.best(), N_ROWS)
    deepest = intersect(spaces, method="deepest")
    shrink = np.sqrt(deepest.max_distance) * (1 + 1e-3)
    tight = [
        GoodEnoughSpace(s.center, s.metric, shrink * s.radius, 0.9) for s in spaces
    ]
    found = likeliest(tight, loss.minimize, loss.best(), N_ROWS)
    assert found.found
    expected = solved(loss, tight)
    assert loss(found.point)[0] == pytest.approx(loss(expected)[0], rel=1e-5)
    assert loss(deepest.point)[0] > loss(found.point)[0] > loss(wide.point)[0]


def test_the_order_of_spaces_does_not_matter():
    loss, spaces = SoftmaxLoss(), spaces_of("gram", 4)
    one = likeliest(spaces, loss.minimize, loss.best(), N_ROWS)
    other = likeliest(spaces[::-1], loss.minimize, loss.best(), N_ROWS)
    np.testing.assert_allclose(other.point, one.point, atol=1e-5)
    np.testing.assert_allclose(other.weights, one.weights[::-1], atol=1e-4)


def test_spaces_of_two_families_are_an_error():
    loss = SoftmaxLoss()
    mixed = spaces_of("gram", 1) + spaces_of("ball", 1)
    with pytest.raises(TypeError, match="different geometries"):
        likeliest(mixed, loss.minimize, np.zeros(SHAPE), N_ROWS)
    with pytest.raises(ValueError, match="no space"):
        likeliest([], loss.minimize, np.zeros(SHAPE), N_ROWS)
