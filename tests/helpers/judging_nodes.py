# SPDX-License-Identifier: BSD-3-Clause
"""Nodes of wines that send sums of halves of their rows, and judge candidates."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.preprocessing import PowerTransformer, StandardScaler

from helpers.disclosures import rule_of
from skgems import GEMSLogisticAggregator, PooledAggregator
from skgems.asking import Message, Nodes
from skgems.choice import Candidate
from skgems.guard import reply_to

X, Y = load_wine(return_X_y=True)
Y = np.array(["ant", "bee", "cat"])[Y]
NODES = np.array(["bern", "oslo"])[np.arange(len(Y)) % 2]


class JudgingNodes:
    """Nodes that answer requests as bytes, each from its own rows.

    Without ``keep_state`` they agree on nothing, and `min_rows` is their own choice.
    """

    def __init__(
        self,
        X=X,
        y=Y,
        nodes=NODES,
        *,
        keep_state=True,
        estimators=None,
        min_rows=1,
        held_out=None,
        groups=None,
    ):
        self.names = sorted(set(nodes))
        self.rows = {name: (X[nodes == name], y[nodes == name]) for name in self.names}
        self.estimators = estimators or {}
        self.keep_state = keep_state
        self.state = {name: {} if keep_state else None for name in self.names}
        self.min_rows = min_rows
        self.held_out = held_out  # the same mask at every node
        self.groups = dict.fromkeys(self.names)
        if groups is not None:
            self.groups = {name: groups[nodes == name] for name in self.names}
        self.exchanged = []  # pairs of a request and its reply

    def answer(self, name, request):
        """The reply of one node, both having gone through bytes."""
        X, y = self.rows[name]
        reply = Message.from_bytes(
            reply_to(
                request.to_bytes(),
                self.estimators.get(name),
                X,
                y,
                name=name,
                state=self.state[name],
                disclosure=rule_of(self.min_rows),
                held_out=self.held_out,
                groups=self.groups[name],
            )
        )
        self.exchanged.append((request, reply))
        return reply

    def ask(self, requests):
        return {name: self.answer(name, request) for name, request in requests.items()}

    @property
    def channel(self):
        if self.keep_state:
            # All agree on the rule of the server, which is none where nodes have none.
            disclosure = None if self.min_rows == 1 else "auto"
            return Nodes(self.ask, self.names, disclosure=disclosure)
        # Replies that were made with fewer rows than the server expects are refused.
        return Nodes(self.ask, self.names, disclosure=rule_of(self.min_rows))

    def first_request(self, task):
        return next(request for request, _ in self.exchanged if request.task == task)

    def replies(self, task):
        return [reply for request, reply in self.exchanged if request.task == task]


def small_candidates(n_rows=0):
    """Four candidates that send few numbers, whatever the number of rows is."""
    linear = GEMSLogisticAggregator(
        [("all", None)], validation_fraction=0.0, random_state=0
    )
    quadratic = PooledAggregator(pooled=QuadraticDiscriminantAnalysis(reg_param=0.1))
    scaler = StandardScaler()
    power = PowerTransformer()
    return [
        Candidate("linear", linear),
        Candidate("scaled", linear, (scaler,)),
        Candidate("power transform", linear, (scaler, power)),
        Candidate("QDA", quadratic, (scaler, power)),
    ]


def first_small_candidate(n_rows=0):
    """The linear candidate without a front, in a list."""
    return small_candidates()[:1]


def linear_candidates(n_rows=0):
    """The linear candidates without powers, which take most of the time to find."""
    return small_candidates()[:2]
