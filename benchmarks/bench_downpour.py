# SPDX-License-Identifier: BSD-3-Clause
"""Downpour SGD beside co-learning, FedAvg and one message, at equal bytes.

Five nodes, networks of one hidden layer; accuracy on test rows after so many messages,
in the mean of seeds. A message carries the network there and back. The guide's page on
averaging has the table.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections import defaultdict
from warnings import filterwarnings

import numpy as np
from _quick import note_figure, parse_with_quick
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from skgems import EnsembleAggregator, ModelAveragingAggregator, PFNMAggregator
from skgems.averaging import Downpour, Schedule
from skgems.datasets import partition_dirichlet, partition_homogeneous

MESSAGES = (1, 5, 20)
N_NODES = 5  # alike, or by Dirichlet(0.5)
# Of plain SGD, at all that takes rounds.
LEARNING_RATE = 0.1


def split_rows(path: str | None, max_rows: int, seed: int) -> list[np.ndarray]:
    """X_train, X_test, y_train and y_test of MNIST's file, or of digits."""
    if path is None:
        X, y = load_digits(return_X_y=True)
        X = X / 16
    else:
        with np.load(path) as file:
            y = file["y_train"]
            X = file["X_train"].reshape(len(y), -1)
        X = X / 255 if X.max() > 1 else X
    chosen = np.random.default_rng(seed).permutation(len(y))[:max_rows]
    return train_test_split(X[chosen], y[chosen], random_state=seed, stratify=y[chosen])


def aggregators_in_rounds(
    n_rounds: int, seed: int
) -> dict[str, ModelAveragingAggregator]:
    """Aggregators by name, each of so many messages."""
    net = MLPClassifier((50,), batch_size=32, solver="sgd", momentum=0.0)
    members = [net] * N_NODES
    servers = {
        "FedAvg, an epoch": None,
        "Downpour, an epoch": Downpour(),
        "Downpour, 5 batches": Downpour(160),
        "Downpour, 5 batches, staleness 3": Downpour(160, staleness=3),
        "Downpour, 5 batches, Adam": Downpour(160, optimizer="adam", rate=0.01),
    }
    aggregators = {
        name: ModelAveragingAggregator(
            members,
            n_rounds=n_rounds,
            learning_rate=LEARNING_RATE,
            server=server,
            schedule=Schedule("constant", epochs="fixed"),
            local_epochs=1,
            random_state=seed,
        )
        for name, server in servers.items()
    }
    aggregators["co-learning"] = ModelAveragingAggregator(
        members, n_rounds=n_rounds, learning_rate=LEARNING_RATE, random_state=seed
    )
    return aggregators


def assign_nodes(partition: str, y: np.ndarray, seed: int) -> np.ndarray:
    """The node of every row."""
    if partition == "alike":
        return partition_homogeneous(y, N_NODES, random_state=seed)
    return partition_dirichlet(y, N_NODES, alpha=0.5, random_state=seed)


# Accuracies of the seeds by name of the method and number of messages.
Table = dict[str, dict[int, list[float]]]


def run_seed(partition: str, seed: int, options: Namespace, table: Table) -> int:
    """Add one seed's accuracies to a table; returns the bytes of a message."""
    X, X_test, y, y_test = split_rows(options.data, options.max_rows, seed)
    nodes = assign_nodes(partition, y, seed)
    n_bytes = 0
    for n in options.messages:
        for name, aggregator in aggregators_in_rounds(n, seed).items():
            aggregator.fit(X, y, nodes)
            table[name][n].append(aggregator.score(X_test, y_test))
            n_bytes = aggregator.history_[-1]["bytes_received"]
    net = MLPClassifier((50,), batch_size=32, max_iter=30)
    members = [net] * N_NODES
    vote = EnsembleAggregator(members, random_state=seed).fit(X, y, nodes)
    table["vote of own networks"][1].append(vote.score(X_test, y_test))
    matched = PFNMAggregator(members, last_layer=None, random_state=seed)
    matched.fit(X, y, nodes)
    table["PFNM"][1].append(matched.score(X_test, y_test))
    pooled = clone(net).set_params(random_state=seed).fit(X, y)
    table["all rows at one place"][1].append(pooled.score(X_test, y_test))
    return n_bytes


def main() -> None:
    """Print a table for each partition."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("SKGEMS_MNIST"))
    parser.add_argument("--max-rows", type=int, default=6000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--messages", type=int, nargs="+", default=MESSAGES)
    options = parse_with_quick(
        parser, quick={"data": None, "seeds": 1, "messages": [1, 5]}
    )
    filterwarnings("ignore")
    for partition in ("alike", "Dirichlet 0.5"):
        table: Table = defaultdict(lambda: defaultdict(list))
        n_bytes = 0
        for seed in range(options.seeds):
            n_bytes = run_seed(partition, seed, options, table)
        megabytes = f"{n_bytes / 1e6:.2f} MB each"
        print(f"\n{partition}: accuracy after so many messages, {megabytes}")
        print(f"{'':34}" + "".join(f"{n:>8}" for n in options.messages))
        for name, by_messages in table.items():
            cells = [f"{np.mean(runs):8.3f}" for runs in by_messages.values()]
            print(f"{name:34}" + "".join(cells))
            for n, runs in by_messages.items():
                note_figure(f"{partition}, {name}, {n} messages", np.mean(runs))


if __name__ == "__main__":
    main()
