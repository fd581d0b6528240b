# SPDX-License-Identifier: BSD-3-Clause
"""Numbers that several messages tell of the same rows are counted together."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.ledgers import answer, begin_exchange
from helpers.tasks import ask
from sklearn.linear_model import LogisticRegression

from skgems import Disclosure
from skgems.asking import Message
from skgems.guard import read_entries
from skgems.local import Member, n_told_before, remember_told, ruled, tables_that_hold
from skgems.messages import sealed, told_numbers

# 400 rows of 3 columns are 1,200 numbers. The means and products of two classes are 18,
# or 12 where the classes share their products; a gradient of two outputs is 4.
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = np.where(X[:, 0] + RNG.normal(size=400) > 0, "ill", "well")
CLF = LogisticRegression().fit(X, Y)


def rule_of(n_numbers: int) -> Disclosure:
    """A rule under which so many numbers may be told of the rows, and no more."""
    return Disclosure(unknowns=(n_numbers + 0.5) / X.size)


def models(n_models: int) -> np.ndarray:
    """Models under which no row has a large residual, and each in other directions."""
    directions = np.random.default_rng(1).normal(size=(n_models, 4, 1))
    return directions * np.array([-0.5, 0.5])


def judging_content(n_models: int) -> dict:
    return {
        "W": models(n_models),
        "labels": ["ill", "well"],
        "columns": np.arange(2),
        "factors": np.ones(1),
        "gradient": True,
        "of": "learning",
    }


def told_gradients(member: Member, n_models: int) -> list[bool]:
    """Report of each model's gradient, asked for in one message, whether it is told."""
    reply = ask("evaluate", member, **judging_content(n_models))
    remember_told(member, told_numbers(Message.of("evaluate", **reply)))
    return [not np.isnan(gradient).any() for gradient in reply["gradient"]]


def member_under(rule: Disclosure | None) -> Member:
    return Member.from_estimator("lyon", CLF, X, Y, disclosure=rule)


def test_gradients_of_one_message_are_counted_together():
    assert told_gradients(member_under(rule_of(8)), 3) == [True, True, False]
    assert told_gradients(member_under(rule_of(12)), 3) == [True, True, True]


def test_gradients_of_several_messages_are_counted_together():
    member = member_under(rule_of(8))
    assert told_gradients(member, 1) == [True]
    assert told_gradients(member, 2) == [True, False]
    assert n_told_before(member) == 8


def test_nothing_is_counted_where_there_is_no_rule():
    member = member_under(None)
    assert told_gradients(member, 3) == [True, True, True]
    assert n_told_before(member) == 0


@pytest.mark.parametrize("n_models, is_by_class", [(0, True), (2, False)])
def test_products_after_gradients_go_a_step_down(n_models, is_by_class):
    """Nine numbers of each class fit; with four more of gradients they do not."""
    member = member_under(rule_of(21))
    if n_models:
        assert all(told_gradients(member, n_models))
    request = {"kind": "class", "n_components": 1, "min_cluster_size": 1}
    groups = ask("moments", member, **request)["moments"]["groups"]
    assert (-1 not in groups) == is_by_class


@pytest.mark.parametrize("n_numbers, n_gradients", [(26, 1), (600, 3)])
def test_a_ledger_counts_the_numbers_of_earlier_messages(n_numbers, n_gradients):
    """Of 26 numbers the first message tells 18 and a gradient of 4; one more fits."""
    state: dict = {}
    rule = rule_of(n_numbers)
    agreement, first = begin_exchange(n_rounds=4, moments__n_components=1)
    options = {"clf": CLF, "rows": X, "y": Y, "disclosure": rule}
    answer(first, state, **options)
    are_told = []
    for k in range(3):
        content = judging_content(3)
        request = Message.of("evaluate", **content | {"W": content["W"][[k]]})
        reply = answer(sealed(request, agreement), state, **options)
        are_told.append(not np.isnan(reply.content["gradient"]).any())
    assert are_told == [k < n_gradients for k in range(3)]
    ended = [entry for entry in read_entries(state) if entry["event"] == "ended"]
    assert sum(n for entry in ended for _, n, _ in entry["told"]) == 22 + 4 * sum(
        are_told
    )


@pytest.mark.parametrize(
    "n_before, names", [(0, ["narrow", "wide"]), (570, ["narrow"])]
)
def test_what_was_told_before_leaves_no_room_for_a_wider_table(n_before, names):
    """Of these rows 600 numbers may be told, and six columns tell 33."""
    member = Member.from_estimator("lyon", CLF, X, Y, disclosure=Disclosure())
    held = tables_that_hold(
        ruled(member),
        {"narrow": X, "wide": np.hstack([X, X**2])},
        by_class=[],
        n_told_before=n_before,
    )
    assert held.names == names
