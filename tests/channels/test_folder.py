# SPDX-License-Identifier: BSD-3-Clause
"""A node's side of fits over a folder: what it answers, writes and refuses."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

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
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

import skgems
from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.channels import inspect
from skgems.federation import Message, NotAgreedError, Summary
from skgems.local import TooFewRowsError
from skgems.moments import ClassMoments, class_moments

pytestmark = pytest.mark.filterwarnings("ignore::skgems.federation.RowsExposedWarning")


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
