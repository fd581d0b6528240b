# SPDX-License-Identifier: BSD-3-Clause
"""What public rows do to a linear aggregate that is as likely as can be.

Data sets, partitions and local models are those of ``bench_pooled_gap.py``, at most
8,000 training rows. Public rows are drawn, by label, from the test rows, and accuracy
is read on the others: untuned, tuned, and LogisticRegression of the public rows alone;
"behind" is how many points tuned is below the better of the other two. Means of seeds.
The guide's page on moments tells what it prints, where fine-tuning is shown.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser, Namespace
from collections import defaultdict
from copy import deepcopy
from typing import NamedTuple

import numpy as np
from _federations import (
    MNIST,
    Federation,
    Split,
    add_data_options,
    assign_nodes,
    load_data_set,
    split_rows,
)
from _quick import note_figure, parse_with_quick
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skgems import GEMSLogisticAggregator

SETS = ("digits", "penbased", "spambase", "magic", "led7digit", "breast_cancer", MNIST)
PARTITIONS = ("disjoint-2", "disjoint-5", "dir0.1-5", "crowd")
# Public rows are test rows, of which at least half are left to read the accuracy on.
MAX_PUBLIC_ROWS = 1000
# Of MNIST's rows more only take longer; other data sets have hardly more.
MAX_ROWS = 8000


class Accuracies(NamedTuple):
    """On the test rows that are not public."""

    untuned: float
    tuned: float
    alone: float  # LogisticRegression of the public rows


def measure(
    federation: Federation, split: Split, public_sizes: list[int]
) -> dict[int, Accuracies]:
    """Untuned, tuned and alone, by the number of public rows."""
    aggregator = GEMSLogisticAggregator(
        federation.local_models, random_state=federation.seed
    )
    aggregator.fit(federation.X, federation.y, nodes=federation.nodes)
    X, X_test, y, y_test = train_test_split(
        split.X_test,
        split.y_test,
        train_size=min(MAX_PUBLIC_ROWS, len(split.y_test) // 2),
        stratify=split.y_test,
        random_state=federation.seed,
    )
    untuned = aggregator.score(X_test, y_test)
    accuracies = {}
    for n in public_sizes:
        if n > len(y) or len(np.unique(y[:n])) == 1:
            continue
        tuned = deepcopy(aggregator).fine_tune(X[:n], y[:n])
        alone = LogisticRegression(max_iter=1000).fit(X[:n], y[:n])
        accuracies[n] = Accuracies(
            untuned=untuned,
            tuned=tuned.score(X_test, y_test),
            alone=alone.score(X_test, y_test),
        )
    return accuracies


def measure_seeds(
    name: str, X: np.ndarray, y: np.ndarray, partition: str, options: Namespace
) -> dict[int, list[Accuracies]]:
    """What each seed gives on a data set and partition, by the number of rows."""
    of_seeds: dict[int, list[Accuracies]] = defaultdict(list)
    for seed in options.seeds:
        split = split_rows(X, y, seed, max_rows=MAX_ROWS, standardize=name != MNIST)
        try:
            nodes = assign_nodes(partition, split.y, seed)
        except ValueError:  # too few rows, or classes
            continue
        federation = Federation(X=split.X, y=split.y, nodes=nodes, seed=seed)
        for n, accuracies in measure(federation, split, options.rows).items():
            of_seeds[n].append(accuracies)
    return of_seeds


def main() -> None:
    """Print a line a cell, and the worst of each number of rows."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    add_data_options(parser)
    parser.add_argument("--data-sets", nargs="+", choices=SETS, default=[*SETS])
    parser.add_argument("--rows", nargs="+", type=int, default=[20, 100, 1000])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parse_with_quick(
        parser,
        quick={
            "data_sets": ["digits", "breast_cancer"],
            "rows": [20, 100],
            "seeds": [0],
        },
    )
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"{'':26}{'rows':>6}{'untuned':>9}{'tuned':>9}{'alone':>9}{'behind':>8}")
    points_behind: dict[int, list[float]] = {n: [] for n in options.rows}
    for name in options.data_sets:
        X, y = load_data_set(name, options)
        for partition in PARTITIONS:
            of_seeds = measure_seeds(name, X, y, partition, options)
            for n in [n for n in options.rows if of_seeds[n]]:
                untuned, tuned, alone = np.mean(of_seeds[n], axis=0)
                behind = 100 * (max(untuned, alone) - tuned)
                points_behind[n].append(behind)
                print(
                    f"{f'{name}, {partition}':26}{n:6}{untuned:9.4f}{tuned:9.4f}"
                    f"{alone:9.4f}{behind:8.2f}",
                    flush=True,
                )
    for n, points in points_behind.items():
        if points:
            note_figure(f"{n} rows, worst points behind", max(points))
            print(f"{n} rows: behind {np.mean(points):.2f}, at worst {max(points):.2f}")


if __name__ == "__main__":
    main()
