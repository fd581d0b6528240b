# SPDX-License-Identifier: BSD-3-Clause
"""Spaces of neurons keep their promise."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.neurons import ACTIVATIONS, as_matrix, every_geometry, layer, outputs
from scipy import sparse
from sklearn import config_context
from sklearn.utils import check_random_state

from skgems.spaces import Gram, build_neuron_spaces
from skgems.spaces._neuron_metrics import metric_of_neurons
from skgems.spaces._neuron_spaces import changes_along_rays

every_activation = pytest.mark.parametrize("activation", ACTIVATIONS)


def change(X, one, other, activation):
    """Root mean square change of the activation."""
    difference = outputs(X, one, activation) - outputs(X, other, activation)
    return np.sqrt(np.mean(difference**2, axis=0))


def on_surface(spaces, neuron, directions):
    """Weights on the surface of one neuron's space."""
    P = as_matrix(spaces.precision)
    lengths = np.sqrt(np.einsum("ij,jk,ik->i", directions, P, directions))
    steps = spaces.radii[neuron] * directions / lengths[:, None]
    return spaces.centers[:, [neuron]] + steps.T


@every_activation
@every_geometry
def test_most_models_on_the_surface_are_good_enough_and_not_all_beyond_it(
    activation, geometry
):
    X, W = layer()
    sampled = build_neuron_spaces(
        X,
        W,
        activation,
        epsilon=0.3,
        geometry=geometry,
        n_directions=500,
        max_radius=50.0,
        random_state=0,
    )
    # Most rays stay inside at the radius, and some do not at a little more.
    directions = np.random.default_rng(2).standard_normal((2000, len(W)))
    for neuron in range(W.shape[1]):
        if sampled.radii[neuron] == 50.0:
            continue
        bound = 0.3 * sampled.sizes[neuron]
        on_the_surface = on_surface(sampled, neuron, directions)
        inside = change(X, on_the_surface, W[:, [neuron]], activation) <= bound
        assert inside.mean() > 0.97
        beyond = W[:, [neuron]] + 1.5 * (on_the_surface - W[:, [neuron]])
        assert np.any(change(X, beyond, W[:, [neuron]], activation) > bound)


def rays_of(X, metric, n_rays, seed):
    """Changes of the pre-activations along the rays that the seed stands for."""
    rng = check_random_state(seed)
    generator = np.random.Generator(np.random.SFC64(rng.randint(2**31 - 1)))
    return changes_along_rays(X, metric, generator, n_rays=n_rays)


# Each two values of these together at least once.
SAMPLED = [
    (
        activation,
        geometry,
        [0.02, 0.3, 1.2][(i + j) % 3],
        [np.float32, np.float64][(i + j) % 2],
    )
    for i, activation in enumerate(ACTIVATIONS)
    for j, geometry in enumerate(["gram", "ellipsoid", "ball"])
]


@pytest.mark.parametrize(("activation", "geometry", "epsilon", "dtype"), SAMPLED)
def test_sampled_radius_is_the_first_at_which_any_ray_fails(
    activation, geometry, epsilon, dtype
):
    n_rays, largest = 60, 20.0
    X, W = (a.astype(dtype) for a in layer(n_neurons=8, seed=5, mean=0.3))
    spaces = build_neuron_spaces(
        X,
        W,
        activation,
        epsilon=epsilon,
        geometry=geometry,
        n_directions=n_rays,
        max_radius=largest,
        random_state=7,
    )
    rays = rays_of(X, metric_of_neurons(spaces.precision), n_rays, 7).astype(np.float64)
    g = ACTIVATIONS[activation]
    pre = (X.astype(np.float64) @ W[:-1] + W[-1]).T
    bounds = epsilon * spaces.sizes

    def fails(radii):
        pre_on_rays = pre[:, None] + radii[:, None, None] * rays
        change = g(pre_on_rays) - g(pre)[:, None]
        return np.any(np.sqrt(np.mean(change**2, axis=2)) > bounds[:, None], axis=1)

    low = np.zeros(8)
    high = np.full(8, largest)
    low[~fails(high)] = largest
    for _ in range(40):
        middle = (low + high) / 2
        failing = fails(middle)
        low = np.where(failing, low, middle)
        high = np.where(failing, middle, high)
    np.testing.assert_allclose(spaces.radii, low, rtol=3e-4)
    if epsilon == 0.02:
        assert np.all(low < largest)


@every_geometry
def test_rays_are_uniform_on_the_surface_of_the_metric(geometry):
    X, W = layer(n_neurons=3, n_inputs=4, mean=1.0)
    P = build_neuron_spaces(X, W, "relu", epsilon=0.1, geometry=geometry).precision
    # On these rows a change shows itself: its weights plus the bias, and the bias.
    changes = rays_of(
        np.vstack([np.eye(4), np.zeros(4)]), metric_of_neurons(P), 20_000, 0
    )
    rays = np.column_stack([changes[:, :4] - changes[:, [4]], changes[:, 4]])
    lengths = np.einsum("ij,jk,ik->i", rays, as_matrix(P), rays)
    np.testing.assert_allclose(lengths, 1.0, rtol=1e-5)
    # Uniform: mean 0, covariance P^-1 / n_params, and no two alike.
    root = np.linalg.cholesky(as_matrix(P))
    round_ = rays @ root
    np.testing.assert_allclose(round_.mean(axis=0), 0, atol=0.02)
    np.testing.assert_allclose(round_.T @ round_ / len(rays), np.eye(5) / 5, atol=0.01)
    np.testing.assert_allclose(np.mean(round_**4, axis=0), 3 / 35, atol=0.005)
    assert len(np.unique(rays.round(6), axis=0)) == len(rays)


def test_more_rays_never_make_a_space_larger():
    X, W = layer()
    radii = [
        build_neuron_spaces(
            X,
            W,
            "relu",
            epsilon=0.2,
            n_directions=n,
            random_state=3,
        ).radii
        for n in (5, 50, 500)
    ]
    assert np.all(radii[1] <= radii[0] * (1 + 1e-3))
    assert np.all(radii[2] <= radii[1] * (1 + 1e-3))
    assert np.any(radii[2] < radii[0])


def test_radius_grows_with_epsilon_and_stops_at_the_largest():
    X, W = layer()
    radii = [
        build_neuron_spaces(
            X, W, "relu", epsilon=epsilon, max_radius=2.0, random_state=0
        ).radii
        for epsilon in (0.1, 0.4, 1e3)
    ]
    assert np.all(radii[0] < radii[1])
    np.testing.assert_array_equal(radii[2], 2.0)


@every_geometry
def test_sparse_rows_and_little_memory_change_nothing(geometry):
    X, W = layer(n_rows=200)
    X[np.abs(X) < 0.5] = 0
    options = {"epsilon": 0.2, "geometry": geometry, "random_state": 0}
    dense = build_neuron_spaces(X, W, "relu", **options)
    for other in (sparse.csr_matrix(X), X.astype(np.float32)):
        spaces = build_neuron_spaces(other, W, "relu", **options)
        np.testing.assert_allclose(spaces.radii, dense.radii, rtol=2e-3)
    with config_context(working_memory=1):
        chunked = build_neuron_spaces(X, W, "relu", **options)
    np.testing.assert_allclose(chunked.radii, dense.radii, rtol=1e-3)


def test_neurons_that_are_never_active_are_dead():
    X, W = layer()
    W[-1, 2] = -100
    spaces = build_neuron_spaces(X, W, "relu", epsilon=0.1)
    np.testing.assert_array_equal(spaces.dead, np.arange(6) == 2)
    assert spaces.radii[2] == 0
    assert not build_neuron_spaces(X, W, "tanh", epsilon=0.1).dead.any()


def test_singular_moments_ask_for_a_ridge():
    X, W = layer()
    X = np.round(8 * X)
    X[:, 1] = X[:, 0]
    with pytest.raises(ValueError, match="geometry of hidden_layers a larger ridge"):
        build_neuron_spaces(X, W, "relu", epsilon=0.1, geometry=Gram(ridge=0))


def test_epsilon_must_be_positive():
    X, W = layer()
    with pytest.raises(ValueError, match="epsilon must be above 0"):
        build_neuron_spaces(X, W, "relu", epsilon=0.0)
