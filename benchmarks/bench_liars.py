# SPDX-License-Identifier: BSD-3-Clause
"""One of ten nodes lies: what it costs, and who is named.

Digits, dealt by Dirichlet(0.5) over classes or one class a node, means of some seeds.
The liar is the node of median size. Labels are the next class, or all the same; each
row comes a thousand times; features are turned over, ten larger, or noise; parameters
are -10 times what they were. "named" counts the fits in which the liar was named by
NodesDisagreeWarning or ManyRowsWarning, "others" honest nodes that were.
"""

from __future__ import annotations

import argparse
import re
import warnings

import numpy as np
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

N_NODES, FEWEST_ROWS, COPIES = 10, 5, 1000
HONEST, WITHOUT, PARAMETERS = "honest", "without the node", "parameters * -10"
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


def told(X: np.ndarray, y: np.ndarray, lie: str, rng) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels that a node says it has."""
    if lie.startswith("labels + 1"):
        y = (y + 1) % 10
    if lie == "features + 10":
        X = X + 10.0
    elif lie == "features turned over":
        X = 1.0 - X
    elif lie == "noise":
        X, y = 3.0 * rng.standard_normal(X.shape), rng.integers(0, 10, len(y))
    elif lie == "one label":
        y = np.full_like(y, 3)
    if lie.endswith("rows * 1000"):
        X, y = np.repeat(X, COPIES, axis=0), np.repeat(y, COPIES)
    return X, y


def local(X: np.ndarray, y: np.ndarray):
    """What a node fits."""
    kind = LogisticRegression(max_iter=1000)
    return (kind if len(np.unique(y)) > 1 else DummyClassifier()).fit(X, y)


def fitted(aggregator: str, rows: dict[str, tuple], *, larger: str | None):
    """An aggregate of nodes, one of which may have made its parameters larger."""
    X = np.vstack([own[0] for own in rows.values()])
    y = np.concatenate([own[1] for own in rows.values()])
    nodes = np.concatenate([[name] * len(own[1]) for name, own in rows.items()])
    if aggregator == "pooled":
        return PooledAggregator(pooled="LinearDiscriminantAnalysis").fit(X, y, nodes)
    members = []
    for name, own in rows.items():
        # Copies of rows change no model: it is fitted on what is different.
        first = np.unique(np.column_stack(own), axis=0, return_index=True)[1]
        model = local(own[0][first], own[1][first])
        if name == larger and hasattr(model, "coef_"):
            model.coef_, model.intercept_ = -10 * model.coef_, -10 * model.intercept_
        members.append((name, model))
    if aggregator == "averages":
        counted = ModelAveragingAggregator(members, weights="n_samples")
        return counted.fit(X, y, nodes)
    return GEMSLogisticAggregator(members, random_state=0).fit(X, y, nodes)


def main() -> None:
    """Print accuracy and how often the liar is named, by lie."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--aggregators", nargs="+", default=list(AGGREGATORS))
    options = parser.parse_args()
    X, y = load_digits(return_X_y=True)
    X = X / 16
    for aggregator in options.aggregators:
        for partition, dealt in PARTITIONS.items():
            for lie in LIES:
                scores, named, others = [], 0, 0
                for seed in options.seeds:
                    A, B, a, b = train_test_split(
                        X, y, test_size=0.3, stratify=y, random_state=seed
                    )
                    nodes, rng = dealt(a, seed), np.random.default_rng(seed)
                    sizes = np.bincount(nodes, minlength=N_NODES)
                    kept = np.flatnonzero(sizes > FEWEST_ROWS)
                    liar = int(kept[np.argsort(sizes[kept])[len(kept) // 2]])
                    rows = {str(k): (A[nodes == k], a[nodes == k]) for k in kept}
                    rows[str(liar)] = told(*rows[str(liar)], lie, rng)
                    if lie == WITHOUT:
                        del rows[str(liar)]
                    larger = str(liar) if lie == PARAMETERS else None
                    with warnings.catch_warnings(record=True) as caught:
                        warnings.simplefilter("always")
                        agg = fitted(aggregator, rows, larger=larger)
                    scores.append(agg.score(B, b))
                    words = " ".join(
                        str(warning.message)
                        for warning in caught
                        if issubclass(
                            warning.category, (NodesDisagreeWarning, ManyRowsWarning)
                        )
                    )
                    found = set(re.findall(r"'(\d+)' \(", words))
                    named += str(liar) in found
                    others += len(found - {str(liar)})
                print(
                    f"{aggregator:10}{partition:18}{lie:26}{np.mean(scores):7.3f}"
                    f"{named:4d} of {len(scores)} named{others:4d} others",
                    flush=True,
                )


if __name__ == "__main__":
    main()
