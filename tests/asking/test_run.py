# SPDX-License-Identifier: BSD-3-Clause
"""Plans over channels, with nodes of plain arithmetic."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from skgems.asking import (
    InProcess,
    Message,
    Run,
    TooFewNodesError,
    _checked_here,
    _lines,
    run,
)
from skgems.averaging import CoLearning, Schedule
from skgems.compat import showing
from skgems.local import clear_cache
from skgems.messages import TASKS, Reply, Request, Task
from skgems.parties import reply_as_message as answer


def answer_by(function, member, request):
    return AnyReply(function(member, **vars(request)))


class Target:
    """A member that goes half the way to its target in each epoch."""

    def __init__(self, name, target, failures=0, error=OSError):
        self.name = name
        self.target = target
        self.failures = failures  # calls that raise before one is answered
        self.error = error
        self.calls = []
        self.disclosure = None

    def train(self, parameters, classes, epochs, rates, seed):
        self.calls.append((epochs, None if rates is None else rates.tolist(), seed))
        if len(self.calls) <= self.failures:
            raise self.error("no route to host")
        trained = parameters[0] + (1 - 0.5**epochs) * (self.target - parameters[0])
        return {"parameters": [trained], "loss": float(abs(self.target - trained[0]))}


class AnyRequest(Request):
    """A request of any fields."""

    def __init__(self, **content):
        vars(self).update(content)


class AnyReply(Reply):
    """A reply of any fields."""

    def __init__(self, content):
        vars(self).update(content)

    def as_content(self):
        return dict(vars(self))


def answered_by(monkeypatch, **tasks):
    """Put other tasks into the table, each a function and what the table says of it."""
    for name, (function, options) in tasks.items():
        task = Task(
            name=name,
            asks="",
            often="once",
            request=AnyRequest,
            reply=AnyReply,
            answer=partial(answer_by, function),
            bound="fields",
            discloses="counts",
            most=1,
            **{"without": "needed", **options},
        )
        monkeypatch.setitem(TASKS, name, task)
    # Its fields are not said in the table.
    for module in (_lines, _checked_here):
        monkeypatch.setattr(module, "check_reply", lambda *args, **keywords: None)


@pytest.fixture(autouse=True)
def arithmetic(monkeypatch):
    def train(member, **content):
        return member.train(**content)

    answered_by(monkeypatch, train=(train, {"without": "nothing"}), vital=(train, {}))


def co_learn(members, start=0.0, weights=None, random_state=0, channel=None, **options):
    channel = InProcess(members) if channel is None else channel
    names = [member.name for member in members]
    weights = dict.fromkeys(names, 1.0) if weights is None else weights
    plan = CoLearning(**options).plan(
        [np.array([start])], weights, [0, 1], np.random.RandomState(random_state)
    )
    channel_run = Run(channel)
    (parameters, rounds) = channel_run(plan)
    return parameters[0], rounds, channel_run.history


def test_the_shared_model_is_the_mean_of_what_nodes_trained():
    members = [Target("0", 1.0), Target("1", 3.0)]
    shared, (round_of_plan,), (entry,) = co_learn(members, n_rounds=1, local_epochs=1)
    np.testing.assert_allclose(shared, [1.0])
    assert round_of_plan["change"] == np.inf
    assert entry["task"] == "train" and entry["left_out"] == []
    assert entry["loss"] == {"0": 0.5, "1": 1.5}
    request = Message.of(
        "train",
        parameters=[np.zeros(1)],
        classes=[0, 1],
        epochs=1,
        rates=np.zeros(1),
        seed=members[0].calls[0][2],
    )
    assert entry["bytes_sent"] == 2 * request.n_bytes
    replies = [Message.of("train", p=np.zeros(1), loss=loss) for loss in (0.5, 1.5)]
    assert entry["bytes_received"] == sum(reply.n_bytes for reply in replies)
    assert entry["seconds"] > 0


def test_weights_of_nodes():
    members = [Target("a", 1.0), Target("b", 3.0)]
    weights = {"b": 1.0, "a": 3.0}
    shared, _, _ = co_learn(members, weights=weights, n_rounds=1, local_epochs=50)
    np.testing.assert_allclose(shared, [1.5])


def test_epochs_double_from_the_round_after_the_model_settled():
    # From 10 towards 11 in halves: relative changes 0.05, 0.024, 0.012, ...
    member = Target("0", 11.0)
    _, rounds, _ = co_learn(
        [member],
        10.0,
        n_rounds=4,
        local_epochs=1,
        learning_rate=0.04,
        schedule=Schedule(tol=0.03),
    )
    changes = [entry["change"] for entry in rounds]
    np.testing.assert_allclose(changes[:2], [0.5 / 10, 0.25 / 10.5])
    assert [entry["epochs"] for entry in rounds] == [1, 1, 2, 4]
    assert [epochs for epochs, _, _ in member.calls] == [1, 1, 2, 4]
    np.testing.assert_allclose(member.calls[0][1], [0.01])
    np.testing.assert_allclose(member.calls[2][1], [0.02, 0.01])
    assert rounds[2]["learning_rates"] == member.calls[2][1]
    member = Target("0", 11.0)
    _, fixed, _ = co_learn(
        [member], 10.0, n_rounds=4, schedule=Schedule(tol=9.0, epochs="fixed")
    )
    assert [entry["epochs"] for entry in fixed] == [5] * 4


def test_without_a_rate_nodes_choose():
    member = Target("0", 1.0)
    _, rounds, _ = co_learn([member], n_rounds=2, learning_rate=None)
    assert [rates for _, rates, _ in member.calls] == [None, None]
    assert rounds[0]["learning_rates"] is None


def test_seeds_come_from_the_random_state():
    def seeds(random_state):
        members = [Target("a", 1.0), Target("b", 2.0)]
        co_learn(members, n_rounds=2, random_state=random_state)
        return [[seed for _, _, seed in member.calls] for member in members]

    assert seeds(0) == seeds(0)
    # One for each round, which both nodes get: their order does not matter.
    (one, two), other = seeds(0)
    assert [one, two] == other and one != two
    assert seeds(0) != seeds(1)


def test_no_rounds_change_nothing():
    shared, rounds, history = co_learn([Target("a", 1.0)], 2.0, n_rounds=0)
    assert shared == [2.0] and rounds == history == []


# ---- nodes that fail ---------------------------------------------------------


def test_a_node_that_fails_once_is_asked_again():
    members = [Target("a", 1.0), Target("b", 3.0, failures=1)]
    shared, _, (entry,) = co_learn(members, n_rounds=1, local_epochs=1)
    np.testing.assert_allclose(shared, [1.0])
    assert len(members[1].calls) == 2 and entry["left_out"] == []


def test_a_node_that_fails_twice_is_left_out_of_the_message_only():
    members = [Target("a", 1.0), Target("b", 3.0, failures=2)]
    with pytest.warns(UserWarning, match="'b' failed twice in message 1.*no route"):
        shared, _, history = co_learn(members, n_rounds=2, local_epochs=60)
    assert [entry["left_out"] for entry in history] == [["b"], []]
    assert list(history[0]["loss"]) == ["a"]
    assert history[0]["bytes_received"] < history[1]["bytes_received"]
    np.testing.assert_allclose(shared, [2.0])


@pytest.mark.parametrize("message", [1, 2, 3])
def test_a_node_that_fails_in_any_message(message):
    class Once(Target):
        def train(self, **content):
            reply = super().train(**content)
            if len(self.calls) in (message, message + 1):
                raise OSError("gone")
            return reply

    members = [Target("a", 1.0), Once("b", 3.0), Target("c", 5.0)]
    with pytest.warns(UserWarning, match=f"'b' failed twice in message {message}"):
        shared, _, history = co_learn(members, n_rounds=3, local_epochs=60)
    left_out = [entry["left_out"] for entry in history]
    assert left_out == [["b"] if k == message else [] for k in (1, 2, 3)]
    np.testing.assert_allclose(shared, [3.0])


def test_what_only_a_node_left_out_has_a_weight_for_stays():
    members = [Target("a", 1.0), Target("b", 3.0, failures=2)]
    weights = {"a": [np.array([1.0, 0.0])], "b": [np.array([1.0, 1.0])]}
    start = [np.array([5.0, 7.0])]
    plan = CoLearning(n_rounds=1, local_epochs=60).plan(
        start, weights, [0, 1], np.random.RandomState(0)
    )
    with pytest.warns(UserWarning, match="'b' failed twice"):
        (parameters,), _ = run(plan, InProcess(members))
    np.testing.assert_allclose(parameters, [1.0, 7.0])


def test_all_failing_is_an_error_that_keeps_the_shared_model():
    members = [Target("a", 1.0, failures=9)]
    with pytest.raises(
        TooFewNodesError, match="Every.*'a': OSError: no route"
    ) as error:
        co_learn(members, 4.0, n_rounds=1)
    np.testing.assert_array_equal(error.value.parameters[0], [4.0])
    assert isinstance(error.value.__cause__, OSError)


def test_fewer_nodes_than_needed_are_an_error():
    def learn(min_nodes):
        b = Target("b", 3.0, failures=2)
        channel = InProcess([Target("a", 1.0), b, Target("c", 1.0)])
        channel.min_nodes = min_nodes
        co_learn(channel.members, n_rounds=1, channel=channel)

    with pytest.warns(UserWarning, match="'b' failed twice"):
        learn(2)
    with pytest.raises(TooFewNodesError, match="Only 2 of 3 nodes.*3 must.*'b'"):
        learn(3)


@pytest.mark.parametrize("error", [ValueError, TypeError])
def test_wrong_input_of_a_node_is_raised_with_its_name(error):
    members = [Target("a", 1.0), Target("b", 3.0, failures=1, error=error)]
    with pytest.raises(error, match="node 'b': no route to host"):
        co_learn(members, n_rounds=1)
    assert len(members[1].calls) == 1  # it would not be right the second time


def test_where_every_node_is_needed_none_is_left_out():
    members = [Target("a", 1.0), Target("b", 3.0, failures=2)]

    def plan():
        replies = yield request_to_train(np.zeros(1), task="vital")
        return list(replies)

    with pytest.raises(RuntimeError, match="node 'b': no route to host"):
        run(plan(), InProcess(members))


# ---- requests ----------------------------------------------------------------


def request_to_train(start, task="train"):
    return Message.of(
        task, parameters=[start], classes=[], epochs=60, rates=None, seed=0
    )


def test_a_request_for_each_node_and_replies_in_the_order_of_nodes():
    members = [
        Target(name, target) for name, target in zip("cab", (1, 2, 3), strict=True)
    ]
    channel = InProcess(members)

    def plan():
        starts = {"b": np.array([5.0]), "c": np.array([7.0])}
        replies = yield {
            name: request_to_train(start) for name, start in starts.items()
        }
        return [(name, reply.parameters[0][0]) for name, reply in replies]

    assert run(plan(), channel) == [("c", 1.0), ("b", 3.0)]
    assert not members[1].calls


def test_a_task_that_no_node_knows():
    with pytest.raises(ValueError, match="Node 'a' knows no task 'sing'.*train"):
        answer(Message.of("sing"), Target("a", 1.0))


def test_a_request_of_another_version():
    with pytest.raises(ValueError, match="has format version 1, but this skgems"):
        answer(Message("train", version=1), Target("a", 1.0))


def test_progress_of_each_reply(capsys):
    members = [Target("a", 1.0), Target("b", 3.0)]
    with showing(1):
        list(Run(InProcess(members)).ask(request_to_train(np.ones(1))))
    lines = capsys.readouterr().err.splitlines()
    expected_lines = [f"[skgems] message 1 (train): node {name}" for name in "ab"]
    assert [line for line in lines if line.startswith("[skgems]")] == expected_lines


def test_requests_that_share_a_buffer_are_told_apart(monkeypatch):
    class Alike(Target):
        def digest(self, classifier):
            return "alike"

    names_asked = []

    def echo(member, array):
        names_asked.append(member.name)
        return {"array": array}

    answered_by(monkeypatch, echo=(echo, {"reads": "rows"}))
    clear_cache()
    numbers = np.arange(6.0)
    views = {
        "a": numbers,
        "b": numbers.reshape(2, 3),
        "c": numbers.view(np.int64),
        "d": numbers[:3],
        "e": numbers[3:],
        "f": numbers.copy(),
    }
    requests = {name: Message.of("echo", array=view) for name, view in views.items()}
    channel = InProcess([Alike(name, 0.0) for name in views], recalls=True)
    for name, reply in channel.ask(requests):
        echoed = reply.array
        np.testing.assert_array_equal(echoed, views[name])
        assert echoed.dtype == views[name].dtype
    assert names_asked == ["a", "b", "c", "d", "e"]  # the last is the first again
    list(channel.ask(requests))
    assert len(names_asked) == 5


def test_every_task_says_what_it_needs():
    for name, task in TASKS.items():
        assert task.prefer in ("threads", "processes"), name
