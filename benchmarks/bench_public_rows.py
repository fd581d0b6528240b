# SPDX-License-Identifier: BSD-3-Clause
"""What public rows do to a linear aggregate that is as likely as can be.

Data sets, partitions and local models are those of ``bench_pooled_gap.py``, at most
8,000 training rows. Public rows are drawn, by label, from the test rows, and accuracy
is read on the others: untuned, tuned, and LogisticRegression of the public rows alone;
"behind" is how many points tuned is below the better of the other two. Means of seeds.
"""

from __future__ import annotations

import os
import warnings
from argparse import ArgumentParser
from copy import deepcopy

import numpy as np
from _protocol import DATA_VARIABLE
from bench_pooled_gap import MNIST, TABULAR_VARIABLE, Split, deal, fit_locals, load
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skgems import GEMSLogisticAggregator

SETS = ("digits", "penbased", "spambase", "magic", "led7digit", "breast_cancer", MNIST)
PARTITIONS = ("disjoint-2", "disjoint-5", "dir0.1-5", "crowd")
MOST_PUBLIC, MAX_ROWS = 1000, 8000


def accuracies(split: Split, nodes: np.ndarray, seed: int, sizes) -> dict:
    """Untuned, tuned and alone, by the number of public rows."""
    locals_ = fit_locals("logistic", split.X, split.y, nodes)
    agg = GEMSLogisticAggregator(locals_, random_state=seed)
    agg.fit(split.X, split.y, nodes=nodes)
    X, X_test, y, y_test = train_test_split(
        split.X_test,
        split.y_test,
        train_size=min(MOST_PUBLIC, len(split.y_test) // 2),
        stratify=split.y_test,
        random_state=seed,
    )
    untuned, found = agg.score(X_test, y_test), {}
    for n in sizes:
        if n > len(y) or len(np.unique(y[:n])) == 1:
            continue
        tuned = deepcopy(agg).fine_tune(X[:n], y[:n])
        alone = LogisticRegression(max_iter=1000).fit(X[:n], y[:n])
        found[n] = untuned, tuned.score(X_test, y_test), alone.score(X_test, y_test)
    return found


def main() -> None:
    """Print a line a cell, and the worst of each number of rows."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-sets", nargs="+", choices=SETS, default=[*SETS])
    parser.add_argument("--rows", nargs="+", type=int, default=[20, 100, 1000])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--tabular", default=os.environ.get(TABULAR_VARIABLE))
    parser.add_argument("--mnist", default=os.environ.get(DATA_VARIABLE))
    parser.set_defaults(data=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"{'':26}{'rows':>6}{'untuned':>9}{'tuned':>9}{'alone':>9}{'behind':>8}")
    behind: dict[int, list[float]] = {n: [] for n in options.rows}
    for name in options.data_sets:
        X, y = load(name, options)
        for partition in PARTITIONS:
            cells: dict[int, list] = {n: [] for n in options.rows}
            for seed in options.seeds:
                split = Split.of(X, y, seed, max_rows=MAX_ROWS, scale=name != MNIST)
                try:
                    nodes = deal(partition, split.y, seed)
                except ValueError:  # too few rows, or classes
                    continue
                for n, own in accuracies(split, nodes, seed, options.rows).items():
                    cells[n].append(own)
            for n, found in cells.items():
                if found:
                    untuned, tuned, alone = np.mean(found, axis=0)
                    behind[n].append(100 * (max(untuned, alone) - tuned))
                    print(
                        f"{name + ', ' + partition:26}{n:6}{untuned:9.4f}{tuned:9.4f}"
                        f"{alone:9.4f}{behind[n][-1]:8.2f}",
                        flush=True,
                    )
    for n, found in behind.items():
        if found:
            print(f"{n} rows: behind {np.mean(found):.2f}, at worst {max(found):.2f}")


if __name__ == "__main__":
    main()
