# SPDX-License-Identifier: BSD-3-Clause
"""At each node: its rows, and the classifier that it has fitted on them."""

from __future__ import annotations

import joblib
import numpy as np

from skgems.flower import client_app


def load(context):
    """What this node answers with; all of it is decided by its own configuration."""
    own = context.node_config
    if "rows" not in own:
        return simulated(own["partition-id"], own["num-partitions"])
    with np.load(own["rows"]) as rows:
        X, y = rows["X"], rows["y"]
    node = {"name": own["name"], "estimator": joblib.load(own["model"]), "X": X, "y": y}
    # What was agreed, and where this hospital keeps what it said.
    node |= {"agreement": own.get("agreement"), "state": own.get("state")}
    return node | {"min_rows": own.get("min-rows", 10)}


def simulated(k, n_nodes):
    """A node of a simulation: a part of the irises, without those of one kind."""
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression

    X, y = load_iris(return_X_y=True)
    own = (np.arange(len(y)) % n_nodes == k) & (y != k % 3)
    X, y = X[own], y[own]
    clf = LogisticRegression(max_iter=1000).fit(X, y)
    return {"name": f"hospital {k}", "estimator": clf, "X": X, "y": y}


app = client_app(load)
