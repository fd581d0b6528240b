# SPDX-License-Identifier: BSD-3-Clause
"""The log-loss of logits."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp


def mean_log_loss(logits: np.ndarray, y: np.ndarray) -> float:
    """Mean negative log-probability, in nats, of labels `y`, columns of `logits`."""
    rows = np.arange(y.shape[0])
    return float(np.mean(logsumexp(logits, axis=1) - logits[rows, y]))


def log_losses(logits: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-loss of each row, in nats, and its gradient in the logits.

    Labels `y` are columns of `logits`. The gradient is probabilities less one-hot
    labels.
    """
    shifted = logits - logits.max(axis=1, keepdims=True)
    residuals = np.exp(shifted)
    totals = residuals.sum(axis=1)
    index = np.arange(len(y))
    losses = np.log(totals) - shifted[index, y]
    residuals /= totals[:, None]
    residuals[index, y] -= 1.0
    return losses, residuals
