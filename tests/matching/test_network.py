# SPDX-License-Identifier: BSD-3-Clause
"""Means of matched units, and matching again what was trained from a merged network."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.matching import match_again, match_networks, merged_layers
from skgems.matching._network import nodes_per_class
from skgems.networks import Layers

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
