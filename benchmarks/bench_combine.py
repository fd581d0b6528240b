# SPDX-License-Identifier: BSD-3-Clause
"""One call, `combine`, on raw rows beside models of all rows at one place.

Points of test accuracy of what it chose, of the linear default, of the candidate that
the test rows would choose, and of the best of four models of all rows (those of
`bench_fronts.py`, whose records ``--marks`` reads; where there are none they are made).
With ``--members`` ten nodes have forests, support vector machines, or some of each. The
tables of the guide's pages on `combine` and on ensembles are made by it.

``--records`` keeps results, one line of JSON each, and runs only what is missing.
"""

from __future__ import annotations

import argparse
import warnings
from argparse import Namespace
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from _federations import assign_nodes
from _raw_rows import (
    MODELS_OF_ALL_ROWS,
    PARTITIONS,
    add_options,
    split_raw_rows,
    time_call,
)
from _records import JsonLines
from sklearn.base import ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import SVC

from skgems import EnsembleAggregator, GEMSLogisticAggregator, combine
from skgems.candidates._candidates import candidates
from skgems.datasets import partition_dirichlet
from skgems.steps import Columns

# What the k-th node fits, by the kind of members.
KINDS: dict[str, Callable[[int], ClassifierMixin]] = {
    "forests": lambda k: RandomForestClassifier(random_state=k),
    "svms": lambda k: SVC(C=10),
    "mixed": lambda k: SVC(C=10) if k % 2 else RandomForestClassifier(random_state=k),
}
# The partition of nodes that have members: Dirichlet 0.1 over ten nodes.
PARTITION_OF_MEMBERS = "dir0.1-10"


class Cell(NamedTuple):
    """One data set, partitioned once; raw rows alone, or members of one kind."""

    data: str  # the data set; a name of records, as all that follow
    seed: int
    partition: str
    kind: str | None


# Measurements ------------------------------------------------------------------------


def fit_members(kind: str, X: np.ndarray, y: np.ndarray, nodes: np.ndarray) -> list:
    """One fitted classifier a node; of a single class a DummyClassifier."""
    members = []
    for k in np.unique(nodes):
        in_node = nodes == k
        has_several_classes = len(np.unique(y[in_node])) > 1
        model = KINDS[kind](k) if has_several_classes else DummyClassifier()
        members.append(model.fit(X[in_node], y[in_node]))
    return members


def measure(cell: Cell, options: Namespace) -> dict:
    """Accuracies of what was chosen, of other ways, and of every candidate."""
    X, y, X_test, y_test = split_raw_rows(cell.data, options, cell.seed)
    if cell.kind is None:
        nodes = assign_nodes(cell.partition, y, cell.seed)
        members = None
    else:
        nodes = partition_dirichlet(y, 10, alpha=0.1, random_state=cell.seed)
        members = fit_members(cell.kind, X, y, nodes)
    chosen, seconds = time_call(
        lambda: combine(
            members, X, y, nodes, budget=options.budget, random_state=cell.seed
        )
    )
    names = [str(k) for k in np.unique(nodes)]
    linear = GEMSLogisticAggregator(
        [(name, None) for name in names], random_state=cell.seed
    )
    linear.fit(X, y, nodes=nodes)
    scores = {
        "chosen": chosen.choice_.name,
        "accuracy": chosen.score(X_test, y_test),
        "seconds": seconds,
        "linear": linear.score(X_test, y_test),
        "bytes": sum(tried["bytes"] or 0 for tried in chosen.choice_.table),
    }
    named_members = None
    if members is not None:
        named_members = list(zip(names, members, strict=True))
        vote_or_stack = EnsembleAggregator(
            named_members, combine="auto", random_state=cell.seed
        )
        vote_or_stack.fit(X, y, nodes=nodes.astype(str))
        scores["auto"] = vote_or_stack.score(X_test, y_test)
        scores["auto took"] = vote_or_stack.choice_.name
    for candidate in candidates(
        X,
        names=names,
        members=named_members,
        front=None,
        columns=Columns.of(X),
        budget=options.budget,
        n_classes=len(np.unique(y)),
        random_state=cell.seed,
    ):
        try:
            fitted = candidate.whole.fit(X, y, nodes=nodes)
            scores[f"test {candidate.name}"] = fitted.score(X_test, y_test)
        except ValueError:  # it does not suit these rows
            continue
    return scores


def cells_of(options: Namespace) -> list[Cell]:
    """The cells asked for."""
    kinds = list(KINDS) if options.members else [None]
    partitions = [PARTITION_OF_MEMBERS] if options.members else PARTITIONS
    return [
        Cell(data_set, seed, partition, kind)
        for seed in options.seeds
        for data_set in options.sets
        for partition in partitions
        for kind in kinds
    ]


def run_missing(options: Namespace) -> list[dict]:
    """Run and record what is missing; returns the records of the cells asked for."""
    file = JsonLines(options.records)
    records = file.read()
    cells = cells_of(options)
    for cell in cells:
        if any(is_of_cell(record, cell) for record in records):
            continue
        record = cell._asdict() | measure(cell, options)
        records.append(record)
        print(record, flush=True)
        file.append(record)
    return [
        record for record in records if any(is_of_cell(record, cell) for cell in cells)
    ]


def is_of_cell(record: dict, cell: Cell) -> bool:
    """Whether a record is about a cell."""
    return cell._asdict().items() <= record.items()


def best_of_all_rows(options: Namespace) -> dict[tuple[str, int], float]:
    """Accuracy of the best of the four models of all rows, by data set and seed."""
    best: dict[tuple[str, int], float] = {}
    for record in JsonLines(options.marks).read():
        if record["partition"] == "all":
            key = (record["data"], record["seed"])
            best[key] = max(best.get(key, 0.0), record["accuracy"])
    for data_set in options.sets:
        for seed in options.seeds:
            if (data_set, seed) not in best:
                split = split_raw_rows(data_set, options, seed)
                best[data_set, seed] = max(
                    clone(model).fit(split.X, split.y).score(split.X_test, split.y_test)
                    for model in MODELS_OF_ALL_ROWS.values()
                )
    return best


# Tables ------------------------------------------------------------------------------


def mean_of(records: list[dict], name: str) -> float:
    """The mean of one figure over the records."""
    return np.mean([record[name] for record in records])


def best_candidate(record: dict) -> float:
    """The accuracy of the candidate that the test rows would choose."""
    return max(score for name, score in record.items() if name.startswith("test "))


def print_cells(records: list[dict], best: dict[tuple[str, int], float]) -> None:
    """A line a data set, kind and partition, and what all cells lose or gain."""
    print("set, members, partition: combine, linear, best of all rows; of all that was")
    print("tried the bytes from nodes and the seconds; chosen")
    above_all_rows = []
    below_candidate = []
    below_linear = []
    for cell in dict.fromkeys((r["data"], r["kind"], r["partition"]) for r in records):
        data_set, kind, partition = cell
        seeds = [r for r in records if (r["data"], r["kind"], r["partition"]) == cell]
        all_rows = np.mean([best[data_set, record["seed"]] for record in seeds])
        chosen = mean_of(seeds, "accuracy")
        linear = mean_of(seeds, "linear")
        candidate = np.mean([best_candidate(record) for record in seeds])
        above_all_rows.append(100 * (chosen - all_rows))
        below_candidate.append(100 * (candidate - chosen))
        below_linear.append(100 * (linear - chosen))
        print(
            f"{data_set} {kind} {partition} "
            f"{100 * chosen:.1f} {100 * linear:.1f} {100 * all_rows:.1f} "
            f"{mean_of(seeds, 'bytes') / 1e6:.0f} MB {mean_of(seeds, 'seconds'):.0f} s "
            f"{sorted({record['chosen'] for record in seeds})}"
        )
    print_mean_and_worst("above the best of four", above_all_rows, worst=min)
    print_mean_and_worst(
        "below the candidate that test rows choose", below_candidate, worst=max
    )
    print_mean_and_worst("below the linear default", below_linear, worst=max)


def print_mean_and_worst(
    title: str, points: list[float], *, worst: Callable[[list[float]], float]
) -> None:
    """One line of what all cells lose or gain."""
    print(f"{title}: {np.mean(points):.1f} on average, {worst(points):.1f} at worst")


def print_ensembles(records: list[dict]) -> None:
    """What ensembles of members that were there choose, and what they could have."""
    with_members = [record for record in records if "auto" in record]
    for data_set, kind in dict.fromkeys((r["data"], r["kind"]) for r in with_members):
        runs = [r for r in records if (r["data"], r["kind"]) == (data_set, kind)]
        ways = ("auto", "test vote", "test vote by classes", "test stack")
        percent = {way: round(100 * mean_of(runs, way), 1) for way in ways}
        print(data_set, kind, percent)


def print_tables(records: list[dict], options: Namespace) -> None:
    """Everything, of the records."""
    print_cells(records, best_of_all_rows(options))
    print_ensembles(records)
    seconds = [record["seconds"] for record in records]
    print(f"{np.mean(seconds):.0f} s on average, {max(seconds):.0f} at most")


def main() -> None:
    """Run what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--budget", default="fast", choices=["fast", "thorough"])
    parser.add_argument("--members", action="store_true")
    parser.add_argument("--marks")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print_tables(run_missing(options), options)


if __name__ == "__main__":
    main()
