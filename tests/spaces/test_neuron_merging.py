# SPDX-License-Identifier: BSD-3-Clause
"""Merging of neurons loses and invents none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.neurons import as_matrix, every_geometry, layer, outputs

from skgems.spaces import build_neuron_spaces, merge_neurons, neuron_importances
from skgems.spaces._neuron_pool import NeuronPool

# ---- merging ----------------------------------------------------------------


def spaces_of_nodes(
    n_nodes=3, n_neurons=(6, 8, 5), epsilon=0.3, activation="relu", **options
):
    """The spaces of the neurons of each node, whose rows differ in their mean."""
    spaces = []
    for k in range(n_nodes):
        X, W = layer(n_neurons[k], seed=k, mean=0.5 * k)
        spaces.append(
            build_neuron_spaces(
                X, W, activation, epsilon=epsilon, random_state=0, **options
            )
        )
    return spaces


# Each two values of these together at least once.
LAYERS = [
    (
        ["gram", "ellipsoid", "ball"][(i + j) % 3],
        [None, 4][(i + j) % 2],
        max_units,
        epsilon,
    )
    for i, max_units in enumerate([None, 9, 3, 1])
    for j, epsilon in enumerate([1e-6, 0.7, 3.0])
]


@pytest.mark.parametrize(("geometry", "n_clusters", "max_units", "epsilon"), LAYERS)
def test_every_neuron_is_accounted_for(geometry, n_clusters, max_units, epsilon):
    spaces = spaces_of_nodes(epsilon=epsilon, geometry=geometry)
    spaces[1].sizes[3] = 0.0
    layer = merge_neurons(
        spaces,
        homogeneous=True,
        n_clusters=n_clusters,
        max_units=max_units,
        random_state=0,
    )
    counts = layer.counts()
    assert sum(counts.values()) == 19
    assert counts["dropped"] == 1 and layer.unit[6 + 3] == -1
    assert set(layer.unit) - {-1} == set(range(layer.n_units))
    assert max_units is None or layer.n_units <= max_units
    assert np.isfinite(layer.W).all()
    if epsilon == 1e-6:
        assert counts["merged"] == 0
        assert max_units is not None or layer.n_units == 18
    assert_units_of_one_neuron_are_that_neuron(layer, spaces)


def assert_units_of_one_neuron_are_that_neuron(layer, spaces):
    """A neuron that is merged with no other keeps its weights and its scale."""
    centers = np.hstack([space.centers for space in spaces])
    for unit in range(layer.n_units):
        members = np.flatnonzero(layer.unit == unit)
        if len(members) == 1:
            np.testing.assert_array_equal(layer.W[:, unit], centers[:, members[0]])
            assert layer.factor[members[0]] == 1


def distances(spaces, w):
    """The distance of one weight vector to every center, (n_neurons,)."""
    delta = w[:, None] - spaces.centers
    return np.sqrt(np.sum(delta * (as_matrix(spaces.precision) @ delta), axis=0))


@every_geometry
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_merged_units_are_in_the_spaces_of_all_their_members(geometry, activation):
    spaces = spaces_of_nodes(epsilon=2.0, geometry=geometry, activation=activation)
    layer = merge_neurons(spaces, homogeneous=activation == "relu")
    assert layer.counts()["merged"] > 0
    start = 0
    for space in spaces:
        for neuron in range(space.centers.shape[1]):
            unit, factor = layer.unit[start + neuron], layer.factor[start + neuron]
            # What the node sees of the unit is the unit times the factor.
            distance = distances(space, factor * layer.W[:, unit])[neuron]
            assert distance <= space.radii[neuron] * (1 + 1e-6)
        start += space.centers.shape[1]


def test_spaces_that_meet_aside_of_the_cheapest_point_are_found():
    X, _ = layer()
    one = build_neuron_spaces(X, np.zeros((6, 1)) + 1.0, "tanh", epsilon=1.0)
    far_centers = one.centers + 1.0
    gap = distances(one, far_centers[:, 0])[0]
    for share, units in ((1.01, 1), (0.99, 2)):
        small = build_neuron_spaces(X, one.centers, "tanh", epsilon=1.0)
        large = build_neuron_spaces(X, far_centers, "tanh", epsilon=1.0)
        small.radii[:] = 0.1 * share * gap
        large.radii[:] = 0.9 * share * gap
        assert merge_neurons([small, large]).n_units == units


def test_forced_merges_take_the_cheapest_first():
    X, W = layer(4)
    near = W + 1e-3 * np.array([1.0, 3.0, 9.0, 27.0])
    spaces = [
        build_neuron_spaces(X, weights, "tanh", epsilon=1e-9) for weights in (W, near)
    ]
    for n_units, pairs in ((7, [0]), (6, [0, 1]), (5, [0, 1, 2]), (4, [0, 1, 2, 3])):
        layer_ = merge_neurons(spaces, max_units=n_units)
        assert layer_.n_units == n_units
        together = np.flatnonzero(layer_.unit[:4] == layer_.unit[4:])
        np.testing.assert_array_equal(together, pairs)
        assert layer_.counts()["forced"] == 2 * len(pairs)


def test_one_metric_makes_units_the_mean_of_their_members():
    X, W = layer()
    other = W + 0.01 * np.random.default_rng(0).standard_normal(W.shape)
    spaces = [build_neuron_spaces(X, w, "tanh", epsilon=0.2) for w in (W, other)]
    merged = merge_neurons(spaces)
    assert merged.n_units == 6
    np.testing.assert_array_equal(merged.unit[:6], merged.unit[6:])
    np.testing.assert_allclose(merged.W[:, merged.unit[:6]], (W + other) / 2)


def test_scaled_copies_of_a_relu_neuron_are_one():
    X, W = layer()
    scales = np.array([0.01, 0.1, 1.0, 3.0, 10.0, 100.0])
    spaces = [build_neuron_spaces(X, w, "relu", epsilon=1e-4) for w in (W, W * scales)]
    merged = merge_neurons(spaces, homogeneous=True)
    assert merged.n_units == 6
    V = np.random.default_rng(0).standard_normal((6, 3))
    for k, w in enumerate((W, W * scales)):
        np.testing.assert_allclose(
            outputs(X, merged.W, "relu") @ merged.outgoing(k, V),
            outputs(X, w, "relu") @ V,
            atol=1e-8,
        )
    assert merge_neurons(spaces, homogeneous=False).n_units > 6


def grouped(spaces, merged, importances=None):
    """Precisions, centers and masses of the members of each unit."""
    centers = np.hstack([space.centers for space in spaces])
    masses = np.ones(len(merged.node))
    if importances is not None:
        masses = np.concatenate([a / a.mean() for a in importances])
    for unit in range(merged.n_units):
        members = np.flatnonzero(merged.unit == unit)
        precisions = [as_matrix(spaces[k].precision) for k in merged.node[members]]
        yield unit, precisions, centers[:, members], masses[members]


def cost_of_merging(w, precisions, centers, masses):
    """The weighted squared distances of a unit to the centers of its members."""
    return sum(
        a * (w - v) @ P @ (w - v)
        for P, v, a in zip(precisions, centers.T, masses, strict=True)
    )


@every_geometry
@pytest.mark.parametrize("weighed", [False, True])
def test_units_are_the_points_that_move_their_members_least(geometry, weighed):
    rng = np.random.default_rng(0)
    spaces = spaces_of_nodes(epsilon=1e-9, geometry=geometry)
    importances = None
    if weighed:
        importances = [rng.uniform(0.1, 5, space.centers.shape[1]) for space in spaces]
    merged = merge_neurons(spaces, importances=importances, max_units=5)
    assert merged.counts()["forced"] > 10
    for unit, precisions, centers, masses in grouped(spaces, merged, importances):
        pulls = sum(
            a * P @ v for P, v, a in zip(precisions, centers.T, masses, strict=True)
        )
        total = sum(a * P for P, a in zip(precisions, masses, strict=True))
        best = np.linalg.solve(total, pulls)
        least = cost_of_merging(best, precisions, centers, masses)
        cost = cost_of_merging(merged.W[:, unit], precisions, centers, masses)
        assert cost <= least * (1 + 2e-4) + 1e-12


def test_the_cheapest_pair_of_two_nodes_is_merged_first():
    spaces = spaces_of_nodes(n_nodes=2, epsilon=1e-9)
    merged = merge_neurons(spaces, max_units=13)
    (together,) = np.flatnonzero(np.bincount(merged.unit) == 2)
    costs = {}
    for i in range(14):
        for j in range(i):
            k, l_ = int(i >= 6), int(j >= 6)
            P, Q = (np.linalg.inv(spaces[n].precision) for n in (k, l_))
            delta = np.hstack([s.centers for s in spaces])[:, [i, j]] @ [1, -1]
            costs[j, i] = delta @ np.linalg.solve(P + Q, delta)
    assert tuple(np.flatnonzero(merged.unit == together)) == min(costs, key=costs.get)


@every_geometry
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_costs_of_all_pairs_whatever_the_size_of_a_nodes_rows(geometry, size):
    X, W = layer(4)
    Z, V = layer(5, seed=1)
    spaces = [
        build_neuron_spaces(rows, weights, "tanh", epsilon=0.1, geometry=geometry)
        for rows, weights in ((X, W), (size * Z, V / size))
    ]
    pool = NeuronPool(spaces, homogeneous=False)
    costs = pool.pair_costs(np.arange(9))
    np.testing.assert_array_equal(costs, costs.T)
    one, other = np.triu_indices(9, 1)
    centers = np.hstack([space.centers for space in spaces])
    inverses = [np.linalg.inv(as_matrix(space.precision)) for space in spaces]
    for i, j, cost in zip(one, other, costs[one, other], strict=True):
        delta = centers[:, i] - centers[:, j]
        sum_of_inverses = inverses[int(i >= 4)] + inverses[int(j >= 4)]
        assert cost == pytest.approx(
            delta @ np.linalg.solve(sum_of_inverses, delta), rel=1e-6
        )


def test_order_of_neurons_only_orders_the_units():
    spaces = spaces_of_nodes(epsilon=0.6)
    order = np.random.default_rng(0).permutation(8)
    X, W = layer(8, seed=1, mean=0.5)
    shuffled = [
        spaces[0],
        build_neuron_spaces(X, W[:, order], "relu", epsilon=0.6, random_state=0),
        spaces[2],
    ]
    for options in ({}, {"max_units": 5}, {"n_clusters": 3, "random_state": 0}):
        one = merge_neurons(spaces, homogeneous=True, **options)
        other = merge_neurons(shuffled, homogeneous=True, **options)
        columns = [np.sort(np.round(layer_.W, 8), axis=1) for layer_ in (one, other)]
        np.testing.assert_allclose(*columns)


@every_geometry
def test_a_node_may_have_no_neurons_and_a_layer_keeps_one(geometry):
    X, W = layer()
    options = {"epsilon": 0.1, "geometry": geometry}
    spaces = [build_neuron_spaces(X, w, "relu", **options) for w in (W[:, :0], W)]
    merged = merge_neurons(spaces, homogeneous=True)
    assert set(merged.node) == {1}
    np.testing.assert_array_equal(merged.outgoing(0, np.zeros((0, 2))), 0)
    W[-1] = -1e3
    dead = [build_neuron_spaces(X, W, "relu", epsilon=0.1)]
    assert merge_neurons(dead, homogeneous=True).n_units == 6


def test_sampled_radii_do_not_depend_on_the_zero_of_the_inputs():
    X, W = layer()
    shift = np.linspace(-30, 30, X.shape[1])
    shifted_weights = np.vstack([W[:-1], W[-1] - shift @ W[:-1]])
    radii, shifted_radii = (
        build_neuron_spaces(
            rows, weights, "tanh", epsilon=0.3, n_directions=20, random_state=0
        ).radii
        for rows, weights in ((X, W), (X + shift, shifted_weights))
    )
    np.testing.assert_allclose(radii, shifted_radii, rtol=1e-6)


# ---- importance -------------------------------------------------------------


def far_and_near(gap=1.0):
    """One node with three neurons: the first two are nearer to each other."""
    X, _ = layer()
    W = np.zeros((6, 3))
    W[0] = [0.0, gap, 3.0 * gap]
    return build_neuron_spaces(X, W + 0.5, "tanh", epsilon=1e-9)


def test_a_neuron_that_matters_little_is_merged_before_a_nearer_one():
    spaces = far_and_near()

    def pair(*importances):
        unit = merge_neurons(
            [spaces], importances=[np.array(importances)], max_units=2
        ).unit
        return [i for i in range(3) if np.sum(unit == unit[i]) == 2]

    assert pair(1.0, 1.0, 1.0) == [0, 1]
    assert pair(1.0, 1.0, 0.05) == [1, 2]
    # Half the mass of a pair's lighter neuron decides, not that of one of them.
    assert pair(9.0, 1.0, 1.0) == [0, 1]


def test_the_merged_unit_is_near_the_neuron_that_matters():
    spaces = far_and_near()
    masses = np.array([3.0, 1.0, 0.0])
    merged = merge_neurons([spaces], importances=[masses], max_units=1)
    # What does not matter counts a thousandth of the mean.
    masses = np.maximum(masses / masses.mean(), 1e-3)
    np.testing.assert_allclose(
        merged.W[:, 0], spaces.centers @ masses / masses.sum(), rtol=1e-12
    )


def test_how_large_a_nodes_logits_are_does_not_matter():
    spaces = spaces_of_nodes(epsilon=0.3)
    rng = np.random.default_rng(0)
    importances = [rng.uniform(0.1, 5, space.centers.shape[1]) for space in spaces]
    one = merge_neurons(spaces, homogeneous=True, importances=importances, max_units=6)
    other = merge_neurons(
        spaces, homogeneous=True, max_units=6,
        importances=[a * s for a, s in zip(importances, (1e-3, 1, 1e4), strict=True)],
    )  # fmt: skip
    np.testing.assert_array_equal(one.unit, other.unit)
    np.testing.assert_allclose(one.W, other.W, rtol=1e-9)
    # And they are not just left out.
    plain = merge_neurons(spaces, homogeneous=True, max_units=6)
    assert np.any(plain.unit != one.unit)


@pytest.mark.parametrize("zero", ["one neuron", "one node", "all"])
def test_neurons_without_importance_are_merged_like_others(zero):
    spaces = spaces_of_nodes(epsilon=1e-9)
    importances = [np.ones(space.centers.shape[1]) for space in spaces]
    if zero == "one neuron":
        importances[1][3] = 0.0
    else:
        for of_node in importances[: 1 if zero == "one node" else 3]:
            of_node[:] = 0.0
    merged = merge_neurons(spaces, importances=importances, max_units=4)
    assert merged.n_units == 4 and np.isfinite(merged.W).all()
    if zero == "all":
        plain = merge_neurons(spaces, max_units=4)
        np.testing.assert_allclose(merged.W, plain.W)


@pytest.mark.parametrize("homogeneous", [True, False])
def test_importance_is_how_far_the_outputs_move(homogeneous):
    """As a neuron moves by a part of itself, or by a change of the pre-activation."""
    X, W = layer()
    V = np.random.default_rng(3).standard_normal((6, 4))
    spaces = build_neuron_spaces(X, W, "identity", epsilon=0.1)
    importances = neuron_importances(spaces, V, homogeneous=homogeneous)
    for i in range(6):
        pre = X @ W[:-1, i] + W[-1, i]
        activation_changes = pre if homogeneous else np.ones(len(X))
        expected = np.mean(np.sum(np.outer(activation_changes, V[i]) ** 2, axis=1))
        assert importances[i] == pytest.approx(expected)
    if homogeneous:  # in by a factor, out by its inverse: the same neuron
        factors = np.array([1e-3, 0.1, 1, 2, 10, 1e4])
        scaled = build_neuron_spaces(X, W * factors, "identity", epsilon=0.1)
        importances_of_scaled = neuron_importances(
            scaled, V / factors[:, None], homogeneous=True
        )
        np.testing.assert_allclose(importances, importances_of_scaled)


def test_neither_the_order_of_nodes_nor_of_neurons_matters_with_copies():
    rng = np.random.default_rng(0)
    spaces = spaces_of_nodes(epsilon=1e-9)
    # Copies of some neurons: ties.
    spaces = [
        replace(space, **{
            name: np.concatenate([getattr(space, name)] * 2, axis=-1)
            for name in ("centers", "radii", "sizes")
        })
        for space in spaces
    ]  # fmt: skip
    importances = [np.tile(rng.uniform(0.1, 5, s.radii.size // 2), 2) for s in spaces]
    one = merge_neurons(spaces, homogeneous=True, importances=importances, max_units=7)
    orders = [rng.permutation(space.radii.size) for space in spaces]
    turned = [2, 0, 1]
    shuffled = [
        replace(spaces[k], centers=spaces[k].centers[:, orders[k]],
                radii=spaces[k].radii[orders[k]], sizes=spaces[k].sizes[orders[k]])
        for k in turned
    ]  # fmt: skip
    other = merge_neurons(
        shuffled, homogeneous=True, max_units=7,
        importances=[importances[k][orders[k]] for k in turned],
    )  # fmt: skip
    np.testing.assert_allclose(one.W, other.W, rtol=1e-7, atol=1e-9)
    starts = np.cumsum([0, *(space.radii.size for space in spaces)])
    where = np.concatenate([starts[k] + orders[k] for k in turned])
    np.testing.assert_array_equal(one.unit[where], other.unit)


# ---- many nodes -------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.0, 1e4])
@pytest.mark.parametrize("hidden", [False, True])
def test_points_of_many_nodes_are_those_of_least_cost(shift, hidden):
    """Far from zero, and where nodes do not see all inputs."""
    rng = np.random.default_rng(0)
    spaces = []
    for k in range(6):
        X = rng.standard_normal((30, 20)) @ rng.standard_normal((20, 20)) + shift
        if hidden:
            X[:, 3 * k : 3 * k + 2] = shift
        W = rng.standard_normal((21, 5))
        W[-1] -= shift * W[:-1].sum(axis=0)
        spaces.append(build_neuron_spaces(X, W, "relu", epsilon=1e-9))
    pool = NeuronPool(spaces, homogeneous=True)
    groups = [rng.choice(30, size, replace=False) for size in (1, 2, 2, 5, 12, 30)]
    points = pool.consensus(groups)
    for point, members in zip(points.T, groups, strict=True):
        precisions = [pool.precisions[k] for k in pool.node[members]]
        centers = pool.centers[:, members].T
        # Weights as changes of the first center: rounding is that of the shift.
        pulls = sum(
            P @ (v - centers[0]) for P, v in zip(precisions, centers, strict=True)
        )
        best = centers[0] + np.linalg.solve(sum(precisions), pulls)
        costs = [
            sum((w - v) @ P @ (w - v) for P, v in zip(precisions, centers, strict=True))
            for w in (point, best)
        ]
        assert costs[0] <= costs[1] * 1.001 + 1e-6


@every_geometry
def test_metrics_that_differ_in_their_inputs_only_are_diagonal_together(geometry):
    """Where they are so in one basis, costs are exact for any number of nodes."""
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((4, 4))
    spaces = []
    for k in range(4):
        X, W = layer(4, n_inputs=4, seed=k)
        space = build_neuron_spaces(X, W, "relu", epsilon=0.1, geometry=geometry)
        if geometry == "gram":
            scales = rng.uniform(0.1, 3.0, 4)
            P = np.eye(5)
            P[:4, :4] = mixing.T @ np.diag(scales) @ mixing
            space = replace(space, precision=P)
        spaces.append(space)
    pool = NeuronPool(spaces, homogeneous=False)
    costs = pool.pair_costs(np.arange(16))
    inverses = [np.linalg.inv(as_matrix(space.precision)) for space in spaces]
    for i in range(16):
        for j in range(i):
            delta = pool.centers[:, i] - pool.centers[:, j]
            sum_of_inverses = inverses[i // 4] + inverses[j // 4]
            expected = delta @ np.linalg.solve(sum_of_inverses, delta)
            assert costs[i, j] == pytest.approx(expected, rel=1e-6)


def test_moments_that_no_node_completes_ask_for_a_ridge():
    X, W = layer()
    X1 = np.column_stack([np.round(8 * X), np.ones(len(X))])
    X1[:, 1] = X1[:, 0]
    spaces = [
        replace(
            build_neuron_spaces(X, w, "relu", epsilon=0.1),
            precision=X1.T @ X1 / len(X1),
        )
        for w in (W, W + 1)
    ]
    with pytest.raises(ValueError, match="geometry of hidden_layers a larger ridge"):
        merge_neurons(spaces)
