# SPDX-License-Identifier: BSD-3-Clause
"""Checks of requests and replies by the table of tasks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import numpy as np

from ._fields import ABSENT, REQUIRED, Json, Place, Text, check_fields
from ._message import Message
from ._tasks import TASKS, Task

# What a summary holds beside the model and counts.
_ANSWER = {
    "task": Text(among=("moments", "size", "space")),
    "asked": Json(),
    "reply": Json(),
}


def task_of(message: Message) -> Task:
    """The row of the table that a message is of; ValueError if there is none."""
    if message.task not in TASKS:
        raise ValueError(f"task is {message.task!r:.40}, none of {sorted(TASKS)}.")
    return TASKS[message.task]


def check_request(request: Message) -> None:
    """Raise ValueError, which names the field, unless a node can be asked this.

    Whether it goes with the node's classifier and rows is not looked at here.
    """
    _checked_request(request)


def check_reply(
    request: Message, reply: Message, described: Mapping | None = None
) -> None:
    """Raise ValueError, which names the field, unless a reply fits its request.

    ``described`` is what the node replied to "describe", and was checked.
    """
    if reply.task != request.task:
        raise ValueError(f"task is {reply.task!r:.40}, not {request.task!r}.")
    task = task_of(request)
    place = Place(request.task, _checked_request(request), request.content)
    if described is not None:
        _bind(place.lengths, described)
    content = reply.content
    check_fields(content, task.reply, place)
    if task.rule is not None:
        task.rule(content, place)
    if task.described_rule is not None:
        task.described_rule(content, place, described)


def check_names(reply: Message) -> None:
    """Raise ValueError unless a reply has the fields of its task."""
    place, fields, content = Place(reply.task), task_of(reply).reply, reply.content
    for name in sorted(set(content) - set(fields)):
        raise place.at(name).wrong("is no field of it")
    for name, own in fields.items():
        if own.default is REQUIRED and own.when is None and name not in content:
            raise place.at(name).wrong("is missing")


def key_of(request: Message) -> str:
    """What a request asks, as a digest: defaults filled in, in whatever order."""
    fields, content = task_of(request).request, request.content
    filled = {
        name: own.default
        for name, own in fields.items()
        if own.default not in (REQUIRED, ABSENT) and name not in content
    }
    whole = Message.of(request.task, **content, **filled)
    found = hashlib.sha256(request.task.encode())
    found.update(json.dumps(whole.settings, sort_keys=True).encode())
    for name, array in sorted(whole.arrays.items()):
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def _checked_request(request: Message) -> dict:
    """Lengths of the letters in the shapes of a request."""
    task = task_of(request)
    place = Place(request.task, {}, request.content)
    check_fields(request.content, task.request, place)
    if task.request_rule is not None:
        task.request_rule(request.content, place)
    # Labels of a request are not those of its reply.
    return {name: n for name, n in place.lengths.items() if name != "l"}


def _bind(lengths: dict, described: Mapping) -> None:
    """Lengths of the node's own model, where no other came along."""
    network = described["network"]
    lengths.setdefault("d", network["n_features"])
    lengths.setdefault("k", int(np.sum(network["seen"])))


def check_summary(content: Mapping) -> None:
    """Raise ValueError, which names the field, unless this is a summary of a node."""
    place = Place("summary")
    check_fields(content, TASKS["join"].reply, place)
    if not content["name"]:
        raise place.at("name").wrong("is empty")
    for name in ("describe", "counts"):
        request = Message.of(name)
        described = None if name == "describe" else content["describe"]
        check_reply(request, Message.of(name, **content[name]), described)
    for number in content["answers"]:
        request, reply = answered(content, number)
        check_reply(request, reply, content["describe"])


def answered(content: Mapping, number: str) -> tuple[Message, Message]:
    """A request of a summary and the reply to it; both are checked by check_reply."""
    place = Place(f"summary.answers.{number}")
    answer = content["answers"][number]
    check_fields(answer, _ANSWER, place)
    return (
        Message.of(answer["task"], **answer["asked"]),
        Message.of(answer["task"], **answer["reply"]),
    )
