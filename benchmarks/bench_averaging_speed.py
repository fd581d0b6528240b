# SPDX-License-Identifier: BSD-3-Clause
"""Averaging 100 nodes of a million parameters, against one numpy mean of them all.

``mean_parameters`` alone, which takes the models one after another, and the whole of
``ModelAveragingAggregator(models).fit()``, with its checks and reading. Time of the
best of five, and peak memory beyond what the models themselves take, in models.
"streamed" makes each model as it is needed, as when it comes from a file or a node.
"""

from __future__ import annotations

import tracemalloc
from argparse import ArgumentParser
from time import perf_counter

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from skgems import ModelAveragingAggregator
from skgems.tuning import mean_parameters

N_CLASSES = 10
N_INPUTS = 784


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


def linear(row):
    """A fitted linear model with the numbers of a row, not copied."""
    model = LogisticRegression()
    model.classes_, model.n_features_in_ = np.arange(N_CLASSES), len(row) // 10 - 1
    model.coef_ = row[N_CLASSES : N_CLASSES * (1 + model.n_features_in_)]
    model.coef_ = model.coef_.reshape(N_CLASSES, -1)
    model.intercept_ = row[:N_CLASSES]
    return model


def network(row):
    """A fitted network of one hidden layer with them."""
    width = (len(row) - N_CLASSES) // (N_INPUTS + 1 + N_CLASSES)
    shapes = (N_INPUTS, width), (width, N_CLASSES), (width,), (N_CLASSES,)
    ends = np.cumsum([0, *map(np.prod, shapes)])
    arrays = [row[ends[i] : ends[i + 1]].reshape(s) for i, s in enumerate(shapes)]
    model = MLPClassifier((width,))
    model.coefs_, model.intercepts_ = arrays[:2], arrays[2:]
    model.classes_, model.n_features_in_ = np.arange(N_CLASSES), N_INPUTS
    model.n_layers_, model.n_outputs_, model.out_activation_ = 3, N_CLASSES, "softmax"
    return model


def print_line(what, dtype, theirs, ours, memory) -> None:
    """One line of the table."""
    print(
        f"{what:24} {np.dtype(dtype).name:8} {theirs * 1e3:6.0f} ms {ours * 1e3:6.0f} "
        f"ms {ours / theirs:6.2f} {memory:7.2f}",
        flush=True,
    )


def main() -> None:
    """Print a table."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--parameters", type=int, default=1_000_000)
    options = parser.parse_args()
    n, size = options.nodes, options.parameters
    print(f"{n} nodes of {size} parameters")
    print(f"{'':24} {'dtype':8} {'numpy':>9} {'ours':>9} {'ratio':>6} {'memory':>7}")
    for dtype in (np.float64, np.float32):
        stack = np.random.default_rng(0).standard_normal((n, size), dtype=dtype)

        def theirs(stack=stack):
            return stack.mean(axis=0)

        def ours(stack=stack):
            return mean_parameters(([row], 1.0) for row in stack)

        def streamed(dtype=dtype):
            mean_parameters(([np.ones(size, dtype=dtype)], 1.0) for _ in range(n))

        np.testing.assert_allclose(ours()[0], theirs(), atol=1e-5)
        model, limit = stack[0].nbytes, best_of(theirs)
        print_line("mean", dtype, limit, best_of(ours), peak(ours) / model)
        alone = best_of(streamed)
        print_line("mean, streamed", dtype, limit, alone, peak(streamed) / model)
        for make in (linear, network):
            models = [make(row) for row in stack]
            average = ModelAveragingAggregator(models).fit
            what = f"aggregator, {make.__name__}"
            limit = best_of(theirs)
            print_line(what, dtype, limit, best_of(average), peak(average) / model)


if __name__ == "__main__":
    main()
