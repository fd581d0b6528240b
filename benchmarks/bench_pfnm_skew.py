# SPDX-License-Identifier: BSD-3-Clause
"""PFNM where classes are split unevenly: test accuracy and units, mean over trials.

MNIST over ten nodes with networks of 100 units as `_networks.py` trains them, evenly
and by Dirichlet(0.5) and (0.2). PFNM with its defaults has the rows of the nodes, and
makes a last layer of moments. Without rows it has counts of classes, or the networks
alone. Beside it stands PFNM with as many units as one node has, by both costs of new
atoms. The rivals are an average of the weights, the vote, and the vote weighted by
classes.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser
from collections.abc import Iterator

import numpy as np
from _networks import (
    PARTITIONS,
    average_accuracy,
    class_counts,
    ensemble_accuracies,
    node_networks,
)
from _protocol import DATA_VARIABLE, add_arguments, load_mnist, split
from _quick import note_figure, parse_with_quick

from skgems import PFNMAggregator
from skgems.pfnm import Matching, PoorMatchWarning

HIDDEN = (100,)

Rows = tuple[np.ndarray, np.ndarray]  # features and labels


def trial_scores(
    estimators: list,
    counts: np.ndarray,
    trial: int,
    *,
    local_rows: Rows,
    nodes: np.ndarray,  # of the local rows
    scored_rows: Rows,
) -> Iterator[tuple[str, float, float]]:
    """Names of models, their accuracies, and their hidden units."""
    X, y = scored_rows
    n_all = HIDDEN[0] * sum(hasattr(estimator, "coefs_") for estimator in estimators)
    local, uniform, weighted = ensemble_accuracies(estimators, counts, X, y)
    yield "local networks", local, HIDDEN[0]
    yield "average", average_accuracy(estimators, X, y), HIDDEN[0]
    yield "vote", uniform, n_all
    yield "vote by classes", weighted, n_all
    aggregators = {
        "PFNM of counts": PFNMAggregator(estimators),
        "PFNM at a node's width": PFNMAggregator(estimators, max_units=HIDDEN[0]),
        "the same, rising cost": PFNMAggregator(
            estimators,
            max_units=HIDDEN[0],
            matching=Matching(new_atom_cost="ordered"),
        ),
    }
    for name, aggregator in aggregators.items():
        aggregator.set_params(random_state=trial).fit(n_class_samples=counts)
        yield name, aggregator.score(X, y), aggregator.n_units_[0]
    aggregator = PFNMAggregator(estimators, random_state=trial).fit()
    yield "PFNM of networks", aggregator.score(X, y), aggregator.n_units_[0]
    aggregator.fit(*local_rows, nodes)
    yield "PFNM", aggregator.score(X, y), aggregator.n_units_[0]


def main() -> None:
    """Print a table for each partition."""
    parser = add_arguments(ArgumentParser(description=__doc__))
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--partitions", nargs="*", default=list(PARTITIONS))
    parser.add_argument("--glorot", action="store_true", help="start as is usual")
    parser.add_argument(
        "--selection", action="store_true", help="score on selection rows, not on test"
    )
    options = parse_with_quick(
        parser,
        quick={"partitions": ["Dirichlet 0.2"], "trials": 1},
        needs={"data": DATA_VARIABLE},
    )
    # At a node's width.
    warnings.simplefilter("ignore", PoorMatchWarning)
    train_rows = load_mnist(options.data)
    test = load_mnist(options.data, test=True)
    for name in options.partitions:
        results: dict[str, list] = {}
        for trial in range(options.trials):
            estimators, rows, nodes = node_networks(
                name,
                options.nodes,
                HIDDEN,
                trial,
                train_rows,
                cache_dir=options.cache,
                glorot=options.glorot,
            )
            counts = class_counts(train_rows[1][rows], nodes, options.nodes)
            scored = test
            if options.selection:
                selection = split(trial)[2]
                scored = (train_rows[0][selection], train_rows[1][selection])
            scores = trial_scores(
                estimators,
                counts,
                trial,
                local_rows=(train_rows[0][rows], train_rows[1][rows]),
                nodes=nodes,
                scored_rows=scored,
            )
            for model, *result in scores:
                results.setdefault(model, []).append(result)
        print(f"{name}, {options.nodes} nodes", flush=True)
        for model, pairs in results.items():
            accuracy, n_units = np.mean(pairs, axis=0)
            deviation = np.std(pairs, axis=0)[0]
            note_figure(f"{name}, {model}", accuracy)
            print(f"  {model:24}{accuracy:.3f} ({deviation:.3f}) {n_units:6.0f} units")


if __name__ == "__main__":
    main()
