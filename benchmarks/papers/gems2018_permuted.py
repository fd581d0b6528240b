# SPDX-License-Identifier: BSD-3-Clause
"""GEMS 2018, Tables 1 and 2: the second node has all pixels in another order.

Networks of one and of two hidden layers of 50 with dropout, started apart. Each node
trains on half of the training rows. `fit` gets the validation rows, a half for each
node; 200 others of each kind are public. Figures are of the test rows of both kinds
together. For one layer there is an average of networks that started alike, too.
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial

import numpy as np
from _common import CLASSES, Cell, Program, baselines, log_loss, protocol, seed_of

from skgems import EnsembleAggregator, GEMSMLPAggregator, ModelAveragingAggregator

MODULES = {1: protocol.hidden_network, 2: protocol.deep_network}
N_PUBLIC = 200
# Accuracy and log-loss by hidden layers.
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


def label(depth: int) -> str:
    return f"{depth} hidden layer" + "s" * (depth > 1)


def paper() -> dict:
    """Both tables."""
    return {
        (label(depth), name, measure): own
        for depth, table in FIGURES.items()
        for name, figures in table.items()
        for measure, own in zip(("accuracy", "log-loss"), figures, strict=True)
    }


def both_kinds(X, y, order, rows=None):
    """Rows as they are, then permuted; `rows` holds those of each kind."""
    one, other = rows if rows is not None else (slice(None),) * 2
    stacked = np.vstack([X[one], X[other][:, order]])
    return stacked, np.concatenate([y[one], y[other]])


def fitted(module, X, y, seed, epochs):
    """One converged network."""
    return protocol.fit_seeded(protocol.unfitted_net(module, epochs), X, y, seed)


def models_of(depth, number, data, order, epochs):
    """The two nodes' networks, that of all their rows, and two started alike."""
    X, y = data
    halves = np.array_split(protocol.split(number, len(X))[0], 2)
    train = partial(fitted, MODULES[depth], epochs=epochs)
    own = [(X[halves[0]], y[halves[0]]), (X[halves[1]][:, order], y[halves[1]])]
    nets = [train(*rows, seed_of(number, depth, k)) for k, rows in enumerate(own)]
    everything = both_kinds(X, y, order, halves)
    pooled = train(*everything, seed_of(number, depth, 2))
    alike = [train(*rows, seed_of(number, depth, 3)) for rows in own]
    return nets, pooled, alike


def trial(options, data, test, number):
    """The cells of one trial."""
    X, y = data
    order = np.random.default_rng([2, number]).permutation(X.shape[1])
    _, val, _ = protocol.split(number, len(X))
    n_public = min(N_PUBLIC, len(val) // 5)
    public, val = [val[:n_public], val[n_public : 2 * n_public]], val[2 * n_public :]
    halves = np.array_split(val, 2)
    X_fit, y_fit = both_kinds(X, y, order, halves)
    of_public = both_kinds(X, y, order, public)
    X_test, y_test = both_kinds(*test, order)
    nodes = np.repeat([0, 1], [len(half) for half in halves])
    epochs = options.epochs or protocol.MAX_EPOCHS
    for depth in options.hidden:
        nets, pooled, alike = models_of(depth, number, data, order, epochs)
        models = {"node 1": nets[0], "node 2": nets[1], "pooled": pooled}
        models["averaged"] = ModelAveragingAggregator(nets).fit()
        if depth == 1:
            averaged = ModelAveragingAggregator(alike).fit()
            models["averaged, started alike"] = averaged
        models["soft vote"] = EnsembleAggregator(nets).fit()
        gems = GEMSMLPAggregator(
            nets, max_units=None, validation_fraction=0.0, random_state=0
        )
        models["GEMS"] = gems.fit(X_fit, y_fit, nodes=nodes)
        last = deepcopy(gems).fine_tune(*of_public, layers="last")
        models["GEMS, last layer tuned"] = last
        whole = deepcopy(gems).fine_tune(*of_public, layers="all")
        models["GEMS, all tuned"] = whole
        tuned = baselines.tune(
            baselines.average(nets, CLASSES), *of_public, CLASSES, last_only=True
        )
        for name, model in models.items():
            yield Cell(label(depth), name, model.score(X_test, y_test))
            loss = log_loss(model, X_test, y_test)
            yield Cell(label(depth), name, loss, "log-loss")
        right = baselines.predict(tuned, X_test, CLASSES) == y_test
        yield Cell(label(depth), "averaged, last layer tuned", np.mean(right))
        for number_of, report in enumerate(gems.layer_report_, 1):
            n_units = report["n_units"]
            yield Cell(label(depth), f"GEMS, layer {number_of}", n_units, "units")


def add(parser) -> None:
    parser.add_argument("--hidden", type=int, nargs="*", default=[1, 2])


PROGRAM = Program(
    name="gems2018_permuted",
    title="GEMS 2018, Tables 1 and 2: permuted pixels",
    trial=trial,
    ours=("GEMS", "GEMS, last layer tuned", "GEMS, all tuned"),
    paper=paper(),
    add=add,
)

if __name__ == "__main__":
    PROGRAM.main()
