# SPDX-License-Identifier: BSD-3-Clause
"""A node with a ledger, and requests of exchanges that it agreed to."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator
from skgems.federation import Agreement, Message, first_request, reply_to
from skgems.messages import sealed

RNG = np.random.RandomState(0)
X = RNG.standard_normal((60, 3))
Y = np.where(X[:, 0] > 0, "ill", "well")
CLASSIFIER = LogisticRegression().fit(X, Y)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def agree_on_exchange(tasks=None, **settings):
    """An agreement of a new exchange, and the first request that it comes with."""
    agg = GEMSLogisticAggregator(**{"n_rounds": 3, "random_state": 0} | settings)
    agreement = Agreement.of(agg)
    if tasks is not None:
        agreement = replace(agreement, tasks=tasks)
    return agreement, sealed(first_request(agg, agg._first_requests()), agreement)


def request_to_judge(agreement, size=1.0, **content):
    """A request to judge a model, each of another size."""
    W = size * np.vstack([CLASSIFIER.coef_.T, CLASSIFIER.intercept_])
    content = {
        "W": np.hstack([-W / 2, W / 2]),
        "labels": ["ill", "well"],
        "columns": np.array([0, 1]),
        "factors": np.ones(1),
        **content,
    }
    return sealed(Message.of("evaluate", **content), agreement)


def sealed_request(agreement, task):
    return sealed(Message.of(task), agreement)


def reply_of_lyon(request, state, *, clf=CLASSIFIER, rows=X, y=Y, **options):
    return reply_to(request, clf, rows, y, name="lyon", state=state, **options)


def logged_entries(state):
    data = state["log.jsonl"] if isinstance(state, dict) else None
    data = (state / "log.jsonl").read_bytes() if data is None else data
    return [json.loads(line) for line in data.splitlines()]


def logged_events(state):
    return [entry["event"] for entry in logged_entries(state)]


class KilledError(BaseException):
    """As of a process: nothing catches it."""


# Six rows of each class, of which nothing may be said where sums are of ten.
FEW = np.r_[np.flatnonzero(Y == "ill")[:6], np.flatnonzero(Y == "well")[:6]]
FEW_ROWS = {"rows": X[FEW], "y": Y[FEW]}
