# SPDX-License-Identifier: BSD-3-Clause
"""Downpour SGD: pushes of older models, and the server's steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from helpers.disclosures import rule_of
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from skgems import ModelAveragingAggregator
from skgems.asking import Message, Nodes
from skgems.averaging import Downpour, Schedule
from skgems.guard import reply_to
from skgems.local import Member
from skgems.parties import reply_as_message as answer
from skgems.tasks import TrainReply

pytestmark = pytest.mark.usefixtures("accepting_nodes")

X, Y = load_digits(return_X_y=True)
X = X[:400] / 16
Y = Y[:400]
NODES = np.arange(400) % 3


def small_net():
    return MLPClassifier(
        (8,), batch_size=20, solver="sgd", momentum=0.0, random_state=0
    )


def fit_rounds(server, n_rounds=4):
    """Rounds of one epoch at a constant rate, at three nodes."""
    agg = ModelAveragingAggregator(
        [small_net()] * 3,
        n_rounds=n_rounds,
        server=server,
        learning_rate=0.1,
        schedule=Schedule("constant", epochs="fixed"),
        local_epochs=1,
        random_state=0,
    )
    return agg.fit(X, Y, nodes=NODES)


@dataclass(kw_only=True)
class Drive:
    """What a plan asked of the nodes, and what it returned."""

    requests: list  # of each round, by the name of the node
    model: list  # two parameters of one number, and a counter
    rounds: list


def drive(server, pushes, *, n_rounds, buffers=()):
    """Run a server's plan by hand: ``pushes`` are functions of a request, by node."""
    start = [np.array([0.0]), np.array([10.0]), np.array(3)]
    plan = server.plan(
        start,
        dict.fromkeys(pushes, 1.0),
        [0, 1],
        np.random.RandomState(0),
        n_rounds=n_rounds,
        rate=0.5,
        buffers=buffers,
    )
    requests_of_rounds = []
    requests = next(plan)
    while True:
        requests_of_rounds.append(requests)
        replies = [
            (name, TrainReply(parameters=pushes[name](request), loss=1.0))
            for name, request in requests.items()
        ]
        try:
            requests = plan.send(replies)
        except StopIteration as stop:
            model, rounds = stop.value
            return Drive(requests=requests_of_rounds, model=model, rounds=rounds)


def push_by(change):
    """A node whose training adds a number to all parameters, and one to the counter."""

    def push(request):
        *arrays, counter = request.content["parameters"]
        return [*(array + change for array in arrays), np.asarray(counter + 1)]

    return push


def first_parameters(requests):
    """The first parameter of the model that each node is sent in one round."""
    return [request.content["parameters"][0][0] for request in requests.values()]


def floats_of(model):
    """The two parameters of a model without its counter."""
    return [array[0] for array in model[:2]]


def test_whole_epochs_without_staleness_are_averages_of_rounds():
    downpour = fit_rounds(Downpour())
    averaged = fit_rounds(None)
    for coefs, expected in zip(downpour.coefs_, averaged.coefs_, strict=True):
        np.testing.assert_allclose(coefs, expected, rtol=1e-6, atol=1e-9)
    assert [entry["epochs"] for entry in downpour.history_] == [1] * 4
    assert [entry["learning_rates"] for entry in downpour.history_] == [[0.1]] * 4
    assert all(entry["change"] > 0 for entry in downpour.history_)


def test_the_server_steps_by_the_mean_of_changes():
    pushes = {"a": push_by(1.0), "b": push_by(3.0)}
    run = drive(Downpour(rate=0.5), pushes, n_rounds=1)
    # Half of the mean change, which is 2.
    np.testing.assert_allclose(floats_of(run.model), [1.0, 11.0])
    assert len(run.rounds) == len(run.requests) == 1


def test_a_counter_is_that_of_one_node():
    pushes = {"a": push_by(1.0), "b": push_by(3.0)}
    run = drive(Downpour(rate=0.5), pushes, n_rounds=1)
    assert run.model[2] == 4  # it was 3


def test_steps_of_adam_are_as_long_as_its_rate_where_changes_are_equal():
    pushes = {"a": push_by(-2.0), "b": push_by(-4.0)}
    server = Downpour(optimizer="adam", rate=0.1)
    after_one = drive(server, pushes, n_rounds=1).model
    np.testing.assert_allclose(floats_of(after_one), [-0.1, 9.9])
    after_five = drive(server, pushes, n_rounds=5).model
    np.testing.assert_allclose(floats_of(after_five), [-0.5, 9.5])


def test_steps_of_adam_are_those_of_its_paper():
    changes = [1.0, -1.0, 3.0]
    upcoming = iter(changes)
    server = Downpour(optimizer="adam", rate=0.1)
    pushes = {"a": lambda request: push_by(next(upcoming))(request)}
    model = drive(server, pushes, n_rounds=3).model
    # m and v are running means of changes and of their squares; w is the parameter.
    m = v = w = 0.0
    for t, change in enumerate(changes, start=1):
        m = 0.9 * m + 0.1 * change
        v = 0.999 * v + 0.001 * change**2
        w += 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(model[0], w)


def test_nodes_push_from_models_of_at_most_so_many_rounds_before():
    pushes = {name: push_by(1.0) for name in "abcd"}
    run = drive(Downpour(staleness=2), pushes, n_rounds=12)
    ages = set()
    for round_number, requests in enumerate(run.requests):
        # The first parameter counts the rounds before its model, as each adds one.
        ages |= {round_number - parameter for parameter in first_parameters(requests)}
    assert ages == {0.0, 1.0, 2.0}


def test_without_staleness_all_nodes_get_the_newest_model_in_one_message():
    pushes = {name: push_by(1.0) for name in "abcd"}
    run = drive(Downpour(), pushes, n_rounds=3)
    for round_number, requests in enumerate(run.requests):
        assert first_parameters(requests) == [float(round_number)] * 4
        assert len({id(request) for request in requests.values()}) == 1


@pytest.fixture
def fitted_rows(monkeypatch):
    """The rows of each call of fit of a network, while a test runs."""
    rows_of_calls = []
    fit = MLPClassifier._fit

    def fit_and_note(self, X, y, **options):
        rows_of_calls.append(X.copy())
        return fit(self, X, y, **options)

    monkeypatch.setattr(MLPClassifier, "_fit", fit_and_note)
    return rows_of_calls


def test_a_push_is_of_so_many_rows_drawn_anew(fitted_rows):
    fit_rounds(Downpour(n_rows=40), n_rounds=2)
    batches = [rows for rows in fitted_rows if len(rows) == 40]
    # Three nodes, two rounds, and never the same rows.
    assert len(batches) == 6
    assert len({rows.tobytes() for rows in batches}) == 6
    rows_of_first_node = {row.tobytes() for row in X[NODES == 0]}
    assert {row.tobytes() for row in batches[0]} <= rows_of_first_node


def test_a_push_is_of_no_more_rows_than_the_node_has(fitted_rows):
    fit_rounds(Downpour(n_rows=10**6), n_rounds=1)
    assert len(fitted_rows[-1]) == np.sum(NODES == 2)


def request_for_push(net, n_rows):
    """A request to train this net for one epoch on so many rows."""
    return Message.of(
        "train",
        parameters=[*net.coefs_, *net.intercepts_],
        seed=0,
        classes=np.unique(Y).tolist(),
        epochs=1,
        rates=None,
        n_rows=n_rows,
    )


def member_with_min_rows(net):
    return Member.from_estimator("lyon", net, X, Y, disclosure=rule_of(10))


def test_a_node_refuses_pushes_of_few_rows():
    net = small_net().partial_fit(X, Y, classes=np.unique(Y))
    with pytest.raises(ValueError, match="lyon.*5 rows, fewer than min_rows=10"):
        answer(request_for_push(net, 5), member_with_min_rows(net))


@pytest.mark.parametrize("n_rows", [10, 11])
def test_rows_of_a_push_are_drawn_by_their_number(n_rows):
    """So that the server cannot subtract what one row more adds."""
    net = small_net().partial_fit(X, Y, classes=np.unique(Y))
    member = member_with_min_rows(net)
    request = request_for_push(net, n_rows)
    reply = answer(request, member)
    rows = np.random.RandomState([0, n_rows]).choice(len(X), n_rows, replace=False)
    model = member.model.widened(np.unique(Y))
    codes = np.searchsorted(np.unique(Y), Y[rows])
    trained = model.train(
        X[rows],
        model.targets(np.unique(Y))[codes],
        parameters=request.content["parameters"],
        epochs=1,
        learning_rate=None,
        random_state=0,
    )
    for array, expected in zip(
        reply.content["parameters"], trained.parameters(), strict=True
    ):
        np.testing.assert_array_equal(array, expected)


def test_a_channel_gives_equal_bits():
    names = ["0", "1", "2"]
    nets = [
        small_net().partial_fit(X[:40], Y[:40], classes=np.unique(Y)) for _ in names
    ]

    def ask(requests):
        replies = {}
        for name, request in requests.items():
            rows = NODES == int(name)
            replies[name] = reply_to(
                request, nets[int(name)], X[rows], Y[rows], name=name, disclosure=None
            )
        return replies

    in_process = ModelAveragingAggregator(
        nets,
        n_rounds=3,
        learning_rate=0.1,
        random_state=0,
        server=Downpour(n_rows=60, staleness=2, optimizer="adam", rate=0.01),
    )
    channel = Nodes(ask, names, disclosure=None)
    over_channel = clone(in_process).set_params(estimators=channel).fit()
    in_process.fit(X, Y, nodes=NODES)
    for coefs, expected in zip(over_channel.coefs_, in_process.coefs_, strict=True):
        np.testing.assert_array_equal(coefs, expected)


def test_a_server_is_cloned_and_searched_as_a_part():
    agg = ModelAveragingAggregator([small_net()] * 3, n_rounds=2, server=Downpour(50))
    agg.set_params(server__staleness=3)
    copy = clone(agg)
    assert copy.server is not agg.server
    assert copy.server.staleness == 3
    assert copy.get_params()["server__n_rows"] == 50


def test_parameters_of_a_server_are_checked():
    agg = ModelAveragingAggregator([small_net()] * 3, n_rounds=2, server=Downpour(50))
    with pytest.raises(ValueError, match="'staleness' parameter of Downpour"):
        agg.set_params(server__staleness=-1).fit(X, Y, nodes=NODES)
    with pytest.raises(ValueError, match="'server' parameter"):
        agg.set_params(server="rain").fit(X, Y, nodes=NODES)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_statistics_are_averaged_and_not_stepped(optimizer):
    # Nodes train up from what they pulled, and measure a variance of 1 each time. A
    # step by the change of an older variance, from 10 to 1, would go below 0.
    def push(request):
        weight, variance, counter = request.content["parameters"]
        return [weight + 0.1, np.array([1.0]), np.array(counter + 1)]

    server = Downpour(optimizer=optimizer, staleness=3, rate=0.5)
    for n_rounds in (1, 2, 8):
        driven = drive(server, {"a": push, "b": push}, n_rounds=n_rounds, buffers={1})
        assert driven.model[1] == pytest.approx(1.0)
        assert driven.model[0] > 0
        assert driven.model[2] > 3


def test_nets_with_batch_normalization_have_the_mean_of_their_statistics():
    torch = pytest.importorskip("torch")
    pytest.importorskip("skorch")
    from helpers.nets import Dense, digits, make_net

    X, y, nodes, _, _ = digits()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = make_net(Dense, module__normalize=True)
        agg = ModelAveragingAggregator(
            net,
            n_rounds=12,
            learning_rate=0.05,
            server=Downpour(n_rows=64, staleness=3),
            random_state=0,
        ).fit(X, y, nodes=nodes)
    module = agg.net_.module_
    assert (module.norm.running_var > 0).all()
    assert agg.score(X, y) > 0.8
