# SPDX-License-Identifier: BSD-3-Clause
"""GEMS 2018, section 5.1: odd or even, by nodes with digits 0 to 4 and 5 to 9.

The paper's models are logistic regressions on the hidden layer of a network of 50
units. Here that network has learned the ten digits on the selection rows, which no node
has. The paper does not say which rows its own network was trained on. The second column
has networks of the pixels that the nodes train for parity. "GEMS as in the paper" uses
balls of log-loss, and the lowest epsilon at which the balls meet. `fit` gets the
training rows, as in the paper. One row of the table uses five messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from _common import (
    Cell,
    PaperFigures,
    Program,
    Rows,
    Trial,
    log_loss,
    protocol,
    seed_of,
)
from sklearn.linear_model import LogisticRegression

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
)
from skgems.gems import Spaces

LOGISTIC = "logistic regressions"
NETWORK = "networks of the pixels"
# Log-losses that spaces may have, tried from the lowest on.
EPSILONS = np.round(np.geomspace(0.1, 30, 30), 2)
# The paper's accuracy and log-loss of the logistic regressions.
FIGURES = {
    "node of 0-4": (0.75, 0.99),
    "node of 5-9": (0.73, 0.736),
    "pooled": (0.93, 0.19),
    "GEMS": (0.91, 0.22),
    "GEMS, 5 messages": (0.91, 0.22),
    "GEMS as in the paper": (0.91, 0.22),
}


def figures_of_paper() -> PaperFigures:
    """The paper's table of the logistic regressions."""
    table: PaperFigures = {}
    for name, (accuracy, loss) in FIGURES.items():
        table[LOGISTIC, name, "accuracy"] = accuracy
        table[LOGISTIC, name, "log-loss"] = loss
    return table


def parity_network():
    """A torch module: 784 inputs, 50 relu units with dropout, odd or even."""
    from torch import nn

    layers = [nn.Linear(784, 50), nn.ReLU(), nn.Dropout(0.5), nn.Linear(50, 2)]
    return nn.Sequential(*layers)


@dataclass(kw_only=True)
class Nodes:
    """The local training rows of a trial, and models of parity."""

    X: np.ndarray  # what the models see: features, or pixels
    y: np.ndarray
    nodes: np.ndarray
    X_test: np.ndarray
    models: list  # of both nodes
    pooled: object  # the model of all their rows


def lowest_that_meet(local: Nodes, seed: int) -> GEMSLogisticAggregator | None:
    """The paper's aggregate: balls of the lowest of some log-losses that meet."""
    for epsilon in EPSILONS:
        gems = GEMSLogisticAggregator(
            local.models,
            spaces=Spaces("ball", criterion="log_loss", on_empty="ignore"),
            epsilon=float(epsilon),
            intersection="deepest",
            random_state=seed,
        )
        try:
            gems.fit(local.X, local.y, nodes=local.nodes)
        except ValueError:  # a node's own model misses its epsilon
            continue
        if gems.intersection_.found:
            return gems
    return None


def fit_net(trial: Trial, module, rows: Rows, *seeds: int):
    """One converged network."""
    X, y = rows
    net = protocol.unfitted_net(module, trial.max_epochs)
    return protocol.fit_seeded(net, X, y, seed_of(trial.number, *seeds))


def logistic_nodes(trial: Trial) -> Nodes:
    """Logistic regressions on features that a network learned on rows of no node."""
    X, digits = trial.train
    local, _, selection = protocol.split(trial.number, len(X))
    front = fit_net(
        trial, protocol.hidden_network, (X[selection], digits[selection]), 0
    )
    W, b = (part.detach().numpy() for part in list(front.module_[0].parameters()))

    def features(pixels: np.ndarray) -> np.ndarray:
        return np.maximum(pixels @ W.T + b, 0)

    def fit(chosen: np.ndarray) -> LogisticRegression:
        model = LogisticRegression(max_iter=1000)
        return model.fit(features(X[chosen]), digits[chosen] % 2)

    nodes = (digits[local] > 4).astype(int)
    return Nodes(
        X=features(X[local]),
        y=digits[local] % 2,
        nodes=nodes,
        X_test=features(trial.test[0]),
        models=[fit(local[nodes == k]) for k in (0, 1)],
        pooled=fit(local),
    )


def network_nodes(trial: Trial) -> Nodes:
    """Networks of the pixels."""
    X, digits = trial.train
    local, _, _ = protocol.split(trial.number, len(X))

    def fit(chosen: np.ndarray, seed: int):
        rows = (X[chosen], digits[chosen] % 2)
        return fit_net(trial, parity_network, rows, 1, seed)

    nodes = (digits[local] > 4).astype(int)
    return Nodes(
        X=X[local],
        y=digits[local] % 2,
        nodes=nodes,
        X_test=trial.test[0],
        models=[fit(local[nodes == k], k) for k in (0, 1)],
        pooled=fit(local, 2),
    )


def merged_models(local: Nodes, gems, further) -> dict:
    """Fitted models by name; of aggregators with one message, and with five."""
    return {
        "node of 0-4": local.models[0],
        "node of 5-9": local.models[1],
        "pooled": local.pooled,
        "averaged": ModelAveragingAggregator(local.models).fit(),
        "soft vote": EnsembleAggregator(local.models).fit(),
        "GEMS": gems.fit(local.X, local.y, local.nodes),
        "GEMS, 5 messages": further.fit(local.X, local.y, local.nodes),
    }


def judge(setting: str, models: dict, X: np.ndarray, y: np.ndarray) -> Iterator[Cell]:
    """Accuracy and log-loss of each model; nan where there is none."""
    for name, model in models.items():
        accuracy = np.nan if model is None else model.score(X, y)
        loss = np.nan if model is None else log_loss(model, X, y)
        yield Cell(setting, name, accuracy)
        yield Cell(setting, name, loss, "log-loss")


def measure_cells(trial: Trial) -> Iterator[Cell]:
    """The cells of one trial."""
    seed = trial.number
    y_test = trial.test[1] % 2
    local = logistic_nodes(trial)
    models = merged_models(
        local,
        GEMSLogisticAggregator(local.models, random_state=seed),
        GEMSLogisticAggregator(local.models, random_state=seed, n_rounds=5),
    )
    models["GEMS as in the paper"] = lowest_that_meet(local, seed)
    yield from judge(LOGISTIC, models, local.X_test, y_test)
    local = network_nodes(trial)
    models = merged_models(
        local,
        GEMSMLPAggregator(local.models, n_common_units=0, random_state=seed),
        GEMSMLPAggregator(
            local.models,
            n_common_units=0,
            random_state=seed,
            last_layer=GEMSLogisticAggregator(n_rounds=5),
        ),
    )
    yield from judge(NETWORK, models, local.X_test, y_test)


PROGRAM = Program(
    name="gems2018_parity",
    title="GEMS 2018, section 5.1: parity of digits",
    measure_cells=measure_cells,
    ours=("GEMS", "GEMS, 5 messages"),
    paper=figures_of_paper(),
    note="The paper has no figures for networks of the pixels.",
)

if __name__ == "__main__":
    PROGRAM.main()
