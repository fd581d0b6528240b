# SPDX-License-Identifier: BSD-3-Clause
"""GEMS 2019, Tables 2 and 6: networks of one hidden layer of 50, labels apart.

Table 2 is the line of five nodes. `fit` gets the 5,000 validation rows (about 1,000 a
node); with ``--n-rows`` that many of the rows that the nodes were trained on instead.
``--kind plain_hidden`` trains networks without dropout. Beside the aggregate, of one
pass and without a public row: linear discriminant analysis on the merged units (pooled
from sums, as all of it), eight messages about the last layer, rounds in which the nodes
train the whole network, and the same rounds without rows drawn from the others'
clusters, which is co-learning. The public rows are the first 1,000 validation rows.
``--of cifar10`` takes features of CIFAR-10 (``--data features.npz``) and a hidden layer
of 100, as the paper's Table 7; ``--of NAME`` features of any ten classes.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
from _common import CIFAR, CLASSES, Cell, Program, baselines, by_nodes, protocol
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.datasets import partition_by_label
from skgems.local import local_model, retrain_layers
from skgems.networks import Layers

N_PUBLIC = 1000
FIGURES = {
    2: (0.965, 0.492, 0.641, 0.766, 0.888),
    3: (0.965, 0.329, 0.422, 0.754, 0.926),
    5: (0.965, 0.199, 0.259, 0.439, 0.886),
}
OF_CIFAR = {
    2: (0.651, 0.405, 0.192, 0.335, 0.568),
    3: (0.651, 0.284, 0.163, 0.333, 0.538),
    5: (0.651, 0.183, 0.128, 0.223, 0.502),
}
# Its deviation of hidden neurons and its clusters, by the number of nodes.
EPSILON_CLUSTERS = {2: (0.01, 1), 3: (1.0, 100), 5: (1.0, 100)}
EPSILON_CLUSTERS_OF_CIFAR = {2: (0.1, 1), 3: (0.3, 150), 5: (0.3, 200)}


TUNED = "GEMS, last layer tuned"
NAMES = ("pooled", "local (mean)", "averaged", "GEMS", TUNED)
# The paper's figures stand beside both ways of its method.
ALSO = {"GEMS as in the paper": "GEMS", "GEMS as in the paper, tuned": TUNED}
ALSO["GEMS, all tuned"] = TUNED


def as_paper(K: int, of: str) -> dict:
    """The paper's way: balls of neurons, and the first point for the last layer."""
    settings = EPSILON_CLUSTERS_OF_CIFAR if of == CIFAR else EPSILON_CLUSTERS
    epsilon, n_clusters = settings[K]
    last_layer = GEMSLogisticAggregator(
        geometry="ellipsoid",
        epsilon=0.2 if of == CIFAR else 0.7,
        intersection="hinge",
        fine_tuning="plain",
        on_empty="ignore",
    )
    return {
        "last_layer": last_layer,
        "geometry_hidden": "ball",
        "construction_hidden": "sampled",
        "epsilon_hidden": epsilon,
        "n_clusters": n_clusters,
        "max_units": None,
    }


def aggregate(estimators, rows, **options):
    """The aggregate of one trial."""
    agg = GEMSMLPAggregator(estimators, random_state=0, **options)
    return agg.fit(rows.X_val, rows.y_val, nodes=rows.nodes)


def tuned(agg, public, layers="last"):
    """A copy, fine-tuned on the public rows."""
    return deepcopy(agg).fine_tune(*public, layers=layers)


def rows_of(data, K, trial, n_rows=None):
    """The rows of a trial, and the public ones; `n_rows` training rows if not None."""
    rows = protocol.trial_rows(data, K, trial)
    chosen = rows.public[:N_PUBLIC]
    public = rows.X_val[chosen], rows.y_val[chosen]
    if n_rows is None:
        return rows, public
    local = protocol.split(trial, len(data[0]))[0][:n_rows]
    X, y = data[0][local], data[1][local]
    nodes = partition_by_label(y, protocol.LABEL_GROUPS[K])
    return rows._replace(X_val=X, y_val=y, nodes=nodes), public


def discriminant_analysis(agg, rows, X):
    """Labels by pooled discriminant analysis on the merged units."""
    W, b = agg.coefs_[0], agg.intercepts_[0]
    lda = LinearDiscriminantAnalysis(solver="lsqr")
    lda.fit(np.maximum(rows.X_val @ W + b, 0), rows.y_val)
    return lda.predict(np.maximum(X @ W + b, 0))


def colearned(agg, estimators, rows, n_rounds, epochs):
    """The merged network after rounds of federated averaging from it."""
    layers = Layers(agg.coefs_, agg.intercepts_, agg.activation_)
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


def trial(options, data, test, number):
    """The cells of one trial."""
    X, y = test
    how = {"max_epochs": options.epochs or protocol.MAX_EPOCHS}
    how["width"] = 2 * protocol.WIDTH if options.of == CIFAR else protocol.WIDTH
    of_data = (number, data, options.cache)
    (pooled,) = protocol.local_models(options.kind, 1, *of_data, **how)
    for K in options.nodes:
        own = protocol.local_models(options.kind, K, *of_data, **how)
        rows, public = rows_of(data, K, number, options.n_rows)
        cells = {"pooled": pooled.score(X, y)}
        cells["local (mean)"] = np.mean([model.score(X, y) for model in own])
        vote = baselines.majority_vote(own, X, CLASSES, number)
        cells["majority vote"] = np.mean(vote == y)
        mean = baselines.average(own, CLASSES)
        cells["averaged"] = np.mean(baselines.predict(mean, X, CLASSES) == y)
        after = baselines.tune(mean, *public, CLASSES, last_only=True)
        cells["averaged, tuned"] = np.mean(baselines.predict(after, X, CLASSES) == y)
        cells["public rows alone"] = baselines.public_alone(*public).score(X, y)
        literal = aggregate(own, rows, **as_paper(K, options.of))
        cells["GEMS as in the paper"] = literal.score(X, y)
        cells["GEMS as in the paper, tuned"] = tuned(literal, public).score(X, y)
        gems = aggregate(own, rows)
        cells["discriminant analysis of the units"] = np.mean(
            discriminant_analysis(gems, rows, X) == y
        )
        cells["GEMS"] = gems.score(X, y)
        cells["GEMS, last layer tuned"] = tuned(gems, public).score(X, y)
        cells["GEMS, all tuned"] = tuned(gems, public, "all").score(X, y)
        last = GEMSLogisticAggregator(n_rounds=8)
        further = aggregate(own, rows, last_layer=last)
        cells["GEMS, 8 messages"] = further.score(X, y)
        for n in options.rounds:
            ways = {"n_rounds": n + 1, "retrain_epochs": options.round_epochs}
            whole = aggregate(own, rows, **ways)
            cells[f"GEMS, {n} rounds"] = whole.score(X, y)
            layers = colearned(gems, own, rows, n + 3, options.round_epochs)
            averaged = layers.logits(X).argmax(axis=1)
            cells[f"co-learning, {n + 3} rounds"] = np.mean(averaged == y)
        for name, value in cells.items():
            yield Cell(f"K={K}", name, value)
        for name, agg in (("GEMS as in the paper", literal), ("GEMS", gems)):
            n_units = agg.layer_report_[0]["n_units"]
            yield Cell(f"K={K}", name, n_units, "units")


def add(parser) -> None:
    parser.add_argument("--nodes", type=int, nargs="*", default=[5, 3, 2])
    parser.add_argument("--kind", default="hidden", choices=("hidden", "plain_hidden"))
    parser.add_argument("--n-rows", type=int, help="of the nodes' training rows")
    parser.add_argument("--rounds", type=int, nargs="*", default=[2])
    parser.add_argument("--round-epochs", type=int, default=1, help="of each round")


PROGRAM = Program(
    name="gems2019_table6",
    title="GEMS 2019, Tables 2 and 6: networks on MNIST",
    trial=trial,
    ours=("GEMS", "GEMS, last layer tuned", "GEMS, all tuned"),
    paper=by_nodes(FIGURES, NAMES, ALSO),
    others={CIFAR: by_nodes(OF_CIFAR, NAMES, ALSO)},
    note="Clusters and deviations of the paper's way are those of its Table 6.",
    add=add,
)

if __name__ == "__main__":
    PROGRAM.main()
