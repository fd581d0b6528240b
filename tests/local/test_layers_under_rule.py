# SPDX-License-Identifier: BSD-3-Clause
"""Numbers about hidden layers count against the columns of the rows themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from skgems import Disclosure, GEMSMLPAggregator
from skgems.asking import Message, Nodes
from skgems.gems import GEMSLogisticAggregator
from skgems.guard import Agreement, reply_to
from skgems.local import TooFewRowsError
from skgems.messages import TASKS, sealed, told_numbers

pytestmark = [
    pytest.mark.usefixtures("accepting_nodes"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
D = 30


@pytest.fixture(scope="module")
def node():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:200]
    y = np.where(y[:200] == 1, "benign", "malignant")
    return MLPClassifier(8, max_iter=5, random_state=0).fit(X, y), X, y


def request_about(n_units, n_rounds=1, moments="auto", seed=0):
    """Moments of a made-up layer, under an agreement on networks."""
    last_layer = GEMSLogisticAggregator(moments=moments)
    aggregator = GEMSMLPAggregator(last_layer=last_layer, n_rounds=n_rounds)
    content = dict(aggregator._method().terms.later_requests()[0].content)
    W = np.random.default_rng(seed).standard_normal((D + 1, n_units))
    hidden = {"weights": [W], "activation": ["relu"]}
    message = Message.of("moments", **content | {"hidden": hidden, "model": None})
    return message, Agreement.of(aggregator)


def test_what_means_alone_exceed_is_refused_by_the_rule(node):
    # Means of 1500 units of two classes are half of the 6000 numbers of the rows.
    request, agreement = request_about(1501)
    with pytest.raises(TooFewRowsError, match="means of 1501 columns.* 1500 columns"):
        reply_to(
            sealed(request, agreement),
            *node,
            name="lyon",
            state={},
            agreement=agreement,
        )


def request_about_first_layer(network: MLPClassifier) -> Message:
    return Message.of(
        "neurons",
        weights=np.vstack([network.coefs_[0], network.intercepts_[0]]),
        activation="relu",
        epsilon=0.1,
        geometry={"name": "gram"},
        n_directions=1,
    )


@pytest.mark.parametrize("rule", [None, Disclosure()], ids=["no rule", "rule"])
def test_what_a_reply_tells_is_counted_once(node, rule, monkeypatch):
    n_counts = 0
    tell = TASKS["neurons"].told

    def counted(content):
        nonlocal n_counts
        n_counts += 1
        return tell(content)

    monkeypatch.setitem(TASKS, "neurons", replace(TASKS["neurons"], told=counted))
    agreement = Agreement.of(GEMSMLPAggregator(), disclosure=rule)
    reply_to(
        sealed(request_about_first_layer(node[0]), agreement),
        *node,
        name="lyon",
        state={},
        disclosure=rule,
        agreement=agreement,
    )
    assert n_counts == 1


def test_numbers_about_units_of_the_first_layer_count_among_those_told(node):
    """A matrix of 31 inputs has 496 numbers, and two more are of each of 8 units."""
    state = {}
    means, agreement = request_about(1245, n_rounds=4)
    units = request_about_first_layer(node[0])
    reply = reply_to(
        sealed(units, agreement), *node, name="lyon", state=state, agreement=agreement
    )
    assert [told.n_numbers for told in told_numbers(reply)] == [512]
    with pytest.raises(TooFewRowsError, match="512 of these were told before"):
        reply_to(
            sealed(means, agreement),
            *node,
            name="lyon",
            state=state,
            agreement=agreement,
        )
    reply_to(
        sealed(means, agreement), *node, name="lyon", state={}, agreement=agreement
    )


def test_means_of_further_layers_are_refused_beside_what_was_told(node):
    """Each message by itself tells fewer numbers than the 3000 that the rule allows."""
    state = {}
    _, agreement = request_about(700, n_rounds=4)

    def reply_about(n_units, seed):
        request, _ = request_about(n_units, seed=seed)
        return reply_to(
            sealed(request, agreement),
            *node,
            name="lyon",
            state=state,
            agreement=agreement,
        )

    reply = reply_about(600, seed=0)
    n_numbers = sum(told.n_numbers for told in told_numbers(reply))
    # The same request again is not counted again.
    assert reply_about(600, seed=0).digest == reply.digest
    most_units = int((3000 - n_numbers) / 2)
    assert 300 < most_units < 500
    with pytest.raises(
        TooFewRowsError,
        match=f"{n_numbers:.0f} of these were told before.*at most {most_units} ",
    ):
        reply_about(500, seed=1)
    # A request that was refused does not count. There is room for means alone.
    reply = reply_about(most_units, seed=2)
    assert sum(told.n_numbers for told in told_numbers(reply)) == 2 * most_units


def test_without_a_rule_any_number_is_told_of_layers(node):
    request, _ = request_about(150, moments="class")
    last_layer = GEMSLogisticAggregator(moments="class")
    agreement = Agreement.of(GEMSMLPAggregator(last_layer=last_layer), disclosure=None)
    reply = reply_to(
        sealed(request, agreement),
        *node,
        name="lyon",
        state={},
        disclosure=None,
        agreement=agreement,
    )
    n_numbers = sum(told.n_numbers for told in told_numbers(reply))
    assert n_numbers >= 2 * 150 * 151 / 2 > 200 * D


def test_nodes_that_tell_less_are_merged_with_those_that_tell_all():
    """One node of few rows among others, over a channel and in one process."""
    rng = np.random.default_rng(0)
    y = np.arange(700) % 3
    X = rng.standard_normal((700, 4)) + 2.0 * np.eye(3, 4)[y]
    nodes = np.where(
        np.arange(700) < 36, "few", np.where(np.arange(700) < 400, "a", "b")
    )
    nets = {
        name: MLPClassifier(6, solver="lbfgs", max_iter=60, random_state=0).fit(
            X[nodes == name], y[nodes == name]
        )
        for name in ("a", "b", "few")
    }
    n_told = {}

    def ask(requests):
        replies = {}
        for name, request in requests.items():
            is_own = nodes == name
            reply = reply_to(request, nets[name], X[is_own], y[is_own], name=name)
            if request.task == "moments":
                n_told[name] = sum(told.n_numbers for told in told_numbers(reply))
            replies[name] = reply
        return replies

    apart = GEMSMLPAggregator(Nodes(ask, sorted(nets)), random_state=0).fit()
    assert n_told["few"] <= 36 * 4 / 2 < min(n_told["a"], n_told["b"])
    together = GEMSMLPAggregator(sorted(nets.items()), random_state=0)
    together.fit(X, y, nodes=nodes)
    assert apart.score(X, y) > together.score(X, y) - 0.03
