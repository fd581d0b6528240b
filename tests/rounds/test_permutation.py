# SPDX-License-Identifier: BSD-3-Clause
"""Hidden units in the order of another network's."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.networks import Layers
from skgems.rounds import align_hidden_units, started_apart


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


@pytest.mark.parametrize("n_hidden, apart", [(6, False), (30, True)])
def test_units_in_another_order_started_apart_unless_they_are_few(n_hidden, apart):
    rng = np.random.RandomState(0)
    first, last = rng.normal(size=(10, n_hidden)), rng.normal(size=(n_hidden, 5))
    biases, order = [np.zeros(n_hidden), np.zeros(5)], np.roll(np.arange(n_hidden), 1)
    layers = Layers([first, last], biases, "relu")
    other = Layers([first[:, order], last[order]], biases, "relu")
    assert started_apart(other, layers) == apart
    assert not started_apart(layers, layers)
