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
from skgems.federation import Agreement, Message, reply_to
from skgems.messages import sealed

RNG = np.random.RandomState(0)
X = RNG.standard_normal((60, 3))
Y = np.where(X[:, 0] > 0, "ill", "well")
CLF = LogisticRegression().fit(X, Y)
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def begin_exchange(tasks=None, **settings):
    """The agreement of a new exchange, and its first request."""
    agg = GEMSLogisticAggregator(n_rounds=3, random_state=0).set_params(**settings)
    agreement = Agreement.of(agg)
    if tasks is not None:
        agreement = replace(agreement, tasks=tasks)
    return agreement, sealed(agg._agreed_terms.first_message(), agreement)


def judging_request(agreement, size=1.0, **fields):
    """A request to judge a model; with another size it is another request."""
    W = size * np.vstack([CLF.coef_.T, CLF.intercept_])
    content = {
        "W": np.hstack([-W / 2, W / 2]),
        "labels": ["ill", "well"],
        "columns": np.array([0, 1]),
        "factors": np.ones(1),
    }
    return sealed(Message.of("evaluate", **content | fields), agreement)


def request_without_content(agreement, task):
    """A request without content."""
    return sealed(Message.of(task), agreement)


def answer(request, state, *, clf=CLF, rows=X, y=Y, **options):
    """The reply of a node whose ledger is in ``state``, a dict or a folder."""
    return reply_to(request, clf, rows, y, name="lyon", state=state, **options)


def log_of(state):
    """Entries of the node's log."""
    if isinstance(state, dict):
        log = state["log.jsonl"]
    else:
        log = (state / "log.jsonl").read_bytes()
    return [json.loads(line) for line in log.splitlines()]


def events_of_log(state):
    """What happened, as the node's log calls it, entry by entry."""
    return [entry["event"] for entry in log_of(state)]


class KilledError(BaseException):
    """Stands for the end of a process, in that no handler of errors catches it."""


# Six rows of each class: a node says nothing of them where sums are of ten at least.
FEW = np.r_[np.flatnonzero(Y == "ill")[:6], np.flatnonzero(Y == "well")[:6]]
FEW_ROWS = {"rows": X[FEW], "y": Y[FEW]}
