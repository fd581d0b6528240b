# SPDX-License-Identifier: BSD-3-Clause
"""Trees are grown over nodes elsewhere as in one process, within what is agreed."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers.forests import (
    KINDS,
    NAMES,
    TREES,
    channel_of,
    forest,
    grown,
    grown_over,
    nodes_of,
    rows,
)
from sklearn.tree import DecisionTreeClassifier

import skgems
from skgems import PooledAggregator
from skgems.asking import LeftOutError, Message, TooFewNodesError
from skgems.guard import Agreement, NotAgreedError, inspect, reply_to
from skgems.guard._derived import check_is_derived
from skgems.messages import sealed
from skgems.pooled._terms import PooledTerms

pytestmark = pytest.mark.usefixtures("accepting_nodes")
X, Y = rows()


def assert_same_probabilities(first, second, X=X) -> None:
    np.testing.assert_array_equal(first.classes_, second.classes_)
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))


# ---- the same forest over channels -------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS, "bootstrap", "missing values"])
def test_a_channel_has_the_bits_of_one_process(kind):
    data = rows(missing=kind == "missing values")
    pooled = KINDS.get(kind, forest())
    aggregate = grown_over(pooled, data)
    assert_same_probabilities(aggregate, grown(pooled, data), data[0])
    assert aggregate.node_names_ == NAMES


def exchanged(folder, pooled, data, **options):
    """The aggregate of an exchange in which the server starts anew for each step."""
    X, y = data
    nodes = nodes_of(len(y))
    exchange = skgems.Exchange(
        folder, PooledAggregator(pooled=pooled), nodes=NAMES, disclosure=None
    )
    for _ in range(12):
        aggregate = exchange.step()
        if aggregate is not None:
            return aggregate
        for name, request in exchange.waiting_for.items():
            is_own = nodes == name
            skgems.answer(
                request,
                None,
                X[is_own],
                y[is_own],
                name=name,
                disclosure=None,
                **options,
            )
        exchange = skgems.Exchange(folder)
    raise AssertionError("The exchange does not come to an end.")


def test_an_exchange_has_the_bits_of_one_process(tmp_path):
    data = rows(missing=True)
    pooled = forest(
        n_estimators=np.int64(3),
        max_features=np.float64(0.5),
        class_weight={"none": 3.0},
    )
    aggregate = exchanged(tmp_path / "exchange", pooled, data)
    assert_same_probabilities(aggregate, grown(pooled, data), data[0])
    parameters = aggregate.pooled.get_params()
    assert parameters["class_weight"] == {"none": 3.0}
    assert parameters["max_features"] == 0.5


def test_an_exchange_without_a_seed_asks_the_same_when_it_goes_on(tmp_path):
    pooled = DecisionTreeClassifier(max_depth=2, max_features=1)
    aggregate = exchanged(tmp_path / "exchange", pooled, (X, Y))
    assert aggregate.score(X, Y) > 0.5


def test_weights_of_numbers_are_kept_in_a_folder(tmp_path):
    pooled = DecisionTreeClassifier(
        max_depth=1, class_weight={0: 1.0, 1: 8.0, 2: 1.0}, random_state=0
    )
    data = (X, np.repeat([0, 1, 2], 50))
    aggregate = exchanged(tmp_path / "exchange", pooled, data)
    assert_same_probabilities(aggregate, grown(pooled, data))
    assert aggregate.predict_proba(X)[:, 1].mean() > 0.55


def test_files_of_an_exchange_are_in_words(tmp_path):
    nodes = nodes_of(len(Y))
    exchange = skgems.Exchange(
        tmp_path, PooledAggregator(pooled=forest()), nodes=NAMES, disclosure=None
    )
    for _ in range(3):  # the front, what nodes are, and the roots
        exchange.step()
        for name, request in exchange.waiting_for.items():
            is_own = nodes == name
            last = skgems.answer(
                request, None, X[is_own], Y[is_own], name=name, disclosure=None
            )
    asked = inspect(request)
    assert asked.kind == "request" and asked.task == "grow" and asked.checked
    asks = "Asks for how many rows lie in each bin of features at leaves of trees"
    assert asks in asked.says["request"]
    assert "20 numbers of models" in asked.says["arrays"]
    assert "n_trees=5" in asked.says["settings"]
    assert asked.settings["bootstrap"] is True
    told = inspect(last)
    assert told.kind == "reply" and told.task == "grow" and told.checked
    says = told.says["grow.counts"]
    assert says.startswith("How many rows lie in each bin of features, by class")
    assert "deep leaves speak of single rows. Here they take " in says
    n_bytes = told.arrays[0]["bytes"]
    assert f"Here they take {n_bytes:,} bytes." in says
    assert "grow.min_rows" in told.says


# ---- nodes that hide rows, and nodes that fail -------------------------------------


@pytest.mark.parametrize("max_features", [None, "sqrt"])
def test_nodes_that_hide_rows_grow_a_forest_nearly_as_good(max_features):
    aggregate = grown_over(
        forest(n_estimators=10, max_features=max_features), min_rows=5
    )
    assert aggregate.score(X, Y) > 0.85
    assert aggregate.history_[-1]["min_rows"] == dict.fromkeys(NAMES, 5)
    classifier = aggregate.to_estimator()[-1]
    for tree in classifier:
        assert (tree.tree_.n_node_samples % 5 == 0).all()
        assert (tree.tree_.impurity >= 0).all()


def test_histograms_of_siblings_are_not_subtracted_where_they_are_rounded():
    """Where each is asked for, as many leaves are asked as may be split."""
    n_leaves = {1: [], 5: []}
    for min_rows, seen in n_leaves.items():

        def count(name, request, seen=seen):
            if request.task == "grow" and name == "lyon":
                seen.append(len(request.content["leaves"]))
            return False

        pooled = DecisionTreeClassifier(max_depth=2, min_samples_leaf=10)
        overlapping = (X[:, :2], Y)
        grown_over(pooled, overlapping, min_rows=min_rows, fails=count)
    assert n_leaves == {1: [1, 1], 5: [1, 2]}


@pytest.mark.parametrize("max_features", [None, "sqrt"])
@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_node_that_fails_in_a_level_is_left_out_and_the_fit_goes_on(
    level, max_features
):
    levels = []

    def fails(name, request):
        if request.task == "grow" and name == "lyon":
            levels.append(request.task)
        # A request is sent once more after a failure.
        return name == "paris" and request.task == "grow" and len(levels) >= level

    with pytest.warns(UserWarning, match="Node 'paris' failed twice"):
        aggregate = grown_over(forest(max_features=max_features), fails=fails)
    left_out = [e["left_out"] for e in aggregate.history_ if e["task"] == "grow"]
    # Larger siblings are asked about in one more message, where they were differences.
    n_messages = 4 if max_features is None and level > 1 else 3
    assert left_out == [["paris"] if k + 1 == level else [] for k in range(n_messages)]
    assert aggregate.score(X, Y) > 0.9
    importances = aggregate.to_estimator()[-1].feature_importances_
    assert np.isfinite(importances).all() and abs(importances.sum() - 1.0) < 1e-12


@pytest.mark.parametrize("level", [2, 3])
def test_splits_after_a_node_left_are_of_the_rows_of_the_others(level):
    data = (X[:, :2], Y)  # classes overlap, so that trees are deep
    levels = []

    def fails(name, request):
        if request.task == "grow" and name == "lyon":
            levels.append(request.task)
        return name == "paris" and len(levels) >= level and request.task == "grow"

    with pytest.warns(UserWarning, match="Node 'paris' failed twice"):
        aggregate = grown_over(DecisionTreeClassifier(max_depth=5), data, fails=fails)
    front, classifier = aggregate.to_estimator()
    tree = classifier.tree_
    stays = nodes_of(len(Y)) != "paris"
    ways = classifier.decision_path(front.transform(data[0][stays]))
    n_rows = np.asarray(ways.sum(axis=0)).ravel()
    depth = np.zeros(tree.node_count, dtype=int)
    for vertex in np.flatnonzero(tree.children_left >= 0):
        depth[[tree.children_left[vertex], tree.children_right[vertex]]] = (
            depth[vertex] + 1
        )
    opened = (tree.children_left >= 0) & (depth >= level - 1)
    assert opened.sum() >= 4
    np.testing.assert_array_equal(tree.n_node_samples[opened], n_rows[opened])


def test_a_fit_without_nodes_ends():
    with pytest.raises(TooFewNodesError):
        grown_over(fails=lambda name, request: request.task == "grow")


def test_a_channel_that_leaves_a_node_out_is_no_error():
    channel = channel_of((X, Y))
    ask = channel.ask

    def ask_without_rome(requests):
        replies = ask(requests)
        if next(iter(requests.values())).task == "grow" and "rome" in replies:
            replies["rome"] = LeftOutError("away")
        return replies

    channel.ask = ask_without_rome
    aggregate = PooledAggregator(channel, pooled=forest()).fit()
    is_there = nodes_of(len(Y)) != "rome"
    roots = [tree.tree_.n_node_samples[0] for tree in aggregate.to_estimator()[-1]]
    assert np.mean(roots) == pytest.approx(is_there.sum(), rel=0.1)


# ---- agreements --------------------------------------------------------------------


AGREED = forest(bootstrap=False, n_estimators=2, max_depth=3)


@cache
def honest_requests(kind: str) -> list[Message]:
    """The requests to a node of a fit, in their order."""
    pooled = {
        "agreed": AGREED,
        "deeper": forest(bootstrap=False, n_estimators=2, max_depth=5),
        "more trees": forest(bootstrap=False, n_estimators=3),
        "fewer trees": forest(bootstrap=False, n_estimators=1),
        "bootstrap": forest(n_estimators=2),
        "more features": forest(bootstrap=False, n_estimators=2, max_features=3),
    }[kind]
    requests = []

    def note(name, request):
        if name == "lyon":
            requests.append(request)
        return False

    grown_over(pooled, fails=note)
    return requests


def ask_under(agreement, requests) -> list[Message]:
    """The replies of a node that keeps to an agreement."""
    state = {}
    is_own = nodes_of(len(Y)) == "lyon"
    return [
        reply_to(
            sealed(Message.of(request.task, **request.content), agreement),
            None,
            X[is_own],
            Y[is_own],
            name="lyon",
            disclosure=None,
            state=state,
        )
        for request in requests
    ]


def agreement_on(pooled=AGREED) -> Agreement:
    return Agreement.of(PooledAggregator(pooled=pooled), disclosure=None)


def test_an_agreement_says_what_is_grown_and_how_often_nodes_are_asked():
    agreement = agreement_on()
    assert agreement.settings["pooled"] == {
        "part": "RandomForestClassifier",
        "params": {
            "n_estimators": 2,
            "max_depth": 3,
            "max_features": "sqrt",
            "bootstrap": False,
        },
    }
    assert agreement.tasks["grow"] == 5
    tree = agreement_on(DecisionTreeClassifier(max_depth=4))
    assert tree.settings["pooled"]["params"] == {"max_depth": 4, "max_features": None}
    assert tree.tasks["grow"] == 6
    again = Agreement.from_json(agreement.to_json())
    assert again.settings == agreement.settings


def test_a_node_draws_the_same_rows_with_a_ledger_and_without_one():
    """Of two samples of the same rows a server would learn more than of one."""
    pooled = forest(n_estimators=2)
    requests = honest_requests("bootstrap")
    first_level = next(r for r in requests if r.task == "grow")
    *_, with_ledger = ask_under(agreement_on(pooled), [requests[0], first_level])
    is_own = nodes_of(len(Y)) == "lyon"
    without_ledger = reply_to(
        first_level, None, X[is_own], Y[is_own], name="lyon", disclosure=None
    )
    np.testing.assert_array_equal(
        with_ledger.content["counts"], without_ledger.content["counts"]
    )


def test_an_honest_server_gets_its_replies_under_an_agreement():
    requests = honest_requests("agreed")
    replies = ask_under(agreement_on(), requests)
    assert [reply.task for reply in replies].count("grow") == 3
    expected = grown_over(AGREED)
    assert expected.history_[-1]["task"] == "grow"


@pytest.mark.parametrize(
    ("kind", "match"),
    [
        ("more trees", "is about 3 trees"),
        ("fewer trees", "is about 1 trees"),
        ("deeper", "trees of 4 levels, agreed is max_depth=3"),
        ("bootstrap", "bootstrap=True, agreed is bootstrap=False"),
        (
            "more features",
            "about 3 features at each leaf, agreed is max_features='sqrt', which is 2 "
            "of 4 features",
        ),
    ],
)
def test_a_server_that_asks_otherwise_gets_no_reply(kind, match):
    requests = [r for r in honest_requests(kind) if r.task == "grow"]
    first = honest_requests("agreed")[:1]
    with pytest.raises(NotAgreedError, match=match):
        ask_under(agreement_on(), first + requests)


@pytest.mark.parametrize("kind", ["forest", "boosting"])
def test_no_tree_grows_from_rows_before_the_agreed_front(kind):
    requests = []

    def note(name, request):
        if name == "lyon":
            requests.append(request)
        return False

    grown_over(TREES[kind], fails=note)
    growing = next(r for r in requests if r.task in ("grow", "boost"))
    without_front = growing.with_fields(front=None)
    with pytest.raises(NotAgreedError, match="before the agreed front.*send the front"):
        ask_under(agreement_on(TREES[kind]), [requests[0], without_front])
    # Where several methods are tried, some may have no front, but trees do.
    with pytest.raises(NotAgreedError, match="has no front, but Pooled"):
        check_is_derived(without_front, agreement_on(TREES[kind]))
    assert len(ask_under(agreement_on(TREES[kind]), [requests[0], growing])) == 2


def test_leaves_that_are_as_deep_as_agreed_are_not_asked_about():
    """Their histograms would be those of trees of one level more."""
    *_, last = honest_requests("deeper")
    levels = [r for r in honest_requests("deeper") if r.task == "grow"]
    first = honest_requests("agreed")[:1]
    replies = ask_under(agreement_on(), first + levels[:3])
    assert [reply.task for reply in replies[1:]] == ["grow"] * 3
    with pytest.raises(NotAgreedError, match="trees of 4 levels"):
        ask_under(agreement_on(), [*first, levels[3]])


def test_a_node_answers_as_often_as_is_agreed_and_no_more():
    honest = honest_requests("agreed")
    roots = next(request for request in honest if request.task == "grow")
    content = roots.content
    others = []
    for k in range(6):  # other features of the roots each time
        pairs = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])
        features = np.tile(pairs[k], (len(content["leaves"]), 1)).astype(np.int32)
        others.append(Message.of("grow", **content | {"features": features}))
    assert len(ask_under(agreement_on(), [honest[0], *others[:5]])) == 6
    with pytest.raises(NotAgreedError, match="grow"):
        ask_under(agreement_on(), [honest[0], *others])


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"part": "RandomForestClassifier", "params": {"n_jobs": 4}}, "n_jobs"),
        ({"part": "RandomForestClassifier", "params": {}}, "max_depth is None"),
        (
            {"part": "RandomForestClassifier", "params": {"max_depth": 10**6}},
            "max_depth is 1000000",
        ),
        (
            {
                "part": "RandomForestClassifier",
                "params": {"max_depth": 3, "n_estimators": -1},
            },
            "n_estimators",
        ),
    ],
)
def test_settings_of_strangers_are_read_with_care(settings, match):
    with pytest.raises(ValueError, match=match):
        PooledTerms.from_settings({"pooled": settings}, {})
