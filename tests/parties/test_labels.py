# SPDX-License-Identifier: BSD-3-Clause
"""Rows whose labels are not those that the node's own classifier was fitted on."""

from __future__ import annotations

import json
import re
import unicodedata
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
from skgems.asking import Message, Nodes
from skgems.guard import reply_to
from skgems.parties import ClassesLeftOutWarning, Summary, UnseenClassesWarning

pytestmark = pytest.mark.usefixtures("accepting_nodes")

CLASSES = np.array(["ill", "well"])


def rows_and_codes():
    """80 rows of two features, and the number of the class of each, 0 or 1."""
    rng = np.random.default_rng(0)
    codes = np.arange(80) % 2
    return rng.normal(size=(80, 2)) + 2.0 * codes[:, None], codes


X, CODES = rows_and_codes()
CLF = LogisticRegression().fit(X, CLASSES[CODES])


# ---- ways to a node's rows: each function takes labels of X ------------------------


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


WAYS_TO_ROWS = [
    summarized,
    summarized_in_chunks,
    summarized_for_an_average,
    summarized_for_a_pooled_classifier,
    replied,
    fitted_over_a_channel,
    fitted_in_one_process,
    combined,
]
# Labels of the rows, how the error shows them, and what it says of them.
OTHER_LABELS = {
    "codes": (CODES, "0, 1", "look like codes"),
    "truth values": (CODES == 1, "False, True", "look like codes"),
    "a blank": (np.char.add(CLASSES, " ")[CODES], "'ill ', 'well '", "in blanks"),
    "capitals": (np.char.upper(CLASSES)[CODES], "'ILL', 'WELL'", "only in case"),
    "words": (np.array(["good", "bad"])[CODES], "'bad', 'good'", "fit the classifier"),
}


@pytest.mark.parametrize("labels", OTHER_LABELS)
@pytest.mark.parametrize("look_at_rows", WAYS_TO_ROWS)
def test_rows_of_none_of_the_labels_are_refused_at_the_node(look_at_rows, labels):
    y, labels_in_words, advice = OTHER_LABELS[labels]
    with pytest.raises(ValueError) as refused:
        look_at_rows(y)
    text = str(refused.value)
    assert text.startswith("Node 'lyon': its classifier has seen none of the labels")
    assert f"The rows have the labels {labels_in_words}; " in text
    assert "was fitted on the classes 'ill', 'well'. " in text
    assert advice in text


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


def test_texts_of_numbers_are_other_labels_than_the_numbers():
    clf = LogisticRegression().fit(X, CODES)
    texts = CODES.astype(str)
    with pytest.raises(ValueError, match=r"labels '0', '1';.* classes 0, 1\. .*texts"):
        GEMSLogisticAggregator().summarize(clf, X, texts, name="lyon")


def test_labels_in_an_error_are_few_and_short_and_steer_no_terminal():
    labels = np.array([f"\x1b[31m{k}{'x' * 500}" for k in range(20)])
    y = labels[np.arange(len(X)) % 20]
    with pytest.raises(ValueError) as refused:
        summarized(y)
    text = str(refused.value)
    assert text.isprintable()
    assert len(text) < 1000  # not the 10,000 characters of all labels
    assert "and 12 more" in text
    assert r"'\x1b[31m0xxx" in text


# ---- what is legitimate --------------------------------------------------------------


def three_classes():
    """Rows of the classes "a", "b" and "c", and their labels."""
    rng = np.random.default_rng(1)
    y = np.array(["a", "b", "c"])[np.arange(120) % 3]
    return rng.normal(size=(120, 2)) + 3.0 * (y[:, None] == ["a", "b"]), y


@pytest.fixture
def members_that_lack_a_class():
    """A classifier of each of two nodes that has not seen one class of its rows."""
    X, y = three_classes()
    return [
        ("lyon", LogisticRegression().fit(X[y != "c"], y[y != "c"])),
        ("paris", LogisticRegression().fit(X[y != "a"], y[y != "a"])),
    ]


def summarize_with_a_warning(member, nodes, *, unseen):
    """The summary of a node whose classifier has not seen one class of its rows."""
    X, y = three_classes()
    name, clf = member
    rows = nodes == name
    words = f"Node '{name}' has rows of the classes '{unseen}', which its"
    agg = GEMSLogisticAggregator(random_state=0)
    with pytest.warns(UnseenClassesWarning, match=words):
        return agg.summarize(clf, X[rows], y[rows], name=name, disclosure=None)


def test_rows_of_a_class_that_another_node_has_seen_are_taken_with_a_warning(
    members_that_lack_a_class,
):
    X, y = three_classes()
    nodes = np.where(np.arange(len(y)) % 2, "lyon", "paris")
    lyon, paris = members_that_lack_a_class
    summaries = [
        summarize_with_a_warning(lyon, nodes, unseen="c"),
        summarize_with_a_warning(paris, nodes, unseen="a"),
    ]
    # In one process the classes of all nodes are known.
    direct = GEMSLogisticAggregator(members_that_lack_a_class, random_state=0)
    direct.fit(X, y, nodes=nodes)
    agg = GEMSLogisticAggregator(summaries, random_state=0).fit()
    np.testing.assert_array_equal(agg.coef_, direct.coef_)


def test_the_server_names_the_classes_that_classifiers_have_and_have_not_seen(
    members_that_lack_a_class,
):
    _, y = three_classes()
    nodes = np.where(np.arange(len(y)) % 2, "lyon", "paris")
    summary = summarize_with_a_warning(members_that_lack_a_class[0], nodes, unseen="c")
    words = (
        "'lyon' has rows of the classes 'c', which no node's classifier has seen; "
        "these have seen 'a', 'b'. Have the node"
    )
    with pytest.raises(ValueError, match=re.escape(words)):
        GEMSLogisticAggregator([summary], random_state=0).fit()


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
    (warning,) = (w for w in caught if w.category is UnseenClassesWarning)
    assert "'lyon'" in str(warning.message)


@pytest.fixture
def members_of_different_classes():
    """A classifier of "a" and "b" in lyon, and one of "c" in paris."""
    X, y = three_classes()
    return [
        ("lyon", LogisticRegression().fit(X[y != "c"], y[y != "c"])),
        ("paris", DummyClassifier().fit(X[y == "c"], y[y == "c"])),
    ]


def test_rows_of_no_node_may_be_of_classes_that_some_nodes_have_not_seen(
    members_of_different_classes,
):
    X, y = three_classes()
    agg = GEMSLogisticAggregator(members_of_different_classes, random_state=0)
    assert agg.fit(X, y).score(X, y) > 0.8  # each node gets the rows that it knows
    nodes = np.where(y == "c", "paris", "lyon").astype(object)
    nodes[::4] = "public"
    assert agg.fit(X, y, nodes=nodes).score(X, y) > 0.8


def test_rows_for_a_summary_only_score_and_may_be_of_any_class(
    members_of_different_classes,
):
    X, y = three_classes()
    agg = GEMSLogisticAggregator(random_state=0)
    (lyon, clf_of_lyon), (paris, clf_of_paris) = members_of_different_classes
    is_of_paris = y == "c"
    summaries = [
        agg.summarize(clf_of_lyon, X[~is_of_paris], y[~is_of_paris], name=lyon),
        agg.summarize(clf_of_paris, X[is_of_paris], y[is_of_paris], name=paris),
    ]
    agg.set_params(estimators=summaries).fit(X, y, nodes=np.full(len(y), "paris"))
    assert agg.node_scores_["n_rows"][1] == np.sum(is_of_paris)
    # Nor need the classifier of its node have seen any of their classes.
    nodes = np.full(np.sum(is_of_paris), "lyon")
    agg.fit(X[is_of_paris], y[is_of_paris], nodes=nodes)
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
    with pytest.raises(ValueError, match="classes 'well ', which no estimator of the"):
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
    for parameter, parameter_of_known in zip(
        reply_of_all.content["parameters"],
        reply_of_known.content["parameters"],
        strict=True,
    ):
        np.testing.assert_array_equal(parameter, parameter_of_known)
    assert reply_of_all.content["loss"] == reply_of_known.content["loss"]
    # The server may name whatever classes it likes.
    other = Message.of("train", **{**request.content, "classes": ["d", "e"]})
    with pytest.raises(ValueError, match="'lyon' has no rows of the classes that the"):
        reply_to(other, clf, X, y, name="lyon")


# ---- types of labels -------------------------------------------------------------

# The smallest numbers that only unsigned integers hold, which no float tells apart.
LARGE = np.array([5, 2**63 + 1, 2**63 + 2], dtype=np.uint64)


def rows_of_large_labels():
    """Rows of three classes, of which each node has two; and the rows of each node."""
    rng = np.random.RandomState(0)
    codes = np.arange(120) % 3
    X = rng.standard_normal((120, 3)) + 4 * np.eye(3)[codes]
    owned = {"lyon": codes < 2, "paris": codes > 0, "rome": codes != 1}
    return X, LARGE[codes], owned


@pytest.mark.parametrize("kind", [GEMSLogisticAggregator, PooledAggregator])
def test_labels_above_a_signed_integer_keep_all_digits(kind):
    X, y, owned = rows_of_large_labels()

    def ask(requests):
        return {
            name: reply_to(request, None, X[owned[name]], y[owned[name]], name=name)
            for name, request in requests.items()
        }

    def chunks(rows):
        return lambda: ((X[part], y[part]) for part in np.array_split(rows, 3))

    ways = {
        "rows": kind().fit(X, y, nodes=np.arange(120) % 2),
        "summaries": kind(
            [kind().summarize(None, X[r], y[r], name=n) for n, r in owned.items()]
        ).fit(),
        "chunks": kind(
            [
                kind().summarize(None, chunks=chunks(np.flatnonzero(r)), name=n)
                for n, r in owned.items()
            ]
        ).fit(),
        "channel": kind(Nodes(ask, list(owned))).fit(),
    }
    for way, aggregate in ways.items():
        assert aggregate.classes_.tolist() == LARGE.tolist(), way
        assert aggregate.score(X, y) > 0.9, way


def test_whole_numbers_that_no_type_holds_together_are_named():
    X, y, owned = rows_of_large_labels()
    sent = [
        PooledAggregator().summarize(None, X[:40], np.arange(40) % 2 - 5, name="oslo"),
        PooledAggregator().summarize(None, X, y, name="lyon"),
    ]
    with pytest.raises(ValueError, match=r"node 'oslo' has -5, node 'lyon' has 92"):
        PooledAggregator(sent).fit()


@pytest.mark.parametrize("unit", ["D", "s"])
def test_dates_are_refused_with_what_to_do(unit):
    X, y, _ = rows_of_large_labels()
    dates = np.array([0, 366, 731]).astype(f"datetime64[{unit}]")[np.arange(120) % 3]
    for kind in (GEMSLogisticAggregator, PooledAggregator):
        with pytest.raises(TypeError, match=r"as texts at all nodes alike: y.astype"):
            kind([("lyon", None), ("rome", None)]).fit(
                X, dates, nodes=np.where(np.arange(120) % 2, "lyon", "rome")
            )
        with pytest.raises(TypeError, match=r"Node 'lyon': .* y.astype\(str\)"):
            kind().summarize(None, X, dates, name="lyon")


@pytest.mark.parametrize(
    "other",
    [
        unicodedata.normalize("NFD", "krank-ä"),
        "krank-ä\u200b",  # a blank of no width
        "kr\u0430nk-ä",  # a Cyrillic letter
    ],
)
def test_labels_that_look_alike_are_doubted_and_told_apart(other):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    members = []
    for name, label in (("lyon", "krank-ä"), ("rome", other)):
        y = np.where(X[:, 0] > 0, label, "gesund")
        members.append((name, LogisticRegression().fit(X, y)))
    agg = GEMSLogisticAggregator(members, random_state=0)
    ill = np.repeat(np.array(["krank-ä", other], dtype=object), 20)
    y = np.where(X[:, 0] > 0, ill, "gesund")
    with pytest.warns(UserWarning, match="letters that look alike") as warned:
        agg.fit(X, y, nodes=["lyon"] * 20 + ["rome"] * 20)
    text = " ".join(str(warning.message) for warning in warned)
    assert f"{other!a} (node 'rome')" in text
    assert f"{'krank-ä'!a} (node 'lyon')" in text
    assert other in agg.classes_  # it is not rewritten
