# SPDX-License-Identifier: BSD-3-Clause
"""Common units: weights along the directions in which the inputs of all nodes vary."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.networks import LayersBelow
from skgems.spaces import (
    Gram,
    build_neuron_spaces,
    draw_common_units,
    pooled_input_moments,
    with_common_units,
)

RNG = np.random.default_rng(0)
# Inputs that hang together, are far from 0, and of which the last is constant.
MIXING = RNG.normal(size=(5, 5))
X = np.column_stack([RNG.normal(size=(300, 5)) @ MIXING + 7.0, np.full(300, 3.0)])
NODE = np.repeat([0, 1], [80, 220])
MEAN = X.mean(axis=0)
COVARIANCE = np.cov(X.T, bias=True)


def draw(n_units=20, scale=None, seed=0):
    return draw_common_units(MEAN, COVARIANCE, n_units, scale=scale, random_state=seed)


def test_moments_of_nodes_come_to_those_of_all_rows():
    geometry = Gram(ridge=0.3)
    no_units = np.zeros((X.shape[1] + 1, 0))
    precisions = [
        build_neuron_spaces(
            X[NODE == k] + k, no_units, "relu", epsilon=0.1, geometry=geometry
        ).precision
        for k in range(2)
    ]
    mean, covariance = pooled_input_moments(precisions, ridge=0.3, n_rows=[80, 220])
    shifted = X + NODE[:, None]
    np.testing.assert_allclose(mean, shifted.mean(axis=0))
    np.testing.assert_allclose(covariance, np.cov(shifted.T, bias=True), atol=1e-9)


def test_weights_vary_as_the_inputs_do():
    W = draw(n_units=20_000)[:-1]
    product = W @ W.T
    correlation = np.vdot(product, COVARIANCE)
    correlation /= np.linalg.norm(product) * np.linalg.norm(COVARIANCE)
    assert correlation > 0.99


def test_what_enters_the_activations_has_unit_variance_about_small_biases():
    W = draw(n_units=20_000)
    pre = X @ W[:-1] + W[-1]
    assert 0.9 < pre.var(axis=0).mean() < 1.1
    assert 0.25 < pre.mean(axis=0).std() < 0.35


def test_units_and_zero_of_the_inputs_do_not_matter_where_they_have_scales():
    factor = np.geomspace(1e-3, 1e3, X.shape[1])
    W = draw(scale=np.ones(X.shape[1]))
    other = draw_common_units(
        factor * MEAN + 5.0,
        np.outer(factor, factor) * COVARIANCE,
        20,
        scale=factor,
        random_state=0,
    )
    pre = X @ W[:-1] + W[-1]
    of_other = (factor * X + 5.0) @ other[:-1] + other[-1]
    np.testing.assert_allclose(of_other, pre, atol=1e-6)


def test_an_input_that_never_varies_has_no_weight():
    W = draw()
    assert not W[5].any()
    assert W[:5].all()


@pytest.mark.parametrize("far", [0.0, 1e7])
def test_inputs_without_a_factor_of_their_covariance_have_units(far):
    """Inputs that are twice the same, and far from 0, where rounding shows."""
    rows = np.repeat(X[:, :2], 2, axis=1) + far
    precision = build_neuron_spaces(
        rows, np.zeros((5, 0)), "relu", epsilon=0.1, geometry=Gram(ridge=0.3)
    ).precision
    mean, covariance = pooled_input_moments([precision], ridge=0.3, n_rows=[300])
    W = draw_common_units(mean, covariance, 50, random_state=0)
    pre = rows @ W[:-1] + W[-1]
    assert 0.1 < pre.var(axis=0).mean() < 10


def test_inputs_that_are_all_constant_leave_biases_alone():
    W = draw_common_units(MEAN, np.zeros_like(COVARIANCE), 4, random_state=0)
    assert not W[:-1].any() and W[-1].all()


def test_equal_seeds_draw_equal_units():
    np.testing.assert_array_equal(draw(seed=3), draw(seed=3))
    assert np.abs(draw(seed=3) - draw(seed=4)).max() > 0.1


@pytest.mark.parametrize("activation", ["relu", "identity", "tanh", "logistic"])
def test_layers_above_pass_common_units_on(activation):
    """Others come out as before, and each common unit as what rises with it."""
    hidden = LayersBelow(
        weights=[RNG.normal(size=(7, 3)), RNG.normal(size=(4, 2))],
        activation=(activation,) * 2,
    )
    units = draw()
    Z = with_common_units(hidden, units).outputs(X)
    np.testing.assert_allclose(Z[:, :2], hidden.outputs(X))
    below = LayersBelow(weights=[units], activation=(activation,)).outputs(X)
    if activation in ("relu", "identity"):
        np.testing.assert_array_equal(Z[:, 2:], below)
    slope = np.diff(np.sort(Z[:, 2:], axis=0), axis=0).sum(axis=0)
    slope /= np.ptp(below, axis=0)
    assert np.all((slope > 0.7) & (slope <= 1.01))
    for above, unit in zip(Z[:, 2:].T, below.T, strict=True):
        assert np.all(np.diff(above[np.argsort(unit)]) >= 0)
