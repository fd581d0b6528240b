"""Some rows of each class, which are the same however rows come in chunks."""

import numpy as np


def stride(sizes: np.ndarray, n_rows: int) -> int:
    """The least power of 2 by which classes give ``n_rows`` rows at most.

    Of a class of ``size`` rows every stride-th is taken, the first one always, which
    are ``ceil(size / stride)``. So where there are more classes than ``n_rows`` it ends
    at one row of each.
    """
    step = 1
    while np.max(sizes, initial=1) > step and np.sum(-(-sizes // step)) > n_rows:
        step *= 2
    return step


def ranks(codes: np.ndarray) -> np.ndarray:
    """Count the rows of the same class before each row."""
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    # Where each class begins in the order of classes.
    starts = np.cumsum(sizes) - sizes
    ranks_of_rows = np.empty(len(codes), dtype=np.intp)
    ranks_of_rows[order] = np.arange(len(codes)) - np.repeat(starts, sizes)
    return ranks_of_rows


def spread(codes: np.ndarray, n_rows: int) -> np.ndarray:
    """Indices of at most so many rows, every 2**k-th of each class."""
    step = stride(np.bincount(codes), n_rows)
    return np.flatnonzero(ranks(codes) % step == 0)
