# SPDX-License-Identifier: BSD-3-Clause
"""A node under an agreement, and requests that it gets."""

from __future__ import annotations

import json

import numpy as np

from skgems import GEMSLogisticAggregator
from skgems.federation import Agreement, Message, reply_to
from skgems.messages import sealed


def linear_agreement(n_rounds=3, **more):
    return Agreement.of(
        GEMSLogisticAggregator(n_rounds=n_rounds, random_state=0), **more
    )


def sealed_request(agreement, task, private_key=None, **content):
    return sealed(Message.of(task, **content), agreement, private_key)


def models_to_judge(W, labels, columns, **more):
    """Content of a request to judge models."""
    columns = np.asarray(columns)
    return {"W": W, "labels": labels, "columns": columns, "factors": np.ones(1), **more}


class AgreeingNode:
    """A node that keeps what it agreed to, and what it said."""

    def __init__(self, node, agreement=None, **options):
        self.node, self.state = node, {}
        self.options = {"name": "lyon", "agreement": agreement, **options}

    def __call__(self, request):
        return reply_to(request, *self.node, state=self.state, **self.options)

    @property
    def log(self):
        return [json.loads(line) for line in self.state["log.jsonl"].splitlines()]
