# SPDX-License-Identifier: BSD-3-Clause
"""Histograms of halves: what a node counts in each, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.disclosures import rule_of
from helpers.forests import NAMES, rows
from helpers.tasks import ask
from sklearn.preprocessing import PowerTransformer

from skgems.asking import fit_front
from skgems.guard import LimitError, Limits, reply_to
from skgems.local import Member
from skgems.messages import Message, check_reply, check_request, says
from skgems.parties import halves_of
from skgems.steps import Front
from skgems.trees import N_BINS, packed_counts, unpacked_counts

pytestmark = pytest.mark.usefixtures("accepting_nodes")

X, Y = rows()
CLASSES = sorted(set(Y))
HALF = halves_of({"lyon": np.arange(len(Y))}, Y)
HALVES = ("first", "second")


def roots(n_trees=2, **fields) -> dict:
    """The content of a request about the roots of trees, and two features of each."""
    of_trees = np.zeros(n_trees, dtype=np.int32)
    content = {
        "classes": CLASSES,
        "n_trees": n_trees,
        "feature": of_trees - 1,
        "bin": of_trees,
        "missing_left": of_trees > 0,
        "left": of_trees - 1,
        "leaves": np.arange(n_trees, dtype=np.int32),
        "features": np.array([[0, 2]] * n_trees, dtype=np.int32),
        "bootstrap": False,
    }
    return content | fields


def split_roots() -> dict:
    """Two trees of one split each, and two features of three of their leaves."""
    return roots(
        feature=np.array([1, 3, -1, -1, -1, -1], dtype=np.int32),
        bin=np.array([31, 20, 0, 0, 0, 0], dtype=np.int32),
        missing_left=np.zeros(6, dtype=bool),
        left=np.array([2, 4, -1, -1, -1, -1], dtype=np.int32),
        leaves=np.array([2, 3, 5], dtype=np.int32),
        features=np.array([[0, 2]] * 3, dtype=np.int32),
    )


def fitted_front(X=X) -> Front:
    return fit_front(
        Front.from_transformer(PowerTransformer()), X, np.full(len(X), "lyon")
    )[0].front


def counts_of(packed, content) -> np.ndarray:
    shape = (*content["features"].shape, N_BINS + 1, len(CLASSES))
    return unpacked_counts(packed, shape)


def reply_of(X=X, y=Y, *, min_rows=1, **options) -> Message:
    request = Message.of("grow_halves", **options.pop("asked"))
    reply = reply_to(
        request.to_bytes(),
        None,
        X,
        y,
        name=NAMES[0],
        disclosure=rule_of(min_rows),
        **options,
    )
    return Message.from_bytes(reply)


# ---- what is counted ---------------------------------------------------------------


@pytest.mark.parametrize("bootstrap", [False, True])
def test_each_half_is_counted_as_if_its_rows_were_all(bootstrap):
    contents = {
        "first": roots(bootstrap=bootstrap),
        "second": split_roots() | {"bootstrap": bootstrap},
    }
    counts = ask("grow_halves", Member.from_estimator("lyon", None, X, Y), **contents)
    assert counts.keys() == contents.keys()
    for k, half in enumerate(HALVES):
        alone = Member.from_estimator("lyon", None, X[HALF == k], Y[HALF == k])
        expected = ask("grow", alone, **contents[half])["counts"]
        np.testing.assert_array_equal(counts[half], expected)


def test_rows_are_counted_behind_the_front_without_those_held_out():
    with_gaps, y = rows(missing=True)
    front = fitted_front(with_gaps)
    held_out = np.arange(len(y)) % 4 == 0
    content = roots()
    reply = reply_of(
        with_gaps,
        y,
        held_out=held_out,
        asked={"second": content, "front": front.as_content()},
    ).content
    assert "first" not in reply
    learning = np.flatnonzero(~held_out)
    half = halves_of({"lyon": learning}, y)
    alone = Member.from_estimator(
        "lyon", None, front.transform(with_gaps)[half == 1], y[half == 1]
    )
    np.testing.assert_array_equal(
        reply["second"], ask("grow", alone, **content)["counts"]
    )
    counts = counts_of(reply["second"], content)
    assert counts[0, 0].sum() == np.sum(half == 1)
    assert counts[0, :, N_BINS].any()  # rows without a value


def test_counts_of_nodes_that_hide_rows_are_multiples_of_min_rows():
    content = split_roots()
    reply = reply_of(min_rows=7, asked=dict.fromkeys(HALVES, content))
    for half in HALVES:
        counts = counts_of(reply.content[half], content)
        assert counts.any() and (counts % 7 == 0).all()


def test_classes_that_a_half_has_few_rows_of_are_not_counted():
    is_kept = (Y != CLASSES[2]) | (np.cumsum(Y == CLASSES[2]) <= 13)
    content = roots()
    asked = dict.fromkeys(HALVES, content)
    reply = reply_of(X[is_kept], Y[is_kept], min_rows=7, asked=asked).content
    sizes = [counts_of(reply[h], content)[0, 0].sum(axis=0)[2] for h in HALVES]
    assert sorted(sizes) == [0, 7]  # of six rows in one half, and seven in the other


# ---- what is refused ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"first": None, "second": None}, "grow_halves asks about no half"),
        ({"second": roots(bin=np.array([0, 64]))}, "second.bin are not below 64"),
        ({"second": roots(leaves=np.array([0, 5]))}, "second.leaves are not all"),
        ({"first": roots(features=np.array([[2, 0]] * 2))}, "first.features are not"),
        ({"third": roots()}, "third is an unknown field"),
        ({"first": {}}, "first.classes is missing"),
    ],
)
def test_a_malformed_request_is_refused_by_the_name_of_the_field(change, match):
    asked = {"first": roots(), "second": split_roots()}
    check_request(Message.of("grow_halves", **asked))
    with pytest.raises(ValueError, match=match):
        check_request(Message.of("grow_halves", **asked | change))


HONEST = ask(
    "grow_halves",
    Member.from_estimator("lyon", None, X, Y),
    first=roots(),
    second=split_roots(),
)
ODD = packed_counts(np.full((2, 2, N_BINS + 1, len(CLASSES)), 3))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"first": HONEST["second"]}, "first.counts are no counts"),
        ({"second": HONEST["first"]}, "second.counts are no counts"),
        ({"first": ODD, "min_rows": 2}, "first.counts are no multiples of min_rows=2"),
        ({"second": None}, "second is not an array"),
    ],
)
def test_a_malformed_reply_is_refused_by_the_name_of_the_field(change, match):
    request = Message.of("grow_halves", first=roots(), second=split_roots())
    reply = {**HONEST, "min_rows": 1}
    check_reply(request, Message.of("grow_halves", **reply))
    with pytest.raises(ValueError, match=f"grow_halves.{match}"):
        check_reply(request, Message.of("grow_halves", **reply | change))


def test_counts_of_a_half_that_was_not_asked_about_are_refused():
    request = Message.of("grow_halves", first=roots())
    reply = Message.of("grow_halves", **HONEST, min_rows=1)
    with pytest.raises(ValueError, match="grow_halves.second was not asked for"):
        check_reply(request, reply)


@pytest.mark.parametrize(
    ("limit", "amount"),
    [("hidden_numbers", 2 * len(Y)), ("cluster_numbers", 2 * 2 * 65 * 3)],
)
def test_a_node_refuses_more_than_its_limits_allow(limit, amount):
    asked = {"second": roots()}
    reply_of(asked=asked, limits=Limits(**{limit: amount}))
    with pytest.raises(LimitError, match=limit):
        reply_of(asked=asked, limits=Limits(**{limit: amount - 1}))


def test_splits_by_features_that_rows_do_not_have_are_refused():
    asked = {"first": roots(features=np.array([[0, 4]] * 2))}
    with pytest.raises(ValueError, match="has 4 features, but .* by feature 4"):
        reply_of(asked=asked)


def test_a_reply_says_what_it_tells_of_each_half():
    sentences = says(Message.of("grow_halves", **HONEST, min_rows=1))
    for half in HALVES:
        assert f"rows of the {half} half lie in" in sentences[f"grow_halves.{half}"]
