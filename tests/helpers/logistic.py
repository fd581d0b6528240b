# SPDX-License-Identifier: BSD-3-Clause
"""Fits of GEMSLogisticAggregator that several test files make."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from helpers.parts import in_parts
from skgems import GEMSLogisticAggregator

GEOMETRIES = ["gram", "ellipsoid", "ball"]
CONSTRUCTIONS = ["sampled", "certified"]
CRITERIA = ["accuracy", "log_loss"]
LOCAL = LogisticRegression(C=10.0, max_iter=1000)


def aggregate_of(estimators, **parameters):
    given = {"random_state": 0, "n_directions": 50, **parameters}
    # What the likelihood is good for is tested next door; this is faster.
    given.setdefault("intersection", "consensus")
    return GEMSLogisticAggregator(estimators, **in_parts(given))


def fit(data, **parameters):
    aggregate = aggregate_of(data.named(LOCAL), **parameters)
    return aggregate.fit(data.X, data.y, nodes=data.nodes)


def consensus_of(estimators, **parameters):
    """Of the spaces alone: the point that moves all nodes least."""
    return aggregate_of(estimators, intersection="consensus", **parameters)


def fit_consensus(data, **parameters):
    return fit(data, intersection="consensus", **parameters)


def weights_of(aggregate):
    return np.vstack([aggregate.coef_.T, aggregate.intercept_])


def nodes_with_public_rows(data, n_public, seed=0):
    rows = np.random.RandomState(seed).permutation(len(data.y))[:n_public]
    nodes = data.nodes.copy()
    nodes[rows] = -1
    return nodes
