"""Whose parameters are so large that an average of models is theirs alone.

The mean of ten models of which one is ten times as large as the others is half that
one. Sizes are root mean squares of what is not zero: outputs for classes and weights of
features that a node does not know are zero, and say nothing of its size.
"""

from collections.abc import Sequence

import numpy as np

from ..moments import CACHE_BYTES, ratio

# How many times as large as at the median node an array must be. Of 1,079 honest nodes
# with logistic regressions on nine data sets none has 6 times as much, nor of 285 with
# C drawn between 0.1 and 10, and as many between 0.01 and 100; one of three networks of
# other numbers of rows has 6.04. A typical node's parameters times -10 are found.
TIMES_LARGER = 7.5


def array_sizes(parameters: Sequence[np.ndarray]) -> np.ndarray:
    """Root mean square of what is not zero in each array; 0 of arrays of integers.

    A buffer may hold infinities, as masks of attention do: these are left out.
    """
    return np.array([_array_size(array) for array in parameters])


def _array_size(array: np.ndarray) -> float:
    if array.dtype.kind != "f":
        return 0.0
    numbers = array.ravel(order="K")
    total = 0.0
    count = 0
    n_at_once = CACHE_BYTES // 8  # so that no second model has to be held
    for start in range(0, len(numbers), n_at_once):
        block = numbers[start : start + n_at_once].astype(np.float64)
        block = block[(block != 0) & np.isfinite(block)]
        with np.errstate(over="ignore"):  # a size that is infinite is compared as well
            total += float(block @ block)
        count += len(block)
    return float(np.sqrt(total / count)) if count else 0.0


def times_larger(sizes: np.ndarray) -> np.ndarray:
    """Return how far nodes exceed the median node in an array, (n_nodes,); 0 where not.

    ``sizes`` has the shape (n_nodes, n_arrays). An array that is smaller at the median
    node than arrays mostly are, as intercepts may be that were never trained, is
    compared with what arrays mostly are.
    """
    n_nodes, n_arrays = sizes.shape
    # Of two nodes nobody can say which one is too large.
    if n_nodes < 3 or not n_arrays:
        return np.zeros(n_nodes)
    medians = np.median(sizes, axis=0)
    references = np.maximum(medians, np.median(medians))
    times = ratio(sizes, np.broadcast_to(references, sizes.shape)).max(axis=1)
    return np.where(times > TIMES_LARGER, times, 0.0)
