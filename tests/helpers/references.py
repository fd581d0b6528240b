# SPDX-License-Identifier: BSD-3-Clause
"""What several tests compute by hand."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax


def minimum_of_penalized_loss(X, y, W, precision, strength):
    """The minimum of the penalized log-loss of the guide, by hand.

    Logits are ``x (W + V_x) + z V_z`` where z = x W are the logits before; costs of
    V_x and V_z go by the precision of features and by the size of logits.
    """
    rows = np.column_stack([X, np.ones(len(X))])
    offset = rows @ W
    n_params, n_classes = W.shape
    # Costs are relative: features count as much as if all had size 1.
    relative = precision * np.mean(rows**2 / precision, axis=0).sum() / n_params
    g = np.sqrt(n_params / n_classes) / np.sqrt(np.mean(offset**2))

    inputs = np.hstack([rows, offset])
    costs = strength * np.append(relative, np.full(n_classes, g**-2.0))[:, None]

    def objective(flat):
        V = flat.reshape(-1, n_classes)
        logits = log_softmax(offset + inputs @ V, axis=1)
        residuals = np.exp(logits) - np.eye(n_classes)[y]
        loss = -np.mean(logits[np.arange(len(y)), y]) + np.sum(costs * V**2)
        return loss, (inputs.T @ residuals / len(y) + 2 * costs * V).ravel()

    start = np.zeros((n_params + n_classes) * n_classes)
    minimum = minimize(objective, start, jac=True, method="L-BFGS-B", tol=1e-12)
    V = minimum.x.reshape(-1, n_classes)
    return W + V[:n_params] + W @ V[n_params:]
