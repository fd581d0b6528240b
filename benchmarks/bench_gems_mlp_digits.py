# SPDX-License-Identifier: BSD-3-Clause
"""Networks of two hidden layers and several widths on digits, Dirichlet(0.1).

Test accuracy, mean over trials (standard deviation): the best network of a node, the
soft vote, GEMS without common units, the same with five rounds, PFNM, PFNM with a last
layer of moments, GEMS by default, and one network of the middle width for all rows. The
guide's page on networks tells what it prints.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser

import numpy as np
from _quick import note_figure, parse_with_quick
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from skgems import (
    EnsembleAggregator,
    GEMSMLPAggregator,
    PFNMAggregator,
)
from skgems.datasets import partition_dirichlet

WIDTHS = (30, 50, 70)


def network(width: int, depth: int, seed: int) -> MLPClassifier:
    """An unfitted network."""
    hidden = (width,) * depth
    return MLPClassifier(hidden, learning_rate_init=0.01, random_state=seed)


def trial_scores(K: int, depth: int, mixed: bool, trial: int) -> dict[str, float]:
    """Accuracies of one trial."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(
        X / 16, y, test_size=0.3, stratify=y, random_state=trial
    )
    nodes = partition_dirichlet(y, K, alpha=0.1, random_state=trial)
    widths = [WIDTHS[k % 3] if mixed else WIDTHS[1] for k in range(K)]
    nets = [
        network(width, depth, k).fit(X[nodes == k], y[nodes == k])
        for k, width in enumerate(widths)
    ]
    aggregates = {
        "vote": EnsembleAggregator(nets, voting="soft"),
        "GEMS": GEMSMLPAggregator(nets, n_common_units=0, random_state=0),
        "5 rounds": GEMSMLPAggregator(
            nets, n_common_units=0, n_rounds=6, random_state=0
        ),
        "PFNM": PFNMAggregator(nets, last_layer=None, random_state=0),
        "and last layer": PFNMAggregator(nets, random_state=0),
    }
    aggregates["default"] = GEMSMLPAggregator(nets, random_state=0)
    scores = {"best node": max(net.score(X_test, y_test) for net in nets)}
    for name, aggregator in aggregates.items():
        scores[name] = aggregator.fit(X, y, nodes).score(X_test, y_test)
    pooled = network(WIDTHS[1], depth, 0).fit(X, y)
    return scores | {"all rows": pooled.score(X_test, y_test)}


def main() -> None:
    """Print the table."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=5)
    options = parse_with_quick(parser, quick={"trials": 1})
    warnings.simplefilter("ignore", ConvergenceWarning)
    names = None
    for K, depth, mixed in ((5, 1, False), (2, 2, True), (5, 2, True)):
        trials = [trial_scores(K, depth, mixed, t) for t in range(options.trials)]
        if names is None:
            names = list(trials[0])
            heads = "".join(f"{name:16}" for name in names)
            print(f"{'nodes, layers, widths':28}{heads}")
        title = f"{K}, {depth}, {'30/50/70' if mixed else '50'}"
        line = ""
        for name in names:
            accuracies = [scores[name] for scores in trials]
            note_figure(f"{title}, {name}", np.mean(accuracies))
            cell = f"{np.mean(accuracies):.3f} ({np.std(accuracies):.3f})"
            line += f"{cell:16}"
        print(f"{title:28}{line}", flush=True)


if __name__ == "__main__":
    main()
