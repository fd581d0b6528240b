# SPDX-License-Identifier: BSD-3-Clause
"""One call, `combine`, on raw rows beside models of all rows at one place.

Accuracy, log-loss and calibration on test rows of what it chose, of the linear default,
of the candidate that the test rows would choose, and of four models of all rows. With
``--members`` ten nodes have forests, support vector machines, or some of each. The
tables of the guide's pages on `combine` and on ensembles are made by it.

On nine sets, those before ``phoneme`` in ``--sets``, candidates and defaults of
`combine` were chosen. Eight were used for no setting. They come from KEEL, whose folder
of .dat files is given by ``--keel``: ``phoneme``, ``banana`` and ``letter`` (sharp
boundaries in few columns), ``marketing`` (answers to questions; many classes),
``german`` (a mixed table), ``chess`` and ``splice`` (tables of texts), and
``kr-vs-k-zero-one_vs_draw`` (mixed, and 4 % of the rows are in one of two classes).

``--records`` keeps results, one line of JSON each, and runs only what is missing.
"""

from __future__ import annotations

import argparse
import warnings
from argparse import Namespace
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from _federations import KEEL, assign_nodes, log_loss
from _quick import note_figure, parse_with_quick
from _raw_rows import (
    PARTITIONS,
    SETS,
    add_options,
    models_of_all_rows,
    split_raw_rows,
    time_call,
)
from _records import JsonLines
from sklearn.base import ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.svm import SVC

from skgems import EnsembleAggregator, GEMSLogisticAggregator, combine
from skgems.choice import Choice
from skgems.datasets import partition_dirichlet
from skgems.ensembles._candidates import candidates
from skgems.ensembles._combine import _columns_to_prepare
from skgems.parties import owners_of
from skgems.steps import auto_front

# What the k-th node fits, by the kind of members.
KINDS: dict[str, Callable[[int], ClassifierMixin]] = {
    "forests": lambda k: RandomForestClassifier(random_state=k),
    "svms": lambda k: SVC(C=10),
    "mixed": lambda k: SVC(C=10) if k % 2 else RandomForestClassifier(random_state=k),
}
# The partition of nodes that have members: Dirichlet 0.1 over ten nodes.
PARTITION_OF_MEMBERS = "dir0.1-10"
# Where a partition is said, of models of all rows.
ALL_ROWS = "all"
# Rows in a group of the expected calibration error have probabilities that are near.
N_GROUPS = 15


class Cell(NamedTuple):
    """One data set, partitioned once; raw rows alone, or members of one kind."""

    data: str  # the data set; a name of records, as all that follow
    seed: int
    partition: str
    kind: str | None


# Measurements ------------------------------------------------------------------------


def fit_members(kind: str, X: np.ndarray, y: np.ndarray, nodes: np.ndarray) -> list:
    """One fitted classifier a node; of a single class a DummyClassifier."""
    members = []
    for k in np.unique(nodes):
        in_node = nodes == k
        has_several_classes = len(np.unique(y[in_node])) > 1
        model = KINDS[kind](k) if has_several_classes else DummyClassifier()
        members.append(model.fit(X[in_node], y[in_node]))
    return members


def scores_on_test_rows(model: ClassifierMixin, X, y: np.ndarray) -> dict[str, float]:
    """Accuracy; with probabilities log-loss and calibration; area for two classes."""
    scores = {"accuracy": float(np.mean(model.predict(X) == y))}
    if not hasattr(model, "predict_proba"):
        return scores
    P = model.predict_proba(X)
    scores["log_loss"] = log_loss(model, X, y, np.union1d(model.classes_, y))
    scores["calibration"] = calibration_error(P, model.classes_[P.argmax(axis=1)] == y)
    if len(model.classes_) == 2:
        scores["area"] = float(roc_auc_score(y == model.classes_[1], P[:, 1]))
    return scores


def calibration_error(P: np.ndarray, is_right: np.ndarray) -> float:
    """The expected calibration error of what is predicted, in equal intervals.

    In each interval of the largest probability, the share of right rows is compared
    with the mean probability.
    """
    sure = P.max(axis=1)
    group = np.minimum((N_GROUPS * sure).astype(int), N_GROUPS - 1)
    gaps = np.bincount(group, weights=is_right - sure, minlength=N_GROUPS)
    return float(np.abs(gaps).sum() / len(sure))


def measure(cell: Cell, options: Namespace) -> dict:
    """Scores of what was chosen, of other ways, and of every candidate."""
    X, y, X_test, y_test = split_raw_rows(cell.data, options, cell.seed)
    if cell.kind is None:
        nodes = assign_nodes(cell.partition, y, cell.seed)
        members = None
    else:
        nodes = partition_dirichlet(y, 10, alpha=0.1, random_state=cell.seed)
        members = fit_members(cell.kind, X, y, nodes)
    chosen, seconds = time_call(
        lambda: combine(
            members, X, y, nodes, budget=options.budget, random_state=cell.seed
        )
    )
    names = [str(k) for k in np.unique(nodes)]
    scores = {
        "chosen": chosen.choice_.name,
        "seconds": seconds,
        "linear": linear_accuracy(X, y, X_test, y_test, nodes=nodes, seed=cell.seed),
        "bytes": sum(tried["bytes"] or 0 for tried in chosen.choice_.table),
    }
    scores_of_chosen = scores_on_test_rows(chosen, X_test, y_test)
    scores |= scores_of_chosen
    if chosen.choice_.factor != 1.0:
        chosen._temper(1.0 / chosen.choice_.factor)
    untempered = scores_on_test_rows(chosen, X_test, y_test)
    scores["calibration without factor"] = untempered.get("calibration")
    scores["log_loss without factor"] = untempered.get("log_loss")
    named_members = None
    if members is not None:
        named_members = list(zip(names, members, strict=True))
        vote_or_stack = EnsembleAggregator(
            named_members, combine="auto", random_state=cell.seed
        )
        vote_or_stack.fit(X, y, nodes=nodes.astype(str))
        scores["auto"] = vote_or_stack.score(X_test, y_test)
        scores["auto took"] = vote_or_stack.choice_.name
    scores["candidates"] = measure_candidates(
        candidates(
            X,
            names=names,
            members=named_members,
            front=None,
            columns=_columns_to_prepare(X, owners_of(nodes, X), None, members=None),
            budget=options.budget,
            n_classes=len(np.unique(y)),
            random_state=cell.seed,
        ),
        (X, y, X_test, y_test),
        nodes=nodes,
        choice=chosen.choice_,
        scores_of_chosen=scores_of_chosen,
    )
    return scores


def linear_accuracy(X, y, X_test, y_test, *, nodes: np.ndarray, seed: int) -> float:
    """Accuracy of the linear default; texts are encoded, as it takes none."""
    has_texts = not isinstance(X, np.ndarray)
    linear = GEMSLogisticAggregator(
        [(str(k), None) for k in np.unique(nodes)],
        front=auto_front() if has_texts else None,
        random_state=seed,
    )
    return linear.fit(X, y, nodes=nodes).score(X_test, y_test)


def measure_candidates(
    tried: list,
    split: tuple,
    *,
    nodes: np.ndarray,
    choice: Choice,
    scores_of_chosen: dict[str, float],
) -> dict[str, dict]:
    """Scores on test rows of every candidate of all rows, and what halves said."""
    X, y, X_test, y_test = split
    judged = {entry["name"]: entry for entry in choice.table}
    scores = {}
    for candidate in tried:
        entry = judged[candidate.name]
        if entry["error"]:
            continue
        about_halves = {
            "halves": entry["accuracy"],
            "halves log_loss": entry["log_loss"],
            "halves score": entry["score"],
            "standard_error": entry["standard_error"],
            "factor": entry["factor"],
            "seconds of halves": entry["seconds"],
        }
        if candidate.name == choice.name:
            scores[candidate.name] = scores_of_chosen | about_halves
            continue
        fitted = candidate.whole.fit(X, y, nodes=nodes)
        factor = Choice(name=candidate.name, table=(entry,), n_rows=0).factor
        if factor != 1.0:
            fitted._temper(factor)
        scores[candidate.name] = (
            scores_on_test_rows(fitted, X_test, y_test) | about_halves
        )
    return scores


def measure_all_rows(data_set: str, seed: int, options: Namespace) -> dict[str, dict]:
    """Scores on test rows of the models of all rows, by their names."""
    X, y, X_test, y_test = split_raw_rows(data_set, options, seed)
    return {
        name: scores_on_test_rows(clone(model).fit(X, y), X_test, y_test)
        for name, model in models_of_all_rows(X).items()
    }


def cells_of(options: Namespace) -> list[Cell]:
    """The cells asked for."""
    kinds = options.kinds if options.members else [None]
    partitions = [PARTITION_OF_MEMBERS] if options.members else options.partitions
    return [
        Cell(data_set, seed, partition, kind)
        for seed in options.seeds
        for data_set in options.sets
        for partition in partitions
        for kind in kinds
    ]


def run_missing(options: Namespace) -> list[dict]:
    """Run and record what is missing; returns the records of the cells asked for."""
    file = JsonLines(options.records)
    records = file.read()
    cells = cells_of(options)
    for cell in cells:
        if any(is_of_cell(record, cell) for record in records):
            continue
        record = cell._asdict() | measure(cell, options)
        records.append(record)
        print(record, flush=True)
        file.append(record)
    return [
        record for record in records if any(is_of_cell(record, cell) for cell in cells)
    ]


def is_of_cell(record: dict, cell: Cell) -> bool:
    """Whether a record is about a cell."""
    return cell._asdict().items() <= record.items()


def of_all_rows(options: Namespace) -> dict[tuple[str, int], dict[str, dict]]:
    """Scores of the four models of all rows, by data set and seed; run if missing."""
    file = JsonLines(options.records)
    known = [record for record in file.read() if record["partition"] == ALL_ROWS]
    scores = {(r["data"], r["seed"]): r["models"] for r in known}
    for seed in options.seeds:
        for data_set in options.sets:
            if (data_set, seed) in scores:
                continue
            models = measure_all_rows(data_set, seed, options)
            scores[data_set, seed] = models
            about = {"data": data_set, "seed": seed, "partition": ALL_ROWS}
            file.append(about | {"models": models})
    return scores


# Tables ------------------------------------------------------------------------------


def mean_of(records: list[dict], name: str) -> float:
    """The mean of one figure over the records."""
    return np.mean([record[name] for record in records])


def best_candidate(record: dict) -> float:
    """The accuracy of the candidate that the test rows would choose."""
    return max(scores["accuracy"] for scores in record["candidates"].values())


class Pooled(NamedTuple):
    """What is best of the four models of all rows, each figure of its own model.

    A support vector machine has no probabilities, and so no log-loss.
    """

    accuracy: float
    log_loss: float
    area: float | None  # of boosting; None for more than two classes


def best_of(models: dict[str, dict]) -> Pooled:
    """The best figures of the four models, by their names."""
    return Pooled(
        accuracy=max(scores["accuracy"] for scores in models.values()),
        log_loss=min(s["log_loss"] for s in models.values() if "log_loss" in s),
        area=models["boosting"].get("area"),
    )


def print_cells(
    records: list[dict], all_rows: dict[tuple[str, int], dict[str, dict]]
) -> None:
    """A line a data set, kind and partition, and one a data set and kind."""
    print("set, members, partition: accuracy of combine, linear, best of all rows and")
    print("best candidate (%); log-loss of combine and least of all rows (nats); area")
    print("of combine and of boosting of all rows; calibration error, and without the")
    print("factor; of all that was tried the bytes from nodes and the seconds; chosen")
    cells = dict.fromkeys((r["data"], r["kind"], r["partition"]) for r in records)
    for data_set, kind, partition in cells:
        runs = [
            record
            for record in records
            if (record["data"], record["kind"], record["partition"])
            == (data_set, kind, partition)
        ]
        print(data_set, kind, partition, line_of(runs, all_rows))
    for data_set, kind in dict.fromkeys((r["data"], r["kind"]) for r in records):
        runs = [r for r in records if (r["data"], r["kind"]) == (data_set, kind)]
        print(data_set, kind, "all partitions", line_of(runs, all_rows))


def line_of(runs: list[dict], all_rows: dict[tuple[str, int], dict[str, dict]]) -> str:
    """Means of some runs of one data set, as a line."""
    pooled = [best_of(all_rows[run["data"], run["seed"]]) for run in runs]
    accuracies = (
        mean_of(runs, "accuracy"),
        mean_of(runs, "linear"),
        np.mean([best.accuracy for best in pooled]),
        np.mean([best_candidate(run) for run in runs]),
    )
    columns = [" ".join(f"{100 * accuracy:.1f}" for accuracy in accuracies)]
    if "log_loss" in runs[0]:
        least = np.mean([best.log_loss for best in pooled])
        columns.append(f"{mean_of(runs, 'log_loss'):.3f} {least:.3f}")
        if "area" in runs[0]:
            area = np.mean([best.area for best in pooled])
            columns.append(f"{mean_of(runs, 'area'):.3f} {area:.3f}")
        without_factor = mean_of(runs, "calibration without factor")
        columns.append(f"{mean_of(runs, 'calibration'):.3f} {without_factor:.3f}")
    columns.append(
        f"{mean_of(runs, 'bytes') / 1e6:.0f} MB {mean_of(runs, 'seconds'):.0f} s"
    )
    chosen = [run["chosen"] for run in runs]
    counts = {name: chosen.count(name) for name in dict.fromkeys(chosen)}
    return "; ".join([*columns, str(counts)])


def print_lags(
    records: list[dict], all_rows: dict[tuple[str, int], dict[str, dict]]
) -> None:
    """How far it lags: means over sets, and the worst set and cell.

    A cell is a data set with one partition and kind of members, the mean of its seeds.
    """
    for part, names in (
        ("sets that it was tuned on", set(SETS) - set(KEEL)),
        ("sets of KEEL", set(KEEL)),
        ("all sets", set(SETS)),
    ):
        runs = [record for record in records if record["data"] in names]
        if not runs:
            continue
        print(f"{part}:")
        pooled = [best_of(all_rows[run["data"], run["seed"]]) for run in runs]
        print_lag(
            "accuracy below the best of all rows (points)",
            runs,
            [
                100 * (best.accuracy - run["accuracy"])
                for run, best in zip(runs, pooled, strict=True)
            ],
        )
        print_lag(
            "accuracy below the candidate that test rows choose (points)",
            runs,
            [100 * (best_candidate(run) - run["accuracy"]) for run in runs],
        )
        print_lag(
            "accuracy below the linear default (points)",
            runs,
            [100 * (run["linear"] - run["accuracy"]) for run in runs],
        )
        if all("log_loss" in run for run in runs):
            print_lag(
                "log-loss above the least of all rows (nats)",
                runs,
                [
                    run["log_loss"] - best.log_loss
                    for run, best in zip(runs, pooled, strict=True)
                ],
            )
            print_lag("calibration error", runs, [run["calibration"] for run in runs])
            print_lag(
                "calibration error without the factor",
                runs,
                [run["calibration without factor"] for run in runs],
            )


def print_lag(title: str, runs: list[dict], lags: list[float]) -> None:
    """One line: the mean over sets, the worst set, and the worst cell."""
    by_set: dict[str, list[float]] = {}
    by_cell: dict[tuple, list[float]] = {}
    for run, lag in zip(runs, lags, strict=True):
        by_set.setdefault(run["data"], []).append(lag)
        cell = (run["data"], run["kind"], run["partition"])
        by_cell.setdefault(cell, []).append(lag)
    means = {name: float(np.mean(lags)) for name, lags in by_set.items()}
    means_of_cells = {cell: float(np.mean(lags)) for cell, lags in by_cell.items()}
    note_figure(title, np.mean(list(means.values())))
    worst_set = max(means, key=lambda name: means[name])
    worst_cell = max(means_of_cells, key=lambda cell: means_of_cells[cell])
    print(
        f"  {title}: {np.mean(list(means.values())):.3f} on average, "
        f"{means[worst_set]:.3f} at worst ({worst_set}), "
        f"{means_of_cells[worst_cell]:.3f} in the worst cell "
        f"({worst_cell[0]}, {worst_cell[2]})"
    )


def print_ensembles(records: list[dict]) -> None:
    """What ensembles of members that were there choose, and what they could have."""
    with_members = [record for record in records if "auto" in record]
    for data_set, kind in dict.fromkeys((r["data"], r["kind"]) for r in with_members):
        runs = [r for r in records if (r["data"], r["kind"]) == (data_set, kind)]
        percent = {"auto": round(100 * mean_of(runs, "auto"), 1)}
        for way in ("vote", "vote by classes", "stack"):
            accuracies = [run["candidates"][way]["accuracy"] for run in runs]
            percent[way] = round(100 * np.mean(accuracies), 1)
        for way, accuracy in percent.items():
            note_figure(f"{data_set} {kind}, {way}", accuracy)
        print(data_set, kind, percent)


def print_tables(records: list[dict], options: Namespace) -> None:
    """Everything, of the records."""
    all_rows = of_all_rows(options)
    print_cells(records, all_rows)
    print_lags(records, all_rows)
    print_ensembles(records)
    seconds = [record["seconds"] for record in records]
    print(f"{np.mean(seconds):.0f} s on average, {max(seconds):.0f} at most")


def main() -> None:
    """Run what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--budget", default="fast", choices=["fast", "thorough"])
    parser.add_argument("--members", action="store_true")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--partitions", nargs="+", default=list(PARTITIONS))
    options = parse_with_quick(
        parser,
        quick={
            "sets": ["digits"],
            "seeds": [0],
            "partitions": ["dir0.1-5"],
            "kinds": ["forests"],
        },
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print_tables(run_missing(options), options)


if __name__ == "__main__":
    main()
