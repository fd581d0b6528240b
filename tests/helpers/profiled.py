# SPDX-License-Identifier: BSD-3-Clause
"""Nodes whose models have radii, and directions to move them along."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, softmax

from skgems.spaces import ball_metric, ellipsoid_metric, gram_metric


def make_node(kind, seed=0, n_rows=30, n_features=4, n_outputs=3, noise=1.0):
    """Rows, labels, a model that has most of them right, and a metric."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features)) * rng.lognormal(0, 1, n_features)
    center = rng.standard_normal((n_features + 1, n_outputs))
    logits = X @ center[:-1] + center[-1]
    y = (logits + noise * rng.standard_normal(logits.shape)).argmax(axis=1)
    if kind == "ball":
        metric = ball_metric(n_features + 1, np.ones(n_outputs, dtype=bool))
    elif kind == "ellipsoid":
        metric = ellipsoid_metric(X, softmax(logits, axis=1), floor=0.05, damping=0.1)
    else:
        weights = rng.lognormal(0, 1, n_outputs) if kind.startswith("w") else None
        metric = gram_metric(X, ridge=0.1, output_weights=weights)
    return X, y, center, metric


def right_rows(X, y, models):
    """Rows right under each model of shape (m, n_params, n_outputs)."""
    logits = X @ models[..., :-1, :] + models[..., -1:, :]
    return logits.argmax(axis=-1) == y


def mean_loss(X, y, W, scale=1.0):
    """Mean log-loss of models of shape (..., n_params, n_outputs)."""
    logits = scale * (X @ W[..., :-1, :] + W[..., -1:, :])
    return (logsumexp(logits, axis=-1) - logits[..., np.arange(len(y)), y]).mean(-1)
