# SPDX-License-Identifier: BSD-3-Clause
"""Methods of other papers that need one message, beside ours, on the same columns.

Points of test accuracy below LogisticRegression, which has the same columns of all rows
in one place; log-loss, bytes from a node, and seconds of all nodes and the server. Over
data sets x partitions x seeds. Columns are the standardised ones ("raw"), or 500 common
Fourier features of them, standardised again ("fourier"). Splits, partitions and records
are those of `bench_pooled_gap.py`; the methods are in `_today.py`. What is made of sums
does not depend on the partition and is run on the first one only.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from functools import cached_property, partial
from time import perf_counter

import numpy as np
from _baselines import random_layers, tune
from _protocol import DATA_VARIABLE
from _today import (
    Buckets,
    Head,
    ProbableHead,
    Sums,
    Weights,
    afl,
    afl_message,
    dense_like,
    diagonal,
    draw,
    fedcgs,
    fedfisher_diagonal,
    fedfisher_kfac,
    fisher_mix,
    gh_closed,
    kfac,
    mean_weights,
    one_hot,
    outputs,
    proto_hyper,
    ridge_of_sums,
    with_one,
)
from bench_pooled_gap import (
    ANY,
    BUNDLED,
    MNIST,
    PARTITIONS,
    TABULAR,
    TABULAR_VARIABLE,
    Key,
    Records,
    Split,
    averaging,
    deal,
    fit_locals,
    load,
    log_loss,
    pooled,
    soft_vote,
)
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, combine
from skgems.steps import RandomFeatures

FEATURES = ("raw", "fourier")
SETS = ("digits", "wine", "breast_cancer", "penbased", "led7digit", "movement_libras")
DEALT = ("disjoint-2", "disjoint-5", "dir0.1-5", "homog-5")
GAMMA = 1.0
# Chosen at seed 100 of digits and penbased.
UNITS, EPOCHS, RATE, DAMPING = 50, 30, 1e-3, 1e-3
N_DRAWS = 2000


def as_features(split: Split, features: str) -> Split:
    """The split's columns, or Fourier features of them, of unit variance."""
    if features == "raw":
        return split
    front = RandomFeatures(500, passthrough=False, random_state=0).fit(split.X)
    scaler = StandardScaler().fit(front.transform(split.X))
    X, X_test = (scaler.transform(front.transform(Z)) for Z in (split.X, split.X_test))
    return split._replace(X=X, X_test=X_test)


class Cell:
    """Rows dealt to nodes, and what several methods need of them, made once."""

    def __init__(self, split: Split, nodes: np.ndarray, seed: int):
        self.X, self.y, *_ = split
        self.nodes, self.seed = nodes, seed
        self.classes = np.unique(self.y)
        self.spent: dict[str, float] = {}

    def _timed(self, what: str, make: Callable):
        start = perf_counter()
        found = make()
        self.spent[what] = perf_counter() - start
        return found

    @cached_property
    def rows(self) -> list[tuple]:
        """Of each node."""
        own = [self.nodes == node for node in range(self.nodes.max() + 1)]
        return [(self.X[rows], self.y[rows]) for rows in own]

    @cached_property
    def counts(self) -> list[int]:
        """Rows of each node."""
        return [len(y) for _, y in self.rows]

    @cached_property
    def locals_(self) -> list:
        """A linear model of each node."""
        make = partial(fit_locals, "logistic", self.X, self.y, self.nodes)
        return self._timed("locals_", make)

    @cached_property
    def sums(self) -> Sums:
        """Of all nodes, added up."""
        return self._timed(
            "sums",
            lambda: Sums.total([Sums.of(X, y, self.classes) for X, y in self.rows]),
        )

    def train(self, X, y) -> Weights:
        """A network of one hidden layer, from the start that all nodes have."""
        shape = (X.shape[1], UNITS, len(self.classes))
        layers = tune(
            random_layers(shape, self.seed),
            *(X, y, self.classes),
            epochs=EPOCHS,
            learning_rate=RATE,
            random_state=self.seed,
        )
        return [np.vstack([W, b]).astype(float) for W, b in layers]

    @cached_property
    def networks(self) -> list[Weights]:
        """A network of each node, all begun alike."""
        make = lambda: [self.train(X, y) for X, y in self.rows]  # noqa: E731
        return self._timed("networks", make)

    @property
    def shape(self) -> tuple[int, int]:
        """Columns and classes."""
        return self.X.shape[1], len(self.classes)

    def numbers(self, kind: str) -> int:
        """How many numbers of sums a node sends, of matrices one half."""
        d, n_classes = self.shape
        matrix, means = d * (d + 1) // 2, n_classes * (d + 1)
        return (
            means
            + {
                "shared": matrix,
                "class": n_classes * matrix,
                "diagonal": n_classes * d,
                "mean": 0,
            }[kind]
        )


def network_head(cell: Cell, weights: Weights) -> ProbableHead:
    """A network as a classifier."""
    return ProbableHead(lambda X: outputs(weights, X)[-1], cell.classes)


def sizes(weights: Weights) -> int:
    """Numbers in a network."""
    return sum(V.size for V in weights)


# Methods: function(cell) -> model, numbers that a node sends, what the cell made of it


def run_pooled(cell):
    return pooled(None, cell.X, cell.y, None, cell.seed), None, ()


def run_pooled_network(cell):
    return network_head(cell, cell.train(cell.X, cell.y)), None, ()


def run_ours(cell):
    """One message, as a file."""
    aggregator = GEMSLogisticAggregator(random_state=cell.seed)
    summaries = [
        aggregator.summarize(model, X, y, name=str(k), min_rows=1, space=False)
        for k, (model, (X, y)) in enumerate(zip(cell.locals_, cell.rows, strict=True))
    ]
    size = np.mean([len(own.message.to_bytes()) for own in summaries])
    return aggregator.set_params(estimators=summaries).fit(), size / 8, ("locals_",)


def run_combine(cell, budget):
    """All that it tried is sent."""
    given = {"budget": budget, "random_state": cell.seed}
    found = combine(None, cell.X, cell.y, cell.nodes, **given)
    size = sum(own["bytes"] or 0 for own in found.choice_.table)
    return found, size / 8 / len(cell.rows), ()


def run_of_models(cell, method):
    model = method(cell.locals_, cell.X, cell.y, cell.nodes, cell.seed)
    return model, cell.numbers("mean"), ("locals_",)


def run_afl(cell, keep):
    """With a constant column, which the paper's program has not."""
    messages = [
        afl_message(with_one(X), one_hot(y, cell.classes), GAMMA) for X, y in cell.rows
    ]
    W, _ = afl(messages, GAMMA, keep)
    d, n_classes = cell.shape
    n = (d + 1) * (d + 2) // 2 + (d + 1) * n_classes
    return Head(lambda X: with_one(X) @ W, cell.classes), n, ()


def run_safle(cell):
    """Sums in place of the law, which comes to the same."""
    front = Buckets(cell.shape[0])
    gram, moment = 0.0, 0.0
    for X, y in cell.rows:
        Z = front.transform(X)
        gram, moment = gram + Z.T @ Z, moment + Z.T @ one_hot(y, cell.classes)
    W = ridge_of_sums(gram, moment, GAMMA)
    D = front.n_columns_out
    n = D * (D + 1) // 2 + D * len(cell.classes)
    return Head(lambda X: front.transform(X) @ W, cell.classes), n, ()


def run_fedcgs(cell, about):
    return fedcgs(cell.sums, cell.classes, about), cell.numbers("shared"), ("sums",)


def run_gh_closed(cell, kind):
    return gh_closed(cell.sums, cell.classes, kind), cell.numbers(kind), ("sums",)


def run_fisher_mix(cell, kind):
    drawn = draw(cell.sums, kind, N_DRAWS, cell.seed)
    model = fisher_mix(drawn, cell.classes, cell.seed)
    return model, cell.numbers(kind), ("sums",)


def run_proto_hyper(cell, kind):
    drawn = draw(cell.sums, kind, N_DRAWS, cell.seed)
    priors = cell.sums.priors
    model = proto_hyper(drawn, priors, cell.classes, kind, cell.seed)
    return model, cell.numbers(kind), ("sums",)


def run_network_mean(cell):
    weights = mean_weights(cell.networks, cell.counts)
    return network_head(cell, weights), sizes(weights), ("networks",)


def run_fedfisher_kfac(cell):
    pairs = zip(cell.networks, cell.rows, strict=True)
    factors = [kfac(weights, X) for weights, (X, _) in pairs]
    held = DAMPING * len(cell.y)
    weights = fedfisher_kfac(cell.networks, factors, cell.counts, held)
    n = sum(m * (m + 1) // 2 for own in factors[0] for m in map(len, own))
    return network_head(cell, weights), sizes(weights) + n, ("networks",)


def run_fedfisher_diagonal(cell):
    pairs = zip(cell.networks, cell.rows, strict=True)
    found = [diagonal(weights, X) for weights, (X, _) in pairs]
    weights = fedfisher_diagonal(cell.networks, found, cell.counts)
    return network_head(cell, weights), 2 * sizes(weights), ("networks",)


def run_dense(cell):
    weights, _ = dense_like(cell.networks, cell.counts, cell.seed)
    return network_head(cell, weights), sizes(weights), ("networks",)


OURS, MARK = "ours", "pooled"
METHODS: dict[str, Callable] = {
    MARK: run_pooled,
    OURS: run_ours,
    "combine": partial(run_combine, budget="fast"),
    "combine, small": partial(run_combine, budget="small"),
    "averaging": partial(run_of_models, method=averaging),
    "soft vote": partial(run_of_models, method=soft_vote),
    "AFL": partial(run_afl, keep=0.0),
    "AFL, ridge kept": partial(run_afl, keep=GAMMA),
    "SAFLe-like": run_safle,
    "FedCGS": partial(run_fedcgs, about="class"),
    "FedCGS, about all": partial(run_fedcgs, about="all"),
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
OF_ROWS = {MARK, "network, pooled", "AFL", "AFL, ridge kept", "SAFLe-like"}
OF_ROWS |= {m for m in METHODS if m.startswith(("FedCGS", "GH-", "FisherMix", "Proto"))}
# Its candidates make features of their own.
OF_RAW = ("combine", "combine, small")


def key_of(data, n_train, seed, partition, features, method) -> Key:
    """What is made of sums, or of all rows, is run once."""
    partition = ANY if method in OF_ROWS else partition
    return Key(data, n_train, seed, partition, features, method)


def measured(cell: Cell, split: Split, method: str) -> dict:
    """Fit and judge one method."""
    start = perf_counter()
    before = dict(cell.spent)
    model, numbers, shared = METHODS[method](cell)
    # Models and sums of nodes are made once, and count for all that need them.
    seconds = perf_counter() - start
    seconds += sum(before.get(what, 0.0) for what in shared)
    return {
        "accuracy": float(np.mean(model.predict(split.X_test) == split.y_test)),
        "log_loss": log_loss(model, split.X_test, split.y_test, cell.classes),
        "bytes": None if numbers is None else round(8 * numbers),
        "seconds": round(seconds, 4),
        "n_test": len(split.y_test),
    }


def run_cells(records: Records, options) -> tuple[list[tuple], list[str]]:
    """Run what is missing; the cells asked for, and what failed, in words."""
    cells, failed = [], []
    for data in options.data_sets:
        X, y = load(data, options)
        for seed in range(options.seeds):
            scale = data != MNIST
            whole = Split.of(X, y, seed, max_rows=options.max_rows, scale=scale)
            for features in options.features:
                split = as_features(whole, features)
                for partition in options.partitions:
                    try:
                        nodes = deal(partition, split.y, seed)
                    except ValueError:  # too few rows, or classes
                        continue
                    where = data, len(split.y), seed, partition, features
                    cells.append(where)
                    cell = Cell(split, nodes, seed)
                    for method in options.methods:
                        key = key_of(*where, method)
                        left_out = method in OF_RAW and features != "raw"
                        if key in records.of or left_out:
                            continue
                        try:
                            result = measured(cell, split, method)
                        # One method's failure must not cost the others' records.
                        except Exception as error:
                            words = f"{type(error).__name__}: {error}"
                            failed.append(f"{' '.join(map(str, key))}: {words}"[:300])
                            continue
                        records.add(key, result)
                        if options.verbose:
                            print(*key, result, flush=True)
    return cells, failed


def in_cells(records: Records, cells, method: str, features: str) -> dict:
    """By data set and partition the method's means: points, nats, bytes, seconds."""
    found: dict[tuple, list] = {}
    for where in cells:
        own = records.of.get(key_of(*where, method))
        mark = records.of.get(key_of(*where, MARK))
        if where[-1] != features or own is None or mark is None:
            continue
        row = [100 * (mark["accuracy"] - own["accuracy"])]
        row += [own[k] for k in ("log_loss", "bytes", "seconds")]
        found.setdefault((where[0], where[3]), []).append(row)
    return {
        k: np.mean(np.array(rows, dtype=float), axis=0) for k, rows in found.items()
    }


def print_table(records: Records, cells, options, features: str) -> None:
    """Means of cells; a cell is the mean of its seeds."""
    of = {m: in_cells(records, cells, m, features) for m in options.methods}
    n_cells = max(map(len, of.values()))
    print(f"\n{features}: {n_cells} cells, means of {options.seeds} seeds")
    print(
        "cells run; points of accuracy below pooled, mean and worst cell; log-loss; kB"
    )
    print(
        "from a node; seconds; cells half a point or more above ours, and so far below;"
    )
    print("the cell that is most above")
    heads = "cells mean worst loss kB s above below".split()
    print(" " * 20 + "".join(f"{head:>8}" for head in heads))
    for method, own in of.items():
        if not own:
            continue
        values = np.array(list(own.values()))
        points, loss, size, seconds = values.mean(axis=0)
        lead = {k: of[OURS][k][0] - v[0] for k, v in own.items()}
        above = sum(v >= 0.5 for v in lead.values())
        below = sum(v <= -0.5 for v in lead.values())
        best = max(lead, key=lead.get)
        most = f"  {lead[best]:.1f} in {', '.join(best)}" if above else ""
        print(
            f"{method:20}{len(own):8}{points:8.1f}{values[:, 0].max():8.1f}{loss:8.2f}"
            f"{size / 1000:8.0f}{seconds:8.2f}{above:8}{below:8}{most}"
        )
    for title, place in (("data set", 0), ("partition", 1)):
        names = list(dict.fromkeys(k[place] for own in of.values() for k in own))
        print(f"\n{features}, mean points by {title}")
        print(" " * 20 + "".join(f"{name[:11]:>12}" for name in names))
        for method, own in of.items():
            line = ""
            for name in names:
                points = [v[0] for k, v in own.items() if k[place] == name]
                line += f"{np.mean(points):12.1f}" if points else f"{'-':>12}"
            if own:
                print(f"{method:20}{line}")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Options, with what was not given filled in."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", help="file of results, read and appended to")
    parser.add_argument("--tabular", default=os.environ.get(TABULAR_VARIABLE))
    parser.add_argument("--mnist", default=os.environ.get(DATA_VARIABLE))
    parser.add_argument("--max-rows", type=int, default=2000, help="to train on")
    parser.add_argument(
        "--data-sets", nargs="+", choices=[*BUNDLED, *TABULAR, MNIST], default=None
    )
    parser.add_argument("--features", nargs="+", choices=FEATURES, default=FEATURES)
    parser.add_argument("--partitions", nargs="+", choices=PARTITIONS, default=DEALT)
    parser.add_argument("--methods", nargs="+", choices=METHODS)
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(arguments)
    options.data = None
    if options.methods is None:
        options.methods = [name for name in METHODS if name not in OF_RAW]
    options.methods = list(dict.fromkeys([MARK, OURS, *options.methods]))
    if options.data_sets is None:
        options.data_sets = [s for s in SETS if s in BUNDLED or options.tabular]
        options.data_sets += [MNIST] if options.mnist else []
    return options


def main() -> None:
    """Run what is missing and print the tables."""
    options = parse()
    warnings.simplefilter("ignore", UserWarning)
    records = Records(options.records)
    cells, failed = run_cells(records, options)
    for features in options.features:
        print_table(records, cells, options, features)
    if failed:
        print(f"\n{len(failed)} fits failed, the first: {failed[0]}")
        sys.exit(1)


if __name__ == "__main__":
    main()
