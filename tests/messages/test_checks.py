# SPDX-License-Identifier: BSD-3-Clause
"""Whatever the table of tasks says is wrong with a field is refused under its name."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers import hostile
from helpers.broken import LEAVES, broken_contents, messages_with_field

from skgems.messages import (
    TASKS,
    Message,
    check_reply,
    check_request,
    has_usable_numbers,
    reply_in,
)
from skgems.moments import LARGEST, LARGEST_FLOAT32

# Sums in "others" of a request to retrain have no matrices, so nobody sends these
# there; the same fields stand in other messages, where they are tried.
MATRICES = ["triangles", "squares", "part_squares", "roots", "block", "root_groups"]
UNSENT = [f"retrain request others.{name}" for name in MATRICES]
SENT = [leaf for leaf in LEAVES if str(leaf) not in UNSENT]


@pytest.fixture(scope="module")
def pairs():
    return hostile.honest_pairs()


def check(side, pair, message):
    """Check a message that stands for the pair's request, or for its reply."""
    if side == "request":
        check_request(message)
    else:
        check_reply(pair.request, message, pair.described)


def test_honest_messages_are_taken(pairs):
    for pair in pairs:
        check("request", pair, pair.request)
        check("reply", pair, pair.reply)


def test_honest_messages_have_every_field(pairs):
    without_messages = [
        str(leaf) for leaf in LEAVES if not messages_with_field(pairs, leaf)
    ]
    assert without_messages == UNSENT


def is_refused_under(error, names) -> bool:
    """Whether an error is a plain ValueError that begins with one of the names."""
    pattern = "|".join(re.escape(name) for name in names)
    return type(error) is ValueError and bool(
        re.match(rf"({pattern})(?!\w)", str(error))
    )


def complaint(leaf, pair, *, description, content, names) -> str | None:
    """How a broken message is treated wrongly, or None if it is refused rightly."""
    try:
        check(leaf.side, pair, Message.of(leaf.task, **content))
    except ValueError as error:
        return None if is_refused_under(error, names) else f"{description}: {error!r}"
    return f"{description} is taken"


@pytest.mark.parametrize("leaf", SENT, ids=str)
def test_a_broken_field_is_refused_under_its_name(pairs, leaf):
    # Each way to break a field is tried once, in the first message that allows it.
    complaints = {}
    for pair in messages_with_field(pairs, leaf):
        for description, content, names in broken_contents(leaf, pair):
            if description not in complaints:
                complaints[description] = complaint(
                    leaf, pair, description=description, content=content, names=names
                )
    assert complaints
    assert not [text for text in complaints.values() if text is not None]


def test_fields_of_the_user_are_checked_alone(pairs):
    pair = next(pair for pair in pairs if pair.request.task == "moments")
    task = TASKS["moments"]
    task.check_fields_of_user(reply_in(pair.reply))
    content = pair.reply.content
    for name in task.of_user:
        if name not in content:
            continue
        wrong = Message.of("moments", **{**content, name: "odd"})
        with pytest.raises(ValueError, match=rf"^moments\.{name} "):
            task.check_fields_of_user(reply_in(wrong))
    without_rule = Message.of("moments", **{**content, "scaled": "odd"})
    task.check_fields_of_user(reply_in(without_rule))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_that_are_too_large_or_none_are_not_usable(dtype):
    largest = LARGEST_FLOAT32 if dtype is np.float32 else LARGEST
    for value, is_usable in [
        (0.0, True),
        (-0.9 * largest, True),
        (1.1 * largest, False),
        (-np.inf, False),
        (np.nan, False),
    ]:
        array = np.array([0.0, value], dtype=dtype)
        table = {"whole": np.arange(3), "none": np.empty(0), "W": [array]}
        reply = TASKS["survey"].reply(n_rows=2, names=["a"], columns={"0": table})
        assert has_usable_numbers(reply) is is_usable
