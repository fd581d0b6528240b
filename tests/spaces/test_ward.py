# SPDX-License-Identifier: BSD-3-Clause
"""Ward's tree with masses is that of the definition, whatever the order of points."""

from __future__ import annotations

from operator import itemgetter

import numpy as np
import pytest

from skgems.spaces._neuron_merging import ward_tree


def points(n=12, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 3)), rng.uniform(0.01, 10.0, n)


def costs_of(x, masses):
    squares = np.sum((x[:, None] - x) ** 2, axis=2)
    return squares * masses[:, None] * masses / (masses[:, None] + masses)


def partitions(children, n_points):
    """The sets of points that exist after each join."""
    members = {i: frozenset([i]) for i in range(n_points)}
    for t, (a, b) in enumerate(children):
        members[n_points + t] = members.pop(a) | members.pop(b)
        yield set(members.values())


def test_each_step_joins_what_adds_least_to_the_weighed_squares():
    x, masses = points()
    children, heights = ward_tree(costs_of(x, masses), masses)
    groups = [[i] for i in range(len(x))]
    for height, partition in zip(heights, partitions(children, len(x)), strict=True):

        def spread(members):
            mean = np.average(x[members], axis=0, weights=masses[members])
            return np.sum(masses[members] * np.sum((x[members] - mean) ** 2, axis=1))

        added = {
            (i, j): spread(groups[i] + groups[j])
            - spread(groups[i])
            - spread(groups[j])
            for i in range(len(groups))
            for j in range(i)
        }
        i, j = min(added, key=added.get)
        assert height == pytest.approx(added[i, j])
        groups[j] = groups[j] + groups.pop(i)
        assert partition == {frozenset(members) for members in groups}


def test_costs_that_are_no_squared_distances_are_joined_cheapest_first():
    rng = np.random.default_rng(1)
    costs = rng.exponential(size=(20, 20))
    masses = rng.uniform(0.1, 3, 20)
    costs += costs.T
    children, heights = ward_tree(costs.copy(), masses)
    assert np.all(np.diff(heights) >= 0)
    # The definition: look at all pairs in each step.
    cost_of_pair = {(i, j): costs[i, j] for i in range(20) for j in range(i)}
    weights = dict(enumerate(masses))
    for t, (pair, height) in enumerate(zip(children, heights, strict=True)):
        (i, j), least = min(cost_of_pair.items(), key=itemgetter(1))
        assert {i, j} == set(pair) and height == pytest.approx(least)
        a, b = weights.pop(i), weights.pop(j)
        cost = cost_of_pair.pop((i, j))
        for k, c in weights.items():
            ik, jk = (cost_of_pair.pop((max(p, k), min(p, k))) for p in (i, j))
            cost_of_pair[20 + t, k] = ((a + c) * ik + (b + c) * jk - c * cost) / (
                a + b + c
            )
        weights[20 + t] = a + b


def test_the_order_of_points_does_not_matter():
    x, masses = points()
    order = np.random.default_rng(2).permutation(len(x))
    joins, _ = ward_tree(costs_of(x, masses), masses)
    joins_of_shuffled, _ = ward_tree(costs_of(x[order], masses[order]), masses[order])
    for partition, partition_of_shuffled in zip(
        partitions(joins, len(x)), partitions(joins_of_shuffled, len(x)), strict=True
    ):
        assert partition == {
            frozenset(order[list(group)]) for group in partition_of_shuffled
        }


@pytest.mark.parametrize("n", [1, 2])
def test_few_points(n):
    children, heights = ward_tree(np.full((n, n), 3.0), np.ones(n))
    assert children.shape == (n - 1, 2) and list(heights) == [3.0] * (n - 1)


def test_copies_are_joined_first_and_cost_nothing():
    x, masses = points(8)
    twice = np.vstack([x, x])
    masses_twice = np.append(masses, masses)
    children, heights = ward_tree(costs_of(twice, masses_twice), masses_twice)
    assert sorted(tuple(sorted(pair)) for pair in children[:8]) == [
        (i, i + 8) for i in range(8)
    ]
    np.testing.assert_array_equal(heights[:8], 0)
