# SPDX-License-Identifier: BSD-3-Clause
"""Networks that nodes fit to digits, for tests of PFNMAggregator."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems.datasets import partition_dirichlet, partition_homogeneous
from skgems.networks import Layers, to_mlp_classifier

X, Y = load_digits(return_X_y=True)
X = X / 16  # pixels from 0 to 1
TRAIN = slice(0, 1200)
TEST = slice(1200, None)


def make_network(width=20, seed=0, **parameters):
    """An unfitted network of so many hidden units, or of several such layers."""
    network = MLPClassifier(
        width,
        learning_rate_init=0.01,
        alpha=0.1,
        max_iter=60,
        tol=0.01,
        random_state=seed,
    )
    return network.set_params(**parameters)


def deal_to_nodes(kind="homogeneous", n_nodes=3):
    """The node of each training row."""
    if kind == "homogeneous":
        return partition_homogeneous(Y[TRAIN], n_nodes, random_state=0)
    return partition_dirichlet(Y[TRAIN], n_nodes, alpha=0.5, random_state=1)


def fitted_networks(nodes, widths=(20, 20, 20), **parameters):
    """A network for each node, fitted to its training rows from weights of its own."""
    return [
        make_network(width, k, **parameters).fit(
            X[TRAIN][nodes == k], Y[TRAIN][nodes == k]
        )
        for k, width in enumerate(widths)
    ]


def with_units_permuted(estimator, seed=0):
    """A network that is the same function, with its hidden units in another order."""
    rng = np.random.RandomState(seed)
    coefs = list(estimator.coefs_)
    intercepts = list(estimator.intercepts_)
    for layer in range(len(coefs) - 1):
        order = rng.permutation(coefs[layer].shape[1])
        coefs[layer] = coefs[layer][:, order]
        intercepts[layer] = intercepts[layer][order]
        coefs[layer + 1] = coefs[layer + 1][order]
    layers = Layers(coefs, intercepts, estimator.activation)
    return to_mlp_classifier(layers, estimator.classes_)


# Other zeros and other units of the pixels.
DEVIATIONS = X[TRAIN].std(axis=0)
# From a thousandth to a thousand.
FACTORS = 10 ** np.random.RandomState(0).uniform(-3, 3, size=64)
TRANSFORMS = {
    "by a hundred": lambda rows: rows + 100 * DEVIATIONS,
    "times": lambda rows: rows * FACTORS,
    "times, by a hundred": lambda rows: (rows - 100 * DEVIATIONS) * FACTORS,
}


def scaled_nodes(rows, nodes, hidden, seed=0, scaler=None, **parameters):
    """Named pipelines of scalers and networks, each fitted on its node's rows."""
    scaler = StandardScaler() if scaler is None else scaler
    return [
        (
            f"n{k}",
            make_pipeline(
                clone(scaler), make_network(hidden, seed + k, max_iter=20, **parameters)
            ).fit(rows[TRAIN][nodes == k], Y[TRAIN][nodes == k]),
        )
        for k in range(3)
    ]
