# SPDX-License-Identifier: BSD-3-Clause
"""GEMS 2018, Tables 1 and 2: the second node has all pixels in another order.

The networks have one or two hidden layers of 50 units with dropout, and start from
different weights. Each node trains on half of the training rows. `fit` gets the
validation rows, one half for each node; 200 others of each kind are public. The figures
are for the test rows of both kinds together. For one layer the table also has an
average of networks that started from the same weights.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
from _common import (
    CLASSES,
    Cell,
    PaperFigures,
    Program,
    Rows,
    Trial,
    baselines,
    log_loss,
    protocol,
    seed_of,
)

from skgems import EnsembleAggregator, GEMSMLPAggregator, ModelAveragingAggregator
from skgems.gems import HiddenLayers

# Networks by hidden layers.
MODULES = {1: protocol.hidden_network, 2: protocol.deep_network}
# Public rows of each kind, as many as the paper has.
N_PUBLIC = 200
# The paper's accuracy and log-loss by hidden layers.
FIGURES = {
    1: {
        "node 1": (0.51, 2.05),
        "node 2": (0.51, 1.88),
        "averaged": (0.66, 1.20),
        "averaged, started alike": (0.79, 0.78),
        "pooled": (0.92, 0.27),
        "GEMS": (0.83, 0.54),
        "GEMS, last layer tuned": (0.88, 0.39),
        "GEMS, all tuned": (0.88, 0.39),
    },
    2: {
        "node 1": (0.51, 2.79),
        "node 2": (0.53, 2.43),
        "averaged": (0.42, 1.72),
        "pooled": (0.95, 0.16),
        "GEMS": (0.71, 1.264),
        "GEMS, last layer tuned": (0.90, 0.66),
        "GEMS, all tuned": (0.90, 0.66),
    },
}


def setting_of(depth: int) -> str:
    """The title of networks of so many hidden layers."""
    return f"{depth} hidden layer" + "s" * (depth > 1)


def figures_of_paper() -> PaperFigures:
    """Both tables."""
    table: PaperFigures = {}
    for depth, figures in FIGURES.items():
        for name, (accuracy, loss) in figures.items():
            table[setting_of(depth), name, "accuracy"] = accuracy
            table[setting_of(depth), name, "log-loss"] = loss
    return table


def pixel_order(trial: Trial) -> np.ndarray:
    """The order that the second node has its pixels in."""
    n_pixels = trial.train[0].shape[1]
    return np.random.default_rng([2, trial.number]).permutation(n_pixels)


def both_kinds(
    rows: Rows,
    order: np.ndarray,
    chosen: tuple[np.ndarray, np.ndarray] | None = None,
) -> Rows:
    """Rows as they are, then permuted; `chosen`: which of them, if not all of both."""
    X, y = rows
    plain, permuted = (slice(None), slice(None)) if chosen is None else chosen
    stacked = np.vstack([X[plain], X[permuted][:, order]])
    return stacked, np.concatenate([y[plain], y[permuted]])


def fit_net(trial: Trial, module, rows: Rows, *seeds: int):
    """One converged network."""
    X, y = rows
    net = protocol.unfitted_net(module, trial.max_epochs)
    return protocol.fit_seeded(net, X, y, seed_of(trial.number, *seeds))


@dataclass(kw_only=True)
class Networks:
    """Fitted networks of one depth."""

    nets: list  # of the two nodes, started apart
    pooled: object  # of all rows of both
    nets_started_alike: list


def fit_networks(trial: Trial, depth: int, order: np.ndarray) -> Networks:
    """Networks of half of the local training rows each, of one kind."""
    X, y = trial.train
    halves = np.array_split(protocol.split(trial.number, len(X))[0], 2)
    module = MODULES[depth]
    rows_of_nodes = [
        (X[halves[0]], y[halves[0]]),
        (X[halves[1]][:, order], y[halves[1]]),
    ]
    return Networks(
        nets=[
            fit_net(trial, module, rows, depth, k)
            for k, rows in enumerate(rows_of_nodes)
        ],
        pooled=fit_net(trial, module, both_kinds((X, y), order, halves), depth, 2),
        nets_started_alike=[
            fit_net(trial, module, rows, depth, 3) for rows in rows_of_nodes
        ],
    )


def models_by_name(
    networks: Networks,
    fitted_gems: GEMSMLPAggregator,
    public: Rows,
    *,
    with_started_alike: bool,
) -> dict:
    """Fitted models, each of which has probabilities."""
    X, y = public
    models = {
        "node 1": networks.nets[0],
        "node 2": networks.nets[1],
        "pooled": networks.pooled,
        "averaged": ModelAveragingAggregator(networks.nets).fit(),
    }
    if with_started_alike:
        averaged = ModelAveragingAggregator(networks.nets_started_alike).fit()
        models["averaged, started alike"] = averaged
    models["soft vote"] = EnsembleAggregator(networks.nets).fit()
    models["GEMS"] = fitted_gems
    for layers in ("last", "all"):
        title = "last layer" if layers == "last" else "all"
        tuned = deepcopy(fitted_gems).fine_tune(X, y, layers=layers)
        models[f"GEMS, {title} tuned"] = tuned
    return models


def measure_cells(trial: Trial) -> Iterator[Cell]:
    """The cells of one trial."""
    order = pixel_order(trial)
    _, validation, _ = protocol.split(trial.number, len(trial.train[0]))
    n_public = min(N_PUBLIC, len(validation) // 5)
    public = both_kinds(
        trial.train,
        order,
        (validation[:n_public], validation[n_public : 2 * n_public]),
    )
    halves = np.array_split(validation[2 * n_public :], 2)
    X, y = both_kinds(trial.train, order, halves)
    nodes = np.repeat([0, 1], [len(half) for half in halves])
    X_test, y_test = both_kinds(trial.test, order)
    for depth in trial.options.hidden:
        setting = setting_of(depth)
        networks = fit_networks(trial, depth, order)
        gems = GEMSMLPAggregator(
            networks.nets,
            hidden_layers=HiddenLayers(max_units=None),
            n_common_units=0,
            validation_fraction=0.0,
            random_state=0,
        )
        gems.fit(X, y, nodes=nodes)
        models = models_by_name(networks, gems, public, with_started_alike=depth == 1)
        for name, model in models.items():
            yield Cell(setting, name, model.score(X_test, y_test))
            yield Cell(setting, name, log_loss(model, X_test, y_test), "log-loss")
        averaged = baselines.average(networks.nets, CLASSES)
        tuned = baselines.tune(
            averaged,
            public[0],
            public[1],
            CLASSES,
            learning_rate=1e-3,
            last_only=True,
        )
        is_right = baselines.predict(tuned, X_test, CLASSES) == y_test
        yield Cell(setting, "averaged, last layer tuned", np.mean(is_right))
        for number, report in enumerate(gems.layer_report_, 1):
            yield Cell(setting, f"GEMS, layer {number}", report["n_units"], "units")


def add_options(parser: ArgumentParser) -> None:
    """Add numbers of hidden layers."""
    parser.add_argument("--hidden", type=int, nargs="*", default=[1, 2])


PROGRAM = Program(
    name="gems2018_permuted",
    title="GEMS 2018, Tables 1 and 2: permuted pixels",
    measure_cells=measure_cells,
    ours=("GEMS", "GEMS, last layer tuned", "GEMS, all tuned"),
    paper=figures_of_paper(),
    add_options=add_options,
)

if __name__ == "__main__":
    PROGRAM.main()
