# SPDX-License-Identifier: BSD-3-Clause
"""Means of matched units, and matching again what was trained from a merged network."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.networks import Layers
from skgems.pfnm import match_again, match_networks, merged_layers
from skgems.pfnm._network import nodes_per_class

SETTINGS = {"gamma0": [1.0, 1.0], "max_units": [None, None], "random_state": 0}
N_NODES, N_CLASSES = 3, 4
SHARE = np.full((N_NODES, N_CLASSES), 1 / N_NODES)


def first_match(order):
    rng = np.random.default_rng(0)
    sizes = (5, 6, 5, N_CLASSES)
    pairs = list(zip(sizes[:-1], sizes[1:], strict=True))
    coefs = [tuple(rng.standard_normal(p) for p in pairs) for _ in range(N_NODES)]
    intercepts = [
        tuple(rng.standard_normal(p[1]) for p in pairs) for _ in range(N_NODES)
    ]
    match = match_networks(
        networks(coefs, intercepts), SHARE, sigma=[0.5, 0.5], sigma0=[1.0, 0.7],
        layer_order=order, **SETTINGS,
    )  # fmt: skip
    return match, rng


def networks(coefs, intercepts):
    pairs = zip(coefs, intercepts, strict=True)
    return [Layers(W, b, ("relu", "tanh")) for W, b in pairs]


def matched_again(match, coefs, intercepts, order):
    trained = networks(coefs, intercepts)
    return match_again(trained, SHARE, merged=match, layer_order=order, **SETTINGS)


@pytest.mark.parametrize("order", ["bottom_up", "top_down"])
def test_a_change_that_all_nodes_make_is_taken_whole(order):
    match, rng = first_match(order)
    merged = merged_layers(match)
    assert merged.activation == ("relu", "tanh")
    coefs = [W + 0.05 * rng.standard_normal(W.shape) for W in merged.coefs]
    intercepts = [b + 0.05 * rng.standard_normal(b.shape) for b in merged.intercepts]
    # Each node may have its units in another order.
    coefs_of_nodes = []
    intercepts_of_nodes = []
    for _ in range(N_NODES):
        W = list(coefs)
        b = list(intercepts)
        for layer in range(2):
            units = rng.permutation(W[layer].shape[1])
            W[layer] = W[layer][:, units]
            b[layer] = b[layer][units]
            W[layer + 1] = W[layer + 1][units]
        coefs_of_nodes.append(tuple(W))
        intercepts_of_nodes.append(tuple(b))
    merged_again = merged_layers(
        matched_again(match, coefs_of_nodes, intercepts_of_nodes, order)
    )
    for array, expected in zip(
        [*merged_again.coefs, *merged_again.intercepts],
        [*coefs, *intercepts],
        strict=True,
    ):
        np.testing.assert_allclose(array, expected, atol=1e-10)


def test_changes_are_averaged_and_a_strange_unit_stays_alone():
    match, rng = first_match("bottom_up")
    merged = merged_layers(match)
    coefs = merged.coefs
    intercepts_of_nodes = [tuple(merged.intercepts)] * N_NODES
    changes = 0.05 * rng.standard_normal((N_NODES, *coefs[0].shape))
    coefs_of_nodes = [(coefs[0] + change, *coefs[1:]) for change in changes]
    new = matched_again(match, coefs_of_nodes, intercepts_of_nodes, "bottom_up")
    np.testing.assert_allclose(
        merged_layers(new).coefs[0], coefs[0] + changes.mean(axis=0), atol=1e-10
    )
    coefs_of_nodes[0][0][:, 0] = 40.0
    strange = matched_again(match, coefs_of_nodes, intercepts_of_nodes, "bottom_up")
    n_units = len(match.layers[0].atoms)
    assert len(strange.layers[0].atoms) == n_units + 1
    atoms_of_first, *atoms_of_others = strange.layers[0].assignments
    assert all(atoms_of_first[0] not in atoms for atoms in atoms_of_others)


def test_changes_count_alike_whatever_units_add_to_the_outputs():
    match, rng = first_match("bottom_up")
    merged = merged_layers(match)
    coefs = merged.coefs
    changes = 0.05 * rng.standard_normal((N_NODES, *coefs[1].shape))
    coefs_of_nodes = [
        (coefs[0], coefs[1] + change, factor * coefs[2])
        for change, factor in zip(changes, (0.98, 1.0, 1.02), strict=True)
    ]
    again = matched_again(
        match, coefs_of_nodes, [tuple(merged.intercepts)] * N_NODES, "bottom_up"
    )
    np.testing.assert_allclose(
        merged_layers(again).coefs[1], coefs[1] + changes.mean(axis=0), atol=1e-10
    )


def one_unit(incoming, outgoing):
    """A network of one hidden unit, without biases."""
    coefs = [np.array(incoming)[:, None], np.array(outgoing)[None, :]]
    return Layers(coefs, [np.zeros(1), np.zeros(len(outgoing))], ("relu",))


def merged_unit(outgoing, share=((0.5, 0.5), (0.5, 0.5))):
    """Incoming weights of the one unit made from units at (1, 0) and (0, 1)."""
    match = match_networks(
        [one_unit(v, u) for v, u in zip(np.eye(2), outgoing, strict=True)],
        np.array(share),
        sigma=[1.0],
        sigma0=[1.0],
        gamma0=[1.0],
        max_units=[1],
        random_state=0,
    )
    # Two units and a prior that is as sure as one.
    assert match.layers[0].atoms.precision[0, 0] == pytest.approx(3)
    return merged_layers(match).coefs[0][:, 0]


def test_a_unit_counts_by_what_it_adds_to_the_outputs():
    weights = merged_unit([[3.0, -3.0], [1.0, -1.0]])
    np.testing.assert_allclose(weights, [0.75, 0.25], atol=1e-3)
    # The second unit leads to a class of which its node has a tenth of the rows.
    weights = merged_unit([[0.0, 2.0], [0.0, 2.0]], share=[[0.5, 0.9], [0.5, 0.1]])
    np.testing.assert_allclose(weights, [0.9, 0.1], atol=1e-3)


def test_units_that_add_nothing_count_alike():
    np.testing.assert_allclose(merged_unit(np.zeros((2, 2))), [0.5, 0.5])
    # Beside one that adds something, they count next to nothing.
    weights = merged_unit([[0.0, 0.0], [1.0, -1.0]])
    np.testing.assert_allclose(weights, [0, 1], atol=2e-3)


def test_how_many_nodes_share_a_class():
    assert nodes_per_class(np.full((5, 3), 1 / 5)) == pytest.approx(5)
    assert nodes_per_class(np.eye(4)) == pytest.approx(1)
    # Two of three nodes know the first class, one the second, none the third.
    share = np.array([[0.5, 0, 0], [0.5, 1, 0], [0, 0, 0]])
    assert nodes_per_class(share) == pytest.approx((2 + 1) / 2)
    assert nodes_per_class(10 * share) == pytest.approx((2 + 1) / 2)
    assert nodes_per_class(np.zeros((3, 2))) == 1


# ---- the paper's own model ------------------------------------------------------


def random_layers(sizes, n_nodes=4, noise=0.4):
    """Networks whose units are noisy copies of each other, in any order."""
    rng = np.random.default_rng(1)
    pairs = list(zip(sizes[:-1], sizes[1:], strict=True))
    common = [rng.standard_normal((n_in + 1, n_out)) for n_in, n_out in pairs]
    return [
        Layers.from_weights(
            [W + noise * rng.standard_normal(W.shape) for W in common],
            activation=("relu",) * (len(pairs) - 1),
        )
        for _ in range(n_nodes)
    ]


def equation_5(groups, precisions, assignments, *, sigma, sigma0):
    """Return the means of atoms, by the paper's Equation 5 and by nothing else."""
    n_atoms = 1 + max(atoms.max() for atoms in assignments)
    total = np.zeros((n_atoms, groups[0].shape[1]))
    precision = np.full(total.shape, 1 / sigma0**2)
    for V, p, atoms in zip(groups, precisions, assignments, strict=True):
        for v, atom in zip(V, atoms, strict=True):
            total[atom] += p * v / sigma**2
            precision[atom] += p / sigma**2
    return total / precision


@pytest.mark.parametrize("model", ["weighted", "paper"])
def test_beliefs_are_the_posterior_whatever_the_merged_network_takes(model):
    layers = random_layers((5, 6, N_CLASSES))
    share = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]] * 2) / 0.5 / 2
    match = match_networks(
        layers, share, sigma=[0.5], sigma0=[2.0], gamma0=[1.0], max_units=[None],
        model=model, random_state=0,
    )  # fmt: skip
    (layer,) = match.layers
    assert 0 < np.sum(layer.popularity > 1) < np.sum(layer.popularity)
    groups = [
        np.hstack([W.coefs[0].T, W.intercepts[0][:, None], W.coefs[1]]) for W in layers
    ]
    shares = share if model == "weighted" else np.ones_like(share)
    precisions = [np.concatenate([np.ones(6), of_node]) for of_node in shares]
    means = equation_5(groups, precisions, layer.assignments, sigma=0.5, sigma0=2.0)
    np.testing.assert_allclose(layer.atoms.mean, means, rtol=1e-9)
    merged = merged_layers(match)
    if model == "paper":
        np.testing.assert_allclose(merged.coefs[0], means[:, :5].T)
        np.testing.assert_allclose(merged.intercepts[0], means[:, 5])
        np.testing.assert_allclose(merged.coefs[1], means[:, 6:])
        # Each node counts once for the biases of classes, whatever its rows.
        biases = np.mean([W.intercepts[1] for W in layers], axis=0)
        np.testing.assert_allclose(merged.intercepts[1], biases)
    else:
        factor = 1 + 0.5**2 / 2.0**2 / 4
        assert np.abs(merged.coefs[0] - factor * means[:, :5].T).max() > 1e-2


def test_deep_layers_of_the_paper_have_zeros_that_count():
    layers = random_layers((5, 6, 5, N_CLASSES), noise=0.8)
    match = match_networks(
        layers, np.full((4, N_CLASSES), 0.25), sigma=[0.5] * 2, sigma0=[2.0] * 2,
        gamma0=[1.0] * 2, max_units=[None] * 2, layer_order="top_down", model="paper",
        random_state=0,
    )  # fmt: skip
    below, above = match.layers
    assert len(above.atoms) > 5  # some nodes lack an atom
    groups = [np.hstack([W.intercepts[1][:, None], W.coefs[2]]) for W in layers]
    ones = [np.ones(1 + N_CLASSES)] * 4
    of_above = equation_5(groups, ones, above.assignments, sigma=0.5, sigma0=2.0)
    groups = []
    for W, atoms in zip(layers, above.assignments, strict=True):
        outgoing = np.zeros((6, len(above.atoms)))
        outgoing[:, atoms] = W.coefs[1]
        groups.append(np.hstack([W.coefs[0].T, W.intercepts[0][:, None], outgoing]))
    ones = [np.ones(groups[0].shape[1])] * 4
    of_below = equation_5(groups, ones, below.assignments, sigma=0.5, sigma0=2.0)
    merged = merged_layers(match)
    np.testing.assert_allclose(merged.coefs[0], of_below[:, :5].T)
    np.testing.assert_allclose(merged.coefs[1], of_below[:, 6:])
    np.testing.assert_allclose(merged.coefs[2], of_above[:, 1:])


def test_a_class_that_a_node_lacks_has_no_say_in_the_paper_either():
    match = match_networks(
        [one_unit([1.0, 0.0], [2.0, 0.0]), one_unit([1.0, 0.0], [2.0, 4.0])],
        np.array([[0.9, 0.0], [0.1, 1.0]]),
        sigma=[0.5], sigma0=[2.0], gamma0=[1e-9], max_units=[None],
        model="paper", random_state=0,
    )  # fmt: skip
    two = 2 / 0.5**2 / (2 / 0.5**2 + 1 / 2.0**2)
    one = 1 / 0.5**2 / (1 / 0.5**2 + 1 / 2.0**2)
    merged = merged_layers(match)
    np.testing.assert_allclose(merged.coefs[1], [[2 * two, 4 * one]])


@pytest.mark.parametrize("model", ["weighted", "paper"])
def test_a_stream_goes_on_from_the_posterior(model):
    layers = random_layers((5, 6, N_CLASSES), n_nodes=3)
    settings = {
        "sigma": [0.5],
        "sigma0": [2.0],
        "gamma0": [1e-9],  # all units match
        "max_units": [None],
        "model": model,
        "random_state": 0,
    }
    match = match_networks(layers[:2], np.full((2, N_CLASSES), 0.5), **settings)
    counts = [np.zeros((1, len(match.layers[0].atoms)), dtype=int)]
    match = match_networks(
        layers[2:], np.ones((1, N_CLASSES)), previous=match, counts=counts, n_steps=1,
        **settings,
    )  # fmt: skip
    groups = [np.hstack([W.coefs[0].T, W.intercepts[0][:, None]]) for W in layers]
    (layer,) = match.layers
    # The units of a node are copies of each other in the order of the common ones.
    own_order = [np.arange(6)] * 3
    means = equation_5(groups, np.ones((3, 6)), own_order, sigma=0.5, sigma0=2.0)
    np.testing.assert_allclose(
        layer.atoms.mean[layer.assignments[0], :6], means, rtol=1e-9
    )
