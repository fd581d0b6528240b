# SPDX-License-Identifier: BSD-3-Clause
"""GEMS 2018, section 5.1: odd or even, by nodes with digits 0 to 4 and 5 to 9.

The paper's models are logistic regressions on what comes out of the hidden layer of a
network of 50 units. Here that network learned the ten digits on the selection rows,
which no node has; the paper does not say what its own was trained on. Networks of the
pixels that the nodes train for parity stand beside them. "GEMS as in the paper" is a
ball of log-loss, and the lowest epsilon at which balls meet. `fit` gets the training
rows, as in the paper; five messages are one more column.
"""

from __future__ import annotations

import numpy as np
from _common import Cell, Program, log_loss, protocol, seed_of
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
)

SOFTMAX, NETWORK = "logistic regressions", "networks of the pixels"
EPSILONS = np.round(np.geomspace(0.1, 30, 30), 2)
FIGURES = {
    "node of 0-4": (0.75, 0.99),
    "node of 5-9": (0.73, 0.736),
    "pooled": (0.93, 0.19),
    "GEMS": (0.91, 0.22),
    "GEMS, 5 messages": (0.91, 0.22),
    "GEMS as in the paper": (0.91, 0.22),
}


def paper() -> dict:
    """The paper's table of the logistic regressions."""
    found = {}
    for name, (accuracy, loss) in FIGURES.items():
        found[SOFTMAX, name, "accuracy"] = accuracy
        found[SOFTMAX, name, "log-loss"] = loss
    return found


def two_outputs():
    """A torch module: 784 inputs, 50 relu units with dropout, odd or even."""
    from torch import nn

    layers = [nn.Linear(784, 50), nn.ReLU(), nn.Dropout(0.5), nn.Linear(50, 2)]
    return nn.Sequential(*layers)


def lowest_that_meet(own, X, y, nodes, number):
    """The paper's aggregate: balls of the lowest of some log-losses that meet."""
    for epsilon in EPSILONS:
        gems = GEMSLogisticAggregator(
            own,
            geometry="ball",
            criterion="log_loss",
            epsilon=float(epsilon),
            intersection="deepest",
            on_empty="ignore",
            random_state=number,
        )
        try:
            gems.fit(X, y, nodes=nodes)
        except ValueError:  # a node's own model misses its epsilon
            continue
        if gems.intersection_.found:
            return gems
    return None


def trial(options, data, test, number):
    """The cells of one trial."""
    X, digits = data
    local, _, sel = protocol.split(number, len(X))
    y, nodes = digits % 2, (digits > 4).astype(int)
    X_test, y_test = test[0], test[1] % 2
    epochs = options.epochs or protocol.MAX_EPOCHS

    def fitted(module, rows, labels, *seed):
        net = protocol.unfitted_net(module, epochs)
        return protocol.fit_seeded(net, X[rows], labels[rows], seed_of(number, *seed))

    front = fitted(protocol.hidden_network, sel, digits, 0)
    W, b = (part.detach().numpy() for part in list(front.module_[0].parameters()))

    def features(X):
        return np.maximum(X @ W.T + b, 0)

    parts = [local[nodes[local] == k] for k in (0, 1)]
    for setting in (SOFTMAX, NETWORK):
        if setting == SOFTMAX:
            own, pooled = [], None
            for rows in (*parts, local):
                model = LogisticRegression(max_iter=1000)
                own.append(model.fit(features(X[rows]), y[rows]))
            seen, X_fit = features(X_test), features(X[local])
            gems = GEMSLogisticAggregator(random_state=number)
            further = clone(gems).set_params(n_rounds=5)
        else:
            own = [
                fitted(two_outputs, rows, y, 1, k)
                for k, rows in enumerate((*parts, local))
            ]
            seen, X_fit = X_test, X[local]
            gems = GEMSMLPAggregator(random_state=number)
            further = clone(gems).set_params(
                last_layer=GEMSLogisticAggregator(n_rounds=5)
            )
        *own, pooled = own
        models = {"node of 0-4": own[0], "node of 5-9": own[1], "pooled": pooled}
        models["averaged"] = ModelAveragingAggregator(own).fit()
        models["soft vote"] = EnsembleAggregator(own).fit()
        of_rows = X_fit, y[local], nodes[local]
        models["GEMS"] = gems.set_params(estimators=own).fit(*of_rows)
        models["GEMS, 5 messages"] = further.set_params(estimators=own).fit(*of_rows)
        if setting == SOFTMAX:
            literal = lowest_that_meet(own, *of_rows, number)
            models["GEMS as in the paper"] = literal
        for name, model in models.items():
            score = np.nan if model is None else model.score(seen, y_test)
            loss = np.nan if model is None else log_loss(model, seen, y_test)
            yield Cell(setting, name, score)
            yield Cell(setting, name, loss, "log-loss")


PROGRAM = Program(
    name="gems2018_parity",
    title="GEMS 2018, section 5.1: parity of digits",
    trial=trial,
    ours=("GEMS", "GEMS, 5 messages"),
    paper=paper(),
    note="Of networks of the pixels the paper has no figure.",
)

if __name__ == "__main__":
    PROGRAM.main()
