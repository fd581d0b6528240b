# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that have rows and no classifier."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    Exchange,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
    PooledTransformer,
    answer,
)
from skgems.channels import Folder
from skgems.federation import (
    Message,
    Nodes,
    RepliesMissingError,
    RowsAlone,
    Summary,
    first_request,
    reply_to,
)
from skgems.gems import Rounds
from skgems.messages import asks
from skgems.steps import RandomFeatures


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
    rows_of_nodes = {name: (X[name == NAMED], Y[name == NAMED]) for name in NAMES}
    kinds = dict(
        zip(NAMES, [LogisticRegression()] * 2 + [DummyClassifier()], strict=True)
    )
    return [
        (name, None if name in alone else clone(kinds[name]).fit(*rows))
        for name, rows in rows_of_nodes.items()
    ]


def test_the_likeliest_model_of_rows_alone_is_nearly_that_of_all_rows():
    agg = GEMSLogisticAggregator([(name, None) for name in NAMES], random_state=0)
    agg.fit(X, Y, nodes=NAMED)
    pooled = LogisticRegression().fit(X, Y)
    X_new, y_new = rows(seed=1)
    assert agg.classes_.tolist() == ["ant", "bee", "cat"]
    assert abs(agg.score(X_new, y_new) - pooled.score(X_new, y_new)) < 0.02
    differences = agg.predict_proba(X_new) - pooled.predict_proba(X_new)
    assert np.abs(differences).mean() < 0.03
    assert not agg.exact_ and np.isnan(agg.node_scores_["local"]).all()
    again = pickle.loads(pickle.dumps(agg))
    np.testing.assert_array_equal(again.predict(X), agg.predict(X))
    unnamed = GEMSLogisticAggregator([None] * 3, random_state=0)
    unnamed.fit(X, Y, nodes=NODES)
    np.testing.assert_array_equal(unnamed.coef_, agg.coef_)
    scores = cross_val_score(clone(agg), X, Y, params={"nodes": NAMED}, cv=3)
    assert scores.mean() > pooled.score(X, Y) - 0.05


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
    pooled = RidgeClassifier().fit(X, Y)
    assert agg.exact_
    np.testing.assert_array_equal(agg.predict(X), pooled.predict(X))


@pytest.mark.parametrize("n_rounds", [1, 3])
def test_files_requests_and_rows_give_the_same(n_rounds, tmp_path):
    agg = GEMSLogisticAggregator(random_state=0, n_rounds=n_rounds)
    members = with_rows_alone("paris", "nice")
    by_rows = clone(agg).set_params(estimators=members).fit(X, Y, nodes=NAMED)
    if n_rounds == 1:
        paths = []
        for name, clf in members:
            paths.append(tmp_path / name)
            is_of_node = NAMED == name
            agg.summarize(clf, X[is_of_node], Y[is_of_node], name=name).save(paths[-1])
            assert Summary.load(paths[-1]).network.has_classifier == (clf is not None)
        by_files = clone(agg).set_params(estimators=paths).fit()
        np.testing.assert_array_equal(by_files.coef_, by_rows.coef_)
        region = agg.merge_summaries(paths, name="north")
        agg.set_params(estimators=[region]).fit()
        assert np.mean(agg.predict(X) == by_rows.predict(X)) > 0.97
    reply = reply_to(Message.of("describe"), None, X, Y, name="lyon")
    assert reply.content["network"]["output"] == "none"


def test_rows_alone_in_chunks_and_frames():
    agg = GEMSLogisticAggregator(random_state=0, n_components=1)
    at_once = agg.summarize(None, X, Y, name="lyon")
    # There is no model whose loss has a gradient.
    assert "gradient" not in at_once.message.content["answers"]["0"]["reply"]
    chunked = agg.summarize(None, name="lyon", chunks=lambda: iter([(X, Y)]))
    X_frame = pd.DataFrame(X, columns=list("abcd"))
    framed = agg.summarize(None, X_frame, Y, name="lyon")
    assert framed.network.feature_names_in.tolist() == list("abcd")
    for other_summary in (chunked, framed):
        one, other = (
            clone(agg).set_params(estimators=[summary]).fit()
            for summary in (other_summary, at_once)
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
    for rows_of_fit in ({}, {"X": X, "y": Y}):
        with pytest.raises(ValueError, match="'paris' has no classifier, so fit has"):
            agg.fit(**rows_of_fit)
    is_of_others = NODES != 1
    with pytest.raises(ValueError, match="'paris'"):
        agg.fit(X[is_of_others], Y[is_of_others], nodes=NAMED[is_of_others])
    agg.fit(X, Y, nodes=NAMED)
    with pytest.raises(TypeError, match="'paris' has no classifier, but"):
        agg.good_enough_spaces(X, Y, nodes=NAMED)
    agg.set_params(estimators=[("lyon", LogisticRegression()), ("paris", None)])
    message = r"mixes fitted and unfitted .*\['paris'\] are fitted or have none, .*lyon"
    with pytest.raises(ValueError, match=message):
        agg.fit(X, Y)


def test_rows_alone_come_and_go():
    agg = GEMSLogisticAggregator(
        with_rows_alone("paris", "nice")[:2], keep_replies=True, random_state=0
    )
    two = NODES != 2
    agg.fit(X[two], Y[two], nodes=NAMED[two])
    before = agg.coef_
    agg.update([("nice", None)], X[~two], Y[~two])
    with_all_nodes = clone(agg).set_params(estimators=with_rows_alone("paris", "nice"))
    with_all_nodes.fit(X, Y, nodes=NAMED)
    np.testing.assert_array_equal(agg.coef_, with_all_nodes.coef_)
    np.testing.assert_array_equal(agg.forget("nice").coef_, before)


def test_the_command_answers_without_a_model(tmp_path):
    from skgems._cli import main

    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=Y)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    folder = str(tmp_path / "work")
    start = ["start", folder, "--method", "pooled", "--nodes", "lyon"]
    assert main([*start, "--set", "pooled=GaussianNB"]) == 0
    request = next((tmp_path / "work" / "requests").iterdir())
    options = [
        "--rows",
        str(tmp_path / "rows.csv"),
        "--label",
        "label",
        "--name",
        "lyon",
    ]
    assert main(["answer", str(request), *options, "--yes"]) == 0
    out = str(tmp_path / "model.joblib")
    assert main(["combine", folder, "--out", out]) == 0
    joblib = pytest.importorskip("joblib")
    model = joblib.load(out)
    assert type(model).__name__ == "GaussianNB"
    assert model.classes_.tolist() == ["ant", "bee", "cat"]


# ---- classifiers that are left aside -------------------------------------------


def told_by(members, heard=None, **options):
    """A channel to nodes with these classifiers, by name."""

    def ask(requests):
        replies = {}
        for name, request in requests.items():
            is_of_node = name == NAMED
            reply_bytes = reply_to(
                request.to_bytes(),
                members[name],
                X[is_of_node],
                Y[is_of_node],
                name=name,
            )
            replies[name] = Message.from_bytes(reply_bytes)
            if heard is not None:
                heard.append((request, replies[name]))
        return replies

    return Nodes(ask, NAMES, **options)


def of_other_rows():
    """Classifiers that cannot be used: no linear models, or of other features."""
    return {
        "lyon": RandomForestClassifier(3, random_state=0).fit(X, Y),
        "paris": LogisticRegression().fit(X[:, :2], Y),
        "nice": None,
    }


def test_a_channel_may_leave_classifiers_aside(tmp_path):
    heard = []
    channel = RowsAlone(told_by(of_other_rows(), heard))
    agg = GEMSLogisticAggregator(channel, random_state=0).fit()
    alone = GEMSLogisticAggregator(told_by(dict.fromkeys(NAMES)), random_state=0).fit()
    np.testing.assert_array_equal(agg.coef_, alone.coef_)
    for request, reply in heard:
        assert request.content["rows_alone"] and "left aside" in str(asks(request))
        assert reply.content["describe"]["network"]["output"] == "none"
    agg.ask_scores()
    assert heard[-1][0].task == "score" and heard[-1][0].content["rows_alone"]
    assert np.isnan(agg.node_scores_["local"]).all()
    with pytest.raises(TypeError, match="'lyon'"):
        GEMSLogisticAggregator(told_by(of_other_rows()), random_state=0).fit()
    # The channel itself is none of it.
    assert repr(channel).startswith("RowsAlone(Nodes(") and channel.names == NAMES
    again = pickle.loads(pickle.dumps(agg))
    np.testing.assert_array_equal(again.predict(X), agg.predict(X))
    n_heard = len(heard)
    clone(agg).fit()  # of what is in its records
    assert len(heard) == n_heard


def test_a_folder_may_leave_classifiers_aside(tmp_path):
    members = of_other_rows()
    folder = tmp_path / "folder"
    while True:
        channel = RowsAlone(Folder(folder, NAMES))
        try:
            agg = GEMSLogisticAggregator(channel, random_state=0).fit()
            break
        except RepliesMissingError as missing:
            for name, path in missing.requests.items():
                answer(
                    path,
                    members[name],
                    X[name == NAMED],
                    Y[name == NAMED],
                    name=name,
                    state=tmp_path / name,
                )
    assert Folder(folder).agreement == channel.agreement
    alone = GEMSLogisticAggregator(told_by(dict.fromkeys(NAMES)), random_state=0).fit()
    np.testing.assert_array_equal(agg.coef_, alone.coef_)


def test_replies_with_and_without_classifiers_are_kept_apart():
    members = {
        name: LogisticRegression(C=1e-3).fit(X[k::4], Y[k::4])
        for k, name in enumerate(NAMES)
    }
    channel = told_by(members)
    looking = GEMSLogisticAggregator(channel, random_state=0)
    first = clone(looking).fit().coef_
    alone = clone(looking).set_params(estimators=RowsAlone(channel)).fit().coef_
    assert not np.allclose(first, alone)
    np.testing.assert_array_equal(clone(looking).fit().coef_, first)
    pooled = PooledAggregator(channel, pooled=LinearDiscriminantAnalysis()).fit()
    np.testing.assert_array_equal(clone(looking).fit().coef_, first)
    assert pooled.score(X, Y) > 0.7


FRONTS = {
    "other features": RandomFeatures(20, random_state=0),
    "as many features": StandardScaler(),
}


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("way", ["rows", "channel", "state", "exchange", "files"])
def test_a_pooled_classifier_does_not_look_at_members_before_a_front(
    front, way, tmp_path
):
    scaled = PooledTransformer(FRONTS[front]).fit(X, nodes=NAMED)
    agg = PooledAggregator(pooled=LinearDiscriminantAnalysis(), front=scaled)
    expected = clone(agg).fit(X, Y, nodes=NAMED)
    members = {
        name: LogisticRegression().fit(X[NAMED == name][:, :3], Y[NAMED == name])
        for name in NAMES[:2]
    } | {"nice": RandomForestClassifier(2).fit(X, Y)}
    states = {name: {} for name in NAMES}
    rows = {name: (X[NAMED == name], Y[NAMED == name]) for name in NAMES}
    if way == "rows":
        agg.set_params(estimators=list(members.items())).fit(X, Y, nodes=NAMED)
    elif way == "files":
        for name, member in members.items():
            agg.summarize(member, *rows[name], name=name).save(tmp_path / name)
        agg.set_params(estimators=[tmp_path / name for name in NAMES]).fit()
    elif way == "exchange":
        agg.set_params(front=FRONTS[front])  # fitted by the nodes
        exchange = Exchange(tmp_path / "exchange", agg, nodes=NAMES)
        while (fitted := exchange.step()) is None:
            for name, request in exchange.waiting_for.items():
                answer(request, members[name], *rows[name], name=name)
        agg = fitted
    else:

        def ask(requests):
            return {
                name: reply_to(
                    request,
                    members[name],
                    *rows[name],
                    name=name,
                    state=states[name] if way == "state" else None,
                )
                for name, request in requests.items()
            }

        agg.set_params(estimators=Nodes(ask, NAMES)).fit()
    np.testing.assert_array_equal(agg.classes_, expected.classes_)
    np.testing.assert_allclose(
        agg.predict_proba(X), expected.predict_proba(X), atol=1e-12
    )


def test_members_before_a_front_are_named_where_they_are_looked_at():
    raw = {
        name: LogisticRegression().fit(X[NAMED == name], Y[NAMED == name])
        for name in NAMES[:2]
    } | {"nice": None}
    wide = PooledTransformer(FRONTS["other features"]).fit(X, nodes=NAMED)
    words = "'lyon': its classifier was fitted on 4 features, but 24 come out of"
    agg = GEMSLogisticAggregator(told_by(raw), front=wide, random_state=0)
    with pytest.raises(ValueError, match=words):
        agg.fit()
    with pytest.raises(ValueError, match=words):
        agg.set_params(estimators=list(raw.items())).fit(X, Y, nodes=NAMED)
    with pytest.raises(ValueError, match=words):
        agg.summarize(raw["lyon"], X, Y, name="lyon")
    # Of as many features nothing but their labels tells it.
    shift = X + 100.0
    is_of_lyon = NAMED == "lyon"
    clf = LogisticRegression().fit(shift[is_of_lyon], Y[is_of_lyon])
    front = PooledTransformer(StandardScaler()).fit(shift, nodes=NAMED)
    predicted = clf.predict(front.transform(shift))
    mostly_wrong = is_of_lyon & ((predicted != Y) | (np.arange(len(Y)) % 4 == 0))
    agg = GEMSLogisticAggregator(front=front, random_state=0)
    content = first_request(agg, agg._first_requests()).content
    request = Message.of("join", **content, front=front.as_front().as_content())
    words = "'lyon': after the front its classifier labels"
    with pytest.warns(UserWarning, match=words):
        reply_to(request, clf, shift[mostly_wrong], Y[mostly_wrong], name="lyon")
    with pytest.warns(UserWarning, match=words):
        agg.summarize(clf, shift[mostly_wrong], Y[mostly_wrong], name="lyon")
    reply_to(
        request.with_fields(rows_alone=True),
        clf,
        shift[mostly_wrong],
        Y[mostly_wrong],
        name="lyon",
    )


def test_fits_through_different_fronts_do_not_share_replies():
    channel = told_by(dict.fromkeys(NAMES))
    front = PooledTransformer(MinMaxScaler(), bounds=(-100, 100)).fit(X, nodes=NAMED)
    through = GEMSLogisticAggregator(channel, front=front, random_state=0)
    first = clone(through).fit().coef_
    clone(through).set_params(front=None).fit()
    np.testing.assert_array_equal(clone(through).fit().coef_, first)
