# SPDX-License-Identifier: BSD-3-Clause
"""Honest messages about how good a finished model is."""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier

from helpers.agreements import trusting_reply
from helpers.broken import Pair
from helpers.disclosures import rule_of
from skgems import PFNMAggregator, PooledAggregator
from skgems.asking import Nodes


def judging_nodes(X, y, nodes, *, classifiers=None, disclosure="auto", hear=None):
    """A channel to nodes that answer whatever they are asked, with a ledger each.

    ``hear(request, reply)`` is called for each message.
    """
    ledgers = {}
    names = sorted(set(nodes.tolist()))

    def ask(requests):
        for name, request in requests.items():
            rows = nodes == name
            reply = trusting_reply(
                request,
                None if classifiers is None else classifiers[name],
                X[rows],
                y[rows],
                name=name,
                ledgers=ledgers,
                disclosure=disclosure,
            )
            if hear is not None:
                hear(request, reply)
            yield name, reply

    return Nodes(ask, names, disclosure=disclosure)


def pairs_of_metrics(X: np.ndarray, y: np.ndarray) -> list[Pair]:
    """The pairs of evaluations of models of each form."""
    pairs = []
    nodes = np.array(["lyon", "paris"])[np.arange(len(y)) % 2]

    def hear(request, reply):
        if request.task == "metrics":
            pairs.append(Pair(request=request, reply=reply))

    channel_to = partial(judging_nodes, X, nodes=nodes, hear=hear)
    is_first = (y == y[0]).astype(int)
    quadratic = QuadraticDiscriminantAnalysis(reg_param=0.1)
    forest = RandomForestClassifier(2, max_depth=2, random_state=0)
    for classifier, rule in ((quadratic, rule_of(2)), (forest, None)):
        nodes_of_rule = channel_to(y=is_first, disclosure=rule)
        pooled = PooledAggregator(nodes_of_rule, pooled=classifier)
        pooled.fit().evaluate(threshold=0.25)
    networks = {
        name: MLPClassifier(3, random_state=0).partial_fit(X, y, classes=np.unique(y))
        for name in ("lyon", "paris")
    }
    nodes_of_networks = channel_to(y=y, classifiers=networks, disclosure=None)
    merged = PFNMAggregator(nodes_of_networks, random_state=0)
    merged.fit().evaluate()
    return pairs
