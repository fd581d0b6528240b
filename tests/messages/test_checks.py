# SPDX-License-Identifier: BSD-3-Clause
"""Whatever the table of tasks says is wrong with a field is refused under its name."""

from __future__ import annotations

import re

import pytest
from helpers import hostile
from helpers.broken import LEAVES, broken_contents, messages_with_field

from skgems.messages import Message, check_reply, check_request

# Nobody sends them there, but the same fields stand elsewhere too.
MATRICES = (
    "triangles scatter squares spreads part_squares part_spreads roots root_groups"
)
MATRICES += " correlations factors"
UNSENT = [f"retrain request others.{name}" for name in MATRICES.split()]


@pytest.fixture(scope="module")
def pairs():
    return hostile.honest_pairs()


def check(side, pair, message):
    if side == "request":
        check_request(message)
    else:
        check_reply(pair.request, message, pair.described)


def test_honest_messages_have_every_field_and_are_taken(pairs):
    for pair in pairs:
        check("request", pair, pair.request)
        check("reply", pair, pair.reply)
    assert [
        str(leaf) for leaf in LEAVES if not messages_with_field(pairs, leaf)
    ] == UNSENT


@pytest.mark.parametrize("leaf", [o for o in LEAVES if str(o) not in UNSENT], ids=str)
def test_what_is_wrong_with_a_field_is_refused_under_its_name(pairs, leaf):
    tried, odd = set(), []
    for pair in messages_with_field(pairs, leaf):
        for what, content, names in broken_contents(leaf, pair):
            if what in tried:
                continue
            tried.add(what)
            try:
                check(leaf.side, pair, Message.of(leaf.task, **content))
            except ValueError as exc:
                named = any(re.match(rf"{re.escape(n)}(?!\w)", str(exc)) for n in names)
                if type(exc) is not ValueError or not named:
                    odd.append(f"{what}: {exc!r}")
            else:
                odd.append(f"{what} is taken")
    assert tried and not odd
