# SPDX-License-Identifier: BSD-3-Clause
"""What rows of nodes are for: to judge, to train, or to score."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.estimators import federated
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator
from skgems.asking import read_federation

LOCAL = LogisticRegression(C=10.0, max_iter=1000)


@pytest.fixture
def sample():
    return federated("overlapping")


@pytest.fixture
def mask(sample):
    return np.random.RandomState(0).uniform(size=len(sample.y)) < 0.4


def test_held_out_rows_judge_and_the_others_train_and_are_summed(sample, mask):
    agg = GEMSLogisticAggregator(sample.fitted(LOCAL))
    nodes = np.where(np.arange(len(sample.y)) % 5 == 0, -1, sample.nodes)
    federation = read_federation(agg, sample.X, sample.y, nodes, mask)
    for k, node in enumerate(federation.nodes):
        learning_rows = np.flatnonzero((nodes == k) & ~mask)
        np.testing.assert_array_equal(node.moment_rows, learning_rows)
        np.testing.assert_array_equal(node.training_rows, learning_rows)
        np.testing.assert_array_equal(
            node.judging_rows, np.flatnonzero((nodes == k) & mask)
        )
    # Public rows that are held out are not used for fine-tuning.
    np.testing.assert_array_equal(
        federation.public_rows, np.flatnonzero((nodes == -1) & ~mask)
    )


def test_a_node_without_held_out_rows_is_scored_on_all(sample, mask):
    mask = mask & (sample.nodes != 1)
    agg = GEMSLogisticAggregator(sample.fitted(LOCAL))
    federation = read_federation(agg, sample.X, sample.y, sample.nodes, mask)
    rows_of_node = np.flatnonzero(sample.nodes == 1)
    for role in ("judging_rows", "moment_rows", "training_rows"):
        np.testing.assert_array_equal(getattr(federation.nodes[1], role), rows_of_node)
