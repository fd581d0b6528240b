# SPDX-License-Identifier: BSD-3-Clause
"""Models that are judged, and what nodes reply of them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.rules import assert_refused, assert_taken, without

from skgems.guard import LimitError, Limits, reply_to
from skgems.messages import Message, check_request
from skgems.moments import INDEX_OF_FACTOR_ONE
from skgems.tasks import JudgeReply
from skgems.tasks._judge import FittedModel

pytestmark = pytest.mark.usefixtures("accepting_nodes")

W = np.ones((4, 2))
SQUARES = {
    "means": np.ones((2, 3)),
    "factors": np.ones((2, 3, 3)),
    "offsets": np.ones(2),
}
# Two trees, of which the first has one split.
FOREST = {
    "n_trees": 2,
    "feature": np.array([1, -1, -1, -1], dtype=np.int32),
    "bin": np.array([31, 0, 0, 0], dtype=np.int32),
    "missing_left": np.zeros(4, dtype=bool),
    "left": np.array([2, -1, -1, -1], dtype=np.int32),
    "values": np.array([[0.5, 0.5], [0.3, 0.7], [1.0, 0.0], [0.0, 1.0]]),
}


@pytest.mark.parametrize("model", [{"W": W}, SQUARES, SQUARES | {"W": None}, FOREST])
def test_a_judged_model_is_of_one_form(model):
    place = assert_taken(FittedModel, model, lengths={"l": 2, "p": 4})
    # The next model has its own classes, so the number of labels is forgotten.
    assert place.lengths == {"p": 4}


@pytest.mark.parametrize(
    "model",
    [
        {},
        *({"W": W, name: field} for name, field in SQUARES.items()),
        *(without(SQUARES, name) for name in SQUARES),
        *(without(FOREST, name) for name in FOREST),
        FOREST | {"W": W},
        FOREST | SQUARES,
    ],
    ids=" and ".join,
)
def test_a_judged_model_of_two_forms_or_of_a_part_is_refused(model):
    assert_refused(FittedModel, model, " is not one model", lengths={"l": 2})


def test_a_judged_forest_is_sound():
    circle = FOREST | {"left": np.array([0, -1, -1, -1], dtype=np.int32)}
    assert_refused(FittedModel, circle, "left are not those of trees")


def request_of_forest(**fields):
    forest = {"labels": ["a", "b"], **FOREST, **fields}
    return Message.of("judge", models={"0": {"first": forest, "second": forest}})


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"values": FOREST["values"] * 1.1}, "values has 2 values above 1"),
        ({"values": FOREST["values"] - 0.1}, "values has values below 0"),
        ({"values": FOREST["values"][:3]}, r"values has the shape \(3, 2\)"),
        ({"labels": ["a"]}, r"values has the shape \(4, 2\)"),
    ],
)
def test_values_of_a_forest_are_shares_of_each_class_at_each_vertex(fields, match):
    check_request(request_of_forest())
    with pytest.raises(ValueError, match=f"judge.models.0.first.{match}"):
        check_request(request_of_forest(**fields))


def judged(request, *, limits=None):
    """What a node of 40 rows replies, whose labels go by the second feature."""
    X = np.linspace([-2.0, 1.5], [2.0, -1.5], 40)
    y = np.where(X[:, 1] > 0.2, "b", "a")
    reply = reply_to(request, None, X, y, name="lyon", disclosure=None, limits=limits)
    return reply.content, X, y


def test_a_forest_labels_rows_by_the_mean_of_its_leaves():
    reply, X, y = judged(request_of_forest())
    # Bin 31 has values up to 0: row by row the share of the second class.
    share = np.where(X[:, 1] <= 0, (0.0 + 0.7) / 2, (1.0 + 0.7) / 2)
    is_right = (share > 0.5) == (y == "b")
    assert 20 < is_right.sum() < 40
    assert reply["right"].tolist() == [[is_right.sum()]]
    losses = -np.log(np.where(y == "b", share, 1 - share))
    np.testing.assert_allclose(
        reply["losses"][0, INDEX_OF_FACTOR_ONE], losses.sum(), rtol=1e-12
    )


def test_a_forest_that_splits_by_features_of_others_is_refused():
    feature = np.array([2, -1, -1, -1], dtype=np.int32)
    with pytest.raises(ValueError, match="'lyon' has 2 features, but .* by feature 2"):
        judged(request_of_forest(feature=feature))


def test_a_forest_of_more_trees_than_a_node_allows_is_refused():
    judged(request_of_forest(), limits=Limits(hidden_numbers=80))
    with pytest.raises(LimitError, match="'judge' asks for 80 rows times hidden units"):
        judged(request_of_forest(), limits=Limits(hidden_numbers=79))


JUDGED = {"first": {"labels": ["a", "b"]}, "second": {"labels": ["a", "b"]}}
TWO_MODELS = {"models": {"0": JUDGED, "1": JUDGED}}
JUDGMENT = {
    "n_rows": 5,
    # The rows that both models label right stand beside the diagonal.
    "right": np.array([[5, 3], [3, 4]]),
    "losses": np.ones((2, 9)),
    "min_rows": 1,
}


def test_an_honest_judgement_is_taken():
    assert_taken(JudgeReply, JUDGMENT, asked=TWO_MODELS)


def test_no_rows_and_no_models_are_judged():
    judgment = {
        "n_rows": 0,
        "right": np.zeros((0, 0), int),
        "losses": np.ones((0, 9)),
        "min_rows": 10,
    }
    assert_taken(JudgeReply, judgment, asked={"models": {}})


def test_no_more_rows_are_right_than_there_are():
    judgment = JUDGMENT | {"right": np.array([[6, 3], [3, 4]])}
    match = "right are more than the 5 rows"
    assert_refused(JudgeReply, judgment, match, asked=TWO_MODELS)


@pytest.mark.parametrize(
    "change",
    [
        {"right": np.ones((1, 1), int)},
        {"right": np.ones((2, 3), int)},
        {"losses": np.ones((3, 9))},
    ],
)
def test_a_judgement_is_of_all_models_of_the_request(change):
    match = "right is not of 2 models"
    assert_refused(JudgeReply, JUDGMENT | change, match, asked=TWO_MODELS)
