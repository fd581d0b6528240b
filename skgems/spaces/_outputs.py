# SPDX-License-Identifier: BSD-3-Clause
"""Outputs of models: those that are compared, their logits on rows and one scale."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from ..networks import linear_logits


def output_columns(outputs: np.ndarray | None, n_outputs: int) -> np.ndarray:
    """Indices of the outputs that are compared; None means all of them."""
    if outputs is None:
        return np.arange(n_outputs)
    outputs = np.asarray(outputs)
    if outputs.dtype != bool or outputs.shape != (n_outputs,):
        raise ValueError(
            f"outputs must be a boolean mask of shape ({n_outputs},), got an array of "
            f"{outputs.dtype} of shape {outputs.shape}."
        )
    if not outputs.any():
        raise ValueError("outputs selects no output at all.")
    return np.flatnonzero(outputs)


def multiply(rows, weights: np.ndarray, out: np.ndarray) -> None:
    """Write ``rows @ weights`` to `out`."""
    if sparse.issparse(rows):
        out[:] = rows @ weights
    else:
        np.matmul(rows, weights, out=out)


def logits_on_rows(directions: np.ndarray, X) -> np.ndarray:
    """Logits of models of shape (..., n_params) on X: (..., n_rows)."""
    flat = directions.reshape(-1, directions.shape[-1])
    if sparse.issparse(X):
        logits = np.ascontiguousarray((X @ np.ascontiguousarray(flat[:, :-1].T)).T)
    else:
        logits = flat[:, :-1] @ X.T
    logits += flat[:, -1:]
    return logits.reshape(*directions.shape[:-1], -1)


def check_family(cls: type, metrics: Sequence) -> None:
    if all(type(metric) is cls for metric in metrics):
        return
    names = ", ".join(f"{i}: {metric.family}" for i, metric in enumerate(metrics))
    raise TypeError(
        "Metrics of different families cannot be combined "
        f"({names}). Build all nodes' spaces with geometry='gram', or all with 'ball' "
        "or 'ellipsoid'."
    )


def on_one_scale(W: np.ndarray, known: np.ndarray, X) -> tuple[np.ndarray, float]:
    """Known logits, centred and divided by their root mean square on X, and that."""
    scaled = np.zeros_like(W, dtype=np.float64)
    scaled[:, known] = W[:, known] - W[:, known].mean(axis=1, keepdims=True)
    logits = linear_logits(X, scaled[:, known])
    scale = float(np.sqrt(np.mean(np.square(logits, dtype=np.float64))))
    if scale <= np.finfo(np.float64).eps * max(1.0, float(np.abs(W).max())):
        return scaled, 1.0
    return scaled / scale, scale


def fill_unseen(W: np.ndarray, known: np.ndarray, margin: float) -> np.ndarray:
    """Score unknown classes ``margin`` below the mean known logit; centred over all."""
    filled = W.copy()
    filled[:, ~known] = 0.0
    filled[-1, ~known] = -margin
    return filled - filled.mean(axis=1, keepdims=True)
