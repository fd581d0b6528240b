# SPDX-License-Identifier: BSD-3-Clause
"""Rows of each class that a node may train on."""

from __future__ import annotations

import numpy as np
from helpers.rules import assert_refused, assert_taken, described
from helpers.tasks import make_member
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator
from skgems.federation import read_federation
from skgems.tasks._counts import counts, counts_are_described


def test_counts_to_train_on_are_those_described():
    counts = {"labels": ["b", "a"], "counts": np.array([10, 30])}
    assert_taken(counts_are_described, counts)
    assert_taken(counts_are_described, counts, described=described())
    some = {"labels": ["a"], "counts": np.array([30])}
    assert_taken(counts_are_described, some, described=described())
    for wrong in (
        counts | {"counts": np.array([10, 31])},
        {"labels": ["c"], "counts": np.array([0])},
        # What is not described has no number of rows.
        {"labels": ["a", "c"], "counts": np.array([30, 0])},
    ):
        assert_refused(
            counts_are_described,
            wrong,
            "counts are not those of describe.rows",
            described=described(training=np.array([30, 10]), moments=np.array([1, 1])),
        )


def test_counts_are_of_the_rows_that_may_be_trained_on():
    node = make_member(training=np.arange(15))
    reply = counts(node)
    labels, sizes = np.unique(node.y[:15], return_counts=True)
    assert reply["labels"] == labels.tolist()
    assert reply["counts"].tolist() == sizes.tolist()


def test_rows_that_nodes_share_count_once_in_all():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(90, 3)), np.arange(90) % 3
    classifiers = [LogisticRegression().fit(X[y != k], y[y != k]) for k in (0, 2)]
    federation = read_federation(GEMSLogisticAggregator(classifiers), X, y)
    assert federation.rows_are_shared
    for node in federation.nodes:
        member_of_node = federation.member(node)
        weights = np.where(member_of_node.y == 1, 0.5, 1.0)
        np.testing.assert_array_equal(member_of_node.weights, weights)
    of_same_classes = read_federation(
        GEMSLogisticAggregator([LogisticRegression().fit(X, y)] * 2), X, y
    )
    assert all(
        of_same_classes.member(n).X is of_same_classes.X for n in of_same_classes.nodes
    )
    with_owners = read_federation(
        GEMSLogisticAggregator(classifiers), X, y, (y < 2).astype(int)
    )
    assert all(with_owners.member(node).weights is None for node in with_owners.nodes)
