# SPDX-License-Identifier: BSD-3-Clause
"""Contents to which the rules of messages are applied, and what these must say."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.messages import REQUIRED, TASKS, Part, Place, Request

# Sums may differ by 1e-6 of themselves: a factor just within that.
WITHIN = 1.0 + 0.9e-6
# A factor just beyond that.
BEYOND = 1.0 + 1.1e-6


def assert_taken(rule, content, **options) -> Place:
    """A content does not break a rule; returns the place with the lengths it has.

    The rule is a function, or the class of a request, of a reply or of a part of one.
    """
    place = Place("told", **options)
    if not isinstance(rule, type):
        rule(content, place)
    elif issubclass(rule, Request | Part):
        made_of(rule, content).check(place)
    else:
        request = next(task.request for task in TASKS.values() if task.reply is rule)
        made_of(rule, content).check(made_of(request, place.asked or {}), place)
    return place


def made_of(message_class, content):
    """A message of a class with some fields; None for others that are needed."""
    needed = {
        name: None
        for name, field in message_class.fields.items()
        if field.default is REQUIRED
    }
    return message_class.opened(needed | dict(content))


def assert_refused(rule, content, match, **place) -> None:
    """A content breaks a rule, and the error says so in these words."""
    with pytest.raises(ValueError, match=rf"^told\.?{match}"):
        assert_taken(rule, content, **place)


def assert_outcome(rule, content, match: str | None, **place) -> None:
    """A content is taken, or refused in these words."""
    if match is None:
        assert_taken(rule, content, **place)
    else:
        assert_refused(rule, content, match, **place)


ROLES = ("judging", "moments", "training")


def described(**fields) -> dict:
    """A description of 40 rows of two classes; fields of its rows may be replaced."""
    counts = np.array([30, 10])
    rows = {"labels": ["a", "b"], **dict.fromkeys(ROLES, counts)}
    return {"rows": {**rows, **fields}}


def without(content: dict, *names: str) -> dict:
    """A content without some of its fields."""
    return {name: value for name, value in content.items() if name not in names}


def rows() -> tuple[np.ndarray, np.ndarray]:
    """The 40 rows that are described, and their labels."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [30, 10])
    return rng.normal(size=(40, 3)) + y[:, None], y
