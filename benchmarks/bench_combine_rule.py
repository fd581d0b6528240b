# SPDX-License-Identifier: BSD-3-Clause
"""What the rule of disclosure costs `combine` over a channel, on raw rows.

Test accuracy of what `combine` chose of the nodes' answers under the default rule and
without one, on the sets of `bench_combine.py`. Nodes that have no class of twenty rows,
ten in a half, would send nothing under the rule, and take part in neither.

``--integer SHARE`` asks for one number of random features under the rule, in place of
nested ones of which each node tells as many as it can. It is the most for which all
columns are at most ``SHARE`` of the numbers that a half of the smallest node is, and
hold by leverage in it: as if that node had told this integer first.

``--records`` keeps results, one line of JSON each, and runs only what is missing.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from typing import NamedTuple
from unittest import mock

import numpy as np
from _federations import assign_nodes
from _quick import note_figure, parse_with_quick
from _raw_rows import PARTITIONS, add_options, split_raw_rows, time_call
from _records import JsonLines

from skgems import Disclosure, combine
from skgems.asking import Message, Nodes
from skgems.compat import safe_indexing
from skgems.guard import reply_to

RULE = Disclosure()
# Share of the weights that rows keep at least.
KEPT = 0.8
# Random features that candidates draw at once.
DRAWN = 10


class Cell(NamedTuple):
    """One data set, partitioned once, under the rule or without."""

    data: str
    seed: int
    partition: str
    has_rule: bool
    integer: float | None = None  # see ``--integer``


def takes_part(y: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Rows of nodes that have a class of enough rows in either half, (n_rows,)."""
    is_there = np.zeros(len(y), dtype=bool)
    for node in np.unique(nodes):
        sizes = np.unique(y[nodes == node], return_counts=True)[1]
        if sizes.max() >= 2 * RULE.min_rows:
            is_there |= nodes == node
    return is_there


def channel_to(X, y: np.ndarray, nodes: np.ndarray, rule: Disclosure | None) -> Nodes:
    """Return a channel to nodes in this process, each with a ledger."""
    ledgers: dict[str, dict] = {str(node): {} for node in np.unique(nodes)}

    def ask(requests: Mapping[str, Message]) -> dict[str, Message]:
        replies = {}
        for name, request in requests.items():
            rows = np.flatnonzero(nodes.astype(str) == name)
            replies[name] = reply_to(
                request,
                None,
                safe_indexing(X, rows),
                y[rows],
                name=name,
                state=ledgers[name],
                disclosure=rule,
            )
        return replies

    return Nodes(ask, list(ledgers), disclosure=rule)


def most_features(X: np.ndarray, y: np.ndarray, nodes: np.ndarray, share: float) -> int:
    """Return how many random features a half of every node may tell beside the columns.

    With q of them and a constant it is (2 + d + q) (3 + d + q) / 2 numbers.
    """
    n_columns = X.shape[1]
    numbers = []
    for node in np.unique(nodes):
        n_rows = np.sum(nodes == node) / 2
        n_classes = len(np.unique(y[nodes == node]))
        n_told = (np.sqrt(1 + 8 * share * n_rows * n_columns) - 1) / 2
        n_held = KEPT * RULE.leverage * n_rows - n_classes
        numbers.append(int(min(n_told - 1, n_held) - n_columns - 1))
    return max(min(numbers) // DRAWN * DRAWN, 0)


def measure(cell: Cell, options: argparse.Namespace) -> dict | None:
    """Return the accuracy of what was chosen, and what was sent; None: by nobody."""
    X, y, X_test, y_test = split_raw_rows(cell.data, options, cell.seed)
    nodes = assign_nodes(cell.partition, y, cell.seed)
    rows = np.flatnonzero(takes_part(y, nodes))
    if not len(rows):
        return None
    channel = channel_to(
        safe_indexing(X, rows), y[rows], nodes[rows], RULE if cell.has_rule else None
    )
    patched = nullcontext()
    if cell.integer is not None:
        n_features = most_features(X[rows], y[rows], nodes[rows], cell.integer)
        place = "skgems.ensembles._candidates._FEATURES_UNDER_RULE"
        patched = mock.patch(place, (n_features,) if n_features else ())
    with patched:
        chosen, seconds = time_call(lambda: combine(channel, random_state=cell.seed))
    return {
        "accuracy": float(np.mean(chosen.predict(X_test) == y_test)),
        "chosen": chosen.choice_.name,
        "bytes": sum(entry["bytes"] for entry in chosen.choice_.table),
        "seconds": seconds,
    }


def run_missing(options: argparse.Namespace) -> list[dict]:
    """Run and record what is missing; return the records of the cells asked for."""
    file = JsonLines(options.records)
    records = file.read()
    cells = [
        Cell(data_set, seed, partition, has_rule, options.integer if has_rule else None)
        for seed in options.seeds
        for partition in options.partitions
        for data_set in options.sets
        for has_rule in (False, True)
    ]
    for cell in cells:
        if any(cell._asdict().items() <= record.items() for record in records):
            continue
        measured = measure(cell, options)
        if measured is None:
            print(f"{cell.data}, {cell.partition}: no node takes part", flush=True)
            continue
        record = cell._asdict() | measured
        records.append(record)
        print(record, flush=True)
        file.append(record)
    return [r for r in records if any(c._asdict().items() <= r.items() for c in cells)]


def mean_accuracy(records: list[dict], *, has_rule: bool) -> float:
    """Return the mean accuracy of some records in percent."""
    some = [record for record in records if record["has_rule"] == has_rule]
    return 100 * float(np.mean([record["accuracy"] for record in some]))


def print_table(records: list[dict]) -> list[float]:
    """Print a line a data set; return the points that each loses."""
    print("set: accuracy without the rule and under it (%), points lost; MB; chosen")
    lost = []
    for data_set in dict.fromkeys(record["data"] for record in records):
        runs = [record for record in records if record["data"] == data_set]
        without = mean_accuracy(runs, has_rule=False)
        under = mean_accuracy(runs, has_rule=True)
        lost.append(without - under)
        megabytes = [
            np.mean([r["bytes"] for r in runs if r["has_rule"] == has_rule]) / 1e6
            for has_rule in (False, True)
        ]
        chosen = dict.fromkeys(r["chosen"] for r in runs if r["has_rule"])
        print(
            f"{data_set:26}{without:6.1f}{under:6.1f}{lost[-1]:6.1f}"
            f"{megabytes[0]:7.1f}{megabytes[1]:6.1f}  {'; '.join(chosen)}"
        )
    print(f"mean of {len(lost)} sets: {np.mean(lost):.1f} points lost")
    return lost


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument(
        "--partitions", nargs="+", default=["dir0.1-5"], choices=PARTITIONS
    )
    parser.add_argument("--integer", type=float, metavar="SHARE")
    return parse_with_quick(
        parser,
        quick={"sets": ["digits"], "seeds": [0], "partitions": ["disjoint-2"]},
    )


def main() -> None:
    """Measure, and print a table."""
    options = parse_options()
    warnings.simplefilter("ignore")
    lost = print_table(run_missing(options))
    if options.quick:
        note_figure("combine under the rule", float(np.mean(lost)))


if __name__ == "__main__":
    main()
