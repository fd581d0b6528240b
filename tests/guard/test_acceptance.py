# SPDX-License-Identifier: BSD-3-Clause
"""Without a ledger, or a person, a node answers only what asks for no trust."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.attacks import ATTACKS
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import skgems
from skgems.asking import Message, Nodes
from skgems.guard import Agreement, NotAgreedError, reply_to
from skgems.messages import ACCEPTED_BY, TASKS

# A server that merges, trains or grows, and the word of the request that says so.
TRUSTED = {
    "merged": skgems.GEMSMLPAggregator(random_state=0),
    "averages in rounds": skgems.ModelAveragingAggregator(n_rounds=2),
    "matched in rounds": skgems.PFNMAggregator(n_rounds=2),
    "forest": skgems.PooledAggregator(
        pooled=RandomForestClassifier(2, max_depth=2, random_state=0)
    ),
}
COUNTED = {
    "further messages": skgems.GEMSLogisticAggregator(n_rounds=2, random_state=0),
    "behind a front": skgems.GEMSLogisticAggregator(
        front=StandardScaler(), random_state=0
    ),
}
ONCE = {
    "one message": skgems.GEMSLogisticAggregator(random_state=0),
    "LDA": skgems.PooledAggregator(),
    "average": skgems.ModelAveragingAggregator(),
}


def rows_of_nodes():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((80, 4))
    return X, (X[:, 0] > 0).astype(int), np.arange(80) % 2


def classifier_for(name, X, y):
    if name in ("merged", "averages in rounds", "matched in rounds", "average"):
        return MLPClassifier((3,), max_iter=5, random_state=0).fit(X, y)
    return LogisticRegression().fit(X, y)


def fit(name, aggregator, **at_node):
    """The aggregate over nodes that are given ``at_node``, each its own."""
    X, y, nodes = rows_of_nodes()
    agreement = Agreement.of(aggregator)
    given = {
        node: {key: value(agreement) for key, value in at_node.items()}
        for node in ("0", "1")
    }

    def ask(requests):
        replies = {}
        for node, request in requests.items():
            rows = nodes == int(node)
            clf = classifier_for(name, X[rows], y[rows])
            replies[node] = reply_to(
                request, clf, X[rows], y[rows], name=node, **given[node]
            )
        return replies

    channel = Nodes(ask, ["0", "1"], agreement=agreement)
    return clone(aggregator).set_params(estimators=channel).fit()


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def a_ledger(agreement):
    return {}


def the_agreement(agreement):
    return agreement


@pytest.mark.parametrize("name", ONCE)
def test_what_is_asked_once_needs_neither(name):
    assert fit(name, ONCE[name]).node_names_ == ["0", "1"]


@pytest.mark.parametrize("name", COUNTED)
def test_what_may_be_asked_again_needs_a_ledger(name):
    with pytest.raises(NotAgreedError, match="only where answers are counted"):
        fit(name, COUNTED[name])
    assert fit(name, COUNTED[name], state=a_ledger).node_names_ == ["0", "1"]


@pytest.mark.parametrize("name", TRUSTED)
def test_what_trusts_the_server_needs_a_person(name):
    with pytest.raises(NotAgreedError):
        fit(name, TRUSTED[name])
    with pytest.raises(NotAgreedError, match="has read and accepted: pass its file"):
        fit(name, TRUSTED[name], state=a_ledger)
    accepted = fit(name, TRUSTED[name], state=a_ledger, agreement=the_agreement)
    assert accepted.node_names_ == ["0", "1"]


def test_a_person_accepts_once_an_exchange():
    """Later requests of the exchange come without the file, as to a Flower app."""
    X, y, _ = rows_of_nodes()
    aggregator = TRUSTED["averages in rounds"]
    agreement = Agreement.of(aggregator)
    clf = classifier_for("average", X, y)
    at_node = {"name": "lyon", "state": {}}
    requests = []

    def ask(asked):
        (request,) = asked.values()
        given = {"agreement": agreement} if not requests else {}
        requests.append(request.task)
        return {"lyon": reply_to(request, clf, X, y, **at_node, **given)}

    channel = Nodes(ask, ["lyon"], agreement=agreement)
    clone(aggregator).set_params(estimators=channel).fit()
    assert requests == ["join", "train", "train"]


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(attack, id=f"{attack.name}-{attack.has_network}")
        for attack in ATTACKS
        if "layers" in attack.name or "training" in attack.name
    ],
)
def test_attacks_by_layers_and_training_get_no_answer_without_a_ledger(attack):
    from helpers.attacked_nodes import HonestSummary, breast_cancer_rows

    rows = breast_cancer_rows("continuous", 60)
    clf = attack.classifier(rows)
    answered = []

    def ask(message):
        try:
            reply = reply_to(message, clf, rows.X, rows.y, name="lyon")
        except ValueError:
            return None
        answered.append(message.task)
        return reply.content

    attack.play(ask, HonestSummary.of(rows))
    assert answered == []


def test_every_task_says_who_has_to_accept_it():
    by_task = {name: task.accepted_by for name, task in TASKS.items()}
    assert set(by_task.values()) == set(ACCEPTED_BY)
    for name in ("train", "retrain", "neurons", "grow", "grow_halves", "boost"):
        assert by_task[name] == "person"


@pytest.mark.parametrize("where", ["request", "beside"])
def test_layers_need_a_person_whatever_the_task(where):
    X, y, _ = rows_of_nodes()
    clf = LogisticRegression().fit(X, y)
    model = {
        "W": np.zeros((5, 2)),
        "labels": [0, 1],
        "columns": np.array([0, 1]),
        "hidden": {"weights": [np.eye(5, 4)], "activation": ["relu"]},
    }
    plain = {**model, "hidden": None}
    first, second = (model, plain) if where == "request" else (plain, model)
    second = {name: second[name] for name in ("W", "columns", "hidden")}
    criterion = {"name": "accuracy"}
    request = Message.of("score", **first, criterion=criterion, beside=second)
    with pytest.raises(NotAgreedError, match="'score'.* trusts the server"):
        reply_to(request, clf, X, y, name="lyon")


def test_nobody_scores_models_again_and_again_without_a_ledger():
    """Accuracies of many models along a direction would find where a row lies."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.array(["a"] * 30 + ["b"] * 30)
    request = Message.of(
        "score",
        W=np.eye(3)[:, :2],
        labels=["a", "b"],
        columns=np.arange(2),
        criterion={"name": "accuracy"},
    )
    with pytest.raises(NotAgreedError, match="ledger"):
        reply_to(request, None, X, y, name="lyon")
