# SPDX-License-Identifier: BSD-3-Clause
"""What nodes tell for standard errors, and what of it the rule lets them tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.rules import assert_refused, assert_taken
from helpers.tasks import ALL_CLASSES, ask, class_codes, make_member, make_model
from sklearn.dummy import DummyClassifier

from skgems import Disclosure
from skgems.evaluation import matrix_of_triangle, score_sums
from skgems.guard import Limits
from skgems.local import LimitError, Member, NodeShape, ruled
from skgems.messages import TASKS
from skgems.tasks import InferenceReply
from skgems.tasks._inference import InferenceRequest

REQUEST = {"W": make_model(), **ALL_CLASSES}


def wide_member(n_rows, rule, **attributes):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(n_rows, 3))
    y = np.array(["a", "b"])[rng.randint(2, size=n_rows)]
    member = Member.from_estimator(
        "lyon", DummyClassifier().fit(X, y), X, y, disclosure=rule, **attributes
    )
    return ruled(member)


LABELS_OF_ROWS = np.array(["a", "b"] * 25)
TWO = {
    "labels": ["a", "b"],
    "columns": np.arange(2),
    "W": np.array([[1.0, -0.5, 0.3, 0.2], [-1.0, 0.5, -0.3, -0.2]]).T,
}


def test_sums_are_those_of_the_rows():
    member = make_member()
    reply = ask("inference", member, **REQUEST)
    sums = score_sums(member.X, class_codes(member.y), REQUEST["W"])
    np.testing.assert_allclose(-reply["gradient"][:, 1:].T.ravel(), sums.gradient)
    np.testing.assert_allclose(reply["gradient"].sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(
        matrix_of_triangle(reply["information"], 10), sums.information
    )
    np.testing.assert_allclose(matrix_of_triangle(reply["middle"], 10), sums.middle)
    assert reply["count"] == reply["n_rows"] == 40
    assert not reply["is_weighted"]


def test_weights_of_rows_and_classes_count():
    weights = np.random.RandomState(1).random_sample(40)
    member = make_member(weights=weights)
    by_class = np.array([1.0, 2.0, 3.0])
    reply = ask("inference", member, **REQUEST, class_weights=by_class)
    codes = class_codes(member.y)
    sums = score_sums(member.X, codes, REQUEST["W"], weights=weights * by_class[codes])
    np.testing.assert_allclose(-reply["gradient"][:, 1:].T.ravel(), sums.gradient)
    assert reply["is_weighted"]
    np.testing.assert_allclose(reply["count"], weights.sum())


def test_rows_of_other_classes_are_left_out():
    member = make_member()
    request = {"W": make_model()[:, :2], "labels": ["a", "c"], "columns": np.arange(2)}
    reply = ask("inference", member, **request)
    assert reply["n_rows"] == np.sum(member.y != "b")
    nothing = ask(
        "inference", member, W=make_model(), labels=[], columns=np.zeros(0, int)
    )
    assert nothing["n_rows"] == 0
    assert "gradient" not in nothing


def test_the_rule_tells_less_of_fewer_rows():
    """Leverages sum to the columns: 4 of the rows, then 1, 4 and 4 more."""
    rule = Disclosure()
    told = {}
    for n_rows in (20, 60, 3000):
        reply = ask("inference", wide_member(n_rows, rule), **TWO)
        told[n_rows] = [
            name for name in ("gradient", "information", "middle") if name in reply
        ]
    assert told[3000] == ["gradient", "information", "middle"]
    assert len(told[20]) <= 1
    assert len(told[20]) <= len(told[60]) < 3


def test_what_was_told_before_counts():
    rule = Disclosure()
    member = wide_member(3000, rule)
    first = ask("inference", member, **TWO)
    assert "middle" in first
    # Columns of other models come beside those of the first, until nothing is left.
    small = wide_member(200, rule)
    n_told = 0
    for k in range(8):
        W = np.random.RandomState(k).normal(size=(4, 2))
        reply = ask("inference", small, **{**TWO, "W": W})
        n_told += "information" in reply
    assert n_told < 8


def test_weights_that_the_rule_lowers_are_not_the_owners():
    member = wide_member(3000, Disclosure())
    member = replace(member, weights=np.full(3000, 0.5))
    assert not ask("inference", member, **TWO)["is_weighted"]
    weighted = wide_member(3000, Disclosure(), weights=np.full(3000, 2.0))
    assert ask("inference", weighted, **TWO)["is_weighted"]


def test_products_of_groups_are_told_of_groups():
    groups = np.repeat(np.arange(20), 2)
    member = make_member(groups=groups)
    reply = ask("inference", member, **REQUEST)
    sums = score_sums(member.X, class_codes(member.y), REQUEST["W"], units=groups)
    assert reply["has_groups"]
    np.testing.assert_allclose(matrix_of_triangle(reply["middle"], 10), sums.middle)


def test_models_have_two_classes_at_least():
    assert_taken(InferenceRequest, REQUEST)
    assert_refused(
        InferenceRequest,
        {"W": make_model()[:, :1], "labels": ["a"], "columns": np.arange(1)},
        "W has one class",
    )
    wrong = REQUEST | {"columns": np.array([0, 1, 3])}
    assert_refused(InferenceRequest, wrong, "columns are more than the 3 outputs")


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        (
            {"information": np.ones(4)},
            "information has 4 numbers, not the 10 of a triangle",
        ),
        ({"information": -np.ones(10)}, "information has squares below 0"),
        (
            {"middle": np.array([1.0, 5, 0, 0, 1, 0, 0, 1, 0, 1])},
            "middle are no sums of products: not definite",
        ),
        ({"gradient": None}, "information is there without a gradient"),
    ],
)
def test_sums_that_no_rows_have_are_refused(changed, match):
    reply = {
        "count": 40.0,
        "n_rows": 40,
        "is_weighted": False,
        "has_groups": False,
        "gradient": np.zeros((4, 2)),
        "information": np.array([1.0, 0, 0, 0, 1, 0, 0, 1, 0, 1]),
    }
    assert_taken(InferenceReply, reply, asked=TWO)
    wrong = {k: v for k, v in (reply | changed).items() if v is not None}
    assert_refused(InferenceReply, wrong, match, asked=TWO)


def test_requests_that_cost_too_much_are_refused():
    rows = NodeShape.from_rows(
        DummyClassifier(),
        np.zeros((50, 4)),
        LABELS_OF_ROWS,
        name="lyon",
        limits=Limits(),
    )
    check_cost = TASKS["inference"].cost
    check_cost(rows, InferenceRequest(**REQUEST))
    few = replace(rows, limits=Limits(moment_numbers=99))
    with pytest.raises(LimitError, match="moment_numbers=99"):
        check_cost(few, InferenceRequest(**REQUEST))
    few = replace(rows, limits=Limits(hidden_numbers=999))
    with pytest.raises(LimitError, match="hidden_numbers=999"):
        check_cost(few, InferenceRequest(**REQUEST))
