# SPDX-License-Identifier: BSD-3-Clause
"""The server's side of fits over a folder: replies that are missing, nodes left out."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
from helpers.exchanges import (
    CASES,
    LINEAR,
    NAMES,
    NET,
    answer_waiting,
    begin_exchange,
    classifiers_of_nodes,
    digit_rows,
    fit_in_process,
    rows_at,
    write_state,
)
from sklearn.base import clone
from sklearn.covariance import LedoitWolf
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

import skgems
from skgems import (
    Disclosure,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PooledAggregator,
)
from skgems.asking import Message, TooFewNodesError
from skgems.gems import HiddenLayers, Moments, Spaces
from skgems.spaces import Ellipsoid

pytestmark = pytest.mark.usefixtures("accepting_nodes")


def run_exchange(folder, agg, classifiers):
    """The aggregate of an exchange in which the server starts anew for each step."""
    exchange = skgems.Exchange(folder, agg, nodes=NAMES, report=True, disclosure=None)
    for _ in range(40):  # more steps than any method takes
        fitted = exchange.step()
        if fitted is not None:
            return fitted
        # No gradient is kept back, as none is in one process.
        answer_waiting(exchange, classifiers, min_rows=1)
        exchange = skgems.Exchange(folder, report=True)
    raise AssertionError("The exchange does not come to an end.")


@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
# Rounds of a merged network ask all that its hidden layers do.
@pytest.mark.parametrize("case", [case for case in CASES if case != "hidden layers"])
def test_an_exchange_has_the_bits_of_a_fit_in_one_process(case, tmp_path):
    agg, model = CASES[case]
    classifiers = classifiers_of_nodes(model)
    fitted = run_exchange(tmp_path, agg, classifiers)
    in_process = fit_in_process(agg, classifiers)
    X, _, _ = digit_rows()
    np.testing.assert_array_equal(fitted.predict_proba(X), in_process.predict_proba(X))
    assert fitted.node_names_ == NAMES
    # What is asked of each node alone comes with the first message.
    request = Message.from_bytes(
        (tmp_path / "requests" / "001-lyon.safetensors").read_bytes()
    )
    parts = request.content["requests"].values()
    first_tasks = {"counts", *(part["task"] for part in parts)}
    later_tasks = [
        message["task"]
        for message in in_process.history_
        if message["task"] not in first_tasks
    ]
    # A report also asks how good the model is, site by site.
    tasks = [message["task"] for message in fitted.history_]
    assert tasks == ["join", *later_tasks, "metrics"]
    assert list(fitted.evaluation_.sites) == NAMES
    if hasattr(in_process, "node_scores_"):
        for name in ("n_rows", "local", "aggregate", "loss", "radius"):
            np.testing.assert_array_equal(
                fitted.node_scores_[name], in_process.node_scores_[name]
            )


# ---- replies that are missing, late or sent again ----------------------------------


def finish(exchange, classifiers):
    """The aggregate, when nodes have answered all that is asked from now on."""
    while (fitted := exchange.step()) is None:
        answer_waiting(exchange, classifiers)
    return fitted


def check_is_that_of_one_process(fitted, agg, classifiers):
    in_process = fit_in_process(agg, classifiers, disclosure=Disclosure())
    np.testing.assert_array_equal(fitted.coef_, in_process.coef_)


def test_a_node_whose_reply_is_missing_keeps_its_request(tmp_path):
    agg = GEMSLogisticAggregator(n_rounds=2, random_state=0)
    classifiers = classifiers_of_nodes(LINEAR)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    assert exchange.step() is None
    assert list(exchange.waiting_for) == NAMES
    request_of_paris = exchange.waiting_for[NAMES[1]]
    answer_waiting(exchange, classifiers, ["lyon", "rome"])
    assert exchange.step() is None
    # Nobody is asked the same again in other words.
    assert exchange.waiting_for == {NAMES[1]: request_of_paris}
    answer_waiting(exchange, classifiers)
    assert exchange.step() is None
    assert list(exchange.waiting_for) == NAMES
    check_is_that_of_one_process(finish(exchange, classifiers), agg, classifiers)


def test_a_reply_to_another_request_is_noted_and_not_used(tmp_path):
    agg = GEMSLogisticAggregator(n_rounds=2, random_state=0)
    classifiers = classifiers_of_nodes(LINEAR)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    exchange.step()
    answer_waiting(exchange, classifiers)
    exchange.step()
    second_requests = dict(exchange.waiting_for)
    replies = tmp_path / "replies"
    shutil.copy(replies / "001-lyon.safetensors", replies / "002-lyon.safetensors")
    assert exchange.step() is None
    assert exchange.waiting_for == second_requests
    (note,) = exchange.notes
    assert "002-lyon.safetensors answers another request" in note
    answer_waiting(exchange, classifiers)
    while (fitted := exchange.step()) is None:
        assert exchange.notes == []
        answer_waiting(exchange, classifiers)
    check_is_that_of_one_process(fitted, agg, classifiers)


def test_an_equal_reply_that_comes_again_changes_nothing(tmp_path):
    agg = GEMSLogisticAggregator(n_rounds=2, random_state=0)
    classifiers = classifiers_of_nodes(LINEAR)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    exchange.step()
    first_request = exchange.waiting_for["lyon"]
    answer_waiting(exchange, classifiers)
    exchange.step()
    second_requests = dict(exchange.waiting_for)
    X, y = rows_at("lyon")
    skgems.answer(first_request, classifiers["lyon"], X, y, name="lyon", radii=True)
    assert exchange.step() is None
    assert exchange.waiting_for == second_requests
    assert exchange.notes == []
    check_is_that_of_one_process(finish(exchange, classifiers), agg, classifiers)


def test_a_reply_may_keep_the_name_that_its_node_gave_it(tmp_path):
    agg = GEMSLogisticAggregator(random_state=0)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    assert exchange.step() is None
    answer_waiting(exchange, classifiers_of_nodes(LINEAR))
    for path in list((tmp_path / "replies").iterdir()):
        path.rename(path.with_name(f"reply-{path.name}"))
    fitted = exchange.step()
    assert sorted(fitted.node_names_) == sorted(NAMES)


@pytest.mark.filterwarnings("ignore::skgems.asking.PenaltyWarning")
def test_a_node_that_replies_anew_changes_what_is_asked(tmp_path):
    agg = GEMSLogisticAggregator(n_rounds=2, C=1.0, random_state=0)
    classifiers = classifiers_of_nodes(LINEAR)
    exchange = begin_exchange(tmp_path, agg)
    first_request = exchange.waiting_for["lyon"]
    for _ in range(2):
        answer_waiting(exchange, classifiers)
        exchange.step()
    X, y = rows_at("lyon")
    classifiers["lyon"] = LogisticRegression(C=0.01).fit(X, y)
    skgems.answer(first_request, classifiers["lyon"], X, y, name="lyon", radii=True)
    check_is_that_of_one_process(finish(exchange, classifiers), agg, classifiers)


# ---- nodes that are left out -------------------------------------------------------


def test_nodes_are_left_out_one_after_the_other(tmp_path):
    exchange = begin_exchange(tmp_path)
    answer_waiting(exchange, classifiers_of_nodes(LINEAR), ["lyon"])
    assert exchange.step(leave_out=["rome"]) is None
    assert list(exchange.waiting_for) == NAMES[1:2]
    second_server = skgems.Exchange(tmp_path, report=True)
    assert second_server.step(leave_out=NAMES[1:2]) is None
    exchange.step()
    assert list(exchange.waiting_for) == ["lyon"]
    assert exchange.waiting_for["lyon"].name.startswith("002-")


def fit_without_rome(agg, classifiers):
    """Fitted in one process to the classifiers and rows of the two other nodes."""
    X, y, nodes = digit_rows()
    rows = nodes != "rome"
    in_process = clone(agg).set_params(
        estimators=list(classifiers.items())[:2], disclosure=Disclosure()
    )
    return in_process.fit(X[rows], y[rows], nodes=nodes[rows])


def test_nodes_are_left_out_of_the_first_message(tmp_path):
    agg = GEMSLogisticAggregator(random_state=0)
    classifiers = classifiers_of_nodes(LINEAR)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    exchange.step()
    answer_waiting(exchange, classifiers, NAMES[:2])
    while (fitted := exchange.step(leave_out=["rome"])) is None:
        answer_waiting(exchange, classifiers)
    expected = fit_without_rome(agg, classifiers)
    np.testing.assert_array_equal(fitted.coef_, expected.coef_)
    # A reply that comes too late is not looked at.
    X, y = rows_at("rome")
    request = tmp_path / "requests" / "001-rome.safetensors"
    skgems.answer(request, classifiers["rome"], X, y, name="rome")
    refitted = skgems.Exchange(tmp_path).step()
    np.testing.assert_array_equal(refitted.coef_, fitted.coef_)


def test_nodes_that_are_left_out_of_a_round_are_back_in_the_next(tmp_path):
    agg = ModelAveragingAggregator(n_rounds=2, random_state=0)
    classifiers = classifiers_of_nodes(NET)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    exchange.step()
    answer_waiting(exchange, classifiers)
    exchange.step()
    answer_waiting(exchange, classifiers, NAMES[:2])
    assert exchange.step(leave_out=["rome"]) is None
    assert list(exchange.waiting_for) == NAMES
    answer_waiting(exchange, classifiers)
    fitted = exchange.step()
    left_out = [message["left_out"] for message in fitted.history_]
    assert left_out == [[], ["rome"], []]


def test_nodes_that_are_left_out_of_a_message_that_needs_all_are_gone(tmp_path):
    # Of common units nodes with a bound min_rows send less than they do in one process.
    agg = GEMSMLPAggregator(n_common_units=0, random_state=0)
    classifiers = classifiers_of_nodes(NET)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    exchange.step()
    answer_waiting(exchange, classifiers)
    exchange.step()
    answer_waiting(exchange, classifiers, NAMES[:2])
    # The other nodes are asked the next message: their replies to what they are asked
    # again without rome are there.
    assert exchange.step(leave_out=["rome"]) is None
    assert list(exchange.waiting_for) == NAMES[:2]
    assert exchange.waiting_for["lyon"].name.startswith("003-")
    fitted = finish(exchange, classifiers)
    expected = fit_without_rome(agg, classifiers)
    X, _, _ = digit_rows()
    np.testing.assert_array_equal(fitted.predict_proba(X), expected.predict_proba(X))
    assert fitted.node_names_ == NAMES[:2]


def test_who_is_left_out_is_checked(tmp_path):
    agg = GEMSLogisticAggregator(random_state=0)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    with pytest.raises(TooFewNodesError, match="Every node is left out"):
        exchange.step(leave_out=NAMES)
    with pytest.raises(ValueError, match=r"\['nice'\] are not nodes"):
        exchange.step(leave_out=["nice"])


# ---- what a folder keeps -----------------------------------------------------------


@pytest.fixture
def network_aggregator():
    return GEMSMLPAggregator(
        hidden_layers=HiddenLayers(max_units=9),
        last_layer=GEMSLogisticAggregator(
            epsilon=[0.1, 0.2, 0.3],
            spaces=Spaces(Ellipsoid(floor=0.3), criterion="log_loss"),
            moments=Moments(n_components=2),
        ),
    )


def test_a_folder_keeps_nodes_method_and_parameters(tmp_path, network_aggregator):
    exchange = skgems.Exchange(tmp_path, network_aggregator, nodes=NAMES)
    reopened = skgems.Exchange(tmp_path)
    assert reopened.nodes == NAMES
    last_layer = reopened.aggregator.last_layer
    assert last_layer.epsilon == [0.1, 0.2, 0.3]
    assert repr(last_layer.spaces.geometry) == "Ellipsoid(floor=0.3)"
    assert last_layer.spaces.criterion == "log_loss"
    assert repr(last_layer.moments) == "Moments(n_components=2)"
    assert repr(reopened.aggregator.hidden_layers) == "HiddenLayers(max_units=9)"
    # A seed was drawn once, for all steps.
    seed = exchange.aggregator.random_state
    assert seed >= 0
    assert reopened.aggregator.random_state == seed


def test_jobs_words_and_cache_may_differ_from_step_to_step(
    tmp_path, network_aggregator
):
    """How and where is computed is no part of what is."""
    skgems.Exchange(tmp_path, network_aggregator, nodes=NAMES)
    cache = str(tmp_path / "cache")
    agg = clone(network_aggregator).set_params(n_jobs=2, verbose=True, memory=cache)
    skgems.Exchange(tmp_path, agg, nodes=NAMES)
    assert "cache" not in (tmp_path / "exchange.json").read_text()


def test_a_folder_does_not_go_on_with_other_nodes_or_parameters(
    tmp_path, network_aggregator
):
    agg = network_aggregator
    skgems.Exchange(tmp_path, agg, nodes=NAMES)
    with pytest.raises(ValueError, match="begun with the nodes"):
        skgems.Exchange(tmp_path, agg, nodes=NAMES[:2])
    with pytest.raises(ValueError, match="begun with another method"):
        skgems.Exchange(tmp_path, GEMSLogisticAggregator(), nodes=NAMES)
    with pytest.raises(ValueError, match="begun with another params"):
        skgems.Exchange(
            tmp_path, clone(agg).set_params(hidden_layers__max_units=3), nodes=NAMES
        )


@pytest.mark.parametrize(
    "agg, nodes, words",
    [
        (None, None, "needs an aggregator and the names"),
        (GEMSLogisticAggregator(), None, "needs an aggregator and the names"),
        (GEMSLogisticAggregator(), ["a", "a"], "different names"),
        (GEMSLogisticAggregator(), [], "different names"),
        (GEMSLogisticAggregator(), ["public"], "different names"),
        (EnsembleAggregator(), ["a"], "'EnsembleAggregator' is not a method"),
        (
            PooledAggregator(
                pooled=LinearDiscriminantAnalysis(covariance_estimator=LedoitWolf())
            ),
            ["a"],
            "pooled__covariance_estimator",
        ),
        (
            GEMSLogisticAggregator(random_state=np.random.RandomState(0)),
            ["a"],
            "random_state",
        ),
    ],
)
def test_an_exchange_that_cannot_begin_makes_no_folder(agg, nodes, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        skgems.Exchange(tmp_path / "new", agg, nodes=nodes)
    assert not (tmp_path / "new").exists()


def test_a_file_that_is_no_state_of_an_exchange_is_refused(tmp_path):
    (tmp_path / "exchange.json").write_text("[]")
    with pytest.raises(
        ValueError, match="exchange.json: it cannot be read as an exchange"
    ):
        skgems.Exchange(tmp_path)


def test_the_state_of_another_version_is_refused(tmp_path):
    (tmp_path / "exchange.json").write_text(json.dumps({"version": 99}))
    with pytest.raises(ValueError, match="version 99"):
        skgems.Exchange(tmp_path)


def check_changed_state_is_refused(
    folder, change, *, words="it cannot be read as an exchange"
):
    """An exchange with a state that somebody changed does not go on, nor write it."""
    begin_exchange(folder)
    path = folder / "exchange.json"
    state = json.loads(path.read_text())
    change(state)
    write_state(path, state)
    with pytest.raises(ValueError, match=f"exchange.json: {words}"):
        skgems.Exchange(folder)
    assert json.loads(path.read_text()) == state


@pytest.mark.parametrize(
    "fields",
    [
        {"nodes": None},
        {"nodes": "lyon"},
        {"nodes": ["a", "a"]},
        {"nodes": []},
        {"left_out": []},
        {"messages": [1]},
    ],
)
def test_a_state_with_changed_fields_is_refused(fields, tmp_path):
    check_changed_state_is_refused(tmp_path, lambda state: state.update(fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"params": []},
        {"params": {"memory": "."}},
        {"params": {"estimators": ["/etc/passwd"]}},
        {"params": {"spaces": {"foo": {}}}},
        {"params": {"spaces": {"part": "SVC", "params": {}}}},
        {"method": "os.system"},
    ],
)
def test_a_state_with_a_changed_aggregator_is_refused(fields, tmp_path):
    check_changed_state_is_refused(
        tmp_path, lambda state: state["aggregator"].update(fields)
    )


def test_a_state_with_parameters_that_there_are_not_is_refused(tmp_path):
    check_changed_state_is_refused(
        tmp_path,
        lambda state: state["aggregator"].update({"params": {"zzz": 1}}),
        words=r"GEMSLogisticAggregator has no parameters \['zzz'\], so this exchange",
    )


# ---- several servers, and links in place of folders ---------------------------------


def test_a_second_server_is_refused(tmp_path):
    exchange = begin_exchange(tmp_path)
    with exchange.channel.alone():
        with pytest.raises(ValueError, match="another server is at work in this fold"):
            skgems.Exchange(tmp_path)
        with exchange.channel.alone():  # who is alone may say so again
            pass
    assert skgems.Exchange(tmp_path).nodes == NAMES


def test_a_server_that_was_killed_keeps_nobody_out(tmp_path):
    begin_exchange(tmp_path)
    program = (
        "import os, sys; from skgems.channels import Folder\n"
        "with Folder(sys.argv[1]).alone():\n"
        "    os._exit(9)"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert killed.returncode == 9
    assert skgems.Exchange(tmp_path).nodes == NAMES


def test_a_changed_bit_of_the_state_is_said(tmp_path):
    """A digest that has changed would have the replies asked for again."""
    exchange = begin_exchange(tmp_path)
    exchange.step()
    path = tmp_path / "exchange.json"
    content = path.read_bytes()
    digest = json.loads(content)["messages"][0]["lyon"]
    at = content.index(digest.encode())
    changed = b"0" if digest[0] != "0" else b"1"
    path.write_bytes(content[:at] + changed + content[at + 1 :])
    with pytest.raises(ValueError, match="exchange.json: it has changed since it was"):
        exchange.step()
    with pytest.raises(ValueError, match="exchange.json: it has changed since it was"):
        skgems.Exchange(tmp_path)
    path.write_bytes(content)
    assert skgems.Exchange(tmp_path).step() is None


def test_one_of_two_servers_that_begin_at_once_is_refused(tmp_path):
    seeds_that_began = []
    refusals = []

    def begin(folder, seed):
        try:
            agg = GEMSLogisticAggregator(random_state=seed)
            skgems.Exchange(folder, agg, nodes=NAMES)
            seeds_that_began.append(seed)
        except ValueError as error:
            refusals.append(str(error))

    # Who comes first is chance.
    for attempt in range(20):
        folder = tmp_path / str(attempt)
        servers = [
            threading.Thread(target=begin, args=(folder, seed)) for seed in (1, 2)
        ]
        for server in servers:
            server.start()
        for server in servers:
            server.join()
        assert len(seeds_that_began) == attempt + 1
        state = json.loads((folder / "exchange.json").read_text())
        assert state["aggregator"]["params"]["random_state"] == seeds_that_began[-1]
    assert all(
        "another server" in refusal or "has begun with" in refusal
        for refusal in refusals
    )


@pytest.mark.parametrize("name", ["requests", "replies"])
def test_a_folder_that_is_a_link_is_refused(name, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / name).symlink_to(elsewhere)
    with pytest.raises(ValueError, match=f"{name}: it is a symbolic link"):
        begin_exchange(tmp_path / "study")
    assert not list(elsewhere.iterdir())


def test_names_that_other_systems_take_for_one_have_files_of_their_own(tmp_path):
    names = ["Lyon", "lyon", "LYON", "Orl\u00e9ans", "orl\u00c9ans", "rome"]
    exchange = skgems.Exchange(tmp_path, GEMSLogisticAggregator(), nodes=names)
    exchange.step()
    files = [path.name.casefold() for path in exchange.waiting_for.values()]
    assert len(set(files)) == len(names)
    assert exchange.waiting_for["rome"].name == "001-rome.safetensors"
    with pytest.raises(ValueError, match="has characters that cannot be sent"):
        skgems.Exchange(tmp_path / "b", GEMSLogisticAggregator(), nodes=["\ud800"])
