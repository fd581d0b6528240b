# SPDX-License-Identifier: BSD-3-Clause
"""Forests that are grown from histograms of all nodes, beside other ways to a forest.

Points of test accuracy on raw rows, over data sets x partitions x seeds: of the forests
that `PooledAggregator` grows from histograms, exact ones and those of nodes that round
counts to multiples of ``min_rows``; of totally random trees, for which nodes send one
message; of the nodes' own forests, alone, in a vote and merged; of two linear models
from sums; and of scikit-learn's forest on all rows at one place. Also messages, bytes
and processor seconds. ``--depths`` prints accuracies by depth and ``min_rows``,
``--drawn`` those of totally random trees by their number and depth, and ``--speed`` the
time and memory of a fit on many rows. The tables of the guide's page on trees are made
by it.

``--records`` keeps results, one line of JSON each, and runs only what is missing.
"""

from __future__ import annotations

import argparse
import resource
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from time import process_time

import numpy as np
from _federations import Split, assign_nodes, rule_of
from _quick import note_figure, parse_with_quick
from _raw_rows import add_options, split_raw_rows
from _records import JsonLines
from sklearn.base import ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    PooledAggregator,
    combine,
    merge_forests,
)
from skgems.asking import Nodes
from skgems.guard import Agreement, reply_to

SETS = ("digits", "penbased", "spambase", "magic", "led7digit", "movement_libras")
PARTITIONS = ("disjoint-2", "dir0.1-5")
N_TREES = 50
DEPTH = 8
# Rounding empties the leaves of deep trees, and rules of few features say less.
SHALLOW = 4
MIN_ROWS = 10

# Trees that are drawn, and not grown, need more levels and more of them: deeper ones
# cost bytes, but no further message.
N_DRAWN_TREES = 100
DEPTH_OF_DRAWN_TREES = 14

# The table of drawn trees: how many there are, and how deep they are.
SIZES_OF_DRAWN = (
    (50, 8),
    (50, 11),
    (50, 14),
    (50, 16),
    (100, 11),
    (100, 14),
    (200, 14),
)
PARTITION_OF_DRAWN = "dir0.1-5"

# The table by depth.
SETS_BY_DEPTH = ("penbased", "spambase", "magic")
PARTITION_BY_DEPTH = "homog-5"  # so that every class at a node has over 50 rows
DEPTHS = (2, 4, 6, 8, 10)
BOUNDS = (1, 10, 50)

# What `--speed` times: trees of this depth over so many rows, at so many nodes.
SPEED_ROWS = 100_000
SPEED_DEPTH = 10
SPEED_TREES = 100
SPEED_NODES = 5
SPEED_ROUNDS = 100  # of boosted trees of depth 4

# Defaults of options with --quick.
QUICK = {"sets": ["digits"], "partitions": ["dir0.1-5"], "rows": 50_000}


def forest(seed: int, *, depth: int = DEPTH) -> RandomForestClassifier:
    """A forest that is not fitted."""
    return RandomForestClassifier(N_TREES, max_depth=depth, random_state=seed)


def extra_trees(seed: int) -> ExtraTreesClassifier:
    """Extremely randomized trees that are not fitted."""
    return ExtraTreesClassifier(N_TREES, max_depth=DEPTH, random_state=seed)


def drawn_trees(
    seed: int, *, n_trees: int = N_DRAWN_TREES, depth: int = DEPTH_OF_DRAWN_TREES
) -> ExtraTreesClassifier:
    """Totally random trees that are not fitted, for which one message is enough."""
    return ExtraTreesClassifier(
        n_trees, max_depth=depth, max_features=1, random_state=seed
    )


def boosting(seed: int) -> HistGradientBoostingClassifier:
    """Boosted trees that are not fitted."""
    return HistGradientBoostingClassifier(
        max_iter=N_TREES,
        max_depth=SHALLOW,
        max_leaf_nodes=None,
        early_stopping=False,
        random_state=seed,
    )


def grow(
    classifier: ClassifierMixin, split: Split, nodes: np.ndarray, *, min_rows: int = 1
) -> PooledAggregator:
    """The classifier from the histograms of nodes that reply under a bound."""
    aggregator = PooledAggregator(pooled=classifier)
    if min_rows == 1:
        return aggregator.fit(split.X, split.y, nodes=nodes)

    agreement = Agreement.of(aggregator, disclosure=rule_of(min_rows))
    ledgers: dict[str, dict] = {}

    def ask(requests: dict) -> dict:
        replies = {}
        for name, request in requests.items():
            at_node = nodes == int(name)
            replies[name] = reply_to(
                request,
                None,
                split.X[at_node],
                split.y[at_node],
                name=name,
                disclosure=rule_of(min_rows),
                agreement=agreement,
                state=ledgers.setdefault(name, {}),
            )
        return replies

    # Nodes without a class of so many rows send nothing.
    names = [
        str(k)
        for k in range(nodes.max() + 1)
        if np.unique(split.y[nodes == k], return_counts=True)[1].max() >= min_rows
    ]
    channel = Nodes(ask, names, agreement=agreement)
    return aggregator.set_params(estimators=channel).fit()


def costs(aggregator: PooledAggregator) -> dict[str, float]:
    """Messages to each node, and the mean bytes from and to a node."""
    history = aggregator.history_
    n_nodes = len(aggregator.node_names_)
    return {
        "messages": len(history),
        "bytes": sum(message["bytes_received"] for message in history) / n_nodes,
        "bytes_sent": sum(message["bytes_sent"] for message in history) / n_nodes,
    }


# Accuracies --------------------------------------------------------------------------


def ways_to_a_model(
    split: Split, nodes: np.ndarray, seed: int
) -> dict[str, Callable[[], object]]:
    """Ways to make one model, by name; each returns a fitted model."""
    at_nodes = [nodes == k for k in range(nodes.max() + 1)]
    sites = [forest(seed).fit(split.X[rows], split.y[rows]) for rows in at_nodes]
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=1e-3)
    shallow = forest(seed, depth=SHALLOW)
    return {
        "best site": lambda: max(
            sites, key=lambda site: site.score(split.X_test, split.y_test)
        ),
        "vote": lambda: EnsembleAggregator(sites).fit(),
        "merged": lambda: merge_forests(sites),
        "LDA": lambda: PooledAggregator(pooled=lda).fit(split.X, split.y, nodes=nodes),
        "linear": lambda: GEMSLogisticAggregator(
            [(str(k), None) for k in range(len(sites))], random_state=seed
        ).fit(split.X, split.y, nodes=nodes),
        "forest": lambda: grow(forest(seed), split, nodes),
        "rounded": lambda: grow(forest(seed), split, nodes, min_rows=MIN_ROWS),
        "shallow": lambda: grow(shallow, split, nodes, min_rows=MIN_ROWS),
        "extra trees": lambda: grow(extra_trees(seed), split, nodes),
        "drawn": lambda: grow(drawn_trees(seed), split, nodes),
        "drawn, rounded": lambda: grow(
            drawn_trees(seed), split, nodes, min_rows=MIN_ROWS
        ),
        "combine": lambda: combine(
            X=split.X, y=split.y, nodes=nodes, random_state=seed
        ),
        "boosting": lambda: grow(boosting(seed), split, nodes),
        "all rows": lambda: forest(seed).fit(split.X, split.y),
        "boosting of all": lambda: boosting(seed).fit(split.X, split.y),
    }


def measure(
    data_set: str,
    partition: str,
    seed: int,
    options: Namespace,
    *,
    names_done: set[str],
) -> Iterator[tuple[str, dict]]:
    """Names and results of the ways that are missing."""
    split = split_raw_rows(data_set, options, seed)
    nodes = assign_nodes(partition, split.y, seed)
    for name, make in ways_to_a_model(split, nodes, seed).items():
        if name in names_done:
            continue
        start = process_time()
        model = make()
        scores = {"seconds": process_time() - start}
        scores["accuracy"] = model.score(split.X_test, split.y_test)
        if isinstance(model, PooledAggregator):
            scores |= costs(model)
        yield name, scores


def measure_depths(
    data_set: str,
    partition: str,
    seed: int,
    options: Namespace,
    *,
    names_done: set[str],
) -> Iterator[tuple[str, dict]]:
    """Results of forests by depth and by the bound that nodes reply under."""
    trees_by_name = {
        f"depth {depth}, min_rows {min_rows}": (forest(seed, depth=depth), min_rows)
        for depth in DEPTHS
        for min_rows in BOUNDS
    }
    return measure_trees(
        trees_by_name, data_set, partition, seed, options, names_done=names_done
    )


def measure_drawn(
    data_set: str,
    partition: str,
    seed: int,
    options: Namespace,
    *,
    names_done: set[str],
) -> Iterator[tuple[str, dict]]:
    """Results of drawn trees by their number and depth."""
    trees_by_name = {
        f"{n_trees} trees of depth {depth}, min_rows={min_rows}": (
            drawn_trees(seed, n_trees=n_trees, depth=depth),
            min_rows,
        )
        for n_trees, depth in SIZES_OF_DRAWN
        for min_rows in (1, MIN_ROWS)
    }
    return measure_trees(
        trees_by_name, data_set, partition, seed, options, names_done=names_done
    )


def measure_trees(
    trees_by_name: dict[str, tuple[ClassifierMixin, int]],
    data_set: str,
    partition: str,
    seed: int,
    options: Namespace,
    *,
    names_done: set[str],
) -> Iterator[tuple[str, dict]]:
    """Accuracy and costs of trees, each with the bound min_rows of the nodes."""
    split = split_raw_rows(data_set, options, seed)
    nodes = assign_nodes(partition, split.y, seed)
    for name, (trees, min_rows) in trees_by_name.items():
        if name in names_done:
            continue
        model = grow(trees, split, nodes, min_rows=min_rows)
        scores = {"accuracy": model.score(split.X_test, split.y_test)}
        yield name, scores | costs(model)


def run_missing(
    options: Namespace, measure_cell: Callable, partitions: Sequence[str]
) -> list[dict]:
    """Run and record the cells that are missing; returns the records asked for."""
    file = JsonLines(options.records)
    records = file.read()
    wanted = []
    for seed in options.seeds:
        for data_set in options.sets:
            for partition in partitions:
                cell = {
                    "table": measure_cell.__name__,
                    "data": data_set,
                    "seed": seed,
                    "partition": partition,
                }
                known = [r for r in records if cell.items() <= r.items()]
                names_done = {record["name"] for record in known}
                for name, scores in measure_cell(
                    data_set, partition, seed, options, names_done=names_done
                ):
                    known.append(cell | {"name": name} | scores)
                    print(known[-1], flush=True)
                    file.append(known[-1])
                wanted.extend(known)
    return wanted


# Tables ------------------------------------------------------------------------------


def mean_of(records: list[dict], field: str, **wanted: str) -> float:
    """The mean of a field over the records that have the wanted entries."""
    values = [r[field] for r in records if wanted.items() <= r.items()]
    return float(np.mean(values))


def print_accuracies(records: list[dict]) -> None:
    """A line for each data set and partition, and the means and costs of each way."""
    names = list(dict.fromkeys(record["name"] for record in records))
    print(f"{'set':16}{'partition':>12}" + "".join(f"{name:>16}" for name in names))
    for data_set, partition in dict.fromkeys(
        (record["data"], record["partition"]) for record in records
    ):
        cell = {"data": data_set, "partition": partition}
        means = [100 * mean_of(records, "accuracy", **cell, name=n) for n in names]
        print(f"{data_set:16}{partition:>12}" + "".join(f"{m:16.1f}" for m in means))
    means = [100 * mean_of(records, "accuracy", name=name) for name in names]
    print(f"{'mean':28}" + "".join(f"{mean:16.1f}" for mean in means))
    for name, mean in zip(names, means, strict=True):
        note_figure(f"{name}, accuracy", mean)
        line = f"{name}: {mean_of(records, 'seconds', name=name):.1f} processor seconds"
        of_name = [record for record in records if record["name"] == name]
        # What `combine` returns is not always made from sums in this way.
        if all("messages" in record for record in of_name):
            note_figure(f"{name}, bytes", mean_of(records, "bytes", name=name))
            line += (
                f", {mean_of(records, 'messages', name=name):.0f} messages, a node: "
                f"{mean_of(records, 'bytes', name=name) / 1e3:.0f} kB sent (at most "
                f"{max(record['bytes'] for record in of_name) / 1e3:.0f}), "
                f"{mean_of(records, 'bytes_sent', name=name) / 1e3:.0f} kB received"
            )
        print(line)


def print_depths(records: list[dict]) -> None:
    """Accuracies and kilobytes from a node, by depth and bound."""
    for data_set in dict.fromkeys(record["data"] for record in records):
        for min_rows in BOUNDS:
            cells = []
            for depth in DEPTHS:
                name = f"depth {depth}, min_rows {min_rows}"
                cell = {"data": data_set, "name": name}
                accuracy = 100 * mean_of(records, "accuracy", **cell)
                kilobytes = mean_of(records, "bytes", **cell) / 1e3
                cells.append(f"{accuracy:6.1f} ({kilobytes:5.0f} kB)")
            print(f"{data_set:10} min_rows={min_rows:<3}", *cells)
    print(f"depths {DEPTHS}")


def print_drawn(records: list[dict]) -> None:
    """Mean accuracy over the data sets, and the most kilobytes from a node."""
    for name in dict.fromkeys(record["name"] for record in records):
        accuracy = 100 * mean_of(records, "accuracy", name=name)
        most = max(record["bytes"] for record in records if record["name"] == name)
        print(f"{name}: {accuracy:.1f}, at most {most / 1e3:.0f} kB")


def time_many_rows(n_rows: int) -> None:
    """Processor seconds and memory of a fit at nodes in this process, and beside it."""
    X, y = make_classification(
        n_rows, n_features=20, n_informative=10, n_classes=5, random_state=0
    )
    nodes = np.arange(n_rows) % SPEED_NODES
    unfitted = RandomForestClassifier(
        SPEED_TREES, max_depth=SPEED_DEPTH, random_state=0
    )
    models = {
        "RandomForestClassifier": unfitted,
        "from histograms": PooledAggregator(pooled=unfitted),
    }
    for name, model in models.items():
        start = process_time()
        if isinstance(model, PooledAggregator):
            model.fit(X, y, nodes=nodes)
        else:
            model.fit(X, y)
        seconds = process_time() - start
        # The most memory so far: scikit-learn's fit comes first, and needs less.
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        line = f"{name}: {seconds:.0f} processor seconds, {megabytes:.0f} MB at most"
        if isinstance(model, PooledAggregator):
            cost = costs(model)
            line += (
                f", {cost['messages']} messages, {cost['bytes'] / 1e6:.1f} MB from a "
                f"node, {cost['bytes_sent'] / 1e6:.1f} MB to it"
            )
        print(line, flush=True)
    time_boosting(X, y, nodes)


def time_boosting(X: np.ndarray, y: np.ndarray, nodes: np.ndarray) -> None:
    """Processor seconds of boosted trees, beside those of scikit-learn's."""
    unfitted = HistGradientBoostingClassifier(
        max_iter=SPEED_ROUNDS, max_depth=4, max_leaf_nodes=None, early_stopping=False
    )
    start = process_time()
    unfitted.fit(X, y)
    seconds_at_one_place = process_time() - start
    start = process_time()
    PooledAggregator(pooled=unfitted).fit(X, y, nodes=nodes)
    seconds = process_time() - start
    note_figure("times boosting at one place", seconds / seconds_at_one_place)
    print(
        f"HistGradientBoostingClassifier: {seconds_at_one_place:.1f} processor seconds"
        f"\nboosting from histograms: {seconds:.1f} processor seconds, "
        f"{seconds / seconds_at_one_place:.1f} times as many",
        flush=True,
    )


def main() -> None:
    """Run what is missing and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.set_defaults(sets=None, seeds=[0])
    parser.add_argument("--partitions", nargs="+", default=list(PARTITIONS))
    parser.add_argument("--depths", action="store_true", help="by depth and min_rows")
    parser.add_argument("--drawn", action="store_true", help="by number and depth")
    parser.add_argument("--speed", action="store_true", help="time many rows alone")
    parser.add_argument("--rows", type=int, default=SPEED_ROWS, help="of --speed")
    options = parse_with_quick(parser, quick=QUICK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if options.speed:
            time_many_rows(options.rows)
        elif options.depths:
            options.sets = options.sets or SETS_BY_DEPTH
            print_depths(run_missing(options, measure_depths, (PARTITION_BY_DEPTH,)))
        elif options.drawn:
            options.sets = options.sets or SETS
            print_drawn(run_missing(options, measure_drawn, (PARTITION_OF_DRAWN,)))
        else:
            options.sets = options.sets or SETS
            print_accuracies(run_missing(options, measure, options.partitions))


if __name__ == "__main__":
    main()
