# SPDX-License-Identifier: BSD-3-Clause
"""One of ten nodes lies: what it costs, and who is named.

Digits, dealt by Dirichlet(0.5) over classes or one class a node, means of some seeds.
The liar is the node of median size. Labels are the next class, or all the same; each
row comes a thousand times; features are turned over, ten larger, or noise; parameters
are -10 times what they were. "named" counts the fits in which the liar was named by
NodesDisagreeWarning or ManyRowsWarning, "others" honest nodes that were. The guide's
page on pitfalls tells what it prints.
"""

from __future__ import annotations

import argparse
import re
import warnings
from typing import NamedTuple

import numpy as np
from _quick import note_figure, parse_with_quick
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skgems import (
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
    PooledAggregator,
)
from skgems.datasets import partition_by_label, partition_dirichlet
from skgems.federation import ManyRowsWarning, NodesDisagreeWarning

N_NODES = 10  # one a digit, or by Dirichlet(0.5)
# Nodes of fewer rows are left out: they could hardly fit a classifier.
MIN_ROWS = 6
# How often a liar's row comes in "rows * 1000".
N_COPIES = 1000
HONEST = "honest"
WITHOUT = "without the node"
PARAMETERS = "parameters * -10"
LIES = (
    HONEST,
    WITHOUT,
    "labels + 1",
    "rows * 1000",
    "labels + 1, rows * 1000",
    "features + 10",
    "features turned over",
    "noise",
    "one label",
    PARAMETERS,
)
PARTITIONS = {
    "Dirichlet(0.5)": lambda y, seed: partition_dirichlet(
        y, N_NODES, alpha=0.5, random_state=seed
    ),
    "one class a node": lambda y, seed: partition_by_label(y, N_NODES),
}
AGGREGATORS = ("linear", "pooled", "averages")


Rows = tuple[np.ndarray, np.ndarray]  # features and labels of a node


def tell_lie(rows: Rows, lie: str, rng: np.random.Generator) -> Rows:
    """Rows and labels that a node says it has."""
    X, y = rows
    if lie.startswith("labels + 1"):
        y = (y + 1) % 10
    if lie == "features + 10":
        X = X + 10.0
    elif lie == "features turned over":
        X = 1.0 - X
    elif lie == "noise":
        X = 3.0 * rng.standard_normal(X.shape)
        y = rng.integers(0, 10, len(y))
    elif lie == "one label":
        y = np.full_like(y, 3)
    if lie.endswith("rows * 1000"):
        X = np.repeat(X, N_COPIES, axis=0)
        y = np.repeat(y, N_COPIES)
    return X, y


def fit_local(rows: Rows):
    """What a node fits; copies of rows change no model, so they are left out."""
    X, y = rows
    first_copies = np.unique(np.column_stack([X, y]), axis=0, return_index=True)[1]
    X = X[first_copies]
    y = y[first_copies]
    has_several_classes = len(np.unique(y)) > 1
    model = LogisticRegression(max_iter=1000)
    return (model if has_several_classes else DummyClassifier()).fit(X, y)


def fit_aggregate(aggregator: str, rows_of: dict[str, Rows], *, enlarged: str | None):
    """An aggregate of nodes, one of which may have made its parameters larger."""
    X = np.vstack([X for X, _ in rows_of.values()])
    y = np.concatenate([y for _, y in rows_of.values()])
    nodes = np.concatenate([[name] * len(y) for name, (_, y) in rows_of.items()])
    if aggregator == "pooled":
        return PooledAggregator(pooled="LinearDiscriminantAnalysis").fit(X, y, nodes)
    members = []
    for name, rows in rows_of.items():
        model = fit_local(rows)
        if name == enlarged and hasattr(model, "coef_"):
            model.coef_ = -10 * model.coef_
            model.intercept_ = -10 * model.intercept_
        members.append((name, model))
    if aggregator == "averages":
        averages = ModelAveragingAggregator(members, node_weight="n_samples")
        return averages.fit(X, y, nodes)
    return GEMSLogisticAggregator(members, random_state=0).fit(X, y, nodes)


def named_nodes(caught: list[warnings.WarningMessage]) -> set[str]:
    """Nodes that are said to disagree, or to have nearly all rows."""
    text = " ".join(
        str(warning.message)
        for warning in caught
        if issubclass(warning.category, (NodesDisagreeWarning, ManyRowsWarning))
    )
    return set(re.findall(r"'(\d+)' \(", text))


class Verdict(NamedTuple):
    """What one lie did."""

    accuracy: float
    liar_named: bool
    n_others_named: int


def measure_lie(aggregator: str, partition: str, lie: str, seed: int) -> Verdict:
    """Have the node of median size lie, and fit all nodes."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(
        X / 16, y, test_size=0.3, stratify=y, random_state=seed
    )
    nodes = PARTITIONS[partition](y, seed)
    sizes = np.bincount(nodes, minlength=N_NODES)
    large_enough = np.flatnonzero(sizes >= MIN_ROWS)
    by_size = large_enough[np.argsort(sizes[large_enough])]
    liar = str(by_size[len(by_size) // 2])
    rows_of = {str(k): (X[nodes == k], y[nodes == k]) for k in large_enough}
    rows_of[liar] = tell_lie(rows_of[liar], lie, np.random.default_rng(seed))
    if lie == WITHOUT:
        del rows_of[liar]
    enlarged = liar if lie == PARAMETERS else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit_aggregate(aggregator, rows_of, enlarged=enlarged)
    named = named_nodes(caught)
    return Verdict(
        accuracy=model.score(X_test, y_test),
        liar_named=liar in named,
        n_others_named=len(named - {liar}),
    )


def main() -> None:
    """Print accuracy and how often the liar is named, by lie."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--aggregators", nargs="+", default=list(AGGREGATORS))
    options = parse_with_quick(parser, quick={"seeds": [0]})
    for aggregator in options.aggregators:
        for partition in PARTITIONS:
            for lie in LIES:
                verdicts = [
                    measure_lie(aggregator, partition, lie, seed)
                    for seed in options.seeds
                ]
                accuracy = np.mean([verdict.accuracy for verdict in verdicts])
                n_named = sum(verdict.liar_named for verdict in verdicts)
                case = f"{aggregator}, {partition}, {lie}"
                note_figure(f"{case}, accuracy", accuracy)
                note_figure(f"{case}, share named", n_named / len(verdicts))
                n_others = sum(verdict.n_others_named for verdict in verdicts)
                print(
                    f"{aggregator:10}{partition:18}{lie:26}{accuracy:7.3f}"
                    f"{n_named:4d} of {len(verdicts)} named{n_others:4d} others",
                    flush=True,
                )


if __name__ == "__main__":
    main()
