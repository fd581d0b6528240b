# SPDX-License-Identifier: BSD-3-Clause
"""How sure networks are, with and without the factor on the logits of the last layer.

Two, three and five nodes have shares of the classes by Dirichlet(0.2), and networks of
50 relu units. Each cell has accuracy, log-loss and expected calibration error on rows
that no node has, as means over the seeds:

- before: the last layer as the nodes' sums make it, without a factor;
- default: with the factor;
- C=1: a penalty that the user gives, where no factor is asked for;
- random: all rows at one place, 500 random units drawn as common units, and the penalty
  that the sums choose.
"""

from __future__ import annotations

import os
import warnings
from argparse import ArgumentParser
from collections.abc import Iterator

import numpy as np
from _protocol import DATA_VARIABLE, load_mnist
from _quick import note_figure, parse_with_quick
from bench_combine import calibration_error
from bench_common_units import activated, directed_units
from scipy.special import softmax
from sklearn.datasets import load_digits, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.datasets import partition_dirichlet

SETS = ("mnist", "digits", "clean", "overlapping")
# Passes over a node's rows.
EPOCHS = 15
N_RANDOM_UNITS = 500


def load(name: str, n_rows: int, seed: int, path: str | None) -> tuple:
    """Training rows, test rows, and the labels of both."""
    if name == "mnist":
        X, y = load_mnist(path)
        X_test, y_test = load_mnist(path, test=True)
        chosen = np.random.default_rng(seed).permutation(len(y))[:n_rows]
        return X[chosen], X_test, y[chosen], y_test
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return train_test_split(X / 16, y, train_size=1000, random_state=seed)
    is_clean = name == "clean"
    X, y = make_classification(
        10_000,
        n_features=36,
        n_informative=12 if is_clean else 18,
        n_classes=3 if is_clean else 4,
        n_clusters_per_class=2 if is_clean else 3,
        class_sep=1.5 if is_clean else 1.0,
        random_state=seed,
    )
    X, X_test, y, y_test = train_test_split(
        X, y, train_size=min(n_rows, 4000), random_state=seed
    )
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), scaler.transform(X_test), y, y_test


def train(X: np.ndarray, y: np.ndarray, seed: int) -> MLPClassifier | DummyClassifier:
    """A node's network; of one class it is a constant."""
    if len(np.unique(y)) == 1:
        return DummyClassifier().fit(X, y)
    return MLPClassifier((50,), max_iter=EPOCHS, random_state=seed).fit(X, y)


def probabilities(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, *, n_nodes: int, seed: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Names of models, and their probabilities of test rows."""
    nodes = partition_dirichlet(y, n_nodes, alpha=0.2, random_state=seed)
    networks = [train(X[nodes == k], y[nodes == k], seed=k) for k in range(n_nodes)]
    default = GEMSMLPAggregator(networks, random_state=seed).fit(X, y, nodes=nodes)
    likelihood = default.last_layer_.likelihood_
    W = likelihood.to_rows(likelihood.minimize(tol=1e-8))
    Z_test = activated(X_test @ default.coefs_[0] + default.intercepts_[0], "relu")
    logits = Z_test @ W[:-1] + W[-1]
    yield "before", softmax(logits, axis=1)
    yield "default", default.predict_proba(X_test)
    with_C = GEMSMLPAggregator(
        networks, last_layer=GEMSLogisticAggregator(C=1.0), random_state=seed
    )
    yield "C=1", with_C.fit(X, y, nodes=nodes).predict_proba(X_test)
    units = directed_units(X, N_RANDOM_UNITS, seed)
    Z, Z_test = (activated(X @ units[:-1] + units[-1], "relu") for X in (X, X_test))
    random = GEMSLogisticAggregator([None], C="auto", random_state=seed).fit(Z, y)
    yield "random", random.predict_proba(Z_test)


def main() -> None:
    """Print the table."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get(DATA_VARIABLE))
    parser.add_argument("--sets", choices=SETS, nargs="+", default=SETS)
    parser.add_argument("--nodes", type=int, nargs="+", default=[2, 3, 5])
    parser.add_argument("--n-rows", type=int, default=6000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parse_with_quick(parser, quick={"sets": ["clean"], "nodes": [3]})
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in options.sets:
        for n_nodes in options.nodes:
            scores: dict[str, list] = {}
            for seed in options.seeds:
                X, X_test, y, y_test = load(name, options.n_rows, seed, options.data)
                models = probabilities(X, y, X_test, n_nodes=n_nodes, seed=seed)
                for model, P in models:
                    is_right = P.argmax(axis=1) == y_test
                    loss = log_loss(y_test, P)
                    error = calibration_error(P, is_right)
                    scores.setdefault(model, []).append([is_right.mean(), loss, error])
            print(f"{name}, {n_nodes} nodes: accuracy, log-loss, calibration error")
            for model, of_seeds in scores.items():
                accuracy, loss, error = np.mean(of_seeds, axis=0)
                print(f"    {model:10}{accuracy:.4f}  {loss:.4f}  {error:.4f}")
                note_figure(f"{name}, {n_nodes} nodes, {model}", loss)


if __name__ == "__main__":
    main()
