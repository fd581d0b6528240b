# SPDX-License-Identifier: BSD-3-Clause
"""A node under an agreement, and requests that it gets."""

from __future__ import annotations

import numpy as np

from skgems import GEMSLogisticAggregator
from skgems.asking import Message
from skgems.guard import Agreement, read_entries, reply_to
from skgems.messages import sealed


def agreement_on_rounds(n_rounds=3, **terms):
    """An agreement on rounds of GEMSLogisticAggregator, with further terms if given."""
    aggregator = GEMSLogisticAggregator(n_rounds=n_rounds, random_state=0)
    return Agreement.of(aggregator, **terms)


def request_under(agreement, task, private_key=None, **content):
    """A request of the server of an agreement, signed where there is a key."""
    return sealed(Message.of(task, **content), agreement, private_key)


def judging_content(W, labels, columns, **further_fields):
    """The content of a request to judge the models ``W``."""
    content = {
        "W": W,
        "labels": labels,
        "columns": np.asarray(columns),
        "factors": np.ones(1),
    }
    return content | further_fields


def trusting_reply(request, classifier, X, y, *, name, ledgers, **options):
    """The reply of a node that accepts whatever agreement the server brings.

    ``ledgers`` has the ledger of each node by name, and gets one for a new node.
    """
    offered = request.envelope.get("agreement")
    return reply_to(
        request,
        classifier,
        X,
        y,
        name=name,
        state=ledgers.setdefault(name, {}),
        agreement=None if offered is None else Agreement.from_json(offered),
        **options,
    )


class Node:
    """A node that replies to requests, and remembers what it agreed to and replied."""

    def __init__(self, node, agreement=None, **options):
        self.node = node  # its classifier, rows and labels
        self.state = {}
        self.options = {"name": "lyon", "agreement": agreement} | options

    def __call__(self, request):
        classifier, X, y = self.node
        return reply_to(request, classifier, X, y, state=self.state, **self.options)

    @property
    def log(self):
        """Entries of its log, one for each request that it replied to or refused."""
        return read_entries(self.state)
