# SPDX-License-Identifier: BSD-3-Clause
"""The server's side of fits over a folder: replies that are missing, nodes left out."""

from __future__ import annotations

import json
import shutil
import threading

import numpy as np
import pytest
from helpers.exchanges import (
    CASES,
    LINEAR,
    NAMES,
    NET,
    answered,
    begun,
    classifiers,
    rows,
)
from sklearn.base import clone
from sklearn.covariance import LedoitWolf
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

import skgems
from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PooledAggregator,
)
from skgems.federation import Message, TooFewNodesError
from skgems.spaces import Ellipsoid

pytestmark = pytest.mark.filterwarnings("ignore::skgems.federation.RowsExposedWarning")


def run(folder, agg, locals_):
    """A whole exchange; the server is started anew for each step."""
    exchange = skgems.Exchange(folder, agg, nodes=NAMES, report=True, min_rows=1)
    steps = 0
    while (fitted := exchange.step()) is None:
        # No gradient is kept back, as none is in one process.
        answered(exchange, locals_, min_rows=1)
        exchange, steps = skgems.Exchange(folder, report=True), steps + 1
        assert steps < 40
    return fitted


@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
@pytest.mark.parametrize("case", CASES)
def test_an_exchange_has_the_bits_of_a_fit_in_one_process(case, tmp_path):
    agg, model = CASES[case]
    locals_ = classifiers(model)
    fitted = run(tmp_path, agg, locals_)
    X, y, nodes = rows()
    direct = clone(agg).set_params(estimators=list(locals_.items()))
    direct.fit(X, y, nodes=nodes)
    assert np.array_equal(fitted.predict_proba(X), direct.predict_proba(X))
    assert fitted.node_names_ == NAMES
    # What is asked of each node alone comes with the first message.
    request = tmp_path / "requests" / "001-lyon.safetensors"
    asked = Message.from_bytes(request.read_bytes())
    first = {own["task"] for own in asked.content["requests"].values()} | {"counts"}
    tasks = [entry["task"] for entry in direct.history_]
    tasks = ["join", *(task for task in tasks if task not in first)]
    assert [entry["task"] for entry in fitted.history_] == tasks
    if hasattr(direct, "node_scores_"):
        ours, theirs = fitted.node_scores_, direct.node_scores_
        for name in ("n_rows", "local", "aggregate", "loss"):
            np.testing.assert_array_equal(ours[name], theirs[name])
        np.testing.assert_array_equal(ours["radius"], theirs["radius"])


def test_replies_are_missing_late_and_repeated(tmp_path):
    agg = GEMSLogisticAggregator(n_rounds=2, random_state=0)
    locals_ = classifiers(LINEAR)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    assert exchange.step() is None
    assert list(exchange.waiting_for) == NAMES
    first = dict(exchange.waiting_for)
    answered(exchange, locals_, ["lyon", "rome"])
    assert exchange.step() is None
    assert list(exchange.waiting_for) == NAMES[1:2]
    # Nobody is asked the same again in other words.
    assert exchange.waiting_for[NAMES[1]] == first[NAMES[1]]
    answered(exchange, locals_)
    assert exchange.step() is None
    assert list(exchange.waiting_for) == NAMES
    # The first reply once more, and one under the wrong number.
    exchange.waiting_for, second = first, exchange.waiting_for
    answered(exchange, locals_, ["lyon"])
    replies = tmp_path / "replies"
    shutil.copy(replies / "001-lyon.safetensors", replies / "002-lyon.safetensors")
    assert exchange.step() is None
    assert exchange.waiting_for == second
    (note,) = exchange.notes
    assert "002-lyon.safetensors replies to another request" in note
    answered(exchange, locals_)
    while (fitted := exchange.step()) is None:
        assert exchange.notes == []
        answered(exchange, locals_)
    X, y, nodes = rows()
    direct = clone(agg).set_params(estimators=list(locals_.items()))
    direct.fit(X, y, nodes=nodes)
    assert np.array_equal(fitted.coef_, direct.coef_)


def test_a_reply_may_keep_the_name_that_its_node_gave_it(tmp_path):
    agg, locals_ = GEMSLogisticAggregator(random_state=0), classifiers(LINEAR)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    assert exchange.step() is None
    answered(exchange, locals_)
    for path in list((tmp_path / "replies").iterdir()):
        path.rename(path.with_name(f"reply-{path.name}"))
    fitted = exchange.step()
    assert fitted is not None and sorted(fitted.node_names_) == sorted(NAMES)


@pytest.mark.filterwarnings("ignore::skgems.federation.PenaltyWarning")
def test_a_node_that_replies_anew_changes_what_is_asked(tmp_path):
    agg = GEMSLogisticAggregator(n_rounds=2, C=1.0, random_state=0)
    locals_ = classifiers(LINEAR)
    exchange = begun(tmp_path, agg)
    first = dict(exchange.waiting_for)
    for _ in range(2):
        answered(exchange, locals_)
        exchange.step()
    X, y, nodes = rows()
    own = nodes == "lyon"
    locals_["lyon"] = LogisticRegression(C=0.01).fit(X[own], y[own])
    given = {"name": "lyon", "radii": True}
    skgems.answer(first["lyon"], locals_["lyon"], X[own], y[own], **given)
    for _ in range(9):
        if (fitted := exchange.step()) is not None:
            break
        answered(exchange, locals_)
    direct = clone(agg).set_params(estimators=list(locals_.items()))
    direct.fit(X, y, nodes=nodes)
    assert np.array_equal(fitted.coef_, direct.coef_)


def test_nodes_are_left_out_one_after_the_other(tmp_path):
    exchange = begun(tmp_path)
    answered(exchange, classifiers(LINEAR), ["lyon"])
    assert exchange.step(leave_out=["rome"]) is None
    assert list(exchange.waiting_for) == NAMES[1:2]
    other = skgems.Exchange(tmp_path, report=True)
    assert other.step(leave_out=NAMES[1:2]) is None
    exchange.step()
    assert list(exchange.waiting_for) == ["lyon"]
    assert exchange.waiting_for["lyon"].name.startswith("002-")


def without_rome(agg, locals_):
    """Fitted in one process, on the nodes and rows of the others."""
    X, y, nodes = rows()
    there = nodes != "rome"
    direct = clone(agg).set_params(estimators=list(locals_.items())[:2])
    return direct.fit(X[there], y[there], nodes=nodes[there])


def test_nodes_are_left_out_of_the_first_message(tmp_path):
    agg = GEMSLogisticAggregator(random_state=0)
    locals_ = classifiers(LINEAR)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    exchange.step()
    answered(exchange, locals_, NAMES[:2])
    while (fitted := exchange.step(leave_out=["rome"])) is None:
        answered(exchange, locals_)
    direct = without_rome(agg, locals_)
    assert np.array_equal(fitted.coef_, direct.coef_)
    # A reply that comes too late is not looked at.
    X, y, nodes = rows()
    own = X[nodes == "rome"], y[nodes == "rome"]
    request = tmp_path / "requests" / "001-rome.safetensors"
    skgems.answer(request, locals_["rome"], *own, name="rome")
    assert np.array_equal(skgems.Exchange(tmp_path).step().coef_, fitted.coef_)


def test_nodes_are_left_out_of_a_round(tmp_path):
    agg = ModelAveragingAggregator(n_rounds=2, random_state=0)
    locals_ = classifiers(NET)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    exchange.step()
    answered(exchange, locals_)
    exchange.step()
    answered(exchange, locals_, NAMES[:2])
    assert exchange.step(leave_out=["rome"]) is None
    assert list(exchange.waiting_for) == NAMES  # back in the next round
    answered(exchange, locals_)
    fitted = exchange.step()
    assert [entry["left_out"] for entry in fitted.history_] == [[], ["rome"], []]


def test_nodes_are_left_out_of_a_message_that_needs_all(tmp_path):
    agg, locals_ = GEMSMLPAggregator(random_state=0), classifiers(NET)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    exchange.step()
    answered(exchange, locals_)
    exchange.step()
    answered(exchange, locals_, NAMES[:2])
    # The replies of the others to what they are asked again are there.
    assert exchange.step(leave_out=["rome"]) is None
    assert list(exchange.waiting_for) == NAMES[:2]
    assert exchange.waiting_for["lyon"].name.startswith("003-")
    while (fitted := exchange.step()) is None:
        answered(exchange, locals_)
    X, direct = rows()[0], without_rome(agg, locals_)
    assert np.array_equal(fitted.predict_proba(X), direct.predict_proba(X))
    assert fitted.node_names_ == NAMES[:2]


def test_all_left_out(tmp_path):
    agg = GEMSLogisticAggregator(random_state=0)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    with pytest.raises(TooFewNodesError, match="Every node is left out"):
        exchange.step(leave_out=NAMES)
    with pytest.raises(ValueError, match=r"\['nice'\] are no nodes"):
        exchange.step(leave_out=["nice"])


def test_a_folder_knows_what_it_is(tmp_path):
    agg = GEMSMLPAggregator(
        geometry=Ellipsoid(floor=0.3),
        last_layer=GEMSLogisticAggregator(epsilon=[0.1, 0.2, 0.3]),
    )
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    again = skgems.Exchange(tmp_path)
    assert again.nodes == NAMES
    assert repr(again.aggregator.geometry) == "Ellipsoid(floor=0.3)"
    assert again.aggregator.last_layer.epsilon == [0.1, 0.2, 0.3]
    # A seed was drawn once, for all steps.
    assert again.aggregator.random_state == exchange.aggregator.random_state >= 0
    # How it is computed, and where, is no part of what is.
    here = clone(agg).set_params(n_jobs=2, verbose=True, memory=str(tmp_path / "cache"))
    skgems.Exchange(tmp_path, here, nodes=NAMES)
    assert "cache" not in (tmp_path / "exchange.json").read_text()
    with pytest.raises(ValueError, match="begun with the nodes"):
        skgems.Exchange(tmp_path, agg, nodes=NAMES[:2])
    with pytest.raises(ValueError, match="begun with another method"):
        skgems.Exchange(tmp_path, GEMSLogisticAggregator(), nodes=NAMES)
    with pytest.raises(ValueError, match="begun with another params"):
        skgems.Exchange(tmp_path, clone(agg).set_params(max_units=3), nodes=NAMES)


@pytest.mark.parametrize(
    "agg, nodes, words",
    [
        (None, None, "needs an aggregator and the names"),
        (GEMSLogisticAggregator(), None, "needs an aggregator and the names"),
        (GEMSLogisticAggregator(), ["a", "a"], "different names"),
        (GEMSLogisticAggregator(), [], "different names"),
        (GEMSLogisticAggregator(), ["public"], "different names"),
        (EnsembleAggregator(), ["a"], "'EnsembleAggregator' is no method"),
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
def test_what_cannot_begin(agg, nodes, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        skgems.Exchange(tmp_path / "new", agg, nodes=nodes)
    assert not (tmp_path / "new").exists()


def test_a_broken_folder(tmp_path):
    (tmp_path / "exchange.json").write_text("[]")
    with pytest.raises(ValueError, match="exchange.json: it is no exchange"):
        skgems.Exchange(tmp_path)
    (tmp_path / "exchange.json").write_text(json.dumps({"version": 99}))
    with pytest.raises(ValueError, match="version 99"):
        skgems.Exchange(tmp_path)


@pytest.mark.parametrize(
    "changed",
    [
        *({"nodes": None}, {"nodes": "lyon"}, {"nodes": ["a", "a"]}, {"nodes": []}),
        *({"left_out": []}, {"messages": [1]}),
        *({"params": []}, {"params": {"zzz": 1}}),
        *({"params": {"memory": "."}}, {"params": {"estimators": ["/etc/passwd"]}}),
        *({"params": {"geometry": {"foo": {}}}}, {"method": "os.system"}),
        {"params": {"pooled": {"part": "SVC", "params": {}}}},
    ],
)
def test_a_folder_that_somebody_changed(changed, tmp_path):
    begun(tmp_path)
    place = tmp_path / "exchange.json"
    state = json.loads(place.read_text())
    own = {name: changed[name] for name in {"params", "method"} & set(changed)}
    state |= changed | {"aggregator": state["aggregator"] | own}
    place.write_text(json.dumps(state))
    with pytest.raises(ValueError, match="exchange.json: it is no exchange of skgems"):
        skgems.Exchange(tmp_path)
    assert json.loads(place.read_text()) == state


# ---- several servers, and what lies in the way --------------------------------------


def test_a_second_server_is_refused(tmp_path):
    pytest.importorskip("fcntl")
    exchange = begun(tmp_path)
    with exchange.channel.alone():
        with pytest.raises(ValueError, match="another server is at work in this fold"):
            skgems.Exchange(tmp_path)
        other = exchange.channel.alone()  # who is alone may say so again
        with other:
            pass
    assert skgems.Exchange(tmp_path).nodes == NAMES


def test_of_servers_that_begin_at_once_one_does(tmp_path):
    pytest.importorskip("fcntl")
    begun_by, refused = [], []

    def begin(seed):
        try:
            agg = GEMSLogisticAggregator(random_state=seed)
            skgems.Exchange(folder, agg, nodes=NAMES)
            begun_by.append(seed)
        except ValueError as exc:
            refused.append(str(exc))

    for attempt in range(20):
        folder = tmp_path / str(attempt)
        servers = [threading.Thread(target=begin, args=(seed,)) for seed in (1, 2)]
        for server in servers:
            server.start()
        for server in servers:
            server.join()
        assert len(begun_by) == attempt + 1
        kept = json.loads((folder / "exchange.json").read_text())
        assert kept["aggregator"]["params"]["random_state"] == begun_by[-1]
    assert all("another server" in text or "has begun with" in text for text in refused)


@pytest.mark.parametrize("name", ["requests", "replies"])
def test_a_folder_that_is_a_link_is_refused(name, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / name).symlink_to(elsewhere)
    with pytest.raises(ValueError, match=f"{name}: it is a symbolic link"):
        begun(tmp_path / "study")
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
