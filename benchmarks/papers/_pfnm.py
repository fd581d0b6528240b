# SPDX-License-Identifier: BSD-3-Clause
"""What PFNM is compared with: ensembles, an average, a distilled network, all rows."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from _common import Cell, Trial, networks
from sklearn.neural_network import MLPClassifier

from skgems import (
    DistillationAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.averaging import Downpour
from skgems.pfnm import Matching

# The paper's names of partitions, and those of `_networks.py`.
PARTITIONS = {"homogeneous": "homogeneous", "heterogeneous": "Dirichlet 0.2"}
OURS = ("PFNM", "PFNM, last layer of moments")
# The paper's model, cost, order of layers and parameters. Its networks grow beyond 700
# units by one in each step, and here not at all.
AS_PAPER = {
    "sigma0": 10**0.5,
    "gamma0": 1.0,
    "max_units": 700,
    "matching": Matching(model="paper", new_atom_cost="paper", layer_order="top_down"),
}
# Deviations of a node's weights, of which training rows choose one. The paper does not
# say which it tried.
SIGMAS = (0.03, 0.1, 0.2, 0.3, 0.5, 1.0)
# The paper's rate of Adam for MNIST, at the nodes and at the server of Downpour SGD.
RATE = 0.01


def epochs_of(trial: Trial) -> int:
    """``--epochs``, or as many as the paper trains networks for."""
    return trial.options.epochs or networks.EPOCHS


@dataclass(kw_only=True)
class Nodes:
    """The nodes of one setting: fitted networks, and what they were fitted to."""

    estimators: list
    X: np.ndarray
    y: np.ndarray
    nodes: np.ndarray
    counts: np.ndarray  # rows of each class at each node, (n_nodes, 10)
    hidden: tuple[int, ...]
    seed: int


def fit_nodes(
    trial: Trial,
    setting: str,
    J: int,
    *,
    hidden: tuple[int, ...],
    glorot: bool = False,
) -> Nodes:
    """Networks of one trial, trained as the paper's Table 1 says."""
    estimators, rows, nodes = networks.node_networks(
        PARTITIONS[setting],
        J,
        hidden,
        trial.number,
        trial.train,
        cache_dir=trial.options.cache,
        epochs=epochs_of(trial),
        glorot=glorot,
    )
    X, y = trial.train
    return Nodes(
        estimators=estimators,
        X=X[rows],
        y=y[rows],
        nodes=nodes,
        counts=networks.class_counts(y[rows], nodes, J),
        hidden=hidden,
        seed=trial.number,
    )


def fit_pooled(trial: Trial, *, hidden: tuple[int, ...], glorot: bool):
    """The network that is fitted on all rows."""
    (network,), _, _ = networks.node_networks(
        "",
        1,
        hidden,
        trial.number,
        trial.train,
        cache_dir=trial.options.cache,
        epochs=epochs_of(trial),
        glorot=glorot,
    )
    return network


# Rivals ------------------------------------------------------------------------------


def downpour_sgd(local: Nodes, *, as_in_paper: bool) -> ModelAveragingAggregator:
    """The paper's fourth rival: after each of ten epochs nodes push, and pull.

    In the paper Adam takes the server's steps. The mean of the nodes' changes is at
    least as good, where they train at a tenth of the paper's rate.
    """
    server = Downpour(optimizer="adam", rate=RATE) if as_in_paper else Downpour()
    rate = RATE if as_in_paper else RATE / 10
    aggregator = ModelAveragingAggregator(
        MLPClassifier(local.hidden, batch_size=32, alpha=0.0, learning_rate_init=rate),
        n_rounds=10,
        learning_rate=rate,
        server=server,
        random_state=local.seed,
    )
    return aggregator.fit(local.X, local.y, nodes=local.nodes)


def distilled(
    local: Nodes, *, n_units: int, n_rows: int | None, epochs: int
) -> DistillationAggregator:
    """One network of as many layers that is fitted to the ensemble's predictions."""
    seen = slice(n_rows)  # rows are in random order
    student = MLPClassifier(
        (n_units,) * len(local.hidden),
        batch_size=256,
        max_iter=epochs,
        random_state=local.seed,
    )
    aggregator = DistillationAggregator(
        local.estimators,
        student=student,
        node_weight="class_counts",
        random_state=local.seed,
    )
    return aggregator.fit(local.X[seen], local.y[seen], nodes=local.nodes[seen])


def rivals(
    trial: Trial, local: Nodes, *, n_student_units: int
) -> Iterator[tuple[str, float]]:
    """Names of baselines, and their accuracies; no distilled network of 0 units."""
    X, y = trial.test
    chosen = trial.options.rivals
    if "ensembles" in chosen:
        local_mean, uniform, weighted = networks.ensemble_accuracies(
            local.estimators, local.counts, X, y
        )
        yield "local (mean)", local_mean
        yield "uniform ensemble", uniform
        yield "weighted ensemble", weighted
        yield "averaged", networks.average_accuracy(local.estimators, X, y)
    if n_student_units and "distilled" in chosen:
        student = distilled(
            local,
            n_units=n_student_units,
            n_rows=trial.options.student_rows,
            epochs=epochs_of(trial),
        )
        yield "distilled", trial.score(student)
    for name, option in {
        "Downpour SGD": "Downpour",
        "Downpour SGD as in the paper": "Downpour-as-in-paper",
    }.items():
        if option in chosen:
            as_in_paper = option != "Downpour"
            yield name, trial.score(downpour_sgd(local, as_in_paper=as_in_paper))


# PFNM --------------------------------------------------------------------------------


def match(local: Nodes, **settings) -> PFNMAggregator:
    """PFNM from the networks and their counts of classes, as in the paper."""
    aggregator = PFNMAggregator(
        local.estimators, last_layer=None, random_state=local.seed, **settings
    )
    return aggregator.fit(n_class_samples=local.counts)


def match_as_in_paper(local: Nodes) -> PFNMAggregator:
    """PFNM to the letter, with the sigma that is best on training rows."""
    matched = [match(local, sigma=sigma, **AS_PAPER) for sigma in SIGMAS]
    return max(matched, key=lambda aggregator: aggregator.score(local.X, local.y))


def match_with_last_layer(local: Nodes, last_layer) -> PFNMAggregator:
    """PFNM with a last layer made from moments of the nodes' rows."""
    aggregator = PFNMAggregator(
        local.estimators, last_layer=last_layer, random_state=local.seed
    )
    # Rows of classes that a node's network lacks are none of its rows here.
    return aggregator.fit(local.X, local.y, local.nodes)


def share_of_units(local: Nodes, aggregator: PFNMAggregator) -> float:
    """Units of the one network, of those of all nodes together."""
    n_networks = sum(hasattr(estimator, "coefs_") for estimator in local.estimators)
    return sum(aggregator.n_units_) / (sum(local.hidden) * n_networks)


def compare(trial: Trial, local: Nodes, setting: str, x: float) -> Iterator[Cell]:
    """Cells of baselines and of PFNM: accuracy, units, and their share of all."""
    accuracies = rivals(trial, local, n_student_units=trial.options.student)
    for name, accuracy in accuracies:
        yield Cell(setting, name, accuracy, x=x)
    for name, make in {
        "PFNM": match,
        "PFNM as in the paper": match_as_in_paper,
    }.items():
        aggregator = make(local)
        share = share_of_units(local, aggregator)
        yield Cell(setting, name, trial.score(aggregator), x=x)
        yield Cell(setting, name, sum(aggregator.n_units_), "units", x=x)
        yield Cell(setting, name, share, "share of units", x=x)
        if name != "PFNM":
            yield Cell(setting, name, aggregator.sigma_[0], "sigma", x=x)


def add_rivals_option(parser: ArgumentParser) -> None:
    """Add which baselines are measured; those of rounds take longest."""
    names = ["ensembles", "distilled", "Downpour", "Downpour-as-in-paper"]
    parser.add_argument("--rivals", nargs="*", choices=names, default=names)


def add_student_options(
    parser: ArgumentParser, *, n_units: int, n_rows: int | None
) -> None:
    """Add baselines, the size of the distilled network, and the rows that it sees."""
    add_rivals_option(parser)
    parser.add_argument("--student", type=int, default=n_units, help="units; 0: none")
    parser.add_argument(
        "--student-rows",
        type=int,
        default=n_rows,
        help="that it sees, if not all; the more the longer it takes",
    )
