# SPDX-License-Identifier: BSD-3-Clause
"""At the server: the aggregator, and what is done with it."""

from __future__ import annotations

import joblib

from skgems import GEMSLogisticAggregator
from skgems.channels import server_app


def make_aggregator(context):
    """An aggregator that is not fitted; it asks all nodes that are connected."""
    return GEMSLogisticAggregator(
        n_rounds=context.run_config["n-rounds"], random_state=0
    )


def report_and_save(aggregate, context):
    """Print what each message took, and write the aggregate to a file."""
    print("Nodes:", *aggregate.node_names_)
    for message in aggregate.history_:
        left_out = f", without {message['left_out']}" if message["left_out"] else ""
        print(f"{message['task']}: {message['seconds']:.1f} s{left_out}")
    if context.run_config["to"]:
        joblib.dump(aggregate, context.run_config["to"])


app = server_app(make_aggregator, report_and_save, min_nodes=2, timeout=90)
