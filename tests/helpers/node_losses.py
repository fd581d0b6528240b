# SPDX-License-Identifier: BSD-3-Clause
"""Rows that are no Gaussians, and the losses that nodes send of such rows."""

from __future__ import annotations

import numpy as np

from skgems.moments import NodeLoss, class_moments, log_losses


def labelled_rows(n=600, *, n_classes=3, d=3, mean=0.0, scale=1.0, seed=0):
    """Rows that are no Gaussians: with tails, skewed and of unequal shapes."""
    rng = np.random.default_rng(seed)
    y = np.append(np.arange(n_classes), rng.integers(n_classes, size=n - n_classes))
    X = rng.standard_t(4, size=(n, d)) + rng.exponential(size=(n, 1)) * (y[:, None] + 1)
    X += 1.2 * rng.standard_normal((n_classes, d))[y]
    return X * scale + mean, y


def node_of(X, y, columns, W, *, kind="class"):
    """The loss that a node sends whose model of its rows is W."""
    moments = class_moments(X, y, kind=kind)
    rows = np.column_stack([X - moments.origin, np.ones(len(X))])
    W = np.vstack([W[:-1], W[-1] + moments.origin @ W[:-1]])
    is_known = np.isin(y, columns)
    known_columns = np.searchsorted(columns, y[is_known])
    gradient = rows[is_known].T @ log_losses(rows[is_known] @ W, known_columns)[1]
    return NodeLoss(moments=moments, columns=columns, W=W, gradient=gradient)


def nodes_of(X, y, owners, *, kind="class", seed=3):
    """The loss of each node, whose model is drawn: ``owners`` has the node of a row."""
    rng = np.random.default_rng(seed)
    nodes = []
    for owner in np.unique(owners):
        in_node = owners == owner
        columns = np.unique(y[in_node])
        W = 0.5 * rng.standard_normal((X.shape[1] + 1, len(columns)))
        node = node_of(X[in_node], y[in_node], columns, W, kind=kind)
        if len(columns) == 1:
            node = NodeLoss(moments=node.moments, columns=columns)
        nodes.append(node)
    return nodes
