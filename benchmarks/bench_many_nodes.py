# SPDX-License-Identifier: BSD-3-Clause
"""Many nodes in one process: seconds and memory of a fit by their number.

Nodes have 50 rows of 784 features (``--features``) and up to 10 classes each, and a
linear model of those that they have rows of. Seconds are those of the processor. Each
line is a process of its own, so that the peak of its memory above what it had before
the fit is its own. The rows themselves take 0.16 GB a thousand nodes. The table of the
guide's page on moments is made by it.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import warnings
from pathlib import Path
from time import process_time

import numpy as np
from _quick import note_figure, parse_with_quick
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator, ModelAveragingAggregator

# The shape of MNIST, of which a node has few rows.
N_ROWS = 50
N_FEATURES = 784  # pixels
N_CLASSES = 10  # digits
# Parameters of GEMSLogisticAggregator; None for ModelAveragingAggregator.
METHODS = {
    "averaging": None,
    "diagonal": {"moments": "diagonal"},
    "shared": {"moments": "shared"},
    "diagonal, 5 messages": {"moments": "diagonal", "n_rounds": 5},
    "consensus, ellipsoid": {"intersection": "consensus", "spaces": "ellipsoid"},
}


def make_rows(
    n_nodes: int, seed: int = 0, *, n_features: int = N_FEATURES, n_rows: int = N_ROWS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correlated features about the means of classes; who owns each row."""
    rng = np.random.default_rng(0)
    means = rng.standard_normal((N_CLASSES, n_features))
    mixing = rng.standard_normal((64, n_features)) / 4
    if seed:  # other rows of the same classes
        rng = np.random.default_rng(seed)
    y = rng.integers(N_CLASSES, size=n_nodes * n_rows)
    X = rng.standard_normal((len(y), 64)) @ mixing + 0.2 * means[y]
    X += 0.5 * rng.standard_normal(X.shape)
    return X.astype(np.float32), y, np.repeat(np.arange(n_nodes), n_rows)


def make_members(X: np.ndarray, y: np.ndarray, nodes: np.ndarray) -> list:
    """What little training gives each node: means of its classes as weights."""
    members = []
    n_rows = len(y) // (nodes.max() + 1)
    for start in range(0, len(y), n_rows):
        rows = X[start : start + n_rows]
        labels = y[start : start + n_rows]
        clf = LogisticRegression()
        clf.classes_ = np.unique(labels)
        means = np.stack([rows[labels == c].mean(axis=0) for c in clf.classes_])
        clf.coef_ = ((means - means.mean(axis=0)) / 100).astype(np.float64)
        clf.intercept_ = np.zeros(len(means))
        clf.n_features_in_ = X.shape[1]
        clf.n_iter_ = np.array([1])
        members.append(clf)
    return members


def peak_memory() -> float:
    """Largest memory of this process so far, in GB."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage tells counts the process that started this
        (line,) = (x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def measure(method: str, n_nodes: int, n_features: int) -> None:
    """Fit once and print a line."""
    X, y, nodes = make_rows(n_nodes, n_features=n_features)
    members = make_members(X, y, nodes)
    parameters = METHODS[method]
    memory_before = peak_memory()
    start = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if parameters is None:
            aggregator = ModelAveragingAggregator(members).fit()
        else:
            aggregator = GEMSLogisticAggregator(members, random_state=0)
            aggregator.set_params(**parameters).fit(X, y, nodes=nodes)
    seconds = process_time() - start
    memory = peak_memory() - memory_before
    accuracy = aggregator.score(X, y)
    note_figure(f"{method}, {n_nodes} nodes, GB", memory)
    print(f"{method:24}{n_nodes:7d}{seconds:10.1f} s{memory:9.2f} GB{accuracy:9.3f}")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", nargs="+", type=int, default=[10, 100, 1000])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[*METHODS])
    parser.add_argument("--features", type=int, default=N_FEATURES)
    parser.add_argument("--one", action="store_true", help="in this process")
    options = parse_with_quick(
        parser,
        quick={"nodes": [10, 100], "methods": ["averaging", "diagonal"]},
    )
    if options.one:
        measure(options.methods[0], options.nodes[0], options.features)
        return
    print(f"{'':24}{'nodes':>7}{'seconds':>12}{'memory':>12}{'accuracy':>9}")
    for method in options.methods:
        for n_nodes in options.nodes:
            subprocess.run(
                [sys.executable, __file__, "--one", "--nodes", str(n_nodes)]
                + ["--methods", method, "--features", str(options.features)],
                check=True,
            )


if __name__ == "__main__":
    main()
