# SPDX-License-Identifier: BSD-3-Clause
"""Honest messages of a choice over a channel."""

from __future__ import annotations

import numpy as np
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler

from helpers.agreements import trusting_reply
from helpers.broken import Pair
from helpers.disclosures import rule_of
from skgems import GEMSLogisticAggregator, PooledAggregator
from skgems.asking import Nodes
from skgems.choice import Candidate, choose_over


def choice_pairs(X: np.ndarray, y: np.ndarray) -> list[Pair]:
    """The pairs of a choice among models, each of which is fitted to halves of rows."""
    pairs = []
    ledgers = {}

    def ask(requests):
        replies = {}
        for k, (name, request) in enumerate(requests.items()):
            rows = np.arange(len(y)) % 2 == k
            reply = trusting_reply(
                request,
                None,
                X[rows],
                y[rows],
                name=name,
                ledgers=ledgers,
                disclosure=rule_of(2),
            )
            pairs.append(Pair(request=request, reply=reply))
            replies[name] = reply
        return replies

    quadratic = PooledAggregator(pooled=QuadraticDiscriminantAnalysis(reg_param=0.1))
    forest = PooledAggregator(pooled=RandomForestClassifier(2, max_depth=2))
    candidates = [
        Candidate("linear", GEMSLogisticAggregator([("all", None)], random_state=0)),
        Candidate("QDA", quadratic, (StandardScaler(),)),
        Candidate("forest", forest, (StandardScaler(),)),
    ]
    nodes = Nodes(ask, ["lyon", "paris"], disclosure=rule_of(2))
    choose_over(nodes, lambda n_rows: candidates)
    return pairs
