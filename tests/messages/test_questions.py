# SPDX-License-Identifier: BSD-3-Clause
"""Requests and replies as classes, whose annotations are the fields of messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import numpy as np
import pytest

from skgems.messages import (
    ABSENT,
    TASKS,
    Array,
    Each,
    Flag,
    Message,
    Number,
    Part,
    Place,
    Reply,
    Request,
    Task,
    check_reply,
    check_request,
    key_of,
    says,
)


class AboveRequest(Request):
    threshold: Annotated[float, Number(low=-10.0, high=10.0)]
    by_class: Annotated[bool, Flag(default=False)]
    hidden: Annotated[float | None, Number(default=None)]

    def check(self, place: Place) -> None:
        place.deny(self.threshold == 0.0, "threshold", "is 0")


class AboveReply(Reply):
    n_rows: Annotated[int, Number(whole=True, says="Rows above.")]
    # Absent, or there for some requests only.
    share: Annotated[float | None, Number(default=ABSENT)]
    by_class: Annotated[
        np.ndarray | None, Array("l", when=lambda request: request.by_class)
    ]

    def check(self, request: AboveRequest, place: Place) -> None:
        place.deny(self.n_rows > 9 and request.by_class, "n_rows", "are many")


def above(member, request):
    return AboveReply(
        n_rows=int((member > request.threshold).sum()),
        by_class=np.zeros(2) if request.by_class else None,
    )


@pytest.fixture(autouse=True)
def task(monkeypatch):
    task = Task(
        name="above",
        asks="the number of rows above a threshold",
        request=AboveRequest,
        reply=AboveReply,
        answer=above,
        bound="derived",
        discloses="counts",
        most=1,
        without="needed",
    )
    monkeypatch.setitem(TASKS, "above", task)
    return task


def test_attributes_have_the_defaults_of_their_fields():
    request = AboveRequest(threshold=1.0)
    assert (request.by_class, request.hidden) == (False, None)
    assert list(AboveRequest.fields) == ["threshold", "by_class", "hidden"]
    assert AboveReply(n_rows=1).share is None
    with pytest.raises(TypeError, match="threshold"):
        AboveRequest()
    with pytest.raises(TypeError, match="epochs"):
        AboveRequest(threshold=1.0, epochs=3)


def test_a_subclass_has_the_fields_of_its_base_first():
    class Further(AboveReply):
        mean: Annotated[float, Number()]

    assert list(Further.fields) == ["n_rows", "share", "by_class", "mean"]


def test_a_content_has_only_the_fields_that_are_there():
    assert AboveReply(n_rows=3).as_content() == {"n_rows": 3}
    content = {"n_rows": 3, "share": 0.5, "front": None}
    assert AboveReply.from_content(content).as_content() == {"n_rows": 3, "share": 0.5}


def test_a_task_answers_a_content_by_its_classes(task):
    numbers = np.arange(5.0)
    assert task.answered(numbers, {"threshold": 1.5}) == {"n_rows": 3}
    assert "by_class" in task.answered(numbers, {"threshold": 1.5, "by_class": True})


@pytest.mark.parametrize(
    "request_fields, reply_fields, match",
    [
        ({"threshold": 11.0}, {}, "above.threshold is 11.0, not between"),
        ({"threshold": 0.0}, {}, "above.threshold is 0"),
        ({}, {"n_rows": 0.5}, "above.n_rows is 0.5, not a whole number"),
        ({}, {"by_class": np.zeros(2)}, "above.by_class was not asked for"),
        ({"by_class": True}, {}, "above.by_class is missing"),
        (
            {"by_class": True},
            {"by_class": np.zeros(2), "n_rows": 10},
            "above.n_rows are many",
        ),
    ],
)
def test_messages_are_checked_by_fields_and_rules(request_fields, reply_fields, match):
    request = Message.of("above", **{"threshold": 1.0, **request_fields})
    reply = Message.of("above", **{"n_rows": 3, **reply_fields})
    with pytest.raises(ValueError, match=match):
        check_reply(request, reply)
    check_request(Message.of("above", threshold=1.0))


def test_defaults_change_no_key():
    written_out = Message.of("above", threshold=1.0, by_class=False, hidden=None)
    assert key_of(written_out) == key_of(Message.of("above", threshold=1.0))


class Counted(Part):
    n_rows: Annotated[int, Number(whole=True, says="Rows of a class.")]
    mean: Annotated[float | None, Number(default=ABSENT, says="Their mean.")]

    def check(self, place: Place) -> None:
        place.deny(self.n_rows > 9, "n_rows", "are many")


class ByClassReply(Reply):
    all: Annotated[Counted, Counted.table()]
    classes: Annotated[Mapping[str, Counted], Each(Counted.fields, of=Counted)]


def test_tables_are_opened_as_parts_and_closed_as_tables():
    content = {"all": {"n_rows": 5}, "classes": {"0": {"n_rows": 2, "mean": 0.5}}}
    reply = ByClassReply.from_content(content)
    assert (reply.all.n_rows, reply.all.mean) == (5, None)
    assert reply.classes["0"].mean == 0.5
    assert reply.as_content() == content
    # A question that was made here holds parts from the beginning.
    made = ByClassReply(all=reply.all, classes={"0": Counted(n_rows=2, mean=0.5)})
    assert made.as_content() == content
    with pytest.raises(TypeError, match="unknown"):
        ByClassReply.opened({**content, "unknown": 1})


def test_rules_of_a_part_are_checked_with_its_fields(monkeypatch, task):
    monkeypatch.setitem(TASKS, "above", replace(task, reply=ByClassReply))
    request = Message.of("above", threshold=1.0)
    tables = {"all": {"n_rows": 5}, "classes": {"0": {"n_rows": 2}}}
    check_reply(request, Message.of("above", **tables))
    for wrong, match in (
        ({"all": {"n_rows": 11}}, "above.all.n_rows are many"),
        ({"all": {}}, "above.all.n_rows is missing"),
        ({"classes": {"1": {"n_rows": 2}}}, "above.classes are not numbered from 0"),
        ({"classes": {"0": {"n_rows": 0.5}}}, "above.classes.0.n_rows is 0.5, not"),
    ):
        with pytest.raises(ValueError, match=match):
            check_reply(request, Message.of("above", **tables | wrong))


def test_fields_of_numbered_tables_say_once_what_they_tell(monkeypatch, task):
    monkeypatch.setitem(TASKS, "above", replace(task, reply=ByClassReply))
    tables = {"all": {"n_rows": 5}, "classes": {"0": {"n_rows": 2}}}
    assert says(Message.of("above", **tables)) == {
        "above.all.n_rows": "Rows of a class. Here it is 5.",
        "above.classes.n_rows": "Rows of a class.",
        "above.classes.mean": "Their mean.",
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"n_rows": np.int64(3), "share": np.float64(0.1)},
        {"n_rows": 3, "by_class": np.arange(6.0).reshape(3, 2).T},
        # Whatever a content has, within tables and lists too.
        {
            "n_rows": [np.zeros(2), np.ones((2, 3))],
            "share": {"a": np.zeros(2), "b": ()},
        },
        {"n_rows": ["ä", "b"], "share": {"a": {"b": [1, np.float64(2)], "c": None}}},
    ],
)
def test_a_reply_has_as_many_bytes_as_its_message(fields):
    reply = AboveReply(**fields)
    message = reply.as_message("above")
    assert reply.n_bytes == message.n_bytes
    assert Message.from_bytes(message.to_bytes()).n_bytes == message.n_bytes


def test_no_message_is_made_to_count_the_bytes_of_a_reply(monkeypatch):
    def fail(*args, **fields):
        raise AssertionError("a message was made")

    reply = AboveReply(n_rows=3, by_class=np.zeros(2))
    monkeypatch.setattr(Message, "of", fail)
    assert reply.n_bytes == 16 + len('{"n_rows": 3}')
