# SPDX-License-Identifier: BSD-3-Clause
"""What a few public rows, and many, do to aggregates of networks.

Nodes with 30 hidden units on label-disjoint and Dirichlet 0.1 partitions become one
model, which is fine-tuned on draws of public rows that no node has. The table has the
accuracy untuned, tuned, and of models of the public rows alone; the mean and the worst
that tuning cost over the draws, in points; and the mean and the worst by which it stays
behind the better of untuned and the rows alone. A second table has means over data sets
and partitions, with log-losses. MNIST is added where ``--data`` or SKGEMS_MNIST names
it. The guide's page on networks tells what it prints.

GEMS is tuned in several ways. "moments" fits the last layer anew, by the moments of the
nodes and the rows, and is the default. "penalty" holds it to the start instead, as
where a last layer has no moments. "all" tunes all layers after that. "plain" is the
papers' way.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser, Namespace
from collections import defaultdict
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from _protocol import add_arguments, load_mnist
from _quick import parse_with_quick
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from skgems import GEMSMLPAggregator, PFNMAggregator
from skgems.asking import fine_tune_network
from skgems.datasets import partition_by_label, partition_dirichlet

FEW = (2, 4, 8, 20)
MANY = (100, 1000)
# Of the nodes' networks.
N_UNITS = 30
LINE = "{:14}{:15}{:13}{:>5} {:>9}{:>7}{:>7}{:>7}  {:>6}{:>7}  {:>6}{:>7}"


@dataclass(kw_only=True)
class Rows:
    """Rows of the nodes, rows to draw public ones from, rows to read accuracies on."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_public: np.ndarray
    y_public: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def data_sets(options: Namespace) -> Iterator[Rows]:
    """Those that are asked for, standardized but for pixels."""
    if "digits" in options.sets:
        X, y = load_digits(return_X_y=True)
        yield cut("digits", X / 16, y, n_nodes=450, n_public=1010)
    if "wine" in options.sets:
        X, y = load_wine(return_X_y=True)
        X = StandardScaler().fit_transform(X)
        yield cut("wine", X, y, n_nodes=70, n_public=40)
    if "cancer" in options.sets:
        X, y = load_breast_cancer(return_X_y=True)
        X = StandardScaler().fit_transform(X)
        yield cut("breast cancer", X, y, n_nodes=250, n_public=120)
    if "mnist" in options.sets and options.data:
        X, y = load_mnist(options.data)
        yield cut("MNIST", X[:14_000], y[:14_000], n_nodes=8000, n_public=3000)


def cut(
    name: str, X: np.ndarray, y: np.ndarray, *, n_nodes: int, n_public: int
) -> Rows:
    """Rows of the nodes, public rows, and the rest for the test."""
    X, rest, y, y_rest = train_test_split(
        X, y, train_size=n_nodes, stratify=y, random_state=0
    )
    public, test, y_public, y_test = train_test_split(
        rest, y_rest, train_size=n_public, stratify=y_rest, random_state=0
    )
    return Rows(
        name=name,
        X=X,
        y=y,
        X_public=public,
        y_public=y_public,
        X_test=test,
        y_test=y_test,
    )


def partitions(y: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Names, and the node of every row."""
    for K in (2, 5):
        if len(np.unique(y)) >= K:
            yield f"disjoint {K}", partition_by_label(y, K)
    yield "Dirichlet 0.1", partition_dirichlet(y, 5, alpha=0.1, random_state=0)


def network(seed: int = 0) -> MLPClassifier:
    """What a node fits, and what public rows alone are fitted by."""
    return MLPClassifier(
        N_UNITS, solver="lbfgs", alpha=0.1, max_iter=500, random_state=seed
    )


class PublicRows(NamedTuple):
    """One draw."""

    X: np.ndarray
    y: np.ndarray


def tune_last(aggregate, public: PublicRows):
    """The default way, of the last layer."""
    return aggregate.fine_tune(public.X, public.y, layers="last")


def tune_all(aggregate, public: PublicRows):
    """The default way, of all layers."""
    return aggregate.fine_tune(public.X, public.y)


def tune_plainly(aggregate, public: PublicRows):
    """The papers' way, of the last layer."""
    aggregate.last_layer_.set_params(fine_tuning="plain")
    return tune_last(aggregate, public)


def hold_last(aggregate, public: PublicRows):
    """Hold the last layer to the start, without the moments."""
    return _held(aggregate, public, hidden=False)


def hold_all(aggregate, public: PublicRows):
    """Hold all layers to the start, without the moments."""
    return _held(aggregate, public, hidden=True)


def _held(aggregate, public: PublicRows, *, hidden: bool):
    tuned = fine_tune_network(
        public.X, public.y, aggregate._layers, hidden=hidden, random_state=0
    )
    aggregate._layers = tuned.layers
    return aggregate


# Aggregate and public rows to the tuned aggregate, by the name of the way.
WAYS_OF_GEMS: dict[str, Callable] = {
    "plain": tune_plainly,
    "penalty": hold_last,
    "penalty, all": hold_all,
    "moments": tune_last,
    "moments, all": tune_all,
}


def fitted_aggregates(
    rows: Rows, nodes: np.ndarray, options: Namespace
) -> Iterator[tuple]:
    """Names of ways to tune, fitted aggregates and functions that tune them."""
    local_models = [
        network(k).fit(rows.X[nodes == k], rows.y[nodes == k]) for k in np.unique(nodes)
    ]
    gems = GEMSMLPAggregator(
        local_models,
        n_common_units=options.n_common_units,
        validation_fraction=0,
        random_state=0,
    )
    gems = gems.fit(rows.X, rows.y, nodes=nodes)
    for way, tune in WAYS_OF_GEMS.items():
        yield way, gems, tune
    if options.pfnm:
        pfnm = PFNMAggregator(local_models, last_layer=None, random_state=0)
        yield "PFNM", pfnm.fit(rows.X, rows.y, nodes=nodes), tune_all


def draw_public(rows: Rows, n_rows: int, n_draws: int) -> list[PublicRows]:
    """Public rows drawn without replacement, none of them where there are too few."""
    if n_rows > len(rows.y_public):
        return []
    draws = []
    for seed in range(n_draws):
        rng = np.random.RandomState(seed)
        chosen = rng.choice(len(rows.y_public), n_rows, replace=False)
        draws.append(PublicRows(rows.X_public[chosen], rows.y_public[chosen]))
    return draws


def accuracy_alone(model: ClassifierMixin, public: PublicRows, rows: Rows) -> float:
    """Accuracy of a model that has the public rows only."""
    if len(np.unique(public.y)) == 1:
        return np.mean(rows.y_test == public.y[0])
    return model.fit(public.X, public.y).score(rows.X_test, rows.y_test)


@dataclass(kw_only=True)
class Line:
    """A line of the table; arrays have one accuracy a draw."""

    data_set: str
    partition: str
    way: str
    n_rows: int
    untuned: float
    tuned: np.ndarray
    alone: np.ndarray  # (n_draws, 2): a network, a linear model of public rows alone
    loss_untuned: float
    loss_tuned: np.ndarray

    @property
    def cost(self) -> np.ndarray:
        """Points that tuning cost, in each draw."""
        return 100 * (self.untuned - self.tuned)

    @property
    def behind(self) -> np.ndarray:
        """Points below the better of untuned and the rows alone, in each draw."""
        best = np.maximum(self.untuned, np.max(self.alone, axis=1))
        return 100 * (best - self.tuned)

    def print_line(self) -> None:
        """Means over the draws, and the worst of them."""
        network_alone, linear_alone = np.mean(self.alone, axis=0)
        print(
            LINE.format(
                self.data_set,
                self.partition,
                self.way,
                self.n_rows,
                f"{self.untuned:.3f}",
                f"{self.tuned.mean():.3f}",
                f"{network_alone:.3f}",
                f"{linear_alone:.3f}",
                f"{self.cost.mean():.1f}",
                f"{self.cost.max():.1f}",
                f"{self.behind.mean():.1f}",
                f"{self.behind.max():.1f}",
            ),
            flush=True,
        )


def measure_lines(rows: Rows, options: Namespace) -> Iterator[Line]:
    """Lines of the table."""
    draws_of = {}
    alone_of = {}
    for n_rows in options.rows:
        # More rows differ less.
        n_draws = options.draws if n_rows <= max(FEW) else options.draws // 5
        draws = draw_public(rows, n_rows, max(1, n_draws))
        if not draws:
            continue
        draws_of[n_rows] = draws
        alone_of[n_rows] = np.array(
            [
                (
                    accuracy_alone(network(), public, rows),
                    accuracy_alone(LogisticRegression(max_iter=1000), public, rows),
                )
                for public in draws
            ]
        )
    for partition, nodes in partitions(rows.y):
        for way, aggregate, tune in fitted_aggregates(rows, nodes, options):
            for n_rows, draws in draws_of.items():
                models = [tune(deepcopy(aggregate), public) for public in draws]
                yield Line(
                    data_set=rows.name,
                    partition=partition,
                    way=way,
                    n_rows=n_rows,
                    untuned=aggregate.score(rows.X_test, rows.y_test),
                    tuned=np.array([m.score(rows.X_test, rows.y_test) for m in models]),
                    alone=alone_of[n_rows],
                    loss_untuned=loss_of(aggregate, rows),
                    loss_tuned=np.array([loss_of(model, rows) for model in models]),
                )


def loss_of(model: ClassifierMixin, rows: Rows) -> float:
    """The log-loss of a model on the test rows."""
    probabilities = model.predict_proba(rows.X_test)
    return log_loss(rows.y_test, probabilities, labels=model.classes_)


def print_summary(lines: list[Line]) -> None:
    """Means, and the worst, of each way and number of rows over all cells."""
    lines_of = defaultdict(list)
    for line in lines:
        lines_of[line.way, line.n_rows].append(line)
    print("\nOver all: accuracies untuned, tuned, of the rows alone; log-losses;")
    print("mean gain, worst cost of a draw, behind in the mean and worst")
    for (way, n_rows), cells in sorted(lines_of.items(), key=lambda pair: pair[0]):
        gain = np.mean([-line.cost.mean() for line in cells])
        worst_cost = max(line.cost.max() for line in cells)
        behind = np.array([line.behind.mean() for line in cells])
        worst_behind = max(line.behind.max() for line in cells)
        untuned, tuned, alone = (
            np.mean([np.mean(values) for values in of_cells])
            for of_cells in zip(
                *[(x.untuned, x.tuned, np.mean(x.alone, axis=0).max()) for x in cells],
                strict=True,
            )
        )
        losses = np.mean([(x.loss_untuned, x.loss_tuned.mean()) for x in cells], axis=0)
        print(
            f"{way:13}{n_rows:>5} {untuned:7.3f}{tuned:7.3f}{alone:7.3f}  "
            f"{losses[0]:7.3f}{losses[1]:7.3f}  {gain:7.2f}{worst_cost:7.1f}  behind "
            f"{behind.mean():6.2f}, cell {behind.max():6.1f}, draw {worst_behind:6.1f}"
        )


def main() -> None:
    """Print the table, and the worst of each way and number of rows."""
    parser = add_arguments(ArgumentParser(description=__doc__.splitlines()[0]))
    parser.add_argument("--draws", type=int, default=25)
    parser.add_argument("--rows", type=int, nargs="*", default=[*FEW, *MANY])
    parser.add_argument("--n-common-units", type=int, default=0, help="-1: auto")
    parser.add_argument("--pfnm", action="store_true", help="tune PFNM, too")
    parser.add_argument(
        "--sets", nargs="*", default=["digits", "wine", "cancer", "mnist"]
    )
    options = parse_with_quick(
        parser, quick={"sets": ["digits"], "rows": [8, 100], "draws": 5}
    )
    if options.n_common_units < 0:
        options.n_common_units = "auto"
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(
        LINE.format(
            "data",
            "partition",
            "way",
            "rows",
            "untuned",
            "tuned",
            "MLP",
            "linear",
            "cost",
            "worst",
            "behind",
            "worst",
        )
    )
    lines = []
    for rows in data_sets(options):
        for line in measure_lines(rows, options):
            line.print_line()
            lines.append(line)
    print_summary(lines)


if __name__ == "__main__":
    main()
