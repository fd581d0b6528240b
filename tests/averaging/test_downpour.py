# SPDX-License-Identifier: BSD-3-Clause
"""Downpour SGD: pushes of older models, and the server's steps."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from skgems import ModelAveragingAggregator
from skgems.averaging import Downpour
from skgems.federation import Message, Nodes, answer, reply_to
from skgems.local import Member

X, Y = load_digits(return_X_y=True)
X = X[:400] / 16
Y = Y[:400]
NODES = np.arange(400) % 3
PLAIN = {"schedule": "constant", "epochs": "fixed", "local_epochs": 1}


def net():
    given = {"batch_size": 20, "solver": "sgd", "momentum": 0.0, "random_state": 0}
    return MLPClassifier((8,), **given)


def fitted(server, n_rounds=4, **options):
    given = {"learning_rate": 0.1, "random_state": 0, **PLAIN, **options}
    agg = ModelAveragingAggregator([net()] * 3, n_rounds=n_rounds, server=server)
    return agg.set_params(**given).fit(X, Y, nodes=NODES)


def driven(server, nodes, n_rounds=3, start=(0.0, 10.0)):
    """Run the plan by hand: what was asked, and the last model."""
    start = [np.array([own]) for own in start] + [np.array(3)]
    weights = dict.fromkeys(nodes, 1.0)
    rng, asked = np.random.RandomState(0), []
    plan = server.plan(start, weights, [0, 1], rng, n_rounds=n_rounds, rate=0.5)
    requests = next(plan)
    while True:
        asked.append(requests)
        replies = (
            (name, Message.of("train", parameters=push(own), loss=1.0))
            for (name, own), push in zip(requests.items(), nodes.values(), strict=True)
        )
        try:
            requests = plan.send(replies)
        except StopIteration as stop:
            return asked, *stop.value


def moving(by):
    def push(request):
        *arrays, counter = request.content["parameters"]
        return [*(own + by for own in arrays), np.asarray(counter + 1)]

    return push


def test_whole_epochs_without_staleness_are_averages_of_rounds():
    own, averaged = fitted(Downpour()), fitted(None)
    for new, old in zip(own.coefs_, averaged.coefs_, strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-6, atol=1e-9)
    assert [entry["epochs"] for entry in own.history_] == [1] * 4
    assert [entry["learning_rates"] for entry in own.history_] == [[0.1]] * 4
    assert all(entry["change"] > 0 for entry in own.history_)


def test_the_server_steps_by_the_mean_of_changes():
    nodes = {"a": moving(1.0), "b": moving(3.0)}
    asked, model, rounds = driven(Downpour(rate=0.5), nodes, n_rounds=1)
    np.testing.assert_allclose([own[0] for own in model[:2]], [1.0, 11.0])
    assert model[2] == 4 and len(rounds) == len(asked) == 1  # a counter is one node's


def test_adam_steps_by_its_rate_at_first_and_by_its_moments_then():
    nodes = {"a": moving(-2.0), "b": moving(-4.0)}
    server = Downpour(optimizer="adam", rate=0.1)
    _, model, _ = driven(server, nodes, n_rounds=1)
    np.testing.assert_allclose([own[0] for own in model[:2]], [-0.1, 9.9])
    # Of equal changes every step is as long.
    _, model, _ = driven(server, nodes, n_rounds=5)
    np.testing.assert_allclose([own[0] for own in model[:2]], [-0.5, 9.5])
    changes = iter([1.0, -1.0, 3.0])
    _, model, _ = driven(server, {"a": lambda own: moving(next(changes))(own)}, 3)
    m = v = w = 0.0
    for t, change in enumerate([1.0, -1.0, 3.0], start=1):
        m, v = 0.9 * m + 0.1 * change, 0.999 * v + 0.001 * change**2
        w += 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(model[0], w)


def test_nodes_have_pulled_models_of_at_most_so_many_rounds_before():
    nodes = {name: moving(1.0) for name in "abcd"}
    asked, _, _ = driven(Downpour(staleness=2), nodes, n_rounds=12)
    ages = []
    for number, requests in enumerate(asked):
        # The first parameter counts the rounds that it has seen, as each adds one.
        seen = [own.content["parameters"][0][0] for own in requests.values()]
        ages += [number - own for own in seen]
    assert set(ages) == {0.0, 1.0, 2.0}
    fresh, _, _ = driven(Downpour(), nodes, n_rounds=3)
    for number, requests in enumerate(fresh):
        models = [own.content["parameters"][0][0] for own in requests.values()]
        assert models == [float(number)] * 4
        assert len({id(own) for own in requests.values()}) == 1  # one message for all


def test_a_push_is_of_so_many_rows_drawn_anew(monkeypatch):
    seen = []
    real = MLPClassifier._fit

    def spied(self, X, y, **options):
        seen.append(X.copy())
        return real(self, X, y, **options)

    monkeypatch.setattr(MLPClassifier, "_fit", spied)
    fitted(Downpour(n_rows=40), n_rounds=2)
    drawn = [own for own in seen if len(own) == 40]
    assert len(drawn) == 6 and len({own.tobytes() for own in drawn}) == 6
    rows = {row.tobytes() for row in X[NODES == 0]}
    assert {row.tobytes() for row in drawn[0]} <= rows
    fitted(Downpour(n_rows=10**6), n_rounds=1)
    assert len(seen[-1]) == np.sum(NODES == 2)  # no more than there are


def test_a_node_refuses_pushes_of_few_rows():
    own = net().partial_fit(X, Y, classes=np.unique(Y))
    content = {"parameters": [*own.coefs_, *own.intercepts_], "seed": 0}
    content |= {"classes": np.unique(Y).tolist(), "epochs": 1, "rates": None}
    few = Member.of("lyon", own, X, Y, min_rows=10)
    with pytest.raises(ValueError, match="lyon.*5 rows, fewer than min_rows=10"):
        answer(Message.of("train", **content, n_rows=5), few)
    replies = [answer(Message.of("train", **content, n_rows=k), few) for k in (10, 11)]
    # What one more row adds is not to be had: other rows are drawn.
    plain = few.model.widened(np.unique(Y))
    for k, reply in zip((10, 11), replies, strict=True):
        rows = np.random.RandomState([0, k]).choice(len(X), k, replace=False)
        trained = plain.train(
            X[rows],
            plain.targets(np.unique(Y))[np.searchsorted(np.unique(Y), Y[rows])],
            parameters=content["parameters"],
            epochs=1,
            learning_rate=None,
            random_state=0,
        )
        for ours, theirs in zip(
            reply.content["parameters"], trained.parameters(), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)


def test_a_channel_gives_equal_bits():
    server = Downpour(n_rows=60, staleness=2, optimizer="adam", rate=0.01)
    names = ["0", "1", "2"]
    start = [net().partial_fit(X[:40], Y[:40], classes=np.unique(Y)) for _ in names]

    def ask(requests):
        found = {}
        for name, request in requests.items():
            rows = NODES == int(name)
            given = start[int(name)], X[rows], Y[rows]
            found[name] = reply_to(request, *given, name=name, min_rows=1)
        return found

    how = {"n_rounds": 3, "learning_rate": 0.1, "random_state": 0, "server": server}
    far = ModelAveragingAggregator(Nodes(ask, names, min_rows=1), **how).fit()
    here = ModelAveragingAggregator(start, **how).fit(X, Y, nodes=NODES)
    for one, other in zip(far.coefs_, here.coefs_, strict=True):
        np.testing.assert_array_equal(one, other)


def test_it_is_a_part_that_is_cloned_searched_and_checked():
    agg = ModelAveragingAggregator([net()] * 3, n_rounds=2, server=Downpour(50))
    agg.set_params(server__staleness=3)
    other = clone(agg)
    assert other.server is not agg.server and other.server.staleness == 3
    assert other.get_params()["server__n_rows"] == 50
    with pytest.raises(ValueError, match="'staleness' parameter of Downpour"):
        agg.set_params(server__staleness=-1).fit(X, Y, nodes=NODES)
    with pytest.raises(ValueError, match="'server' parameter"):
        agg.set_params(server="rain").fit(X, Y, nodes=NODES)
