# SPDX-License-Identifier: BSD-3-Clause
"""Some rows that are spread over all, by a rule that needs no rows but those so far."""

import numpy as np


def stride(sizes: np.ndarray, n_rows: int) -> int:
    """Least power of 2 by which classes of so many rows give at most ``n_rows``.

    Each class gives one row at least. It only grows as classes do.
    """
    step = 1
    while np.max(sizes, initial=1) > step and np.sum(-(-sizes // step)) > n_rows:
        step *= 2
    return step


def ranks(codes: np.ndarray) -> np.ndarray:
    """How many rows of its class there are before each row."""
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    found = np.empty(len(codes), dtype=np.intp)
    found[order] = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return found


def spread(codes: np.ndarray, n_rows: int) -> np.ndarray:
    """Places of at most so many rows, every 2^k-th of each class."""
    return np.flatnonzero(ranks(codes) % stride(np.bincount(codes), n_rows) == 0)
