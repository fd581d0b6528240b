# SPDX-License-Identifier: BSD-3-Clause
"""Linear models merged in one message: how far below the model fitted on all rows.

Points of test accuracy and nats of log-loss between LogisticRegression on all training
rows in one place ("pooled") and what is made of the nodes' models, over data sets x
partitions x seeds. Beside the library's ways: averages, votes, pooled LDA (which is
the same as LDA from sums) and ridge, averaging over rounds, 100 public rows alone. The
tables of the guide's page on moments, and two lines of the README, are made by it.

Data sets, their splits and partitions are those of `_federations.py`; at most
``--max-rows`` rows train (20,000 unless told, which cuts only MNIST: 50000 takes what
the other benchmarks do). Features are standardized on the training rows of all nodes,
but for MNIST, whose pixels stay in [0, 1], and for "texts": documents of made-up words,
hashed to 1,024 sparse features.

Other kinds of nodes (``--kinds``) are compared with logistic ones, and with the pooled
model of their own kind: LogisticRegression with C=0.1 and C=10 among them, since the
aggregate should be penalized as the nodes' models are.

With ``--records`` results are kept, one line of JSON each, and what is found there is
not run again; the tables are of the cells asked for, however many runs made them.
"""

from __future__ import annotations

import argparse
import warnings
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
from _federations import (
    BUNDLED,
    KINDS,
    LOGISTIC,
    MNIST,
    PARTITIONS,
    RIDGE,
    SGD,
    TABULAR,
    TEXTS,
    UNSCALED,
    Federation,
    Split,
    add_data_options,
    assign_nodes,
    average_weights,
    fit_pooled,
    load_data_set,
    scores_on_test_rows,
    soft_vote,
    split_rows,
)
from _quick import note_figure, parse_with_quick
from _records import ANY, Key, Records
from scipy.sparse import issparse
from sklearn.base import ClassifierMixin, clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from skgems import GEMSLogisticAggregator, ModelAveragingAggregator
from skgems.datasets import hold_out_public

# Other kinds of node take long, and are run on a few data sets only.
SETS_OF_KINDS = ("digits", "penbased", "spambase", TEXTS)
# The rows of the server, in "public_rows".
N_PUBLIC = 100


# How one model is made: function(federation) -> fitted classifier --------------------


def fit_pooled_kind(federation: Federation) -> ClassifierMixin:
    """All rows in one place, and the classifier that the nodes fit (the first)."""
    return clone(KINDS[federation.kind][0]).fit(federation.X, federation.y)


def fit_lda(federation: Federation) -> LinearDiscriminantAnalysis:
    """The same as LDA made of the nodes' sums."""
    X = federation.X.toarray() if issparse(federation.X) else federation.X
    return LinearDiscriminantAnalysis().fit(X, federation.y)


def fit_ridge(federation: Federation) -> ClassifierMixin:
    """The same as ridge made of the nodes' sums."""
    return clone(RIDGE).fit(federation.X, federation.y)


def fit_public_rows(federation: Federation) -> ClassifierMixin:
    """What the server could fit by itself on a few rows."""
    y = federation.y
    nodes_left = hold_out_public(
        np.zeros(len(y), dtype=int),
        min(N_PUBLIC, len(y) // 2),
        y=y,
        random_state=federation.seed,
    )
    is_public = nodes_left == -1
    return clone(LOGISTIC).fit(federation.X[is_public], y[is_public])


def average_in_rounds(
    federation: Federation, n_rounds: int = 5
) -> ModelAveragingAggregator:
    """Rounds of averaging (FedAvg), weighted by rows.

    SGD trains all outputs at every node, which LogisticRegression cannot where a node
    lacks classes.
    """
    n_nodes = federation.nodes.max() + 1
    aggregator = ModelAveragingAggregator(
        [SGD] * n_nodes,
        n_rounds=n_rounds,
        node_weight="n_samples",
        random_state=federation.seed,
    )
    return aggregator.fit(federation.X, federation.y, nodes=federation.nodes)


def fit_gems(federation: Federation, **parameters) -> GEMSLogisticAggregator:
    """A point in the intersection of the nodes' spaces."""
    aggregator = GEMSLogisticAggregator(
        federation.local_models, random_state=federation.seed, **parameters
    )
    return aggregator.fit(federation.X, federation.y, nodes=federation.nodes)


METHODS: dict[str, Callable[[Federation], ClassifierMixin]] = {
    "pooled": fit_pooled,
    "averaging": average_weights,
    "soft_vote": soft_vote,
    "lda": fit_lda,
    "ridge": fit_ridge,
    "gram": partial(fit_gems, spaces="gram", intersection="consensus"),
    "fedavg": average_in_rounds,
    "public_rows": fit_public_rows,
}
METHODS |= {
    f"likelihood_{moments}": partial(
        fit_gems, intersection="likelihood", moments=moments
    )
    for moments in ("auto", "class", "shared", "diagonal")
}
# After so many messages, and averaging in as many rounds; eight messages with four
# models each are 32 of its rounds.
METHODS |= {f"messages_{n}": partial(fit_gems, n_rounds=n) for n in (3, 5, 8)}
METHODS |= {f"fedavg_{n}": partial(average_in_rounds, n_rounds=n) for n in (8, 32)}
ONE_MESSAGE = "likelihood_auto"
# What nodes of a kind are compared with; it depends on the kind, not on the partition.
POOLED_KIND = "pooled_kind"
# The same for every partition.
NOT_OF_PARTITION = {"pooled", "lda", "ridge", "public_rows"}
# The same whatever the nodes fitted.
NOT_OF_MODELS = NOT_OF_PARTITION | {
    name for name in METHODS if name.startswith("fedavg")
}
# A method should not be below these simpler ones by more points than that.
SIMPLER = {"averaging": 0.7, "soft_vote": 0.7, "lda": 1.0}


# Cells -------------------------------------------------------------------------------


class Cell(NamedTuple):
    """One data set, partitioned once, with one kind of node."""

    data_set: str
    n_train: int
    seed: int
    partition: str
    kind: str


def key_of(cell: Cell, method: str) -> Key:
    """What does not depend on partition or kind is run, and kept, once."""
    is_of_all_rows = method in NOT_OF_PARTITION or method == POOLED_KIND
    return Key(
        data=cell.data_set,
        n_train=cell.n_train,
        seed=cell.seed,
        partition=ANY if is_of_all_rows else cell.partition,
        kind=ANY if method in NOT_OF_MODELS else cell.kind,
        method=method,
    )


def cells_of(options: Namespace) -> Iterator[tuple[Cell, Split, Federation]]:
    """The cells asked for, with their rows."""
    for data_set in options.data_sets:
        X, y = load_data_set(data_set, options)
        kinds = options.kinds if data_set in options.sets_of_kinds else ["logistic"]
        for seed in options.seeds:
            split = split_rows(
                X,
                y,
                seed,
                max_rows=options.max_rows,
                standardize=data_set not in UNSCALED,
            )
            for partition in options.partitions:
                try:
                    nodes = assign_nodes(partition, split.y, seed)
                except ValueError as error:
                    if options.verbose:
                        print(
                            data_set, seed, partition, f"left out: {error}", flush=True
                        )
                    continue
                for kind in kinds:
                    cell = Cell(data_set, len(split.y), seed, partition, kind)
                    federation = Federation(
                        X=split.X, y=split.y, nodes=nodes, seed=seed, kind=kind
                    )
                    yield cell, split, federation


def measure(method: str, federation: Federation, split: Split) -> dict:
    """Fit and judge one method; the nodes' own fits are not timed."""
    fit = fit_pooled_kind if method == POOLED_KIND else METHODS[method]
    if method != POOLED_KIND and method not in NOT_OF_MODELS:
        federation.fit_local_models()
    start = perf_counter()
    model = fit(federation)
    seconds = perf_counter() - start
    return {
        **scores_on_test_rows(model, split),
        "seconds": round(seconds, 4),
        "n_test": len(split.y_test),
    }


def run_cells(records: Records, options: Namespace) -> list[Cell]:
    """Run what is missing of the cells asked for; returns these."""

    def print_if_verbose(text: str) -> None:
        if options.verbose:
            print(text, flush=True)

    cells = []
    for cell, split, federation in cells_of(options):
        cells.append(cell)
        references = [] if cell.kind == "logistic" else [POOLED_KIND]
        for method in [*references, *options.methods]:
            title = f"{cell.data_set} seed {cell.seed} {cell.partition} {cell.kind}"
            records.measure_once(
                key_of(cell, method),
                partial(measure, method, federation, split),
                on_success=lambda scores, title=f"{title} {method}": print_if_verbose(
                    f"{title}: {scores['accuracy']:.4f} in {scores['seconds']:.2f} s"
                ),
                on_failure=lambda failure: print_if_verbose(f"FAILED {failure}"),
            )
    return cells


# Tables ------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Gap:
    """How a method does in one data set and partition, means of the seeds."""

    data_set: str
    partition: str
    accuracy: float
    points: float  # of accuracy below the pooled model
    nats: float  # of log-loss above the pooled model; nan without probabilities
    seconds: float
    n_test: float


def nats_between(scores: dict, reference: dict) -> float:
    """How far the log-loss is above that of a reference, nan if one has none."""
    if scores["log_loss"] is None or reference["log_loss"] is None:
        return np.nan
    return scores["log_loss"] - reference["log_loss"]


def gaps_below(
    records: Records,
    cells: list[Cell],
    *,
    method: str,
    kind: str = "logistic",
    pooled: str = "pooled",
) -> list[Gap]:
    """A method beside a pooled model, where both have been run."""
    gaps_of_seeds: dict[tuple[str, str], list[tuple]] = defaultdict(list)
    for cell in cells:
        scores = records.get(key_of(cell, method))
        reference = records.get(key_of(cell, pooled))
        if cell.kind != kind or scores is None or reference is None:
            continue
        gaps_of_seeds[cell.data_set, cell.partition].append(
            (
                scores["accuracy"],
                100 * (reference["accuracy"] - scores["accuracy"]),
                nats_between(scores, reference),
                scores["seconds"],
                scores["n_test"],
            )
        )
    gaps = []
    for (data_set, partition), rows in gaps_of_seeds.items():
        accuracy, points, nats, seconds, n_test = np.mean(rows, axis=0)
        gaps.append(
            Gap(
                data_set=data_set,
                partition=partition,
                accuracy=accuracy,
                points=points,
                nats=nats,
                seconds=seconds,
                n_test=n_test,
            )
        )
    return gaps


def mean_and_worst(gaps: list[Gap], measure_name: str, digits: int) -> str:
    """The mean and the largest gap of all that have the measure, or a dash."""
    numbers = [getattr(gap, measure_name) for gap in gaps]
    numbers = [number for number in numbers if not np.isnan(number)]
    if not numbers:
        return "-"
    return f"{np.mean(numbers):.{digits}f} / {np.max(numbers):.{digits}f}"


def print_by_partition(
    table: dict[str, list[Gap]], measure_name: str, *, title: str, digits: int
) -> None:
    """Mean / worst cell of each method, by partition and over all."""
    present = {gap.partition for gaps in table.values() for gap in gaps}
    partitions = [name for name in PARTITIONS if name in present]
    print(f"\n{title}")
    print(" " * 20 + "".join(f"{name:>14}" for name in [*partitions, "all"]))
    for method, gaps in table.items():
        parts = [[gap for gap in gaps if gap.partition == name] for name in partitions]
        texts = [mean_and_worst(part, measure_name, digits) for part in [*parts, gaps]]
        print(f"{method:20}" + "".join(f"{text:>14}" for text in texts))


def print_by_data_set(table: dict[str, list[Gap]], data_sets: list[str]) -> None:
    """Mean points of each method by data set."""
    print("\nPoints of accuracy below pooled by data set, mean")
    print(" " * 20 + "".join(f"{data_set[:14]:>16}" for data_set in data_sets))
    for method, gaps in table.items():
        line = ""
        for data_set in data_sets:
            points = [gap.points for gap in gaps if gap.data_set == data_set]
            line += f"{np.mean(points or [np.nan]):16.1f}"
        print(f"{method:20}{line}")


def are_below(gaps: list[Gap], simpler: list[Gap], limit: float) -> list[bool]:
    """Whether a method is below another by more than the limit or an error's size."""
    accuracy_of_simpler = {
        (gap.data_set, gap.partition): gap.accuracy for gap in simpler
    }
    verdicts = []
    for gap in gaps:
        accuracy = accuracy_of_simpler.get((gap.data_set, gap.partition))
        if accuracy is not None:
            # The standard error of a share of the test rows, in points.
            error = 100 * np.sqrt(accuracy * (1 - accuracy) / gap.n_test)
            verdicts.append(100 * (accuracy - gap.accuracy) > max(limit, error))
    return verdicts


def print_simpler(table: dict[str, list[Gap]], simpler: dict[str, list[Gap]]) -> None:
    """In how many cells a method is below a simpler one, its worst cell, its time."""
    print("\nCells below a simpler method by more than given points, or one standard")
    print("error of the test rows where that is more; worst cell; mean seconds a fit")
    heads = "".join(f"{f'{name} {limit}':>16}" for name, limit in SIMPLER.items())
    print(f"{'':20}{heads}{'seconds':>10}  worst cell")
    for method, gaps in table.items():
        line = ""
        for name, limit in SIMPLER.items():
            verdicts = are_below(gaps, simpler[name], limit)
            line += f"{f'{sum(verdicts)} of {len(verdicts)}':>16}"
        worst = max(gaps, key=lambda gap: gap.points)
        seconds = np.mean([gap.seconds for gap in gaps])
        print(f"{method:20}{line}{seconds:10.3f}  {worst.data_set}, {worst.partition}")


def accuracy_and_change(gaps: list[Gap], logistic: dict[tuple, float]) -> str:
    """Mean accuracy, and the change from logistic nodes on the same cells."""
    pairs = [
        (gap.accuracy, logistic[gap.data_set, gap.partition])
        for gap in gaps
        if (gap.data_set, gap.partition) in logistic
    ]
    if not pairs:
        return "-"
    accuracy = np.mean([accuracy for accuracy, _ in pairs])
    changes = [100 * (accuracy - before) for accuracy, before in pairs]
    return f"{accuracy:.4f} ({np.mean(changes):+.1f} / {np.min(changes):+.1f})"


def print_kinds(records: Records, cells: list[Cell], options: Namespace) -> None:
    """Mean accuracy with each kind of node, on the same cells as logistic ones."""
    print("\nMean accuracy by kind of node (minus logistic nodes, in points: mean /")
    print("worst cell)")
    print(" " * 20 + "".join(f"{kind:>28}" for kind in options.kinds))
    for method in options.methods:
        if method in NOT_OF_MODELS:
            continue
        logistic = {
            (gap.data_set, gap.partition): gap.accuracy
            for gap in gaps_below(records, cells, method=method)
            if gap.data_set in options.sets_of_kinds
        }
        if not logistic:
            continue
        line = ""
        for kind in options.kinds:
            gaps = gaps_below(records, cells, method=method, kind=kind)
            line += f"{accuracy_and_change(gaps, logistic):>28}"
        print(f"{method:20}{line}")


def print_below_pooled_kind(
    records: Records,
    cells: list[Cell],
    options: Namespace,
    *,
    measure_name: str,
    title: str,
    digits: int,
) -> None:
    """How far an aggregate of each kind is from the pooled model of that kind."""
    kinds = [kind for kind in options.kinds if kind not in ("logistic", "mixed")]
    print(f"\n{title} the pooled model of the nodes' kind, mean / worst")
    print(" " * 20 + "".join(f"{kind:>14}" for kind in kinds))
    for method in options.methods:
        if method in NOT_OF_MODELS:
            continue
        line = ""
        for kind in kinds:
            gaps = gaps_below(
                records, cells, method=method, kind=kind, pooled=POOLED_KIND
            )
            line += f"{mean_and_worst(gaps, measure_name, digits):>14}"
        print(f"{method:20}{line}")


def print_tables(records: Records, cells: list[Cell], options: Namespace) -> None:
    """Everything, of the cells asked for."""
    table = {}
    for method in options.methods:
        gaps = gaps_below(records, cells, method=method)
        if gaps and method != "pooled":
            table[method] = gaps
    for method, gaps in table.items():
        points = [gap.points for gap in gaps]
        note_figure(f"{method}, mean points", np.mean(points))
        note_figure(f"{method}, worst points", np.max(points))
    simpler = {name: gaps_below(records, cells, method=name) for name in SIMPLER}
    n_cells = len({(cell.data_set, cell.partition) for cell in cells})
    seeds = ", ".join(map(str, options.seeds))
    print(f"\n{n_cells} cells (means of seeds {seeds}), logistic nodes, mean / worst")
    print_by_partition(
        table, "points", title="Points of accuracy below pooled", digits=1
    )
    print_by_partition(table, "nats", title="Log-loss above pooled, nats", digits=2)
    print_by_data_set(table, options.data_sets)
    print_simpler(table, simpler)
    if len(options.kinds) > 1:
        print_kinds(records, cells, options)
        print_below_pooled_kind(
            records,
            cells,
            options,
            measure_name="points",
            title="Points of accuracy below",
            digits=1,
        )
        print_below_pooled_kind(
            records,
            cells,
            options,
            measure_name="nats",
            title="Log-loss in nats above",
            digits=2,
        )


def parse_options(arguments: list[str] | None = None) -> Namespace:
    """Options, with what was not given filled in."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data_options(parser)
    parser.add_argument("--records", help="file of results, read and appended to")
    parser.add_argument("--data", help="an npz with X and y, run in place of the sets")
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
        help=f"of node, all if none is named; on {', '.join(SETS_OF_KINDS)} and --data",
    )
    parser.add_argument("--verbose", action="store_true")
    options = parse_with_quick(
        parser,
        arguments,
        quick={
            "data_sets": ["digits", "wine", "breast_cancer", "iris"],
            "partitions": ["disjoint-2", "dir0.1-5", "homog-5"],
            "methods": ["averaging", "soft_vote", "lda", ONE_MESSAGE, "messages_5"],
            "seeds": [0],
        },
    )
    # Tables need the pooled model; other kinds are compared with logistic nodes.
    options.methods = list(dict.fromkeys(["pooled", *options.methods]))
    options.kinds = list(dict.fromkeys(["logistic", *(options.kinds or KINDS)]))
    options.sets_of_kinds = SETS_OF_KINDS
    if options.data is not None:
        name = Path(options.data).stem
        options.data_sets = [*(options.data_sets or ()), name]
        options.sets_of_kinds += (name,)
    elif options.data_sets is None:
        options.data_sets = [*BUNDLED, TEXTS]
        options.data_sets += TABULAR if options.tabular is not None else ()
        options.data_sets += [MNIST] if options.mnist is not None else []
    return options


def main() -> None:
    """Run what is missing and print the tables."""
    options = parse_options()
    warnings.simplefilter("ignore", UserWarning)
    records = Records(options.records)
    cells = run_cells(records, options)
    print_tables(records, cells, options)
    records.exit_if_failed()


if __name__ == "__main__":
    main()
