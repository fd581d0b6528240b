# SPDX-License-Identifier: BSD-3-Clause
"""One fit of the likelihood on MNIST's pixels, beside the products that it cannot do
without.

Five nodes of two digits each, 50,000 rows in float32. The products are those of each
class's rows with each other, in blocks of 1,024: what the matrices of moments are made
of. Fits and products are taken in turn, in processor seconds, the least of each;
nothing is remembered from fit to fit. One thread each if OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser
from time import process_time

import numpy as np
from _protocol import (
    DATA_VARIABLE,
    LABEL_GROUPS,
    add_arguments,
    load_mnist,
    split,
)
from _quick import parse_with_quick
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator
from skgems.datasets import partition_by_label
from skgems.local import clear_cache

# Nodes of two digits each.
K = 5
# Rows of a product: a block of them stays in the cache.
BLOCK = 1024


def products(X: np.ndarray, y: np.ndarray) -> None:
    """Sum the products of the rows of each class."""
    for c in np.unique(y):
        rows = X[y == c]
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            block.T @ block


def seconds(function, *args) -> float:
    """Of the processor."""
    start = process_time()
    function(*args)
    return process_time() - start


def main() -> None:
    """Print the seconds and their ratio."""
    parser = add_arguments(ArgumentParser(description=__doc__.splitlines()[0]))
    options = parse_with_quick(
        parser, quick={"trials": 1}, needs={"data": DATA_VARIABLE}
    )
    X, y = load_mnist(options.data)
    local = split(0)[0]
    X = X[local].astype(np.float32)
    y = y[local]
    nodes = partition_by_label(y, LABEL_GROUPS[K])
    warnings.simplefilter("ignore", ConvergenceWarning)
    local_models = [
        LogisticRegression(C=0.01, max_iter=50).fit(X[nodes == k], y[nodes == k])
        for k in range(K)
    ]
    aggregator = GEMSLogisticAggregator(local_models, C=1.0, random_state=0)

    def fit() -> None:
        clear_cache()
        aggregator.fit(X, y, nodes=nodes)

    fit()
    times = [(seconds(products, X, y), seconds(fit)) for _ in range(options.trials)]
    of_products, of_fit = np.min(times, axis=0)
    ratio = of_fit / of_products
    print(f"products {of_products:.2f} s, fit {of_fit:.2f} s: {ratio:.1f} times")


if __name__ == "__main__":
    main()
