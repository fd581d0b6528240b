# SPDX-License-Identifier: BSD-3-Clause
"""The table of tasks: each message is described once, and checked by that."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pytest

from skgems.messages import (
    TASKS,
    Message,
    Table,
    check_reply,
    check_request,
    key_of,
    register,
)
from skgems.messages import says as says_of

W = np.zeros((3, 2))
LABELS = {"labels": ["a", "b"], "columns": np.arange(2)}
ACCURACY = {"name": "accuracy"}
EVALUATE = {"W": W, **LABELS, "factors": np.ones(1)}
RETRAIN = {
    "coefs": [np.zeros((2, 2))],
    "intercepts": [np.zeros(2)],
    "activation": [],
    "labels": ["a", "b"],
    "epochs": 1,
    "seed": 0,
}
HIDDEN = {"weights": [np.zeros((3, 2)), np.zeros((2, 2))], "activation": ["relu"] * 2}
REQUESTS = {
    "evaluate": EVALUATE,
    "score": {"W": W, **LABELS, "criterion": ACCURACY},
    "size": {"W": W},
    "retrain": RETRAIN,
    "moments": {
        "kind": "class",
        "n_components": 1,
        "min_cluster_size": 1,
        "model": "own",
    },
}


def fields_of(fields, path=""):
    for name, field in fields.items():
        yield path + name, field
        if isinstance(field, Table):
            yield from fields_of(field.fields, f"{path}{name}.")


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_answered_by_a_function_of_its_fields(name):
    if name == "join":  # whose answers are those of other tasks
        return
    function = TASKS[name].answer
    parameters = inspect.signature(function).parameters
    takes_more = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for field, own in TASKS[name].request.items():
        assert field in parameters or takes_more, field
        if field in parameters and own.default is None:
            assert parameters[field].default in (None, inspect.Parameter.empty), field


@pytest.mark.parametrize("name", TASKS)
def test_every_field_of_a_reply_says_what_it_says_about_rows(name):
    silent = {
        path
        for path, field in fields_of(TASKS[name].reply)
        if not field.says and not isinstance(field, Table)
    }
    # Of a network; and parameters of a classifier, of which their table speaks.
    known = {"network.activation", "network.output"}
    known |= {path for path in silent if path.startswith(("form.", "penalty."))}
    known |= set(TASKS["join"].reply) if name == "join" else set()
    known |= {"joins"}  # summaries, which speak for themselves
    assert silent <= known
    assert TASKS[name].asks and TASKS[name].often


@pytest.mark.parametrize(
    "task, change, match",
    [
        ("retrain", {"coefs": [], "intercepts": []}, "coefs are not the weights of"),
        ("evaluate", {"columns": np.array([0, 2])}, "columns are more than the 2"),
        ("size", {"W": None}, "W is missing, or comes beside model='own'"),
        ("size", {"model": "own"}, "W is missing, or comes beside model='own'"),
        ("retrain", {"intercepts": []}, "coefs are not one for each layer"),
        ("retrain", {"intercepts": [W[0, :1]]}, r"coefs\[0\] does not fit the layers"),
        ("retrain", {"center": W[0]}, "scale is missing, or center is"),
        ("retrain", {"center": W[:, 0], "scale": W[:, 0] + 1}, "center are not one"),
        ("moments", {"hidden": HIDDEN}, "hidden.weights do not fit each other"),
    ],
)
def test_requests_that_are_wrong_name_the_field(task, change, match):
    with pytest.raises(ValueError, match=match):
        check_request(Message.of(task, **REQUESTS[task] | change))


def judged(**more):
    return {"count": 3.0, "squares": 1.0, "right": 2.0, "losses": np.ones(1), **more}


@pytest.mark.parametrize(
    "asked, told, match",
    [
        ({}, {"right": 4.0}, "right are more than the 3 rows"),
        ({}, {"held_out": judged(right=4.0)}, "held_out.right are more"),
        ({"W": np.zeros((4, 3, 2))}, {}, "squares is no array"),
    ],
)
def test_replies_are_checked_by_their_requests(asked, told, match):
    request = Message.of("evaluate", **EVALUATE | asked)
    with pytest.raises(ValueError, match=match):
        check_reply(request, Message.of("evaluate", min_rows=1, **judged(**told)))


def test_a_score_is_missing_only_without_rows():
    request = Message.of("score", **REQUESTS["score"])
    none = {"score": np.array(np.nan), "n_rows": 0, "min_rows": 10}
    check_reply(request, Message.of("score", **none))
    for score, n_rows in ((np.nan, 1), (0.5, 0)):
        with pytest.raises(ValueError, match="score is there without rows, or missing"):
            told = none | {"score": np.array(score), "n_rows": n_rows}
            check_reply(request, Message.of("score", **told))


def test_equal_questions_have_equal_keys():
    request = Message.of("evaluate", **EVALUATE)
    filled = {"of": "judging", "hidden": None, "gradient": False}
    assert key_of(Message.of("evaluate", **filled, **EVALUATE)) == key_of(request)
    for change in ({"gradient": True}, {"factors": np.zeros(1)}, {"labels": [0, 1]}):
        assert key_of(Message.of("evaluate", **EVALUATE | change)) != key_of(request)
    sorted_ = {"name": "accuracy", "level": 1}
    swapped = dict(reversed(sorted_.items()))
    score = REQUESTS["score"]
    assert key_of(Message.of("score", **score | {"criterion": sorted_})) == key_of(
        Message.of("score", **score | {"criterion": swapped})
    )


def test_what_is_said_of_a_reply_has_its_figures():
    said = says_of(Message.of("evaluate", min_rows=7, **judged()))
    assert said["evaluate.count"] == "How many rows there are. 3 rows, 1 model."
    assert said["evaluate.min_rows"].endswith("Here it is 7.")


def test_every_reply_says_under_which_bound_it_was_made():
    assert all("min_rows" in task.reply for task in TASKS.values())


def test_two_tasks_of_one_name_are_refused():
    register(TASKS["counts"])  # the same one may come again
    with pytest.raises(ValueError, match="There is a task 'counts' already"):
        register(replace(TASKS["counts"], asks="something else"))
