# SPDX-License-Identifier: BSD-3-Clause
"""At the server: the aggregator, and what is done with it."""

from __future__ import annotations

import joblib

from skgems import GEMSLogisticAggregator
from skgems.channels import server_app


def make(context):
    """An aggregator that is not fitted; it asks whoever is connected."""
    return GEMSLogisticAggregator(
        n_rounds=context.run_config["n-rounds"], random_state=0
    )


def done(fitted, context):
    """Tell of the messages, and keep the aggregate."""
    print("Nodes:", *fitted.node_names_)
    for entry in fitted.history_:
        left_out = f", without {entry['left_out']}" if entry["left_out"] else ""
        print(f"{entry['task']}: {entry['seconds']:.1f} s{left_out}")
    if context.run_config["to"]:
        joblib.dump(fitted, context.run_config["to"])


app = server_app(make, done, min_nodes=2, timeout=90)
