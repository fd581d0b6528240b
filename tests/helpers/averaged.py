# SPDX-License-Identifier: BSD-3-Clause
"""Digits that nodes hold, and the networks that they fit to them, to be averaged."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from helpers.fitted import call_once
from skgems.datasets import partition_by_label, partition_homogeneous


@call_once
def digits(n_nodes=3, *, disjoint=False):
    """Rows, labels and nodes, and rows and labels to test on.

    ``disjoint`` nodes have no label in common.
    """
    X, y = load_digits(return_X_y=True)
    X = X / 16
    nodes = partition_homogeneous(y, n_nodes=n_nodes, random_state=0)
    if disjoint:
        nodes = partition_by_label(y, n_nodes)
    test = np.arange(len(y)) % 4 == 0
    return X[~test], y[~test], nodes[~test], X[test], y[test]


def make_net(**parameters):
    """An unfitted network of 32 units."""
    network = MLPClassifier(
        (32,), batch_size=32, solver="sgd", max_iter=20, random_state=0
    )
    return network.set_params(**parameters)


@call_once
def fit_locals(estimator, X, y, nodes):
    """A clone for each node, fitted to its rows."""
    return [
        clone(estimator).fit(X[nodes == k], y[nodes == k])
        for k in range(nodes.max() + 1)
    ]
