"""Whose parameters are so large that an average of models is theirs alone.

The mean of ten models of which one is ten times as large as the others is half that
one. Sizes are root mean squares of what is not zero: outputs for classes and weights of
features that a node does not know are zero, and say nothing of its size.
"""

from collections.abc import Sequence

import numpy as np

from ..moments import CACHE_BYTES

# How many times as large as in all nodes that are not named an array must be. Of 1,893
# honest nodes each with logistic regressions, linear support vector machines and SGD on
# six data sets none has as much (benchmarks/bench_disagreement.py --aggregator
# averages). Among 452 networks, and as many logistic regressions with C drawn between
# 0.1 and 10, or 0.01 and 100, none was over 5.4 times as large as all others; one of
# 452 SGD classifiers was 6.1 times as large.
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
    """Return how far nodes exceed all others in an array, (n_nodes,); 0 where not.

    ``sizes`` has the shape (n_nodes, n_arrays). Of each array fewer than half of the
    nodes may be far larger than all others. An array that is smaller at the others than
    arrays mostly are, as intercepts may be that were never trained, is compared with
    what arrays mostly are.
    """
    n_nodes, n_arrays = sizes.shape
    times = np.zeros(n_nodes)
    if not n_arrays:
        return times
    usual = np.median(np.median(sizes, axis=0))
    for sizes_at_nodes in sizes.T:
        order = np.argsort(-sizes_at_nodes, kind="stable")
        ordered = sizes_at_nodes[order]
        # Of two nodes nobody can say which one is too large.
        for n_large in range((n_nodes - 1) // 2, 0, -1):
            largest_of_others = max(ordered[n_large], usual)
            if ordered[n_large - 1] > TIMES_LARGER * largest_of_others > 0:
                large = order[:n_large]
                ratios = ordered[:n_large] / largest_of_others
                times[large] = np.maximum(times[large], ratios)
                break
    return times
