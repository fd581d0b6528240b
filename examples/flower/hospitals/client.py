# SPDX-License-Identifier: BSD-3-Clause
"""At each node: its rows, and the classifier that it has fitted on them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import joblib
import numpy as np

from skgems import Disclosure
from skgems.guard import client_app


def load(context):
    """The arguments of `reply_to` at this node, all from its own configuration."""
    config = context.node_config
    if "rows" not in config:
        node = load_simulated(config["partition-id"], config["num-partitions"])
        # Each message is answered by a process of its own, which finds the ledger here.
        ledger = f"skgems-{context.run_id}-{node['name']}"
        return node | {"state": Path(tempfile.gettempdir()) / ledger}
    with np.load(config["rows"]) as rows:
        X, y = rows["X"], rows["y"]
    return {
        "name": config["name"],
        "estimator": joblib.load(config["model"]),
        "X": X,
        "y": y,
        # What was agreed, and where this hospital keeps what it said.
        "agreement": config.get("agreement"),
        "state": config.get("state"),
        "disclosure": Disclosure(min_rows=config.get("min-rows", 10)),
    }


def load_simulated(k, n_nodes):
    """Node k of a simulation: an island's penguins, or a share of them.

    Three nodes are one island each. Where there are more, the nodes k, k + 3, k + 6 and
    so on share the penguins of one island.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from skgems.datasets import load_penguins

    X, y, islands = load_penguins()
    island = np.unique(islands)[k % 3]
    n_nodes_of_island = 1 + (n_nodes - 1 - k % 3) // 3
    rows = np.flatnonzero(islands == island)[k // 3 :: n_nodes_of_island]
    if len(np.unique(y[rows])) == 1:
        clf = DummyClassifier()
    else:
        clf = make_pipeline(StandardScaler(), LogisticRegression())
    return {
        "name": str(island if k < 3 else f"{island} {k // 3 + 1}"),
        "estimator": clf.fit(X[rows], y[rows]),
        "X": X[rows],
        "y": y[rows],
    }


app = client_app(load)
