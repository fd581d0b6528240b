# SPDX-License-Identifier: BSD-3-Clause
"""Bring the logits of different nodes to one scale, and back to probabilities."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.utils.extmath import safe_sparse_dot


def linear_logits(X, W: np.ndarray) -> np.ndarray:
    """Logits of a linear model.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows.
    W : ndarray of shape (n_features + 1, n_outputs)
        Weights, the intercepts in the last row.

    Returns
    -------
    logits : ndarray of shape (n_samples, n_outputs)
    """
    W = W.astype(X.dtype, copy=False)
    return safe_sparse_dot(X, W[:-1], dense_output=True) + W[-1]


def on_one_scale(W: np.ndarray, known: np.ndarray, X) -> tuple[np.ndarray, float]:
    """Centre a node's known logits over classes and give them unit size on its rows.

    Regularisation, solver and kind of model make the logits of nodes differ
    tenfold; without a common scale the node with the largest would win.

    Parameters
    ----------
    W : ndarray of shape (n_features + 1, n_classes)
        Weights of the node, the intercepts in the last row.
    known : ndarray of shape (n_classes,), bool
        Classes the node knows; the columns of the others come back as zeros.
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows of the node.

    Returns
    -------
    W : ndarray of shape (n_features + 1, n_classes)
        Standardised weights.
    scale : float
        Root mean square of the centred logits, by which they were divided; 1 for
        a model that gives every class the same logit.
    """
    scaled = np.zeros_like(W, dtype=np.float64)
    scaled[:, known] = W[:, known] - W[:, known].mean(axis=1, keepdims=True)
    logits = linear_logits(X, scaled[:, known])
    scale = float(np.sqrt(np.mean(np.square(logits, dtype=np.float64))))
    if scale <= np.finfo(np.float64).eps * max(1.0, float(np.abs(W).max())):
        return scaled, 1.0
    return scaled / scale, scale


def fill_unseen(W: np.ndarray, known: np.ndarray, margin: float) -> np.ndarray:
    """Say of the classes a node never saw that they score ``margin`` below on its rows.

    Parameters
    ----------
    W : ndarray of shape (n_features + 1, n_classes)
        Standardised weights; columns of unknown classes are ignored.
    known : ndarray of shape (n_classes,), bool
        Classes the node knows.
    margin : float
        Distance below the mean known logit, in units of the logits' root mean
        square.

    Returns
    -------
    W : ndarray of shape (n_features + 1, n_classes)
        Centred over all classes, so that it does not matter which of the many
        equal parameters of one softmax model a node happened to send.
    """
    filled = W.copy()
    filled[:, ~known] = 0.0
    filled[-1, ~known] = -margin
    return filled - filled.mean(axis=1, keepdims=True)


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
    """
    rows = np.arange(y.shape[0])
    return float(np.mean(logsumexp(logits, axis=1) - logits[rows, y]))


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
