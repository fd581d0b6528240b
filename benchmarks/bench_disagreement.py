# SPDX-License-Identifier: BSD-3-Clause
"""Nodes of another rule: how often they are named, and how often others are.

Data sets and partitions of ``bench_pooled_gap.py``, and partitions by features (runs of
the first principal component or of one feature, clusters of k-means) and by drift (each
node has its own gains, noise, or both). Each is fitted as it is, where a node that is
named is a false alarm, and with one node changed: its labels are the next class,
shuffled, the next class in half of the rows, or its features change sign, are all ten
deviations larger, or noise; for averages its parameters are -10 times what they were.
The tables of false alarms on the guide's pages on nodes that contradict the others, and
on averages, are made by it.
"""

from __future__ import annotations

import argparse
import os
import re
import warnings
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from _federations import (
    BUNDLED,
    KINDS,
    PARTITIONS,
    TABULAR,
    TABULAR_VARIABLE,
    Federation,
    assign_nodes,
    load_data_set,
    split_rows,
)
from _quick import note_figure, parse_with_quick
from sklearn.cluster import KMeans
from sklearn.datasets import make_classification, make_moons

from skgems import GEMSLogisticAggregator, ModelAveragingAggregator, PooledAggregator
from skgems.asking import ManyRowsWarning, NodesDisagreeWarning
from skgems.pooled import CLASSIFIERS

SYNTHETIC: dict[str, Callable] = {
    "classes": partial(
        make_classification, 3000, 20, n_informative=8, n_classes=5, random_state=0
    ),
    "noisy": partial(
        make_classification,
        2000,
        10,
        n_informative=3,
        n_classes=3,
        flip_y=0.4,
        random_state=1,
    ),
    "moons": partial(make_moons, 1500, noise=0.2, random_state=0),
}
CHANGES = ("next class", "shuffled", "half", "sign")
# Other lies of rows, and one that is of parameters alone.
MORE_CHANGES = ("shift", "noise")
ENLARGED = "times -10"
LIKELIHOOD = "likelihood"
AVERAGES = "averages"
# A node of fewer rows cannot be told from an honest one, so it is not made to lie.
MIN_ROWS_OF_LIAR = 20
# Clusters of fewer rows are no node of their own.
MIN_ROWS_OF_CLUSTER = 5


# How rows are dealt: function(X, y, seed) -> features, node of every row -------------

FeaturesAndNodes = tuple[np.ndarray, np.ndarray]


def equal_runs(numbers: np.ndarray, K: int) -> np.ndarray:
    """For each number, which of K equal runs of the sorted ones it is in."""
    return np.argsort(np.argsort(numbers, kind="stable")) * K // len(numbers)


def deal_by_component(
    X: np.ndarray, y: np.ndarray, seed: int, *, K: int
) -> FeaturesAndNodes:
    """Runs of the first principal component."""
    centered = X - X.mean(axis=0)
    first = np.linalg.svd(centered, full_matrices=False)[2][0]
    return X, equal_runs(centered @ first, K)


def deal_by_feature(
    X: np.ndarray, y: np.ndarray, seed: int, *, K: int
) -> FeaturesAndNodes:
    """Runs of the feature of most values."""
    n_distinct = [len(np.unique(column)) for column in X.T]
    return X, equal_runs(X[:, np.argmax(n_distinct)], K)


def deal_by_cluster(
    X: np.ndarray, y: np.ndarray, seed: int, *, K: int
) -> FeaturesAndNodes:
    """Clusters; those of few rows join the first."""
    clusters = KMeans(K, n_init=1, random_state=seed).fit_predict(X)
    is_small = np.bincount(clusters, minlength=K) < MIN_ROWS_OF_CLUSTER
    is_small[np.argmax(~is_small)] = True
    joined = np.where(is_small[clusters], -1, clusters)
    return X, np.unique(joined, return_inverse=True)[1]


def deal_with_drift(
    X: np.ndarray,
    y: np.ndarray,
    seed: int,
    *,
    partition: str,
    gain: bool = False,
    noise: bool = False,
) -> FeaturesAndNodes:
    """Each node has its own gains, and more noise than the one before."""
    nodes = assign_nodes(partition, y, seed)
    rng = np.random.default_rng(seed)
    K = nodes.max() + 1
    if gain:
        X = X * np.exp(0.5 * rng.normal(size=(K, X.shape[1])))[nodes]
    if noise:
        X = X + np.linspace(0, 2, K)[nodes, None] * rng.normal(size=X.shape)
    return X, nodes


def deal_by_label(
    X: np.ndarray, y: np.ndarray, seed: int, *, partition: str
) -> FeaturesAndNodes:
    """As in bench_pooled_gap.py."""
    return X, assign_nodes(partition, y, seed)


DEALS: dict[str, Callable[[np.ndarray, np.ndarray, int], FeaturesAndNodes]] = {
    name: partial(deal_by_label, partition=name) for name in PARTITIONS
}
DEALS |= {f"component-{K}": partial(deal_by_component, K=K) for K in (2, 5, 20)}
DEALS |= {f"feature-{K}": partial(deal_by_feature, K=K) for K in (2, 5, 20)}
DEALS["k-means-5"] = partial(deal_by_cluster, K=5)
DEALS["gain"] = partial(deal_with_drift, partition="homog-5", gain=True)
DEALS["noise"] = partial(deal_with_drift, partition="homog-5", noise=True)
DEALS["gain and noise"] = partial(
    deal_with_drift, partition="homog-5", gain=True, noise=True
)
DEALS["gain and noise, dir0.5"] = partial(
    deal_with_drift, partition="dir0.5-5", gain=True, noise=True
)
# The lines of the table: names of DEALS.
GROUPS = {
    "disjoint": ["disjoint-2", "disjoint-3", "disjoint-5", "crowd"],
    "dir0.1": ["dir0.1-5", "dir0.1-20"],
    "dir0.5": ["dir0.5-5", "dir0.5-20"],
    "alike": ["homog-5", "homog-20"],
    "component": ["component-2", "component-5", "component-20"],
    "feature": ["feature-2", "feature-5", "feature-20"],
    "k-means": ["k-means-5"],
    "drift": ["gain", "noise", "gain and noise", "gain and noise, dir0.5"],
}


# What is wrong at one node -----------------------------------------------------------


def change_rows(
    federation: Federation, liar: int, change: str, rng: np.random.Generator
) -> Federation:
    """The same rows, of which those of one node are of another rule."""
    X = federation.X.copy()
    y = federation.y.copy()
    rows = np.flatnonzero(federation.nodes == liar)
    if change == "sign":
        X[rows] *= -1
    elif change == "shift":
        X[rows] += 10.0
    elif change == "noise":
        X[rows] = 3.0 * rng.normal(size=X[rows].shape)
        y[rows] = rng.choice(np.unique(y), len(rows))
    elif change == "shuffled":
        y[rows] = rng.permutation(y[rows])
    elif change == "half":
        rows = rows[rng.random(len(rows)) < 0.5]
        y[rows] = next_class(y[rows], np.unique(y))
    else:
        y[rows] = next_class(y[rows], np.unique(y))
    return replace(federation, X=X, y=y)


def next_class(y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The label behind each; behind the last the first."""
    return labels[(np.searchsorted(labels, y) + 1) % len(labels)]


def unfitted_aggregator(federation: Federation, method: str, enlarged: int | None):
    """An aggregator of fitted members; parameters of a node -10 times as large."""
    if method in CLASSIFIERS:
        return PooledAggregator(pooled=method)
    members = federation.local_models
    if enlarged is not None:
        members[enlarged].coef_ = -10.0 * members[enlarged].coef_
        members[enlarged].intercept_ = -10.0 * members[enlarged].intercept_
    if method == AVERAGES:
        return ModelAveragingAggregator(members, random_state=federation.seed)
    return GEMSLogisticAggregator(members, random_state=federation.seed)


def named_nodes(
    federation: Federation, method: str, enlarged: int | None = None
) -> tuple[set[int], set[int]]:
    """Nodes that are said to disagree, and to have nearly all rows."""
    aggregator = unfitted_aggregator(federation, method, enlarged)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        aggregator.fit(federation.X, federation.y, nodes=federation.nodes)
    return nodes_in(caught, NodesDisagreeWarning), nodes_in(caught, ManyRowsWarning)


def nodes_in(caught: list, category: type[Warning]) -> set[int]:
    """Nodes that warnings of a category name."""
    return {
        int(node)
        for warning in caught
        if issubclass(warning.category, category)
        for node in re.findall(r"'(\d+)' \(", str(warning.message))
    }


def draw_liar(federation: Federation, rng: np.random.Generator) -> int | None:
    """One of the nodes whose rows could show it: some, of two classes."""
    candidates = [
        k
        for k, n_rows in enumerate(np.bincount(federation.nodes))
        if n_rows >= MIN_ROWS_OF_LIAR
        and len(np.unique(federation.y[federation.nodes == k])) > 1
    ]
    return int(rng.choice(candidates)) if candidates else None


# Counts ------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Counts:
    """What was counted over all fits of a group of partitions."""

    n_fits: int = 0
    n_nodes: int = 0
    n_false_alarms: int = 0
    n_others_named: int = 0
    n_with_many_rows: int = 0
    # By change, whether the liar was named in each fit.
    liar_named: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))


@dataclass(kw_only=True)
class Cell:
    """One data set, dealt once."""

    data_set: str
    deal: str  # a key of DEALS
    group: str  # a key of GROUPS
    federation: Federation

    def __str__(self) -> str:
        return f"{self.data_set} {self.deal} seed {self.federation.seed}"


def cells_of(options: Namespace) -> Iterator[Cell]:
    """The cells asked for; those of too few rows or classes are left out."""
    deals = [(group, deal) for group in options.groups for deal in GROUPS[group]]
    for data_set in options.data_sets:
        if data_set in SYNTHETIC:
            X, y = SYNTHETIC[data_set]()
        else:
            X, y = load_data_set(data_set, options)
        for seed in options.seeds:
            split = split_rows(X, y, seed, max_rows=options.max_rows, standardize=True)
            for group, deal in deals:
                try:
                    X_dealt, nodes = DEALS[deal](split.X, split.y, seed)
                except ValueError:
                    continue
                federation = Federation(
                    X=X_dealt, y=split.y, nodes=nodes, seed=seed, kind=options.kind
                )
                yield Cell(
                    data_set=data_set, deal=deal, group=group, federation=federation
                )


def count_honest(cell: Cell, counts: Counts, options: Namespace) -> None:
    """Fit the nodes as they are, where each that is named is a false alarm."""
    false_alarms, with_many_rows = named_nodes(cell.federation, options.aggregator)
    n_nodes = len(np.bincount(cell.federation.nodes))
    counts.n_fits += 1
    counts.n_nodes += n_nodes
    counts.n_false_alarms += len(false_alarms)
    counts.n_with_many_rows += len(with_many_rows)
    if false_alarms:
        print(f"false alarm: {cell}: {false_alarms}", flush=True)
    if options.verbose:
        print(
            cell.data_set,
            cell.deal,
            cell.federation.seed,
            "honest",
            n_nodes,
            flush=True,
        )


def count_lies(cell: Cell, counts: Counts, options: Namespace) -> None:
    """Fit the nodes once for each change of one of them."""
    federation = cell.federation
    rng = np.random.default_rng(100 + federation.seed)
    liar = draw_liar(federation, rng)
    if liar is None:
        return
    for change in options.changes:
        if change == ENLARGED:
            # Members are fitted anew, since they are changed in place.
            named, _ = named_nodes(
                replace(federation), options.aggregator, enlarged=liar
            )
        else:
            changed = change_rows(federation, liar, change, rng)
            named, _ = named_nodes(changed, options.aggregator)
        others = named - {liar}
        counts.liar_named[change].append(liar in named)
        counts.n_others_named += len(others)
        if options.verbose:
            print(
                f"{cell.data_set} {cell.deal} {federation.seed} {change} "
                f"{liar in named} {others}",
                flush=True,
            )


def print_table(counts_of: dict[str, Counts], changes: list[str]) -> None:
    """A line for each group of partitions."""
    titles = "".join(f"{change:>16}" for change in changes)
    print(
        f"{'':12}{'fits':>7}{'false alarms':>16}{titles}{'others named':>14}"
        f"{'many rows':>11}"
    )
    for group, counts in counts_of.items():
        false_alarms = f"{counts.n_false_alarms} of {counts.n_nodes}"
        line = f"{group:12}{counts.n_fits:7d}{false_alarms:>16}"
        for change in changes:
            named = counts.liar_named[change]
            line += f"{f'{sum(named)} of {len(named)}':>16}"
        print(f"{line}{counts.n_others_named:14d}{counts.n_with_many_rows:11d}")


def note_figures(counts_of: dict[str, Counts]) -> None:
    """Sums over all groups, and how often liars are named among alike nodes."""
    counts = counts_of.values()
    note_figure("honest nodes named", sum(c.n_false_alarms for c in counts))
    for group, of_group in counts_of.items():
        for change, named in of_group.liar_named.items():
            note_figure(f"share named, {group}, {change}", np.mean(named))


def parse_options() -> Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data_sets = [*BUNDLED, *TABULAR, *SYNTHETIC]
    parser.add_argument("--tabular", default=os.environ.get(TABULAR_VARIABLE))
    parser.add_argument("--data-sets", nargs="+", choices=data_sets, default=data_sets)
    parser.add_argument("--max-rows", type=int, default=2500, help="to train on")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--kind", choices=KINDS, default="logistic", help="of node")
    methods = [LIKELIHOOD, AVERAGES, *CLASSIFIERS]
    parser.add_argument("--aggregator", choices=methods, default=LIKELIHOOD)
    changes = [*CHANGES, *MORE_CHANGES, ENLARGED]
    parser.add_argument("--changes", nargs="*", choices=changes, default=CHANGES)
    parser.add_argument("--groups", nargs="*", choices=GROUPS, default=[*GROUPS])
    parser.add_argument("--verbose", action="store_true")
    parser.set_defaults(data=None)
    return parse_with_quick(
        parser,
        quick={
            "data_sets": ["digits", "wine", "breast_cancer", "iris", "noisy"],
            "max_rows": 1500,
            "seeds": [0],
            "groups": ["dir0.5", "alike"],
            "changes": ["next class"],
        },
    )


def main() -> None:
    """Count, and print a line for each group of partitions."""
    options = parse_options()
    counts_of = {group: Counts() for group in options.groups}
    for cell in cells_of(options):
        counts = counts_of[cell.group]
        try:
            count_honest(cell, counts, options)
        except ValueError as error:  # rows such as the classifier does not take
            print(f"not made: {cell}: {error}", flush=True)
            continue
        count_lies(cell, counts, options)
    print_table(counts_of, options.changes)
    note_figures(counts_of)


if __name__ == "__main__":
    main()
