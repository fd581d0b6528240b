# SPDX-License-Identifier: BSD-3-Clause
"""How well a finished model tells classes apart, as a node tells it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.rules import assert_refused, assert_taken
from helpers.tasks import LABELS, ask, class_codes, make_member, make_model
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from skgems import Disclosure
from skgems.asking import Message
from skgems.evaluation import N_BINS
from skgems.local import Member
from skgems.messages import check_request
from skgems.networks import linear_logits
from skgems.tasks import MetricsReply

MODEL = {"labels": LABELS, "W": make_model()}


def test_a_node_judges_each_class_of_a_model():
    node = make_member(judging=np.arange(30))
    told = ask("metrics", node, model=MODEL)
    logits = linear_logits(node.X[:30], MODEL["W"])
    codes = class_codes(node.y[:30])
    np.testing.assert_array_equal(told["n_rows"], np.bincount(codes))
    proba = np.exp(log_softmax(logits, axis=1))
    for k in range(3):
        expected = roc_auc_score(codes == k, proba[:, k])
        assert told["auc"][k] == pytest.approx(expected)
        is_right = (codes == k) & (logits.argmax(axis=1) == k)
        assert told["true_positives"][k] == is_right.sum()
    assert told["positives"].sum() == 30


def test_a_node_judges_its_own_model_beside():
    node = make_member()
    own = LogisticRegression().fit(node.X, node.y)
    with_model = Member.from_estimator("lyon", own, node.X, node.y)
    told = ask("metrics", with_model, model=MODEL)["own"]
    codes = class_codes(node.y)
    for k in range(3):
        expected = roc_auc_score(codes == k, own.predict_proba(node.X)[:, k])
        assert told["auc"][k] == pytest.approx(expected)
        predicted = own.predict(node.X) == LABELS[k]
        assert told["true_positives"][k] == np.sum(predicted & (codes == k))


def test_under_a_rule_numbers_are_rounded_alike_whenever_they_are_asked_for():
    node = replace(make_member(), disclosure=Disclosure(min_rows=5))
    told = ask("metrics", node, model=MODEL)
    again = ask("metrics", node, model=MODEL)
    for name in ("auc", "true_positives", "positives", "negatives"):
        np.testing.assert_array_equal(told[name], again[name])
    assert not (told["positives"] % 5).any() and told["positives"].any()
    assert not (told["true_positives"] % 3).any()
    other = ask("metrics", node, model={**MODEL, "W": 2.0 * MODEL["W"]})
    assert (other["negatives"] != told["negatives"]).any()


@pytest.mark.parametrize("min_rows", [5, 30])
def test_classes_of_few_rows_are_not_told(min_rows):
    node = replace(make_member(), disclosure=Disclosure(min_rows=min_rows))
    told = ask("metrics", node, model=MODEL)
    is_told = np.bincount(class_codes(node.y)) >= min_rows
    np.testing.assert_array_equal(~np.isnan(told["auc"]), is_told)
    np.testing.assert_array_equal(told["positives"].any(axis=1), is_told)


@pytest.mark.parametrize("n_rare", [2, 3])
def test_values_of_few_rows_are_not_told_though_they_only_judge(n_rare):
    """Two women among the rows that are held out would show in an area."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=120), np.zeros(120)])
    y = np.array(["a", "b"])[np.arange(120) % 2]
    X[60 : 60 + 2 * n_rare : 2, 1] = 1.0
    node = Member.from_estimator("lyon", LogisticRegression().fit(X, y), X, y)
    node = replace(
        node,
        judging=np.arange(60, 120),
        moments=np.arange(60),
        training=np.arange(60),
        disclosure=Disclosure(),
    )
    W = np.zeros((3, 2))
    W[1, 1] = 50.0
    told = ask("metrics", node, model={"labels": ["a", "b"], "W": W})
    assert (told["auc"][0] != 0.5) == (n_rare == 3)


def test_no_rows_are_no_error():
    node = make_member(judging=np.zeros(0, dtype=int))
    told = ask("metrics", node, model=MODEL)
    assert np.isnan(told["auc"]).all() and not told["positives"].any()
    assert "own" not in told


def test_a_threshold_is_for_two_classes():
    two = {"labels": ["a", "b"], "W": make_model()[:, :2]}
    node = make_member()
    lower = ask("metrics", node, model=two, threshold=0.0)
    assert lower["true_positives"][0] == lower["n_rows"][1]
    check_request(Message.of("metrics", model=two, threshold=0.3))
    with pytest.raises(ValueError, match="threshold is there for 3 classes"):
        check_request(Message.of("metrics", model=MODEL, threshold=0.3))
    one = {"labels": ["a"], "W": make_model()[:, :1]}
    with pytest.raises(ValueError, match="model has one class"):
        check_request(Message.of("metrics", model=one))


# What a server takes ------------------------------------------------------------------


def reply_fields(**changes):
    of_class = dict.fromkeys(("auc", "slope", "intercept"), np.full(3, 0.5))
    counts = {
        "labels": LABELS,
        "n_rows": np.array([30, 20, 10]),
        "true_positives": np.array([30.0, 10.0, 0.0]),
        "false_positives": np.array([30.0, 0.0, 50.0]),
    }
    bins = dict.fromkeys(("positives", "negatives"), np.zeros((3, N_BINS), int))
    return {"min_rows": 1, **of_class, **counts, **bins, **changes}


def test_a_reply_is_of_the_classes_and_bins_of_the_request():
    asked = {"asked": {"model": MODEL}}
    assert_taken(MetricsReply, reply_fields(), **asked)
    for changes, match in (
        ({"labels": ["a", "b", "x"]}, "labels are not those of the model"),
        ({"auc": np.full(2, 0.5)}, "positives are not 3 classes"),
        ({"positives": np.zeros((3, 4), int)}, "positives are not 3 classes"),
        ({"true_positives": np.array([31.0, 0, 0])}, "true_positives are more than"),
        ({"false_positives": np.array([31.0, 0, 0])}, "false_positives are more"),
        (
            {"min_rows": 7, "negatives": np.full((3, N_BINS), 8)},
            "negatives are no multiples",
        ),
    ):
        assert_refused(MetricsReply, reply_fields(**changes), match, **asked)
