# SPDX-License-Identifier: BSD-3-Clause
"""What the bound on numbers about hidden layers costs merged networks.

Over a channel with ``min_rows=10`` nodes tell fewer numbers about hidden layers than
their rows hold; with ``min_rows=1`` they tell all moments. Points of test accuracy of
GEMSMLPAggregator between the two, in one message about layers and in two, where nodes
train the merged network in between.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from skgems import GEMSMLPAggregator
from skgems.datasets import partition_by_label, partition_dirichlet
from skgems.federation import Agreement, Nodes, reply_to

DATA = {"digits": (load_digits, 5), "breast_cancer": (load_breast_cancer, 3)}
NETWORKS = [("digits", 100), ("digits", 30), ("breast_cancer", 30)]


def partitions(y: np.ndarray, n_nodes: int, seed: int) -> dict[str, np.ndarray]:
    """Nodes of rows by name of the partition."""
    found = {
        "alike": np.arange(len(y)) % n_nodes,
        "dirichlet 0.5": partition_dirichlet(y, n_nodes, alpha=0.5, random_state=seed),
    }
    if len(np.unique(y)) >= n_nodes:
        found["disjoint"] = partition_by_label(y, n_nodes)
    return found


def accuracy(
    networks: dict, X, y, nodes, X_test, y_test, *, min_rows: int, n_rounds: int
) -> float:
    """Test accuracy of a network that is merged over a channel."""
    ledgers: dict = {name: {} for name in networks}

    def ask(requests):
        return {
            name: reply_to(
                request,
                networks[name],
                X[nodes == int(name)],
                y[nodes == int(name)],
                name=name,
                min_rows=min_rows,
                state=ledgers[name],
            )
            for name, request in requests.items()
        }

    merged = GEMSMLPAggregator(n_rounds=n_rounds, random_state=0)
    agreement = Agreement.of(merged, min_rows=min_rows)
    channel = Nodes(ask, list(networks), agreement=agreement)
    return merged.set_params(estimators=channel).fit().score(X_test, y_test)


def main() -> None:
    """Print a line for each data set, size of networks and partition."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    costs: dict[tuple, list] = {}
    for data, n_units in NETWORKS:
        load, n_nodes = DATA[data]
        X, y = load(return_X_y=True)
        for seed in options.seeds:
            X_train, X_test, y_train, y_test = train_test_split(
                X, y, test_size=0.3, random_state=seed, stratify=y
            )
            scaler = StandardScaler().fit(X_train)
            X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
            for partition, nodes in partitions(y_train, n_nodes, seed).items():
                networks = {
                    str(k): MLPClassifier((n_units,), max_iter=400, random_state=k).fit(
                        X_train[nodes == k], y_train[nodes == k]
                    )
                    for k in range(n_nodes)
                }
                for n_rounds in (1, 2):
                    all_told, bounded = (
                        accuracy(
                            networks,
                            X_train,
                            y_train,
                            nodes,
                            X_test,
                            y_test,
                            min_rows=min_rows,
                            n_rounds=n_rounds,
                        )
                        for min_rows in (1, 10)
                    )
                    cell = data, n_units, n_rounds
                    cost = 100.0 * (all_told - bounded)
                    costs.setdefault(cell, []).append(cost)
                    print(*cell, partition, seed, f"{all_told:.3f} {bounded:.3f}")
    print("\ndata, units, n_rounds: points lost to the bound, mean and worst")
    for cell, of_cell in costs.items():
        print(*cell, f"{np.mean(of_cell):.2f} {max(of_cell):.2f}")


if __name__ == "__main__":
    main()
