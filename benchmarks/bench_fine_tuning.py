# SPDX-License-Identifier: BSD-3-Clause
"""What a few public rows, and many, do to aggregates of networks.

Nodes with 30 hidden units on label-disjoint and Dirichlet 0.1 partitions become one
model, which is fine-tuned on draws of public rows that no node has. The table has the
accuracy untuned, tuned, and of models of the public rows alone; the mean and the worst
that tuning cost over the draws, in points; and the mean and the worst by which it stays
behind the better of untuned and the rows alone. MNIST is added where ``--data`` or
SKGEMS_MNIST names it.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser
from collections.abc import Iterator
from copy import deepcopy
from typing import NamedTuple

import numpy as np
from _protocol import add_arguments, load_mnist
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from skgems import GEMSMLPAggregator, PFNMAggregator
from skgems.datasets import partition_by_label, partition_dirichlet

FEW, MANY = (2, 4, 8, 20), (100, 1000)
UNITS = 30
LINE = "{:14}{:15}{:10}{:>5} {:>9}{:>7}{:>7}{:>7}  {:>6}{:>7}  {:>6}{:>7}"


class Rows(NamedTuple):
    """Rows of the nodes, rows to draw public ones from, rows to read accuracies on."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_public: np.ndarray
    y_public: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def data_sets(options) -> Iterator[Rows]:
    """Those that are asked for, standardised but for pixels."""
    if "digits" in options.sets:
        X, y = load_digits(return_X_y=True)
        yield cut("digits", X / 16, y, 450, 1010)
    if "wine" in options.sets:
        X, y = load_wine(return_X_y=True)
        yield cut("wine", StandardScaler().fit_transform(X), y, 70, 40)
    if "cancer" in options.sets:
        X, y = load_breast_cancer(return_X_y=True)
        yield cut("breast cancer", StandardScaler().fit_transform(X), y, 250, 120)
    if "mnist" in options.sets and options.data:
        X, y = load_mnist(options.data)
        yield cut("MNIST", X[:14_000], y[:14_000], 8000, 3000)


def cut(name, X, y, n_nodes, n_public) -> Rows:
    """Rows of the nodes, public rows, and the rest for the test."""
    X, rest, y, y_rest = train_test_split(
        X, y, train_size=n_nodes, stratify=y, random_state=0
    )
    public, test, y_public, y_test = train_test_split(
        rest, y_rest, train_size=n_public, stratify=y_rest, random_state=0
    )
    return Rows(name, X, y, public, y_public, test, y_test)


def partitions(y) -> Iterator[tuple[str, np.ndarray]]:
    """Names, and the node of every row."""
    for K in (2, 5):
        if len(np.unique(y)) >= K:
            yield f"disjoint {K}", partition_by_label(y, K)
    yield "Dirichlet 0.1", partition_dirichlet(y, 5, alpha=0.1, random_state=0)


def network(seed: int = 0) -> MLPClassifier:
    """What a node fits, and what public rows alone are fitted by."""
    return MLPClassifier(
        UNITS, solver="lbfgs", alpha=0.1, max_iter=500, random_state=seed
    )


def aggregates(rows: Rows, nodes: np.ndarray):
    """Names of ways to tune, fitted aggregates and what `fine_tune` is told."""
    locals_ = [
        network(k).fit(rows.X[nodes == k], rows.y[nodes == k]) for k in np.unique(nodes)
    ]
    gems = GEMSMLPAggregator(locals_, validation_fraction=0, random_state=0)
    gems = gems.fit(rows.X, rows.y, nodes=nodes)
    yield "GEMS last", gems, {"layers": "last"}
    yield "GEMS all", gems, {"layers": "all"}
    pfnm = PFNMAggregator(locals_, random_state=0)
    yield "PFNM", pfnm.fit(rows.X, rows.y, nodes=nodes), {}


def draws(rows: Rows, n_rows: int, n_draws: int) -> Iterator[tuple]:
    """Public rows drawn without replacement, none of them where there are too few."""
    if n_rows > len(rows.y_public):
        return
    for seed in range(n_draws):
        rng = np.random.RandomState(seed)
        chosen = rng.choice(len(rows.y_public), n_rows, replace=False)
        yield rows.X_public[chosen], rows.y_public[chosen]


def alone(model: ClassifierMixin, X, y, rows: Rows) -> float:
    """Accuracy of a model that has the public rows only."""
    if len(np.unique(y)) == 1:
        return np.mean(rows.y_test == y[0])
    return model.fit(X, y).score(rows.X_test, rows.y_test)


def cells(rows: Rows, options):
    """Lines of the table."""
    public = {}
    for n_rows in options.rows:
        # More rows differ less.
        n_draws = options.draws if n_rows <= max(FEW) else options.draws // 5
        public[n_rows] = list(draws(rows, n_rows, max(1, n_draws)))
    own = {
        n_rows: [
            (
                alone(network(), X, y, rows),
                alone(LogisticRegression(max_iter=1000), X, y, rows),
            )
            for X, y in drawn
        ]
        for n_rows, drawn in public.items()
    }
    for partition, nodes in partitions(rows.y):
        for name, start, how in aggregates(rows, nodes):
            untuned = start.score(rows.X_test, rows.y_test)
            for n_rows, drawn in public.items():
                if not drawn:
                    continue
                tuned = [
                    deepcopy(start)
                    .fine_tune(X, y, **how)
                    .score(rows.X_test, rows.y_test)
                    for X, y in drawn
                ]
                yield partition, name, n_rows, untuned, np.array(tuned), own[n_rows]


def main() -> None:
    """Print the table, and the worst of each way and number of rows."""
    parser = add_arguments(ArgumentParser(description=__doc__.splitlines()[0]))
    parser.add_argument("--draws", type=int, default=25)
    parser.add_argument("--rows", type=int, nargs="*", default=[*FEW, *MANY])
    parser.add_argument(
        "--sets", nargs="*", default=["digits", "wine", "cancer", "mnist"]
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    titles = ["data", "partition", "way", "rows", "untuned", "tuned", "MLP", "linear"]
    print(LINE.format(*titles, "cost", "worst", "behind", "worst"))
    summary = {}
    for rows in data_sets(options):
        for partition, name, n_rows, untuned, tuned, own in cells(rows, options):
            best = np.maximum(untuned, np.max(own, axis=1))
            cost, behind = 100 * (untuned - tuned), 100 * (best - tuned)
            figures = [untuned, tuned.mean(), *np.mean(own, axis=0)]
            print(
                LINE.format(
                    *(rows.name, partition, name, n_rows),
                    *(f"{figure:.3f}" for figure in figures),
                    *(f"{each:.1f}" for each in (cost.mean(), cost.max())),
                    *(f"{each:.1f}" for each in (behind.mean(), behind.max())),
                ),
                flush=True,
            )
            gain = (-cost.mean(), cost.max(), behind.mean(), behind.max())
            summary.setdefault((name, n_rows), []).append(gain)
    print("\nOver all: mean gain, worst cost of a draw, behind in the mean and worst")
    for (name, n_rows), found in sorted(summary.items()):
        gains, costs, behind, worst = np.array(found).T
        print(
            f"{name:10}{n_rows:>5} {gains.mean():7.2f}{costs.max():7.1f}  behind "
            f"{behind.mean():6.2f}, cell {behind.max():6.1f}, draw {worst.max():6.1f}"
        )


if __name__ == "__main__":
    main()
