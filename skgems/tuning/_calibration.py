# SPDX-License-Identifier: BSD-3-Clause
"""Bring logits back to probabilities that can be believed."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from ..moments import mean_log_loss


def fit_inverse_temperature(logits: np.ndarray, y: np.ndarray) -> float:
    """The factor on the logits under which the labels are most likely.

    The log-loss is convex in that factor, so one bounded scalar search finds it.

    Parameters
    ----------
    logits : ndarray of shape (n_samples, n_classes)
    y : ndarray of shape (n_samples,), int
        Column of each row's label.

    Returns
    -------
    factor : float
        Between 1e-3 and 1e3 over the root mean square of the logits.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger: On calibration of modern neural networks, 2017
    (temperature scaling).
    """
    logits = np.asarray(logits, dtype=np.float64)
    logits = logits - logits.mean(axis=1, keepdims=True)
    size = np.sqrt(np.mean(logits**2))
    if size == 0 or logits.shape[1] < 2:
        return 1.0
    # Separable rows would ask for infinite confidence: a bound, and a prior of one
    # row that is a coin toss, keep it finite.
    n_samples = y.shape[0]

    def objective(log_factor):
        factor = np.exp(log_factor) / size
        return mean_log_loss(factor * logits, y) + factor * size / n_samples / 10

    best = minimize_scalar(
        objective, bounds=(np.log(1e-3), np.log(1e3)), method="bounded"
    )
    return float(np.exp(best.x) / size)
