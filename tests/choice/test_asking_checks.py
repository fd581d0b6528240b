# SPDX-License-Identifier: BSD-3-Clause
"""Candidates over a channel: what nodes and server refuse of each other."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from helpers.disclosures import rule_of
from helpers.judging_nodes import (
    JudgingNodes,
    X,
    Y,
    linear_candidates,
    small_candidates,
)
from helpers.tasks import ask
from sklearn.datasets import load_iris
from sklearn.preprocessing import PowerTransformer

from skgems.asking import Message, Nodes
from skgems.choice import choose_over
from skgems.guard import NotAgreedError
from skgems.local import Member
from skgems.messages import check_reply, check_request
from skgems.moments import LOGIT_FACTORS
from skgems.parties import halves_of
from skgems.steps import Front
from skgems.tasks import most_loss

pytestmark = [
    pytest.mark.usefixtures("accepting_nodes"),
    pytest.mark.filterwarnings("ignore:Variables are collinear:UserWarning"),
]


@pytest.fixture(scope="module")
def nodes_that_answered():
    """Nodes that have answered all messages of one choice; tests do not alter them."""
    nodes = JudgingNodes()
    choose_over(nodes.channel, small_candidates)
    return nodes


# ---- what is agreed ----------------------------------------------------------------


@pytest.mark.parametrize(("task", "part"), [("halves", "asked"), ("judge", "models")])
def test_nodes_do_not_answer_again_for_a_part_of_the_candidates(
    nodes_that_answered, task, part
):
    nodes = deepcopy(nodes_that_answered)
    request = nodes.first_request(task)
    content = {part: {"0": request.content[part]["0"]}}
    second = Message.of(task, **content).with_envelope(**request.envelope)
    with pytest.raises(NotAgreedError, match="may be asked 1 times"):
        nodes.answer("oslo", second)


@pytest.fixture
def nodes_that_agreed(nodes_that_answered):
    """Nodes that have the agreement of the first message, and answered no other."""
    nodes = JudgingNodes()
    nodes.answer("oslo", nodes_that_answered.first_request("front"))
    return nodes


def test_nodes_refuse_settings_that_are_not_agreed(
    nodes_that_answered, nodes_that_agreed
):
    request = nodes_that_answered.first_request("halves")
    candidate = deepcopy(request.content["asked"]["0"])
    candidate["settings"]["moments"] = "class"
    changed = Message.of("halves", asked={"0": candidate})
    with pytest.raises(NotAgreedError, match="'GEMSLogistic.* is not agreed"):
        nodes_that_agreed.answer("oslo", changed.with_envelope(**request.envelope))


def test_nodes_refuse_a_front_that_is_not_agreed(
    nodes_that_answered, nodes_that_agreed
):
    request = nodes_that_answered.first_request("judge")
    front = Front(PowerTransformer(method="box-cox")).as_content()
    model = request.content["models"]["0"] | {"front": front}
    changed = Message.of("judge", models={"0": model})
    with pytest.raises(NotAgreedError, match="the front .*box-cox.* is not agreed"):
        nodes_that_agreed.answer("oslo", changed.with_envelope(**request.envelope))


def linear_model(scale):
    """The content of a model of wines, the same for both halves."""
    W = np.zeros((X.shape[1] + 1, 3))
    W[0] = scale * np.array([1.0, -1.0, 0.5])
    W[-1] = scale * np.array([-13, 13, -5.0])
    model = {"labels": ["ant", "bee", "cat"], "W": W}
    return {"first": model, "second": model}


def request_to_judge(n_models, envelope):
    models = {str(k): linear_model(1.0) for k in range(n_models)}
    return Message.of("judge", models=models).with_envelope(**envelope)


def test_as_many_models_are_judged_as_methods_are_agreed(
    nodes_that_answered, nodes_that_agreed
):
    envelope = nodes_that_answered.first_request("judge").envelope
    reply = nodes_that_agreed.answer("oslo", request_to_judge(4, envelope))
    assert len(reply.content["right"]) == 4


@pytest.mark.parametrize(
    ("n_models", "match"),
    [(5, "to judge 5 models, but only 4 methods"), (17, "more than 16")],
)
def test_more_models_than_methods_are_agreed_are_refused(
    nodes_that_answered, nodes_that_agreed, n_models, match
):
    envelope = nodes_that_answered.first_request("judge").envelope
    with pytest.raises(ValueError, match=match):
        nodes_that_agreed.answer("oslo", request_to_judge(n_models, envelope))


# ---- malformed messages ------------------------------------------------------------

REMOVED = object()


def with_change(content, path, value):
    """A copy of a message's content in which one field is replaced or removed."""
    changed = deepcopy(content)
    *outer_names, name = path.split(".")
    fields = changed
    for outer_name in outer_names:
        fields = fields[outer_name]
    if value is REMOVED:
        del fields[name]
    else:
        fields[name] = value
    return changed


@pytest.mark.parametrize(
    ("task", "path", "value", "match"),
    [
        ("halves", "asked.5", {}, "asked are not numbered from 0"),
        ("halves", "asked.0.more", 1, "asked.0.more is an unknown field"),
        ("halves", "asked.1.front", {"tree": 3}, "asked.1.front"),
        ("halves", "asked.0.requests.0.task", "train", "asked.0.requests.0.task"),
        ("halves", "asked.0.requests.7", {}, "not numbered from 0"),
        ("judge", "models.0.first.W", REMOVED, "is not one model"),
        ("judge", "models.0.first.offsets", np.zeros(3), "is not one model"),
        ("judge", "models.3.second.means", REMOVED, "is not one"),
        (
            "judge",
            "models.0.first.W",
            np.zeros((14, 2)),
            "models.0.first.W has the shape",
        ),
    ],
)
def test_a_malformed_request_is_refused_by_the_name_of_the_field(
    nodes_that_answered, task, path, value, match
):
    request = nodes_that_answered.first_request(task)
    content = with_change(request.content, path, value)
    with pytest.raises(ValueError, match=match):
        check_request(Message.of(task, **content))


@pytest.mark.parametrize(
    ("task", "path", "value", "match"),
    [
        ("halves", "joins.9", {}, "joins.9.first is missing"),
        ("halves", "joins.0.second", REMOVED, "joins.0.second is missing"),
        (
            "halves",
            "joins.0.first.describe.network.seen",
            1,
            "describe.network.seen",
        ),
        ("halves", "joins.2.first.method", "x", "summary.method"),
        ("halves", "refused.9", "few", "refused.9 was not asked for"),
        ("halves", "refused.0", "few", "refused.0 is there, though"),
        ("halves", "refused", REMOVED, "halves.refused is missing"),
        ("judge", "right", np.full((4, 4), 10**6), "more than the"),
        ("judge", "right", np.zeros((2, 2), int), "judge.losses has"),
        ("judge", "losses", np.full(4, np.nan), "judge.losses"),
    ],
)
def test_a_malformed_reply_is_refused_by_the_name_of_the_field(
    nodes_that_answered, task, path, value, match
):
    request = nodes_that_answered.first_request(task)
    reply = nodes_that_answered.replies(task)[0]
    content = with_change(reply.content, path, value)
    with pytest.raises(ValueError, match=match):
        check_reply(request, Message.of(task, **content))


# ---- replies that cannot be of the node's rows -------------------------------------


def test_a_summary_of_another_node_is_refused():
    nodes = JudgingNodes()

    def ask(requests):
        replies = nodes.ask(requests)
        if replies["bern"].task == "halves":
            replies["oslo"] = replace(replies["bern"], envelope={})
        return replies

    with pytest.raises(ValueError, match="summary.name is 'bern', not 'oslo'"):
        choose_over(Nodes(ask, nodes.names), linear_candidates)


def channel_with_false_judgement(nodes, falsify):
    """A channel over which oslo's judgment has the fields of ``falsify(content)``."""

    def ask(requests):
        replies = nodes.ask(requests)
        if replies["oslo"].task == "judge":
            false_fields = falsify(replies["oslo"].content)
            replies["oslo"] = replies["oslo"].with_fields(**false_fields)
        return replies

    return Nodes(ask, nodes.names, disclosure=rule_of(nodes.min_rows))


@pytest.mark.parametrize(
    ("min_rows", "n_more_rows"), [(1, 1), (1, 10**12), (10, 10**12)]
)
def test_a_node_that_judges_by_more_rows_than_its_sums_are_of_is_refused(
    min_rows, n_more_rows
):
    def falsify(judgment):
        """All rows are right for the first candidate, and none for the others."""
        n_rows = judgment["n_rows"] + n_more_rows
        right = np.zeros_like(judgment["right"])
        right[0, 0] = n_rows
        return {"n_rows": n_rows, "right": right}

    nodes = JudgingNodes(keep_state=False, min_rows=min_rows)
    channel = channel_with_false_judgement(nodes, falsify)
    with pytest.raises(ValueError, match=r"Node 'oslo' judged .* on \d+ rows"):
        choose_over(channel, linear_candidates)


@pytest.mark.parametrize("min_rows", [1, 10])
def test_the_largest_loss_of_rows_is_that_of_the_least_probability(min_rows):
    worst = -20 * np.log(np.finfo(np.float64).eps)
    rounding = 0.1 * min_rows if min_rows > 1 else 0.0
    assert worst + rounding <= most_loss(20, min_rows)
    assert most_loss(20, min_rows) < 1.001 * worst + rounding


def test_a_node_that_sends_larger_losses_than_rows_can_have_is_refused():
    def falsify(judgment):
        losses = np.array(judgment["losses"])
        losses[1:] = 1e9
        return {"losses": losses}

    channel = channel_with_false_judgement(JudgingNodes(keep_state=False), falsify)
    with pytest.raises(ValueError, match="Node 'oslo' sent a log-loss of 1e.09"):
        choose_over(channel, linear_candidates)


def test_no_node_with_rows_enough_to_judge_is_an_error():
    flowers, y = load_iris(return_X_y=True)
    # Without a state, in which the node would see that its rows are others.
    nodes = JudgingNodes(
        flowers, y, np.full(len(y), "oslo"), keep_state=False, min_rows=10
    )

    def ask(requests):
        if requests["oslo"].task == "judge":  # its rows are too few by now
            nodes.rows = {"oslo": (flowers[48:54], y[48:54])}
        return nodes.ask(requests)

    with pytest.raises(ValueError, match="No node has enough rows"):
        choose_over(Nodes(ask, nodes.names, disclosure=rule_of(10)), linear_candidates)


# ---- what a judgment says about single rows ---------------------------------------


def judgement_of_wines(min_rows, models):
    """What one node sends of models that it judges by all wines."""
    member = Member.from_estimator("oslo", None, X, Y, disclosure=rule_of(min_rows))
    return ask("judge", member, models=models)


def test_counts_and_losses_of_models_are_rounded_for_the_sake_of_single_rows():
    models = {"0": linear_model(1.0), "1": linear_model(0.1)}
    exact = judgement_of_wines(1, models)
    rounded = judgement_of_wines(10, models)
    # Counts are multiples of min_rows, the nearest ones.
    assert (rounded["right"] % 10 == 0).all()
    assert (exact["right"] % 10 != 0).any()
    assert np.abs(rounded["right"] - exact["right"]).max() <= 5
    # Losses are whole numbers.
    np.testing.assert_allclose(
        rounded["losses"], np.round(rounded["losses"]), atol=1e-9
    )
    errors = np.abs(rounded["losses"] - exact["losses"])
    assert 1e-3 < errors.max() <= 0.5 + 1e-9


def test_losses_of_steep_models_are_not_sent():
    models = {"0": linear_model(1e3), "1": linear_model(1.0)}
    losses_of_steep, losses_of_flat = judgement_of_wines(10, models)["losses"]
    W = models["0"]["first"]["W"]
    logits = X @ W[:-1] + W[-1]
    logits -= logits.mean(axis=1, keepdims=True)
    halves = halves_of({"oslo": np.arange(len(Y))}, Y)
    root_mean_squares = [
        np.sqrt(np.mean(logits[halves == half] ** 2)) for half in (0, 1)
    ]
    # Above 100 a single row could make nearly all of the loss.
    is_too_steep = np.max(root_mean_squares) * LOGIT_FACTORS > 100
    assert is_too_steep.any()
    np.testing.assert_array_equal(np.isnan(losses_of_steep), is_too_steep)
    assert not np.isnan(losses_of_flat).any()


def test_losses_of_steep_models_are_sent_by_nodes_that_protect_no_single_rows():
    models = {"0": linear_model(1e3), "1": linear_model(1.0)}
    assert not np.isnan(judgement_of_wines(1, models)["losses"]).any()
