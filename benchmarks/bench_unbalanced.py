# SPDX-License-Identifier: BSD-3-Clause
"""What `combine` chooses on sets with a rare class: by accuracy, log-loss, and AUC.

Area under the ROC curve, log-loss and accuracy on test rows of what each score chooses,
beside gradient boosting of all rows at one place. The table of the guide's page on
`combine` is made by it.

``--unbalanced`` is an npz with NAME_X and NAME_y for each data set of two classes.
``--records`` keeps results, one line of JSON each, and runs only what is missing.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from argparse import Namespace
from typing import NamedTuple

import numpy as np
from _federations import assign_nodes, log_loss, split_rows
from _quick import note_figure, parse_with_quick
from _records import JsonLines
from sklearn.base import ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from skgems import combine

UNBALANCED_VARIABLE = "SKGEMS_UNBALANCED"
SCORES = ("accuracy", "log_loss", "roc_auc")
BOOSTING = "boosting of all rows"
PARTITIONS = ("homog-5", "dir0.1-5")
MAX_TRAIN_ROWS = 7000


class Cell(NamedTuple):
    """One data set, partitioned once."""

    data: str  # the data set; a name of records, as all that follow
    seed: int
    partition: str


def measure(cell: Cell, options: Namespace) -> dict:
    """Scores on test rows of what each score chooses, and of boosting."""
    with np.load(options.unbalanced) as arrays:
        X = arrays[f"{cell.data}_X"].astype(np.float64)
        y = arrays[f"{cell.data}_y"]
    X, y, X_test, y_test = split_rows(
        X, y, cell.seed, max_rows=MAX_TRAIN_ROWS, standardize=False
    )
    nodes = assign_nodes(cell.partition, y, cell.seed)
    record: dict = {"n_rows": len(y), "rare": float(np.mean(y == rare_class(y)))}
    for scoring in SCORES:
        chosen = combine(
            X=X,
            y=y,
            nodes=nodes,
            budget=options.budget,
            scoring=scoring,
            random_state=cell.seed,
        )
        record[scoring] = scores_on_test_rows(chosen, X_test, y_test)
        record[f"{scoring} took"] = chosen.choice_.name
    boosting = HistGradientBoostingClassifier(random_state=cell.seed).fit(X, y)
    record[BOOSTING] = scores_on_test_rows(boosting, X_test, y_test)
    return record


def rare_class(y: np.ndarray) -> object:
    """The label of the smallest class."""
    labels, counts = np.unique(y, return_counts=True)
    return labels[counts.argmin()]


def scores_on_test_rows(
    model: ClassifierMixin, X: np.ndarray, y: np.ndarray
) -> dict[str, float]:
    """Area under the ROC curve, log-loss and accuracy, by their names."""
    return {
        "roc_auc": float(roc_auc_score(y, model.predict_proba(X)[:, 1])),
        "log_loss": log_loss(model, X, y, np.unique(y)),
        "accuracy": float(model.score(X, y)),
    }


def run_missing(options: Namespace) -> list[dict]:
    """Run and record what is missing; returns the records of the cells asked for."""
    file = JsonLines(options.records)
    records = file.read()
    asked = []
    for seed in options.seeds:
        for data_set in options.sets or sets_of(options.unbalanced):
            for partition in options.partitions:
                cell = Cell(data_set, seed, partition)._asdict()
                known = [r for r in records if cell.items() <= r.items()]
                if known:
                    asked += known[:1]
                    continue
                record = cell | measure(Cell(**cell), options)
                print(record, flush=True)
                file.append(record)
                asked.append(record)
    return asked


def sets_of(path: str) -> list[str]:
    """Names of the data sets in a file."""
    with np.load(path) as arrays:
        return [name.removesuffix("_X") for name in arrays if name.endswith("_X")]


def print_table(records: list[dict]) -> None:
    """A line a data set, and one of the means of all."""
    print("mean AUC and log-loss on test rows, and accuracy in percent, of what was")
    print(f"chosen by {', by '.join(SCORES)}; of {BOOSTING}; how often chosen")
    names = list(dict.fromkeys(record["data"] for record in records))
    for name in [*names, "all"]:
        runs = [record for record in records if name in (record["data"], "all")]
        rare = 100 * np.mean([run["rare"] for run in runs])
        columns = [f"{name:16} {runs[0]['n_rows']:5d} rows, {rare:4.1f} % rare:"]
        for way in (*SCORES, BOOSTING):
            area, loss, accuracy = (
                np.mean([run[way][score] for run in runs])
                for score in ("roc_auc", "log_loss", "accuracy")
            )
            note_figure(f"{name}, {way}, area", area)
            columns.append(f"{area:.4f} {loss:.4f} {100 * accuracy:.2f}")
        print(" | ".join(columns))
    for scoring in SCORES:
        taken = [record[f"{scoring} took"] for record in records]
        counts = {name: taken.count(name) for name in sorted(set(taken))}
        print(f"by {scoring}: {counts}")


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--unbalanced",
        default=os.environ.get(UNBALANCED_VARIABLE),
        help=f"npz with NAME_X and NAME_y, else of {UNBALANCED_VARIABLE}",
    )
    parser.add_argument("--sets", nargs="+", help="all in the file unless told")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--partitions", nargs="+", default=list(PARTITIONS))
    parser.add_argument("--budget", default="fast", choices=["fast", "thorough"])
    parser.add_argument("--records")
    options = parse_with_quick(
        parser,
        quick={"seeds": [0], "partitions": ["dir0.1-5"]},
        needs={"unbalanced": UNBALANCED_VARIABLE},
    )
    if options.unbalanced is None:
        sys.exit(f"Give --unbalanced or set {UNBALANCED_VARIABLE}.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print_table(run_missing(options))


if __name__ == "__main__":
    main()
