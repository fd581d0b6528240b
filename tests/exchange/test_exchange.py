# SPDX-License-Identifier: BSD-3-Clause
"""Fits over a folder of requests and replies."""

from __future__ import annotations

import json
import shutil
import warnings
from functools import cache

import numpy as np
import pytest
from common_fitted import once
from sklearn.base import clone
from sklearn.covariance import LedoitWolf
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
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
)
from skgems.federation import Message, TooFewNodes
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


def answered(exchange, locals_, names=None, **options):
    """Have nodes answer all that waits for them."""
    X, y, nodes = rows()
    for name, request in exchange.waiting_for.items():
        if names is None or name in names:
            own = X[nodes == name], y[nodes == name]
            skgems.answer(request, locals_[name], *own, name=name, **options)


def run(folder, agg, locals_):
    """A whole exchange; the server is started anew for each step."""
    exchange, steps = skgems.Exchange(folder, agg, nodes=NAMES), 0
    while (fitted := exchange.step()) is None:
        answered(exchange, locals_)
        exchange, steps = skgems.Exchange(folder), steps + 1
        assert steps < 40
    return fitted


LINEAR = LogisticRegression()
NET = MLPClassifier((6,), max_iter=60, learning_rate_init=0.01, random_state=0)
CASES = {
    "one message": (GEMSLogisticAggregator(epsilon=0.8, random_state=0), LINEAR),
    "the pooled model": (
        GEMSLogisticAggregator(
            pooled=RidgeClassifier(alpha=2.0, class_weight={"b": 2.0}), random_state=0
        ),
        LINEAR,
    ),
    "more messages": (
        GEMSLogisticAggregator(
            n_rounds=3, candidates=["lda", "consensus"], random_state=0
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
            n_rounds=2, epsilon=0.6, min_rows=25, on_empty="ignore", random_state=0
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
    tasks = [entry["task"] for entry in direct.history_]
    assert [entry["task"] for entry in fitted.history_] == tasks
    if hasattr(direct, "node_scores_"):
        ours, theirs = fitted.node_scores_, direct.node_scores_
        np.testing.assert_array_equal(ours["local"], theirs["local"])
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
    shutil.copy(replies / "001-rome.safetensors", replies / "002-rome.safetensors")
    assert exchange.step() is None
    assert exchange.waiting_for == second
    assert "002-rome.safetensors replies to another request" in exchange.notes[0]
    answered(exchange, locals_)
    while (fitted := exchange.step()) is None:
        answered(exchange, locals_)
    X, y, nodes = rows()
    direct = clone(agg).set_params(estimators=list(locals_.items()))
    direct.fit(X, y, nodes=nodes)
    assert np.array_equal(fitted.coef_, direct.coef_)


def test_nodes_are_left_out_of_the_first_message(tmp_path):
    agg = GEMSLogisticAggregator(random_state=0)
    locals_ = classifiers(LINEAR)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    exchange.step()
    answered(exchange, locals_, NAMES[:2])
    while (fitted := exchange.step(leave_out=["rome"])) is None:
        answered(exchange, locals_)
    X, y, nodes = rows()
    there = nodes != "rome"
    direct = clone(agg).set_params(estimators=list(locals_.items())[:2])
    direct.fit(X[there], y[there], nodes=nodes[there])
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
    with pytest.warns(UserWarning, match="'rome' failed twice in message 1"):
        assert exchange.step(leave_out=["rome"]) is None
    assert list(exchange.waiting_for) == NAMES  # back in the next round
    answered(exchange, locals_)
    with pytest.warns(UserWarning, match="the server goes on without it"):
        fitted = exchange.step()
    assert [entry["left_out"] for entry in fitted.history_] == [["rome"], []]


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
    skgems.Exchange(tmp_path, agg, nodes=NAMES)
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
            GEMSLogisticAggregator(
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


# ---- the node's side ---------------------------------------------------------------


def begun(tmp_path, agg=None):
    agg = GEMSLogisticAggregator(random_state=0) if agg is None else agg
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    exchange.step()
    return exchange


def test_a_request_is_for_one_node(tmp_path):
    exchange = begun(tmp_path)
    X, y, nodes = rows()
    clf = classifiers(LINEAR)["lyon"]
    with pytest.raises(ValueError, match="for node 'lyon', not for 'nice'"):
        skgems.answer(exchange.waiting_for["lyon"], clf, X, y, name="nice")


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
    own = np.flatnonzero(nodes == "rome")[:20]
    clf = LogisticRegression().fit(X[own], y[own])
    request = exchange.waiting_for["rome"]
    with pytest.raises(ValueError, match="'rome' has fewer than min_rows=10 rows"):
        skgems.answer(request, clf, X[own], y[own], name="rome")
    assert not list((tmp_path / "replies").iterdir())
    skgems.answer(request, clf, X[own], y[own], name="rome", min_rows=2)
    assert len(list((tmp_path / "replies").iterdir())) == 1


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

    settings = {**honest.settings["settings"], "n_directions": 3}
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


def test_rows_of_images_and_held_out_rows(tmp_path):
    agg = GEMSLogisticAggregator(epsilon=0.7, on_empty="ignore", random_state=0)
    exchange = begun(tmp_path, agg)
    X, y, nodes = rows()
    held_out, locals_ = np.arange(len(y)) % 3 == 0, classifiers(LINEAR)
    while (fitted := exchange.step()) is None:
        for name, request in exchange.waiting_for.items():
            own = nodes == name
            skgems.answer(
                *(request, locals_[name], X[own], y[own]),
                name=name,
                held_out=held_out[own],
            )
    direct = clone(agg).set_params(estimators=list(locals_.items()))
    direct.fit(X, y, nodes=nodes, held_out=held_out)
    assert np.array_equal(fitted.coef_, direct.coef_)
    assert fitted.node_scores_["n_rows"] == direct.node_scores_["n_rows"]
