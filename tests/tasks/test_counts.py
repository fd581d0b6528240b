# SPDX-License-Identifier: BSD-3-Clause
"""Rows of each class that a node may train on."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.rules import assert_refused, assert_taken, described
from helpers.tasks import ask, make_member
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator
from skgems.asking import read_federation
from skgems.tasks._counts import CountsReply

COUNTS = {"labels": ["b", "a"], "counts": np.array([10, 30])}


def test_counts_to_train_on_are_those_described():
    # Before a node has described itself there is nothing to compare.
    assert_taken(CountsReply, COUNTS)
    assert_taken(CountsReply, COUNTS, described=described())
    counts_of_a = {"labels": ["a"], "counts": np.array([30])}
    assert_taken(CountsReply, counts_of_a, described=described())


@pytest.mark.parametrize(
    "wrong",
    [
        COUNTS | {"counts": np.array([10, 31])},
        {"labels": ["c"], "counts": np.array([0])},
        # A class that is not described has no number of rows, not even 0.
        {"labels": ["a", "c"], "counts": np.array([30, 0])},
    ],
)
def test_other_counts_than_those_described_are_refused(wrong):
    assert_refused(
        CountsReply,
        wrong,
        "counts are not those of describe.rows",
        described=described(training=np.array([30, 10]), moments=np.array([1, 1])),
    )


def test_counts_are_of_the_rows_that_may_be_trained_on():
    node = make_member(training=np.arange(15))
    reply = ask("counts", node)
    labels, sizes = np.unique(node.y[:15], return_counts=True)
    assert reply["labels"] == labels.tolist()
    assert reply["counts"].tolist() == sizes.tolist()


@pytest.fixture
def rows_of_three_classes():
    rng = np.random.RandomState(0)
    return rng.normal(size=(90, 3)), np.arange(90) % 3


@pytest.fixture
def classifiers_with_one_class_in_common(rows_of_three_classes):
    """Two classifiers: of classes 1 and 2, and of 0 and 1."""
    X, y = rows_of_three_classes
    return [
        LogisticRegression().fit(X[y != left_out], y[y != left_out])
        for left_out in (0, 2)
    ]


def test_rows_that_nodes_share_count_once_in_all(
    rows_of_three_classes, classifiers_with_one_class_in_common
):
    X, y = rows_of_three_classes
    aggregator = GEMSLogisticAggregator(classifiers_with_one_class_in_common)
    federation = read_federation(aggregator, X, y)
    assert federation.rows_are_shared
    for node in federation.nodes:
        member = federation.member(node)
        # Rows of class 1 stand at both nodes.
        weights = np.where(member.y == 1, 0.5, 1.0)
        np.testing.assert_array_equal(member.weights, weights)


def test_shared_rows_are_not_copied_where_all_nodes_have_all_classes(
    rows_of_three_classes,
):
    X, y = rows_of_three_classes
    aggregator = GEMSLogisticAggregator([LogisticRegression().fit(X, y)] * 2)
    federation = read_federation(aggregator, X, y)
    for node in federation.nodes:
        assert federation.member(node).X is federation.X


def test_rows_that_have_a_node_are_not_weighed(
    rows_of_three_classes, classifiers_with_one_class_in_common
):
    X, y = rows_of_three_classes
    aggregator = GEMSLogisticAggregator(classifiers_with_one_class_in_common)
    federation = read_federation(aggregator, X, y, (y < 2).astype(int))
    for node in federation.nodes:
        assert federation.member(node).weights is None
