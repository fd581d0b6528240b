# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that have rows and no classifier."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from helpers.agreements import trusting_reply
from helpers.labels import assert_same_labels
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
from skgems.asking import Message, Nodes, RepliesMissingError, RowsAlone
from skgems.channels import Folder
from skgems.gems import Moments, Rounds
from skgems.guard import reply_to
from skgems.messages import asks
from skgems.parties import Summary
from skgems.steps import RandomFeatures

pytestmark = pytest.mark.usefixtures("accepting_nodes")


def rows(seed=0):
    """400 rows of four features, about one center for each of three classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(400) % 3
    X = rng.normal(size=(400, 4)) + 1.5 * np.eye(3, 4)[y]
    return X, np.array(["ant", "bee", "cat"])[y]


X, Y = rows()
# The last node has one class only.
NODES = np.where(Y == "cat", 2, np.arange(len(Y)) % 2)
NAMES = ["lyon", "paris", "nice"]
NAMED = np.array(NAMES)[NODES]


def members_without_classifiers_at(*alone):
    """Members by name; those named in ``alone`` have no classifier."""
    members = []
    for name in NAMES:
        # The rows in Nice are of one class, which a logistic regression does not fit.
        classifier = DummyClassifier() if name == "nice" else LogisticRegression()
        is_of_node = name == NAMED
        classifier.fit(X[is_of_node], Y[is_of_node])
        members.append((name, None if name in alone else classifier))
    return members


@pytest.fixture(scope="module")
def aggregate_of_rows_alone():
    """An aggregate of nodes none of which has a classifier."""
    agg = GEMSLogisticAggregator([(name, None) for name in NAMES], random_state=0)
    return agg.fit(X, Y, nodes=NAMED)


@pytest.fixture(scope="module")
def pooled_classifier():
    """A logistic regression of the rows of all nodes."""
    return LogisticRegression().fit(X, Y)


def test_the_likeliest_model_of_rows_alone_is_nearly_that_of_all_rows(
    aggregate_of_rows_alone, pooled_classifier
):
    agg = aggregate_of_rows_alone
    X_test, y_test = rows(seed=1)
    assert agg.classes_.tolist() == ["ant", "bee", "cat"]
    accuracy_of_pooled = pooled_classifier.score(X_test, y_test)
    assert abs(agg.score(X_test, y_test) - accuracy_of_pooled) < 0.02
    P_pooled = pooled_classifier.predict_proba(X_test)
    assert np.abs(agg.predict_proba(X_test) - P_pooled).mean() < 0.03
    assert not agg.exact_


def test_nodes_of_rows_alone_have_no_local_score(aggregate_of_rows_alone):
    assert np.isnan(aggregate_of_rows_alone.node_scores_["local"]).all()


def test_an_aggregate_of_rows_alone_can_be_pickled(aggregate_of_rows_alone):
    unpickled = pickle.loads(pickle.dumps(aggregate_of_rows_alone))
    assert_same_labels(unpickled, aggregate_of_rows_alone, X)


def test_nodes_of_rows_alone_need_no_names(aggregate_of_rows_alone):
    unnamed = GEMSLogisticAggregator([None] * 3, random_state=0)
    unnamed.fit(X, Y, nodes=NODES)
    np.testing.assert_array_equal(unnamed.coef_, aggregate_of_rows_alone.coef_)


def test_an_aggregate_of_rows_alone_can_be_cross_validated(
    aggregate_of_rows_alone, pooled_classifier
):
    scores = cross_val_score(
        clone(aggregate_of_rows_alone), X, Y, params={"nodes": NAMED}, cv=3
    )
    assert scores.mean() > pooled_classifier.score(X, Y) - 0.05


def test_rows_alone_count_beside_classifiers():
    members = members_without_classifiers_at("paris", "nice")
    agg = GEMSLogisticAggregator(members, random_state=0).fit(X, Y, nodes=NAMED)
    of_lyon_only = GEMSLogisticAggregator(members[:1], random_state=0)
    of_lyon_only.fit(X[NODES == 0], Y[NODES == 0])
    # Lyon has no rows of the third class.
    assert agg.score(X, Y) > of_lyon_only.score(X, Y) + 0.2
    is_without_score = np.isnan(agg.node_scores_["local"])
    assert is_without_score.tolist() == [False, True, True]


def test_rows_alone_are_fitted_as_the_classifiers_of_other_nodes():
    members = [(name, None) for name in NAMES]
    members[0] = ("lyon", RidgeClassifier().fit(X[NODES == 0], Y[NODES == 0]))
    agg = GEMSLogisticAggregator(members).fit(X, Y, nodes=NAMED)
    pooled = RidgeClassifier().fit(X, Y)
    assert agg.exact_
    assert_same_labels(agg, pooled, X)


def test_files_of_rows_alone_give_the_bits_of_a_fit_on_rows(tmp_path):
    agg = GEMSLogisticAggregator(random_state=0)
    members = members_without_classifiers_at("paris", "nice")
    by_rows = clone(agg).set_params(estimators=members).fit(X, Y, nodes=NAMED)
    paths = []
    for name, clf in members:
        paths.append(tmp_path / name)
        is_of_node = NAMED == name
        summary = agg.summarize(
            clf, X[is_of_node], Y[is_of_node], name=name, disclosure=None
        )
        summary.save(paths[-1])
        assert Summary.load(paths[-1]).network.has_classifier == (clf is not None)
    by_files = clone(agg).set_params(estimators=paths).fit()
    np.testing.assert_array_equal(by_files.coef_, by_rows.coef_)
    region = agg.merge_summaries(paths, name="north")
    agg.set_params(estimators=[region]).fit()
    assert np.mean(agg.predict(X) == by_rows.predict(X)) > 0.97


def test_rows_alone_take_part_in_rounds():
    members = members_without_classifiers_at("paris", "nice")
    agg = GEMSLogisticAggregator(members, n_rounds=3, random_state=0)
    assert agg.fit(X, Y, nodes=NAMED).score(X, Y) > 0.7


def test_a_node_of_rows_alone_replies_that_its_network_has_no_output():
    reply = reply_to(Message.of("describe"), None, X, Y, name="lyon")
    assert reply.content["network"]["output"] == "none"


def test_a_summary_of_rows_alone_has_no_gradient():
    agg = GEMSLogisticAggregator(random_state=0, moments=Moments(n_components=1))
    summary = agg.summarize(None, X, Y, name="lyon")
    # There is no model whose loss has a gradient.
    assert "gradient" not in summary.message.content["answers"]["0"]["reply"]


def test_rows_alone_may_come_in_chunks_and_frames():
    agg = GEMSLogisticAggregator(random_state=0, moments=Moments(n_components=1))
    at_once = agg.summarize(None, X, Y, name="lyon")
    in_chunks = agg.summarize(None, name="lyon", chunks=lambda: iter([(X, Y)]))
    X_frame = pd.DataFrame(X, columns=list("abcd"))
    of_frame = agg.summarize(None, X_frame, Y, name="lyon")
    assert of_frame.network.feature_names_in.tolist() == list("abcd")
    expected = clone(agg).set_params(estimators=[at_once]).fit()
    for summary in (in_chunks, of_frame):
        aggregate = clone(agg).set_params(estimators=[summary]).fit()
        np.testing.assert_allclose(
            aggregate.coef_, expected.coef_, rtol=1e-5, atol=1e-7
        )


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
def test_an_aggregator_that_needs_classifiers_names_a_node_without_one(agg):
    agg.set_params(estimators=members_without_classifiers_at("paris"))
    with pytest.raises(TypeError, match="'paris' has no classifier, but"):
        agg.fit(X, Y, nodes=NAMED)
    if hasattr(agg, "summarize") and getattr(agg, "n_rounds", 1) == 1:
        with pytest.raises(TypeError, match="'oslo' has no classifier, but"):
            agg.summarize(None, X, Y, name="oslo")


def test_an_error_names_a_node_of_rows_alone_whose_rows_are_missing():
    agg = GEMSLogisticAggregator(
        members_without_classifiers_at("paris"), random_state=0
    )
    words = "'paris' has no classifier, so fit needs the rows"
    with pytest.raises(ValueError, match=words):
        agg.fit()
    with pytest.raises(ValueError, match=words):
        agg.fit(X, Y)
    is_elsewhere = NODES != 1
    with pytest.raises(ValueError, match="'paris'"):
        agg.fit(X[is_elsewhere], Y[is_elsewhere], nodes=NAMED[is_elsewhere])


def test_good_enough_spaces_need_the_classifiers_of_all_nodes():
    agg = GEMSLogisticAggregator(
        members_without_classifiers_at("paris"), random_state=0
    )
    agg.fit(X, Y, nodes=NAMED)
    with pytest.raises(TypeError, match="'paris' has no classifier, but"):
        agg.good_enough_spaces(X, Y, nodes=NAMED)


def test_rows_alone_and_unfitted_classifiers_are_not_mixed():
    members = [("lyon", LogisticRegression()), ("paris", None)]
    words = r"mixes fitted and unfitted .*\['paris'\] are fitted or have none, .*lyon"
    with pytest.raises(ValueError, match=words):
        GEMSLogisticAggregator(members, random_state=0).fit(X, Y)


def test_nodes_of_rows_alone_can_be_added_and_forgotten():
    agg = GEMSLogisticAggregator(
        members_without_classifiers_at("paris", "nice")[:2],
        keep_replies=True,
        random_state=0,
    )
    is_old = NODES != 2
    agg.fit(X[is_old], Y[is_old], nodes=NAMED[is_old])
    coef_without_nice = agg.coef_
    agg.update([("nice", None)], X[~is_old], Y[~is_old])
    of_all = clone(agg).set_params(
        estimators=members_without_classifiers_at("paris", "nice")
    )
    of_all.fit(X, Y, nodes=NAMED)
    np.testing.assert_array_equal(agg.coef_, of_all.coef_)
    np.testing.assert_array_equal(agg.forget("nice").coef_, coef_without_nice)


def test_the_command_answers_without_a_model(tmp_path):
    from skgems._cli import main

    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=Y)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    folder = str(tmp_path / "work")
    start = ["start", folder, "--method", "pooled", "--nodes", "lyon"]
    assert main([*start, "--set", "pooled=GaussianNB"]) == 0
    request = next((tmp_path / "work" / "requests").iterdir())
    arguments = [
        "--rows",
        str(tmp_path / "rows.csv"),
        "--label",
        "label",
        "--name",
        "lyon",
    ]
    assert main(["answer", str(request), *arguments, "--yes"]) == 0
    out = str(tmp_path / "model.joblib")
    assert main(["combine", folder, "--out", out]) == 0
    joblib = pytest.importorskip("joblib")
    classifier = joblib.load(out)
    assert type(classifier).__name__ == "GaussianNB"
    assert classifier.classes_.tolist() == ["ant", "bee", "cat"]


# ---- classifiers that are left aside -------------------------------------------


def channel_to(members, exchanged=None):
    """A channel to nodes with these classifiers, by name.

    Each request and its reply are added to the list ``exchanged``.
    """

    def ask(requests):
        replies = {}
        for name, request in requests.items():
            is_of_node = name == NAMED
            reply = reply_to(
                request.to_bytes(),
                members[name],
                X[is_of_node],
                Y[is_of_node],
                name=name,
            )
            replies[name] = Message.from_bytes(reply)
            if exchanged is not None:
                exchanged.append((request, replies[name]))
        return replies

    return Nodes(ask, NAMES)


def unusable_classifiers():
    """Classifiers that cannot be used: no linear models, or of other features."""
    return {
        "lyon": RandomForestClassifier(3, random_state=0).fit(X, Y),
        "paris": LogisticRegression().fit(X[:, :2], Y),
        "nice": None,
    }


@pytest.fixture(scope="module")
def exchanged_and_aggregate():
    """Requests with their replies, and the aggregate of a channel of rows alone."""
    exchanged = []
    channel = RowsAlone(channel_to(unusable_classifiers(), exchanged))
    return exchanged, GEMSLogisticAggregator(channel, random_state=0).fit()


@pytest.fixture(scope="module")
def aggregate_without_classifiers():
    """The aggregate of a channel to nodes that have no classifiers."""
    channel = channel_to(dict.fromkeys(NAMES))
    return GEMSLogisticAggregator(channel, random_state=0).fit()


def test_a_channel_may_leave_classifiers_aside(
    exchanged_and_aggregate, aggregate_without_classifiers
):
    exchanged, agg = exchanged_and_aggregate
    np.testing.assert_array_equal(agg.coef_, aggregate_without_classifiers.coef_)
    requests_and_replies = [pair for pair in exchanged if pair[0].task == "join"]
    assert len(requests_and_replies) == len(NAMES)
    for request, reply in requests_and_replies:
        assert request.content["rows_alone"]
        assert "not its classifier" in str(asks(request))
        assert reply.content["describe"]["network"]["output"] == "none"


def test_scores_are_asked_for_with_classifiers_left_aside(exchanged_and_aggregate):
    exchanged, agg = exchanged_and_aggregate
    agg.ask_scores()
    last_request, _ = exchanged[-1]
    assert last_request.task == "score"
    assert last_request.content["rows_alone"]
    assert np.isnan(agg.node_scores_["local"]).all()


def test_a_channel_that_leaves_nothing_aside_names_an_unusable_classifier():
    with pytest.raises(TypeError, match="'lyon'"):
        GEMSLogisticAggregator(channel_to(unusable_classifiers()), random_state=0).fit()


def test_a_channel_of_rows_alone_shows_the_channel_inside():
    channel = RowsAlone(channel_to(unusable_classifiers()))
    assert repr(channel).startswith("RowsAlone(Nodes(")
    assert channel.names == NAMES


def test_an_aggregate_over_a_channel_of_rows_alone_can_be_pickled(
    exchanged_and_aggregate,
):
    _, agg = exchanged_and_aggregate
    unpickled = pickle.loads(pickle.dumps(agg))
    assert_same_labels(unpickled, agg, X)


def test_a_channel_of_rows_alone_answers_from_its_records(exchanged_and_aggregate):
    exchanged, agg = exchanged_and_aggregate
    n_exchanged = len(exchanged)
    clone(agg).fit()
    assert len(exchanged) == n_exchanged


def test_a_folder_may_leave_classifiers_aside(tmp_path, aggregate_without_classifiers):
    members = unusable_classifiers()
    folder = tmp_path / "folder"
    while True:
        channel = RowsAlone(Folder(folder, NAMES))
        try:
            agg = GEMSLogisticAggregator(channel, random_state=0).fit()
            break
        except RepliesMissingError as missing:
            for name, path in missing.requests.items():
                is_of_node = name == NAMED
                answer(
                    path,
                    members[name],
                    X[is_of_node],
                    Y[is_of_node],
                    name=name,
                    state=tmp_path / name,
                )
    assert Folder(folder).agreement == channel.agreement
    np.testing.assert_array_equal(agg.coef_, aggregate_without_classifiers.coef_)


def test_replies_with_and_without_classifiers_are_kept_apart():
    members = {
        name: LogisticRegression(C=1e-3).fit(X[k::4], Y[k::4])
        for k, name in enumerate(NAMES)
    }
    channel = channel_to(members)
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


def rows_at(name):
    """The rows of a node, and their labels."""
    return X[NAMED == name], Y[NAMED == name]


def classifiers_that_do_not_fit_a_front():
    """Classifiers of three of the features, and a forest."""
    classifiers = {
        name: LogisticRegression().fit(rows_at(name)[0][:, :3], rows_at(name)[1])
        for name in NAMES[:2]
    }
    classifiers["nice"] = RandomForestClassifier(2).fit(X, Y)
    return classifiers


def pooled_behind(front):
    """A pooled discriminant analysis of rows that go through a front."""
    return PooledAggregator(pooled=LinearDiscriminantAnalysis(), front=front)


@pytest.fixture(scope="module", params=FRONTS)
def front(request):
    """A front that is not fitted."""
    return FRONTS[request.param]


@pytest.fixture(scope="module")
def front_and_expected(front):
    """The front fitted on all rows, and the classifier fitted behind it."""
    fitted_front = PooledTransformer(front).fit(X, nodes=NAMED)
    return fitted_front, pooled_behind(fitted_front).fit(X, Y, nodes=NAMED)


def check_same_classifier(agg, expected):
    """Classes are equal, and probabilities to rounding."""
    np.testing.assert_array_equal(agg.classes_, expected.classes_)
    np.testing.assert_allclose(
        agg.predict_proba(X), expected.predict_proba(X), atol=1e-12
    )


def test_a_pooled_fit_on_rows_behind_a_front_ignores_members(front_and_expected):
    fitted_front, expected = front_and_expected
    agg = pooled_behind(fitted_front)
    agg.set_params(estimators=list(classifiers_that_do_not_fit_a_front().items()))
    check_same_classifier(agg.fit(X, Y, nodes=NAMED), expected)


def test_a_pooled_fit_on_files_behind_a_front_ignores_members(
    front_and_expected, tmp_path
):
    fitted_front, expected = front_and_expected
    agg = pooled_behind(fitted_front)
    for name, classifier in classifiers_that_do_not_fit_a_front().items():
        X_node, y_node = rows_at(name)
        summary = agg.summarize(classifier, X_node, y_node, name=name, disclosure=None)
        summary.save(tmp_path / name)
    agg.set_params(estimators=[tmp_path / name for name in NAMES]).fit()
    check_same_classifier(agg, expected)


def test_a_pooled_fit_by_an_exchange_behind_a_front_ignores_members(
    front, front_and_expected, tmp_path
):
    _, expected = front_and_expected
    classifiers = classifiers_that_do_not_fit_a_front()
    # The nodes fit this front in the exchange.
    exchange = Exchange(
        tmp_path / "exchange", pooled_behind(front), nodes=NAMES, disclosure=None
    )
    while (agg := exchange.step()) is None:
        for name, request in exchange.waiting_for.items():
            X_node, y_node = rows_at(name)
            answer(
                request,
                classifiers[name],
                X_node,
                y_node,
                name=name,
                disclosure=None,
            )
    check_same_classifier(agg, expected)


@pytest.mark.parametrize("keeps_state", [False, True])
def test_a_pooled_fit_over_a_channel_behind_a_front_ignores_members(
    front_and_expected, keeps_state
):
    fitted_front, expected = front_and_expected
    classifiers = classifiers_that_do_not_fit_a_front()
    ledgers = {}

    def ask(requests):
        replies = {}
        for name, request in requests.items():
            X_node, y_node = rows_at(name)
            options = {"name": name, "disclosure": None}
            if keeps_state:  # whose person has accepted the fitted front
                reply = partial(trusting_reply, ledgers=ledgers)
            else:
                reply = reply_to
            replies[name] = reply(request, classifiers[name], X_node, y_node, **options)
        return replies

    channel = Nodes(ask, NAMES, disclosure=None)
    agg = pooled_behind(fitted_front).set_params(estimators=channel).fit()
    check_same_classifier(agg, expected)


def test_classifiers_of_other_features_than_come_out_of_a_front_are_named():
    classifiers = {name: LogisticRegression().fit(*rows_at(name)) for name in NAMES[:2]}
    classifiers["nice"] = None
    wide = PooledTransformer(FRONTS["other features"]).fit(X, nodes=NAMED)
    words = "'lyon': its classifier was fitted on 4 features, but 24 come out of"
    agg = GEMSLogisticAggregator(channel_to(classifiers), front=wide, random_state=0)
    with pytest.raises(ValueError, match=words):
        agg.fit()
    with pytest.raises(ValueError, match=words):
        agg.set_params(estimators=list(classifiers.items())).fit(X, Y, nodes=NAMED)
    with pytest.raises(ValueError, match=words):
        agg.summarize(classifiers["lyon"], X, Y, name="lyon")


def test_a_classifier_of_rows_before_the_front_is_doubted_by_its_labels():
    """Where the front puts out as many features, nothing else tells it."""
    X_shifted = X + 100.0
    is_of_lyon = NAMED == "lyon"
    clf = LogisticRegression().fit(X_shifted[is_of_lyon], Y[is_of_lyon])
    front = PooledTransformer(StandardScaler()).fit(X_shifted, nodes=NAMED)
    is_wrong = clf.predict(front.transform(X_shifted)) != Y
    mostly_wrong = is_of_lyon & (is_wrong | (np.arange(len(Y)) % 4 == 0))
    X_wrong = X_shifted[mostly_wrong]
    y_wrong = Y[mostly_wrong]
    agg = GEMSLogisticAggregator(front=front, random_state=0)
    content = agg._agreed_terms.first_message().content
    request = Message.of("join", **content, front=front.as_front().as_content())
    words = "'lyon': after the front its classifier labels"
    with pytest.warns(UserWarning, match=words):
        reply_to(request, clf, X_wrong, y_wrong, name="lyon")
    with pytest.warns(UserWarning, match=words):
        agg.summarize(clf, X_wrong, y_wrong, name="lyon")
    # Warnings are errors here: none comes where the classifier is left aside.
    reply_to(request.with_fields(rows_alone=True), clf, X_wrong, y_wrong, name="lyon")


def test_fits_through_different_fronts_do_not_share_replies():
    channel = channel_to(dict.fromkeys(NAMES))
    front = PooledTransformer(MinMaxScaler(), bounds=(-100, 100)).fit(X, nodes=NAMED)
    through = GEMSLogisticAggregator(channel, front=front, random_state=0)
    first = clone(through).fit().coef_
    clone(through).set_params(front=None).fit()
    np.testing.assert_array_equal(clone(through).fit().coef_, first)
