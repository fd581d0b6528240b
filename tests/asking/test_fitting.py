# SPDX-License-Identifier: BSD-3-Clause
"""A fit by a method: who takes part, what is asked, and what is set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from skgems.asking import Message, federated_fit, fit_method
from skgems.base import BaseAggregator, Method, Takes


@dataclass(frozen=True, eq=False, kw_only=True)
class Counting(Method):
    """Counts the rows of all nodes, in one message."""

    takes = Takes(networks=False)

    fails: bool

    def check_takes_weights(self):
        raise ValueError("counts have no weights")

    def check(self, federation):
        if len(federation.nodes) < 2:
            raise ValueError("one node has nothing to add")

    def attributes(self, federation, run):
        if self.fails:
            raise ValueError("it fails")
        return {"n_rows_": run(self.plan())}

    def plan(self):
        replies = yield Message.of("counts")
        return sum(int(np.sum(reply.counts)) for _, reply in replies)


class Counter(BaseAggregator):
    _method_class = Counting

    def __init__(self, estimators=None, *, fails=False, n_jobs=None, verbose=0):
        self.estimators = estimators
        self.fails = fails
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _logits(self, X):
        raise NotImplementedError

    @federated_fit
    def fit(self, X=None, y=None, nodes=None, held_out=None, *, sample_weight=None):
        return fit_method(self, X, y, nodes, held_out, sample_weight=sample_weight)


X = np.arange(20.0)[:, None]
Y = np.arange(20) % 2
NODES = np.repeat([0, 1], 10)


def members(n=2):
    return [LogisticRegression().fit(X[NODES == k], Y[NODES == k]) for k in range(n)]


def test_attributes_of_the_nodes_and_of_the_method_are_set():
    agg = Counter(members()).fit(X, Y, nodes=NODES)
    assert agg.n_rows_ == 20
    assert agg.node_names_ == ["0", "1"]
    assert agg.classes_.tolist() == [0, 1]
    assert [message["task"] for message in agg.history_] == ["counts"]


def test_a_fit_that_fails_changes_nothing():
    agg = Counter(members(), fails=True)
    with pytest.raises(ValueError, match="it fails"):
        agg.fit(X, Y, nodes=NODES)
    with pytest.raises(Exception, match="not fitted"):
        check_is_fitted(agg)
    agg = Counter(members()).fit(X, Y, nodes=NODES).set_params(fails=True)
    with pytest.raises(ValueError, match="it fails"):
        agg.fit(X[::2], Y[::2], nodes=NODES[::2])
    assert agg.n_rows_ == 20


def test_a_method_refuses_weights_before_rows_are_read():
    agg = Counter(members())
    with pytest.raises(ValueError, match="counts have no weights"):
        agg.fit("no rows", Y, nodes=NODES, sample_weight=np.ones(20))


def test_a_method_refuses_nodes_that_it_cannot_use():
    with pytest.raises(ValueError, match="nothing to add"):
        Counter(members(1)).fit(X[:10], Y[:10], nodes=NODES[:10])
