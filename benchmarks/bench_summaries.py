# SPDX-License-Identifier: BSD-3-Clause
"""Bytes of a node's summary against the accuracy of what is made of all of them.

Five nodes fit LogisticRegression and summarize, with fewer digits, matrices of low
rank, other kinds of moments and fewer clusters; the aggregate is fitted on the
summaries alone. "points" are percent of test accuracy below LogisticRegression on all
training rows in one place ("pooled"), means of the seeds. Bytes are those of the files,
means of the nodes; "space" is what ``space=True`` adds, which the likeliest model takes
no notice of unless an epsilon is given.

digits are run over all settings, other data sets over a choice of them (``--all``:
all). Rows are split, scaled and dealt as in ``bench_pooled_gap.py``.
"""

from __future__ import annotations

import argparse
import os
import warnings
from itertools import product
from typing import NamedTuple

import numpy as np
from _protocol import DATA_VARIABLE
from bench_pooled_gap import (
    MNIST,
    TABULAR,
    TABULAR_VARIABLE,
    Split,
    averaging,
    deal,
    fit_locals,
    load,
    pooled,
    soft_vote,
)

from skgems import GEMSLogisticAggregator


class Setting(NamedTuple):
    """What is told of the rows."""

    moments: str
    n_components: int
    dtype: str
    rank: int | None


DTYPES = ("float64", "float32", "float16")
RANKS = (None, 50, 20, 5)
WHOLE = [
    Setting(moments, n, dtype, rank)
    for moments, n, dtype, rank in product(
        ("class", "shared", "diagonal"), (16, 4, 1), DTYPES, RANKS
    )
    if rank is None or moments != "diagonal"
]
CHOICE = [
    Setting("class", 16, "float64", None),
    Setting("class", 16, "float32", None),
    Setting("class", 16, "float16", None),
    Setting("class", 1, "float16", None),
    Setting("class", 16, "float16", 50),
    Setting("class", 16, "float16", 20),
    Setting("class", 16, "float16", 5),
    Setting("shared", 16, "float16", None),
    Setting("shared", 16, "float16", 20),
    Setting("diagonal", 16, "float64", None),
    Setting("diagonal", 16, "float16", None),
    Setting("diagonal", 1, "float16", None),
]


def n_bytes(summary) -> int:
    """Of the file."""
    return len(summary.message.to_bytes())


def told(split: Split, locals_, nodes, seed: int, setting: Setting, **options):
    """The nodes' summaries; and what they are made for."""
    aggregator = GEMSLogisticAggregator(
        moments=setting.moments, n_components=setting.n_components, random_state=seed
    )
    summaries = [
        aggregator.summarize(
            model,
            split.X[nodes == node],
            split.y[nodes == node],
            name=str(node),
            min_rows=1,
            dtype=setting.dtype,
            rank=setting.rank,
            **options,
        )
        for node, model in enumerate(locals_)
    ]
    return aggregator, summaries


def run(split: Split, locals_, nodes, seed: int, setting: Setting) -> tuple:
    """Bytes, bytes of a space, and accuracy."""
    aggregator, summaries = told(split, locals_, nodes, seed, setting, space=False)
    size = np.mean([n_bytes(summary) for summary in summaries])
    aggregator.set_params(estimators=summaries).fit()
    return size, accuracy(aggregator, split)


def accuracy(model, split: Split) -> float:
    """On test rows, in percent."""
    return 100 * np.mean(model.predict(split.X_test) == split.y_test)


def table(data: str, partition: str, settings, options) -> None:
    """Print the settings of one data set, dealt one way."""
    X, y = load(data, options)
    found, others, spaces = {}, {}, []
    for seed in options.seeds:
        split = Split.of(X, y, seed, max_rows=options.max_rows, scale=data != MNIST)
        try:
            nodes = deal(partition, split.y, seed)
        except ValueError as error:
            print(f"\n{data}, {partition}: left out, {error}")
            return
        locals_ = fit_locals("logistic", split.X, split.y, nodes)
        for method in (pooled, averaging, soft_vote):
            model = method(locals_, split.X, split.y, nodes, seed)
            others.setdefault(method.__name__, []).append(accuracy(model, split))
        first = settings[0]
        with_space, without = (
            told(split, locals_[:1], nodes, seed, first, space=space)[1][0]
            for space in (True, False)
        )
        spaces.append(n_bytes(with_space) - n_bytes(without))
        for setting in settings:
            result = run(split, locals_, nodes, seed, setting)
            found.setdefault(setting, []).append(result)
    mark = np.mean(others.pop("pooled"))
    print(f"\n{data}, {partition}, {len(split.y)} rows, {split.X.shape[1]} features")
    print(f"  pooled {mark:.1f}, a space {np.mean(spaces) / 1000:.0f} kB more")
    for name, values in others.items():
        print(f"  {name:40s} {'':9s} {mark - np.mean(values):6.1f} points")
    for setting, results in found.items():
        size, own = np.mean(results, axis=0)
        words = f"{setting.moments:9s}{setting.n_components:3d} clusters  "
        words += f"{setting.dtype}, rank {setting.rank}"
        print(
            f"  {words:40s} {size / 1000:7.1f} kB {mark - own:6.1f} points", flush=True
        )


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mnist", default=os.environ.get(DATA_VARIABLE))
    parser.add_argument("--tabular", default=os.environ.get(TABULAR_VARIABLE))
    parser.add_argument("--data", default=None, help="any X, y in an npz")
    parser.add_argument("--data-sets", nargs="+", default=None)
    parser.add_argument("--partitions", nargs="+", default=["disjoint-5", "homog-5"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--max-rows", type=int, default=5000)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    data_sets = options.data_sets
    if data_sets is None:
        data_sets = ["digits"]
        data_sets += [] if options.tabular is None else list(TABULAR)
        data_sets += [] if options.mnist is None else [MNIST]
    warnings.simplefilter("ignore")
    for data in data_sets:
        settings = WHOLE if data == "digits" or options.all else CHOICE
        for partition in options.partitions:
            table(data, partition, settings, options)


if __name__ == "__main__":
    main()
