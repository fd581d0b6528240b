# SPDX-License-Identifier: BSD-3-Clause
"""The log-loss of logits."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp


def mean_log_loss(logits: np.ndarray, y: np.ndarray) -> float:
    """Mean negative log-probability of the labels.

    Parameters
    ----------
    logits : ndarray of shape (n_samples, n_classes)
    y : ndarray of shape (n_samples,), int
        Column of each row's label.

    Returns
    -------
    loss : float
        In nats.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.moments import mean_log_loss
    >>> round(mean_log_loss(np.zeros((1, 2)), np.array([1])), 3)
    0.693
    """
    rows = np.arange(y.shape[0])
    return float(np.mean(logsumexp(logits, axis=1) - logits[rows, y]))


def log_losses(logits: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-loss of each row, and its gradient in the logits.

    Parameters
    ----------
    logits : ndarray of shape (n_samples, n_classes)
    y : ndarray of shape (n_samples,), int
        Column of each row's label.

    Returns
    -------
    losses : ndarray of shape (n_samples,)
        In nats.
    residuals : ndarray of shape (n_samples, n_classes)
        Probabilities less the labels.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.moments import log_losses
    >>> losses, residuals = log_losses(np.zeros((1, 2)), np.array([1]))
    >>> losses.round(3), residuals
    (array([0.693]), array([[ 0.5, -0.5]]))
    """
    shifted = logits - logits.max(axis=1, keepdims=True)
    residuals = np.exp(shifted)
    totals = residuals.sum(axis=1)
    index = np.arange(len(y))
    losses = np.log(totals) - shifted[index, y]
    residuals /= totals[:, None]
    residuals[index, y] -= 1.0
    return losses, residuals
