# SPDX-License-Identifier: BSD-3-Clause
"""PFNM in rounds, and with a last layer of moments: test accuracy, mean over trials.

MNIST over ten nodes by Dirichlet(0.2), networks of 100 units as `_networks.py` trains
them. Beside PFNM stand networks trained on all rows: as a node was, and for as many
epochs as in all rounds. What the paper measures is in `papers`.
"""

from __future__ import annotations

from argparse import ArgumentParser
from itertools import product
from typing import NamedTuple

import numpy as np
from _networks import RATE, node_networks, train
from _protocol import DATA_VARIABLE, add_arguments, load_mnist, split
from _quick import note_figure, parse_with_quick

from skgems import GEMSLogisticAggregator, PFNMAggregator

# After the first round nodes train so many epochs a round, at a tenth of their rate.
N_ROUNDS = 5
N_EPOCHS = 2
# Of the one hidden layer, and of the nodes.
HIDDEN = (100,)
N_NODES = 10
# With --quick, of all nodes and for validation and selection.
QUICK_ROWS = 6000

Rows = tuple[np.ndarray, np.ndarray]  # features and labels


class Pooled(NamedTuple):
    """Accuracies of one network for all rows."""

    as_a_node: float  # trained as a node's
    longer: float  # trained for as many epochs as a node in all rounds


class Round(NamedTuple):
    """PFNM after so many rounds."""

    accuracy: float
    n_units: float
    accuracy_with_moments: float  # with a last layer of moments


def train_on_all(trial: int, train_rows: Rows, test: Rows, cache: str | None) -> Pooled:
    """Accuracy of one network for all rows, and of one that is trained longer."""
    local = split(trial, len(train_rows[1]))[0]
    X = train_rows[0][local]
    y = train_rows[1][local]
    (network,), _, _ = node_networks("", 1, HIDDEN, trial, train_rows, cache_dir=cache)
    n_epochs = (N_ROUNDS - 1) * N_EPOCHS
    longer = train(X, y, HIDDEN, trial, epochs=n_epochs, start=network, rate=RATE / 10)
    X_test, y_test = test
    return Pooled(network.score(X_test, y_test), longer.score(X_test, y_test))


def match_in_rounds(
    trial: int, train_rows: Rows, test: Rows, cache: str | None
) -> list[Round]:
    """PFNM after one and after several rounds, Dirichlet 0.2.

    Each also with a last layer of moments, which is one more message.
    """
    estimators, rows, nodes = node_networks(
        "Dirichlet 0.2", N_NODES, HIDDEN, trial, train_rows, cache_dir=cache
    )
    X = train_rows[0][rows]
    y = train_rows[1][rows]
    for estimator in estimators:
        if hasattr(estimator, "coefs_"):
            # As they were trained.
            estimator.set_params(batch_size=32, alpha=1e-6, learning_rate_init=RATE)
    # Rows of classes that a node's network lacks are left out of its training.
    has_output = np.array(
        [label in estimators[k].classes_ for k, label in zip(nodes, y, strict=True)]
    )
    fitted = {
        (n_rounds, with_moments): PFNMAggregator(
            estimators,
            n_rounds=n_rounds,
            local_epochs=N_EPOCHS,
            last_layer=GEMSLogisticAggregator() if with_moments else None,
            random_state=trial,
        ).fit(X[has_output], y[has_output], nodes[has_output])
        for n_rounds, with_moments in product((1, N_ROUNDS), (False, True))
    }
    X_test, y_test = test
    return [
        Round(
            accuracy=fitted[n_rounds, False].score(X_test, y_test),
            n_units=float(fitted[n_rounds, False].n_units_[0]),
            accuracy_with_moments=fitted[n_rounds, True].score(X_test, y_test),
        )
        for n_rounds in (1, N_ROUNDS)
    ]


def main() -> None:
    """Print the means."""
    parser = add_arguments(ArgumentParser(description=__doc__))
    options = parse_with_quick(
        parser, quick={"trials": 1}, needs={"data": DATA_VARIABLE}
    )
    train_rows = load_mnist(options.data)
    test = load_mnist(options.data, test=True)
    if options.quick:
        train_rows = tuple(part[:QUICK_ROWS] for part in train_rows)
    trials = range(options.trials)
    pooled = [train_on_all(t, train_rows, test, options.cache) for t in trials]
    once, longer = np.mean(pooled, axis=0)
    print(
        f"trained on all rows {once:.4f}, as long as in {N_ROUNDS} rounds {longer:.4f}",
        flush=True,
    )
    rounds = [match_in_rounds(t, train_rows, test, options.cache) for t in trials]
    first, last = (Round._make(means) for means in np.mean(rounds, axis=0))
    note_figure("one round", first.accuracy)
    note_figure("five rounds", last.accuracy)
    print(
        f"Dirichlet 0.2, J=10: one round {first.accuracy:.4f} ({first.n_units:.0f} "
        f"units; with a last layer of moments {first.accuracy_with_moments:.4f}), "
        f"{N_ROUNDS} {last.accuracy:.4f} "
        f"({last.n_units:.0f} units; {last.accuracy_with_moments:.4f})"
    )


if __name__ == "__main__":
    main()
