# SPDX-License-Identifier: BSD-3-Clause
"""Averaging 100 nodes of a million parameters, against one numpy mean of them all.

``mean_parameters`` takes the models one after another. Time of the best of five, and
peak memory beyond what the models themselves take, in models. The last column makes
each model as it is needed, as when it comes from a file or a node.
"""

from __future__ import annotations

import tracemalloc
from argparse import ArgumentParser
from time import perf_counter

import numpy as np

from skgems.rounds import mean_parameters


def best_of(function, repeats=5) -> float:
    """Seconds of the fastest run."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        function()
        times.append(perf_counter() - start)
    return min(times)


def peak(function) -> int:
    """Bytes at most allocated while a function runs."""
    tracemalloc.start()
    function()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def main() -> None:
    """Print a table."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--parameters", type=int, default=1_000_000)
    options = parser.parse_args()
    n, size = options.nodes, options.parameters
    print(f"{n} nodes of {size} parameters")
    print(f"{'dtype':8} {'numpy':>9} {'ours':>9} {'ratio':>6} {'memory':>7} streamed")
    for dtype in (np.float64, np.float32):
        stack = np.random.default_rng(0).standard_normal((n, size), dtype=dtype)
        np.testing.assert_allclose(
            mean_parameters(([row], 1.0) for row in stack)[0],
            stack.mean(axis=0),
            atol=1e-5,
        )
        theirs = best_of(lambda stack=stack: stack.mean(axis=0))
        ours = best_of(
            lambda stack=stack: mean_parameters(([row], 1.0) for row in stack)
        )
        model = stack[0].nbytes
        held = peak(lambda stack=stack: mean_parameters(([row], 1.0) for row in stack))
        streamed = peak(
            lambda dtype=dtype: mean_parameters(
                ([np.ones(size, dtype=dtype)], 1.0) for _ in range(n)
            )
        )
        print(
            f"{np.dtype(dtype).name:8} {theirs * 1e3:6.0f} ms {ours * 1e3:6.0f} ms "
            f"{ours / theirs:6.2f} {held / model:7.2f} {streamed / model:8.2f}"
        )


if __name__ == "__main__":
    main()
