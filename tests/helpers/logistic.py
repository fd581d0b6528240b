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
# The consensus is faster than the likelihood, whose tests are in test_likelihood.py.
DEFAULTS = {"random_state": 0, "n_directions": 50, "intersection": "consensus"}


def aggregate_of(estimators, **parameters):
    """An unfitted aggregator; parameters of its parts go by their own names."""
    return GEMSLogisticAggregator(estimators, **in_parts(DEFAULTS | parameters))


def fit(dataset, **parameters):
    """The aggregate of logistic regressions that nodes fitted to their local rows."""
    aggregate = aggregate_of(dataset.named(LOCAL), **parameters)
    return aggregate.fit(dataset.X, dataset.y, nodes=dataset.nodes)


def consensus_of(estimators, **parameters):
    """An unfitted aggregator of the spaces alone, whatever the default is."""
    return aggregate_of(estimators, intersection="consensus", **parameters)


def fit_consensus(dataset, **parameters):
    """The same, fitted as by `fit`."""
    return fit(dataset, intersection="consensus", **parameters)


def weights_of(aggregate):
    """Weights and intercepts of an aggregate in one matrix."""
    return np.vstack([aggregate.coef_.T, aggregate.intercept_])


def nodes_with_public_rows(dataset, n_public, seed=0):
    """The node of each row, where some rows drawn at random are public."""
    rows = np.random.RandomState(seed).permutation(len(dataset.y))[:n_public]
    nodes = dataset.nodes.copy()
    nodes[rows] = -1
    return nodes
