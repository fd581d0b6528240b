# SPDX-License-Identifier: BSD-3-Clause
"""Replies within a process are objects, of which only what a user gave is checked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.answering import let_nodes_answer
from sklearn.linear_model import LogisticRegression

from skgems.asking import InProcess, Message, Run
from skgems.local import Member, clear_cache
from skgems.messages import TASKS
from skgems.parties import reply_of

X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.where(X[:, 0] > 0, "ill", "well")
MOMENTS = Message.of(
    "moments", kind="class", n_components=1, min_cluster_size=1, model="own"
)


def member():
    return Member.from_estimator("lyon", LogisticRegression().fit(X, Y), X, Y)


def ask(request, *, recalls=False):
    """The reply of the only node, as a plan takes it."""
    ((_, reply),) = Run(InProcess([member()], recalls=recalls)).ask(request)
    return reply


def answer_with(monkeypatch, **fields):
    """Have the node reply with other values of some fields."""

    def changed(request, member):
        return replace(reply_of(request, member), **fields)

    let_nodes_answer(monkeypatch, changed)


def test_a_plan_takes_the_object_that_the_node_made(monkeypatch):
    made = []

    def noting(request, member):
        made.append(reply_of(request, member))
        return made[-1]

    let_nodes_answer(monkeypatch, noting)
    reply = ask(Message.of("counts"))
    assert reply is made[0]
    assert isinstance(reply, TASKS["counts"].reply)
    assert reply.labels == ["ill", "well"] and reply.counts.sum() == len(Y)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("labels", ["b", "a"], "moments.labels is not in order"),
        ("class_weight", "odd", "moments.class_weight is not a list"),
        ("gradient", np.full((4, 2), np.nan), "moments.gradient has"),
    ],
)
def test_what_a_user_made_wrong_is_named(monkeypatch, field, value, error):
    clear_cache()
    answer_with(monkeypatch, **{field: value})
    for _ in range(2):  # nothing wrong is kept
        with pytest.raises(ValueError, match=f"node 'lyon': {error}"):
            ask(MOMENTS, recalls=True)


def test_a_kept_reply_is_the_same_object_and_nobody_can_change_it():
    clear_cache()
    reply = ask(MOMENTS, recalls=True)
    assert ask(MOMENTS, recalls=True) is reply
    with pytest.raises(ValueError, match="read-only"):
        reply.moments.means[:] = 0.0
