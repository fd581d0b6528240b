# SPDX-License-Identifier: BSD-3-Clause
"""The penalty that is chosen from sums, beside C=1 and the best of ten strengths.

Accuracy and log-loss on test rows of the likeliest linear model of one message: of the
merged units of networks (30 units at each of three nodes, Dirichlet 0.3), and of 300
random cosines of the same rows. The best of ten strengths is chosen by the test rows,
which nobody could do. The table of the guide's page on what is taken over from nodes is
made by it.
"""

from __future__ import annotations

import argparse
import warnings
from argparse import Namespace
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from _federations import TABULAR, add_data_options, load_data_set
from _quick import note_figure, parse_with_quick
from sklearn.dummy import DummyClassifier
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.datasets import partition_dirichlet

SETS = ("digits", "penbased", "spambase", "led7digit", "movement_libras")
STRENGTHS = tuple(10.0 ** np.arange(-4, 6))
MAX_TRAIN_ROWS = 2000
N_NODES = 3
N_UNITS = 30  # of the hidden layer of each node's network
N_COSINES = 300
COLUMNS = ("C", "accuracy", "log-loss")


class Rows(NamedTuple):
    """Rows of one seed, standardized, their nodes, and test rows."""

    X: np.ndarray
    y: np.ndarray
    nodes: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def deal(data_set: str, seed: int, options: Namespace) -> Rows:
    """Training rows of a data set, dealt over the nodes, and test rows."""
    X, y = load_data_set(data_set, options)
    n_train = min(MAX_TRAIN_ROWS, round(0.6 * len(y)))
    X, X_test, y, y_test = train_test_split(
        X, y, train_size=n_train, stratify=y, random_state=seed
    )
    scaler = StandardScaler().fit(X)
    nodes = partition_dirichlet(y, N_NODES, alpha=0.3, random_state=seed)
    return Rows(scaler.transform(X), y, nodes, scaler.transform(X_test), y_test)


def merge_networks(rows: Rows, C: float | str, seed: int):
    """The network of merged and common units, and the C of its last layer."""
    networks = []
    for k in range(N_NODES):
        in_node = rows.nodes == k
        is_constant = len(np.unique(rows.y[in_node])) == 1
        network = MLPClassifier(N_UNITS, max_iter=50, random_state=k)
        classifier = DummyClassifier() if is_constant else network
        networks.append(classifier.fit(rows.X[in_node], rows.y[in_node]))
    aggregator = GEMSMLPAggregator(
        networks, last_layer=GEMSLogisticAggregator(C=C), random_state=seed
    )
    aggregator.fit(rows.X, rows.y, nodes=rows.nodes)
    return aggregator, aggregator.last_layer_.C_


def merge_cosines(rows: Rows, C: float | str, seed: int):
    """The linear model of random cosines, in a message, and its C."""
    aggregator = GEMSLogisticAggregator([None] * N_NODES, C=C, random_state=seed)
    aggregator.fit(rows.X, rows.y, nodes=rows.nodes)
    return aggregator, aggregator.C_


def with_cosines(rows: Rows, seed: int) -> Rows:
    """The same rows in random cosines."""
    gamma = 0.5 / rows.X.shape[1]
    cosines = RBFSampler(gamma=gamma, n_components=N_COSINES, random_state=seed)
    return rows._replace(
        X=cosines.fit_transform(rows.X), X_test=cosines.transform(rows.X_test)
    )


MODELS = {"networks": merge_networks, "cosines": merge_cosines}


def measure(rows: Rows, model: str, C: float | str, seed: int) -> tuple[float, ...]:
    """The C that was used, accuracy and log-loss on test rows."""
    aggregator, used_C = MODELS[model](rows, C, seed)
    probabilities = aggregator.predict_proba(rows.X_test)
    loss = log_loss(rows.y_test, probabilities, labels=aggregator.classes_)
    return used_C, aggregator.score(rows.X_test, rows.y_test), loss


def measure_lines(
    data_set: str, model: str, options: Namespace
) -> Iterator[tuple[str, np.ndarray]]:
    """Name and mean C, accuracy and log-loss of three ways, over seeds."""
    of_seeds = []
    for seed in range(options.seeds):
        rows = deal(data_set, seed, options)
        if model == "cosines":
            rows = with_cosines(rows, seed)
        of_strengths = [measure(rows, model, C, seed) for C in STRENGTHS]
        best = min(of_strengths, key=lambda measured: measured[2])
        usual = of_strengths[STRENGTHS.index(1.0)]
        of_seeds.append([usual, measure(rows, model, "auto", seed), best])
    names = ("C=1", "auto", "least log-loss")
    logarithms = np.array(of_seeds)
    logarithms[..., 0] = np.log(logarithms[..., 0])
    for name, means in zip(names, logarithms.mean(axis=0), strict=True):
        yield name, np.array([np.exp(means[0]), *means[1:]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_options(parser)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--seeds", type=int, default=3)
    quick = {"sets": ["digits"], "models": ["cosines"], "seeds": 1}
    options = parse_with_quick(parser, quick=quick)
    warnings.simplefilter("ignore")
    print(
        f"{'set':16}{'model':10}{'way':16}{COLUMNS[0]:>9}{COLUMNS[1]:>10}{COLUMNS[2]:>10}"
    )
    for data_set in options.sets:
        if data_set in TABULAR and not options.tabular:
            print(f"{data_set}: left out; give --tabular")
            continue
        for model in options.models:
            for name, (C, accuracy, loss) in measure_lines(data_set, model, options):
                note_figure(f"{data_set}, {model}, {name}", accuracy)
                print(
                    f"{data_set:16}{model:10}{name:16}{C:9.3g}{accuracy:10.3f}"
                    f"{loss:10.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
