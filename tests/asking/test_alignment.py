# SPDX-License-Identifier: BSD-3-Clause
"""Hidden units in the order of another network's."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.asking import align_hidden_units, started_apart
from skgems.networks import Layers


def random_layers(rng, widths=(10, 30, 5), activation="relu"):
    shapes = list(zip(widths, widths[1:], strict=False))
    coefs = [rng.normal(size=shape) for shape in shapes]
    intercepts = [rng.normal(size=n_units) for n_units in widths[1:]]
    return Layers(coefs, intercepts, activation)


def in_order(layers, *orders):
    """The same network with the units of each hidden layer in another order."""
    coefs = [W.copy() for W in layers.coefs]
    intercepts = [b.copy() for b in layers.intercepts]
    for layer, order in enumerate(orders):
        coefs[layer] = coefs[layer][:, order]
        intercepts[layer] = intercepts[layer][order]
        coefs[layer + 1] = coefs[layer + 1][order]
    return Layers(coefs, intercepts, layers.activation)


@pytest.mark.parametrize("widths", [(5, 8, 3), (5, 8, 6, 3)])
def test_a_permuted_network_comes_back(widths):
    rng = np.random.RandomState(0)
    layers = random_layers(rng, widths, "tanh")
    shuffled = in_order(layers, *(rng.permutation(n) for n in widths[1:-1]))
    aligned = align_hidden_units(shuffled, layers)
    for array, expected in zip(
        [*aligned.coefs, *aligned.intercepts],
        [*layers.coefs, *layers.intercepts],
        strict=True,
    ):
        np.testing.assert_array_equal(array, expected)


def squared_distance(layers, reference):
    """Between all weights and biases of two networks."""
    arrays = [*layers.coefs, *layers.intercepts]
    reference_arrays = [*reference.coefs, *reference.intercepts]
    return sum(
        np.sum((array - reference_array) ** 2)
        for array, reference_array in zip(arrays, reference_arrays, strict=True)
    )


def test_an_aligned_network_computes_the_same_and_is_nearer_to_the_other():
    rng = np.random.RandomState(1)
    layers = random_layers(rng, (4, 7, 2), "tanh")
    reference = random_layers(rng, (4, 7, 2), "tanh")
    aligned = align_hidden_units(layers, reference)
    X = rng.normal(size=(20, 4))
    np.testing.assert_allclose(aligned.logits(X), layers.logits(X))
    distance_before = squared_distance(layers, reference)
    assert squared_distance(aligned, reference) < distance_before


def test_the_order_in_which_units_come_does_not_matter():
    rng = np.random.default_rng(0)
    for _ in range(20):
        reference = random_layers(rng, (5, 8, 7, 3), "tanh")
        layers = random_layers(rng, (5, 8, 7, 3), "tanh")
        shuffled = in_order(layers, rng.permutation(8), rng.permutation(7))
        aligned = align_hidden_units(layers, reference)
        aligned_shuffled = align_hidden_units(shuffled, reference)
        for W, expected in zip(aligned_shuffled.coefs, aligned.coefs, strict=True):
            np.testing.assert_array_equal(W, expected)


# ---- networks that started apart ----------------------------------------------------


def train_a_little(layers, rng, size):
    """The same start, after training that moved each weight by about ``size``."""
    coefs = [W + size * rng.normal(size=W.shape) for W in layers.coefs]
    intercepts = [b + size * rng.normal(size=b.shape) for b in layers.intercepts]
    return Layers(coefs, intercepts, layers.activation)


@pytest.mark.parametrize("n_hidden", [6, 30])
def test_units_in_another_order_started_apart(n_hidden):
    layers = random_layers(np.random.default_rng(0), (10, n_hidden, 5))
    shuffled = in_order(layers, np.roll(np.arange(n_hidden), 1))
    assert started_apart(shuffled, layers)
    assert not started_apart(layers, layers)


@pytest.mark.parametrize("widths", [(10, 30, 5), (64, 100, 10), (20, 24, 16, 4)])
def test_every_pair_of_starts_is_told_from_one_start(widths):
    rng = np.random.default_rng(0)
    for _ in range(50):
        start = random_layers(rng, widths)
        other_start = random_layers(rng, widths)
        assert started_apart(other_start, start)
        assert not started_apart(train_a_little(start, rng, size=1.0), start)


def test_a_common_start_is_recognised_after_much_training_of_many_units():
    rng = np.random.default_rng(0)
    for _ in range(20):
        start = random_layers(rng, (64, 100, 10))
        # Weights have moved by eight times what they began with.
        assert not started_apart(train_a_little(start, rng, size=8.0), start)


def test_weights_to_outputs_show_where_networks_started():
    rng = np.random.default_rng(0)
    start = random_layers(rng, (2, 30, 40))
    trained = random_layers(rng, (2, 30, 40))
    with_outputs_of_start = Layers(
        [trained.coefs[0], start.coefs[1]], trained.intercepts, "relu"
    )
    assert started_apart(trained, start)
    assert not started_apart(with_outputs_of_start, start)


def test_several_narrow_layers_show_what_one_does_not():
    rng = np.random.default_rng(0)
    n_recognised = {(5, 6, 3): 0, (5, 6, 6, 6, 6, 3): 0}
    for _ in range(100):
        for widths in n_recognised:
            start = random_layers(rng, widths)
            other_start = random_layers(rng, widths)
            n_recognised[widths] += started_apart(other_start, start)
            assert not started_apart(train_a_little(start, rng, size=0.1), start)
    of_one_layer, of_four_layers = n_recognised.values()
    assert 60 <= of_one_layer < of_four_layers
    assert of_four_layers >= 95


def with_units(layers, units):
    """The network on features in other units, which are a column of numbers."""
    return Layers([layers.coefs[0] * units, layers.coefs[1]], layers.intercepts, "relu")


def test_units_of_features_do_not_matter_to_where_networks_started():
    rng = np.random.default_rng(0)
    start = random_layers(rng)
    other_start = random_layers(rng)
    # All weights that are large are learnt, and nothing of the start is in them.
    units = np.where(np.arange(10) == 0, 1e6, 10.0 ** rng.uniform(-6, 0, 10))[:, None]
    trained = train_a_little(start, rng, size=0.3)
    trained.coefs[0][0] = rng.normal(size=30)
    for layers, expected in ((trained, False), (other_start, True)):
        assert started_apart(layers, start) == expected
        scaled = with_units(layers, units)
        assert started_apart(scaled, with_units(start, units)) == expected


def with_equal_weights(layers):
    """The network with 1000 more features, from which all units have equal weights."""
    # Means of 30 numbers of 0.1 are not 0.1: what is left is equal in both networks.
    equal_weights = np.full((1000, 30), 0.1)
    first, last = layers.coefs
    return Layers([np.vstack([first, equal_weights]), last], layers.intercepts, "relu")


def test_weights_that_all_units_share_say_nothing_of_where_networks_started():
    rng = np.random.default_rng(0)
    start = with_equal_weights(random_layers(rng))
    other_start = with_equal_weights(random_layers(rng))
    assert started_apart(other_start, start)


@pytest.mark.parametrize("widths", [(10, 30, 5), (10, 1, 5), (10, 5)])
def test_where_no_unit_differs_nothing_started_apart(widths):
    rng = np.random.default_rng(0)
    layers = random_layers(rng, widths)
    other_start = random_layers(rng, widths)
    if widths == (10, 30, 5):
        layers = Layers(
            [0 * W for W in layers.coefs], [np.zeros(30), np.zeros(5)], "relu"
        )
    assert not started_apart(layers, other_start)
    assert not started_apart(layers, layers)
