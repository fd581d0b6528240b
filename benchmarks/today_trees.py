# SPDX-License-Identifier: BSD-3-Clause
"""The package flwr-trees beside our forests and boosted trees, on equal splits.

Test accuracy, megabytes from a node, and processor seconds of all nodes and the server,
on raw rows of some data sets, dealt to five nodes. All methods get the same rows at the
same nodes. Forests of flwr-trees are run as published, and once more with the classes
of their trees repaired (`_programs.number_by_all_classes`). Without the package its
methods are left out. The table of `benchmarks/README.md`, "Published programs, on equal
splits", is made by it.
"""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from _federations import PARTITIONS, TABULAR, Split, assign_nodes
from _programs import (
    FLWR_TREES,
    RowsOfNodes,
    fit_flwr_trees,
    repair_forest,
    without_missing,
)
from _raw_rows import SETS, split_raw_rows
from _records import ANY, Key, Records
from _side_by_side import (
    Outcome,
    add_options,
    measure_missing,
    print_defeats,
    print_table,
    run_and_print,
)
from bench_trees import DEPTH, N_TREES, SHALLOW, boosting, costs, drawn_trees, forest
from sklearn.ensemble import RandomForestClassifier

from skgems import EnsembleAggregator, PooledAggregator

DEFAULT_SETS = ("digits", "penbased", "spambase")
DEFAULT_PARTITIONS = ("homog-5", "dir0.1-5")
# Forests of flwr-trees have 100 trees a client of any depth unless told; ours are asked
# for a depth.
N_LARGE = 100
LARGE_DEPTH = 14


def large_forest(seed: int) -> RandomForestClassifier:
    """A forest with more and deeper trees, not fitted."""
    return RandomForestClassifier(N_LARGE, max_depth=LARGE_DEPTH, random_state=seed)


@dataclass(kw_only=True)
class Cell:
    """Rows dealt to nodes."""

    split: Split
    nodes: np.ndarray  # (n_rows,), numbers from 0
    seed: int

    @cached_property
    def rows(self) -> RowsOfNodes:
        """Features and labels of each node."""
        masks = [self.nodes == node for node in range(self.nodes.max() + 1)]
        return [(self.split.X[mask], self.split.y[mask]) for mask in masks]


# Methods: function(cell) -> Outcome --------------------------------------------------


def run_pooled(cell: Cell, make: Callable) -> Outcome:
    """Trees of all rows in one place."""
    return Outcome(make(cell.seed).fit(cell.split.X, cell.split.y), None)


def run_vote(cell: Cell) -> Outcome:
    """The mean of the probabilities of the nodes' own forests."""
    forests = [forest(cell.seed).fit(X, y) for X, y in cell.rows]
    return Outcome(EnsembleAggregator(forests, random_state=cell.seed).fit(), None)


def run_ours(cell: Cell, make: Callable) -> Outcome:
    """Trees from counts of all nodes."""
    aggregator = PooledAggregator(pooled=make(cell.seed))
    aggregator.fit(cell.split.X, cell.split.y, nodes=cell.nodes)
    return Outcome(aggregator, costs(aggregator)["bytes"])


def run_flwr_trees(cell: Cell, name: str, **settings: object) -> Outcome:
    """An estimator of flwr-trees."""
    return Outcome(*fit_flwr_trees(name, cell.rows, cell.seed, **settings))


def run_repaired(cell: Cell, name: str, **settings: object) -> Outcome:
    """The same trees, which vote for the classes that they saw."""
    estimator, n_bytes = fit_flwr_trees(name, cell.rows, cell.seed, **settings)
    return Outcome(repair_forest(estimator, cell.rows), n_bytes)


POOLED = "forest of all rows"
SOFT_VOTE = "vote of forests"
FOREST = {"name": "FederatedRandomForestClassifier", "use_flower": True}
HISTOGRAMS = {"name": "FederatedHistogramRFClassifier", "use_flower": True}
XGBOOST = {"name": "FederatedXGBClassifier", "use_flower": True}
AS_OURS = {"n_estimators": N_TREES, "max_depth": DEPTH}
# So many rounds in all, as ours: each of five nodes adds one of them ten times.
IN_TURNS = {"n_estimators": 1, "n_rounds": N_TREES // 5, "max_depth": SHALLOW}
METHODS: dict[str, Callable[[Cell], Outcome]] = {
    POOLED: partial(run_pooled, make=forest),
    "large, of all rows": partial(run_pooled, make=large_forest),
    "boosting of all rows": partial(run_pooled, make=boosting),
    SOFT_VOTE: run_vote,
    "flwr-trees, forest": partial(run_flwr_trees, **FOREST, **AS_OURS),
    "the same, repaired": partial(run_repaired, **FOREST, **AS_OURS),
    "flwr-trees, default": partial(run_flwr_trees, **FOREST),
    "default, repaired": partial(run_repaired, **FOREST),
    "flwr-trees, histograms": partial(run_flwr_trees, **HISTOGRAMS, **AS_OURS),
    "histograms, repaired": partial(run_repaired, **HISTOGRAMS, **AS_OURS),
    "flwr-trees, boosting": partial(
        run_flwr_trees,
        name="FederatedGBTClassifier",
        n_estimators=N_TREES,
        max_depth=SHALLOW,
    ),
    "flwr-trees, XGBoost": partial(run_flwr_trees, **XGBOOST),
    "XGBoost in turns": partial(run_flwr_trees, **XGBOOST, **IN_TURNS),
    "our forest": partial(run_ours, make=forest),
    "our forest, large": partial(run_ours, make=large_forest),
    "our drawn trees": partial(run_ours, make=drawn_trees),
    "our boosting": partial(run_ours, make=boosting),
}
OURS = tuple(method for method in METHODS if method.startswith("our "))
PROGRAM_OF = {
    method: FLWR_TREES
    for method, run in METHODS.items()
    if run is not run_vote and run.func in (run_flwr_trees, run_repaired)
}
# Made of all rows, whatever the partition.
NOT_OF_PARTITION = {POOLED, "large, of all rows", "boosting of all rows"}


# Cells -------------------------------------------------------------------------------


class Place(NamedTuple):
    """One data set, split once, with one partition."""

    data_set: str
    n_train: int
    seed: int
    partition: str


def key_of(place: Place, method: str) -> Key:
    """Trees of all rows are grown once."""
    return Key(
        data=place.data_set,
        n_train=place.n_train,
        seed=place.seed,
        partition=ANY if method in NOT_OF_PARTITION else place.partition,
        kind="trees",
        method=method,
    )


def cells_of(options: Namespace) -> Iterator[tuple[Place, Cell]]:
    """The cells asked for."""
    for seed in range(options.seeds):
        for data_set in options.data_sets:
            split = split_raw_rows(data_set, options, seed)
            split = split._replace(
                X=split.X[: options.max_rows], y=split.y[: options.max_rows]
            )
            for partition in options.partitions:
                nodes = assign_nodes(partition, split.y, seed)
                place = Place(
                    data_set=data_set,
                    n_train=len(split.y),
                    seed=seed,
                    partition=partition,
                )
                yield place, Cell(split=split, nodes=nodes, seed=seed)


def run_cells(records: Records, options: Namespace) -> list[Place]:
    """Run what is missing of the cells asked for; returns these."""
    methods = without_missing(options.methods, PROGRAM_OF)
    places = []
    for place, cell in cells_of(options):
        places.append(place)
        makers = [
            (key_of(place, method), partial(METHODS[method], cell))
            for method in methods
        ]
        measure_missing(records, makers, cell.split, verbose=options.verbose)
    return places


# Tables ------------------------------------------------------------------------------


def keys_of(method: str, places: list[Place]) -> list[Key]:
    """Those of one column."""
    return [key_of(place, method) for place in places]


def print_tables(records: Records, places: list[Place], options: Namespace) -> None:
    """One table, a column for each data set and partition."""
    places_by_heads: dict[tuple[str, str], list[Place]] = {}
    for place in places:
        heads = (place.data_set, place.partition)
        places_by_heads.setdefault(heads, []).append(place)
    columns = {
        heads: partial(keys_of, places=places_of_column)
        for heads, places_of_column in places_by_heads.items()
    }
    title = f"trees, means of {options.seeds} seeds"
    accuracies = print_table(records, columns, options.methods, title)
    print_defeats(accuracies, OURS, (SOFT_VOTE,))


def parse_options(arguments: list[str] | None = None) -> Namespace:
    """Options, with what was not given filled in."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, METHODS)
    parser.add_argument("--data-sets", nargs="+", choices=SETS)
    parser.add_argument(
        "--partitions", nargs="+", choices=PARTITIONS, default=DEFAULT_PARTITIONS
    )
    options = parser.parse_args(arguments)
    # All is compared with these.
    asked = {POOLED, SOFT_VOTE, *(options.methods or METHODS)}
    options.methods = [method for method in METHODS if method in asked]
    if options.data_sets is None:
        options.data_sets = [
            data_set
            for data_set in DEFAULT_SETS
            if data_set not in TABULAR or options.tabular
        ]
    return options


def main() -> None:
    """Run what is missing and print the tables."""
    run_and_print(parse_options(), run_cells, print_tables)


if __name__ == "__main__":
    main()
