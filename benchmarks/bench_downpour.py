# SPDX-License-Identifier: BSD-3-Clause
"""Downpour SGD beside co-learning, FedAvg and one message, at equal bytes.

Five nodes, networks of one hidden layer; accuracy on test rows after so many messages,
in the mean of seeds. A message carries the network there and back.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from warnings import filterwarnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from skgems import EnsembleAggregator, ModelAveragingAggregator, PFNMAggregator
from skgems.averaging import Downpour
from skgems.datasets import partition_dirichlet, partition_homogeneous

MESSAGES = (1, 5, 20)
N_NODES, RATE = 5, 0.1
FIXED = {"schedule": "constant", "epochs": "fixed", "local_epochs": 1}


def rows_of(path, max_rows, seed):
    """Train and test rows of MNIST's file, or of digits."""
    if path is None:
        X, y = load_digits(return_X_y=True)
        X = X / 16
    else:
        with np.load(path) as file:
            X, y = file["X_train"].reshape(len(file["y_train"]), -1), file["y_train"]
        X = X / 255 if X.max() > 1 else X
    kept = np.random.default_rng(seed).permutation(len(y))[:max_rows]
    return train_test_split(X[kept], y[kept], random_state=seed, stratify=y[kept])


def methods(n_rounds):
    """Aggregators of rounds by name, each of so many messages."""
    adam = {"optimizer": "adam", "rate": 0.01}
    servers = {
        "FedAvg, an epoch": None,
        "Downpour, an epoch": Downpour(),
        "Downpour, 5 batches": Downpour(160),
        "Downpour, 5 batches, staleness 3": Downpour(160, staleness=3),
        "Downpour, 5 batches, Adam": Downpour(160, **adam),
    }
    found = {
        name: ModelAveragingAggregator(
            n_rounds=n_rounds, learning_rate=RATE, server=server, **FIXED
        )
        for name, server in servers.items()
    }
    found["co-learning"] = ModelAveragingAggregator(
        n_rounds=n_rounds, learning_rate=RATE
    )
    return found


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("SKGEMS_MNIST"))
    parser.add_argument("--max-rows", type=int, default=6000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--messages", type=int, nargs="+", default=MESSAGES)
    args = parser.parse_args()
    filterwarnings("ignore")
    net = MLPClassifier((50,), batch_size=32, solver="sgd", momentum=0.0)
    alone = MLPClassifier((50,), batch_size=32, max_iter=30)
    for kind in ("alike", "Dirichlet 0.5"):
        table: dict[str, dict[int, list]] = {}
        n_bytes = 0
        for seed in range(args.seeds):
            X, X_test, y, y_test = rows_of(args.data, args.max_rows, seed)
            nodes = partition_homogeneous(y, N_NODES, random_state=seed)
            if kind != "alike":
                nodes = partition_dirichlet(y, N_NODES, alpha=0.5, random_state=seed)

            rows, test = (X, y, nodes), (X_test, y_test)

            def add(name, n, agg, rows=rows, test=test, s=seed, table=table):
                fitted = agg.set_params(random_state=s).fit(*rows)
                table.setdefault(name, {}).setdefault(n, []).append(fitted.score(*test))
                return fitted

            for n in args.messages:
                for name, agg in methods(n).items():
                    own = add(name, n, agg.set_params(estimators=[net] * N_NODES))
                    n_bytes = own.history_[-1]["bytes_received"]
            add("vote of own networks", 1, EnsembleAggregator([alone] * N_NODES))
            add("PFNM", 1, PFNMAggregator([alone] * N_NODES))
            pooled = clone(alone).set_params(random_state=seed).fit(X, y)
            mark = table.setdefault("all rows at one place", {}).setdefault(1, [])
            mark.append(pooled.score(X_test, y_test))
        print(f"\n{kind}: accuracy after so many messages, {n_bytes / 1e6:.2f} MB each")
        print(f"{'':34}" + "".join(f"{n:>8}" for n in args.messages))
        for name, own in table.items():
            cells = [f"{np.mean(found):8.3f}" for found in own.values()]
            print(f"{name:34}" + "".join(cells))


if __name__ == "__main__":
    main()
