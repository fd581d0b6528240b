# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that have rows and no classifier."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import cross_val_score

from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.federation import Message, Summary, reply_to
from skgems.gems import Rounds


def rows(n=400, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.normal(size=(n, d)) + 1.5 * np.eye(3, d)[y]
    return X, np.array(["ant", "bee", "cat"])[y]


X, Y = rows()
# The last node has one class only.
NODES = np.where(Y == "cat", 2, np.arange(len(Y)) % 2)
NAMES = ["lyon", "paris", "nice"]
NAMED = np.array(NAMES)[NODES]


def with_rows_alone(*alone):
    """Members by name, without a classifier where it says so."""
    own = {name: (X[name == NAMED], Y[name == NAMED]) for name in NAMES}
    kinds = dict(
        zip(NAMES, [LogisticRegression()] * 2 + [DummyClassifier()], strict=True)
    )
    return [
        (name, None if name in alone else clone(kinds[name]).fit(*rows))
        for name, rows in own.items()
    ]


def test_the_likeliest_model_of_rows_alone_is_nearly_that_of_all_rows():
    agg = GEMSLogisticAggregator([(name, None) for name in NAMES], random_state=0)
    agg.fit(X, Y, nodes=NAMED)
    whole, (more, labels) = LogisticRegression().fit(X, Y), rows(seed=1)
    assert agg.classes_.tolist() == ["ant", "bee", "cat"]
    assert abs(agg.score(more, labels) - whole.score(more, labels)) < 0.02
    away = agg.predict_proba(more) - whole.predict_proba(more)
    assert np.abs(away).mean() < 0.03
    assert not agg.exact_ and np.isnan(agg.node_scores_["local"]).all()
    again = pickle.loads(pickle.dumps(agg))
    np.testing.assert_array_equal(again.predict(X), agg.predict(X))
    unnamed = GEMSLogisticAggregator([None] * 3, random_state=0)
    unnamed.fit(X, Y, nodes=NODES)
    np.testing.assert_array_equal(unnamed.coef_, agg.coef_)
    scores = cross_val_score(clone(agg), X, Y, params={"nodes": NAMED}, cv=3)
    assert scores.mean() > whole.score(X, Y) - 0.05


def test_rows_alone_count_beside_classifiers():
    members = with_rows_alone("paris", "nice")
    agg = GEMSLogisticAggregator(members, random_state=0).fit(X, Y, nodes=NAMED)
    without = GEMSLogisticAggregator(members[:1], random_state=0)
    without.fit(X[NODES == 0], Y[NODES == 0])
    assert agg.score(X, Y) > without.score(X, Y) + 0.2
    local = agg.node_scores_["local"]
    assert np.isnan(local).tolist() == [False, True, True]
    # What the others were fitted as is what all are.
    ridges = [(name, None) for name in NAMES]
    ridges[0] = "lyon", RidgeClassifier().fit(X[NODES == 0], Y[NODES == 0])
    agg = GEMSLogisticAggregator(ridges).fit(X, Y, nodes=NAMED)
    whole = RidgeClassifier().fit(X, Y)
    assert agg.exact_
    np.testing.assert_array_equal(agg.predict(X), whole.predict(X))


@pytest.mark.parametrize("n_rounds", [1, 3])
def test_files_requests_and_rows_give_the_same(n_rounds, tmp_path):
    agg = GEMSLogisticAggregator(random_state=0, n_rounds=n_rounds)
    members = with_rows_alone("paris", "nice")
    by_rows = clone(agg).set_params(estimators=members).fit(X, Y, nodes=NAMED)
    if n_rounds == 1:
        sent = []
        for name, clf in members:
            sent.append(tmp_path / name)
            own = NAMED == name
            agg.summarize(clf, X[own], Y[own], name=name).save(sent[-1])
            assert Summary.load(sent[-1]).network.has_classifier == (clf is not None)
        by_files = clone(agg).set_params(estimators=sent).fit()
        np.testing.assert_array_equal(by_files.coef_, by_rows.coef_)
        region = agg.merge_summaries(sent, name="north")
        agg.set_params(estimators=[region]).fit()
        assert np.mean(agg.predict(X) == by_rows.predict(X)) > 0.97
    reply = reply_to(Message.of("describe"), None, X, Y, name="lyon")
    assert reply.content["network"]["output"] == "none"


def test_rows_alone_in_chunks_and_frames():
    agg = GEMSLogisticAggregator(random_state=0, n_components=1)
    whole = agg.summarize(None, X, Y, name="lyon")
    # There is no model whose loss has a gradient.
    assert "gradient" not in whole.message.content["answers"]["0"]["reply"]
    told = agg.summarize(None, name="lyon", chunks=lambda: iter([(X, Y)]))
    X_frame = pd.DataFrame(X, columns=list("abcd"))
    framed = agg.summarize(None, X_frame, Y, name="lyon")
    assert framed.network.feature_names_in.tolist() == list("abcd")
    for summary in (told, framed):
        one, other = (
            clone(agg).set_params(estimators=[own]).fit() for own in (summary, whole)
        )
        np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "agg",
    [
        GEMSLogisticAggregator(epsilon=0.5),
        GEMSLogisticAggregator(intersection="consensus"),
        GEMSLogisticAggregator(n_rounds=Rounds(2, candidates=["average"])),
        GEMSMLPAggregator(),
        PFNMAggregator(),
        ModelAveragingAggregator(),
        EnsembleAggregator(),
        DistillationAggregator(),
    ],
    ids=lambda agg: type(agg).__name__,
)
def test_who_needs_classifiers_says_which_node_has_none(agg):
    agg.set_params(estimators=with_rows_alone("paris"))
    with pytest.raises(TypeError, match="'paris' has no classifier, but"):
        agg.fit(X, Y, nodes=NAMED)
    if hasattr(agg, "summarize") and getattr(agg, "n_rounds", 1) == 1:
        with pytest.raises(TypeError, match="'oslo' has no classifier, but"):
            agg.summarize(None, X, Y, name="oslo")


def test_what_is_missing_is_said():
    agg = GEMSLogisticAggregator(with_rows_alone("paris"), random_state=0)
    for given in ({}, {"X": X, "y": Y}):
        with pytest.raises(ValueError, match="'paris' has no classifier, so fit has"):
            agg.fit(**given)
    own = NODES != 1
    with pytest.raises(ValueError, match="'paris'"):
        agg.fit(X[own], Y[own], nodes=NAMED[own])
    agg.fit(X, Y, nodes=NAMED)
    with pytest.raises(TypeError, match="'paris' has no classifier, but"):
        agg.good_enough_spaces(X, Y, nodes=NAMED)
    agg.set_params(estimators=[("lyon", LogisticRegression()), ("paris", None)])
    with pytest.raises(ValueError, match="mixes fitted and unfitted"):
        agg.fit(X, Y)


def test_rows_alone_come_and_go():
    agg = GEMSLogisticAggregator(
        with_rows_alone("paris", "nice")[:2], keep_replies=True, random_state=0
    )
    two = NODES != 2
    agg.fit(X[two], Y[two], nodes=NAMED[two])
    before = agg.coef_
    agg.update([("nice", None)], X[~two], Y[~two])
    whole = clone(agg).set_params(estimators=with_rows_alone("paris", "nice"))
    whole.fit(X, Y, nodes=NAMED)
    np.testing.assert_array_equal(agg.coef_, whole.coef_)
    np.testing.assert_array_equal(agg.forget("nice").coef_, before)


def test_the_command_answers_without_a_model(tmp_path):
    from skgems._cli import main

    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=Y)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    folder = str(tmp_path / "work")
    start = ["start", folder, "--method", "pooled", "--nodes", "lyon"]
    assert main([*start, "--set", "pooled=GaussianNB"]) == 0
    request = next((tmp_path / "work" / "requests").iterdir())
    told = ["--rows", str(tmp_path / "rows.csv"), "--label", "label", "--name", "lyon"]
    assert main(["answer", str(request), *told, "--yes"]) == 0
    out = str(tmp_path / "model.joblib")
    assert main(["combine", folder, "--out", out]) == 0
    joblib = pytest.importorskip("joblib")
    found = joblib.load(out)
    assert type(found).__name__ == "GaussianNB"
    assert found.classes_.tolist() == ["ant", "bee", "cat"]
