# SPDX-License-Identifier: BSD-3-Clause
"""GEMS for networks on MNIST: one hidden layer of 50, labels apart, one model.

Accuracy over trials, mean and standard deviation, next to the paper's (Guha and
Smith 2019, Tables 6 and 9), then by the size of the model and by n_clusters and
epsilon_hidden (its Tables 3 and 9). `fit` gets the 5,000 validation rows (about 1,000 a
node); with ``--n-rows`` that many of the rows that the nodes were trained on instead.
``--kind plain_hidden`` trains networks without dropout. Beside the aggregate, of one
pass and without a public row: the plain mean of the weights, linear discriminant
analysis on the merged units (pooled from sums, as all of it), eight messages about the
last layer, rounds in which the nodes train the whole network, and the same rounds
without rows drawn from the others' clusters, which is co-learning. The public rows are
the first validation rows. Without ``--test`` accuracies are read on the selection rows.
"""

from __future__ import annotations

from argparse import ArgumentParser
from copy import deepcopy

import numpy as np
from _baselines import average, predict
from _protocol import (
    LABEL_GROUPS,
    add_arguments,
    load_mnist,
    local_models,
    split,
    trial_rows,
)
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.datasets import partition_by_label
from skgems.local import local_model, retrain_layers
from skgems.networks import Layers

CLASSES = np.arange(10)
# What the paper reports: averaged, GEMS, GEMS tuned on 1000 rows.
PAPER = {5: (0.259, 0.439, 0.886), 3: (0.422, 0.754, 0.926), 2: (0.641, 0.766, 0.888)}
# Public rows and layers of each fine-tuning.
TUNINGS = [(100, "last"), (100, "all"), (1000, "last"), (1000, "all")]


def aggregate(estimators, rows, **options):
    """The aggregate of one trial."""
    agg = GEMSMLPAggregator(estimators, random_state=0, **options)
    return agg.fit(rows.X_val, rows.y_val, nodes=rows.nodes)


def tuned(agg, public, n_public, layers="last"):
    """A copy, fine-tuned on the first `n_public` public rows."""
    X, y = public
    return deepcopy(agg).fine_tune(X[:n_public], y[:n_public], layers=layers)


def rows_of(data, K, trial, n_rows):
    """The rows of a trial, and the public ones; `n_rows` training rows if not None."""
    rows = trial_rows(data, K, trial)
    public = rows.X_val[rows.public], rows.y_val[rows.public]
    if n_rows is None:
        return rows, public
    local = split(trial)[0][:n_rows]
    X, y = data[0][local], data[1][local]
    nodes = partition_by_label(y, LABEL_GROUPS[K])
    return rows._replace(X_val=X, y_val=y, nodes=nodes), public


def discriminant_analysis(agg, rows, X):
    """Labels by pooled discriminant analysis on the merged units."""
    lda = LinearDiscriminantAnalysis(solver="lsqr")
    lda.fit(agg._hidden(rows.X_val), rows.y_val)
    return lda.predict(agg._hidden(X))


def colearned(agg, estimators, rows, n_rounds, epochs):
    """The merged network after rounds of federated averaging from it."""
    layers = agg._layers
    for number in range(n_rounds):
        made, counts = [], []
        for k, estimator in enumerate(estimators):
            own = rows.nodes == k
            trained = retrain_layers(
                local_model(estimator, name=str(k)),
                layers,
                rows.X_val[own],
                rows.y_val[own],
                epochs=epochs,
                random_state=number,
            )
            made.append([*trained.coefs, *trained.intercepts])
            counts.append(own.sum())
        mean = [np.average(p, axis=0, weights=counts) for p in zip(*made, strict=True)]
        depth = len(mean) // 2
        layers = Layers(mean[:depth], mean[depth:], layers.activation)
    return layers


def main_table(K, trial, options, data, test):
    """Accuracies of one trial by what was done, and the number of units."""
    estimators = local_models(options.kind, K, trial, data, options.cache)
    rows, public = rows_of(data, K, trial, options.n_rows)
    X, y = test if test is not None else (rows.X_sel, rows.y_sel)
    given = {
        "max_units": options.max_units,
        "include_outgoing": options.include_outgoing,
    }
    agg = aggregate(estimators, rows, **given)
    cells = {
        "averaged": np.mean(predict(average(estimators, CLASSES), X, CLASSES) == y),
        "LDA": np.mean(discriminant_analysis(agg, rows, X) == y),
        "GEMS": agg.score(X, y),
    }
    for how in TUNINGS:
        cells[f"{how[0]} {how[1]}"] = tuned(agg, public, *how).score(X, y)
    last = GEMSLogisticAggregator(n_rounds=8)
    further = aggregate(estimators, rows, last_layer=last, **given)
    cells["8 messages"] = further.score(X, y)
    for n in options.rounds:
        whole = aggregate(
            estimators, rows, n_rounds=n + 1, retrain_epochs=options.epochs, **given
        )
        cells[f"{n} rounds"] = whole.score(X, y)
        layers = colearned(agg, estimators, rows, n + 3, options.epochs)
        cells[f"co-learn {n + 3}"] = np.mean(layers.logits(X).argmax(axis=1) == y)
    cells["units"] = agg.layer_report_[0]["n_units"]
    return cells


def size_table(trial, options, data, test):
    """Accuracy at K=5 by the largest size: untuned and tuned, and the units."""
    settings = [{"max_units": n} for n in (50, 75, 100, 150, None)]
    return by_setting(settings, ("last", "all"), trial, options, data, test)


def epsilon_table(trial, options, data, test):
    """Accuracy at K=5 by clusters (the paper's m_epsilon) and epsilon_hidden."""
    settings = [
        {"n_clusters": m, "epsilon_hidden": epsilon}
        for m in (50, 75, 100, None)
        for epsilon in (0.05, 0.2, 0.5, 1.0)
    ]
    return by_setting(settings, ("last",), trial, options, data, test)


def by_setting(settings, layers, trial, options, data, test):
    """Accuracies of one trial at K=5, untuned and tuned on 1000 rows, and the units."""
    estimators = local_models(options.kind, 5, trial, data, options.cache)
    rows, public = rows_of(data, 5, trial, options.n_rows)
    X, y = test if test is not None else (rows.X_sel, rows.y_sel)
    lines = {}
    for setting in settings:
        agg = aggregate(estimators, rows, **setting)
        after = [tuned(agg, public, 1000, which) for which in layers]
        name = ", ".join(f"{key}={value}" for key, value in setting.items())
        scores = [model.score(X, y) for model in (agg, *after)]
        lines[name] = [*scores, agg.coefs_[0].shape[1]]
    return lines


def cell(values) -> str:
    return f"{np.mean(values):.3f} ({np.std(values):.3f})"


def print_main_table(options, data, test) -> None:
    for K in options.nodes:
        trials = range(options.trials)
        table = [main_table(K, t, options, data, test) for t in trials]
        if K == options.nodes[0]:
            print("K  " + "".join(f"{name:15}" for name in table[0]) + "paper")
        columns = {name: [line[name] for line in table] for name in table[0]}
        units = np.mean(columns.pop("units"))
        cells = "".join(f"{cell(column):15}" for column in columns.values())
        print(f"{K:<3}{cells}{units:<15.0f}{PAPER[K]}", flush=True)


def print_by_setting(of_trial, options, data, test) -> None:
    tables = [of_trial(t, options, data, test) for t in range(options.trials)]
    n_columns = len(next(iter(tables[0].values()))) - 1
    names = ["GEMS", "1000 rows, last", "1000 rows, all"][:n_columns]
    print(f"\n{'K=5':38}{''.join(f'{name:16}' for name in names)}units")
    for setting in tables[0]:
        lines = np.array([table[setting] for table in tables])
        cells = "".join(f"{cell(column):16}" for column in lines[:, :-1].T)
        print(f"{setting:38}{cells}{lines[:, -1].mean():.0f}", flush=True)


def _number_or_none(text: str):
    if text == "auto":
        return text
    return None if text == "none" else int(text)


def main() -> None:
    """Print the tables that are asked for."""
    parser = add_arguments(ArgumentParser(description=__doc__.splitlines()[0]))
    parser.add_argument("--kind", default="hidden", choices=("hidden", "plain_hidden"))
    parser.add_argument("--max-units", type=_number_or_none, default="auto")
    parser.add_argument("--nodes", type=int, nargs="*", default=[5, 3, 2])
    parser.add_argument("--include-outgoing", action="store_true")
    parser.add_argument("--n-rows", type=int, help="of the nodes' training rows")
    parser.add_argument("--rounds", type=int, nargs="*", default=[2])
    parser.add_argument("--epochs", type=int, default=1, help="of each round")
    parser.add_argument(
        "--tables",
        nargs="*",
        choices=("main", "sizes", "epsilons"),
        default=("main", "sizes", "epsilons"),
    )
    parser.add_argument("--test", action="store_true", help="read the test rows")
    options = parser.parse_args()
    data = load_mnist(options.data)
    test = load_mnist(options.data, test=True) if options.test else None
    if "main" in options.tables:
        print_main_table(options, data, test)
    if "sizes" in options.tables:
        print_by_setting(size_table, options, data, test)
        print("paper, tuned: 0.872 (74 units), 0.886 (99); ensemble of 250: 0.210")
    if "epsilons" in options.tables:
        print_by_setting(epsilon_table, options, data, test)


if __name__ == "__main__":
    main()
