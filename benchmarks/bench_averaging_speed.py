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
from collections.abc import Callable
from time import perf_counter

import numpy as np
from _quick import parse_with_quick
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from skgems import ModelAveragingAggregator
from skgems.tuning import mean_parameters

# The shape of MNIST.
N_CLASSES = 10
N_INPUTS = 784  # of networks; linear models have as many as there are numbers for


def best_of(function: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of the fastest run."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        function()
        times.append(perf_counter() - start)
    return min(times)


def peak_bytes(function: Callable[[], object]) -> int:
    """Bytes at most allocated while a function runs."""
    tracemalloc.start()
    function()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def linear_model(numbers: np.ndarray) -> LogisticRegression:
    """A fitted linear model with these numbers, not copied."""
    n_features = len(numbers) // 10 - 1
    model = LogisticRegression()
    model.classes_ = np.arange(N_CLASSES)
    model.n_features_in_ = n_features
    model.intercept_ = numbers[:N_CLASSES]
    coef = numbers[N_CLASSES : N_CLASSES * (1 + n_features)]
    model.coef_ = coef.reshape(N_CLASSES, -1)
    return model


def network(numbers: np.ndarray) -> MLPClassifier:
    """A fitted network of one hidden layer with these numbers, not copied."""
    width = (len(numbers) - N_CLASSES) // (N_INPUTS + 1 + N_CLASSES)
    shapes = ((N_INPUTS, width), (width, N_CLASSES), (width,), (N_CLASSES,))
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    W, V, b, c = (
        part.reshape(shape)
        for part, shape in zip(np.split(numbers, ends)[:4], shapes, strict=True)
    )
    model = MLPClassifier((width,))
    model.coefs_ = [W, V]
    model.intercepts_ = [b, c]
    model.classes_ = np.arange(N_CLASSES)
    model.n_features_in_ = N_INPUTS
    model.n_layers_ = 3
    model.n_outputs_ = N_CLASSES
    model.out_activation_ = "softmax"
    return model


def print_line(
    title: str, models: np.ndarray, average: Callable[[], object], numpy_seconds: float
) -> None:
    """Time an average, and print it beside numpy's, with memory in models."""
    seconds = best_of(average)
    memory = peak_bytes(average) / models[0].nbytes
    print(
        f"{title:24} {models.dtype.name:8} {numpy_seconds * 1e3:6.0f} ms "
        f"{seconds * 1e3:6.0f} ms {seconds / numpy_seconds:6.2f} {memory:7.2f}",
        flush=True,
    )


def main() -> None:
    """Print a table."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--parameters", type=int, default=1_000_000)
    options = parse_with_quick(parser, quick={"nodes": 20, "parameters": 200_000})
    n_nodes = options.nodes
    size = options.parameters
    print(f"{n_nodes} nodes of {size} parameters")
    print(f"{'':24} {'dtype':8} {'numpy':>9} {'ours':>9} {'ratio':>6} {'memory':>7}")
    for dtype in (np.float64, np.float32):
        rng = np.random.default_rng(0)
        stack = rng.standard_normal((n_nodes, size), dtype=dtype)  # a model a row

        def numpy_mean(stack=stack) -> np.ndarray:
            return stack.mean(axis=0)

        def mean_one_by_one(stack=stack) -> list:
            return mean_parameters(([row], 1.0) for row in stack)

        def mean_as_made(dtype=dtype) -> list:
            return mean_parameters(
                ([np.ones(size, dtype=dtype)], 1.0) for _ in range(n_nodes)
            )

        np.testing.assert_allclose(mean_one_by_one()[0], numpy_mean(), atol=1e-5)
        numpy_seconds = best_of(numpy_mean)
        print_line("mean", stack, mean_one_by_one, numpy_seconds)
        print_line("mean, streamed", stack, mean_as_made, numpy_seconds)
        for title, make in (("linear", linear_model), ("network", network)):
            aggregator = ModelAveragingAggregator([make(row) for row in stack])
            numpy_seconds = best_of(numpy_mean)
            print_line(f"aggregator, {title}", stack, aggregator.fit, numpy_seconds)


if __name__ == "__main__":
    main()
