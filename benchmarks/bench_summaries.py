# SPDX-License-Identifier: BSD-3-Clause
"""Bytes of a node's summary against the accuracy of what is made of all of them.

Five nodes fit LogisticRegression and summarize, with three kinds of moments and fewer
clusters; the aggregate is fitted on the summaries alone. "points" are percent of test
accuracy below LogisticRegression on all training rows in one place ("pooled"), means of
the seeds. Bytes are those of the files, means of the nodes; "space" is what
``space=True`` adds, which the likeliest model takes no notice of unless an epsilon is
given. The table of bytes on the guide's page on privacy is made by it.

digits are run over all settings, other data sets over a choice of them (``--all``:
all). Rows are split, scaled and dealt as in ``bench_pooled_gap.py``.
"""

from __future__ import annotations

import argparse
import warnings
from argparse import Namespace
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np
from _federations import (
    MNIST,
    TABULAR,
    Federation,
    Split,
    add_data_options,
    assign_nodes,
    average_weights,
    fit_pooled,
    load_data_set,
    soft_vote,
    split_rows,
)
from _quick import note_figure, parse_with_quick
from sklearn.base import ClassifierMixin

from skgems import GEMSLogisticAggregator
from skgems.gems import Moments


class Setting(NamedTuple):
    """What is told of the rows."""

    moments: str
    n_components: int


ALL_SETTINGS = [
    Setting(moments, n_components)
    for moments, n_components in product(("class", "shared", "diagonal"), (16, 4, 1))
]
CHOSEN_SETTINGS = [
    Setting("class", 16),
    Setting("class", 1),
    Setting("shared", 16),
    Setting("diagonal", 16),
    Setting("diagonal", 1),
]
# What the aggregates of summaries are compared with, beside the pooled model.
BASELINES = {"averaging": average_weights, "soft_vote": soft_vote}


def n_bytes(summary) -> int:
    """The size of a summary's file."""
    return len(summary.message.to_bytes())


def percent_right(model: ClassifierMixin, split: Split) -> float:
    """Accuracy on test rows, in percent."""
    return 100 * np.mean(model.predict(split.X_test) == split.y_test)


def unfitted_aggregator(setting: Setting, seed: int) -> GEMSLogisticAggregator:
    """What all nodes have agreed on."""
    return GEMSLogisticAggregator(
        moments=Moments(setting.moments, n_components=setting.n_components),
        random_state=seed,
    )


def summarize_node(federation: Federation, node: int, setting: Setting, *, space: bool):
    """The summary of one node, with or without its space."""
    in_node = federation.nodes == node
    return unfitted_aggregator(setting, federation.seed).summarize(
        federation.local_models[node],
        federation.X[in_node],
        federation.y[in_node],
        name=str(node),
        disclosure=None,
        space=space,
    )


def bytes_of_space(federation: Federation, setting: Setting) -> int:
    """How much larger the first node's summary is with its space."""
    with_space = summarize_node(federation, 0, setting, space=True)
    without = summarize_node(federation, 0, setting, space=False)
    return n_bytes(with_space) - n_bytes(without)


def measure_setting(
    federation: Federation, split: Split, setting: Setting
) -> tuple[float, float]:
    """Mean bytes of a summary, and percent right of what is made of all of them."""
    summaries = [
        summarize_node(federation, node, setting, space=False)
        for node in range(len(federation.local_models))
    ]
    aggregator = unfitted_aggregator(setting, federation.seed)
    aggregator.set_params(estimators=summaries).fit()
    mean_bytes = np.mean([n_bytes(summary) for summary in summaries])
    return mean_bytes, percent_right(aggregator, split)


@dataclass(kw_only=True)
class Figures:
    """What the seeds gave on one data set and partition; a list has one a seed."""

    pooled: list[float] = field(default_factory=list)
    baselines: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    space_bytes: list[int] = field(default_factory=list)
    settings: dict[Setting, list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add_seed(
        self, federation: Federation, split: Split, settings: list[Setting]
    ) -> None:
        """Fit and judge everything once."""
        self.pooled.append(percent_right(fit_pooled(federation), split))
        for name, merge in BASELINES.items():
            self.baselines[name].append(percent_right(merge(federation), split))
        self.space_bytes.append(bytes_of_space(federation, settings[0]))
        for setting in settings:
            self.settings[setting].append(measure_setting(federation, split, setting))

    def print_lines(self, partition: str) -> None:
        """Means of the seeds, in points below the pooled model."""
        pooled = np.mean(self.pooled)
        kilobytes = np.mean(self.space_bytes) / 1000
        print(f"  pooled {pooled:.1f}, a space {kilobytes:.0f} kB more")
        for name, percents in self.baselines.items():
            points = pooled - np.mean(percents)
            note_figure(f"{partition}, {name}, points", points)
            print(f"  {name:40s} {'':9s} {points:6.1f} points")
        for setting, figures in self.settings.items():
            mean_bytes, percent = np.mean(figures, axis=0)
            title = f"{setting.moments:9s}{setting.n_components:3d} clusters"
            note_figure(f"{partition}, {title}, kB", mean_bytes / 1000)
            note_figure(f"{partition}, {title}, points", pooled - percent)
            print(
                f"  {title:40s} {mean_bytes / 1000:7.1f} kB "
                f"{pooled - percent:6.1f} points",
                flush=True,
            )


def print_table(
    data_set: str, partition: str, settings: list[Setting], options: Namespace
) -> None:
    """Print the settings of one data set, dealt one way."""
    X, y = load_data_set(data_set, options)
    figures = Figures()
    for seed in options.seeds:
        split = split_rows(
            X, y, seed, max_rows=options.max_rows, standardize=data_set != MNIST
        )
        try:
            nodes = assign_nodes(partition, split.y, seed)
        except ValueError as error:
            print(f"\n{data_set}, {partition}: left out, {error}")
            return
        federation = Federation(X=split.X, y=split.y, nodes=nodes, seed=seed)
        figures.add_seed(federation, split, settings)
    print(
        f"\n{data_set}, {partition}, {len(split.y)} rows, {split.X.shape[1]} features"
    )
    figures.print_lines(partition)


def parse_options() -> Namespace:
    """Options, with the data sets that can be read filled in."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_data_options(parser)
    parser.add_argument("--data", default=None, help="any X, y in an npz")
    parser.add_argument("--data-sets", nargs="+", default=None)
    parser.add_argument("--partitions", nargs="+", default=["disjoint-5", "homog-5"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--max-rows", type=int, default=5000)
    parser.add_argument("--all", action="store_true")
    options = parse_with_quick(parser, quick={"data_sets": ["digits"], "seeds": [0]})
    if options.data_sets is None:
        options.data_sets = ["digits"]
        options.data_sets += [] if options.tabular is None else list(TABULAR)
        options.data_sets += [] if options.mnist is None else [MNIST]
    return options


def main() -> None:
    """Print all tables."""
    options = parse_options()
    warnings.simplefilter("ignore")
    for data_set in options.data_sets:
        all_settings = options.all or (data_set == "digits" and not options.quick)
        settings = ALL_SETTINGS if all_settings else CHOSEN_SETTINGS
        for partition in options.partitions:
            print_table(data_set, partition, settings, options)


if __name__ == "__main__":
    main()
