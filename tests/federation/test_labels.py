# SPDX-License-Identifier: BSD-3-Clause
"""Rows whose labels are not those that the node's own classifier was fitted on."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import skgems
from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
    PooledAggregator,
    combine,
)
from skgems.federation import (
    ClassesLeftOutWarning,
    Message,
    Nodes,
    Summary,
    UnseenClassesWarning,
    reply_to,
)

CLASSES = np.array(["ill", "well"])


def node_rows(n=80, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 2
    return rng.normal(size=(n, 2)) + 2.0 * codes[:, None], codes


X, CODES = node_rows()
CLF = LogisticRegression().fit(X, CLASSES[CODES])


def summarized(y):
    return GEMSLogisticAggregator(random_state=0).summarize(CLF, X, y, name="lyon")


def summarized_in_chunks(y):
    def chunks():  # each of which has a single label
        return iter([(X[CODES == k], y[CODES == k]) for k in (0, 1)])

    agg = GEMSLogisticAggregator(random_state=0)
    return agg.summarize(CLF, name="lyon", chunks=chunks)


def summarized_for_an_average(y):
    return ModelAveragingAggregator().summarize(CLF, X, y, name="lyon")


def summarized_for_a_pooled_classifier(y):
    agg = PooledAggregator(pooled=GaussianNB())
    return agg.summarize(CLF, X, y, name="lyon")


def replied(y):
    return reply_to(Message.of("counts"), CLF, X, y, name="lyon")


def fitted_over_a_channel(y):
    def ask(requests):
        return {
            name: reply_to(request, CLF, X, y, name=name)
            for name, request in requests.items()
        }

    return GEMSLogisticAggregator(Nodes(ask, ["lyon"]), random_state=0).fit()


def fitted_in_one_process(y):
    nodes = np.full(len(y), "lyon")
    return GEMSLogisticAggregator([("lyon", CLF)]).fit(X, y, nodes=nodes)


def combined(y):
    nodes = np.full(len(y), "lyon")
    return combine([("lyon", CLF)], X, y, nodes, budget="small")


DOORS = [
    summarized,
    summarized_in_chunks,
    summarized_for_an_average,
    summarized_for_a_pooled_classifier,
    replied,
    fitted_over_a_channel,
    fitted_in_one_process,
    combined,
]
UNLIKE = {
    "codes": (CODES, "0, 1", "look like codes"),
    "truth values": (CODES == 1, "False, True", "look like codes"),
    "a blank": (np.char.add(CLASSES, " ")[CODES], "'ill ', 'well '", "in blanks"),
    "capitals": (np.char.upper(CLASSES)[CODES], "'ILL', 'WELL'", "only in case"),
    "words": (np.array(["good", "bad"])[CODES], "'bad', 'good'", "fit the classifier"),
}


@pytest.mark.parametrize("labels", UNLIKE)
@pytest.mark.parametrize("door", DOORS)
def test_rows_of_none_of_the_labels_are_refused_at_the_node(door, labels):
    y, labels_in_words, advice = UNLIKE[labels]
    with pytest.raises(ValueError) as refused:
        door(y)
    text = str(refused.value)
    assert text.startswith("Node 'lyon': its classifier has seen none of the labels")
    assert f"The rows have the labels {labels_in_words}; " in text
    assert "was fitted on the classes 'ill', 'well'. " in text and advice in text


def test_files_of_an_exchange_are_refused_at_the_node(tmp_path):
    agg = GEMSLogisticAggregator(random_state=0)
    exchange = skgems.Exchange(tmp_path, agg, nodes=["lyon"])
    exchange.step()
    with pytest.raises(ValueError, match="Node 'lyon': its classifier has seen none"):
        skgems.answer(exchange.waiting_for["lyon"], CLF, X, CODES, name="lyon")
    assert list((tmp_path / "replies").iterdir()) == []


@pytest.mark.parametrize("kind", [int, float, bool])
@pytest.mark.parametrize("other", [int, float, bool])
def test_equal_numbers_of_other_types_are_the_same_labels(kind, other):
    clf = LogisticRegression().fit(X, CODES.astype(kind))
    agg = GEMSLogisticAggregator(random_state=0)
    summary = agg.summarize(clf, X, CODES.astype(other), name="lyon")
    agg.set_params(estimators=[summary]).fit()
    assert agg.score(X, CODES) == pytest.approx(
        clf.score(X, CODES.astype(kind)), abs=0.1
    )


def test_texts_of_numbers_are_no_numbers():
    clf = LogisticRegression().fit(X, CODES)
    texts = CODES.astype(str)
    with pytest.raises(ValueError, match=r"labels '0', '1';.* classes 0, 1\. .*texts"):
        GEMSLogisticAggregator().summarize(clf, X, texts, name="lyon")


def test_labels_in_an_error_are_few_and_short_and_steer_no_terminal():
    many = np.array([f"\x1b[31m{k}{'x' * 500}" for k in range(20)])
    y = many[np.arange(len(X)) % 20]
    with pytest.raises(ValueError) as refused:
        summarized(y)
    text = str(refused.value)
    assert text.isprintable() and len(text) < 1000
    assert "and 12 more" in text and r"'\x1b[31m0xxx" in text


# ---- what is legitimate --------------------------------------------------------------


def three_classes():
    rng = np.random.default_rng(1)
    y = np.array(["a", "b", "c"])[np.arange(120) % 3]
    return rng.normal(size=(120, 2)) + 3.0 * (y[:, None] == ["a", "b"]), y


def test_rows_of_a_class_that_another_node_has_seen_are_taken_with_a_warning():
    X, y = three_classes()
    fitted_on = {"lyon": y != "c", "paris": y != "a"}
    members = [
        (name, LogisticRegression().fit(X[rows], y[rows]))
        for name, rows in fitted_on.items()
    ]
    nodes = np.where(np.arange(len(y)) % 2, "lyon", "paris")
    agg = GEMSLogisticAggregator(random_state=0)
    summaries = []
    for name, clf in members:
        rows = nodes == name
        unseen = {"lyon": "c", "paris": "a"}[name]
        warned = f"Node '{name}' has rows of the classes '{unseen}', which its"
        with pytest.warns(UnseenClassesWarning, match=warned):
            summaries.append(agg.summarize(clf, X[rows], y[rows], name=name))
    direct = GEMSLogisticAggregator(members, random_state=0)
    direct.fit(X, y, nodes=nodes)  # where the classes of all are known
    agg.set_params(estimators=summaries).fit()
    np.testing.assert_array_equal(agg.coef_, direct.coef_)
    # Nobody else has seen it: the server says so, with both sets of labels.
    refused = (
        "'lyon' has rows of the classes 'c', which no node's classifier has seen; "
        "these have seen 'a', 'b'. Have the node"
    )
    with pytest.raises(ValueError, match=re.escape(refused)):
        agg.set_params(estimators=summaries[:1]).fit()


@pytest.mark.parametrize(
    "agg", [ModelAveragingAggregator(), GEMSLogisticAggregator(random_state=0)]
)
def test_the_server_refuses_rows_of_a_class_that_no_classifier_has_seen(agg):
    X, y = three_classes()
    clf = LogisticRegression().fit(X[y != "c"], y[y != "c"])
    with pytest.warns(UnseenClassesWarning):
        summary = agg.summarize(clf, X, y, name="lyon")
    with pytest.raises(
        ValueError, match="'lyon' has rows of the classes 'c', which no"
    ):
        agg.set_params(estimators=[summary]).fit()


def test_a_channel_warns_once_an_exchange():
    X, y = three_classes()
    clf = LogisticRegression().fit(X[y != "c"], y[y != "c"])
    other = LogisticRegression().fit(X, y)

    def ask(requests):
        members = {"lyon": clf, "paris": other}
        return {
            name: reply_to(request, members[name], X, y, name=name)
            for name, request in requests.items()
        }

    agg = GEMSLogisticAggregator(
        Nodes(ask, ["lyon", "paris"]), n_rounds=3, random_state=0
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agg.fit()
    assert len(agg.history_) > 1
    unseen = [w for w in caught if w.category is UnseenClassesWarning]
    assert len(unseen) == 1 and "'lyon'" in str(unseen[0].message)


def test_rows_that_nobody_owns_may_be_of_classes_that_some_nodes_have_not_seen():
    X, y = three_classes()
    members = [
        ("lyon", LogisticRegression().fit(X[y != "c"], y[y != "c"])),
        ("paris", DummyClassifier().fit(X[y == "c"], y[y == "c"])),
    ]
    agg = GEMSLogisticAggregator(members, random_state=0)
    assert agg.fit(X, y).score(X, y) > 0.8  # each node gets the rows that it knows
    nodes = np.where(y == "c", "paris", "lyon").astype(object)
    nodes[::4] = "public"
    assert agg.fit(X, y, nodes=nodes).score(X, y) > 0.8
    # Rows that are named for a summary only score the aggregate.
    summaries = [
        agg.summarize(clf, X[rows], y[rows], name=name)
        for (name, clf), rows in zip(members, (y != "c", y == "c"), strict=True)
    ]
    agg.set_params(estimators=summaries).fit(X, y, nodes=np.full(len(y), "paris"))
    assert agg.node_scores_["n_rows"][1] == np.sum(y == "c")
    # Nor need the classifier of its node have seen any of their classes.
    agg.fit(X[y == "c"], y[y == "c"], nodes=np.full(np.sum(y == "c"), "lyon"))
    assert np.isnan(agg.node_scores_["aggregate"]).all()


def test_classes_of_few_rows_that_are_left_out_are_not_warned_of_twice():
    y = CLASSES[CODES].astype("<U8")
    y[:2] = "other"
    with pytest.warns(ClassesLeftOutWarning):  # and of nothing else
        summarized(y)


def test_a_stack_takes_no_rows_of_classes_that_its_members_have_not_seen():
    agg = EnsembleAggregator([("lyon", CLF)], combine="stack")
    with pytest.raises(ValueError, match="'lyon' has rows of the classes 0, 1, which"):
        agg.summarize_odds(X, CODES, name="lyon")
    message = agg.summarize_odds(X, CLASSES[CODES], name="lyon").message
    # As a node would send it that does not check itself.
    settings = json.dumps(message.settings).replace('"well"', '"well "')
    other = Summary(replace(message, settings=json.loads(settings)))
    with pytest.raises(ValueError, match="classes 'well ', which no member of the"):
        agg.set_params(summaries=[other]).fit()


# ---- training ----------------------------------------------------------------------


def test_rows_of_classes_that_a_shared_model_lacks_do_not_train_it():
    X, y = three_classes()
    is_known = y != "c"
    clf = LogisticRegression().fit(X[is_known], y[is_known])
    request = Message.of(
        "train",
        parameters=[np.zeros((1, 2)), np.zeros(1)],
        classes=["a", "b"],
        epochs=3,
        rates=None,
        seed=0,
    )
    reply_of_all = reply_to(request, clf, X, y, name="lyon")
    reply_of_known = reply_to(request, clf, X[is_known], y[is_known], name="lyon")
    for ours, theirs in zip(
        reply_of_all.content["parameters"],
        reply_of_known.content["parameters"],
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert reply_of_all.content["loss"] == reply_of_known.content["loss"]
    # The server may name whatever classes it likes.
    other = Message.of("train", **{**request.content, "classes": ["d", "e"]})
    with pytest.raises(ValueError, match="'lyon' has no rows of the classes that the"):
        reply_to(other, clf, X, y, name="lyon")
