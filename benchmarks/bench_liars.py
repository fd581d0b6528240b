# SPDX-License-Identifier: BSD-3-Clause
"""One or three of ten nodes lie: what it costs, with and without ``robust``.

Data sets are dealt over ten nodes by Dirichlet(0.5) over classes, and alike. The liars
are nodes of middle size. For each lie there are the points of accuracy that are lost,
their mean and their largest over sets, partitions and seeds, with ``robust=0`` and
``robust=f`` (averages: with ``server=None`` and "median"); how many liars and how many
honest nodes are left out, or named by the warnings with ``robust=0``. Liars that know
the rule come by ``--lies adaptive``, federations without liars by ``--honest``, also
where classes hardly differ by ``--weak``. The guide's page on liars tells what it
prints.
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from _federations import BUNDLED, TABULAR, add_data_options, load_data_set, split_rows
from _quick import note_figure, parse_with_quick
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator, ModelAveragingAggregator, PooledAggregator
from skgems.asking import ManyRowsWarning, NodesDisagreeWarning
from skgems.datasets import (
    partition_by_label,
    partition_dirichlet,
    partition_homogeneous,
)

N_NODES = 10
N_COPIES = 100  # how often a liar's row comes in "a hundredfold rows"
METHODS = ("linear", "LDA", "averages")
SETS = ("digits", "breast_cancer", "penbased", "spambase", "magic", "led7digit")
HONEST = "none"
AWAY = "the liars had stayed away"
# Places of the liars among the nodes by size, by their number.
PLACES = {1: [5], 3: [3, 5, 7], 4: [3, 5, 6, 7]}

Rows = tuple[np.ndarray, np.ndarray]  # features and labels of a node


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What liars know of the honest rows of all nodes."""

    n_classes: int
    class_means: np.ndarray  # (n_classes, n_features)
    rng: np.random.Generator


# Lies: function(X, y, truth) -> features and labels that a node says it has ---------


def next_labels(X: np.ndarray, y: np.ndarray, truth: Truth) -> Rows:
    return X, (y + 1) % truth.n_classes


def many_rows(X: np.ndarray, y: np.ndarray, truth: Truth) -> Rows:
    return np.tile(X, (N_COPIES, 1)), np.tile(y, N_COPIES)


def next_labels_of_many_rows(X: np.ndarray, y: np.ndarray, truth: Truth) -> Rows:
    return many_rows(*next_labels(X, y, truth), truth)


def noise(X: np.ndarray, y: np.ndarray, truth: Truth) -> Rows:
    labels = truth.rng.integers(0, truth.n_classes, len(y))
    return 3.0 * truth.rng.normal(size=X.shape), labels


def random_labels(X: np.ndarray, y: np.ndarray, truth: Truth) -> Rows:
    return X, truth.rng.integers(0, truth.n_classes, len(y))


def other_sign(X: np.ndarray, y: np.ndarray, truth: Truth) -> Rows:
    return -X, y


def ten_times(X: np.ndarray, y: np.ndarray, truth: Truth) -> Rows:
    return 10.0 * X, y


def spread_by_30(X: np.ndarray, y: np.ndarray, truth: Truth) -> Rows:
    return X + 30.0 * truth.rng.normal(size=X.shape), y


def one_label(X: np.ndarray, y: np.ndarray, truth: Truth) -> Rows:
    return X, np.zeros_like(y)


def some_features_spread(X: np.ndarray, y: np.ndarray, truth: Truth) -> Rows:
    """40 % of the features a hundredfold."""
    X = X.copy()
    n_spread = int(0.4 * X.shape[1])
    X[:, :n_spread] += 100.0 * truth.rng.normal(size=(len(X), n_spread))
    return X, y


def one_feature_off(X: np.ndarray, y: np.ndarray, truth: Truth) -> Rows:
    """As far as nine tenths of the bound allow for one feature of d alone."""
    X = X.copy()
    X[:, min(5, X.shape[1] - 1)] += 2.7 * np.sqrt(X.shape[1])
    return X, y


LIES: dict[str, Callable[[np.ndarray, np.ndarray, Truth], Rows]] = {
    "labels of the next class": next_labels,
    "a hundredfold rows": many_rows,
    "both": next_labels_of_many_rows,
    "noise, random labels": noise,
    "random labels alone": random_labels,
    "features of the other sign": other_sign,
    "features times ten": ten_times,
    "spread by 30 deviations": spread_by_30,
    "all rows under one label": one_label,
    "40 % of the features spread": some_features_spread,
    "one feature off": one_feature_off,
}
MODEL = "model times -10"  # a lie of parameters alone


# Liars that know the rule ------------------------------------------------------------


def three_times_deviations(X: np.ndarray, y: np.ndarray, truth: Truth) -> Rows:
    center = X.mean(axis=0)
    return center + 3.0 * (X - center), y


def noise_up_to_the_bound(X: np.ndarray, y: np.ndarray, truth: Truth) -> Rows:
    return X + 2.8 * truth.rng.normal(size=X.shape), y


def rows_off_by_2_5(X: np.ndarray, y: np.ndarray, truth: Truth) -> Rows:
    return X + 2.5, y


def means_at_half_of_many_rows(X: np.ndarray, y: np.ndarray, truth: Truth) -> Rows:
    """Means tell 0.52 of the differences between classes."""
    grand_mean = truth.class_means.mean(axis=0)
    return many_rows(X - 0.48 * (truth.class_means[y] - grand_mean), y, truth)


def class_moved_of_many_rows(X: np.ndarray, y: np.ndarray, truth: Truth) -> Rows:
    """Rows of class 0 lie where those of class 1 are."""
    move = truth.class_means[1] - truth.class_means[0]
    return many_rows(np.where((y == 0)[:, None], X + move, X), y, truth)


def two_classes_swapped(X: np.ndarray, y: np.ndarray, truth: Truth) -> Rows:
    return X, np.select([y == 0, y == 1], [1, 0], y)


def two_classes_swapped_of_many_rows(
    X: np.ndarray, y: np.ndarray, truth: Truth
) -> Rows:
    return many_rows(*two_classes_swapped(X, y, truth), truth)


ADAPTIVE: dict[str, Callable[[np.ndarray, np.ndarray, Truth], Rows]] = {
    "variances times nine": three_times_deviations,
    "noise up to the bound": noise_up_to_the_bound,
    "rows 2.5 deviations off": rows_off_by_2_5,
    "means at 0.52, a hundredfold rows": means_at_half_of_many_rows,
    "a class moved, a hundredfold rows": class_moved_of_many_rows,
    "two classes swapped": two_classes_swapped,
    "the same, a hundredfold rows": two_classes_swapped_of_many_rows,
}
# Four liars where three are expected.
TOO_MANY = "four liars: labels of the next class"


# How rows are dealt ------------------------------------------------------------------


def deal_by_dirichlet(X: np.ndarray, y: np.ndarray, seed: int) -> Rows:
    nodes = partition_dirichlet(
        y, N_NODES, alpha=0.5, min_size=20, max_tries=20_000, random_state=seed
    )
    return X, nodes


def deal_alike(X: np.ndarray, y: np.ndarray, seed: int) -> Rows:
    return X, partition_homogeneous(y, N_NODES, random_state=seed)


PARTITIONS = {"Dirichlet(0.5)": deal_by_dirichlet, "alike": deal_alike}


def deal_few_classes(X: np.ndarray, y: np.ndarray, seed: int) -> Rows:
    nodes = partition_dirichlet(
        y, N_NODES, alpha=0.1, min_size=10, max_tries=50_000, random_state=seed
    )
    return X, nodes


def deal_disjoint(X: np.ndarray, y: np.ndarray, seed: int) -> Rows:
    return X, partition_by_label(y, min(N_NODES, y.max() + 1), random_state=seed)


def deal_by_feature(X: np.ndarray, y: np.ndarray, seed: int) -> Rows:
    nodes = np.empty(len(y), dtype=np.intp)
    j = int(np.argmax([len(np.unique(column)) for column in X.T]))
    order = np.argsort(X[:, j], kind="stable")
    nodes[order] = np.arange(len(y)) * N_NODES // len(y)
    return X, nodes


def deal_with_instruments(X: np.ndarray, y: np.ndarray, seed: int) -> Rows:
    """Each node has gains exp(0.3 z) and zeros 0.5 z of its own."""
    rng = np.random.default_rng(seed)
    nodes = partition_homogeneous(y, N_NODES, random_state=seed)
    gains = np.exp(0.3 * rng.normal(size=(N_NODES, X.shape[1])))
    zeros = 0.5 * rng.normal(size=(N_NODES, X.shape[1]))
    return X * gains[nodes] + zeros[nodes], nodes


HONEST_PARTITIONS = {
    **PARTITIONS,
    "Dirichlet(0.1)": deal_few_classes,
    "disjoint classes": deal_disjoint,
    "by one feature": deal_by_feature,
    "gains and zeros": deal_with_instruments,
}


# Fits --------------------------------------------------------------------------------


def fit_local(rows: Rows, *, enlarged: bool = False) -> object:
    """What a node fits; copies of rows change no model, so they are left out."""
    X, y = rows
    _, first = np.unique(np.column_stack([X, y]), axis=0, return_index=True)
    X = X[first]
    y = y[first]
    if len(np.unique(y)) == 1:
        return DummyClassifier().fit(X, y)
    model = LogisticRegression(max_iter=300).fit(X, y)
    if enlarged:
        model.coef_ = -10.0 * model.coef_
        model.intercept_ = -10.0 * model.intercept_
    return model


def aggregator_of(method: str, most_liars: int):
    """An aggregator that trusts all nodes, or expects so many liars."""
    if method == "linear":
        return GEMSLogisticAggregator(robust=most_liars, random_state=0)
    if method == "LDA":
        return PooledAggregator(pooled="LinearDiscriminantAnalysis", robust=most_liars)
    return ModelAveragingAggregator(
        node_weight="n_samples", server="median" if most_liars else None
    )


def what_node_sends(method: str, name: str, rows: Rows, *, enlarged: bool = False):
    """The summary of a node."""
    model = None if method == "LDA" else fit_local(rows, enlarged=enlarged)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return aggregator_of(method, 0).summarize(
            model, *rows, name=name, disclosure=None
        )


@dataclass(kw_only=True)
class Fit:
    """An aggregate, and the nodes that it left out or named."""

    accuracy: float
    left_out: set[str]
    named: set[str]


def fit(method: str, sent: list, test: Rows, *, most_liars: int) -> Fit:
    """Fit what nodes have sent, and score it."""
    aggregator = aggregator_of(method, most_liars).set_params(estimators=sent)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        aggregator.fit()
    text = " ".join(
        str(warning.message)
        for warning in caught
        if issubclass(warning.category, (NodesDisagreeWarning, ManyRowsWarning))
    )
    trust = getattr(aggregator, "trust_", None)
    left_out = set()
    if trust is not None:
        named_reasons = zip(trust["node"], trust["left_out_by"], strict=True)
        left_out = {name for name, reason in named_reasons if reason}
    return Fit(
        accuracy=aggregator.score(*test),
        left_out=left_out,
        named=set(re.findall(r"'(n\d+)'", text)),
    )


# Cells -------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Cell:
    """One data set, dealt once."""

    data_set: str
    partition: str
    seed: int
    rows: dict[str, Rows]  # by name of the node
    test: Rows
    truth: Truth

    def liars(self, n_liars: int) -> list[str]:
        """Names of nodes of middle size."""
        names = sorted(self.rows, key=lambda name: len(self.rows[name][1]))
        return [names[place] for place in PLACES[n_liars]]


def cells_of(options: Namespace, partitions: dict[str, Callable]) -> Iterator[Cell]:
    """The cells asked for; those of too few rows are left out."""
    for data_set in options.sets:
        X, y = load_data_set(data_set, options)
        y = np.unique(y, return_inverse=True)[1]
        for seed in options.seeds:
            split = split_rows(X, y, seed, max_rows=options.max_rows, standardize=True)
            for partition, deal in partitions.items():
                try:
                    X_dealt, nodes = deal(split.X, split.y, seed)
                except ValueError:
                    continue
                class_means = [X_dealt[split.y == c].mean(axis=0) for c in np.unique(y)]
                yield Cell(
                    data_set=data_set,
                    partition=partition,
                    seed=seed,
                    rows={
                        f"n{k}": (X_dealt[nodes == k], split.y[nodes == k])
                        for k in range(nodes.max() + 1)
                    },
                    test=(split.X_test, split.y_test),
                    truth=Truth(
                        n_classes=int(y.max()) + 1,
                        class_means=np.stack(class_means),
                        rng=np.random.default_rng(seed + 1),
                    ),
                )


@dataclass(kw_only=True)
class Outcome:
    """What a lie did over all cells: points lost, and who was found."""

    lost: list[float] = field(default_factory=list)  # all nodes are trusted
    lost_with_rule: list[float] = field(default_factory=list)
    n_liars: int = 0
    n_named: int = 0  # of the liars, by warnings where all nodes are trusted
    n_honest_named: int = 0
    n_left_out: int = 0  # of the liars
    n_honest_out: int = 0

    def add(self, honest: float, trusting: Fit, robust: Fit, liars: set[str]) -> None:
        """Take in the two fits of a cell; the accuracy without a lie is ``honest``."""
        self.lost.append(100.0 * (honest - trusting.accuracy))
        self.lost_with_rule.append(100.0 * (honest - robust.accuracy))
        self.n_liars += len(liars)
        self.n_named += len(liars & trusting.named)
        self.n_honest_named += len(trusting.named - liars)
        self.n_left_out += len(liars & robust.left_out)
        self.n_honest_out += len(robust.left_out - liars)


def lies_of(options: Namespace, method: str) -> dict[str, Callable | None]:
    """The lies to try; None stands for a lie about the model alone."""
    if options.lies == "adaptive":
        return {**ADAPTIVE, TOO_MANY: next_labels}
    lies: dict[str, Callable | None] = dict(LIES)
    return lies if method == "LDA" else {**lies, MODEL: None}


def add_cell(
    outcomes: dict[tuple[str, int], Outcome],
    cell: Cell,
    method: str,
    options: Namespace,
) -> None:
    """Fit a cell without a lie, without the liars, and with each lie."""
    honest_sent = {
        name: what_node_sends(method, name, rows) for name, rows in cell.rows.items()
    }
    everybody = list(honest_sent.values())
    trusting = fit(method, everybody, cell.test, most_liars=0)
    honest = trusting.accuracy
    for f in options.liars:
        liars = cell.liars(f)
        robust = fit(method, everybody, cell.test, most_liars=f)
        outcome = outcomes.setdefault((HONEST, f), Outcome())
        outcome.add(honest, trusting, robust, set())
        others = [sent for name, sent in honest_sent.items() if name not in liars]
        away = fit(method, others, cell.test, most_liars=0)
        outcome = outcomes.setdefault((AWAY, f), Outcome())
        outcome.add(honest, away, away, set())
        for lie, tell in lies_of(options, method).items():
            if lie == TOO_MANY:
                liars = cell.liars(f + 1) if f + 1 in PLACES else []
            sent = dict(honest_sent)
            for name in liars:
                rows = cell.rows[name]
                told = rows if tell is None else tell(*rows, cell.truth)
                sent[name] = what_node_sends(method, name, told, enlarged=tell is None)
            all_sent = list(sent.values())
            trusting_liars = fit(method, all_sent, cell.test, most_liars=0)
            robust = fit(method, all_sent, cell.test, most_liars=f)
            outcome = outcomes.setdefault((lie, f), Outcome())
            outcome.add(honest, trusting_liars, robust, set(liars))
            if options.verbose:
                print_fits(cell, method, lie=lie, f=f, fits=(trusting_liars, robust))


def print_fits(
    cell: Cell, method: str, *, lie: str, f: int, fits: tuple[Fit, Fit]
) -> None:
    """One line of JSON, of the fits without and with the rule."""
    trusting, robust = fits
    record = {
        "set": cell.data_set,
        "partition": cell.partition,
        "seed": cell.seed,
        "method": method,
        "lie": lie,
        "f": f,
        "now": round(trusting.accuracy, 4),
        "robust": round(robust.accuracy, 4),
        "named": sorted(trusting.named),
        "left_out": sorted(robust.left_out),
    }
    print(json.dumps(record), flush=True)


def print_table(method: str, outcomes: dict[tuple[str, int], Outcome]) -> None:
    """A line for each lie and number of liars."""
    print(
        f"\n{method}: points lost, mean / worst\n{'':36}{'f':>2}{'robust=0':>15}"
        f"{'robust=f':>15}{'named':>10}{'honest':>8}{'out':>10}{'honest':>8}"
    )
    for (lie, f), outcome in outcomes.items():
        lost = f"{np.mean(outcome.lost):.1f} / {np.max(outcome.lost):.1f}"
        with_rule = outcome.lost_with_rule
        lost_with_rule = f"{np.mean(with_rule):.1f} / {np.max(with_rule):.1f}"
        named = f"{outcome.n_named}/{outcome.n_liars}"
        left_out = f"{outcome.n_left_out}/{outcome.n_liars}"
        print(
            f"{lie:36}{f:2d}{lost:>15}{lost_with_rule:>15}{named:>10}"
            f"{outcome.n_honest_named:8d}{left_out:>10}{outcome.n_honest_out:8d}",
            flush=True,
        )
        note_figure(f"{method}, {lie}, f={f}, lost", np.mean(outcome.lost))
        note_figure(f"{method}, {lie}, f={f}, lost with robust", np.mean(with_rule))
        note_figure(f"{method}, {lie}, f={f}, honest out", outcome.n_honest_out)


def print_honest(options: Namespace) -> None:
    """Print federations without liars: nodes left out, and points lost."""
    for method in options.methods:
        n_out = 0
        n_nodes = 0
        lost = []
        for cell in cells_of(options, HONEST_PARTITIONS):
            sent = [
                what_node_sends(method, name, rows) for name, rows in cell.rows.items()
            ]
            trusting = fit(method, sent, cell.test, most_liars=0)
            for f in options.liars:
                if len(sent) <= 2 * f:
                    continue
                robust = fit(method, sent, cell.test, most_liars=f)
                lost.append(100.0 * (trusting.accuracy - robust.accuracy))
                n_out += len(robust.left_out)
                n_nodes += len(sent)
                if robust.left_out:
                    print(
                        f"{cell.data_set} {cell.partition} seed {cell.seed} f={f}: "
                        f"{sorted(robust.left_out)}, {lost[-1]:.1f} points",
                        flush=True,
                    )
        print(
            f"{method}: {n_out} of {n_nodes} honest nodes left out in {len(lost)} "
            f"fits, {np.mean(lost):.2f} points lost, {np.max(lost):.1f} at worst"
        )
        note_figure(f"{method}, honest nodes left out", n_out)


def print_weak() -> None:
    """Print how many of 40 honest federations lose a node where classes hardly differ.

    Ten nodes have 100 rows of six normal columns each, three of which have an effect.
    """
    for log_odds in (0.1, 0.2, 0.4):
        n_losing = 0
        for seed in range(40):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(100 * N_NODES, 6))
            logits = X[:, :3] @ np.array([log_odds, -log_odds, log_odds])
            y = (logits + rng.logistic(size=len(X)) > 0).astype(int)
            nodes = np.repeat([f"n{k}" for k in range(N_NODES)], 100)
            members = [(f"n{k}", None) for k in range(N_NODES)]
            robust = PooledAggregator(members, robust=1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                robust.fit(X, y, nodes=nodes)
            n_losing += any(robust.trust_["left_out_by"])
        print(f"log odds of {log_odds}: {n_losing} of 40 federations lose a node")
        note_figure(f"log odds of {log_odds}, honest federations that lose", n_losing)


def main() -> None:
    """Print what lies cost, and who is found, by method, lie and number of liars."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data_options(parser)
    parser.add_argument("--sets", nargs="+", choices=[*BUNDLED, *TABULAR], default=SETS)
    parser.add_argument("--max-rows", type=int, default=3000, help="to train on")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--liars", nargs="+", type=int, choices=(1, 3), default=[1, 3])
    parser.add_argument("--lies", choices=("all", "adaptive"), default="all")
    parser.add_argument("--honest", action="store_true", help="nobody lies")
    parser.add_argument("--weak", action="store_true", help="classes hardly differ")
    parser.add_argument("--verbose", action="store_true", help="a line a fit")
    options = parse_with_quick(
        parser,
        quick={
            "sets": ["digits"],
            "seeds": [0],
            "methods": ["linear", "LDA"],
            "liars": [1],
        },
    )
    if options.weak:
        print_weak()
        return
    if options.honest:
        print_honest(options)
        return
    for method in options.methods:
        outcomes: dict[tuple[str, int], Outcome] = {}
        for cell in cells_of(options, PARTITIONS):
            add_cell(outcomes, cell, method, options)
        print_table(method, outcomes)


if __name__ == "__main__":
    main()
