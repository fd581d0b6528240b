# SPDX-License-Identifier: BSD-3-Clause
"""Contents to which the rules of messages are applied, and what these must say."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.messages._fields import Place

# Sums may be off by so much, relative to themselves.
WITHIN, BEYOND = 1.0 + 0.9e-6, 1.0 + 1.1e-6


def assert_taken(rule, content, **place) -> Place:
    there = Place("told", **place)
    rule(content, there)
    return there


def assert_refused(rule, content, match, **place) -> None:
    with pytest.raises(ValueError, match=rf"^told\.?{match}"):
        assert_taken(rule, content, **place)


def assert_outcome(rule, content, match: str | None, **place) -> None:
    """A content is taken, or refused in these words."""
    if match is None:
        assert_taken(rule, content, **place)
    else:
        assert_refused(rule, content, match, **place)


ROLES = ("judging", "moments", "training")


def described(**more) -> dict:
    counts = np.array([30, 10])
    rows = {"labels": ["a", "b"], **dict.fromkeys(ROLES, counts)}
    return {"rows": rows | more}


def without(content: dict, *names: str) -> dict:
    return {name: value for name, value in content.items() if name not in names}


def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [30, 10])
    return rng.normal(size=(40, 3)) + y[:, None], y
