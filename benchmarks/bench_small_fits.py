# SPDX-License-Identifier: BSD-3-Clause
"""Time of small fits in one process, where bookkeeping weighs more than mathematics.

Three times are measured, in seconds of the processor:

- twenty fits of linear models: iris, wine, breast cancer and two sets of blobs, each
  over 2, 3, 4 and 6 nodes of scaled LogisticRegression, with an empty cache;
- a refit that finds all replies and its search in the cache: iris over three nodes;
- boosted trees over 16 nodes, in multiples of a fit of scikit-learn to all rows.

``--before FOLDER`` times an earlier skgems as well, which lies in that folder (such as
one that ``git archive COMMIT skgems | tar x -C FOLDER`` made). Both take turns, each in
processes of its own, and the smallest time of all turns counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from time import process_time

import numpy as np
from _quick import note_figure, parse_with_quick
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_blobs
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, PooledAggregator
from skgems.local import clear_cache

NODES = (2, 3, 4, 6)
N_REFITS = 30
# Of boosted trees.
ROWS = 15_000
COLUMNS = 20
BOOSTING_NODES = 16
ROUNDS = 100
DEPTH = 4

SMALL_FITS = "seconds of twenty small fits"
REFIT = "milliseconds of a cached refit"
BOOSTING = "times boosting of all rows"

QUICK = {"turns": 1, "rounds": 20}


def data_sets() -> list[tuple[np.ndarray, np.ndarray]]:
    """Return features and labels of five small sets."""
    sets = [
        load(return_X_y=True) for load in (load_iris, load_wine, load_breast_cancer)
    ]
    for seed, n_classes in enumerate((3, 5)):
        sets.append(
            make_blobs(
                400, n_features=8, centers=n_classes, cluster_std=4, random_state=seed
            )
        )
    return sets


def federation(
    X: np.ndarray, y: np.ndarray, n_nodes: int
) -> tuple[list, np.ndarray, np.ndarray, np.ndarray]:
    """Return a scaled logistic regression of each node, rows, labels and owners."""
    nodes = np.arange(len(y)) % n_nodes
    models = [
        make_pipeline(StandardScaler(), LogisticRegression()).fit(
            X[nodes == k], y[nodes == k]
        )
        for k in range(n_nodes)
    ]
    return models, X, y, nodes


def fit_linear(models: list, X: np.ndarray, y: np.ndarray, nodes: np.ndarray) -> None:
    GEMSLogisticAggregator(models, random_state=0).fit(X, y, nodes=nodes)


def seconds_of(call: Callable[[], object]) -> float:
    start = process_time()
    call()
    return process_time() - start


def seconds_of_small_fits(n_turns: int) -> float:
    """Return the seconds of all small fits, of each the fastest turn."""
    total = 0.0
    for X, y in data_sets():
        for n_nodes in NODES:
            fit = partial(fit_linear, *federation(X, y, n_nodes))
            turns = []
            for _ in range(n_turns):
                clear_cache()
                turns.append(seconds_of(fit))
            total += min(turns)
    return total


def milliseconds_of_refit() -> float:
    X, y = load_iris(return_X_y=True)
    nodes = np.arange(len(y)) % 3
    models = [LogisticRegression().fit(X[nodes == k], y[nodes == k]) for k in range(3)]
    fit = partial(fit_linear, models, X, y, nodes)
    fit()
    return 1e3 * min(seconds_of(fit) for _ in range(N_REFITS))


def times_of_boosting(n_rounds: int) -> float:
    """Return the time of boosting over nodes, in that of all rows at one place."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(ROWS, COLUMNS))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + generator.normal(size=ROWS) > 0).astype(int)
    unfitted = HistGradientBoostingClassifier(
        max_iter=n_rounds, max_depth=DEPTH, max_leaf_nodes=None, early_stopping=False
    )
    nodes = np.arange(ROWS) % BOOSTING_NODES
    unfitted.fit(X, y)  # the first fit starts threads
    at_one_place = seconds_of(lambda: unfitted.fit(X, y))
    over_nodes = seconds_of(
        lambda: PooledAggregator(pooled=unfitted).fit(X, y, nodes=nodes)
    )
    return over_nodes / at_one_place


def measure(n_turns: int, n_rounds: int) -> dict[str, float]:
    """Return all figures of the skgems that this process imports."""
    warnings.simplefilter("ignore")
    seconds_of_small_fits(1)  # which imports and compiles
    return {
        SMALL_FITS: seconds_of_small_fits(n_turns),
        REFIT: milliseconds_of_refit(),
        BOOSTING: times_of_boosting(n_rounds),
    }


def measured_elsewhere(folder: str | None, n_turns: int, n_rounds: int) -> dict:
    """Return all figures of the skgems in a folder, from a process of its own."""
    environment = dict(os.environ)
    if folder is not None:
        environment["PYTHONPATH"] = folder
    options = ["--turns", str(n_turns), "--rounds", str(n_rounds), "--json"]
    output = subprocess.run(
        [sys.executable, __file__, *options],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    return json.loads(output.splitlines()[-1])


def compare(folder: str, n_turns: int, n_rounds: int) -> None:
    """Print the figures of both, of each the smallest of all turns."""
    now: dict[str, list[float]] = {}
    before: dict[str, list[float]] = {}
    for _ in range(n_turns):
        for figures, place in ((before, folder), (now, None)):
            for name, value in measured_elsewhere(place, 3, n_rounds).items():
                figures.setdefault(name, []).append(value)
    for name in now:
        smallest = min(now[name])
        smallest_before = min(before[name])
        print(
            f"{name}: {smallest_before:.4g} before, {smallest:.4g} now, "
            f"{smallest / smallest_before:.2f} times as much"
        )


def main() -> None:
    """Print the figures, or those of two versions beside each other."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of boosting")
    parser.add_argument("--before", help="folder with an earlier skgems")
    parser.add_argument("--json", action="store_true", help="print one line for code")
    options = parse_with_quick(parser, quick=QUICK)
    if options.before is not None:
        compare(options.before, options.turns, options.rounds)
        return
    figures = measure(options.turns, options.rounds)
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        note_figure(name, value)
        print(f"{name}: {value:.4g}")


if __name__ == "__main__":
    main()
