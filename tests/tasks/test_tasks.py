# SPDX-License-Identifier: BSD-3-Clause
"""The table of tasks: each message is described once, and checked by that."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import skgems
from skgems.messages import (
    TASKS,
    Message,
    Reply,
    Request,
    Table,
    Task,
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
    """The path and the field of each field, and of those of tables within it."""
    for name, field in fields.items():
        yield path + name, field
        if isinstance(field, Table):
            yield from fields_of(field.fields, f"{path}{name}.")


@pytest.mark.parametrize("name", TASKS)
def test_every_field_of_a_reply_says_what_it_tells_of_rows(name):
    silent = {
        path
        for path, field in fields_of(TASKS[name].reply.fields)
        if not field.says and not isinstance(field, Table)
    }
    # Those of a network, and summaries, which speak for themselves.
    may_be_silent = {"network.activation", "network.output", "joins"}
    # Parameters of a classifier, or of the rule, of which their table speaks.
    tables = ("form.", "penalty.", "rule.")
    parameters = {path for path in silent if path.startswith(tables)}
    # Answers to "join" are those to other tasks.
    answers = set(TASKS["join"].reply.fields) if name == "join" else set()
    assert silent <= may_be_silent | parameters | answers


@pytest.mark.parametrize("name", TASKS)
def test_every_task_says_what_it_asks_and_how_often(name):
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


def sums_over_rows(**fields) -> dict:
    """What models come to on three rows, two of which they get right."""
    sums = {"count": 3.0, "squares": 1.0, "right": 2.0, "losses": np.ones(1)}
    return sums | fields


def evaluate_request(**fields) -> Message:
    return Message.of("evaluate", **EVALUATE | fields)


def evaluate_reply(min_rows: int = 1, **fields) -> Message:
    return Message.of("evaluate", min_rows=min_rows, **sums_over_rows(**fields))


@pytest.mark.parametrize(
    "request_fields, reply_fields, match",
    [
        ({}, {"right": 4.0}, "right are more than the 3 rows"),
        (
            {},
            {"held_out": sums_over_rows(right=4.0)},
            "held_out.right are more",
        ),
        # Of four models at once there are four sums of squares.
        ({"W": np.zeros((4, 3, 2))}, {}, "squares is not an array"),
    ],
)
def test_replies_are_checked_by_their_requests(request_fields, reply_fields, match):
    request = evaluate_request(**request_fields)
    with pytest.raises(ValueError, match=match):
        check_reply(request, evaluate_reply(**reply_fields))


def check_score(*, score: float, n_rows: int) -> None:
    reply = Message.of("score", score=np.array(score), n_rows=n_rows, min_rows=10)
    check_reply(Message.of("score", **REQUESTS["score"]), reply)


def test_a_score_is_missing_only_without_rows():
    check_score(score=np.nan, n_rows=0)
    for score, n_rows in ((np.nan, 1), (0.5, 0)):
        with pytest.raises(ValueError, match="score is there without rows, or missing"):
            check_score(score=score, n_rows=n_rows)


def test_defaults_that_are_written_out_change_no_key():
    written_out = evaluate_request(of="judging", hidden=None, gradient=False)
    assert key_of(written_out) == key_of(evaluate_request())


@pytest.mark.parametrize(
    "change", [{"gradient": True}, {"factors": np.zeros(1)}, {"labels": [0, 1]}]
)
def test_different_questions_have_different_keys(change):
    assert key_of(evaluate_request(**change)) != key_of(evaluate_request())


def test_the_order_of_settings_changes_no_key():
    name_first = REQUESTS["score"] | {"criterion": {"name": "accuracy", "level": 1}}
    level_first = REQUESTS["score"] | {"criterion": {"level": 1, "name": "accuracy"}}
    key = key_of(Message.of("score", **name_first))
    assert key == key_of(Message.of("score", **level_first))


def test_descriptions_of_a_reply_have_its_figures():
    descriptions = says_of(evaluate_reply(min_rows=7))
    in_words = "Number of rows. 3 rows, 1 model."
    assert descriptions["evaluate.count"] == in_words
    assert descriptions["evaluate.min_rows"].endswith("Here min_rows=7.")


def test_every_reply_says_under_which_bound_it_was_made():
    without = {
        name for name, task in TASKS.items() if "min_rows" not in task.reply.fields
    }
    assert without == {"noisy_sums"}  # of which the noise is the bound


def test_two_tasks_of_one_name_are_refused():
    register(TASKS["counts"])  # the same one may come again
    with pytest.raises(ValueError, match="There is already a task 'counts'"):
        register(replace(TASKS["counts"], asks="something else"))


def test_a_task_lacks_what_bounds_it_at_import():
    with pytest.raises(TypeError, match="'bound', 'discloses', 'most', and 'without'"):
        Task(name="toy", asks="a toy", request=Request, reply=Reply, answer=dict)


@pytest.mark.parametrize("name, wrong", [("request", {}), ("reply", Request)])
def test_a_task_has_classes_of_messages(name, wrong):
    with pytest.raises(TypeError, match=f"{name} of the task 'counts' is .* Give it"):
        replace(TASKS["counts"], **{name: wrong})


# ---- facts about tasks stand at the task ---------------------------------------------

PACKAGE = Path(skgems.__file__).parent
MODULES = [path for path in PACKAGE.rglob("*.py") if path.parent.name != "tasks"]


@cache
def nodes_of(path):
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def task_names_in(node):
    """Names of tasks among the texts of an expression."""
    texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return {text for text in texts if isinstance(text, str) and text in TASKS}


def is_task_name(operand):
    """Report whether an expression is the name of a task, or several, by its form."""
    match operand:
        case ast.Attribute(attr="task" | "tasks" | "bounded_tasks"):
            return True
        case ast.Attribute(attr="name", value=owner):
            return is_task_name(owner)
        case ast.Name(id="task" | "tasks" | "task_name"):
            return True
        case ast.Subscript(slice=ast.Constant(value="task" | "tasks")):
            return True
        case ast.Call(args=[ast.Constant(value="task"), *_]):
            return True
        case ast.SetComp(elt=element) | ast.ListComp(elt=element):
            return is_task_name(element)
    return False


def is_constant(operand):
    """Report whether an expression is a constant other than the table of all tasks."""
    match operand:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.isupper() and name != "TASKS"
    return False


def compared_with_tasks(path):
    """Operands of all comparisons of a module in which names of tasks are compared."""
    for node in nodes_of(path):
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            if any(map(is_task_name, operands)):
                yield operands


# Rooms with plans, each of which may know the tasks that it asks for.
ROOMS_OF_PLANS = {"pooled", "gems", "choice", "pfnm", "averaging", "ensembles"}


def names_asked_in(room):
    """Names of tasks that some call in a room begins with, as Message.of("counts")."""
    if room not in ROOMS_OF_PLANS:
        return set()
    return {
        name
        for path in (PACKAGE / room).glob("*.py")
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and node.args
        for name in task_names_in(node.args[0])
    }


def test_no_room_compares_the_name_of_a_task_that_it_does_not_ask_for():
    for path in MODULES:
        for operands in compared_with_tasks(path):
            names = set().union(*map(task_names_in, operands))
            others = names - names_asked_in(path.parent.name)
            assert not others, f"{path.relative_to(PACKAGE)} compares {others}"
            constants = [ast.unparse(part) for part in operands if is_constant(part)]
            assert not constants, f"{path.relative_to(PACKAGE)} compares {constants}"


def test_no_module_has_a_table_of_tasks_beside_the_table_of_tasks():
    for path in MODULES:
        module = ast.parse(path.read_text(encoding="utf-8"))
        for statement in module.body:
            match statement:
                case ast.Assign(value=ast.Tuple() | ast.List() | ast.Set() as table):
                    keys = table.elts
                case ast.Assign(value=ast.Dict() as table):
                    keys = [key for key in table.keys if key is not None]
                case _:
                    continue
            are_names = [bool(task_names_in(key)) for key in keys]
            assert len(keys) < 2 or not all(are_names), path.relative_to(PACKAGE)
