# SPDX-License-Identifier: BSD-3-Clause
"""What the rule of disclosure costs: one message under it and without it.

`GEMSLogisticAggregator` is fitted with ``disclosure=Disclosure()``, which simulates an
exchange under the default rule in full, and with ``disclosure=None``. In between is
what it costs that nodes leave classes of fewer than ten rows out, without the rest of
the rule. With ``--n-rounds 5`` five messages are compared. Averaged weights and a soft
vote are of the same local models, which no rule changes. All are points of test
accuracy below logistic regression on all rows.

Data sets, splits and partitions are those of `_federations.py`. A node without a class
of ten rows takes no part under the rule, since it would send nothing. Where that is so
at all nodes, or where a node has fewer than three rows, a cell is left out.

With ``--codes`` tables of zeros and ones are fitted under the rule twice: with noise on
products of two columns of codes, as nodes tell them, and with zeros in their place.

With ``--time`` one node makes a summary of normal rows under the rule and without it.
Times are processor time, the least of three runs, beside that of the bare products
``X'X`` of the rows of each class about their means, in the same process. Where rows are
far out some weights are lowered.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from time import process_time
from unittest import mock

import numpy as np
from _federations import (
    BUNDLED,
    PARTITIONS,
    UNSCALED,
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
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import KBinsDiscretizer

from skgems import Disclosure, GEMSLogisticAggregator

SETS = (*BUNDLED, "penbased", "spambase", "magic", "led7digit")
CASES = {
    "homog-20": "20 nodes alike",
    "homog-5": "5 nodes alike",
    "dir0.5-5": "Dirichlet 0.5",
    "dir0.1-5": "Dirichlet 0.1",
    "disjoint-2": "2 of other classes",
}
RULE = Disclosure()
# Rows whose leverages are large, in some of the tables of ``--time``.
N_FAR_OUT = 5
TIMED = [  # rows, columns, classes, rows far out
    (20_000, 50, 2, 0),
    (20_000, 100, 2, 0),
    (20_000, 100, 10, 0),
    (10_000, 300, 2, 0),
    (3_000, 300, 2, 0),
    (20_000, 100, 2, N_FAR_OUT),
    (10_000, 300, 2, N_FAR_OUT),
    (3_000, 300, 2, N_FAR_OUT),
]
# Another rule for the cache of sums, by which the same is told.
NEARLY_RULE = Disclosure(unknowns=RULE.unknowns - 1e-9)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Points below all rows at one place, for one data set and partition."""

    no_rule: float
    large_classes: float  # no rule, but classes of fewer than ten rows are left out
    rule: float
    averaging: float
    soft_vote: float

    @property
    def lost(self) -> float:
        """What the rule costs."""
        return self.rule - self.no_rule


def is_in_large_class(federation: Federation) -> np.ndarray:
    """Rows of classes of which their node has ten rows, (n_rows,), bool."""
    _, codes = np.unique(federation.y, return_inverse=True)
    kinds = federation.nodes * (codes.max() + 1) + codes
    return np.bincount(kinds)[kinds] >= RULE.min_rows


def fit_gems(
    federation: Federation,
    is_there: np.ndarray,
    disclosure: Disclosure | None,
    n_rounds: int,
) -> GEMSLogisticAggregator:
    """Make one model from messages of the nodes that have some of the rows."""
    nodes, numbers = np.unique(federation.nodes[is_there], return_inverse=True)
    aggregator = GEMSLogisticAggregator(
        [federation.local_models[node] for node in nodes],
        n_rounds=n_rounds,
        disclosure=disclosure,
        random_state=federation.seed,
    )
    return aggregator.fit(federation.X[is_there], federation.y[is_there], nodes=numbers)


def measure(federation: Federation, split: Split, n_rounds: int) -> Cell | None:
    """Return a cell; None where the rule leaves nobody to take part."""
    is_large = is_in_large_class(federation)
    if not is_large.any():
        return None

    def points_below(model: object) -> float:
        return 100 * (accuracy - np.mean(model.predict(split.X_test) == split.y_test))

    pooled = fit_pooled(federation)
    accuracy = np.mean(pooled.predict(split.X_test) == split.y_test)
    everywhere = np.ones(len(is_large), dtype=bool)
    takes_part = np.isin(federation.nodes, federation.nodes[is_large])
    return Cell(
        no_rule=points_below(fit_gems(federation, everywhere, None, n_rounds)),
        large_classes=points_below(fit_gems(federation, is_large, None, n_rounds)),
        rule=points_below(fit_gems(federation, takes_part, RULE, n_rounds)),
        averaging=points_below(average_weights(federation)),
        soft_vote=points_below(soft_vote(federation)),
    )


def measured_in_seeds(
    name: str, partition: str, options: argparse.Namespace
) -> list[Cell]:
    """Return the cells of all seeds in which some node takes part."""
    X, y = load_data_set(name, options)
    measured = []
    for seed in options.seeds:
        split = split_rows(
            X,
            y,
            seed,
            max_rows=options.max_rows,
            standardize=name not in UNSCALED,
        )
        try:
            nodes = assign_nodes(partition, split.y, seed)
        except ValueError:  # a node has hardly any rows
            continue
        federation = Federation(X=split.X, y=split.y, nodes=nodes, seed=seed)
        measured.append(measure(federation, split, options.n_rounds))
    return [cell for cell in measured if cell is not None]


# Codes of a table: dark pixels, quarters of columns, words that are there.
CODES = {
    "digits": lambda X: X > 7,
    "breast_cancer": KBinsDiscretizer(
        4, encode="onehot-dense", quantile_method="averaged_inverted_cdf"
    ).fit_transform,
    "wine": KBinsDiscretizer(
        4, encode="onehot-dense", quantile_method="averaged_inverted_cdf"
    ).fit_transform,
    "spambase": lambda X: X[:, :-3] > 0,
    "led7digit": lambda X: X,
}


def with_zeros(scatter: np.ndarray, units: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return products in which those of two columns of codes are zero."""
    columns = np.flatnonzero(units > 0)
    zeroed = scatter.copy()
    zeroed[np.ix_(columns, columns)] = np.diag(scatter.diagonal()[columns])
    return zeroed


def measure_codes(options: argparse.Namespace) -> None:
    """Print points below no rule of noise, and of zeros, on products of codes."""
    print("data set       nodes          rows   noise   zeros")
    lost = []
    for name, partition in itertools.product(CODES, options.partitions):
        X, y = load_data_set(name, options)
        X = np.asarray(CODES[name](X), dtype=float)
        lost_by_seed = []
        for seed in options.seeds:
            split = split_rows(X, y, seed, max_rows=options.max_rows, standardize=False)
            try:
                nodes = assign_nodes(partition, split.y, seed)
            except ValueError:  # a node has hardly any rows
                continue
            federation = Federation(X=split.X, y=split.y, nodes=nodes, seed=seed)
            is_large = is_in_large_class(federation)
            if not is_large.any():
                continue
            takes_part = np.isin(nodes, nodes[is_large])
            no_rule = fit_gems(federation, is_large, None, 1)
            noise = fit_gems(federation, takes_part, RULE, 1)
            with mock.patch("skgems.moments._class_moments.with_noise", with_zeros):
                zeros = fit_gems(federation, takes_part, NEARLY_RULE, 1)
            accuracies = [
                100 * model.score(split.X_test, split.y_test)
                for model in (no_rule, noise, zeros)
            ]
            lost_by_seed.append([accuracies[0] - accuracy for accuracy in accuracies])
        if lost_by_seed:
            _, of_noise, of_zeros = np.mean(lost_by_seed, axis=0)
            lost.append([of_noise, of_zeros])
            print(
                f"{name:14} {partition:11}{len(split.y):8}{of_noise:8.2f}"
                f"{of_zeros:8.2f}",
                flush=True,
            )
    of_noise, of_zeros = np.mean(lost, axis=0)
    print(f"mean of {len(lost):3} cells{'':15}{of_noise:8.2f}{of_zeros:8.2f}")


def least_time(function: Callable[[], object]) -> float:
    """Return the least processor time of three runs, in milliseconds."""
    times = []
    for _ in range(3):
        start = process_time()
        function()
        times.append(process_time() - start)
    return 1000 * min(times)


def products_by_class(X: np.ndarray, y: np.ndarray) -> None:
    """Make the products that any summary of moments is made of."""
    for label in np.unique(y):
        deviations = X[y == label] - X[y == label].mean(axis=0)
        deviations.T @ deviations


def measure_time() -> None:
    """Print what the rule adds to the time of one summary."""
    print(
        "rows x columns    classes  far out   products  no rule     rule   rule/no rule"
    )
    ratios = {0: [], N_FAR_OUT: []}
    for n_rows, n_columns, n_classes, n_far_out in TIMED:
        rng = np.random.default_rng(0)
        y = rng.integers(n_classes, size=n_rows)
        means = 1.2 / np.sqrt(n_columns) * rng.normal(size=(n_classes, n_columns))
        X = rng.normal(size=(n_rows, n_columns)) + means[y]
        far_out = rng.integers(n_rows, size=n_far_out)
        X[far_out] *= np.linspace(0.1, 1.0, n_far_out)[:, None] * np.sqrt(n_rows)
        model = LogisticRegression(max_iter=5).fit(X, y)
        by_rule = {}
        for rule in (None, RULE):
            aggregator = GEMSLogisticAggregator(random_state=0, disclosure=rule)
            summarize = partial(aggregator.summarize, model, X, y, name="node")
            by_rule[rule] = least_time(summarize)
        products = least_time(partial(products_by_class, X, y))
        ratio = by_rule[RULE] / by_rule[None]
        ratios[n_far_out].append(ratio)
        print(
            f"{n_rows:6} x {n_columns:4}{n_classes:13}{n_far_out:9}{products:8.1f} ms"
            f"{by_rule[None]:6.0f} ms{by_rule[RULE]:6.0f} ms{ratio:12.1f}",
            flush=True,
        )
    note_figure("time of a summary under the rule", max(ratios[0]))
    note_figure("the same where weights are lowered", max(ratios[N_FAR_OUT]))


def mean_of(cells: list[Cell]) -> Cell:
    """Return the mean of each number."""
    return Cell(
        **{
            field.name: float(np.mean([getattr(cell, field.name) for cell in cells]))
            for field in fields(Cell)
        }
    )


def print_means(cells: dict[tuple[str, str], Cell]) -> None:
    """Print what the rule costs by partition, and beside other ways."""
    names = [field.name for field in fields(Cell)]
    print("\nmeans".ljust(29) + "".join(f"{name:>14}" for name in [*names, "lost"]))
    partitions = dict.fromkeys(partition for _, partition in cells)
    titles = {partition: CASES.get(partition, partition) for partition in partitions}
    for partition, title in [*titles.items(), (None, "all")]:
        some = [cell for (_, p), cell in cells.items() if partition in (p, None)]
        if some:
            mean = mean_of(some)
            numbers = [*(getattr(mean, name) for name in names), mean.lost]
            title = f"{title} ({len(some)} cells)"
            print(f"{title:28}" + "".join(f"{number:14.2f}" for number in numbers))


def main() -> None:
    """Print a line for each cell, and means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-sets", nargs="+", default=SETS)
    parser.add_argument(
        "--partitions", nargs="+", default=list(CASES), choices=PARTITIONS
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--n-rounds", type=int, default=1, help="messages")
    parser.add_argument("--max-rows", type=int, default=20_000)
    parser.add_argument("--codes", action="store_true", help="tables of codes alone")
    parser.add_argument("--time", action="store_true", help="of one summary alone")
    add_data_options(parser)
    options = parse_with_quick(
        parser,
        quick={
            "seeds": [0],
            "data_sets": list(BUNDLED),
            "partitions": ["homog-5", "disjoint-2"],
        },
    )
    warnings.simplefilter("ignore")
    if options.time:
        measure_time()
        return
    if options.codes:
        measure_codes(options)
        return
    start = process_time()
    print(
        "data set       nodes        no rule  large classes    rule  averaging  "
        "soft vote    lost"
    )
    cells = {}
    for name in options.data_sets:
        for partition in options.partitions:
            measured = measured_in_seeds(name, partition, options)
            if not measured:
                print(f"{name:14} {partition:11} left out: no class of ten rows")
                continue
            cell = mean_of(measured)
            cells[name, partition] = cell
            print(
                f"{name:14} {partition:11} {cell.no_rule:8.1f}"
                f"{cell.large_classes:15.1f}{cell.rule:8.1f}"
                f"{cell.averaging:11.1f}{cell.soft_vote:11.1f}{cell.lost:8.1f}",
                flush=True,
            )
    print_means(cells)
    lost = [cell.lost for cell in cells.values()]
    print(
        f"lost at worst: {max(lost):.1f}; {process_time() - start:.0f} s of processor"
    )
    note_figure("points that the rule costs", np.mean(lost))


if __name__ == "__main__":
    main()
