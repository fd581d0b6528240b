# SPDX-License-Identifier: BSD-3-Clause
"""Sums for standard errors, at models that a server makes up to single out a row.

The information weighs rows by how unsure a model is. A steep model is unsure about the
row at its boundary alone, so that its information is that row.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.dummy import DummyClassifier

from skgems import Disclosure
from skgems.evaluation import matrix_of_triangle
from skgems.local import Member, ruled
from skgems.messages import TASKS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = np.where(X[:, 0] + RNG.logistic(size=400) > 0, "ill", "well")
N_ASKED = 20


def asked(rule, theta, X=X, y=Y):
    member = Member.from_estimator(
        "lyon", DummyClassifier().fit(X, y), X, y, disclosure=rule
    )
    W = np.column_stack([np.zeros(4), theta])
    request = {"W": W, "labels": ["ill", "well"], "columns": np.arange(2)}
    return TASKS["inference"].answered(ruled(member), request)


def steep_models(steepness):
    """Models whose boundary passes a row, in random directions."""
    rng = np.random.default_rng(1)
    for i in range(N_ASKED):
        direction = rng.normal(size=3)
        yield i, steepness * np.append(direction, -direction @ X[i])


def found_rows(rule, steepness):
    """Rows that a sum is, but for a hundredth."""
    found = set()
    for i, theta in steep_models(steepness):
        reply = asked(rule, theta)
        for name in ("information", "middle"):
            if name not in reply:
                continue
            products = matrix_of_triangle(reply[name], 4)
            guess = products[-1, :-1] / products[-1, -1]
            if np.abs(guess - X[i]).max() < 0.01:
                found.add(i)
    return found


def test_a_steep_model_tells_a_row_where_no_rule_holds():
    assert len(found_rows(None, 1e4)) > N_ASKED / 2


@pytest.mark.parametrize("steepness", [10.0, 1e4])
def test_a_steep_model_tells_no_row_under_the_rule(steepness):
    assert found_rows(Disclosure(), steepness) == set()


@pytest.mark.parametrize("steepness", [3.0, 1e2])
def test_no_row_is_most_of_what_is_told(steepness):
    rule = Disclosure()
    for _, theta in steep_models(steepness):
        reply = asked(rule, theta)
        p = expit(np.column_stack([X, np.ones(len(X))]) @ theta)
        for name, weights in (
            ("information", p * (1 - p)),
            ("middle", ((Y == "well") - p) ** 2),
        ):
            if name in reply:
                assert weights.max() < weights.sum() / 2


def test_an_honest_model_is_answered():
    """Of uniform columns no row has much more leverage than others."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, size=(2000, 3))
    y = np.where(rows[:, 0] + rng.logistic(size=2000) > 0, "ill", "well")
    reply = asked(Disclosure(), np.array([1.0, 0.0, 0.0, 0.0]), rows, y)
    assert {"gradient", "information", "middle"} <= set(reply)
