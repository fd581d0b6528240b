# SPDX-License-Identifier: BSD-3-Clause
"""Methods side by side: each measured once a cell, and a table of means over seeds.

A cell is a data set that is split once and dealt to nodes once. `today_networks.py` and
`today_trees.py` print such tables.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import process_time
from typing import NamedTuple

import numpy as np
from _federations import Split, add_data_options
from _records import Key, Records
from sklearn.base import ClassifierMixin

Heads = tuple[str, ...]  # of a column, one line below the other


class Outcome(NamedTuple):
    """What a method made of a cell."""

    model: ClassifierMixin
    n_bytes: float | None  # from a node; None where rows are in one place
    # Processor seconds of another process; None where this one did it all.
    seconds: float | None = None


def add_options(parser: ArgumentParser, methods: Iterable[str]) -> None:
    """Options of data sets, methods and records."""
    add_data_options(parser)
    parser.add_argument("--records", help="file of results, read and appended to")
    parser.add_argument("--max-rows", type=int, help="to train on; all unless told")
    parser.add_argument("--methods", nargs="+", choices=methods)
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0")
    parser.add_argument("--verbose", action="store_true")


def run_and_print(
    options: Namespace, run_cells: Callable, print_tables: Callable
) -> None:
    """Run what is missing in the records and print the tables."""
    warnings.simplefilter("ignore", UserWarning)
    records = Records(options.records)
    places = run_cells(records, options)
    print_tables(records, places, options)
    records.exit_if_failed()


def measure(make: Callable[[], Outcome], split: Split) -> dict:
    """Time a method and judge what it made on the test rows."""
    start = process_time()
    outcome = make()
    seconds = process_time() - start
    predicted = outcome.model.predict(split.X_test)
    return {
        "accuracy": float(np.mean(predicted == split.y_test)),
        "bytes": None if outcome.n_bytes is None else round(outcome.n_bytes),
        "seconds": round(seconds if outcome.seconds is None else outcome.seconds, 4),
        "n_test": len(split.y_test),
    }


def measure_missing(
    records: Records,
    makers: Iterable[tuple[Key, Callable[[], Outcome]]],
    split: Split,
    *,
    verbose: bool,
) -> None:
    """Run the methods of a cell that have no record yet."""

    def print_if_verbose(figures: dict, key: Key) -> None:
        if verbose:
            print(" ".join(str(part) for part in key), figures, flush=True)

    for key, make in makers:
        records.measure_once(
            key,
            partial(measure, make, split),
            on_success=partial(print_if_verbose, key=key),
            on_failure=print,
        )


def mean_of(records: Records, keys: Iterable[Key], figure: str) -> float | None:
    """The mean over the cells that have been run; None without any."""
    results = [records.get(key) for key in keys]
    values = [result[figure] for result in results if result is not None]
    values = [value for value in values if value is not None]
    return float(np.mean(values)) if values else None


def print_table(
    records: Records,
    columns: dict[Heads, Callable[[str], list[Key]]],
    methods: Sequence[str],
    title: str,
) -> dict[tuple[str, Heads], float]:
    """A line a method: accuracy in percent by column, then MB from a node, and seconds.

    ``columns`` have for each column a function of a method to the keys of its cells.
    Bytes and seconds are means of all columns. Returns the accuracies.
    """
    print(f"\n{title}: test accuracy in percent; MB from a node; seconds")
    for line_of_heads in zip(*columns, strict=True):
        print(" " * 24 + "".join(f"{head[:11]:>12}" for head in line_of_heads))
    accuracies = {}
    for method in methods:
        line = f"{method:24}"
        for heads, keys_of in columns.items():
            mean = mean_of(records, keys_of(method), "accuracy")
            line += f"{'-':>12}" if mean is None else f"{100 * mean:12.1f}"
            if mean is not None:
                accuracies[method, heads] = mean
        keys = [key for keys_of in columns.values() for key in keys_of(method)]
        n_bytes = mean_of(records, keys, "bytes")
        seconds = mean_of(records, keys, "seconds")
        line += f"{'-':>8}" if n_bytes is None else f"{n_bytes / 1e6:8.2f}"
        line += f"{'-':>8}" if seconds is None else f"{seconds:8.2f}"
        print(line)
    return accuracies


def print_defeats(
    accuracies: dict[tuple[str, Heads], float],
    ours: Sequence[str],
    simple: Sequence[str],
) -> None:
    """The columns in which one of ours is below one of the simple ways."""
    for (method, heads), accuracy in accuracies.items():
        for rival in simple:
            points = 100 * (accuracies.get((rival, heads), 0.0) - accuracy)
            if method in ours and points > 0:
                print(f"{method} is {points:.1f} below {rival}: {', '.join(heads)}")
