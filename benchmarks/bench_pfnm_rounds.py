# SPDX-License-Identifier: BSD-3-Clause
"""PFNM in rounds, and with a last layer of moments: test accuracy, mean over trials.

MNIST over ten nodes by Dirichlet(0.2), networks of 100 units as `_networks.py` trains
them. Beside PFNM stand networks trained on all rows: as a node was, and for as many
epochs as in all rounds. What the paper measures is in `papers`.
"""

from __future__ import annotations

from argparse import ArgumentParser
from itertools import product

import numpy as np
from _networks import RATE, node_networks, train
from _protocol import add_arguments, load_mnist, split

from skgems import GEMSLogisticAggregator, PFNMAggregator

# After the first round nodes train this long, at a tenth of their rate.
N_ROUNDS, N_EPOCHS = 5, 2


def trained_on_all(trial, data, test, cache) -> list[float]:
    """Accuracy of one network for all rows: trained as a node's, and longer.

    Longer is as many epochs as a node trains in all rounds, at the same rates.
    """
    X, y = (part[split(trial)[0]] for part in data)
    network = node_networks("", 1, (100,), trial, data, cache)[0][0]
    more = (N_ROUNDS - 1) * N_EPOCHS
    longer = train(X, y, (100,), trial, epochs=more, start=network, rate=RATE / 10)
    return [network.score(*test), longer.score(*test)]


def rounds(trial, data, test, cache, J=10) -> list[float]:
    """Accuracy after one and after several rounds, Dirichlet 0.2.

    Each also with a last layer of moments, which is one more message.
    """
    estimators, rows, nodes = node_networks(
        "Dirichlet 0.2", J, (100,), trial, data, cache
    )
    X, y = data[0][rows], data[1][rows]
    for estimator in estimators:
        if hasattr(estimator, "coefs_"):
            # As they were trained.
            estimator.set_params(batch_size=32, alpha=1e-6, learning_rate_init=RATE)
    scores = []
    for n, last in product((1, N_ROUNDS), (None, GEMSLogisticAggregator())):
        aggregate = PFNMAggregator(
            estimators,
            n_rounds=n,
            n_epochs=N_EPOCHS,
            last_layer=last,
            random_state=trial,
        )
        # Rows of classes that a node's network lacks are left out of its training.
        known = np.array(
            [label in estimators[k].classes_ for k, label in zip(nodes, y, strict=True)]
        )
        aggregate.fit(X[known], y[known], nodes[known])
        scores += [aggregate.score(*test), float(aggregate.n_units_[0])]
    return scores


def main() -> None:
    """Print the means."""
    parser = add_arguments(ArgumentParser(description=__doc__))
    options = parser.parse_args()
    data, test = load_mnist(options.data), load_mnist(options.data, test=True)
    trials = range(options.trials)

    def mean(function):
        shared = (data, test, options.cache)
        return np.mean([function(t, *shared) for t in trials], axis=0)

    once, longer = mean(trained_on_all)
    print(
        f"trained on all rows {once:.4f}, as long as in {N_ROUNDS} rounds {longer:.4f}",
        flush=True,
    )
    one, units, one_last, _, many, units_many, many_last, _ = mean(rounds)
    print(
        f"Dirichlet 0.2, J=10: one round {one:.4f} ({units:.0f} units; with a last "
        f"layer of moments {one_last:.4f}), {N_ROUNDS} {many:.4f} "
        f"({units_many:.0f} units; {many_last:.4f})"
    )


if __name__ == "__main__":
    main()
