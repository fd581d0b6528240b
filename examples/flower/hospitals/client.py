# SPDX-License-Identifier: BSD-3-Clause
"""At each node: its rows, and the classifier that it has fitted on them."""

from __future__ import annotations

import joblib
import numpy as np

from skgems.channels import client_app


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
    """A node of a simulation: an island's penguins, or a part of those of one."""
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from skgems.datasets import load_penguins

    X, y, islands = load_penguins()
    name = np.unique(islands)[k % 3]
    own = np.flatnonzero(islands == name)[k // 3 :: 1 + (n_nodes - 1 - k % 3) // 3]
    X, y = X[own], y[own]
    clf = make_pipeline(StandardScaler(), LogisticRegression())
    clf = DummyClassifier() if len(np.unique(y)) == 1 else clf
    name = name if k < 3 else f"{name} {k // 3 + 1}"
    return {"name": str(name), "estimator": clf.fit(X, y), "X": X, "y": y}


app = client_app(load)
