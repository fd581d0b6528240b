# SPDX-License-Identifier: BSD-3-Clause
"""GEMS for networks where nodes see the same digits with their pixels in another order.

After Guha and Smith 2018, section 5.2, Tables 1 and 2: the first node has MNIST, the
second MNIST with all pixels permuted in one way; networks of one and of two hidden
layers of 50 with dropout, started apart. Each node trains on half of the training
rows. `fit` gets the validation rows, a half for each node; 200 others of each kind
are public. Accuracy on the test rows of both kinds together, or, without ``--test``,
on the selection rows.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from copy import deepcopy
from pathlib import Path

import joblib
import numpy as np
from _baselines import average, predict
from _protocol import (
    CACHE_VARIABLE,
    add_arguments,
    deep_network,
    fit_seeded,
    hidden_network,
    load_mnist,
    split,
    unfitted_net,
)

from skgems import GEMSMLPAggregator

CLASSES = np.arange(10)
MODULES = {1: hidden_network, 2: deep_network}
N_PUBLIC = 200
# What the paper reports by hidden layers: averaged, GEMS, tuned, on all data.
PAPER = {1: (0.66, 0.83, 0.88, 0.92), 2: (0.42, 0.71, 0.90, 0.95)}


def both_kinds(X, y, order, rows=None):
    """Rows as they are, then permuted; `rows` holds those of each kind."""
    one, other = rows if rows is not None else (slice(None),) * 2
    stacked = np.vstack([X[one], X[other][:, order]])
    return stacked, np.concatenate([y[one], y[other]])


def node_networks(depth, trial, data, order, cache):
    """The two networks of a trial, from the cache where they are in it."""
    cache = cache or os.environ.get(CACHE_VARIABLE)
    file = Path(cache) / f"permuted{depth}-trial{trial}.joblib" if cache else None
    if file is not None and file.exists():
        return joblib.load(file)
    X, y = data
    halves = np.array_split(split(trial)[0], 2)
    nets = []
    for node, rows in enumerate(halves):
        own = X[rows] if node == 0 else X[rows][:, order]
        seed = int(np.random.SeedSequence([trial, depth, node]).generate_state(1)[0])
        nets.append(fit_seeded(unfitted_net(MODULES[depth]), own, y[rows], seed))
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        joblib.dump(nets, file)
    return nets


def cells(depth, trial, options, data, test):
    """Accuracies of one trial, and the units of each hidden layer."""
    X, y = data
    order = np.random.default_rng([2, trial]).permutation(X.shape[1])
    nets = node_networks(depth, trial, data, order, options.cache)
    _, val, sel = split(trial)
    public, val = [val[:N_PUBLIC], val[N_PUBLIC : 2 * N_PUBLIC]], val[2 * N_PUBLIC :]
    halves = np.array_split(val, 2)
    X_fit, y_fit = both_kinds(X, y, order, halves)
    X_test, y_test = both_kinds(*(test or (X[sel], y[sel])), order)
    agg = GEMSMLPAggregator(
        nets,
        max_units=options.max_units,
        epsilon_hidden=options.epsilon_hidden,
        validation_fraction=0.0,
        random_state=0,
    ).fit(X_fit, y_fit, nodes=np.repeat([0, 1], [len(half) for half in halves]))
    tuned = [
        deepcopy(agg).fine_tune(*both_kinds(X, y, order, public), layers=layers)
        for layers in ("last", "all")
    ]
    models = [*nets, agg, *tuned]
    scores = [np.mean(model.predict(X_test) == y_test) for model in models]
    averaged = predict(average(nets, CLASSES), X_test, CLASSES)
    units = [report["n_units"] for report in agg.layer_report_]
    return [*scores[:2], np.mean(averaged == y_test), *scores[2:]], units


def main() -> None:
    """Print a line for each number of hidden layers."""
    parser = add_arguments(ArgumentParser(description=__doc__.splitlines()[0]))
    parser.add_argument("--max-units", type=int, default=None)
    parser.add_argument("--epsilon-hidden", type=float, default=0.05)
    parser.add_argument("--hidden", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--test", action="store_true", help="read the test rows")
    options = parser.parse_args()
    data = load_mnist(options.data)
    test = load_mnist(options.data, test=True) if options.test else None
    names = ["node 1", "node 2", "averaged", "GEMS", "tuned, last", "tuned, all"]
    print(f"{'hidden':8}{''.join(f'{name:15}' for name in names)}units")
    for depth in options.hidden:
        trials = [cells(depth, t, options, data, test) for t in range(options.trials)]
        columns = np.array([scores for scores, _ in trials]).T
        texts = "".join(f"{c.mean():.3f} ({c.std():.3f})  " for c in columns)
        print(
            f"{depth:<8}{texts}{np.mean([units for _, units in trials], axis=0)}  "
            f"paper: averaged, GEMS, tuned, all data {PAPER[depth]}",
            flush=True,
        )


if __name__ == "__main__":
    main()
