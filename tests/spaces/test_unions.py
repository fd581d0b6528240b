# SPDX-License-Identifier: BSD-3-Clause
"""One point in a space of every node, where nodes have several, against all choices."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest

from skgems.spaces import (
    GoodEnoughSpace,
    GramMetric,
    ball_metric,
    ellipsoid_metric,
    gram_metric,
    intersect,
    intersect_unions,
    squared_norm,
)

KINDS = ("ball", "ellipsoid", "gram", "free")


def metric_of(kind: str, rng, n_features: int = 2):
    """A metric of two outputs; of "free" an output counts nothing at some nodes."""
    X = rng.standard_normal((12, n_features)) * rng.uniform(0.3, 2.0, n_features)
    if kind == "gram":
        return gram_metric(X, ridge=0.1)
    if kind == "ellipsoid":
        p = rng.uniform(0.1, 0.9, 12)
        return ellipsoid_metric(X, np.stack([p, 1.0 - p], axis=1))
    outputs = np.array([True, kind == "ball" or rng.random() < 0.5])
    return ball_metric(n_features + 1, outputs)


def random_unions(seed: int, kind: str, reach: float, sizes=(2, 2, 3)):
    """Nodes of one metric each, whose spaces lie around random models."""
    rng = np.random.default_rng(seed)
    unions = []
    for size in sizes:
        metric = metric_of(kind, rng)
        centers = rng.standard_normal((size, 3, 2)) * 2.0
        typical = np.sqrt(squared_norm(metric, rng.standard_normal((20, 3, 2))).mean())
        radii = reach * typical * rng.uniform(0.7, 1.3, size)
        pairs = zip(centers, radii, strict=True)
        unions.append(
            [
                GoodEnoughSpace(center=W, metric=metric, radius=r, epsilon=0.9)
                for W, r in pairs
            ]
        )
    return unions


def deepest_of_all_choices(unions) -> list:
    """The deepest point of every choice."""
    return [intersect(choice, method="deepest") for choice in product(*unions)]


@pytest.mark.parametrize(
    ("reach", "kind"),
    [
        *[(reach, kind) for reach in (0.6, 2.4) for kind in KINDS],
        (1.4, "gram"),
        *[
            pytest.param(1.4, kind, marks=pytest.mark.slow)
            for kind in ("ball", "ellipsoid", "free")
        ],
    ],
)
def test_search_finds_what_all_choices_have(kind, reach):
    for seed in range(2):
        unions = random_unions(seed, kind, reach)
        union_intersection = intersect_unions(unions)
        of_choices = deepest_of_all_choices(unions)
        assert union_intersection.found == any(one.found for one in of_choices)
        assert union_intersection.empty == all(one.empty for one in of_choices)
        chosen = [
            spaces[i]
            for spaces, i in zip(unions, union_intersection.choice, strict=True)
        ]
        inside = all(space.contains(union_intersection.point) for space in chosen)
        assert inside == union_intersection.found


def test_both_answers_occur():
    """What the test above compares is not all found, or all empty."""
    union_intersections = [
        intersect_unions(random_unions(seed, kind, reach))
        for kind in KINDS
        for reach in (0.6, 1.4, 2.4)
        for seed in range(4)
    ]
    n_found = sum(
        union_intersection.found for union_intersection in union_intersections
    )
    assert 10 < n_found < len(union_intersections) - 10
    # And of those found some are not of the first spaces.
    assert any(
        union_intersection.found and any(union_intersection.choice)
        for union_intersection in union_intersections
    )


@pytest.mark.parametrize("kind", KINDS)
def test_no_point_is_in_what_is_proved_empty(kind):
    for seed in range(6):
        unions = random_unions(seed, kind, 0.9)
        if not intersect_unions(unions).empty:
            continue
        for spaces in unions:
            for space in spaces:
                models = space.sample(300, random_state=0, surface=False)
                inside = np.ones(len(models), dtype=bool)
                for others in unions:
                    inside &= np.any([s.contains(models) for s in others], axis=0)
                assert not inside.any()


def test_spaces_that_meet_two_by_two_only_are_proved_empty():
    """No pair of discs on a triangle's corners proves it, the dual of three does."""
    metric = ball_metric(2, np.array([True]))
    corners = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, np.sqrt(3.0)]])
    unions = [
        [
            GoodEnoughSpace(
                center=(corner + offset)[:, None],
                metric=metric,
                radius=1.1,
                epsilon=0.9,
            )
            for offset in (0, 50)
        ]
        for corner in corners
    ]
    union_intersection = intersect_unions(unions)
    assert union_intersection.empty and not union_intersection.intersection.conflicts
    wider = [[replace(space, radius=1.2) for space in spaces] for spaces in unions]
    assert intersect_unions(wider).found


@pytest.mark.parametrize("kind", KINDS)
def test_pruning_looks_at_fewer_choices_than_there_are(kind):
    for seed, reach in product(range(1), (0.5, 1.0)):
        unions = random_unions(seed, kind, reach, sizes=(4,) * 6)
        union_intersection = intersect_unions(unions)
        assert union_intersection.found or union_intersection.empty
        assert (
            union_intersection.n_searched < prod(len(spaces) for spaces in unions) / 10
        )


def test_a_hidden_choice_among_a_million_is_found():
    """Of ten nodes with four spaces each, one space of every node holds one model."""
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((3, 2))
    unions = []
    places = []
    for _ in range(10):
        metric = metric_of("gram", rng)
        centers = hidden + 20.0 * rng.standard_normal((4, 3, 2))
        places.append(int(rng.integers(4)))
        centers[places[-1]] = hidden
        radii = 0.05 * np.sqrt(squared_norm(metric, centers - centers.mean(axis=0)))
        pairs = zip(centers, radii, strict=True)
        unions.append(
            [
                GoodEnoughSpace(center=W, metric=metric, radius=r, epsilon=0.9)
                for W, r in pairs
            ]
        )
    union_intersection = intersect_unions(unions)
    assert union_intersection.found and union_intersection.choice == tuple(places)
    assert union_intersection.n_searched < 200


@pytest.mark.parametrize("kind", KINDS)
def test_order_of_nodes_and_of_their_spaces_does_not_matter(kind):
    rng = np.random.default_rng(1)
    for seed, reach in product(range(2), (0.8, 1.3, 1.8)):
        unions = random_unions(seed, kind, reach)
        union_intersection = intersect_unions(unions)
        for _ in range(2):
            shuffled = [
                [spaces[i] for i in rng.permutation(len(spaces))] for spaces in unions
            ]
            shuffled = [shuffled[k] for k in rng.permutation(len(unions))]
            other = intersect_unions(shuffled)
            assert (other.found, other.empty) == (
                union_intersection.found,
                union_intersection.empty,
            )


def test_one_space_a_node_is_as_without_unions():
    for seed, reach in product(range(4), (0.8, 2.4)):
        first_spaces = [spaces[0] for spaces in random_unions(seed, "gram", reach)]
        one = intersect(first_spaces)
        union_intersection = intersect_unions([[space] for space in first_spaces])
        assert union_intersection.choice == (0, 0, 0)
        assert (union_intersection.found, union_intersection.empty) == (
            one.found,
            one.empty,
        )
        np.testing.assert_array_equal(union_intersection.point, one.point)


def test_the_limit_leaves_it_undecided():
    empty = next(
        unions
        for seed in range(50)
        if (unions := random_unions(seed, "gram", 1.0, sizes=(3,) * 4))
        and intersect_unions(unions).empty
    )
    unlimited = intersect_unions(empty)
    limited = intersect_unions(empty, max_nodes=2)
    assert not limited.found and not limited.empty and limited.n_searched == 2
    # A limit that is just reached does not undo a proof.
    assert intersect_unions(empty, max_nodes=unlimited.n_searched).empty
    assert not intersect_unions(empty, max_nodes=unlimited.n_searched - 1).empty


def test_what_all_but_touches_is_not_decided_or_found():
    metric = ball_metric(1, np.array([True]))
    unions = [
        [
            GoodEnoughSpace(
                center=np.array([[0.1 * k]]), metric=metric, radius=0.05, epsilon=0.9
            )
        ]
        for k in range(2)
    ]
    assert not intersect_unions(unions).empty


@pytest.mark.parametrize("method", ["consensus", "deepest", "hinge"])
def test_methods_and_weights_are_those_of_intersect(method):
    unions = random_unions(0, "gram", 3.0)
    weight = [1.0, 5.0, 1.0]
    union_intersection = intersect_unions(unions, method=method, node_weight=weight)
    chosen = [
        spaces[i] for spaces, i in zip(unions, union_intersection.choice, strict=True)
    ]
    of_chosen = intersect(chosen, method=method, node_weight=weight)
    assert union_intersection.found and union_intersection.intersection.method == method
    np.testing.assert_array_equal(union_intersection.point, of_chosen.point)


def test_wrong_input_names_the_node():
    unions = random_unions(0, "ball", 1.0, sizes=(3, 2, 4))
    with pytest.raises(ValueError, match="There is no space to intersect"):
        intersect_unions([])
    with pytest.raises(ValueError, match="Node 1 has no space"):
        intersect_unions([unions[0], [], unions[2]])
    with pytest.raises(TypeError, match="Node 0 has one space"):
        intersect_unions(unions[0])
    without_radius = [
        unions[0],
        unions[1],
        [*unions[2], replace(unions[2][0], radius=0.0)],
    ]
    with pytest.raises(ValueError, match="Space 4 of node 2 has radius 0"):
        intersect_unions(without_radius)
    of_other_shape = GoodEnoughSpace(
        center=np.zeros((2, 2)),
        metric=ball_metric(2, np.ones(2, bool)),
        radius=1.0,
        epsilon=0.9,
    )
    with pytest.raises(ValueError, match=r"Space 2 of node 1 has parameters \(2, 2\)"):
        intersect_unions([unions[0], [*unions[1], of_other_shape], unions[2]])
    of_other_family = GoodEnoughSpace(
        center=np.zeros((3, 2)),
        metric=GramMetric(scatter=np.eye(2), mean=np.zeros(2)),
        radius=1.0,
        epsilon=1,
    )
    with pytest.raises(TypeError, match="2 of node 1: gram"):
        intersect_unions([unions[0], [*unions[1], of_other_family], unions[2]])
    with pytest.raises(ValueError, match="max_nodes"):
        intersect_unions(unions, max_nodes=0)
    with pytest.raises(ValueError, match="method must be one of"):
        intersect_unions(unions, method="mean")
