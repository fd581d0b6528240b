# SPDX-License-Identifier: BSD-3-Clause
"""How good models are on rows, for a report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.rules import assert_refused, assert_taken
from helpers.tasks import LABELS, ask, make_member, make_model
from sklearn.metrics import accuracy_score, log_loss

from skgems import Disclosure
from skgems.asking import Message
from skgems.guard import reply_to
from skgems.networks import linear_logits
from skgems.spaces import Accuracy, LogLoss
from skgems.tasks import ScoreReply


@pytest.mark.parametrize("name", ["score", "beside"])
def test_a_score_is_of_rows(name):
    scores = {"score": 0.5, "beside": 0.5}
    assert_taken(ScoreReply, scores | {"n_rows": 1})
    assert_taken(ScoreReply, {"score": 0.5, "n_rows": 1})
    assert_taken(ScoreReply, dict.fromkeys(scores, np.nan) | {"n_rows": 0})
    match = f"{name} is there without rows, or missing with rows"
    wrong = dict.fromkeys(scores, np.nan) | {name: 0.5, "n_rows": 0}
    assert_refused(ScoreReply, wrong, match)
    assert_refused(ScoreReply, scores | {name: np.nan, "n_rows": 1}, match)


def test_score_is_on_rows_of_known_classes():
    node = make_member(judging=np.arange(30))
    rows = np.flatnonzero(node.y[:30] != "b")
    # The columns of the model are a, b and c, or c and a.
    for columns, places in ((slice(None), [0, 2]), ([2, 0], [1, 0])):
        W = make_model()[:, columns]
        request = {"W": W, "labels": ["a", "c"], "columns": np.array(places)}
        logits = linear_logits(node.X[rows], W)
        reply = ask("score", node, criterion=Accuracy().as_settings(), **request)
        winners = np.array(LABELS)[columns][logits.argmax(axis=1)]
        assert reply["score"] == accuracy_score(node.y[rows], winners)
        assert reply["n_rows"] == len(rows)
        reply = ask("score", node, criterion=LogLoss().as_settings(), **request)
        proba = np.exp(logits)
        proba /= proba.sum(axis=1, keepdims=True)
        if columns != slice(None):
            proba = proba[:, ::-1]
        expected = log_loss(
            node.y[rows], proba, labels=np.unique(np.array(LABELS)[columns])
        )
        assert reply["score"] == pytest.approx(expected)


@pytest.mark.usefixtures("accepting_nodes")
def test_losses_that_score_models_do_not_tell_a_row():
    """A steep model is wrong about one row alone; turned a little, it tells columns."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    X[0] = [9.0, 0.7]
    y = np.array(["a"] * 30 + ["b"] * 30)
    turned = np.array([[1.0, 0.0, -5.0], [1.5, 0.0, -5.0], [1.0, 0.5, -5.0]])

    def claim(rule: Disclosure | None) -> np.ndarray:
        far = []
        for model in turned:
            told = reply_to(
                Message.of(
                    "score",
                    W=8.0 * np.column_stack([np.zeros(3), model]),
                    labels=["a"],
                    columns=np.zeros(1, dtype=int),
                    criterion={"name": "log_loss"},
                ),
                None,
                X,
                y,
                name="lyon",
                disclosure=rule,
            ).content
            far.append(30 * float(told["score"]) / 8.0)
        return (np.array(far[1:]) - far[0]) / 0.5

    np.testing.assert_allclose(claim(None), X[0], atol=1e-3)
    assert not np.abs(claim(Disclosure()) - X[0]).max() < 0.1


@pytest.mark.parametrize("criterion", [Accuracy(), LogLoss()])
@pytest.mark.parametrize(("n_rows", "n_told"), [(1, 0), (2, 0), (3, 3)])
def test_a_score_is_of_no_class_of_one_or_two_rows(criterion, n_rows, n_told):
    node = make_member(judging=np.arange(30))
    node = replace(
        node,
        y=np.where(np.arange(len(node.y)) < n_rows, "a", "b"),
        disclosure=Disclosure(),
    )
    request = {"W": make_model(), "criterion": criterion.as_settings()}
    alone = ask("score", node, labels=["a"], columns=np.array([0]), **request)
    assert alone["n_rows"] == n_told
    assert np.isnan(float(alone["score"])) == (n_told == 0)
    labels = {"labels": ["a", "b"], "columns": np.array([0, 1])}
    together = ask("score", node, **labels, **request)
    assert together["n_rows"] == 30 - n_rows + n_told
