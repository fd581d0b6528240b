# SPDX-License-Identifier: BSD-3-Clause
"""Channels from outside: a function that reaches nodes, and the nodes behind it."""

from __future__ import annotations

import pickle
import threading
import warnings
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
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
from skgems.federation import (
    Agreement,
    LeftOutError,
    Message,
    Nodes,
    TooFewNodesError,
    reply_to,
    run,
)
from skgems.gems import Rounds
from skgems.messages import TASKS
from skgems.spaces import Ellipsoid

NAMES = ["lyon", "paris", "rome"]


@cache
def rows():
    X, y = load_digits(n_class=5, return_X_y=True)
    nodes = np.array(NAMES)[np.arange(len(y)) % 3]
    is_seen = ~((nodes == "lyon") & (y == 4))
    return X[is_seen] / 16, np.array(list("abcde"))[y[is_seen]], nodes[is_seen]


@cache
def models(kind):
    X, y, nodes = rows()
    fitted = {}
    for k, name in enumerate(NAMES):
        is_of_node = nodes == name
        clf = {
            "linear": LogisticRegression(),
            "sgd": SGDClassifier(loss="log_loss", random_state=0),
            "network": MLPClassifier((8,), max_iter=60, random_state=k),
            "alike": MLPClassifier((8,), max_iter=60, random_state=7),
        }[kind]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted[name] = clf.fit(X[is_of_node], y[is_of_node])
    return fitted


class Wire:
    """Nodes behind bytes, which count what they are asked, and may be broken."""

    def __init__(self, kind="linear", **options):
        self.kind = kind
        self.options = options
        self.calls = []  # the task of each, and who is asked
        self.broken = {}  # what comes in place of replies, by name and task
        self.lock = threading.Lock()  # which cannot be copied

    def __call__(self, requests):
        tasks = {request.task for request in requests.values()}
        self.calls.append((*tasks, list(requests)))
        return {name: self.of(name, request) for name, request in requests.items()}

    def of(self, name, request):
        failure = self.broken.get((name, request.task))
        if failure is not None:
            return failure
        X, y, nodes = rows()
        is_of_node = nodes == name
        reply_bytes = reply_to(
            request.to_bytes(),
            models(self.kind)[name],
            X[is_of_node],
            y[is_of_node],
            name=name,
            **{"radii": True, **self.options},
        )
        return Message.from_bytes(reply_bytes)


def nodes_of(wire, **options):
    return Nodes(wire, NAMES, **options)


CASES = {
    "one message": (GEMSLogisticAggregator(random_state=0), "linear"),
    "spaces": (GEMSLogisticAggregator(epsilon=0.8, random_state=0), "linear"),
    "spaces by losses": (
        GEMSLogisticAggregator(epsilon=0.9, criterion="log_loss", random_state=0),
        "linear",
    ),
    "sizes": (
        GEMSLogisticAggregator(
            geometry=Ellipsoid(), intersection="consensus", random_state=0
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
    "averages": (ModelAveragingAggregator(n_rounds=2, random_state=0), "alike"),
    "averages of linear models": (ModelAveragingAggregator(random_state=0), "sgd"),
}


@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
@pytest.mark.filterwarnings("ignore::skgems.averaging.StartedApartWarning")
@pytest.mark.parametrize("case", CASES)
def test_a_channel_has_the_bits_of_a_fit_in_one_process(case):
    agg, kind = CASES[case]
    X, y, nodes = rows()
    wire = Wire(kind)
    over_channel = clone(agg).set_params(estimators=nodes_of(wire)).fit()
    in_process = clone(agg).set_params(estimators=list(models(kind).items()))
    in_process.fit(X, y, nodes=nodes)
    np.testing.assert_array_equal(
        over_channel.decision_function(X), in_process.decision_function(X)
    )
    assert over_channel.node_names_ == in_process.node_names_ == NAMES
    # One entry a message, none of which is a report.
    assert [entry["task"] for entry in over_channel.history_] == [
        task for task, _ in wire.calls
    ]
    assert over_channel.history_[0]["task"] == "join"
    assert "score" not in [task for task, _ in wire.calls]
    # What depends on the other nodes is not kept.
    records = over_channel.estimators.records.values()
    tasks_in_records = {
        request.task for record in records for request in record.requests
    }
    assert (
        tasks_in_records
        == {name for name in tasks_in_records if TASKS[name].alone}
        >= {"join", "describe"}
    )


def test_a_linear_model_takes_one_message():
    for agg in (
        GEMSLogisticAggregator(random_state=0),
        GEMSLogisticAggregator(epsilon=0.8, random_state=0),
    ):
        wire = Wire()
        agg.set_params(estimators=nodes_of(wire)).fit()
        assert wire.calls == [("join", NAMES)]


def test_losses_over_classes_that_are_not_known_yet_take_a_second_message():
    agg, _ = CASES["spaces by losses"]
    wire = Wire()
    clone(agg).set_params(estimators=nodes_of(wire)).fit()
    assert [task for task, _ in wire.calls] == ["join", "space"]


# ---- nodes that fail -----------------------------------------------------------


def test_those_who_fail_are_asked_once_more_all_together():
    wire = Wire()
    wire.broken = {(name, "join"): OSError("gone") for name in NAMES[:2]}
    channel = nodes_of(wire)
    with pytest.warns(UserWarning, match="failed twice in message 1") as caught:
        agg = GEMSLogisticAggregator(channel, random_state=0).fit()
    assert wire.calls == [("join", NAMES), ("join", NAMES[:2])]
    assert agg.node_names_ == ["rome"]
    assert agg.history_[0]["left_out"] == NAMES[:2]
    named = [str(w.message) for w in caught if "failed twice" in str(w.message)]
    assert [text.split("'")[1] for text in named] == NAMES[:2]


def test_fewer_nodes_than_a_channel_needs_are_an_error():
    wire = Wire()
    wire.broken = {("lyon", "join"): OSError("gone")}
    channel = nodes_of(wire, min_nodes=3)
    with pytest.raises(
        TooFewNodesError, match="Only 2 of 3 nodes.*'lyon': OSError: gone"
    ):
        GEMSLogisticAggregator(channel, random_state=0).fit()


def test_what_is_wrong_at_a_node_is_raised_with_its_name():
    wire = Wire()
    wire.broken = {("rome", "join"): ValueError("rows are missing")}
    with pytest.raises(ValueError, match="node 'rome': rows are missing"):
        GEMSLogisticAggregator(nodes_of(wire), random_state=0).fit()
    assert len(wire.calls) == 1


@pytest.mark.parametrize(
    "reply, words",
    [
        (3, "node 'rome': the channel gave int for its reply"),
        (
            Message.of("counts", labels=["a"], counts=[1]),
            "node 'rome': task is 'counts'",
        ),
    ],
)
def test_replies_that_are_none(reply, words):
    wire = Wire()
    wire.broken = {("rome", "join"): reply}
    with pytest.raises((ValueError, TypeError), match=words):
        GEMSLogisticAggregator(nodes_of(wire), random_state=0).fit()


def test_a_reply_under_another_name_is_refused():
    wire = Wire()
    answered = wire.of

    def swapped(name, request):
        return answered("paris" if name == "rome" else name, request)

    wire.of = swapped
    with pytest.raises(ValueError, match="node 'rome': envelope.node is 'paris'"):
        GEMSLogisticAggregator(nodes_of(wire), random_state=0).fit()


def test_a_node_that_is_left_out_on_purpose_is_not_asked_again():
    wire = Wire()
    wire.broken = {("rome", "join"): LeftOutError("for good")}
    agg = GEMSLogisticAggregator(nodes_of(wire), random_state=0).fit()
    assert wire.calls == [("join", NAMES)]
    assert agg.history_[0]["left_out"] == ["rome"]
    wire.broken = {(name, "join"): LeftOutError("for good") for name in NAMES}
    with pytest.raises(TooFewNodesError, match="Every node is left out of message 1"):
        GEMSLogisticAggregator(nodes_of(wire), random_state=0).fit()


@pytest.mark.parametrize("case", ["averages", "matching", "networks"])
def test_a_node_that_did_not_join_is_not_asked_later(case):
    agg, kind = CASES[case]
    wire = Wire(kind)
    wire.broken = {("rome", "join"): OSError("gone")}
    with pytest.warns(UserWarning, match="'rome' failed twice in message 1"):
        fitted = clone(agg).set_params(estimators=nodes_of(wire)).fit()
    assert fitted.node_names_ == NAMES[:2]
    assert all(names == NAMES[:2] for _, names in wire.calls[2:])
    other = clone(agg).set_params(estimators=Nodes(Wire(kind), NAMES[:2])).fit()
    X = rows()[0]
    np.testing.assert_array_equal(fitted.predict_proba(X), other.predict_proba(X))


@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
@pytest.mark.parametrize(
    "case, task, nth",
    [
        ("spaces by losses", "space", 0),
        ("networks", "neurons", 0),
        ("networks", "moments", 0),
        ("rounds of networks", "moments", 2),
    ],
)
def test_a_node_that_dies_in_a_later_message_is_as_if_it_never_came(case, task, nth):
    agg, kind = CASES[case]
    wire = Wire(kind)
    requests_of_task = []
    answered = wire.of

    def dying(name, request):
        if name == "paris" and request.task == task:
            requests_of_task.append(request)
            if len(requests_of_task) > nth:
                return OSError("gone")
        return answered(name, request)

    wire.of = dying
    X, y, nodes = rows()
    agg = clone(agg).set_params(estimators=nodes_of(wire))
    with pytest.warns(UserWarning, match="'paris' failed twice.*left out from there"):
        fitted = agg.fit(X, y, nodes=nodes)
    other = clone(agg).set_params(estimators=Nodes(Wire(kind), NAMES[::2]))
    is_of_others = nodes != "paris"
    other.fit(X[is_of_others], y[is_of_others], nodes=nodes[is_of_others])
    np.testing.assert_array_equal(fitted.predict_proba(X), other.predict_proba(X))
    assert fitted.node_names_ == NAMES[::2]
    np.testing.assert_array_equal(
        fitted.node_scores_["aggregate"], other.node_scores_["aggregate"]
    )
    # Its history has both beginnings; who is left is asked to join once.
    left_out = [entry["left_out"] for entry in fitted.history_]
    assert left_out.count(["paris"]) == 1 and left_out.count([]) == len(left_out) - 1
    n_calls = len(fitted.history_) + 1  # it was asked once more
    assert len(wire.calls) == n_calls
    assert [name for name, _ in wire.calls].count("join") == 1
    assert not hasattr(fitted, "_begun")


def test_too_few_that_are_left_end_a_fit():
    wire = Wire("network")
    wire.broken = {("paris", "neurons"): OSError("gone")}
    agg = GEMSMLPAggregator(nodes_of(wire, min_nodes=3), random_state=0)
    with pytest.raises(TooFewNodesError, match="Only 2 of 3 nodes.*'paris': OSError"):
        agg.fit()
    assert not hasattr(agg, "_begun") and not hasattr(agg, "classes_")
    # Where all of them die nothing is left to begin with.
    wire.broken = {(name, "neurons"): OSError("gone") for name in NAMES}
    with pytest.raises(TooFewNodesError, match="Every node failed twice in message"):
        agg.set_params(estimators=nodes_of(wire)).fit()


def test_rows_by_index_are_those_of_the_channels_nodes():
    X, y, nodes = rows()
    codes = np.array([NAMES.index(name) for name in nodes])
    wire = Wire()
    wire.broken = {("lyon", "join"): OSError("gone")}
    agg = GEMSLogisticAggregator(nodes_of(wire), random_state=0)
    with pytest.warns(UserWarning, match="'lyon' failed twice"):
        by_index = agg.fit(X, y, nodes=codes).node_scores_
    with pytest.warns(UserWarning, match="'lyon' failed twice"):
        by_name = agg.fit(X, y, nodes=nodes).node_scores_
    assert by_index["node"] == by_name["node"] == NAMES[1:]
    assert (
        by_index["n_rows"]
        == by_name["n_rows"]
        == [int((nodes == name).sum()) for name in NAMES[1:]]
    )


def test_later_replies_are_checked_by_what_a_node_has_described():
    agg, _ = CASES["spaces by losses"]
    wire = Wire()
    answered = wire.of

    def of_more_rows(name, request):
        reply = answered(name, request)
        if request.task != "space":
            return reply
        content = reply.content
        content["radii_n_rows"] = content["radii_n_rows"] + 10**6
        return Message.of("space", **content)

    wire.of = of_more_rows
    with pytest.raises(ValueError, match="node 'lyon': space.radii_n_rows"):
        clone(agg).set_params(estimators=nodes_of(wire)).fit()


def test_a_first_reply_under_other_settings_is_refused():
    wire = Wire()
    answered = wire.of

    def of_other_settings(name, request):
        reply = answered(name, request)
        content = reply.content
        content["settings"] = {**content["settings"], "n_components": 1}
        return Message.of("join", **content)

    wire.of = of_other_settings
    with pytest.raises(ValueError, match="summary.settings is not what was asked"):
        GEMSLogisticAggregator(nodes_of(wire), random_state=0).fit()


def test_a_node_of_which_nothing_comes_is_left_out():
    def ask(requests):
        return {
            name: wire.of(name, request)
            for name, request in requests.items()
            if name != "rome"
        }

    wire = Wire()
    with pytest.warns(UserWarning, match="'rome' failed twice.*no reply came"):
        agg = GEMSLogisticAggregator(Nodes(ask, NAMES), random_state=0).fit()
    assert agg.node_names_ == NAMES[:2]


def test_pairs_as_they_come_are_put_in_order():
    def ask(requests):
        for name in reversed(list(requests)):
            yield name, wire.of(name, requests[name])

    wire = Wire()
    agg = GEMSLogisticAggregator(Nodes(ask, NAMES), random_state=0).fit()
    other = GEMSLogisticAggregator(nodes_of(wire), random_state=0).fit()
    np.testing.assert_array_equal(agg.coef_, other.coef_)
    assert agg.node_names_ == NAMES


# ---- reports -------------------------------------------------------------------


@pytest.mark.parametrize("case", ["one message", "spaces", "networks"])
def test_scores_are_asked_for_where_they_are_wanted(case):
    agg, kind = CASES[case]
    X, y, nodes = rows()
    wire = Wire(kind)
    over_channel = clone(agg).set_params(estimators=nodes_of(wire)).fit()
    assert np.isnan(over_channel.node_scores_["aggregate"]).all()
    n_messages = len(wire.calls)
    assert over_channel.ask_scores() is over_channel
    assert [task for task, _ in wire.calls[n_messages:]] == ["score"]
    assert [entry["task"] for entry in over_channel.history_] == [
        task for task, _ in wire.calls
    ]
    in_process = clone(agg).set_params(estimators=list(models(kind).items()))
    in_process.fit(X, y, nodes=nodes)
    for name in ("n_rows", "local", "aggregate", "on_own_scale"):
        np.testing.assert_array_equal(
            over_channel.node_scores_[name], in_process.node_scores_[name], err_msg=name
        )
    with pytest.raises(
        ValueError, match="asked for scores only after a fit over a channel"
    ):
        in_process.ask_scores()


@pytest.mark.parametrize(
    "failure",
    [OSError("gone"), ValueError("odd"), Message.of("score", score=np.array(2.0))],
)
def test_a_node_that_dies_in_the_report_costs_its_line(failure):
    wire = Wire()
    agg = GEMSLogisticAggregator(nodes_of(wire), random_state=0).fit()
    coef = agg.coef_.copy()
    wire.broken = {("paris", "score"): failure}
    with pytest.warns(UserWarning, match="Node 'paris' failed twice in message 1"):
        agg.ask_scores()
    np.testing.assert_array_equal(np.isnan(agg.node_scores_["aggregate"]), [0, 1, 0])
    assert agg.history_[-1]["left_out"] == ["paris"]
    np.testing.assert_array_equal(agg.coef_, coef)


def test_every_node_may_die_in_the_report_of_a_fit_in_process(monkeypatch):
    from skgems.federation import _channel

    answer = _channel.answer

    def dying(request, member):
        if request.task == "score":
            raise OSError("gone")
        return answer(request, member)

    monkeypatch.setattr(_channel, "answer", dying)
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(list(models("linear").items()), random_state=0)
    with pytest.warns(UserWarning, match="failed twice in message 2"):
        agg.fit(X, y, nodes=nodes)
    assert (
        np.isnan(agg.node_scores_["aggregate"]).all() and np.isfinite(agg.coef_).all()
    )


# ---- records -------------------------------------------------------------------


def test_a_search_asks_once():
    X, y, nodes = rows()
    wire = Wire()
    agg = GEMSLogisticAggregator(nodes_of(wire), epsilon=0.5, random_state=0)
    grid = {"epsilon": [0.3, 0.5], "C": [0.1, 1.0]}
    search = GridSearchCV(agg, grid, cv=2).fit(X, y, nodes=nodes)
    assert wire.calls == [("join", NAMES)]
    # Rows that score are those that are here.
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    agg.set_params(n_components=4).fit()
    assert len(wire.calls) == 2  # what is decided at the nodes is asked anew


def test_clone_carries_a_channel_and_pickle_drops_its_transport():
    wire = Wire()
    agg = GEMSLogisticAggregator(nodes_of(wire), random_state=0)
    assert clone(agg).estimators is agg.estimators
    agg.fit()
    other = pickle.loads(pickle.dumps(agg))
    np.testing.assert_array_equal(other.coef_, agg.coef_)
    # What is known is enough for a fit, and nobody can be asked for more.
    np.testing.assert_array_equal(clone(other).fit().coef_, agg.coef_)
    with pytest.raises(RuntimeError, match="pickled, which keeps names and records"):
        clone(other).set_params(n_rounds=2).fit()
    assert len(wire.calls) == 1


def test_a_node_behind_a_channel_is_forgotten_and_others_come():
    wire = Wire()
    agg = GEMSLogisticAggregator(nodes_of(wire), keep_replies=True, random_state=0)
    agg.fit().forget("paris")
    other = GEMSLogisticAggregator(Nodes(wire, ["lyon", "rome"]), random_state=0).fit()
    np.testing.assert_array_equal(agg.coef_, other.coef_)
    assert agg.node_names_ == ["lyon", "rome"]
    assert b"paris" not in pickle.dumps(agg)
    X, y, nodes = rows()
    is_of_paris = nodes == "paris"
    summary = GEMSLogisticAggregator(random_state=0).summarize(
        models("linear")["paris"], X[is_of_paris], y[is_of_paris], name="paris"
    )
    with_all_nodes = GEMSLogisticAggregator(
        Nodes(wire, ["lyon", "rome", "paris"]), random_state=0
    )
    np.testing.assert_array_equal(
        agg.update([summary]).coef_, with_all_nodes.fit().coef_
    )


def test_names_are_read_once_a_fit():
    wire = Wire()
    n_reads = 0

    def names():
        nonlocal n_reads
        n_reads += 1
        return NAMES

    GEMSLogisticAggregator(Nodes(wire, names), n_rounds=3, random_state=0).fit()
    assert n_reads == 1
    for wrong in (["a", "a"], [""], [3]):
        with pytest.raises(ValueError, match="must be different texts"):
            GEMSLogisticAggregator(Nodes(wire, wrong), random_state=0).fit()


def test_methods_that_need_classifiers_say_so():
    with pytest.raises(TypeError, match="EnsembleAggregator needs the classifiers"):
        EnsembleAggregator(nodes_of(Wire())).fit()


def test_a_diagram_of_a_channel():
    agg = GEMSLogisticAggregator(nodes_of(Wire()))
    assert "lyon" in agg._repr_html_() and "lyon" in repr(agg)


# ---- the node's side -----------------------------------------------------------


@pytest.mark.parametrize("kind", ["folder", "object"])
def test_a_request_that_comes_again_gets_the_logged_reply(kind, tmp_path, monkeypatch):
    X, y, nodes = rows()
    is_of_lyon = nodes == "lyon"
    agreed = Agreement.of(GEMSLogisticAggregator(random_state=0))
    agreed = replace(agreed, tasks={"counts": 1, "describe": 1})
    request = Message.of("counts").with_envelope(exchange=agreed.exchange)
    reply_of_lyon = partial(
        reply_to,
        estimator=models("linear")["lyon"],
        X=X[is_of_lyon],
        y=y[is_of_lyon],
        name="lyon",
        state=tmp_path / "log" if kind == "folder" else {},
        agreement=agreed,
    )
    first = reply_of_lyon(request)

    def never(*args, **kwargs):
        raise AssertionError("rows are not looked at")

    monkeypatch.setattr("skgems.federation._replying.member_of", never)
    again = reply_of_lyon(request.to_bytes())
    assert again == first.to_bytes()
    other = Message.of("describe").with_envelope(exchange=agreed.exchange)
    with pytest.raises(AssertionError, match="not looked at"):
        reply_of_lyon(other)


def test_requests_for_others_and_bytes_that_are_none():
    X, y, nodes = rows()
    is_of_lyon = nodes == "lyon"
    reply_of_lyon = partial(
        reply_to,
        estimator=models("linear")["lyon"],
        X=X[is_of_lyon],
        y=y[is_of_lyon],
        name="lyon",
    )
    request = Message("counts", envelope={"node": "rome"})
    with pytest.raises(ValueError, match="for node 'rome', not for 'lyon'"):
        reply_of_lyon(request)
    with pytest.raises(ValueError, match="no message of skgems"):
        reply_of_lyon(b"rows, please")
    reply = reply_of_lyon(Message.of("counts"))
    assert reply.envelope == {"node": "lyon", "to": Message.of("counts").digest}


def test_a_plan_of_ones_own():
    def plan():
        replies = yield Message.of("counts")
        return {name: int(reply.content["counts"].sum()) for name, reply in replies}

    _, _, nodes = rows()
    n_rows_of_nodes = run(plan(), nodes_of(Wire()))
    assert n_rows_of_nodes == {name: int(np.sum(nodes == name)) for name in NAMES}
