# SPDX-License-Identifier: BSD-3-Clause
"""What PFNM is compared with: ensembles, an average, a distilled network, all rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from _common import CLASSES, Cell, networks
from sklearn.neural_network import MLPClassifier

from skgems import (
    DistillationAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.averaging import Downpour
from skgems.networks import read_network

# The paper's names of partitions, and those of `_networks.py`.
PARTITIONS = {"homogeneous": "homogeneous", "heterogeneous": "Dirichlet 0.2"}
OURS = ("PFNM", "PFNM, last layer of moments")
# The paper's cost, order and settings; sigma^2 is chosen in it, and is 1 here.
AS_PAPER = {
    "sigma": 1.0,
    "sigma0": 10**0.5,
    "gamma0": 1.0,
    "new_atom_cost": "paper",
    "layer_order": "top_down",
}


class Nodes(NamedTuple):
    """The nodes of one setting: fitted networks, and what they were fitted to."""

    estimators: list
    X: np.ndarray
    y: np.ndarray
    nodes: np.ndarray
    counts: np.ndarray
    hidden: tuple[int, ...]
    seed: int


def downpour_sgd(own: Nodes) -> ModelAveragingAggregator:
    """The paper's fourth rival: after each of ten epochs nodes push, and pull."""
    net = MLPClassifier(own.hidden, batch_size=32, alpha=0.0)
    how = {"n_rounds": 10, "learning_rate": 1e-3, "server": Downpour()}
    rounds = ModelAveragingAggregator(net, random_state=own.seed, **how)
    return rounds.fit(own.X, own.y, nodes=own.nodes)


def nodes_of(options, data, setting, J, hidden, number) -> Nodes:
    """Networks of one trial, trained as the paper's Table 1 says."""
    name = PARTITIONS[setting]
    epochs = options.epochs or networks.EPOCHS
    how = {"epochs": epochs, "glorot": getattr(options, "glorot", False)}
    fitted = networks.node_networks(name, J, hidden, number, data, options.cache, **how)
    estimators, rows, nodes = fitted
    X, y = data[0][rows], data[1][rows]
    counts = networks.class_counts(y, nodes, J)
    return Nodes(estimators, X, y, nodes, counts, hidden, number)


def average_accuracy(estimators, X, y) -> float:
    """Accuracy of the plain average of weights, unit by unit."""
    read = [read_network(e) for e in estimators]
    read = [own for own in read if not own.is_linear]
    Z = X
    for i in range(read[0].n_hidden_layers):
        W = np.mean([own.coefs[i] for own in read], axis=0)
        b = np.mean([own.intercepts[i] for own in read], axis=0)
        Z = np.maximum(Z @ W + b, 0)
    W = np.mean([own.aligned(CLASSES).last for own in read], axis=0)
    return float(np.mean(np.argmax(Z @ W[:-1] + W[-1], axis=1) == y))


def distilled(own: Nodes, options) -> DistillationAggregator:
    """One network of as many layers that says what the ensemble says of rows."""
    units, epochs = options.student, options.epochs or networks.EPOCHS
    seen = slice(options.student_rows)  # rows are in random order
    student = MLPClassifier(
        (units,) * len(own.hidden),
        batch_size=256,
        max_iter=epochs,
        random_state=own.seed,
    )
    aggregate = DistillationAggregator(
        own.estimators, student=student, weights="class_counts", random_state=own.seed
    )
    return aggregate.fit(own.X[seen], own.y[seen], nodes=own.nodes[seen])


def rivals(own: Nodes, options, test) -> Iterator[tuple[str, float]]:
    """Names of baselines, and their accuracies."""
    scores = networks.ensemble_accuracies(own.estimators, own.counts, *test)
    names = ("local (mean)", "uniform ensemble", "weighted ensemble")
    yield from zip(names, scores, strict=True)
    yield "averaged", average_accuracy(own.estimators, *test)
    if options.student:
        yield "distilled", distilled(own, options).score(*test)
    yield "Downpour SGD", downpour_sgd(own).score(*test)


def matched(own: Nodes, **settings) -> PFNMAggregator:
    """PFNM from the networks and their counts of classes."""
    aggregate = PFNMAggregator(own.estimators, random_state=own.seed, **settings)
    return aggregate.fit(n_class_samples=own.counts)


def compared(own: Nodes, options, setting, test, x) -> Iterator[Cell]:
    """Cells of baselines and of PFNM: accuracy, units, and their share of all."""
    for name, score in rivals(own, options, test):
        yield Cell(setting, name, score, x=x)
    for name, settings in {"PFNM": {}, "PFNM as in the paper": AS_PAPER}.items():
        aggregate = matched(own, **settings)
        yield Cell(setting, name, aggregate.score(*test), x=x)
        yield Cell(setting, name, sum(aggregate.n_units_), "units", x=x)
        yield Cell(setting, name, share_of_units(own, aggregate), "share of units", x=x)


def with_last_layer(own: Nodes, last_layer) -> PFNMAggregator:
    """PFNM whose last layer is made of what the nodes' rows come to."""
    aggregate = PFNMAggregator(
        own.estimators, last_layer=last_layer, random_state=own.seed
    )
    # Rows of classes that a node's network lacks are none of its rows here.
    return aggregate.fit(own.X, own.y, own.nodes)


def add_student(parser, units: int, n_rows: int | None) -> None:
    """Arguments of the distilled network."""
    parser.add_argument("--student", type=int, default=units, help="units; 0: none")
    what = "that it sees, if not all; the more the longer it takes"
    parser.add_argument("--student-rows", type=int, default=n_rows, help=what)


def share_of_units(own: Nodes, aggregate) -> float:
    """Units of the one network, of those of all nodes together."""
    everything = sum(own.hidden) * sum(hasattr(e, "coefs_") for e in own.estimators)
    return sum(aggregate.n_units_) / everything
