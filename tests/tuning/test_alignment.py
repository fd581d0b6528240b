# SPDX-License-Identifier: BSD-3-Clause
"""Hidden units in the order of another network's."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.networks import Layers
from skgems.tuning import align_hidden_units, started_apart


@pytest.mark.parametrize("widths", [(5, 8, 3), (5, 8, 6, 3)])
def test_a_permuted_network_comes_back(widths):
    rng = np.random.RandomState(0)
    coefs = [rng.normal(size=s) for s in zip(widths[:-1], widths[1:], strict=True)]
    biases = [rng.normal(size=n) for n in widths[1:]]
    shuffled, shuffled_biases = [c.copy() for c in coefs], [b.copy() for b in biases]
    for layer in range(len(coefs) - 1):
        order = rng.permutation(widths[layer + 1])
        shuffled[layer] = shuffled[layer][:, order]
        shuffled_biases[layer] = shuffled_biases[layer][order]
        shuffled[layer + 1] = shuffled[layer + 1][order]
    found = align_hidden_units(
        Layers(shuffled, shuffled_biases, "tanh"), Layers(coefs, biases, "tanh")
    )
    arrays = [*found.coefs, *found.intercepts]
    for array, expected in zip(arrays, coefs + biases, strict=True):
        np.testing.assert_array_equal(array, expected)


def test_it_computes_the_same_function():
    rng = np.random.RandomState(1)
    one, other = (
        ([rng.normal(size=(4, 7)), rng.normal(size=(7, 2))], [rng.normal(size=7)] * 1)
        for _ in range(2)
    )
    biases = [one[1][0], np.zeros(2)], [other[1][0], np.zeros(2)]
    found = align_hidden_units(
        Layers(one[0], biases[0], "tanh"), Layers(other[0], biases[1], "tanh")
    )
    coefs, intercepts = found.coefs, found.intercepts
    X = rng.normal(size=(20, 4))

    def run(c, b):
        return np.tanh(X @ c[0] + b[0]) @ c[1] + b[1]

    np.testing.assert_allclose(run(coefs, intercepts), run(one[0], biases[0]))

    def distance(c, b):
        return sum(
            np.sum((a - r) ** 2)
            for a, r in zip([*c, *b], [*other[0], *biases[1]], strict=True)
        )

    assert distance(coefs, intercepts) < distance(one[0], biases[0])


def test_order_that_units_come_in_does_not_matter():
    rng = np.random.default_rng(0)
    for _ in range(20):
        one, other = (
            Layers(
                [rng.normal(size=shape) for shape in ((5, 8), (8, 7), (7, 3))],
                [rng.normal(size=n) for n in (8, 7, 3)],
                "tanh",
            )
            for _ in range(2)
        )
        a, b = rng.permutation(8), rng.permutation(7)
        first, second, last = other.coefs
        biases = other.intercepts
        shuffled = Layers(
            [first[:, a], second[np.ix_(a, b)], last[b]],
            [biases[0][a], biases[1][b], biases[2]],
            "tanh",
        )
        for found, expected in zip(
            align_hidden_units(shuffled, one).coefs,
            align_hidden_units(other, one).coefs,
            strict=True,
        ):
            np.testing.assert_array_equal(found, expected)


# ---- networks that started apart ----------------------------------------------


def random_layers(rng, widths=(10, 30, 5)):
    shapes = list(zip(widths, widths[1:], strict=False))
    coefs = [rng.normal(size=shape) for shape in shapes]
    intercepts = [rng.normal(size=n_units) for n_units in widths[1:]]
    return Layers(coefs, intercepts, ["relu"] * (len(coefs) - 1))


def moved(layers, rng, size):
    """The same start, after training that moved each weight by about ``size``."""
    coefs = [W + size * rng.normal(size=W.shape) for W in layers.coefs]
    intercepts = [b + size * rng.normal(size=b.shape) for b in layers.intercepts]
    return Layers(coefs, intercepts, layers.activation)


@pytest.mark.parametrize("n_hidden", [6, 30])
def test_units_in_another_order_started_apart(n_hidden):
    layers = random_layers(np.random.default_rng(0), (10, n_hidden, 5))
    order = np.roll(np.arange(n_hidden), 1)
    (first, last), (biases, outputs) = layers.coefs, layers.intercepts
    other = Layers([first[:, order], last[order]], [biases[order], outputs], "relu")
    assert started_apart(other, layers)
    assert not started_apart(layers, layers)


@pytest.mark.parametrize("widths", [(10, 30, 5), (64, 100, 10), (20, 24, 16, 4)])
def test_every_pair_of_starts_is_told_from_one_start(widths):
    rng = np.random.default_rng(0)
    for _ in range(50):
        start, other = random_layers(rng, widths), random_layers(rng, widths)
        assert started_apart(other, start)
        assert not started_apart(moved(start, rng, size=1.0), start)


def test_of_many_units_little_of_a_start_is_enough():
    rng = np.random.default_rng(0)
    for _ in range(20):
        start = random_layers(rng, (64, 100, 10))
        # Weights have moved by eight times what they began with.
        assert not started_apart(moved(start, rng, size=8.0), start)


def test_weights_to_outputs_tell_where_networks_started():
    rng = np.random.default_rng(0)
    start = random_layers(rng, (2, 30, 40))
    trained = random_layers(rng, (2, 30, 40))
    kept = Layers([trained.coefs[0], start.coefs[1]], trained.intercepts, "relu")
    assert started_apart(trained, start)
    assert not started_apart(kept, start)


def test_layers_together_tell_what_one_narrow_layer_does_not():
    rng = np.random.default_rng(0)
    found = {(5, 6, 3): 0, (5, 6, 6, 6, 6, 3): 0}
    for _ in range(100):
        for widths in found:
            start, other = random_layers(rng, widths), random_layers(rng, widths)
            found[widths] += started_apart(other, start)
            assert not started_apart(moved(start, rng, size=0.1), start)
    one_layer, four_layers = found.values()
    assert 60 <= one_layer < four_layers
    assert four_layers >= 95


def test_units_of_features_do_not_matter_to_where_networks_started():
    rng = np.random.default_rng(0)
    start, other = random_layers(rng), random_layers(rng)
    # All weights that are large are learnt, and nothing of the start is in them.
    units = np.where(np.arange(10) == 0, 1e6, 10.0 ** rng.uniform(-6, 0, 10))[:, None]
    trained = moved(start, rng, size=0.3)
    trained.coefs[0][0] = rng.normal(size=30)
    for layers, apart in ((trained, False), (other, True)):
        scaled = Layers(
            [layers.coefs[0] * units, layers.coefs[1]], layers.intercepts, "relu"
        )
        beside = Layers(
            [start.coefs[0] * units, start.coefs[1]], start.intercepts, "relu"
        )
        assert started_apart(layers, start) == apart
        assert started_apart(scaled, beside) == apart


def test_what_all_units_have_alike_says_nothing_of_where_networks_started():
    rng = np.random.default_rng(0)
    start, other = random_layers(rng), random_layers(rng)
    # Means of 30 numbers of 0.1 are not 0.1: what is left is equal in both networks.
    alike = np.full((1000, 30), 0.1)
    with_alike = [
        Layers([np.vstack([W, alike]), V], layers.intercepts, "relu")
        for layers in (start, other)
        for W, V in [layers.coefs]
    ]
    assert started_apart(with_alike[1], with_alike[0])


@pytest.mark.parametrize("widths", [(10, 30, 5), (10, 1, 5), (10, 5)])
def test_where_no_unit_differs_nothing_started_apart(widths):
    rng = np.random.default_rng(0)
    layers, other = random_layers(rng, widths), random_layers(rng, widths)
    if widths == (10, 30, 5):
        layers = Layers(
            [0 * W for W in layers.coefs], [np.zeros(30), np.zeros(5)], "relu"
        )
    assert not started_apart(layers, other)
    assert not started_apart(layers, layers)
