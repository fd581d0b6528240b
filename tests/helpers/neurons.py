# SPDX-License-Identifier: BSD-3-Clause
"""Layers of neurons, and how far their outputs move."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

ACTIVATIONS = {
    "identity": lambda z: z,
    "relu": lambda z: np.maximum(z, 0),
    "tanh": np.tanh,
    "logistic": expit,
}
every_geometry = pytest.mark.parametrize("geometry", ["gram", "ellipsoid", "ball"])


def layer(n_neurons=6, n_rows=80, n_inputs=5, seed=0, mean=0.0):
    """Rows, and weights and biases of a layer of neurons in one matrix."""
    rng = np.random.default_rng(seed)
    deviations = rng.standard_normal((n_rows, n_inputs))
    X = mean + deviations * rng.uniform(0.2, 3, size=n_inputs)
    return X, rng.standard_normal((n_inputs + 1, n_neurons))


def outputs(X, W, activation):
    """Outputs of the neurons on rows."""
    return ACTIVATIONS[activation](X @ W[:-1] + W[-1])


def as_matrix(precision):
    """A precision as a matrix, where it may be the diagonal of one."""
    return np.diag(precision) if precision.ndim == 1 else precision
