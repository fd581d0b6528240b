# SPDX-License-Identifier: BSD-3-Clause
"""Intersections of good-enough spaces, against an independent convex solver."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from skgems.spaces import (
    DiagonalMetric,
    GoodEnoughSpace,
    GramMetric,
    ball_metric,
    diagonal,
    intersect,
    squared_norm,
)

FAMILIES = ["diagonal", "gram", "weighted gram"]
METHODS = ["consensus", "deepest", "hinge"]


def make_spaces(family, n_spaces=4, *, seed=0, reach=1.0, n_params=4, n_outputs=3):
    """Random spaces; the intersection is empty for a small reach."""
    rng = np.random.default_rng(seed)
    base = rng.standard_normal((n_params, n_outputs))
    spaces = []
    for k in range(n_spaces):
        if family == "diagonal":
            precision = rng.lognormal(0.0, 1.5, base.shape)
            # Some outputs unknown, a node's own output known.
            precision[
                :, (np.arange(n_outputs) != k % n_outputs) & (rng.random() < 0.5)
            ] = 0
            metric = DiagonalMetric(precision)
        else:
            root = rng.standard_normal((n_params, n_params + 1))
            weights = rng.lognormal(0.0, 1.0, n_outputs)
            metric = GramMetric.from_matrix(
                root @ root.T / n_params, weights if family[0] == "w" else None
            )
        step = rng.standard_normal(base.shape)
        radius = reach * rng.uniform(0.5, 1.5) * np.sqrt(squared_norm(metric, step))
        spaces.append(
            GoodEnoughSpace(
                center=base + step, metric=metric, radius=radius, epsilon=0.9
            )
        )
    return spaces


def roots_of_metric(space):
    """Matrices B_c with q(W) = sum_c ||B_c (W - center)_c||^2, one for each output."""
    metric = space.metric
    if isinstance(metric, DiagonalMetric):
        matrices = [np.diag(np.sqrt(column)) for column in metric.precision.T]
    else:
        weights = np.ones(space.center.shape[1])
        if metric.output_weights is not None:
            weights = metric.output_weights
        factor = np.linalg.cholesky(metric.gram).T
        matrices = [np.sqrt(weight) * factor for weight in weights]
    return [matrix / space.radius for matrix in matrices]


def convex_normalized_distance(space, W):
    return sum(
        cp.sum_squares(matrix @ (W[:, c] - space.center[:, c]))
        for c, matrix in enumerate(roots_of_metric(space))
    )


def solve_deepest(spaces):
    W, t = cp.Variable(spaces[0].center.shape), cp.Variable()
    problem = cp.Problem(
        cp.Minimize(t), [convex_normalized_distance(s, W) <= t for s in spaces]
    )
    problem.solve(solver=cp.CLARABEL)
    return problem.value


def solve_consensus(spaces, weight):
    W = cp.Variable(spaces[0].center.shape)
    distances = [s.radius**2 * convex_normalized_distance(s, W) for s in spaces]
    problem = cp.Problem(
        cp.Minimize(cp.sum([w * d for w, d in zip(weight, distances, strict=True)])),
        [convex_normalized_distance(s, W) <= 1 for s in spaces],
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        problem.solve(solver=cp.CLARABEL)
    return problem.status, problem.value, W.value


def sum_of_weighted_squares(spaces, weight, point):
    return sum(w * s.distance(point) ** 2 for w, s in zip(weight, spaces, strict=True))


def check_proof(spaces, intersection):
    """What `intersect` returns agrees with the spaces, whatever the method."""
    distances = [
        space.normalized_squared_distance(intersection.point) for space in spaces
    ]
    np.testing.assert_array_equal(intersection.normalized_squared_distances, distances)
    assert intersection.max_distance == max(distances)
    assert intersection.found == (intersection.max_distance <= 1)
    is_inside = [space.contains(intersection.point) for space in spaces]
    assert intersection.found == np.all(is_inside)
    assert 0 <= intersection.lower_bound <= intersection.max_distance
    assert intersection.weights.shape == (len(spaces),)
    assert (intersection.weights >= 0).all()
    assert intersection.weights.sum() == pytest.approx(1)
    assert not (intersection.found and intersection.conflicts)


# ---- against Clarabel -----------------------------------------------------

cases = {
    "family": st.sampled_from(FAMILIES),
    "n_spaces": st.integers(2, 6),
    "seed": st.integers(0, 2**32 - 1),
    "reach": st.sampled_from([0.3, 0.7, 1.0, 1.5]),
}


@settings(max_examples=10, deadline=None)
@given(**cases)
def test_deepest_point_is_that_of_a_convex_solver(family, n_spaces, seed, reach):
    spaces = make_spaces(family, n_spaces, seed=seed, reach=reach)
    intersection = intersect(spaces, method="deepest")
    check_proof(spaces, intersection)
    # 1e-20: distances from coinciding centers are rounding errors.
    gap = intersection.max_distance - intersection.lower_bound
    assert gap <= 1e-6 * intersection.max_distance + 1e-20
    assert intersection.max_distance == pytest.approx(
        solve_deepest(spaces), rel=1e-5, abs=1e-7
    )


@settings(max_examples=10, deadline=None)
@given(**cases, weighted=st.booleans())
def test_consensus_point_is_that_of_a_convex_solver(
    family, n_spaces, seed, reach, weighted
):
    spaces = make_spaces(family, n_spaces, seed=seed, reach=reach)
    weight = np.ones(n_spaces)
    if weighted:
        weight = np.random.default_rng(seed).uniform(0.1, 3.0, n_spaces)
    intersection = intersect(spaces, node_weight=weight if weighted else None)
    check_proof(spaces, intersection)
    status, value, point = solve_consensus(spaces, weight)
    assume("inaccurate" not in status)  # the solver is not sure itself
    if not intersection.found:
        assert intersection.lower_bound > 1
        assert "infeasible" in status
        return
    assert status == "optimal"
    # Not better than the optimum only because it is not outside.
    weighted_squares = sum_of_weighted_squares(spaces, weight, intersection.point)
    assert weighted_squares == pytest.approx(value, rel=1e-5)
    is_constrained = (
        sum(np.broadcast_to(diagonal(s.metric), point.shape) for s in spaces) > 0
    )
    np.testing.assert_allclose(
        intersection.point[is_constrained], point[is_constrained], atol=2e-3
    )


def test_cases_hold_both_found_and_empty():
    outcomes = {
        (family, intersect(make_spaces(family, seed=seed, reach=reach)).found)
        for family in FAMILIES
        for seed in range(5)
        for reach in (0.3, 1.0)
    }
    assert outcomes == {(family, flag) for family in FAMILIES for flag in (True, False)}


# ---- exact answers --------------------------------------------------------


def balls(*centers_and_radii, n_outputs=1):
    metric = ball_metric(2, np.ones(n_outputs, dtype=bool))
    return [
        GoodEnoughSpace(
            center=np.full((2, n_outputs), [[x], [0.0]]),
            metric=metric,
            radius=radius,
            epsilon=0.9,
        )
        for x, radius in centers_and_radii
    ]


@pytest.mark.parametrize(
    ("spaces", "point", "max_distance"),
    [
        (balls((0, 1), (3, 2)), 1.0, 1.0),
        (balls((0, 1), (4, 1)), 2.0, 4.0),
        (balls((0, 2), (2, 2)), 1.0, 0.25),
        (balls((0, 1), (3, 2), (1, 50)), 1.0, 1.0),
        (balls((5, 3)), 5.0, 0.0),
        (balls((5, 3), (5, 0.1), (5, 8)), 5.0, 0.0),
        (balls((0, 1e-6), (2, 1)), 2e-6 / (1 + 1e-6), 4 / (1 + 1e-6) ** 2),
        (balls((0, 1e-3), (1, 1e3)), 1e-3 / (1e3 + 1e-3), 1 / (1e3 + 1e-3) ** 2),
    ],
)
def test_deepest_point_of_balls(spaces, point, max_distance):
    for order in (spaces, spaces[::-1], [*spaces, spaces[0]]):
        intersection = intersect(order, method="deepest")
        check_proof(order, intersection)
        np.testing.assert_allclose(intersection.point.ravel(), [point, 0.0], atol=1e-8)
        assert intersection.max_distance == pytest.approx(max_distance, rel=1e-6)
        assert intersection.lower_bound == pytest.approx(max_distance, rel=1e-6)


def test_consensus_is_the_weighted_mean_where_no_bound_binds():
    spaces = make_spaces("gram", reach=50.0)
    intersection = intersect(spaces, node_weight=[1.0, 2.0, 3.0, 4.0])
    total = sum(w * s.metric.gram for w, s in zip([1, 2, 3, 4], spaces, strict=True))
    pull = sum(
        w * s.metric.gram @ s.center for w, s in zip([1, 2, 3, 4], spaces, strict=True)
    )
    np.testing.assert_allclose(intersection.point, np.linalg.solve(total, pull))
    np.testing.assert_allclose(intersection.weights, [0.1, 0.2, 0.3, 0.4])
    assert intersection.found and intersection.n_iter == 0


def test_consensus_moves_to_the_bound_that_binds():
    intersection = intersect(balls((0, 1), (4, 3.5)))
    np.testing.assert_allclose(intersection.point.ravel(), [1.0, 0.0], atol=1e-7)
    # 4 w = 1 in W = (w_1 0 + w_2 4) / (w_1 + w_2)
    np.testing.assert_allclose(intersection.weights, [0.75, 0.25], atol=1e-6)
    assert intersection.max_distance <= 1.0


@pytest.mark.parametrize("method", METHODS)
def test_touching_spaces(method):
    intersection = intersect(balls((0, 1), (3, 2 + 1e-9)), method=method)
    assert intersection.found and intersection.max_distance <= 1.0
    np.testing.assert_allclose(intersection.point.ravel(), [1.0, 0.0], atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", FAMILIES)
def test_one_space_and_copies_of_it(method, family):
    space = make_spaces(family)[0]
    copy = GoodEnoughSpace(
        center=space.center.copy(),
        metric=space.metric,
        radius=2 * space.radius,
        epsilon=0.9,
    )
    for spaces in ([space], [space, space], [space, copy, copy]):
        intersection = intersect(spaces, method=method)
        check_proof(spaces, intersection)
        assert intersection.found
        np.testing.assert_allclose(intersection.point, space.center, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("spread", [1e-6, 1e-2])
def test_bounds_meet_for_radii_of_every_size(family, spread):
    spaces = make_spaces(family, n_spaces=5)
    rng = np.random.default_rng(0)
    for _ in range(5):
        shrunk = [
            GoodEnoughSpace(
                center=s.center,
                metric=s.metric,
                radius=s.radius * spread ** rng.uniform(0, 1),
                epsilon=0.9,
            )
            for s in spaces
        ]
        intersection = intersect(shrunk, method="deepest")
        check_proof(shrunk, intersection)
        gap = intersection.max_distance - intersection.lower_bound
        assert gap <= 1e-6 * intersection.max_distance


def test_many_spaces():
    spaces = make_spaces("diagonal", 100, reach=1.5, n_params=10)
    intersection = intersect(spaces, method="deepest")
    check_proof(spaces, intersection)
    gap = intersection.max_distance - intersection.lower_bound
    assert gap <= 1e-6 * intersection.max_distance
    # Larger, so that they meet.
    growth = np.sqrt(1.5 * intersection.max_distance)
    larger = [
        GoodEnoughSpace(
            center=s.center, metric=s.metric, radius=growth * s.radius, epsilon=0.9
        )
        for s in spaces
    ]
    intersection = intersect(larger)
    check_proof(larger, intersection)
    assert intersection.found


def test_outputs_that_only_idle_nodes_know():
    # Nodes 0 and 1 settle the deepest point; output 1 is known to the others only.
    def space(x, precision, radius):
        center = np.array([[x, 10 * x]])
        return GoodEnoughSpace(
            center=center,
            metric=DiagonalMetric(np.array([precision])),
            radius=radius,
            epsilon=0,
        )

    spaces = [
        space(0.0, [1.0, 0.0], 1.0),
        space(4.0, [1.0, 0.0], 1.0),
        space(1.0, [0.0, 1.0], 10.0),
        space(2.0, [0.0, 1.0], 20.0),
    ]
    intersection = intersect(spaces, method="deepest")
    check_proof(spaces, intersection)
    assert intersection.max_distance == pytest.approx(4.0, rel=1e-6)
    assert intersection.point[0, 0] == pytest.approx(2.0)
    np.testing.assert_allclose(intersection.weights, [0.5, 0.5, 0.0, 0.0], atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_parameters_free_everywhere_stay_at_the_mean(method):
    rng = np.random.default_rng(0)
    metric = ball_metric(3, np.array([True, False]))
    spaces = [
        GoodEnoughSpace(
            center=rng.standard_normal((3, 2)), metric=metric, radius=3.0, epsilon=0.9
        )
        for _ in range(3)
    ]
    point = intersect(spaces, method=method).point
    mean = np.mean([space.center for space in spaces], axis=0)
    np.testing.assert_allclose(point[:, 1], mean[:, 1])


# ---- invariances ----------------------------------------------------------

# At each reach both methods, and all families.
every_pair = pytest.mark.parametrize(
    ("method", "family", "reach"),
    [
        ("consensus", "diagonal", 0.5),
        ("consensus", "gram", 1.2),
        ("consensus", "weighted gram", 0.5),
        ("deepest", "diagonal", 1.2),
        ("deepest", "gram", 0.5),
        ("deepest", "weighted gram", 1.2),
    ],
)


@every_pair
def test_order_of_spaces_changes_the_order_of_weights_only(method, family, reach):
    spaces = make_spaces(family, 5, reach=reach)
    order = np.random.default_rng(0).permutation(5)
    intersection = intersect(spaces, method=method)
    permuted = intersect([spaces[k] for k in order], method=method)
    np.testing.assert_allclose(permuted.point, intersection.point, atol=1e-6)
    np.testing.assert_allclose(permuted.weights, intersection.weights[order], atol=1e-6)
    assert {tuple(sorted(order[list(pair)])) for pair in permuted.conflicts} == set(
        intersection.conflicts
    )


@every_pair
def test_units_of_the_parameters_do_not_matter(method, family, reach):
    spaces = make_spaces(family, 4, reach=reach)
    intersection = intersect(spaces, method=method)
    units = np.array([1e-3, 1.0, 20.0, 1e3])[:, None]

    def rescale(space):
        if family == "diagonal":
            metric = DiagonalMetric(space.metric.precision / units**2)
        else:
            gram = space.metric.gram / units / units.T
            metric = GramMetric.from_matrix(gram, space.metric.output_weights)
        return GoodEnoughSpace(
            center=space.center * units, metric=metric, radius=space.radius, epsilon=0.9
        )

    rescaled = intersect([rescale(space) for space in spaces], method=method)
    np.testing.assert_allclose(rescaled.point / units, intersection.point, atol=1e-6)
    np.testing.assert_allclose(rescaled.weights, intersection.weights, atol=1e-6)
    # Nor does the unit of all distances.
    louder = [
        GoodEnoughSpace(
            center=s.center,
            metric=DiagonalMetric(9 * s.metric.precision)
            if family == "diagonal"
            else GramMetric.from_matrix(9 * s.metric.gram, s.metric.output_weights),
            radius=3 * s.radius,
            epsilon=0.9,
        )
        for s in spaces
    ]
    np.testing.assert_allclose(
        intersect(louder, method=method).point, intersection.point, atol=1e-8
    )


def test_results_repeat():
    spaces = make_spaces("gram")
    for method in METHODS:
        first, second = (intersect(spaces, method=method) for _ in range(2))
        np.testing.assert_array_equal(first.point, second.point)


# ---- hinge ----------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_hinge_stops_at_the_mean_where_that_is_inside(family):
    spaces = make_spaces(family, reach=30.0)
    intersection = intersect(spaces, method="hinge")
    check_proof(spaces, intersection)
    mean = np.mean([space.center for space in spaces], axis=0)
    np.testing.assert_allclose(intersection.point, mean)


@pytest.mark.parametrize("family", FAMILIES)
def test_hinge_agrees_whether_there_is_an_intersection(family):
    flags = []
    for seed in range(2):
        for reach in (0.4, 1.1):
            spaces = make_spaces(family, seed=seed, reach=reach)
            intersection = intersect(spaces, method="hinge")
            check_proof(spaces, intersection)
            deepest = intersect(spaces, method="deepest")
            assert intersection.found == deepest.found
            assert intersection.lower_bound == pytest.approx(
                deepest.lower_bound, rel=1e-6
            )
            flags.append(intersection.found)
            if not intersection.found:
                hinge = [
                    sum(max(0.0, s.distance(W) - s.radius) for s in spaces)
                    for W in (intersection.point, deepest.point)
                ]
                assert hinge[0] <= hinge[1] * (1 + 1e-3)
    assert {True, False} == set(flags)


# ---- conflicts ------------------------------------------------------------


def pair_is_empty(one, other):
    return intersect([one, other], method="deepest").lower_bound > 1


@pytest.mark.parametrize("family", FAMILIES)
def test_conflicts_are_the_pairs_that_do_not_meet(family):
    spaces = make_spaces(family, 6, reach=0.4)
    expected = [
        (i, j)
        for i in range(6)
        for j in range(i + 1, 6)
        if pair_is_empty(spaces[i], spaces[j])
    ]
    assert intersect(spaces).conflicts == expected
    assert 0 < len(expected) < 15


def test_spaces_may_meet_in_pairs_and_not_together():
    corners = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, np.sqrt(3.0)]])
    metric = ball_metric(2, np.array([True]))
    spaces = [
        GoodEnoughSpace(center=c[:, None], metric=metric, radius=1.1, epsilon=0.9)
        for c in corners
    ]
    intersection = intersect(spaces)
    assert not intersection.found and intersection.conflicts == []
    assert intersection.lower_bound > 1


# ---- errors ---------------------------------------------------------------


def test_mixed_families_name_the_nodes():
    spaces = [make_spaces("gram")[0], make_spaces("diagonal")[0]]
    with pytest.raises(TypeError, match="0: gram, 1: diagonal"):
        intersect(spaces)


@pytest.mark.parametrize(
    ("spaces", "arguments", "message"),
    [
        ([], {}, "list is empty"),
        (balls((0, 1), (3, 0.0)), {}, "Space 1 has radius 0"),
        ([*balls((0, 1)), *balls((0, 1), n_outputs=2)], {}, "Space 1 has parameters"),
        (balls((0, 1)), {"method": "lucky"}, "method must be one of"),
        (balls((0, 1)), {"tol": 0.0}, "tol"),
        (balls((0, 1)), {"max_iter": 0}, "max_iter"),
        (balls((0, 1)), {"node_weight": [0.0]}, "node_weight"),
        (balls((0, 1)), {"node_weight": [1.0, 1.0]}, "node_weight must hold 1"),
        (balls((0, 1)), {"node_weight": [np.nan]}, "node_weight"),
    ],
)
def test_bad_input(spaces, arguments, message):
    with pytest.raises(ValueError, match=message):
        intersect(spaces, **arguments)
