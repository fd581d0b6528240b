# SPDX-License-Identifier: BSD-3-Clause
"""GEMS 2018, Figure 3: nodes that have more or less of both kinds of picture.

The two kinds are MNIST and MNIST with its pixels in another order. With a mixing factor
of 0 each node has one kind, and with 1 each node has half of both. The networks have
one hidden layer of 50 units with dropout. `fit` gets the validation rows, split over
the nodes as the training rows are; 400 of them are public. The paper shows the
log-loss, and of the two local models only the better one.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
from _common import Cell, Program, Rows, Trial, log_loss, protocol
from gems2018_permuted import both_kinds, fit_net, pixel_order

from skgems import EnsembleAggregator, GEMSMLPAggregator, ModelAveragingAggregator
from skgems.datasets import partition_mixing

# Public rows, half of each kind.
N_PUBLIC = 400


@dataclass(kw_only=True)
class MixedRows:
    """Rows of both kinds, and the node of each."""

    X: np.ndarray
    y: np.ndarray
    nodes: np.ndarray


def mix_rows(rows: Rows, order: np.ndarray, mixing: float, seed: int) -> MixedRows:
    """Permute half of the rows, and split both kinds over two nodes."""
    halves = np.array_split(np.arange(len(rows[0])), 2)
    X, y = both_kinds(rows, order, halves)
    kinds = np.repeat([0, 1], [len(half) for half in halves])
    nodes = partition_mixing(kinds, mixing=mixing, random_state=seed)
    return MixedRows(X=X, y=y, nodes=nodes)


def measure_cells(trial: Trial) -> Iterator[Cell]:
    """The cells of one trial."""
    X, y = trial.train
    order = pixel_order(trial)
    local, validation, _ = protocol.split(trial.number, len(X))
    n_public = min(N_PUBLIC, len(validation) // 4)
    X_public, y_public = both_kinds(
        trial.train, order, np.array_split(validation[:n_public], 2)
    )
    validation = validation[n_public:]
    X_test, y_test = both_kinds(trial.test, order)
    module = protocol.hidden_network
    pooled = None
    for mixing in trial.options.mixing:
        train = mix_rows((X[local], y[local]), order, mixing, trial.number)
        if pooled is None:  # whatever the factor, all rows are the same rows
            pooled = fit_net(trial, module, (train.X, train.y), 2)
        nets = [
            fit_net(trial, module, (train.X[in_node], train.y[in_node]), k)
            for k, in_node in enumerate((train.nodes == 0, train.nodes == 1))
        ]
        to_fit = mix_rows((X[validation], y[validation]), order, mixing, trial.number)
        gems = GEMSMLPAggregator(
            nets, n_common_units=0, validation_fraction=0.0, random_state=0
        )
        gems.fit(to_fit.X, to_fit.y, to_fit.nodes)
        models = {
            "pooled": pooled,
            "averaged": ModelAveragingAggregator(nets).fit(),
            "soft vote": EnsembleAggregator(nets).fit(),
            "GEMS": gems,
            "GEMS, tuned": deepcopy(gems).fine_tune(X_public, y_public),
        }
        better_loss = min(log_loss(net, X_test, y_test) for net in nets)
        yield Cell("log-loss", "better local", better_loss, "log-loss", x=mixing)
        for name, model in models.items():
            loss = log_loss(model, X_test, y_test)
            yield Cell("log-loss", name, loss, "log-loss", x=mixing)
        better_accuracy = max(net.score(X_test, y_test) for net in nets)
        yield Cell("accuracy", "better local", better_accuracy, x=mixing)
        for name, model in models.items():
            yield Cell("accuracy", name, model.score(X_test, y_test), x=mixing)


def add_options(parser: ArgumentParser) -> None:
    """Add mixing factors."""
    mixing = [0.0, 0.5, 1.0]
    parser.add_argument("--mixing", type=float, nargs="*", default=mixing)


PROGRAM = Program(
    name="gems2018_mixing",
    title="GEMS 2018, Figure 3: mixing factor",
    measure_cells=measure_cells,
    ours=("GEMS", "GEMS, tuned"),
    x_label="mixing factor",
    note="The paper shows this figure without numbers.",
    add_options=add_options,
)

if __name__ == "__main__":
    PROGRAM.main()
