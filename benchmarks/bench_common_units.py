# SPDX-License-Identifier: BSD-3-Clause
"""Common units beside merged ones, against random units alone, on MNIST.

Each cell of the table has nodes with networks of their own: two to five digits a node,
or shares of all digits by Dirichlet(0.2). The columns are test accuracies, means over
the seeds: the vote of the networks weighted by the nodes' rows of each class, the
linear aggregate, the merged network without common units, the default, and random units
alone: as many as the default has, with the same last layer. Random units are drawn
without directions (as RandomFeatures), and along the directions in which rows vary, as
common units are. The last column is one network fitted on all rows.

Below each cell is by how much the default is above the best of the simple methods, with
the standard error over paired test rows.
"""

from __future__ import annotations

import os
import warnings
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from _protocol import DATA_VARIABLE, LABEL_GROUPS, load_mnist
from _quick import note_figure, parse_with_quick
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.datasets import partition_by_label, partition_dirichlet
from skgems.spaces import draw_common_units
from skgems.steps import RandomFeatures

# Passes over a node's rows.
EPOCHS = 15
# What the default must not be below.
SIMPLE = ("vote", "linear", "random", "random, directed")


class Cell(NamedTuple):
    """One line of the table."""

    name: str
    n_nodes: int
    hidden: tuple[int, ...] = (50,)
    activation: str = "relu"
    n_rounds: int = 1


CELLS = [
    Cell("5 nodes", 5),
    Cell("3 nodes", 3),
    Cell("2 nodes", 2),
    Cell("10 nodes, Dirichlet 0.2", 10),
    Cell("5 nodes, two hidden layers", 5, hidden=(50, 50)),
    Cell("5 nodes, tanh", 5, activation="tanh"),
    Cell("5 nodes, logistic", 5, activation="logistic"),
    Cell("5 nodes, three rounds", 5, n_rounds=3),
]


class Rows(NamedTuple):
    """Rows of one seed, their nodes, and test rows."""

    X: np.ndarray
    y: np.ndarray
    nodes: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def deal(cell: Cell, n_rows: int, seed: int, path: str | None) -> Rows:
    """Training rows of one seed, dealt over the nodes, and all test rows."""
    X, y = load_mnist(path)
    X_test, y_test = load_mnist(path, test=True)
    chosen = np.random.default_rng(seed).permutation(len(y))[:n_rows]
    y = y[chosen]
    if cell.n_nodes in LABEL_GROUPS:
        nodes = partition_by_label(y, LABEL_GROUPS[cell.n_nodes])
    else:
        nodes = partition_dirichlet(y, cell.n_nodes, alpha=0.2, random_state=seed)
    return Rows(X[chosen], y, nodes, X_test, y_test)


def train(cell: Cell, X: np.ndarray, y: np.ndarray, seed: int):
    """A node's network; of one class it is a constant."""
    if len(np.unique(y)) == 1:
        return DummyClassifier().fit(X, y)
    network = MLPClassifier(
        cell.hidden, activation=cell.activation, max_iter=EPOCHS, random_state=seed
    )
    return network.fit(X, y)


def vote(networks: list, rows: Rows) -> np.ndarray:
    """Labels by the sum of probabilities, weighted by the nodes' rows of the class."""
    shares = np.zeros((len(networks), 10))
    np.add.at(shares, (rows.nodes, rows.y), 1)
    shares /= shares.sum(axis=0)
    votes = np.zeros((len(rows.X_test), 10))
    for network, share in zip(networks, shares, strict=True):
        known = network.classes_
        votes[:, known] += network.predict_proba(rows.X_test) * share[known]
    return votes.argmax(axis=1)


def last_layer_labels(rows: Rows, W: np.ndarray | None, activation: str) -> np.ndarray:
    """Labels by the likeliest linear model of units, or of the pixels (None)."""
    Z, Z_test = (
        X if W is None else activated(X @ W[:-1] + W[-1], activation)
        for X in (rows.X, rows.X_test)
    )
    n_nodes = rows.nodes.max() + 1
    aggregator = GEMSLogisticAggregator([None] * n_nodes, C=1.0, random_state=0)
    return aggregator.fit(Z, rows.y, nodes=rows.nodes).predict(Z_test)


def activated(Z: np.ndarray, activation: str) -> np.ndarray:
    """An activation of scikit-learn's networks."""
    functions = {
        "relu": lambda Z: np.maximum(Z, 0),
        "tanh": np.tanh,
        "logistic": lambda Z: 1 / (1 + np.exp(-Z)),
    }
    return functions[activation](Z).astype(np.float32)


def random_units(X: np.ndarray, n_units: int, seed: int) -> np.ndarray:
    """Weights that look along no direction more than along others, biases last.

    They are those of RandomFeatures on rows that one scale for all pixels makes to have
    variances of 1 on average.
    """
    scaler = StandardScaler(with_std=False).fit(X)
    scale = np.sqrt(X.var(axis=0).mean())
    features = RandomFeatures(n_units, kind="relu", random_state=seed)
    features.fit(scaler.transform(X) / scale)
    weights = features.weights_ / scale
    return np.vstack([weights, features.offsets_ - scaler.mean_ @ weights])


def directed_units(X: np.ndarray, n_units: int, seed: int) -> np.ndarray:
    """Weights of common units, by the moments of all rows."""
    X = X.astype(np.float64)
    return draw_common_units(X.mean(axis=0), np.cov(X.T), n_units, random_state=seed)


def predictions(
    cell: Cell, rows: Rows, seed: int, n_common_units: list
) -> Iterator[tuple[str, np.ndarray]]:
    """Names of methods and their labels of the test rows."""
    networks = [
        train(cell, rows.X[rows.nodes == k], rows.y[rows.nodes == k], seed=k)
        for k in range(cell.n_nodes)
    ]
    yield "vote", vote(networks, rows)
    yield "linear", last_layer_labels(rows, None, cell.activation)
    for n in [0, "auto", *n_common_units]:
        aggregator = GEMSMLPAggregator(
            networks, n_common_units=n, n_rounds=cell.n_rounds, random_state=seed
        )
        aggregator.fit(rows.X, rows.y, nodes=rows.nodes)
        name = {0: "merged", "auto": "default"}.get(n, f"{n} common")
        yield name, aggregator.predict(rows.X_test)
        if n == "auto":
            n_units = aggregator.coefs_[0].shape[1]
    units = random_units(rows.X, n_units, seed)
    yield "random", last_layer_labels(rows, units, cell.activation)
    units = directed_units(rows.X, n_units, seed)
    yield "random, directed", last_layer_labels(rows, units, cell.activation)
    pooled = train(cell, rows.X, rows.y, seed)
    yield "pooled network", pooled.predict(rows.X_test)


def main() -> None:
    """Print the table."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get(DATA_VARIABLE))
    parser.add_argument("--n-rows", type=int, default=15_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--cells", type=int, nargs="+", default=range(len(CELLS)))
    parser.add_argument("--common", type=int, nargs="*", default=[])
    options = parse_with_quick(
        parser,
        quick={"n_rows": 3000, "seeds": [0], "cells": [0]},
        needs={"data": DATA_VARIABLE},
    )
    warnings.simplefilter("ignore", ConvergenceWarning)
    for cell in [CELLS[i] for i in options.cells]:
        is_right: dict[str, list] = {}
        for seed in options.seeds:
            rows = deal(cell, options.n_rows, seed, options.data)
            for name, labels in predictions(cell, rows, seed, options.common):
                is_right.setdefault(name, []).append(labels == rows.y_test)
        print(cell.name)
        for name, right in is_right.items():
            by_seed = " ".join(f"{np.mean(one):.4f}" for one in right)
            print(f"    {name:20}{np.mean(right):.4f}   ({by_seed})")
            note_figure(f"{cell.name}, {name}", np.mean(right))
        best = max(SIMPLE, key=lambda name: np.mean(is_right[name]))
        # Over rows of the mean over seeds, whose test rows are the same.
        gains = np.mean(is_right["default"], axis=0) - np.mean(is_right[best], axis=0)
        error = gains.std() / np.sqrt(len(gains))
        print(f"    above {best!r}: {gains.mean():.4f}, standard error {error:.4f}")


if __name__ == "__main__":
    main()
