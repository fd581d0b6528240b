# SPDX-License-Identifier: BSD-3-Clause
"""Rows in blocks: what fits the memory granted or the cache, and products with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse
from sklearn import get_config

# Blocks of X that are read twice are made to stay in the cache of one core.
_CACHE_BYTES = 2**19


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


def square_blocks(X) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield (rows, X[rows], X[rows] ** 2) in blocks that stay in cache.

    Sparse X is one block. Squares of a dense block are overwritten by the next.
    """
    if sparse.issparse(X):
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        squares = sparse.csr_matrix((X.data**2, X.indices, X.indptr), X.shape)
        yield slice(0, X.shape[0]), X, squares
        return
    blocks = row_blocks(X, X.shape[1] * X.itemsize, _CACHE_BYTES)
    buffer = np.empty((blocks[0].stop, X.shape[1]), dtype=X.dtype)
    for rows in blocks:
        block = X[rows]
        yield rows, block, np.multiply(block, block, out=buffer[: len(block)])


def multiply(rows, weights: np.ndarray, out: np.ndarray) -> None:
    """Write ``rows @ weights`` to `out`."""
    if sparse.issparse(rows):
        out[:] = rows @ weights
    else:
        np.matmul(rows, weights, out=out)


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
