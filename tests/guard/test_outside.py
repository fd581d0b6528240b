# SPDX-License-Identifier: BSD-3-Clause
"""Channels that users write: a function that reaches nodes, and these nodes."""

from __future__ import annotations

import pickle
import threading
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from helpers.disclosures import rule_of
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.asking import LeftOutError, Message, Nodes, TooFewNodesError, run
from skgems.gems import Rounds, Spaces
from skgems.guard import Agreement, reply_to
from skgems.messages import TASKS
from skgems.spaces import Ellipsoid

pytestmark = pytest.mark.usefixtures("accepting_nodes")

NAMES = ["lyon", "paris", "rome"]


@cache
def rows_of_nodes():
    """Digits of three nodes, of which lyon has no "c"."""
    X, y = load_digits(n_class=3, return_X_y=True)
    # Fewer features than a node has rows of a class.
    X = X[:180, 2::6] / 16
    y = y[:180]
    nodes = np.array(NAMES)[np.arange(len(y)) % 3]
    is_seen = ~((nodes == "lyon") & (y == 2))
    return X[is_seen], np.array(list("abc"))[y[is_seen]], nodes[is_seen]


@cache
def local_models(kind):
    """The fitted classifier of each node, by name."""
    X, y, nodes = rows_of_nodes()
    classifiers = {}
    for k, name in enumerate(NAMES):
        in_node = nodes == name
        clf = {
            "linear": LogisticRegression(),
            "sgd": SGDClassifier(loss="log_loss", random_state=0),
            "network": MLPClassifier((8,), max_iter=60, random_state=k),
            "same start": MLPClassifier((8,), max_iter=60, random_state=7),
        }[kind]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            classifiers[name] = clf.fit(X[in_node], y[in_node])
    return classifiers


class Wire:
    """Nodes that are reached by bytes. It notes what they are asked, and may fail."""

    def __init__(self, kind="linear", *, min_rows=10):
        self.kind = kind
        self.min_rows = min_rows  # of each node
        self.calls = []  # the task of each, and the names of nodes that are asked
        self.broken = {}  # what comes in place of replies, by name and task
        self.lock = threading.Lock()  # as transports have it, so no copy is possible

    def __call__(self, requests):
        tasks = {request.task for request in requests.values()}
        self.calls.append((*tasks, list(requests)))
        return {name: self.of(name, request) for name, request in requests.items()}

    def of(self, name, request):
        """The reply of a node, or what comes in its place."""
        failure = self.broken.get((name, request.task))
        if failure is not None:
            return failure
        X, y, nodes = rows_of_nodes()
        in_node = nodes == name
        reply_bytes = reply_to(
            request.to_bytes(),
            local_models(self.kind)[name],
            X[in_node],
            y[in_node],
            name=name,
            radii=True,
            disclosure=rule_of(self.min_rows),
        )
        return Message.from_bytes(reply_bytes)


def nodes_behind(wire, **options):
    """The channel to all nodes behind a wire."""
    return Nodes(wire, NAMES, disclosure=rule_of(wire.min_rows), **options)


# An aggregator, and the kind of classifiers of nodes.
CASES = {
    "one message": (GEMSLogisticAggregator(random_state=0), "linear"),
    "spaces": (GEMSLogisticAggregator(epsilon=0.8, random_state=0), "linear"),
    "spaces by losses": (
        GEMSLogisticAggregator(
            epsilon=0.9, spaces=Spaces(criterion="log_loss"), random_state=0
        ),
        "linear",
    ),
    "sizes": (
        GEMSLogisticAggregator(
            spaces=Spaces(Ellipsoid()), intersection="consensus", random_state=0
        ),
        "linear",
    ),
    "more messages": (
        GEMSLogisticAggregator(n_rounds=Rounds(3, candidates="lda"), random_state=0),
        "linear",
    ),
    "networks": (GEMSMLPAggregator(random_state=0), "network"),
    "rounds of networks": (GEMSMLPAggregator(n_rounds=2, random_state=0), "network"),
    "matching": (PFNMAggregator(n_rounds=2, random_state=0), "network"),
    "averages": (ModelAveragingAggregator(n_rounds=2, random_state=0), "same start"),
    "averages of linear models": (ModelAveragingAggregator(random_state=0), "sgd"),
}


@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
@pytest.mark.filterwarnings("ignore::skgems.averaging.StartedApartWarning")
# The others go through the same replies in `channels/test_exchange.py`.
@pytest.mark.parametrize(
    "case",
    [
        "one message",
        "spaces by losses",
        "sizes",
        "networks",
    ],
)
def test_a_channel_has_the_bits_of_a_fit_in_one_process(case):
    agg, kind = CASES[case]
    X, y, nodes = rows_of_nodes()
    # No gradient is kept back, as none is in one process.
    wire = Wire(kind, min_rows=1)
    over_channel = clone(agg).set_params(estimators=nodes_behind(wire)).fit()
    in_process = clone(agg).set_params(estimators=list(local_models(kind).items()))
    in_process.fit(X, y, nodes=nodes)
    np.testing.assert_array_equal(
        over_channel.decision_function(X), in_process.decision_function(X)
    )
    assert over_channel.node_names_ == in_process.node_names_ == NAMES
    check_history(over_channel.history_, tasks=[task for task, _ in wire.calls])
    check_kept_replies_are_of_single_nodes(over_channel.estimators.records)


def check_history(history, *, tasks):
    """There is one entry a message, none of which is a report."""
    assert [entry["task"] for entry in history] == tasks
    assert tasks[0] == "join"
    assert "score" not in tasks


def check_kept_replies_are_of_single_nodes(records):
    """Replies that depend on other nodes are not kept."""
    requests = [request for record in records.values() for request in record.requests]
    kept_tasks = {request.task for request in requests}
    assert kept_tasks >= {"join", "describe"}
    assert all(TASKS[task].alone for task in kept_tasks)


@pytest.mark.parametrize("parameters", [{}, {"epsilon": 0.8}])
def test_a_linear_model_takes_one_message(parameters):
    wire = Wire()
    GEMSLogisticAggregator(nodes_behind(wire), random_state=0, **parameters).fit()
    assert wire.calls == [("join", NAMES)]


def test_spaces_by_log_loss_take_a_second_message_as_they_depend_on_all_classes():
    agg, _ = CASES["spaces by losses"]
    wire = Wire()
    clone(agg).set_params(estimators=nodes_behind(wire)).fit()
    assert [task for task, _ in wire.calls] == ["join", "space"]


# ---- nodes that fail -----------------------------------------------------------


def test_nodes_that_fail_are_asked_once_more_together_and_left_out():
    wire = Wire()
    wire.broken = {(name, "join"): OSError("gone") for name in NAMES[:2]}
    channel = nodes_behind(wire)
    with pytest.warns(UserWarning, match="failed twice in message 1") as caught:
        agg = GEMSLogisticAggregator(channel, random_state=0).fit()
    assert wire.calls == [("join", NAMES), ("join", NAMES[:2])]
    assert agg.node_names_ == ["rome"]
    assert agg.history_[0]["left_out"] == NAMES[:2]
    messages = [str(w.message) for w in caught if "failed twice" in str(w.message)]
    assert [message.split("'")[1] for message in messages] == NAMES[:2]


def test_fewer_nodes_than_a_channel_needs_are_an_error():
    wire = Wire()
    wire.broken = {("lyon", "join"): OSError("gone")}
    channel = nodes_behind(wire, min_nodes=3)
    with pytest.raises(
        TooFewNodesError, match="Only 2 of 3 nodes.*'lyon': OSError: gone"
    ):
        GEMSLogisticAggregator(channel, random_state=0).fit()


def test_a_value_error_of_a_node_is_raised_with_its_name():
    wire = Wire()
    wire.broken = {("rome", "join"): ValueError("rows are missing")}
    with pytest.raises(ValueError, match="node 'rome': rows are missing"):
        GEMSLogisticAggregator(nodes_behind(wire), random_state=0).fit()
    assert len(wire.calls) == 1


@pytest.mark.parametrize(
    "reply, words",
    [
        (3, "node 'rome': the channel gave a int as its reply"),
        (
            Message.of("counts", labels=["a"], counts=[1]),
            "node 'rome': task is 'counts'",
        ),
    ],
)
def test_replies_of_another_type_or_task_are_refused(reply, words):
    wire = Wire()
    wire.broken = {("rome", "join"): reply}
    with pytest.raises((ValueError, TypeError), match=words):
        GEMSLogisticAggregator(nodes_behind(wire), random_state=0).fit()


def test_a_reply_under_another_name_is_refused():
    wire = Wire()
    reply_of = wire.of

    def reply_of_paris_for_rome(name, request):
        return reply_of("paris" if name == "rome" else name, request)

    wire.of = reply_of_paris_for_rome
    with pytest.raises(ValueError, match="node 'rome': envelope.node is 'paris'"):
        GEMSLogisticAggregator(nodes_behind(wire), random_state=0).fit()


def test_a_node_that_is_left_out_on_purpose_is_not_asked_again():
    wire = Wire()
    wire.broken = {("rome", "join"): LeftOutError("for good")}
    agg = GEMSLogisticAggregator(nodes_behind(wire), random_state=0).fit()
    assert wire.calls == [("join", NAMES)]
    assert agg.history_[0]["left_out"] == ["rome"]


def test_a_fit_ends_if_every_node_is_left_out_on_purpose():
    wire = Wire()
    wire.broken = {(name, "join"): LeftOutError("for good") for name in NAMES}
    with pytest.raises(TooFewNodesError, match="Every node is left out of message 1"):
        GEMSLogisticAggregator(nodes_behind(wire), random_state=0).fit()


@pytest.mark.parametrize("case", ["averages", "matching", "networks"])
def test_a_node_that_did_not_join_is_not_asked_later(case):
    agg, kind = CASES[case]
    wire = Wire(kind)
    wire.broken = {("rome", "join"): OSError("gone")}
    with pytest.warns(UserWarning, match="'rome' failed twice in message 1"):
        fitted = clone(agg).set_params(estimators=nodes_behind(wire)).fit()
    assert fitted.node_names_ == NAMES[:2]
    assert all(names == NAMES[:2] for _, names in wire.calls[2:])
    of_two_nodes = clone(agg).set_params(estimators=Nodes(Wire(kind), NAMES[:2])).fit()
    X, _, _ = rows_of_nodes()
    np.testing.assert_array_equal(
        fitted.predict_proba(X), of_two_nodes.predict_proba(X)
    )


@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
@pytest.mark.parametrize(
    "case, task, n_answered",
    [
        ("spaces by losses", "space", 0),
        ("networks", "neurons", 0),
        ("networks", "moments", 0),
        ("rounds of networks", "moments", 2),
    ],
)
def test_after_a_node_has_died_in_a_later_message_the_fit_is_that_without_it(
    case, task, n_answered
):
    agg, kind = CASES[case]
    wire = Wire(kind)
    requests_of_task = []
    reply_of = wire.of

    def reply_until_paris_dies(name, request):
        if name == "paris" and request.task == task:
            requests_of_task.append(request)
            if len(requests_of_task) > n_answered:
                return OSError("gone")
        return reply_of(name, request)

    wire.of = reply_until_paris_dies
    X, y, nodes = rows_of_nodes()
    agg = clone(agg).set_params(estimators=nodes_behind(wire))
    with pytest.warns(UserWarning, match="'paris' failed twice.*left out from then"):
        fitted = agg.fit(X, y, nodes=nodes)
    without_paris = clone(agg).set_params(estimators=Nodes(Wire(kind), NAMES[::2]))
    is_of_others = nodes != "paris"
    without_paris.fit(X[is_of_others], y[is_of_others], nodes=nodes[is_of_others])
    np.testing.assert_array_equal(
        fitted.predict_proba(X), without_paris.predict_proba(X)
    )
    assert fitted.node_names_ == NAMES[::2]
    np.testing.assert_array_equal(
        fitted.node_scores_["aggregate"], without_paris.node_scores_["aggregate"]
    )
    # The history has the messages before and after; the others join only once.
    left_out = [entry["left_out"] for entry in fitted.history_]
    assert left_out.count(["paris"]) == 1 and left_out.count([]) == len(left_out) - 1
    n_calls = len(fitted.history_) + 1  # paris was asked once more
    assert len(wire.calls) == n_calls
    assert [name for name, _ in wire.calls].count("join") == 1
    assert not hasattr(fitted, "_begun")


def test_a_fit_ends_if_too_few_nodes_are_left():
    wire = Wire("network")
    wire.broken = {("paris", "neurons"): OSError("gone")}
    agg = GEMSMLPAggregator(nodes_behind(wire, min_nodes=3), random_state=0)
    with pytest.raises(TooFewNodesError, match="Only 2 of 3 nodes.*'paris': OSError"):
        agg.fit()
    assert not hasattr(agg, "_begun") and not hasattr(agg, "classes_")


def test_a_fit_ends_if_every_node_dies_in_a_later_message():
    wire = Wire("network")
    agg = GEMSMLPAggregator(nodes_behind(wire), random_state=0)
    wire.broken = {(name, "neurons"): OSError("gone") for name in NAMES}
    with pytest.raises(TooFewNodesError, match="Every node failed twice in message"):
        agg.fit()


def test_indices_of_rows_count_all_nodes_of_a_channel_though_one_is_left_out():
    X, y, nodes = rows_of_nodes()
    codes = np.array([NAMES.index(name) for name in nodes])
    wire = Wire()
    wire.broken = {("lyon", "join"): OSError("gone")}
    agg = GEMSLogisticAggregator(nodes_behind(wire), random_state=0)
    with pytest.warns(UserWarning, match="'lyon' failed twice"):
        by_index = agg.fit(X, y, nodes=codes).node_scores_
    with pytest.warns(UserWarning, match="'lyon' failed twice"):
        by_name = agg.fit(X, y, nodes=nodes).node_scores_
    assert by_index["node"] == by_name["node"] == NAMES[1:]
    n_rows = [int((nodes == name).sum()) for name in NAMES[1:]]
    assert by_index["n_rows"] == by_name["n_rows"] == n_rows


def test_a_later_reply_about_more_rows_than_the_node_has_is_refused():
    agg, _ = CASES["spaces by losses"]
    wire = Wire()
    reply_of = wire.of

    def reply_of_more_rows(name, request):
        reply = reply_of(name, request)
        if request.task != "space":
            return reply
        content = reply.content
        content["radii_n_rows"] = content["radii_n_rows"] + 10**6
        return Message.of("space", **content)

    wire.of = reply_of_more_rows
    with pytest.raises(ValueError, match="node 'lyon': space.radii_n_rows"):
        clone(agg).set_params(estimators=nodes_behind(wire)).fit()


def test_a_first_reply_under_other_settings_is_refused():
    wire = Wire()
    reply_of = wire.of

    def reply_under_other_settings(name, request):
        content = reply_of(name, request).content
        content["settings"] = {**content["settings"], "n_components": 1}
        return Message.of("join", **content)

    wire.of = reply_under_other_settings
    with pytest.raises(ValueError, match="summary.settings is not what was asked"):
        GEMSLogisticAggregator(nodes_behind(wire), random_state=0).fit()


def test_a_node_whose_reply_is_missing_is_left_out():
    wire = Wire()

    def ask(requests):
        return {
            name: wire.of(name, request)
            for name, request in requests.items()
            if name != "rome"
        }

    with pytest.warns(UserWarning, match="'rome' failed twice.*no reply came"):
        agg = GEMSLogisticAggregator(Nodes(ask, NAMES), random_state=0).fit()
    assert agg.node_names_ == NAMES[:2]


def test_replies_may_come_one_by_one_in_any_order():
    wire = Wire()

    def ask(requests):
        for name in reversed(list(requests)):
            yield name, wire.of(name, requests[name])

    agg = GEMSLogisticAggregator(Nodes(ask, NAMES), random_state=0).fit()
    expected = GEMSLogisticAggregator(nodes_behind(wire), random_state=0).fit()
    np.testing.assert_array_equal(agg.coef_, expected.coef_)
    assert agg.node_names_ == NAMES


# ---- reports -------------------------------------------------------------------


@pytest.mark.parametrize("case", ["one message", "spaces", "networks"])
def test_nodes_behind_a_channel_score_only_when_ask_scores_is_called(case):
    agg, kind = CASES[case]
    X, y, nodes = rows_of_nodes()
    wire = Wire(kind, min_rows=1)
    over_channel = clone(agg).set_params(estimators=nodes_behind(wire)).fit()
    assert np.isnan(over_channel.node_scores_["aggregate"]).all()
    n_messages = len(wire.calls)
    assert over_channel.ask_scores() is over_channel
    assert [task for task, _ in wire.calls[n_messages:]] == ["score"]
    assert [entry["task"] for entry in over_channel.history_] == [
        task for task, _ in wire.calls
    ]
    in_process = clone(agg).set_params(estimators=list(local_models(kind).items()))
    in_process.fit(X, y, nodes=nodes)
    for name in ("n_rows", "local", "aggregate", "on_own_scale"):
        np.testing.assert_array_equal(
            over_channel.node_scores_[name], in_process.node_scores_[name], err_msg=name
        )


def test_ask_scores_needs_a_channel():
    X, y, nodes = rows_of_nodes()
    in_process = GEMSLogisticAggregator(
        list(local_models("linear").items()), random_state=0
    )
    in_process.fit(X, y, nodes=nodes)
    with pytest.raises(
        ValueError, match="asked for scores only after a fit over a channel"
    ):
        in_process.ask_scores()


@pytest.mark.parametrize(
    "failure",
    [OSError("gone"), ValueError("odd"), Message.of("score", score=np.array(2.0))],
)
def test_a_node_that_fails_to_score_is_left_out_of_the_scores_alone(failure):
    wire = Wire()
    agg = GEMSLogisticAggregator(nodes_behind(wire), random_state=0).fit()
    coef = agg.coef_.copy()
    wire.broken = {("paris", "score"): failure}
    with pytest.warns(UserWarning, match="Node 'paris' failed twice in message 1"):
        agg.ask_scores()
    np.testing.assert_array_equal(np.isnan(agg.node_scores_["aggregate"]), [0, 1, 0])
    assert agg.history_[-1]["left_out"] == ["paris"]
    np.testing.assert_array_equal(agg.coef_, coef)


def test_a_fit_in_process_is_complete_though_no_node_can_score(monkeypatch):
    from skgems.asking import _channel

    answer = _channel.reply_of

    def answer_all_but_scores(request, member):
        if request.task == "score":
            raise OSError("gone")
        return answer(request, member)

    monkeypatch.setattr(_channel, "reply_of", answer_all_but_scores)
    X, y, nodes = rows_of_nodes()
    agg = GEMSLogisticAggregator(list(local_models("linear").items()), random_state=0)
    with pytest.warns(UserWarning, match="failed twice in message 2"):
        agg.fit(X, y, nodes=nodes)
    assert np.isnan(agg.node_scores_["aggregate"]).all()
    assert np.isfinite(agg.coef_).all()


# ---- records -------------------------------------------------------------------


def test_a_search_over_parameters_of_the_server_asks_nodes_once():
    X, y, nodes = rows_of_nodes()
    wire = Wire()
    agg = GEMSLogisticAggregator(nodes_behind(wire), epsilon=0.5, random_state=0)
    grid = [{"epsilon": [0.3]}, {"C": [0.1]}]
    search = GridSearchCV(agg, grid, cv=2).fit(X, y, nodes=nodes)
    assert wire.calls == [("join", NAMES)]
    # The rows that score are those of the server.
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_another_parameter_of_what_nodes_send_asks_them_again():
    wire = Wire()
    agg = GEMSLogisticAggregator(nodes_behind(wire), epsilon=0.5, random_state=0).fit()
    assert len(wire.calls) == 1
    agg.set_params(moments__n_components=4).fit()
    assert len(wire.calls) == 2


def test_a_clone_has_the_same_channel():
    agg = GEMSLogisticAggregator(nodes_behind(Wire()), random_state=0)
    assert clone(agg).estimators is agg.estimators


def test_a_pickled_channel_has_the_replies_but_cannot_ask():
    wire = Wire()
    agg = GEMSLogisticAggregator(nodes_behind(wire), random_state=0).fit()
    unpickled = pickle.loads(pickle.dumps(agg))
    np.testing.assert_array_equal(unpickled.coef_, agg.coef_)
    # The kept replies are enough for the same fit, but not for rounds.
    np.testing.assert_array_equal(clone(unpickled).fit().coef_, agg.coef_)
    with pytest.raises(RuntimeError, match="pickled, which keeps names and records"):
        clone(unpickled).set_params(n_rounds=2).fit()
    assert len(wire.calls) == 1


def test_a_node_behind_a_channel_can_be_forgotten_and_come_back_as_a_summary():
    wire = Wire()
    agg = GEMSLogisticAggregator(nodes_behind(wire), keep_replies=True, random_state=0)
    agg.fit().forget("paris")
    without_paris = GEMSLogisticAggregator(
        Nodes(wire, ["lyon", "rome"]), random_state=0
    )
    np.testing.assert_array_equal(agg.coef_, without_paris.fit().coef_)
    assert agg.node_names_ == ["lyon", "rome"]
    assert b"paris" not in pickle.dumps(agg)
    X, y, nodes = rows_of_nodes()
    in_paris = nodes == "paris"
    summary = GEMSLogisticAggregator(random_state=0).summarize(
        local_models("linear")["paris"], X[in_paris], y[in_paris], name="paris"
    )
    with_all_nodes = GEMSLogisticAggregator(
        Nodes(wire, ["lyon", "rome", "paris"]), random_state=0
    )
    np.testing.assert_array_equal(
        agg.update([summary]).coef_, with_all_nodes.fit().coef_
    )


def test_names_of_nodes_are_read_once_in_a_fit():
    wire = Wire()
    n_reads = 0

    def names():
        nonlocal n_reads
        n_reads += 1
        return NAMES

    GEMSLogisticAggregator(Nodes(wire, names), n_rounds=2, random_state=0).fit()
    assert n_reads == 1


@pytest.mark.parametrize("names", [["a", "a"], [""], [3]])
def test_names_of_nodes_must_be_different_texts(names):
    with pytest.raises(ValueError, match="must be different texts"):
        GEMSLogisticAggregator(Nodes(Wire(), names), random_state=0).fit()


def test_methods_that_need_classifiers_refuse_a_channel():
    with pytest.raises(TypeError, match="EnsembleAggregator needs the classifiers"):
        EnsembleAggregator(nodes_behind(Wire())).fit()


def test_a_diagram_shows_the_nodes_of_a_channel():
    agg = GEMSLogisticAggregator(nodes_behind(Wire()))
    assert "lyon" in agg._repr_html_() and "lyon" in repr(agg)


# ---- the node's side -----------------------------------------------------------


def reply_of_lyon(request, state=None, agreement=None):
    """The reply of the node lyon, as a program at the node makes it."""
    X, y, nodes = rows_of_nodes()
    in_lyon = nodes == "lyon"
    return reply_to(
        request,
        local_models("linear")["lyon"],
        X[in_lyon],
        y[in_lyon],
        name="lyon",
        state=state,
        agreement=agreement,
    )


@pytest.mark.parametrize("kind", ["folder", "object"])
def test_a_request_that_comes_again_gets_the_kept_reply(kind, tmp_path, monkeypatch):
    agreement = Agreement.of(GEMSLogisticAggregator(random_state=0))
    agreement = replace(agreement, tasks={"counts": 1, "describe": 1})
    request = Message.of("counts").with_envelope(exchange=agreement.exchange)
    state = tmp_path / "log" if kind == "folder" else {}
    first = reply_of_lyon(request, state=state, agreement=agreement)

    def raise_error(*args, **kwargs):
        raise AssertionError("rows are not looked at")

    monkeypatch.setattr("skgems.guard._replying.member_of", raise_error)
    second = reply_of_lyon(request.to_bytes(), state=state, agreement=agreement)
    assert second == first.to_bytes()
    other = Message.of("describe").with_envelope(exchange=agreement.exchange)
    with pytest.raises(AssertionError, match="not looked at"):
        reply_of_lyon(other, state=state, agreement=agreement)


def test_a_node_refuses_requests_for_another_and_bytes_that_are_no_message():
    request = Message("counts", envelope={"node": "rome"})
    with pytest.raises(ValueError, match="for node 'rome', not for 'lyon'"):
        reply_of_lyon(request)
    with pytest.raises(ValueError, match="not a message of skgems"):
        reply_of_lyon(b"rows, please")


def test_the_envelope_of_a_reply_names_its_node_and_request():
    reply = reply_of_lyon(Message.of("counts"))
    assert reply.envelope == {"node": "lyon", "to": Message.of("counts").digest}


def test_users_can_run_plans_of_their_own():
    def plan():
        replies = yield Message.of("counts")
        return {name: int(reply.counts.sum()) for name, reply in replies}

    _, _, nodes = rows_of_nodes()
    n_rows_of_nodes = run(plan(), nodes_behind(Wire()))
    assert n_rows_of_nodes == {name: int(np.sum(nodes == name)) for name in NAMES}
