# SPDX-License-Identifier: BSD-3-Clause
"""Linear models merged in one message: how far below the model fitted on all rows.

Points of test accuracy and nats of log-loss between LogisticRegression on all training
rows in one place ("pooled") and what is made of the nodes' models, over data sets x
partitions x seeds. Beside the library's ways: averages, votes, pooled LDA (which is
the same as LDA from sums) and ridge, averaging over rounds, 100 public rows alone.

Of a data set 30 % are test rows, at most 5,000, split by label; at most ``--max-rows``
of the rest train (20,000 unless told, which cuts only MNIST: 50000 takes what the
other benchmarks do). MNIST's rows, test rows too, come from its 60,000 training rows.
Features are standardised on the training rows of all nodes, but for MNIST, whose pixels
stay in [0, 1], and for "texts": documents of made-up words, hashed to 1,024 sparse
features.

Other kinds of nodes (``--kinds``) are compared with logistic ones, and with the pooled
model of their own kind: LogisticRegression with C=0.1 and C=10 among them, since the
aggregate should be penalised as the nodes' models are.

With ``--records`` results are kept, one line of JSON each, and what is found there is
not run again; the tables are of the cells asked for, however many runs made them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
from _protocol import DATA_VARIABLE, load_mnist
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
)
from skgems.datasets import (
    hold_out_public,
    partition_by_label,
    partition_dirichlet,
    partition_homogeneous,
)

TABULAR_VARIABLE = "SKGEMS_TABULAR"
BUNDLED = {
    "digits": load_digits,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "iris": load_iris,
}
TABULAR = ("penbased", "spambase", "magic", "led7digit", "movement_libras")
MNIST = "mnist"
TEXTS = "texts"
# Which come as they are: pixels, and sparse counts.
UNSCALED = (MNIST, TEXTS)
KIND_SETS = ("digits", "penbased", "spambase", TEXTS)
N_TEST = 5000
N_PUBLIC = 100
MIN_ROWS = 3
ANY = "any"


# What nodes fit ----------------------------------------------------------------------

LOGISTIC = LogisticRegression(max_iter=1000)
SGD = SGDClassifier(loss="log_loss", random_state=0)
SVC = LinearSVC(random_state=0)
RIDGE = RidgeClassifier()
KINDS = {
    "logistic": [LOGISTIC],
    "C=0.1": [LogisticRegression(C=0.1, max_iter=1000)],
    "C=10": [LogisticRegression(C=10, max_iter=1000)],
    "sgd": [SGD],
    "svc": [SVC],
    "ridge": [RIDGE],
    "mixed": [LOGISTIC, SGD, SVC, RIDGE],
}


def fit_locals(kind: str, X: np.ndarray, y: np.ndarray, nodes: np.ndarray) -> list:
    """One classifier a node, in turn of the kind's; of one class a constant one."""
    models = []
    for node in range(nodes.max() + 1):
        own = nodes == node
        model = clone(KINDS[kind][node % len(KINDS[kind])])
        if len(np.unique(y[own])) == 1:
            model = DummyClassifier()
        models.append(model.fit(X[own], y[own]))
    return models


# How rows are dealt ------------------------------------------------------------------


def crowd(y: np.ndarray, seed: int) -> np.ndarray:
    """One group of classes over 8 nodes, two others (of two classes: one) at 2."""
    groups = [group.tolist() for group in np.array_split(np.unique(y), 3)]
    first, *others = [group for group in groups if group]
    if len(others) == 1:
        others *= 2
    return partition_by_label(y, [first] * 8 + others, random_state=seed)


def disjoint(y: np.ndarray, seed: int, *, K: int) -> np.ndarray:
    """Runs of the sorted labels."""
    return partition_by_label(y, K, random_state=seed)


def dirichlet(y: np.ndarray, seed: int, *, K: int, alpha: float) -> np.ndarray:
    """Redrawn until every node has a few rows."""
    return partition_dirichlet(
        y, K, alpha=alpha, min_size=MIN_ROWS, max_tries=20_000, random_state=seed
    )


def homogeneous(y: np.ndarray, seed: int, *, K: int) -> np.ndarray:
    """Every node sees the same."""
    return partition_homogeneous(y, K, random_state=seed)


PARTITIONS: dict[str, Callable] = {
    "disjoint-2": partial(disjoint, K=2),
    "disjoint-3": partial(disjoint, K=3),
    "disjoint-5": partial(disjoint, K=5),
    "dir0.1-5": partial(dirichlet, K=5, alpha=0.1),
    "dir0.1-20": partial(dirichlet, K=20, alpha=0.1),
    "dir0.5-5": partial(dirichlet, K=5, alpha=0.5),
    "dir0.5-20": partial(dirichlet, K=20, alpha=0.5),
    "homog-5": partial(homogeneous, K=5),
    "homog-20": partial(homogeneous, K=20),
    "crowd": crowd,
}


def deal(partition: str, y: np.ndarray, seed: int) -> np.ndarray:
    """The node of every row; ValueError where there are too few rows or classes."""
    nodes = PARTITIONS[partition](y, seed)
    if np.bincount(nodes).min() < MIN_ROWS:
        raise ValueError(f"a node has fewer than {MIN_ROWS} rows")
    return nodes


# How one model is made: function(locals, X, y, nodes, seed) -> fitted classifier -----


def pooled(_locals, X, y, nodes, seed):
    """All rows in one place: the mark."""
    return clone(LOGISTIC).fit(X, y)


def pooled_kind(_locals, X, y, nodes, seed, *, kind):
    """All rows in one place, and the classifier that the nodes fit (the first)."""
    return clone(KINDS[kind][0]).fit(X, y)


def lda(_locals, X, y, nodes, seed):
    """The same as LDA made of the nodes' sums."""
    return LinearDiscriminantAnalysis().fit(X.toarray() if issparse(X) else X, y)


def ridge(_locals, X, y, nodes, seed):
    """The same as ridge made of the nodes' sums."""
    return clone(RIDGE).fit(X, y)


def public_rows(_locals, X, y, nodes, seed):
    """What the server could fit by itself on a few rows."""
    size = min(N_PUBLIC, len(y) // 2)
    public = hold_out_public(np.zeros(len(y), dtype=int), size, y=y, random_state=seed)
    return clone(LOGISTIC).fit(X[public == -1], y[public == -1])


def fedavg(_locals, X, y, nodes, seed, n_rounds=5):
    """Rounds of averaging, weighted by rows.

    SGD trains all outputs at every node, which LogisticRegression cannot where a node
    lacks classes.
    """
    return ModelAveragingAggregator(
        [SGD] * (nodes.max() + 1),
        n_rounds=n_rounds,
        weights="n_samples",
        random_state=seed,
    ).fit(X, y, nodes=nodes)


def averaging(locals_, X, y, nodes, seed):
    """The mean of the nodes' weights."""
    return ModelAveragingAggregator(locals_).fit()


def soft_vote(locals_, X, y, nodes, seed):
    """The mean of the nodes' probabilities."""
    return EnsembleAggregator(locals_, random_state=seed).fit()


def gems(locals_, X, y, nodes, seed, **params):
    """A point in the intersection of the nodes' spaces."""
    return GEMSLogisticAggregator(locals_, random_state=seed, **params).fit(
        X, y, nodes=nodes
    )


METHODS: dict[str, Callable] = {
    "pooled": pooled,
    "averaging": averaging,
    "soft_vote": soft_vote,
    "lda": lda,
    "ridge": ridge,
    "gram": partial(gems, geometry="gram", intersection="consensus"),
    "fedavg": fedavg,
    "public_rows": public_rows,
}
METHODS |= {
    f"likelihood_{moments}": partial(gems, intersection="likelihood", moments=moments)
    for moments in ("auto", "class", "shared", "diagonal")
}
# After so many messages, and averaging in as many rounds; eight messages with four
# models each are 32 of its rounds.
METHODS |= {f"messages_{n}": partial(gems, n_rounds=n) for n in (3, 5, 8)}
METHODS |= {f"fedavg_{n}": partial(fedavg, n_rounds=n) for n in (8, 32)}
# The mark of nodes of a kind, which depends on the kind but not on the partition.
POOLED_KIND = "pooled_kind"
# Same for every partition; same whatever the nodes fitted.
OF_ROWS = {"pooled", "lda", "ridge", "public_rows"}
NOT_OF_MODELS = OF_ROWS | {name for name in METHODS if name.startswith("fedavg")}
# A method should not be below these by more points than that.
MARKS = {"averaging": 0.7, "soft_vote": 0.7, "lda": 1.0}


# Data --------------------------------------------------------------------------------


class Split(NamedTuple):
    """Training rows of all nodes, and the rows that accuracy is read on."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @classmethod
    def of(cls, X, y, seed: int, *, max_rows: int, scale: bool) -> Split:
        """Split by label; standardised on the training rows."""
        n_test = min(round(0.3 * len(y)), N_TEST)
        n_train = min(len(y) - n_test, max_rows)
        X, X_test, y, y_test = train_test_split(
            X, y, train_size=n_train, test_size=n_test, stratify=y, random_state=seed
        )
        if scale:
            scaler = StandardScaler().fit(X)
            X, X_test = scaler.transform(X), scaler.transform(X_test)
        return cls(X, y, X_test, y_test)


def make_texts(n_rows: int = 1000) -> tuple:
    """Documents of 26 words, six of them of their topic, hashed; and the topics."""
    words = np.array([f"w{i}" for i in range(800)])
    topics = np.split(words[:180], 3)
    rng = np.random.default_rng(0)
    y = rng.choice(len(topics), n_rows, p=[0.5, 0.35, 0.15])
    documents = [
        " ".join([*rng.choice(topics[topic], 6), *rng.choice(words, 20)]) for topic in y
    ]
    return HashingVectorizer(n_features=1024).transform(documents), y


def load(name: str, options) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of a data set."""
    if name in BUNDLED:
        return BUNDLED[name](return_X_y=True)
    if name == TEXTS:
        return make_texts()
    if name == MNIST:
        return load_mnist(options.mnist)
    path, prefix = options.data, ""
    if name in TABULAR:
        path, prefix = options.tabular, f"{name}_"
    if path is None:
        sys.exit(f"{name}: give --tabular or set {TABULAR_VARIABLE}")
    with np.load(path) as arrays:
        return arrays[f"{prefix}X"].astype(np.float64), arrays[f"{prefix}y"]


# Records -----------------------------------------------------------------------------


class Key(NamedTuple):
    """What a record is about."""

    data: str
    n_train: int
    seed: int
    partition: str
    kind: str
    method: str

    @classmethod
    def of(cls, cell: Cell, method: str) -> Key:
        """What does not depend on partition or kind is run, and kept, once."""
        return cls(
            cell.data,
            cell.n_train,
            cell.seed,
            ANY if method in OF_ROWS | {POOLED_KIND} else cell.partition,
            ANY if method in NOT_OF_MODELS else cell.kind,
            method,
        )


class Cell(NamedTuple):
    """One data set, dealt once, with one kind of node."""

    data: str
    n_train: int
    seed: int
    partition: str
    kind: str


class Records:
    """Results by key, also appended to a file of one JSON object a line."""

    def __init__(self, path: str | None):
        self.path = path
        self.of: dict[Key, dict] = {}
        if path is None or not Path(path).exists():
            return
        *lines, cut_off = Path(path).read_text().split("\n")
        for line in lines:
            self._keep(json.loads(line))
        if cut_off:
            # A run was stopped while it wrote.
            Path(path).write_text("".join(f"{line}\n" for line in lines))

    def _keep(self, record: dict) -> None:
        self.of[Key(*(record[field] for field in Key._fields))] = record

    def add(self, key: Key, result: dict) -> None:
        """Keep a result, and write it."""
        record = key._asdict() | result
        self._keep(record)
        if self.path is not None:
            with open(self.path, "a") as file:
                file.write(json.dumps(record) + "\n")


def log_loss(model, X, y, classes) -> float | None:
    """Mean log-loss, None without probabilities; a class unknown has none."""
    if not hasattr(model, "predict_proba"):
        return None
    P = np.zeros((len(y), len(classes)))
    P[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(X)
    own = P[np.arange(len(y)), np.searchsorted(classes, y)]
    return float(-np.log(np.maximum(own, 1e-15)).mean())


class Dealt:
    """The rows of a cell, with local models that are fitted once, if at all."""

    def __init__(self, split: Split, cell: Cell, nodes: np.ndarray):
        self.split, self.cell, self.nodes = split, cell, nodes

    @cached_property
    def locals_(self) -> list:
        """Fitted local models."""
        return fit_locals(self.cell.kind, self.split.X, self.split.y, self.nodes)

    def run(self, method: str) -> dict:
        """Fit and judge one method."""
        X, y, X_test, y_test = self.split
        of_rows = method in NOT_OF_MODELS | {POOLED_KIND}
        locals_ = None if of_rows else self.locals_
        make = METHODS.get(method) or partial(pooled_kind, kind=self.cell.kind)
        start = perf_counter()
        model = make(locals_, X, y, self.nodes, self.cell.seed)
        seconds = perf_counter() - start
        return {
            "accuracy": float(np.mean(model.predict(X_test) == y_test)),
            "log_loss": log_loss(model, X_test, y_test, np.unique(y)),
            "seconds": round(seconds, 4),
            "n_test": len(y_test),
        }


def run_cells(records: Records, options) -> tuple[list[Cell], list[str]]:
    """Run what is missing of the cells asked for; also what failed, in words."""
    cells, failed = [], []

    def say(*words):
        if options.verbose:
            print(*words, flush=True)

    for data in options.data_sets:
        X, y = load(data, options)
        kinds = [
            k for k in options.kinds if k == "logistic" or data in options.kind_sets
        ]
        for seed in options.seeds:
            scale = data not in UNSCALED
            split = Split.of(X, y, seed, max_rows=options.max_rows, scale=scale)
            for partition in options.partitions:
                try:
                    nodes = deal(partition, split.y, seed)
                except ValueError as error:
                    say(data, seed, partition, f"left out: {error}")
                    continue
                for kind in kinds:
                    cell = Cell(data, len(split.y), seed, partition, kind)
                    cells.append(cell)
                    dealt = Dealt(split, cell, nodes)
                    marks = [] if kind == "logistic" else [POOLED_KIND]
                    for method in [*marks, *options.methods]:
                        key = Key.of(cell, method)
                        if key in records.of:
                            continue
                        try:
                            result = dealt.run(method)
                        # One method's failure must not cost the others' records.
                        except Exception as error:
                            words = f"{type(error).__name__}: {error}"
                            failed.append(f"{' '.join(map(str, key))}: {words}"[:300])
                            say("FAILED", failed[-1])
                            continue
                        records.add(key, result)
                        say(
                            f"{data} seed {seed} {partition} {kind} {method}: "
                            f"{result['accuracy']:.4f} in {result['seconds']:.2f} s"
                        )
    return cells, failed


# Tables ------------------------------------------------------------------------------


class Gap(NamedTuple):
    """How a method does in one cell, means of the seeds."""

    data: str
    partition: str
    accuracy: float
    points: float  # of accuracy below pooled
    nats: float  # of log-loss above pooled; nan without probabilities
    seconds: float
    n_test: int


def gaps(
    records: Records, cells: list[Cell], method: str, kind: str, mark_of: str = "pooled"
) -> list[Gap]:
    """A method beside pooled, where both have been run."""
    found: dict[tuple, list] = {}
    for cell in cells:
        if cell.kind != kind:
            continue
        own = records.of.get(Key.of(cell, method))
        mark = records.of.get(Key.of(cell, mark_of))
        if own is None or mark is None:
            continue
        nats = [np.nan if r["log_loss"] is None else r["log_loss"] for r in (own, mark)]
        found.setdefault((cell.data, cell.partition), []).append(
            (
                own["accuracy"],
                100 * (mark["accuracy"] - own["accuracy"]),
                nats[0] - nats[1],
                own["seconds"],
                own["n_test"],
            )
        )
    return [Gap(*cell, *np.mean(rows, axis=0)) for cell, rows in found.items()]


def print_by_partition(title: str, table: dict[str, list[Gap]], field: str, digits=1):
    """Mean / worst cell of each method, by partition and over all."""
    partitions = [
        p
        for p in PARTITIONS
        if any(g.partition == p for rows in table.values() for g in rows)
    ]
    print(f"\n{title}")
    print(" " * 20 + "".join(f"{p:>14}" for p in [*partitions, "all"]))
    for method, rows in table.items():
        line = ""
        for wanted in [*([p] for p in partitions), partitions]:
            values = [getattr(g, field) for g in rows if g.partition in wanted]
            values = [value for value in values if not np.isnan(value)]
            cell = "-"
            if values:
                cell = f"{np.mean(values):.{digits}f} / {np.max(values):.{digits}f}"
            line += f"{cell:>14}"
        print(f"{method:20}{line}")


def below(rows: list[Gap], marks: list[Gap], limit: float) -> Iterator[bool]:
    """Whether a method is below another by more than the limit or an error's size."""
    accuracy = {(g.data, g.partition): g.accuracy for g in marks}
    for g in rows:
        mark = accuracy.get((g.data, g.partition))
        if mark is not None:
            error = 100 * np.sqrt(mark * (1 - mark) / g.n_test)
            yield 100 * (mark - g.accuracy) > max(limit, error)


def print_marks(table: dict[str, list[Gap]], marks: dict[str, list[Gap]]) -> None:
    """In how many cells a method is below a simpler one, its worst cell, its time."""
    print("\nCells below a simpler method by more than given points, or one standard")
    print("error of the test rows where that is more; worst cell; mean seconds a fit")
    heads = "".join(f"{f'{mark} {MARKS[mark]}':>16}" for mark in MARKS)
    print(f"{'':20}{heads}{'seconds':>10}  worst cell")
    for method, rows in table.items():
        line = ""
        for mark, limit in MARKS.items():
            found = list(below(rows, marks[mark], limit))
            count = f"{sum(found)} of {len(found)}"
            line += f"{count:>16}"
        worst = max(rows, key=lambda g: g.points)
        seconds = np.mean([g.seconds for g in rows])
        print(f"{method:20}{line}{seconds:10.3f}  {worst.data}, {worst.partition}")


def print_kinds(records: Records, cells: list[Cell], options) -> None:
    """Mean accuracy with each kind of node, on the same cells as logistic ones."""
    methods = [m for m in options.methods if m not in NOT_OF_MODELS]
    print("\nMean accuracy by kind of node (minus logistic nodes, in points: mean /")
    print("worst cell)")
    print(" " * 20 + "".join(f"{kind:>28}" for kind in options.kinds))
    for method in methods:
        logistic = {
            (g.data, g.partition): g.accuracy
            for g in gaps(records, cells, method, "logistic")
            if g.data in options.kind_sets
        }
        if not logistic:
            continue
        line = ""
        for kind in options.kinds:
            rows = gaps(records, cells, method, kind)
            rows = [g for g in rows if (g.data, g.partition) in logistic]
            cell = "-"
            if rows:
                change = [
                    100 * (g.accuracy - logistic[g.data, g.partition]) for g in rows
                ]
                cell = (
                    f"{np.mean([g.accuracy for g in rows]):.4f} "
                    f"({np.mean(change):+.1f} / {np.min(change):+.1f})"
                )
            line += f"{cell:>28}"
        print(f"{method:20}{line}")


def print_kinds_below(
    records: Records, cells: list[Cell], options, title: str, field: str, digits: int
) -> None:
    """How far an aggregate of each kind is from the pooled model of that kind."""
    methods = [m for m in options.methods if m not in NOT_OF_MODELS]
    kinds = [kind for kind in options.kinds if kind not in ("logistic", "mixed")]
    print(f"\n{title} the pooled model of the nodes' kind, mean / worst")
    print(" " * 20 + "".join(f"{kind:>14}" for kind in kinds))
    for method in methods:
        line = ""
        for kind in kinds:
            rows = gaps(records, cells, method, kind, POOLED_KIND)
            values = [getattr(g, field) for g in rows]
            values = [value for value in values if not np.isnan(value)]
            cell = "-"
            if values:
                cell = f"{np.mean(values):.{digits}f} / {np.max(values):.{digits}f}"
            line += f"{cell:>14}"
        print(f"{method:20}{line}")


def print_tables(records: Records, cells: list[Cell], options) -> None:
    """Everything, of the cells asked for."""
    table = {m: gaps(records, cells, m, "logistic") for m in options.methods}
    marks = {m: gaps(records, cells, m, "logistic") for m in MARKS}
    n_cells = len({(c.data, c.partition) for c in cells})
    shown = {m: rows for m, rows in table.items() if rows and m != "pooled"}
    seeds = ", ".join(map(str, options.seeds))
    print(f"\n{n_cells} cells (means of seeds {seeds}), logistic nodes, mean / worst")
    print_by_partition("Points of accuracy below pooled", shown, "points")
    print_by_partition("Log-loss above pooled, nats", shown, "nats", digits=2)
    by_data = {
        m: {
            data: np.mean([g.points for g in rows if g.data == data] or [np.nan])
            for data in options.data_sets
        }
        for m, rows in shown.items()
    }
    print("\nPoints of accuracy below pooled by data set, mean")
    print(" " * 20 + "".join(f"{data[:14]:>16}" for data in options.data_sets))
    for method, means in by_data.items():
        print(f"{method:20}" + "".join(f"{value:16.1f}" for value in means.values()))
    print_marks(shown, marks)
    if len(options.kinds) > 1:
        print_kinds(records, cells, options)
        title, field = "Points of accuracy below", "points"
        print_kinds_below(records, cells, options, title, field, digits=1)
        title, field = "Log-loss in nats above", "nats"
        print_kinds_below(records, cells, options, title, field, digits=2)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Options, with what was not given filled in."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", help="file of results, read and appended to")
    parser.add_argument("--data", help="an npz with X and y, run in place of the sets")
    parser.add_argument("--tabular", default=os.environ.get(TABULAR_VARIABLE))
    parser.add_argument("--mnist", default=os.environ.get(DATA_VARIABLE))
    parser.add_argument("--max-rows", type=int, default=20_000, help="to train on")
    names = [*BUNDLED, TEXTS, *TABULAR, MNIST]
    parser.add_argument("--data-sets", nargs="+", choices=names)
    parser.add_argument(
        "--partitions", nargs="+", choices=PARTITIONS, default=[*PARTITIONS]
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[*METHODS])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument(
        "--kinds",
        nargs="*",
        choices=KINDS,
        default=["logistic"],
        help=f"of node, all if none is named; on {', '.join(KIND_SETS)} and --data",
    )
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(arguments)
    # Tables need the marks; other kinds are compared with logistic nodes.
    options.methods = list(dict.fromkeys(["pooled", *options.methods]))
    options.kinds = list(dict.fromkeys(["logistic", *(options.kinds or KINDS)]))
    options.kind_sets = KIND_SETS
    if options.data is not None:
        name = Path(options.data).stem
        options.data_sets = [*(options.data_sets or ()), name]
        options.kind_sets += (name,)
    elif options.data_sets is None:
        options.data_sets = [*BUNDLED, TEXTS]
        options.data_sets += TABULAR if options.tabular is not None else ()
        options.data_sets += [MNIST] if options.mnist is not None else []
    return options


def main() -> None:
    """Run what is missing and print the tables."""
    options = parse()
    warnings.simplefilter("ignore", UserWarning)
    records = Records(options.records)
    cells, failed = run_cells(records, options)
    print_tables(records, cells, options)
    if failed:
        print(f"\n{len(failed)} fits failed, the first: {failed[0]}")
        sys.exit(1)


if __name__ == "__main__":
    main()
