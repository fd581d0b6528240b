# SPDX-License-Identifier: BSD-3-Clause
"""Rows in blocks: what fits the memory granted or the cache, and products with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from sklearn import get_config

# Blocks of X that are read twice are made to stay in the cache of one core.
_CACHE_BYTES = 2**18


def working_bytes() -> int:
    """Memory in bytes that scikit-learn's ``working_memory`` grants."""
    return int(get_config()["working_memory"] * 2**20)


def float_type(X) -> np.dtype:
    """float32 for float32 rows, else float64: the type products are done in."""
    return np.dtype(np.float32 if X.dtype == np.float32 else np.float64)


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


def row_blocks(X, bytes_per_row: int, limit: int) -> list[slice]:
    """Slices over the rows of X, each within `limit` bytes (one row at least)."""
    n_rows = X.shape[0]
    size = max(1, min(n_rows, limit // max(1, bytes_per_row)))
    # gen_batches checks its arguments, which here takes as long as a small product.
    return [slice(i, min(i + size, n_rows)) for i in range(0, n_rows, size)]


def cache_blocks(X) -> list[slice]:
    """Slices over the rows of X that stay in cache; all of them if X is sparse."""
    if sparse.issparse(X):
        return [slice(0, X.shape[0])]
    return row_blocks(X, X.shape[1] * X.itemsize, _CACHE_BYTES)


def squares(rows, out: np.ndarray | None = None):
    """Elementwise square of dense or sparse rows; `out` may serve for dense ones."""
    if not sparse.issparse(rows):
        return np.multiply(rows, rows, out=None if out is None else out[: len(rows)])
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return sparse.csr_matrix((rows.data**2, rows.indices, rows.indptr), rows.shape)


def logits_on_rows(directions: np.ndarray, X) -> np.ndarray:
    """Logits of models of shape (m, n_columns, n_params) on X: (m, n_columns, n)."""
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
