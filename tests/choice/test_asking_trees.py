# SPDX-License-Identifier: BSD-3-Clause
"""A forest among the candidates over a channel: grown on halves, and judged by rows."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers.few_features import use_no_powers
from helpers.judging_nodes import NODES, JudgingNodes, X, Y, linear_candidates
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.preprocessing import PowerTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skgems import PooledAggregator, answer, combine
from skgems.asking import Message, Nodes, RepliesMissingError
from skgems.channels import Folder
from skgems.choice import Candidate, choose_over
from skgems.ensembles import _combine
from skgems.guard import Limits, NotAgreedError, reply_to
from skgems.parties import halves_of

pytestmark = [
    pytest.mark.usefixtures("accepting_nodes"),
    pytest.mark.filterwarnings("ignore:Variables are collinear:UserWarning"),
]
NAMES = ["bern", "oslo"]
FOREST = RandomForestClassifier(7, max_depth=3, bootstrap=False, random_state=0)
POWERS = (StandardScaler(), PowerTransformer())
THREE_COLUMNS = X[:, [0, 6, 9]]  # powers of three columns are found in no time


def with_forest(n_rows=0, pooled=FOREST):
    """Two linear candidates, and a small forest."""
    forest = Candidate("forest", PooledAggregator(pooled=pooled), POWERS)
    return [*linear_candidates(), forest]


def only_forest(n_rows=0):
    return with_forest()[2:]


@cache
def choose_among_forest():
    """Nodes that judged a forest, too, and what was chosen; tests do not alter it."""
    nodes = JudgingNodes(THREE_COLUMNS)
    return nodes, *choose_over(nodes.channel, with_forest)


# ---- the forest is a candidate -----------------------------------------------------


def test_a_forest_takes_a_message_for_each_level():
    nodes, _, choice, history = choose_among_forest()
    tasks = [message["task"] for message in history]
    n_levels = tasks.count("grow_halves")
    assert 3 <= n_levels <= 5
    fronts = ["front"] * tasks.count("front")
    assert tasks == [*fronts, "halves", *["grow_halves"] * n_levels, "judge"]
    entry = choice.to_frame().loc["forest"]
    assert entry.error == "" and entry.accuracy > 0.6
    told = sum(m["bytes_received"] for m in history if m["task"] == "grow_halves")
    assert entry.bytes > told > 100
    # Those of halves, and as many again if the forest is taken.
    agreement = nodes.exchanged[0][0].envelope["agreement"]
    assert '"grow_halves": 5' in agreement and '"grow": 5' in agreement


def halves_at_nodes():
    """The half of each wine, as its node deals them."""
    halves = np.full(len(Y), -1)
    for name in NAMES:
        rows = np.flatnonzero(NODES == name)
        halves[rows] = halves_of({name: np.arange(len(rows))}, Y[rows])
    return halves


def test_a_forest_is_judged_as_forests_are_that_are_fitted_to_the_halves():
    nodes = JudgingNodes(THREE_COLUMNS, keep_state=False)
    aggregator, choice, _ = choose_over(nodes.channel, only_forest)
    halves = halves_at_nodes()
    n_right = 0
    loss = 0.0
    for half in (0, 1):
        by_hand = PooledAggregator(pooled=FOREST, front=aggregator.front)
        by_hand.fit(THREE_COLUMNS, Y, nodes=NODES, held_out=halves != half)
        judging = np.flatnonzero(halves == 1 - half)
        proba = by_hand.predict_proba(THREE_COLUMNS[judging])
        codes = np.searchsorted(by_hand.classes_, Y[judging])
        n_right += np.sum(proba.argmax(axis=1) == codes)
        loss -= np.log(np.maximum(proba[np.arange(len(proba)), codes], 1e-15)).sum()
    (entry,) = choice.table
    assert entry["accuracy"] == n_right / len(Y)
    assert entry["log_loss"] == pytest.approx(loss / len(Y), rel=1e-9)


def test_a_forest_that_is_taken_grows_on_all_rows_over_the_same_channel():
    nodes = JudgingNodes(THREE_COLUMNS, keep_state=False)
    aggregator, _, _ = choose_over(nodes.channel, only_forest)
    aggregator.fit()
    tasks = [message["task"] for message in aggregator.history_]
    assert tasks == ["join", *["grow"] * (len(tasks) - 1)]
    by_hand = PooledAggregator(pooled=FOREST, front=aggregator.front)
    by_hand.fit(THREE_COLUMNS, Y, nodes=NODES)
    np.testing.assert_array_equal(
        aggregator.predict_proba(THREE_COLUMNS), by_hand.predict_proba(THREE_COLUMNS)
    )


def test_nodes_that_hide_rows_round_the_counts_of_halves():
    nodes = JudgingNodes(THREE_COLUMNS, min_rows=5)
    _, choice, _ = choose_over(nodes.channel, only_forest)
    replies = nodes.replies("grow_halves")
    assert {reply.content["min_rows"] for reply in replies} == {10}  # as all agreed
    assert choice.to_frame().loc["forest"].error == ""


def test_a_node_of_few_rows_is_asked_about_no_trees_but_judges_them():
    with_small_node = np.where(np.arange(len(Y)) < 12, "cork", NODES)
    nodes = JudgingNodes(THREE_COLUMNS, nodes=with_small_node, min_rows=8)
    _, choice, _ = choose_over(nodes.channel, only_forest)
    assert choice.to_frame().error.tolist() == [""]
    tasks = {
        request.task
        for request, reply in nodes.exchanged
        if reply.envelope["node"] == "cork"
    }
    assert "judge" in tasks and "grow_halves" not in tasks


def test_rows_without_values_are_for_the_forest_alone():
    with_gaps = np.where(np.arange(len(Y))[:, None] % 9 == 0, np.nan, THREE_COLUMNS)
    nodes = JudgingNodes(with_gaps)
    _, choice, _ = choose_over(nodes.channel, with_forest)
    assert choice.name == "forest"
    assert [bool(entry["error"]) for entry in choice.table] == [True, True, False]


def test_candidates_beside_a_forest_are_judged_as_without_it():
    _, _, choice, _ = choose_among_forest()
    nodes = JudgingNodes(THREE_COLUMNS)
    _, without_forest, _ = choose_over(nodes.channel, linear_candidates)
    names = ["accuracy", "log_loss"]
    frame = choice.to_frame().loc[["linear", "scaled"], names]
    expected = without_forest.to_frame()[names]
    np.testing.assert_allclose(frame.astype(float), expected.astype(float), rtol=1e-9)


# ---- a forest that cannot grow costs nothing else ----------------------------------


def channel_with_limits(nodes, limits):
    """A channel to nodes of which oslo allows no more than its limits."""

    def reply_of(name, request):
        rows, labels = nodes.rows[name]
        try:
            return reply_to(
                request,
                None,
                rows,
                labels,
                name=name,
                state=nodes.state[name],
                limits=limits if name == "oslo" else None,
                disclosure=None,
            )
        except NotAgreedError as error:
            return error

    def ask(requests):
        return {name: reply_of(name, request) for name, request in requests.items()}

    return Nodes(ask, nodes.names, disclosure=None)


def test_a_node_that_refuses_to_grow_trees_costs_the_forest_only():
    nodes = JudgingNodes(THREE_COLUMNS)
    channel = channel_with_limits(nodes, Limits(hidden_numbers=500))
    aggregator, choice, history = choose_over(channel, with_forest)
    reason = choice.to_frame().loc["forest"].error
    assert reason.startswith("Node 'oslo': ") and "hidden_numbers=500" in reason
    assert any(reason[:-1] in doubt for doubt in choice.doubts)
    assert [message["task"] for message in history][-2:] == ["grow_halves", "judge"]
    assert choice.n_rows == len(Y)
    assert aggregator.fit().score(THREE_COLUMNS, Y) > 0.85


def test_a_channel_that_breaks_where_trees_grow_costs_the_forest_only():
    nodes = JudgingNodes(THREE_COLUMNS)

    def ask(requests):
        if next(iter(requests.values())).task == "grow_halves":
            raise ConnectionError("the line is down")
        return nodes.ask(requests)

    channel = Nodes(ask, nodes.names, disclosure=None)
    _, choice, _ = choose_over(channel, with_forest)
    assert choice.to_frame().loc["forest"].error == "ConnectionError: the line is down"
    assert choice.n_rows == len(Y)


def test_boosted_trees_are_no_candidate_over_a_channel():
    boosting = HistGradientBoostingClassifier(
        max_depth=2, max_leaf_nodes=None, early_stopping=False
    )
    nodes = JudgingNodes(THREE_COLUMNS)
    _, choice, _ = choose_over(
        nodes.channel, lambda n_rows: with_forest(pooled=boosting)
    )
    assert choice.to_frame().loc["forest"].error


# ---- what nodes refuse -------------------------------------------------------------


def asked_again(task, change=None):
    """The last request of a task with a change, at a node that has answered it."""
    nodes, *_ = choose_among_forest()
    request = [request for request, _ in nodes.exchanged if request.task == task][-1]
    content = request.content if change is None else change(request.content)
    return nodes, Message.of(task, **content).with_envelope(**request.envelope)


def fresh_nodes():
    """Nodes that know the agreement and the fronts, and were asked nothing else."""
    nodes = JudgingNodes(THREE_COLUMNS)
    for request, reply in choose_among_forest()[0].exchanged:
        if request.task == "front":
            nodes.answer(reply.envelope["node"], request)
    return nodes


def with_other_trees(**fields):
    """A change of a request, by which the first half has other fields."""

    def change(content):
        return content | {"first": content["first"] | fields}

    return change


def test_nodes_hold_the_server_to_the_trees_that_are_agreed():
    _, request = asked_again("grow_halves", with_other_trees(bootstrap=True))
    with pytest.raises(NotAgreedError, match="bootstrap=True, agreed is"):
        fresh_nodes().answer("oslo", request)


def test_nodes_answer_about_halves_as_often_as_agreed():
    nodes = fresh_nodes()
    _, request = asked_again("grow_halves")
    for k in range(6):
        change = with_other_trees(classes=["ant", "bee", f"cat {k}"])
        other = Message.of("grow_halves", **change(request.content))
        other = other.with_envelope(**request.envelope)
        if k < 5:
            nodes.answer("oslo", other)
            continue
        with pytest.raises(NotAgreedError, match="may be asked 5 times"):
            nodes.answer("oslo", other)


def test_nodes_judge_no_more_forests_than_grow():
    def two_forests(content):
        (forest,) = [m for m in content["models"].values() if "n_trees" in m["first"]]
        return {"models": {"0": forest, "1": forest}}

    nodes = fresh_nodes()
    _, request = asked_again("judge", two_forests)
    with pytest.raises(NotAgreedError, match="to judge 2 forests, but 1 of the agreed"):
        nodes.answer("oslo", request)


def test_nodes_that_agreed_to_no_trees_judge_no_forest():
    def forest_without_front(content):
        forest = content["models"]["2"]
        halves = {half: forest[half] for half in ("first", "second")}
        return {"models": {"0": halves}}

    nodes = JudgingNodes(THREE_COLUMNS)
    choose_over(nodes.channel, linear_candidates)
    front = nodes.first_request("front")
    fresh = JudgingNodes(THREE_COLUMNS)
    fresh.answer("oslo", front)
    _, request = asked_again("judge", forest_without_front)
    with pytest.raises(NotAgreedError, match="to judge 1 forests, but 0 of the agreed"):
        fresh.answer("oslo", request.with_envelope(**front.envelope))


# ---- combine -----------------------------------------------------------------------


@pytest.fixture
def few_candidates(monkeypatch):
    """`combine` with the small candidates, and a small forest beside them."""
    use_no_powers(monkeypatch)
    of_sums = _combine.candidates_of_rows

    def small(*args, budget, **options):
        return of_sums(*args, budget="small", **options)

    monkeypatch.setattr(_combine, "candidates_of_rows", small)


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize(
    ("budget", "is_tried"), [("small", False), ("fast", False), ("thorough", True)]
)
def test_combine_grows_a_forest_over_a_channel_only_with_a_thorough_budget(
    budget, is_tried
):
    nodes = JudgingNodes(THREE_COLUMNS)
    agg = combine(nodes.channel, budget=budget, random_state=0)
    assert ("forest" in agg.choice_.to_frame().index) == is_tried
    tasks = {message["task"] for message in agg.history_}
    assert ("grow_halves" in tasks) == is_tried
    agreement = nodes.exchanged[0][0].envelope["agreement"]
    assert ("grow" in agreement) == is_tried


@pytest.mark.usefixtures("few_candidates")
def test_combine_grows_no_forest_under_a_rule_and_says_so():
    nodes = JudgingNodes(THREE_COLUMNS, min_rows=3)
    agg = combine(nodes.channel, budget="thorough", random_state=0)
    assert "forest" not in agg.choice_.to_frame().index
    assert any("No forest was tried" in doubt for doubt in agg.choice_.doubts)
    assert "grow" not in nodes.exchanged[0][0].envelope["agreement"]


def only_stump(n_rows=0):
    """A tree of one level, for which few messages are needed."""
    stump = PooledAggregator(pooled=DecisionTreeClassifier(max_depth=1))
    return [Candidate("stump", stump, (PowerTransformer(),))]


def test_a_choice_with_trees_over_a_folder_goes_on_where_it_stopped(tmp_path):
    nodes = JudgingNodes(THREE_COLUMNS[:, :1])
    _, expected, history = choose_over(nodes.channel, only_stump)
    n_steps = 0
    while True:
        folder = Folder(tmp_path / "all", nodes.names, disclosure=None)
        try:
            _, choice, _ = choose_over(folder, only_stump)
            break
        except RepliesMissingError as missing:
            n_steps += 1
            for name, path in missing.requests.items():
                rows, labels = nodes.rows[name]
                answer(
                    path,
                    None,
                    rows,
                    labels,
                    name=name,
                    state=tmp_path / name,
                    disclosure=None,
                )
    assert n_steps == len(history)
    assert "grow_halves" in {message["task"] for message in history}
    assert choice.table[0]["accuracy"] == expected.table[0]["accuracy"]
    assert choice.table[0]["log_loss"] == expected.table[0]["log_loss"]
