# SPDX-License-Identifier: BSD-3-Clause
"""Fits over a folder of requests and replies."""

from __future__ import annotations

import json
import os
import shutil
import threading
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from helpers.fitted import once
from sklearn.base import clone
from sklearn.covariance import LedoitWolf
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgems
from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
)
from skgems.averaging import Downpour
from skgems.channels import inspect
from skgems.federation import Message, NotAgreedError, Summary, TooFewNodes
from skgems.gems import Rounds
from skgems.local import TooFewRowsError
from skgems.moments import ClassMoments, class_moments
from skgems.spaces import Ellipsoid

pytestmark = pytest.mark.filterwarnings("ignore::skgems.federation.RowsExposedWarning")

NAMES = ["lyon", "paris sur/seine", "rome"]


@cache
def rows():
    X, y = load_digits(n_class=4, return_X_y=True)
    X, y = X[:300, 8:40] / 16, np.array(list("abcd"))[y[:300]]
    nodes = np.array(NAMES)[np.arange(300) % 3]
    nodes[y == "a"] = "lyon"
    return X, y, nodes


@once
def classifiers(model):
    X, y, nodes = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {n: clone(model).fit(X[nodes == n], y[nodes == n]) for n in NAMES}


def answered(exchange, locals_, names=None, *, radii=True, **options):
    """Have nodes answer all that waits for them."""
    X, y, nodes = rows()
    options["radii"] = radii
    for name, request in exchange.waiting_for.items():
        if names is None or name in names:
            own = X[nodes == name], y[nodes == name]
            skgems.answer(request, locals_[name], *own, name=name, **options)


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


LINEAR = LogisticRegression()
NET = MLPClassifier((6,), max_iter=60, learning_rate_init=0.01, random_state=0)
CASES = {
    "one message": (GEMSLogisticAggregator(epsilon=0.8, random_state=0), LINEAR),
    "the pooled model": (
        PooledAggregator(
            pooled=LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)
        ),
        LINEAR,
    ),
    "more messages": (
        GEMSLogisticAggregator(
            n_rounds=Rounds(3, candidates=["lda", "consensus"]), random_state=0
        ),
        LINEAR,
    ),
    "spaces, asked for by the point": (
        GEMSLogisticAggregator(
            geometry=Ellipsoid(floor=0.2), intersection="deepest", random_state=0
        ),
        LINEAR,
    ),
    "spaces of large classes, asked for late": (
        GEMSLogisticAggregator(
            n_rounds=2,
            epsilon=0.6,
            min_cluster_size=25,
            on_empty="ignore",
            random_state=0,
        ),
        LINEAR,
    ),
    "hidden layers": (
        GEMSMLPAggregator(
            random_state=0, last_layer=GEMSLogisticAggregator(moments="shared")
        ),
        make_pipeline(StandardScaler(), NET),
    ),
    "rounds of a merged network": (
        GEMSMLPAggregator(random_state=0, n_rounds=3, retrain_epochs=1),
        make_pipeline(StandardScaler(), NET),
    ),
    "rounds of matching": (PFNMAggregator(n_rounds=2, random_state=0), NET),
    "matching and a last layer": (
        PFNMAggregator(last_layer=GEMSLogisticAggregator(n_rounds=2), random_state=0),
        NET,
    ),
    "rounds of networks": (ModelAveragingAggregator(n_rounds=2, random_state=0), NET),
    "pushes of networks": (
        ModelAveragingAggregator(
            n_rounds=3, server=Downpour(25, staleness=1), random_state=0
        ),
        NET,
    ),
    "rounds of linear models": (
        ModelAveragingAggregator(n_rounds=2, weights="class_counts", random_state=0),
        SGDClassifier(loss="log_loss", random_state=0),
    ),
    "an average": (ModelAveragingAggregator(weights="n_samples"), LINEAR),
}


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
    with pytest.raises(TooFewNodes, match="Every node is left out"):
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


# ---- the node's side ---------------------------------------------------------------


def begun(tmp_path, agg=None):
    agg = GEMSLogisticAggregator(random_state=0) if agg is None else agg
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES, report=True)
    exchange.step()
    return exchange


def test_a_request_is_for_one_node(tmp_path):
    exchange = begun(tmp_path)
    X, y, nodes = rows()
    clf = classifiers(LINEAR)["lyon"]
    with pytest.raises(ValueError, match="for node 'lyon', not for 'nice'"):
        skgems.answer(exchange.waiting_for["lyon"], clf, X, y, name="nice")


def other(request, *, task=None, drop=(), **changed):
    """Put a request in place of one that a server wrote."""
    asked = Message.from_bytes(request.read_bytes())
    content = {k: v for k, v in asked.content.items() if k not in drop} | changed
    wrong = Message.of(task or asked.task, **content)
    request.write_bytes(replace(wrong, envelope=asked.envelope).to_bytes())


NO_JOIN = ("method", "settings", "requests")
W = np.zeros((33, 4))
REQUESTS = {
    "tasks that say more": (
        {"requests": {"0": {"task": "train", "asked": {}}}},
        r"join\.requests\.0\.task is 'train', none of",
    ),
    "a model that is not the node's": (
        {"requests": {"0": {"task": "size", "asked": {"W": np.zeros((33, 4))}}}},
        r"join\.requests\.0 does not ask for the node's own model",
    ),
    # Which would tell classes of a single row, whatever the node's min_rows.
    "a way round min_rows": (
        {"min_rows": 1},
        r"join\.min_rows is no field of it",
    ),
    "columns beyond the outputs": (
        {
            **{"task": "evaluate", "drop": NO_JOIN, "W": W, "labels": list("abcd")},
            **{"columns": np.array([0, 1, 2, 4]), "factors": np.ones(1)},
        },
        r"evaluate\.columns are more than the 4 outputs",
    ),
    "layers without their activations": (
        {
            **{"task": "size", "drop": NO_JOIN, "W": W},
            "hidden": {"weights": [np.zeros((33, 32))], "activation": []},
        },
        r"size\.hidden\.activation is not one for each layer",
    ),
    "covariances of other nodes' rows": (
        {
            **{"task": "retrain", "drop": NO_JOIN, "labels": list("abcd"), "seed": 0},
            **{"coefs": [W[1:]], "intercepts": [W[0]], "activation": [], "epochs": 1},
            "others": class_moments(np.eye(32), np.zeros(32, int)).as_arrays(),
        },
        r"retrain\.others has more than variances",
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_node_answers_no_request_that_is_not_as_it_should_be(name, tmp_path):
    changed, words = REQUESTS[name]
    exchange = begun(tmp_path)
    X, y, nodes = rows()
    own = nodes == "lyon"
    request = exchange.waiting_for["lyon"]
    other(request, **changed)
    clf = DummyClassifier().fit(X[own], y[own])
    with pytest.raises(ValueError, match=rf"001-lyon\.safetensors: {words}"):
        skgems.answer(request, clf, X[own], y[own], name="lyon")
    assert not list((tmp_path / "replies").iterdir())
    with pytest.raises(ValueError, match=r"001-lyon\.safetensors: "):
        inspect(request)


def test_errors_that_are_not_made_of_a_text_name_the_request(tmp_path, monkeypatch):
    def odd(*args, **kwargs):
        raise UnicodeDecodeError("utf-8", b"", 0, 1, "odd")

    request = begun(tmp_path).waiting_for["lyon"]
    monkeypatch.setattr("skgems.channels._folder.reply_to", odd)
    with pytest.raises(ValueError, match=r"001-lyon\.safetensors: .*odd"):
        skgems.answer(request, None, None, None, name="lyon")


@pytest.mark.parametrize("chosen", [[0], [1, 2], []])
def test_a_node_says_what_the_method_asks_for_and_nothing_else(chosen, tmp_path):
    exchange = begun(tmp_path, GEMSLogisticAggregator(epsilon=0.8, random_state=0))
    X, y, nodes = rows()
    own, request = nodes == "lyon", exchange.waiting_for["lyon"]
    asked = Message.from_bytes(request.read_bytes()).content["requests"]
    some = {str(k): asked[str(own)] for k, own in enumerate(chosen)}
    other(request, requests=some)
    clf = DummyClassifier().fit(X[own], y[own])
    at_lyon = {"name": "lyon", "radii": True}
    if chosen != [0]:  # moments alone, or all of them, are what the method may ask
        with pytest.raises(
            NotAgreedError, match="the first message makes|does not ask"
        ):
            skgems.answer(request, clf, X[own], y[own], **at_lyon)
        return
    reply = skgems.answer(request, clf, X[own], y[own], **at_lyon)
    tasks = [request.task for request in Summary.load(reply).requests]
    assert tasks == ["describe", "counts", "moments"]


def test_no_two_names_meet_in_one_file(tmp_path):
    names = [
        "a/b",
        "a_b",
        "a:b",
        "../a_b",
        "n" * 300 + "1",
        "n" * 300 + "2",
        " ",
        "é\n",
    ]
    agg = GEMSLogisticAggregator(random_state=0)
    exchange = skgems.Exchange(tmp_path, agg, nodes=names)
    exchange.step()
    assert list(exchange.waiting_for) == names
    written = set(exchange.waiting_for.values())
    assert set((tmp_path / "requests").iterdir()) == written
    assert len(written) == len(names)
    for name, path in exchange.waiting_for.items():
        assert inspect(path).node == name


def test_where_a_reply_goes(tmp_path):
    exchange = begun(tmp_path / "server")
    X, y, nodes = rows()
    clf, own = classifiers(LINEAR)["lyon"], nodes == "lyon"
    request = exchange.waiting_for["lyon"]
    there = tmp_path / "there"
    there.mkdir()
    sent = shutil.copy(request, there / "asked.safetensors")
    given = sent, clf, X[own], y[own]
    assert skgems.answer(*given, name="lyon") == there / "reply-asked.safetensors"
    with pytest.raises(ValueError, match="would take the place of the request"):
        skgems.answer(*given, name="lyon", to=there)
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / "asked.safetensors"
    assert skgems.answer(*given, name="lyon", to=tmp_path / "out") == out
    path = skgems.answer(*given, name="lyon", to=there / "x")
    assert path == there / "x"
    shutil.copy(path, tmp_path / "server" / "replies" / request.name)
    exchange.step()
    assert list(exchange.waiting_for) == NAMES[1:]


def test_a_node_of_few_rows_refuses(tmp_path):
    exchange = begun(tmp_path)
    X, y, nodes = rows()
    own = np.flatnonzero(nodes == "rome")[:12]
    clf = LogisticRegression().fit(X[own], y[own])
    request = exchange.waiting_for["rome"]
    with pytest.raises(
        TooFewRowsError, match="^Node 'rome' has fewer than min_rows=10"
    ):
        skgems.answer(request, clf, X[own], y[own], name="rome")
    assert not list((tmp_path / "replies").iterdir())
    with pytest.warns(UserWarning, match="'rome' answers with min_rows=1, but the"):
        skgems.answer(request, clf, X[own], y[own], name="rome", min_rows=1)
    assert len(list((tmp_path / "replies").iterdir())) == 1


def test_partial_files_of_killed_writes_are_removed(tmp_path):
    exchange = begun(tmp_path)
    partial = [
        tmp_path / ".exchange.json-abcdefgh",
        tmp_path / "requests" / ".001-lyon.safetensors-a_b3c4d5",
    ]
    replies = tmp_path / "replies"
    old, new, others = (
        replies / f".001-{name}.safetensors-abcdefg{k}"
        for k, name in enumerate(("lyon", "lyon", "rome"))
    )
    for path in (*partial, old, new, others):
        path.write_bytes(b"half")
    for path in (old, others):
        os.utime(path, (0, 0))
    skgems.Exchange(tmp_path).step()
    assert not any(path.exists() for path in partial)
    # Nodes may be writing their replies, of which one was begun long ago.
    assert old.exists() and new.exists()
    X, y, nodes = rows()
    own = nodes == "lyon"
    clf = classifiers(LINEAR)["lyon"]
    skgems.answer(exchange.waiting_for["lyon"], clf, X[own], y[own], name="lyon")
    assert not old.exists()
    assert new.exists() and others.exists()


@pytest.mark.filterwarnings("ignore::skgems.federation.ClassesLeftOutWarning")
def test_a_class_of_few_rows_is_left_out_of_every_message(tmp_path):
    X, y, nodes = rows()
    clfs = classifiers(LINEAR)
    few = np.flatnonzero((nodes == "rome") & (y == "c"))[9:]
    X, y, nodes = (np.delete(array, few, axis=0) for array in (X, y, nodes))
    agg = GEMSLogisticAggregator(n_rounds=3, epsilon=0.5, random_state=0)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    while (fitted := exchange.step()) is None:
        for name, request in exchange.waiting_for.items():
            own = X[nodes == name], y[nodes == name]
            skgems.answer(request, clfs[name], *own, name=name, radii=True)
    left = (nodes != "rome") | (y != "c")
    direct = clone(agg).set_params(estimators=list(clfs.items()))
    direct.fit(X[left], y[left], nodes=nodes[left])
    np.testing.assert_array_equal(fitted.coef_, direct.coef_)
    assert fitted.node_names_ == NAMES


def test_a_reply_must_be_of_what_was_asked(tmp_path):
    exchange = begun(tmp_path)
    X, y, nodes = rows()
    own = nodes == "lyon"
    clf = classifiers(LINEAR)["lyon"]
    request = exchange.waiting_for["lyon"]
    path = skgems.answer(request, clf, X[own], y[own], name="lyon")
    honest = Message.from_bytes(path.read_bytes())

    def sent(**changed):
        settings = {**honest.settings, **changed}
        envelope = dict(honest.envelope)
        told = Message(honest.task, settings, honest.arrays, envelope=envelope)
        path.write_bytes(told.to_bytes())

    settings = {**honest.settings["settings"], "min_cluster_size": 3}
    for changed, words in (
        ({"name": "rome"}, r"001-lyon.safetensors: summary.name is 'rome'"),
        ({"method": "PFNMAggregator"}, "summary.method is not what was asked"),
        ({"settings": settings}, "summary.settings is not what was asked"),
    ):
        sent(**changed)
        answered(exchange, classifiers(LINEAR), NAMES[1:])
        with pytest.raises(ValueError, match=words):
            exchange.step()
    sent()
    assert exchange.step() is None  # scores are asked for
    # All are asked the same: one's reply could stand for another's.
    answered(exchange, classifiers(LINEAR))
    replies = [
        tmp_path / "replies" / f"002-{name}.safetensors" for name in ("lyon", "rome")
    ]
    shutil.copy(*replies[::-1])
    with pytest.raises(ValueError, match="002-lyon.*: envelope.node is 'rome', not"):
        exchange.step()


def put(name, change):
    """Change a field that was told; None takes it away."""

    def changed(told, asked):
        value = change(told.get(name), asked) if callable(change) else change
        rest = {key: own for key, own in told.items() if key != name}
        return rest if value is None else rest | {name: value}

    return changed


def skewed(matrix, asked):
    return matrix + np.triu(np.full(matrix.shape, matrix.max()), 1)


def of_features(told, asked):
    """Variances, where covariances were asked for."""
    sums = dict(told["moments"])
    matrix = ClassMoments.from_arrays(sums).scatter
    del sums["triangles"], sums["squares"]
    return told | {"moments": sums | {"scatter": np.einsum("gii->gi", matrix)}}


# For each task: how a reply is altered, and what is said of it.
REPLIES = {
    "further": {
        "evaluate": {
            "right are more than the": put("right", lambda v, _: v + 1e4),
        },
    },
    "consensus": {
        "evaluate": {
            "right are more than the": put("right", 1e4),
        },
        "score": {
            "score is there without rows": put("n_rows", 0),
        },
    },
    "hidden layers": {
        "neurons": {
            "precision is not symmetric": put("precision", skewed),
            "precision has negative squares": put("precision", lambda v, _: -v),
        },
        "moments": {
            "scatter is there, but 'shared' was asked for": of_features,
            "gradient is missing": put("factor", 1.0),
        },
    },
    "spaces": {
        "space": {
            "center is not the model itself": put("center", lambda v, _: 2 * v),
            "radii_score is 0": put("radii_score", lambda v, _: 0.5 * v),
            "family is 'diagonal', but": put("family", "diagonal"),
        },
    },
    "rounds": {
        "train": {
            "parameters are not 4 arrays": put("parameters", lambda v, _: v[:-1]),
        },
    },
}
CONSENSUS = GEMSLogisticAggregator(
    intersection="consensus", on_empty="ignore", random_state=0
)
ASKING = {
    "further": (GEMSLogisticAggregator(n_rounds=3, random_state=0), LINEAR),
    "consensus": (CONSENSUS, LINEAR),
    "hidden layers": CASES["hidden layers"],
    "spaces": (GEMSMLPAggregator(random_state=0, last_layer=CONSENSUS), NET),
    "rounds": CASES["rounds of networks"],
}


@pytest.mark.parametrize("name", REPLIES)
def test_fields_of_a_reply_must_go_together(name, tmp_path):
    agg, model = ASKING[name]
    left, locals_ = dict(REPLIES[name]), classifiers(model)
    exchange = begun(tmp_path, agg)
    while left:
        answered(exchange, locals_)
        request = exchange.waiting_for["lyon"]
        asked = Message.from_bytes(request.read_bytes())
        reply = tmp_path / "replies" / request.name
        honest = Message.from_bytes(reply.read_bytes())
        for words, change in left.pop(asked.task, {}).items():
            told = Message.of(asked.task, **change(honest.content, asked.content))
            reply.write_bytes(replace(told, envelope=honest.envelope).to_bytes())
            with pytest.raises(ValueError, match=rf"{reply}: {asked.task}\.{words}"):
                exchange.step()
        reply.write_bytes(honest.to_bytes())
        assert exchange.step() is None or not left


def test_rows_of_images_and_held_out_rows(tmp_path):
    agg = GEMSLogisticAggregator(epsilon=0.7, on_empty="ignore", random_state=0)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES, report=True)
    X, y, nodes = rows()
    held_out, locals_ = np.arange(len(y)) % 3 == 0, classifiers(LINEAR)
    while (fitted := exchange.step()) is None:
        for name, request in exchange.waiting_for.items():
            own = nodes == name
            skgems.answer(
                *(request, locals_[name], X[own], y[own]),
                name=name,
                held_out=held_out[own],
                radii=True,
            )
    direct = clone(agg).set_params(estimators=list(locals_.items()))
    direct.fit(X, y, nodes=nodes, held_out=held_out)
    assert np.array_equal(fitted.coef_, direct.coef_)
    assert fitted.node_scores_["n_rows"] == direct.node_scores_["n_rows"]


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
