# SPDX-License-Identifier: BSD-3-Clause
"""Bring the logits of different nodes to one scale."""

from __future__ import annotations

import numpy as np

from ..networks import linear_logits


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
