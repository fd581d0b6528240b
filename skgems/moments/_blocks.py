# SPDX-License-Identifier: BSD-3-Clause
"""Rows in blocks that fit the memory granted or the cache, and their sums by label."""

from collections.abc import Iterator

import numpy as np
from scipy import sparse
from sklearn import get_config

# Blocks of X that are read twice are made to stay in the cache of one core.
_CACHE_BYTES = 2**19
# Rows that are copied for one product stay in the cache that cores share.
_MOST_BLOCK_BYTES = 2**22


def working_bytes() -> int:
    """Memory in bytes that scikit-learn's ``working_memory`` grants."""
    return int(get_config()["working_memory"] * 2**20)


def block_bytes() -> int:
    """Bytes of rows to copy at a time: what a cache and ``working_memory`` hold."""
    return min(max(working_bytes() // 16, 2**20), _MOST_BLOCK_BYTES)


def float_type(X) -> np.dtype:
    """float32 for float32 rows, else float64: the type products are done in."""
    return np.dtype(np.float32 if X.dtype == np.float32 else np.float64)


def ratio(values, sizes: np.ndarray, otherwise: float = 0.0) -> np.ndarray:
    """Values over sizes, and something else where a size is not above 0."""
    found = np.full(np.broadcast_shapes(np.shape(values), sizes.shape), otherwise)
    return np.divide(values, sizes, out=found, where=sizes > 0)


def row_blocks(X, bytes_per_row: int, limit: int) -> list[slice]:
    """Slices over the rows of X, each within `limit` bytes (one row at least)."""
    n_rows = X.shape[0]
    size = max(1, min(n_rows, limit // max(1, bytes_per_row)))
    # gen_batches checks its arguments, which here takes as long as a small product.
    return [slice(i, min(i + size, n_rows)) for i in range(0, n_rows, size)]


def square_blocks(X) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield (rows, X[rows], X[rows] ** 2) in blocks that stay in cache.

    Sparse X (CSR) is one block. Squares of a dense block are overwritten by the next.
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


def indicator(
    labels: np.ndarray, n_labels: int, values: np.ndarray | None = None
) -> sparse.csc_matrix:
    """Sparse matrix (n_labels, n_rows) that sums rows, times values, by label."""
    values = np.ones(len(labels)) if values is None else values
    # Columns of one number each: in this form nothing has to be put in order.
    every = np.arange(len(labels) + 1)
    return sparse.csc_matrix((values, labels, every), shape=(n_labels, len(labels)))
