# SPDX-License-Identifier: BSD-3-Clause
"""Nodes of another rule: how often they are named, and how often others are.

Data sets and partitions of ``bench_pooled_gap.py``, and partitions by features (runs of
the first principal component or of one feature, clusters of k-means) and by drift (each
node has its own gains, noise, or both). Each is fitted as it is, where a node that is
named is a false alarm, and with one node changed: its labels are the next class,
shuffled, the next class in half of the rows, or its features change sign, are all ten
deviations larger, or noise; for averages its parameters are -10 times what they were.
"""

from __future__ import annotations

import argparse
import os
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np
from bench_pooled_gap import (
    BUNDLED,
    KINDS,
    PARTITIONS,
    TABULAR,
    TABULAR_VARIABLE,
    Split,
    deal,
    fit_locals,
    load,
)
from sklearn.cluster import KMeans
from sklearn.datasets import make_classification, make_moons

from skgems import (
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
    PooledAggregator,
)
from skgems.federation import ManyRowsWarning, NodesDisagreeWarning
from skgems.pooled import CLASSIFIERS

SYNTHETIC = {
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
OF_PARAMETERS = "times -10"
MIN_ROWS = 20


# How rows are dealt ------------------------------------------------------------------


def runs(values: np.ndarray, K: int) -> np.ndarray:
    """Equal runs of sorted values."""
    return np.argsort(np.argsort(values, kind="stable")) * K // len(values)


def component(X: np.ndarray, y: np.ndarray, seed: int, *, K: int):
    """Runs of the first principal component."""
    Z = X - X.mean(axis=0)
    return X, runs(Z @ np.linalg.svd(Z, full_matrices=False)[2][0], K)


def feature(X: np.ndarray, y: np.ndarray, seed: int, *, K: int):
    """Runs of the feature of most values."""
    return X, runs(X[:, np.argmax([len(np.unique(column)) for column in X.T])], K)


def clusters(X: np.ndarray, y: np.ndarray, seed: int, *, K: int):
    """Clusters; those of few rows join the first."""
    found = KMeans(K, n_init=1, random_state=seed).fit_predict(X)
    small = np.bincount(found, minlength=K) < 5
    small[np.argmax(~small)] = True
    return X, np.unique(np.where(small[found], -1, found), return_inverse=True)[1]


def drift(X, y, seed: int, *, partition: str, gain: bool, noise: bool):
    """Each node has its own gains, and more noise than the one before."""
    nodes, rng = deal(partition, y, seed), np.random.default_rng(seed)
    K = nodes.max() + 1
    if gain:
        X = X * np.exp(0.5 * rng.normal(size=(K, X.shape[1])))[nodes]
    if noise:
        X = X + np.linspace(0, 2, K)[nodes, None] * rng.normal(size=X.shape)
    return X, nodes


def by_label(X, y, seed: int, *, partition: str):
    """As in bench_pooled_gap.py."""
    return X, deal(partition, y, seed)


LIKELIHOOD, AVERAGES = "likelihood", "averages"
GROUPS = {
    "disjoint": [f"disjoint-{K}" for K in (2, 3, 5)] + ["crowd"],
    "dir0.1": ["dir0.1-5", "dir0.1-20"],
    "dir0.5": ["dir0.5-5", "dir0.5-20"],
    "alike": ["homog-5", "homog-20"],
}
DEALT = {name: partial(by_label, partition=name) for name in PARTITIONS}
for title, function, sizes in (
    ("component", component, (2, 5, 20)),
    ("feature", feature, (2, 5, 20)),
    ("k-means", clusters, (5,)),
):
    GROUPS[title] = [f"{title}-{K}" for K in sizes]
    DEALT |= {f"{title}-{K}": partial(function, K=K) for K in sizes}
GROUPS["drift"] = []
for title, partition, gain, noise in (
    ("gain", "homog-5", True, False),
    ("noise", "homog-5", False, True),
    ("gain and noise", "homog-5", True, True),
    ("gain and noise, dir0.5", "dir0.5-5", True, True),
):
    GROUPS["drift"].append(title)
    DEALT[title] = partial(drift, partition=partition, gain=gain, noise=noise)


# What is wrong at one node -----------------------------------------------------------


def changed(X, y, rows: np.ndarray, change: str, rng) -> tuple[np.ndarray, np.ndarray]:
    """Rows of all nodes, some of which are of another rule."""
    X, y = X.copy(), y.copy()
    if change == "sign":
        X[rows] *= -1
    elif change == "shift":
        X[rows] += 10.0
    elif change == "noise":
        X[rows] = 3.0 * rng.normal(size=X[rows].shape)
        y[rows] = rng.choice(np.unique(y), len(rows))
    elif change == "shuffled":
        y[rows] = rng.permutation(y[rows])
    else:
        rows = rows[rng.random(len(rows)) < 0.5] if change == "half" else rows
        labels = np.unique(y)
        y[rows] = labels[(np.searchsorted(labels, y[rows]) + 1) % len(labels)]
    return X, y


def aggregator_of(options, X, y, nodes, seed: int, enlarged: int | None):
    """Fitted members of one of the methods; parameters of a node -10 times as large."""
    if options.aggregator in CLASSIFIERS:
        return PooledAggregator(pooled=options.aggregator)
    members = fit_locals(options.kind, X, y, nodes)
    if enlarged is not None:
        members[enlarged].coef_ = -10.0 * members[enlarged].coef_
        members[enlarged].intercept_ = -10.0 * members[enlarged].intercept_
    if options.aggregator == AVERAGES:
        return ModelAveragingAggregator(members, random_state=seed)
    return GEMSLogisticAggregator(members, random_state=seed)


def named(
    options, X, y, nodes, seed: int, enlarged: int | None = None
) -> tuple[set[int], set[int]]:
    """Nodes that are said to disagree, and to have nearly all rows."""
    agg = aggregator_of(options, X, y, nodes, seed, enlarged)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agg.fit(X, y, nodes=nodes)
    return nodes_in(caught, NodesDisagreeWarning), nodes_in(caught, ManyRowsWarning)


def nodes_in(caught, category: type[Warning]) -> set[int]:
    """Nodes that warnings of a category name."""
    return {
        int(node)
        for warning in caught
        if issubclass(warning.category, category)
        for node in re.findall(r"'(\d+)' \(", str(warning.message))
    }


def cells(options) -> Iterator[tuple]:
    """Data set, partition, seed, rows, labels and nodes."""
    for data in options.data_sets:
        X, y = SYNTHETIC[data]() if data in SYNTHETIC else load(data, options)
        for seed in options.seeds:
            split = Split.of(X, y, seed, max_rows=options.max_rows, scale=True)
            for title in (title for group in options.groups for title in GROUPS[group]):
                try:
                    X_dealt, nodes = DEALT[title](split.X, split.y, seed)
                except ValueError:
                    continue  # too few rows or classes
                yield data, title, seed, X_dealt, split.y, nodes


def main() -> None:
    """Count, and print a line for each group of partitions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*BUNDLED, *TABULAR, *SYNTHETIC]
    parser.add_argument("--tabular", default=os.environ.get(TABULAR_VARIABLE))
    parser.add_argument("--data-sets", nargs="+", choices=names, default=names)
    parser.add_argument("--max-rows", type=int, default=2500, help="to train on")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--kind", choices=KINDS, default="logistic", help="of node")
    methods = [LIKELIHOOD, AVERAGES, *CLASSIFIERS]
    parser.add_argument("--aggregator", choices=methods, default=LIKELIHOOD)
    lies = [*CHANGES, *MORE_CHANGES, OF_PARAMETERS]
    parser.add_argument("--changes", nargs="*", choices=lies, default=CHANGES)
    parser.add_argument("--groups", nargs="*", choices=GROUPS, default=[*GROUPS])
    parser.add_argument("--verbose", action="store_true")
    parser.set_defaults(data=None)
    options = parser.parse_args()
    group_of = {title: group for group, own in GROUPS.items() for title in own}
    alarms, n_nodes, n_fits = defaultdict(int), defaultdict(int), defaultdict(int)
    found, others, many = defaultdict(list), defaultdict(int), defaultdict(int)
    for data, title, seed, X, y, nodes in cells(options):
        group, sizes = group_of[title], np.bincount(nodes)
        try:
            false, with_many = named(options, X, y, nodes, seed)
        except ValueError as error:  # rows such as the classifier does not take
            print(f"not made: {data} {title} seed {seed}: {error}", flush=True)
            continue
        alarms[group] += len(false)
        many[group] += len(with_many)
        n_nodes[group] += len(sizes)
        n_fits[group] += 1
        if false:
            print(f"false alarm: {data} {title} seed {seed}: {false}", flush=True)
        if options.verbose:
            print(data, title, seed, "honest", len(sizes), flush=True)
        # One of those whose rows could show it: a few, of two classes.
        shown = [
            k
            for k in range(len(sizes))
            if sizes[k] >= MIN_ROWS and len(np.unique(y[nodes == k])) > 1
        ]
        if not shown:
            continue
        rng = np.random.default_rng(100 + seed)
        bad = int(rng.choice(shown))
        for change in options.changes:
            if change == OF_PARAMETERS:
                now, _ = named(options, X, y, nodes, seed, enlarged=bad)
            else:
                rows = np.flatnonzero(nodes == bad)
                X_bad, y_bad = changed(X, y, rows, change, rng)
                now, _ = named(options, X_bad, y_bad, nodes, seed)
            found[group, change].append(bad in now)
            others[group] += len(now - {bad})
            if options.verbose:
                print(data, title, seed, change, bad in now, now - {bad}, flush=True)
    titles = "".join(f"{change:>16}" for change in options.changes)
    print(
        f"{'':12}{'fits':>7}{'false alarms':>16}{titles}{'others named':>14}"
        f"{'many rows':>11}"
    )
    for group in options.groups:
        alarm = f"{alarms[group]} of {n_nodes[group]}"
        line = f"{group:12}{n_fits[group]:7d}{alarm:>16}"
        for own in (found[group, change] for change in options.changes):
            line += f"{f'{sum(own)} of {len(own)}':>16}"
        print(f"{line}{others[group]:14d}{many[group]:11d}")


if __name__ == "__main__":
    main()
