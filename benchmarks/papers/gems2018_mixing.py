# SPDX-License-Identifier: BSD-3-Clause
"""GEMS 2018, Figure 3: nodes that have more or less of both kinds of picture.

The kinds are MNIST and MNIST with its pixels in another order. With a mixing factor of
0 each node has one kind, with 1 each has half of both. Networks of one hidden layer of
50 with dropout; `fit` gets the validation rows, dealt as the training rows are, but for
400 that are public. The paper shows the log-loss, of the better of two local models.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
from _common import Cell, Program, log_loss, protocol, seed_of
from gems2018_permuted import both_kinds, fitted

from skgems import EnsembleAggregator, GEMSMLPAggregator, ModelAveragingAggregator
from skgems.datasets import partition_mixing

N_PUBLIC = 400


def mixed(X, y, order, mixing, seed):
    """Rows, half of them permuted, their labels, and the node of each."""
    halves = np.array_split(np.arange(len(X)), 2)
    stacked, labels = both_kinds(X, y, order, halves)
    source = np.repeat([0, 1], [len(half) for half in halves])
    nodes = partition_mixing(source, mixing=mixing, random_state=seed)
    return stacked, labels, nodes


def trial(options, data, test, number):
    """The cells of one trial."""
    X, y = data
    order = np.random.default_rng([2, number]).permutation(X.shape[1])
    local, val, _ = protocol.split(number, len(X))
    public, val = np.split(val, [min(N_PUBLIC, len(val) // 4)])
    public = both_kinds(X, y, order, np.array_split(public, 2))
    X_test, y_test = both_kinds(*test, order)
    epochs = options.epochs or protocol.MAX_EPOCHS
    pooled = None
    for mixing in options.mixing:
        rows, labels, nodes = mixed(X[local], y[local], order, mixing, number)
        if pooled is None:  # all rows are the same rows
            module = protocol.hidden_network
            pooled = fitted(module, rows, labels, seed_of(number, 2), epochs)
        nets = [
            fitted(
                protocol.hidden_network,
                rows[nodes == k],
                labels[nodes == k],
                seed_of(number, k),
                epochs,
            )
            for k in (0, 1)
        ]
        gems = GEMSMLPAggregator(nets, validation_fraction=0.0, random_state=0)
        gems.fit(*mixed(X[val], y[val], order, mixing, number))
        local_loss = min(log_loss(net, X_test, y_test) for net in nets)
        local_score = max(net.score(X_test, y_test) for net in nets)
        models = {
            "pooled": pooled,
            "averaged": ModelAveragingAggregator(nets).fit(),
            "soft vote": EnsembleAggregator(nets).fit(),
            "GEMS": gems,
            "GEMS, tuned": deepcopy(gems).fine_tune(*public),
        }
        for measure in ("log-loss", "accuracy"):
            first = local_loss if measure == "log-loss" else local_score
            yield Cell(measure, "better local", first, measure, x=mixing)
            for name, model in models.items():
                value = (
                    log_loss(model, X_test, y_test)
                    if measure == "log-loss"
                    else model.score(X_test, y_test)
                )
                yield Cell(measure, name, value, measure, x=mixing)


def add(parser) -> None:
    mixing = [0.0, 0.5, 1.0]
    parser.add_argument("--mixing", type=float, nargs="*", default=mixing)


PROGRAM = Program(
    name="gems2018_mixing",
    title="GEMS 2018, Figure 3: mixing factor",
    trial=trial,
    ours=("GEMS", "GEMS, tuned"),
    x_label="mixing factor",
    note="The figure's numbers are missing from the text.",
    add=add,
)

if __name__ == "__main__":
    PROGRAM.main()
