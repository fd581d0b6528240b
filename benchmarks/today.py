# SPDX-License-Identifier: BSD-3-Clause
"""Methods of other papers that need one message, beside ours, on the same columns.

Points of test accuracy below LogisticRegression, which has the same columns of all rows
in one place; log-loss, bytes from a node, and seconds of all nodes and the server. Over
data sets x partitions x seeds. Columns are the standardized ones ("raw"), or 500 common
Fourier features of them, standardized again ("fourier"). Splits, partitions and records
are those of `bench_pooled_gap.py`; the methods are in `_today.py`. What is made of sums
does not depend on the partition and is run on the first one only. The table of
`benchmarks/README.md`, "Methods of other papers, on equal columns", is made by it.
"""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from time import perf_counter
from typing import NamedTuple

import numpy as np
from _baselines import random_layers, tune
from _federations import (
    BUNDLED,
    LOGISTIC,
    MNIST,
    PARTITIONS,
    TABULAR,
    Federation,
    Split,
    add_data_options,
    assign_nodes,
    average_weights,
    fit_one_a_node,
    fit_pooled,
    load_data_set,
    scores_on_test_rows,
    soft_vote,
    split_rows,
)
from _quick import note_figure, parse_with_quick
from _records import ANY, Key, Records
from _side_by_side import run_and_print
from _today import (
    Buckets,
    Head,
    ProbableHead,
    Sums,
    Weights,
    afl_message,
    dense_like,
    draw_rows,
    fedcgs,
    fedcof,
    fedfisher_diagonal,
    fedfisher_kfac,
    fisher_diagonal,
    fisher_mix,
    gh_closed,
    kfac,
    layer_inputs_and_logits,
    mean_weights,
    merge_by_afl,
    one_hot,
    proto_hyper,
    ridge_of_sums,
    with_one,
)
from sklearn.base import ClassifierMixin
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, combine
from skgems.steps import RandomFeatures

FEATURES = ("raw", "fourier")
SETS = ("digits", "wine", "breast_cancer", "penbased", "led7digit", "movement_libras")
DEFAULT_PARTITIONS = ("disjoint-2", "disjoint-5", "dir0.1-5", "homog-5")
# What each client of AFL adds to its Gram matrix; the server takes it out again, in
# "AFL, ridge kept" but for one of them.
GAMMA = 1.0
# Of the nodes' networks. Rate and damping (of a row, in FedFisher) were chosen at seed
# 100 of digits and penbased, so that no test row of the tables was read for it.
N_UNITS = 50  # of the one hidden layer
N_EPOCHS = 30  # of Adam
LEARNING_RATE = 1e-3
DAMPING = 1e-3  # of a row
# Rows drawn of a class by GH-OFL, to save time; its authors draw 20,000.
N_DRAWS = 2000


def as_features(split: Split, features: str) -> Split:
    """The split's columns, or Fourier features of them, of unit variance."""
    if features == "raw":
        return split
    fourier = RandomFeatures(500, passthrough=False, random_state=0).fit(split.X)
    scaler = StandardScaler().fit(fourier.transform(split.X))
    return split._replace(
        X=scaler.transform(fourier.transform(split.X)),
        X_test=scaler.transform(fourier.transform(split.X_test)),
    )


# What several methods need, made once ------------------------------------------------


@dataclass(kw_only=True)
class Cell(Federation):
    """Rows dealt to nodes, and what several methods need of them, made once."""

    # Seconds that each of the cached properties below took.
    seconds_of: dict[str, float] = field(default_factory=dict)

    def _timed(self, stage: str, make: Callable):
        start = perf_counter()
        product = make()
        self.seconds_of[stage] = perf_counter() - start
        return product

    @cached_property
    def classes(self) -> np.ndarray:
        """Sorted labels."""
        return np.unique(self.y)

    @cached_property
    def rows(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Features and labels of each node."""
        masks = [self.nodes == node for node in range(self.nodes.max() + 1)]
        return [(self.X[mask], self.y[mask]) for mask in masks]

    @cached_property
    def counts(self) -> list[int]:
        """Rows of each node."""
        return [len(y) for _, y in self.rows]

    @cached_property
    def local_models(self) -> list[ClassifierMixin]:
        """A linear model of each node."""
        return self._timed(
            "local models",
            lambda: fit_one_a_node([LOGISTIC], self.X, self.y, self.nodes),
        )

    @cached_property
    def sums(self) -> Sums:
        """Of all nodes, added up."""
        return self._timed(
            "sums",
            lambda: Sums.total(
                [Sums.of_rows(X, y, self.classes) for X, y in self.rows]
            ),
        )

    def train_network(self, X: np.ndarray, y: np.ndarray) -> Weights:
        """A network of one hidden layer, from the start that all nodes have."""
        layers = tune(
            random_layers((X.shape[1], N_UNITS, len(self.classes)), self.seed),
            X,
            y,
            self.classes,
            epochs=N_EPOCHS,
            learning_rate=LEARNING_RATE,
            random_state=self.seed,
        )
        return [np.vstack([W, b]).astype(float) for W, b in layers]

    @cached_property
    def networks(self) -> list[Weights]:
        """A network of each node, all begun alike."""
        return self._timed(
            "networks", lambda: [self.train_network(X, y) for X, y in self.rows]
        )

    def n_numbers(self, kind: str) -> int:
        """How many numbers of sums a node sends; half of a symmetric matrix."""
        d = self.X.shape[1]
        n_classes = len(self.classes)
        n_of_matrix = d * (d + 1) // 2
        n_beside_means = {
            "shared": n_of_matrix,
            "class": n_classes * n_of_matrix,
            "diagonal": n_classes * d,
            "mean": 0,
        }
        return n_classes * (d + 1) + n_beside_means[kind]


# Methods: function(cell) -> Outcome --------------------------------------------------


class Outcome(NamedTuple):
    """What a method made of a cell."""

    model: ClassifierMixin | Head
    n_numbers: float | None  # sent by a node; None where rows are in one place
    stages: tuple[str, ...] = ()  # of `Cell.seconds_of` that the method needs


def network_head(weights: Weights, classes: np.ndarray) -> ProbableHead:
    """A network as a classifier."""
    return ProbableHead(lambda X: layer_inputs_and_logits(weights, X)[-1], classes)


def size_of(weights: Weights) -> int:
    """Numbers in a network."""
    return sum(V.size for V in weights)


def run_pooled(cell: Cell) -> Outcome:
    """Logistic regression on all rows in one place."""
    return Outcome(fit_pooled(cell), None)


def run_pooled_network(cell: Cell) -> Outcome:
    """A network of all rows in one place."""
    weights = cell.train_network(cell.X, cell.y)
    return Outcome(network_head(weights, cell.classes), None)


def run_ours(cell: Cell) -> Outcome:
    """One message of each node, as a file."""
    aggregator = GEMSLogisticAggregator(random_state=cell.seed)
    summaries = [
        aggregator.summarize(model, X, y, name=str(k), disclosure=None, space=False)
        for k, (model, (X, y)) in enumerate(
            zip(cell.local_models, cell.rows, strict=True)
        )
    ]
    n_bytes = np.mean([len(summary.message.to_bytes()) for summary in summaries])
    aggregator.set_params(estimators=summaries).fit()
    return Outcome(aggregator, n_bytes / 8, ("local models",))


def run_combine(cell: Cell, budget: str) -> Outcome:
    """The one call; all that it tried is sent."""
    chosen = combine(
        None, cell.X, cell.y, cell.nodes, budget=budget, random_state=cell.seed
    )
    n_bytes = sum(candidate["bytes"] or 0 for candidate in chosen.choice_.table)
    return Outcome(chosen, n_bytes / 8 / len(cell.rows))


def run_on_models(cell: Cell, merge: Callable) -> Outcome:
    """Averaged weights, or a vote."""
    return Outcome(merge(cell), cell.n_numbers("mean"), ("local models",))


def run_afl(cell: Cell, keep: float) -> Outcome:
    """AFL, with a constant column, which the paper's program has not."""
    messages = [
        afl_message(with_one(X), one_hot(y, cell.classes), GAMMA) for X, y in cell.rows
    ]
    W, _ = merge_by_afl(messages, GAMMA, keep=keep)
    d = cell.X.shape[1]
    n_numbers = (d + 1) * (d + 2) // 2 + (d + 1) * len(cell.classes)
    return Outcome(Head(lambda X: with_one(X) @ W, cell.classes), n_numbers)


def run_safle(cell: Cell) -> Outcome:
    """SAFLe-like; sums in place of AFL's law, which give the same weights."""
    buckets = Buckets(cell.X.shape[1])
    gram = 0.0
    moment = 0.0
    for X, y in cell.rows:
        Z = buckets.transform(X)
        gram = gram + Z.T @ Z
        moment = moment + Z.T @ one_hot(y, cell.classes)
    W = ridge_of_sums(gram, moment, GAMMA)
    d = buckets.n_columns_out
    n_numbers = d * (d + 1) // 2 + d * len(cell.classes)
    return Outcome(Head(lambda X: buckets.transform(X) @ W, cell.classes), n_numbers)


def run_fedcgs(cell: Cell, about: str) -> Outcome:
    """FedCGS."""
    head = fedcgs(cell.sums, cell.classes, about)
    return Outcome(head, cell.n_numbers("shared"), ("sums",))


def run_fedcof(cell: Cell) -> Outcome:
    """FedCOF, with a constant column, which the paper's program has not."""
    of_nodes = [Sums.of_rows(with_one(X), y, cell.classes) for X, y in cell.rows]
    scores = fedcof(of_nodes, cell.classes).scores
    head = Head(lambda X: scores(with_one(X)), cell.classes)
    return Outcome(head, cell.n_numbers("mean"))


def run_gh_closed(cell: Cell, kind: str) -> Outcome:
    """GH-OFL's heads in closed form."""
    head = gh_closed(cell.sums, cell.classes, kind)
    return Outcome(head, cell.n_numbers(kind), ("sums",))


def run_fisher_mix(cell: Cell, kind: str) -> Outcome:
    """GH-OFL's FisherMix."""
    drawn = draw_rows(cell.sums, kind, n_draws=N_DRAWS, seed=cell.seed)
    head = fisher_mix(drawn, cell.classes, seed=cell.seed)
    return Outcome(head, cell.n_numbers(kind), ("sums",))


def run_proto_hyper(cell: Cell, kind: str) -> Outcome:
    """GH-OFL's Proto-Hyper."""
    drawn = draw_rows(cell.sums, kind, n_draws=N_DRAWS, seed=cell.seed)
    head = proto_hyper(
        drawn, cell.classes, priors=cell.sums.priors, kind=kind, seed=cell.seed
    )
    return Outcome(head, cell.n_numbers(kind), ("sums",))


def run_network_mean(cell: Cell) -> Outcome:
    """The mean of the nodes' networks, weighted by rows."""
    weights = mean_weights(cell.networks, cell.counts)
    head = network_head(weights, cell.classes)
    return Outcome(head, size_of(weights), ("networks",))


def run_fedfisher_kfac(cell: Cell) -> Outcome:
    """FedFisher with K-FAC, held to the mean by the damping of all rows."""
    factors = [
        kfac(weights, X)
        for weights, (X, _) in zip(cell.networks, cell.rows, strict=True)
    ]
    weights = fedfisher_kfac(
        cell.networks, factors, cell.counts, damping=DAMPING * len(cell.y)
    )
    n_of_factors = 0
    for A, G in factors[0]:
        n_of_factors += len(A) * (len(A) + 1) // 2 + len(G) * (len(G) + 1) // 2
    head = network_head(weights, cell.classes)
    return Outcome(head, size_of(weights) + n_of_factors, ("networks",))


def run_fedfisher_diagonal(cell: Cell) -> Outcome:
    """FedFisher with the diagonal alone."""
    diagonals = [
        fisher_diagonal(weights, X)
        for weights, (X, _) in zip(cell.networks, cell.rows, strict=True)
    ]
    weights = fedfisher_diagonal(cell.networks, diagonals, cell.counts)
    head = network_head(weights, cell.classes)
    return Outcome(head, 2 * size_of(weights), ("networks",))


def run_dense(cell: Cell) -> Outcome:
    """DENSE-like."""
    weights, _ = dense_like(cell.networks, cell.counts, cell.seed)
    head = network_head(weights, cell.classes)
    return Outcome(head, size_of(weights), ("networks",))


OURS = "ours"
POOLED = "pooled"
METHODS: dict[str, Callable[[Cell], Outcome]] = {
    POOLED: run_pooled,
    OURS: run_ours,
    "combine": partial(run_combine, budget="fast"),
    "combine, small": partial(run_combine, budget="small"),
    "averaging": partial(run_on_models, merge=average_weights),
    "soft vote": partial(run_on_models, merge=soft_vote),
    "AFL": partial(run_afl, keep=0.0),
    "AFL, ridge kept": partial(run_afl, keep=GAMMA),
    "SAFLe-like": run_safle,
    "FedCGS": partial(run_fedcgs, about="class"),
    "FedCGS, about all": partial(run_fedcgs, about="all"),
    "FedCOF": run_fedcof,
    "GH-NB diagonal": partial(run_gh_closed, kind="diagonal"),
    "GH-LDA shared": partial(run_gh_closed, kind="shared"),
    "GH-QDA class": partial(run_gh_closed, kind="class"),
    "FisherMix diagonal": partial(run_fisher_mix, kind="diagonal"),
    "FisherMix shared": partial(run_fisher_mix, kind="shared"),
    "FisherMix class": partial(run_fisher_mix, kind="class"),
    "Proto-Hyper shared": partial(run_proto_hyper, kind="shared"),
    "Proto-Hyper class": partial(run_proto_hyper, kind="class"),
    "network, pooled": run_pooled_network,
    "network, mean": run_network_mean,
    "FedFisher diagonal": run_fedfisher_diagonal,
    "FedFisher K-FAC": run_fedfisher_kfac,
    "DENSE-like": run_dense,
}
# Made of all rows, or of sums of them: the same for every partition.
NOT_OF_PARTITION = {POOLED, "network, pooled", "AFL", "AFL, ridge kept", "SAFLe-like"}
NOT_OF_PARTITION |= {
    name
    for name in METHODS
    if name.startswith(("FedCGS", "GH-", "FisherMix", "Proto-Hyper"))
}
# Its candidates make features of their own.
OF_RAW_COLUMNS = ("combine", "combine, small")


# Cells -------------------------------------------------------------------------------


class Place(NamedTuple):
    """One data set, split once, with one kind of columns and one partition."""

    data_set: str
    n_train: int
    seed: int
    partition: str
    features: str


def key_of(place: Place, method: str) -> Key:
    """What is made of sums, or of all rows, is run once."""
    return Key(
        data=place.data_set,
        n_train=place.n_train,
        seed=place.seed,
        partition=ANY if method in NOT_OF_PARTITION else place.partition,
        kind=place.features,
        method=method,
    )


def cells_of(options: Namespace) -> Iterator[tuple[Place, Split, Cell]]:
    """The cells asked for, with their rows."""
    for data_set in options.data_sets:
        X, y = load_data_set(data_set, options)
        for seed in range(options.seeds):
            raw_split = split_rows(
                X, y, seed, max_rows=options.max_rows, standardize=data_set != MNIST
            )
            for features in options.features:
                split = as_features(raw_split, features)
                for partition in options.partitions:
                    try:
                        nodes = assign_nodes(partition, split.y, seed)
                    except ValueError:  # too few rows, or classes
                        continue
                    place = Place(data_set, len(split.y), seed, partition, features)
                    cell = Cell(X=split.X, y=split.y, nodes=nodes, seed=seed)
                    yield place, split, cell


def measure(method: str, cell: Cell, split: Split) -> dict:
    """Fit and judge one method."""
    start = perf_counter()
    seconds_before = dict(cell.seconds_of)
    outcome = METHODS[method](cell)
    seconds = perf_counter() - start
    # Models and sums of nodes are made once, and count for all that need them.
    seconds += sum(seconds_before.get(stage, 0.0) for stage in outcome.stages)
    scores = scores_on_test_rows(outcome.model, split)
    n_numbers = outcome.n_numbers
    return {
        **scores,
        "bytes": None if n_numbers is None else round(8 * n_numbers),
        "seconds": round(seconds, 4),
        "n_test": len(split.y_test),
    }


def run_cells(records: Records, options: Namespace) -> list[Place]:
    """Run what is missing of the cells asked for; returns these."""

    def print_if_verbose(scores: dict, key: Key) -> None:
        if options.verbose:
            print(" ".join(str(part) for part in key), scores, flush=True)

    places = []
    for place, split, cell in cells_of(options):
        places.append(place)
        for method in options.methods:
            if method in OF_RAW_COLUMNS and place.features != "raw":
                continue
            key = key_of(place, method)
            records.measure_once(
                key,
                partial(measure, method, cell, split),
                on_success=partial(print_if_verbose, key=key),
                on_failure=lambda _: None,
            )
    return places


# Tables ------------------------------------------------------------------------------


class Means(NamedTuple):
    """A method in one data set and partition, means of the seeds."""

    points: float  # of accuracy below the pooled model
    log_loss: float
    n_bytes: float
    seconds: float


MeansOfCells = dict[tuple[str, str], Means]  # by data set and partition


def means_by_cell(
    records: Records, places: list[Place], *, method: str, features: str
) -> MeansOfCells:
    """A method beside the pooled model, where both have been run."""
    rows_of_cell: dict[tuple[str, str], list[list]] = defaultdict(list)
    for place in places:
        scores = records.get(key_of(place, method))
        pooled = records.get(key_of(place, POOLED))
        if place.features != features or scores is None or pooled is None:
            continue
        rows_of_cell[place.data_set, place.partition].append(
            [
                100 * (pooled["accuracy"] - scores["accuracy"]),
                scores["log_loss"],
                scores["bytes"],
                scores["seconds"],
            ]
        )
    # None, of methods without probabilities or bytes, becomes nan.
    return {
        cell: Means._make(np.mean(np.array(rows, dtype=float), axis=0))
        for cell, rows in rows_of_cell.items()
    }


def print_methods(means_of: dict[str, MeansOfCells]) -> None:
    """A line a method: means of its cells, and how many are above or below ours."""
    print(
        "cells run; points of accuracy below pooled, mean and worst cell; log-loss; kB"
    )
    print(
        "from a node; seconds; cells half a point or more above ours, and so far below;"
    )
    print("the cell that is most above")
    heads = "cells mean worst loss kB s above below".split()
    print(" " * 20 + "".join(f"{head:>8}" for head in heads))
    for method, means in means_of.items():
        if not means:
            continue
        table = np.array(list(means.values()))  # (n_cells, 4)
        points, loss, n_bytes, seconds = table.mean(axis=0)
        note_figure(f"{method}, points", points)
        lead_on_ours = {
            cell: means_of[OURS][cell].points - mean.points
            for cell, mean in means.items()
        }
        n_above = sum(lead >= 0.5 for lead in lead_on_ours.values())
        n_below = sum(lead <= -0.5 for lead in lead_on_ours.values())
        most = ""
        if n_above:
            best = max(lead_on_ours, key=lead_on_ours.get)
            most = f"  {lead_on_ours[best]:.1f} in {', '.join(best)}"
        print(
            f"{method:20}{len(means):8}{points:8.1f}{table[:, 0].max():8.1f}{loss:8.2f}"
            f"{n_bytes / 1000:8.0f}{seconds:8.2f}{n_above:8}{n_below:8}{most}"
        )


def print_points_by(
    means_of: dict[str, MeansOfCells], title: str, name_of: Callable[[tuple], str]
) -> None:
    """Mean points of each method by data set, or by partition."""
    names = list(
        dict.fromkeys(name_of(cell) for means in means_of.values() for cell in means)
    )
    print(f"\n{title}")
    print(" " * 20 + "".join(f"{name[:11]:>12}" for name in names))
    for method, means in means_of.items():
        if not means:
            continue
        line = ""
        for name in names:
            points = [
                mean.points for cell, mean in means.items() if name_of(cell) == name
            ]
            line += f"{np.mean(points):12.1f}" if points else f"{'-':>12}"
        print(f"{method:20}{line}")


def print_tables(records: Records, places: list[Place], options: Namespace) -> None:
    """Three tables of each kind of columns; a cell is the mean of its seeds."""
    for features in options.features:
        means_of = {
            method: means_by_cell(records, places, method=method, features=features)
            for method in options.methods
        }
        n_cells = max(len(means) for means in means_of.values())
        print(f"\n{features}: {n_cells} cells, means of {options.seeds} seeds")
        print_methods(means_of)
        print_points_by(
            means_of, f"{features}, mean points by data set", lambda cell: cell[0]
        )
        print_points_by(
            means_of, f"{features}, mean points by partition", lambda cell: cell[1]
        )


def parse_options(arguments: list[str] | None = None) -> Namespace:
    """Options, with what was not given filled in."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data_options(parser)
    parser.add_argument("--records", help="file of results, read and appended to")
    parser.add_argument("--max-rows", type=int, default=2000, help="to train on")
    parser.add_argument(
        "--data-sets", nargs="+", choices=[*BUNDLED, *TABULAR, MNIST], default=None
    )
    parser.add_argument("--features", nargs="+", choices=FEATURES, default=FEATURES)
    parser.add_argument(
        "--partitions", nargs="+", choices=PARTITIONS, default=DEFAULT_PARTITIONS
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS)
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0")
    parser.add_argument("--verbose", action="store_true")
    options = parse_with_quick(
        parser,
        arguments,
        quick={
            "data_sets": ["digits", "wine"],
            "features": ["raw"],
            "partitions": ["disjoint-2", "homog-5"],
            "seeds": 1,
        },
    )
    if options.methods is None:
        options.methods = [name for name in METHODS if name not in OF_RAW_COLUMNS]
    # All is compared with these two.
    options.methods = list(dict.fromkeys([POOLED, OURS, *options.methods]))
    if options.data_sets is None:
        options.data_sets = [s for s in SETS if s in BUNDLED or options.tabular]
        options.data_sets += [MNIST] if options.mnist else []
    return options


def main() -> None:
    """Run what is missing and print the tables."""
    run_and_print(parse_options(), run_cells, print_tables)


if __name__ == "__main__":
    main()
