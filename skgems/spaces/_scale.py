# SPDX-License-Identifier: BSD-3-Clause
"""Bring the logits of different nodes to one scale."""

from __future__ import annotations

import numpy as np

from ..networks import linear_logits


def on_one_scale(W: np.ndarray, known: np.ndarray, X) -> tuple[np.ndarray, float]:
    """Centre a node's known logits over classes; divide by their root mean square on X.

    Returns the weights, 0 for unknown classes, and the divisor (1 for constant logits).
    Logits of nodes differ tenfold: the node with the largest would win.
    """
    scaled = np.zeros_like(W, dtype=np.float64)
    scaled[:, known] = W[:, known] - W[:, known].mean(axis=1, keepdims=True)
    logits = linear_logits(X, scaled[:, known])
    scale = float(np.sqrt(np.mean(np.square(logits, dtype=np.float64))))
    if scale <= np.finfo(np.float64).eps * max(1.0, float(np.abs(W).max())):
        return scaled, 1.0
    return scaled / scale, scale


def fill_unseen(W: np.ndarray, known: np.ndarray, margin: float) -> np.ndarray:
    """Give unknown classes logits that are ``margin`` less than the mean known logit.

    In units of the logits' root mean square. The result is centred over all classes:
    all parameters of one softmax model give the same.
    """
    filled = W.copy()
    filled[:, ~known] = 0.0
    filled[-1, ~known] = -margin
    return filled - filled.mean(axis=1, keepdims=True)
