# SPDX-License-Identifier: BSD-3-Clause
"""GEMS 2019, Tables 2 and 6: networks of one hidden layer of 50, labels apart.

Table 2 of the paper is the column K=5. `fit` gets the 5,000 validation rows (about
1,000 per node). With ``--n-rows`` it gets that many of the rows that the nodes were
trained on instead. ``--kind plain_hidden`` trains networks without dropout. The public
rows are the first 1,000 validation rows.

"GEMS" is made in one pass and without public rows, of merged units alone. "GEMS, common
units" is the default, with random units beside the merged ones. GEMS is compared with
linear discriminant analysis on the merged units, which is computed from sums. It is
also compared with eight messages about the last layer, and with rounds in which the
nodes train the whole network. Co-learning is these rounds without the rows that are
drawn from other nodes' clusters.

"GEMS as in the paper" is tuned in its last layer, at a rate of 0.01, as in the authors'
published code. With 0.001, which the paper's appendix names for local training, it has
0.805, 0.894 and 0.921 for five, three and two nodes. No setting that
``benchmarks/bench_tuned_as_paper.py`` changes reaches the paper's figure for five
nodes, unless all layers are tuned.

``--of cifar10`` uses features of CIFAR-10 (``--data features.npz``) and a hidden layer
of 100 units, as in the paper's Table 7. Deviations of hidden neurons are relative to
their size. For CIFAR-10 they are 3 times the paper's, which are in the unit of its
activations. The factor was chosen by numbers of units, of five that were tried, as the
table of sizes explains. ``--of NAME`` uses features of any ten classes.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from copy import deepcopy

import numpy as np
from _common import (
    CIFAR,
    CLASSES,
    Cell,
    Program,
    Rows,
    Trial,
    accuracies_by_nodes,
    baselines,
    protocol,
)
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.datasets import partition_by_label
from skgems.gems import HiddenLayers, Spaces
from skgems.local import local_model, retrain_layers
from skgems.networks import Layers

# As many public rows as the paper has.
N_PUBLIC = 1000
# The paper's accuracies by number of nodes, in the order of NAMES.
FIGURES = {
    2: (0.965, 0.492, 0.641, 0.766, 0.888),
    3: (0.965, 0.329, 0.422, 0.754, 0.926),
    5: (0.965, 0.199, 0.259, 0.439, 0.886),
}
FIGURES_OF_CIFAR = {
    2: (0.651, 0.405, 0.192, 0.335, 0.568),
    3: (0.651, 0.284, 0.163, 0.333, 0.538),
    5: (0.651, 0.183, 0.128, 0.223, 0.502),
}
# Its deviation of hidden neurons and its clusters, by the number of nodes.
EPSILON_CLUSTERS = {2: (0.01, 1), 3: (1.0, 100), 5: (1.0, 100)}
EPSILON_CLUSTERS_OF_CIFAR = {2: (0.1, 1), 3: (0.3, 150), 5: (0.3, 200)}
# Relative deviations of CIFAR-10, as a multiple of the paper's; see the table of sizes.
FACTOR_OF_CIFAR = 3.0

TUNED = "GEMS, last layer tuned"
COMMON = "GEMS, common units"
NAMES = ("pooled", "local (mean)", "averaged", "GEMS", TUNED)
# The paper's figures stand beside both ways of its method.
SAME_AS = {
    "GEMS as in the paper": "GEMS",
    "GEMS as in the paper, tuned": TUNED,
    "GEMS, all tuned": TUNED,
}


def as_paper(K: int, data_set: str) -> dict:
    """The paper's way: balls of neurons, and the first point for the last layer."""
    settings = EPSILON_CLUSTERS_OF_CIFAR if data_set == CIFAR else EPSILON_CLUSTERS
    epsilon, n_clusters = settings[K]
    if data_set == CIFAR:
        epsilon *= FACTOR_OF_CIFAR
    last_layer = GEMSLogisticAggregator(
        spaces=Spaces("ellipsoid", on_empty="ignore"),
        epsilon=0.2 if data_set == CIFAR else 0.7,
        intersection="hinge",
        fine_tuning="plain",
    )
    hidden_layers = HiddenLayers(
        "ball",
        epsilon=epsilon,
        n_clusters=n_clusters,
        max_units=None,
    )
    return {"last_layer": last_layer, "hidden_layers": hidden_layers}


def aggregate(
    models: list, rows: protocol.Rows, *, n_common_units: int | str = 0, **parameters
) -> GEMSMLPAggregator:
    """The aggregate of one trial, of merged units alone unless asked otherwise."""
    aggregator = GEMSMLPAggregator(
        models, n_common_units=n_common_units, random_state=0, **parameters
    )
    return aggregator.fit(rows.X_val, rows.y_val, nodes=rows.nodes)


def tuned_copy(
    aggregator: GEMSMLPAggregator, public: Rows, layers: str = "last"
) -> GEMSMLPAggregator:
    """A copy, fine-tuned on the public rows."""
    X, y = public
    return deepcopy(aggregator).fine_tune(X, y, layers=layers)


def rows_and_public(
    trial: Trial, K: int, n_rows: int | None = None
) -> tuple[protocol.Rows, Rows]:
    """The rows of a trial, and the public ones; `n_rows` training rows if not None."""
    rows = trial.rows(K)
    chosen = rows.public[:N_PUBLIC]
    public = (rows.X_val[chosen], rows.y_val[chosen])
    if n_rows is None:
        return rows, public
    X, y = trial.train
    local = protocol.split(trial.number, len(X))[0][:n_rows]
    nodes = partition_by_label(y[local], protocol.LABEL_GROUPS[K])
    return rows._replace(X_val=X[local], y_val=y[local], nodes=nodes), public


def discriminant_analysis(
    aggregator: GEMSMLPAggregator, rows: protocol.Rows, X: np.ndarray
) -> np.ndarray:
    """Labels by pooled discriminant analysis on the merged units."""
    W = aggregator.coefs_[0]
    b = aggregator.intercepts_[0]
    lda = LinearDiscriminantAnalysis(solver="lsqr")
    lda.fit(np.maximum(rows.X_val @ W + b, 0), rows.y_val)
    return lda.predict(np.maximum(X @ W + b, 0))


def colearned_layers(
    aggregator: GEMSMLPAggregator,
    models: list,
    rows: protocol.Rows,
    *,
    n_rounds: int,
    epochs: int,
) -> Layers:
    """The merged network after rounds of federated averaging from it."""
    layers = Layers(aggregator.coefs_, aggregator.intercepts_, aggregator.activation_)
    depth = len(layers.coefs)
    for number in range(n_rounds):
        parameters = []  # of each node: matrices, and behind them intercepts
        counts = []
        for k, model in enumerate(models):
            in_node = rows.nodes == k
            trained = retrain_layers(
                local_model(model, name=str(k)),
                layers,
                rows.X_val[in_node],
                rows.y_val[in_node],
                epochs=epochs,
                random_state=number,
            )
            parameters.append([*trained.coefs, *trained.intercepts])
            counts.append(in_node.sum())
        means = [
            np.average(of_nodes, axis=0, weights=counts)
            for of_nodes in zip(*parameters, strict=True)
        ]
        layers = Layers(means[:depth], means[depth:], layers.activation)
    return layers


def measure_baselines(
    trial: Trial, models: list, public: Rows
) -> Iterator[tuple[str, float]]:
    """Names and accuracies of what the aggregate is compared with."""
    X_public, y_public = public
    yield "local (mean)", np.mean([trial.score(model) for model in models])
    yield "majority vote", trial.accuracy_of_vote(models)
    averaged = baselines.average(models, CLASSES)
    yield "averaged", trial.accuracy_of_layers(averaged)
    tuned = baselines.tune(averaged, X_public, y_public, CLASSES, last_only=True)
    yield "averaged, tuned", trial.accuracy_of_layers(tuned)
    alone = baselines.public_alone(X_public, y_public)
    yield "public rows alone", trial.score(alone)


def measure_rounds(
    trial: Trial, gems: GEMSMLPAggregator, models: list, rows: protocol.Rows
) -> Iterator[tuple[str, float]]:
    """Names and accuracies of what takes further messages."""
    X_test, y_test = trial.test
    epochs = trial.options.round_epochs
    last_layer = GEMSLogisticAggregator(n_rounds=8)
    further = aggregate(models, rows, last_layer=last_layer)
    yield "GEMS, 8 messages", trial.score(further)
    for n in trial.options.rounds:
        retrained = aggregate(models, rows, n_rounds=n + 1, local_epochs=epochs)
        yield f"GEMS, {n} rounds", trial.score(retrained)
        # Of two rounds the aggregate takes six messages, and co-learning, which begins
        # at the merged network, five.
        layers = colearned_layers(gems, models, rows, n_rounds=n + 3, epochs=epochs)
        labels = layers.logits(X_test).argmax(axis=1)
        yield f"co-learning, {n + 3} rounds", np.mean(labels == y_test)


def measure_cells(trial: Trial) -> Iterator[Cell]:
    """The cells of one trial."""
    options = trial.options
    X_test, y_test = trial.test
    pooled = trial.pooled_model(options.kind, width=trial.width)
    for K in options.nodes:
        setting = f"K={K}"
        models = trial.local_models(options.kind, K, width=trial.width)
        rows, public = rows_and_public(trial, K, options.n_rows)
        yield Cell(setting, "pooled", trial.score(pooled))
        for name, accuracy in measure_baselines(trial, models, public):
            yield Cell(setting, name, accuracy)
        literal = aggregate(models, rows, **as_paper(K, options.of))
        yield Cell(setting, "GEMS as in the paper", trial.score(literal))
        literal_tuned = tuned_copy(literal, public)
        yield Cell(setting, "GEMS as in the paper, tuned", trial.score(literal_tuned))
        gems = aggregate(models, rows)
        labels = discriminant_analysis(gems, rows, X_test)
        accuracy = np.mean(labels == y_test)
        yield Cell(setting, "discriminant analysis of the units", accuracy)
        yield Cell(setting, "GEMS", trial.score(gems))
        yield Cell(setting, TUNED, trial.score(tuned_copy(gems, public)))
        all_tuned = tuned_copy(gems, public, layers="all")
        yield Cell(setting, "GEMS, all tuned", trial.score(all_tuned))
        with_common = aggregate(models, rows, n_common_units="auto")
        yield Cell(setting, COMMON, trial.score(with_common))
        for name, accuracy in measure_rounds(trial, gems, models, rows):
            yield Cell(setting, name, accuracy)
        for name, aggregator in (("GEMS as in the paper", literal), ("GEMS", gems)):
            n_units = aggregator.layer_report_[0]["n_units"]
            yield Cell(setting, name, n_units, "units")


def add_options(parser: ArgumentParser) -> None:
    """Add nodes, kinds of networks, rows and rounds."""
    parser.add_argument("--nodes", type=int, nargs="*", default=[5, 3, 2])
    parser.add_argument("--kind", default="hidden", choices=("hidden", "plain_hidden"))
    parser.add_argument("--n-rows", type=int, help="of the nodes' training rows")
    parser.add_argument("--rounds", type=int, nargs="*", default=[2])
    parser.add_argument("--round-epochs", type=int, default=1, help="of each round")


PROGRAM = Program(
    name="gems2019_table6",
    title="GEMS 2019, Tables 2 and 6: networks on MNIST",
    measure_cells=measure_cells,
    ours=("GEMS", TUNED, "GEMS, all tuned", COMMON),
    paper=accuracies_by_nodes(FIGURES, NAMES, SAME_AS),
    others={CIFAR: accuracies_by_nodes(FIGURES_OF_CIFAR, NAMES, SAME_AS)},
    note='"GEMS as in the paper" has the clusters and deviations of its Table 6.',
    add_options=add_options,
)

if __name__ == "__main__":
    PROGRAM.main()
