# SPDX-License-Identifier: BSD-3-Clause
"""Histograms of leaves: what is asked, what a node counts, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.disclosures import rule_of
from helpers.rules import assert_outcome
from helpers.tasks import LABELS, ask, make_member

from skgems.guard import LimitError, Limits, reply_to
from skgems.messages import TASKS, Message, check_reply, check_request
from skgems.tasks import GrowReply
from skgems.trees import (
    N_BINS,
    bin_codes,
    leaves_of,
    packed_counts,
    rounded_histograms,
    unpacked_counts,
    upper_edges,
)

pytestmark = pytest.mark.usefixtures("accepting_nodes")

REQUEST_RULE = TASKS["grow"].request

# Two trees of one split each: roots are vertices 0 and 1, their children follow.
GROWN = {
    "n_trees": 2,
    "feature": [1, 2, -1, -1, -1, -1],
    "bin": [31, 20, 0, 0, 0, 0],
    "missing_left": [False, True, False, False, False, False],
    "left": [2, 4, -1, -1, -1, -1],
}
ROOTS = {
    "n_trees": 2,
    "feature": [-1, -1],
    "bin": [0, 0],
    "missing_left": [False, False],
    "left": [-1, -1],
}
DTYPES = {"missing_left": bool}


def growing(trees=GROWN, *, leaves=(2, 3, 5), features=None, **fields) -> dict:
    """The content of a request; features 0 and 2 of each leaf unless told otherwise."""
    features = [[0, 2]] * len(leaves) if features is None else features
    content = {
        **trees,
        "classes": LABELS,
        "leaves": list(leaves),
        "features": features,
        "bootstrap": False,
        **fields,
    }
    for name in ("feature", "bin", "missing_left", "left", "leaves", "features"):
        content[name] = np.asarray(content[name], dtype=DTYPES.get(name, np.int32))
    return content


def counted(member, content) -> np.ndarray:
    """The histograms that a node replies with."""
    shape = (*content["features"].shape, N_BINS + 1, len(content["classes"]))
    return unpacked_counts(ask("grow", member, **content)["counts"], shape)


def member_with_missing():
    """A node in whose rows values of the splitting features are missing."""
    member = make_member()
    X = member.X.copy()
    X[::5, 1] = np.nan
    X[::7, 2] = np.nan
    return replace(member, X=X)


# ---- rules of requests -------------------------------------------------------------


CIRCLE = {"left": [2, 4, -1, 0, -1, -1], "feature": [1, 2, -1, 1, -1, -1]}
UNSOUND = {
    "honest": ({}, None),
    "a circle": (CIRCLE, "left are not those of trees"),
    "a circle that no root leads to": (
        {"feature": [1, -1, -1, -1, 2, -1], "left": [2, -1, -1, -1, 4, -1]},
        "left are not those of trees",
    ),
    "a child before its parent": (
        {"feature": [1, -1, -1, -1, 2, -1], "left": [4, -1, -1, -1, 2, -1]},
        "left are not those of trees",
    ),
    "a vertex that is its own child": (
        {"left": [0, 4, -1, -1, -1, -1]},
        "left are not those of trees",
    ),
    "a child of two parents": (
        {"left": [2, 2, -1, -1, -1, -1]},
        "left are not those of trees",
    ),
    "a root as a child": (
        {"left": [1, 4, -1, -1, -1, -1]},
        "left are not those of trees",
    ),
    "a vertex without a parent": (
        {"feature": [1, -1, -1, -1, -1, -1]},
        "left are not those of trees",
    ),
    "children beyond the last vertex": (
        {"left": [2, 6, -1, -1, -1, -1]},
        "left are not those of trees",
    ),
    "children that overflow": (
        {"left": [2, np.iinfo(np.int32).max, -1, -1, -1, -1]},
        "left are not those of trees",
    ),
    "more trees than vertices": ({"n_trees": 7}, "n_trees are more than vertices"),
    "the last bin": ({"bin": [N_BINS - 1, 20, 0, 0, 0, 0]}, None),
    "a bin beyond the last": (
        {"bin": [N_BINS, 20, 0, 0, 0, 0]},
        f"bin are not below {N_BINS}",
    ),
    "a leaf that is split": ({"leaves": [0, 3, 5]}, "leaves are not all leaves"),
    "a leaf beyond the last": ({"leaves": [2, 3, 6]}, "leaves are not all leaves"),
    "leaves of the second tree first": (
        {"leaves": [5, 2, 3]},
        "leaves are not in the order of trees",
    ),
    "another order within a tree": ({"leaves": [3, 2, 5]}, None),
    "a leaf twice": ({"leaves": [2, 2, 5]}, "leaves are not in the order of trees"),
    "features out of order": (
        {"features": [[0, 2], [2, 0], [0, 2]]},
        "features are not in order",
    ),
    "a feature twice": (
        {"features": [[0, 2], [1, 1], [0, 2]]},
        "features are not in order",
    ),
}


@pytest.mark.parametrize("name", UNSOUND)
def test_trees_of_a_request_are_trees_and_leaves_are_leaves(name):
    change, match = UNSOUND[name]
    assert_outcome(REQUEST_RULE, growing(**change), match)
    request = Message.of("grow", **growing(**change))
    if match is None:
        check_request(request)
    else:
        with pytest.raises(ValueError, match=match):
            check_request(request)


def chain(n_levels: int) -> dict:
    """One tree, each of whose left children is split again."""
    n_vertices = 2 * n_levels + 1
    is_split = np.arange(n_vertices) % 2 == 1
    is_split[0] = True
    is_split[-2:] = False
    left = np.where(is_split, np.arange(n_vertices) + 2, -1)
    left[0] = 1
    return {
        "n_trees": 1,
        "feature": np.where(is_split, 0, -1),
        "bin": np.zeros(n_vertices),
        "missing_left": np.zeros(n_vertices),
        "left": left,
    }


@pytest.mark.parametrize(("n_levels", "is_taken"), [(64, True), (65, False)])
def test_deep_trees_are_refused_however_few_vertices_they_have(n_levels, is_taken):
    content = growing(chain(n_levels), leaves=[2 * n_levels])
    match = None if is_taken else "left are of trees with more than 64 levels"
    assert_outcome(REQUEST_RULE, content, match)


def test_a_very_deep_tree_is_refused_at_once():
    # A walk through all of its levels would take seconds.
    content = growing(chain(300_000), leaves=[600_000])
    assert_outcome(REQUEST_RULE, content, "left are of trees with more than")


# ---- rules of replies --------------------------------------------------------------


def reply_of_counts(counts, *, min_rows: int = 1) -> dict:
    return {"counts": packed_counts(np.asarray(counts)), "min_rows": min_rows}


@pytest.mark.parametrize(
    ("counts", "min_rows", "match"),
    [
        (np.full((3, 2, 65, 3), 3), 1, None),
        (np.full((3, 2, 65, 3), 30), 10, None),
        (
            np.full((2, 2, 65, 3), 3),
            1,
            "counts are no counts: .* of 1170 cells",
        ),
        (
            np.full((4, 2, 65, 3), 3),
            1,
            "counts are no counts: .* of 1170 cells",
        ),
        (np.full((3, 2, 65, 3), 3), 10, "counts are no multiples of min_rows=10"),
    ],
)
def test_counts_are_those_of_what_was_asked(counts, min_rows, match):
    content = reply_of_counts(counts, min_rows=min_rows)
    assert_outcome(GrowReply, content, match, asked=growing())
    request = Message.of("grow", **growing())
    reply = Message.of("grow", **content)
    if match is None:
        check_reply(request, reply)
    else:
        with pytest.raises(ValueError, match=match):
            check_reply(request, reply)


@pytest.mark.parametrize("wrong_bytes", [b"", b"\x01", b"\x03abc", b"\x01abc"])
def test_bytes_that_are_no_counts_are_refused(wrong_bytes):
    content = {"counts": np.frombuffer(wrong_bytes, np.uint8), "min_rows": 1}
    match = "counts are no counts: it"
    assert_outcome(GrowReply, content, match, asked=growing())


# ---- costs -------------------------------------------------------------------------


def reply_within(limits: Limits, content: dict) -> Message:
    member = make_member()
    request = Message.of("grow", **content)
    return reply_to(
        request, None, member.X, member.y, name="lyon", disclosure=None, limits=limits
    )


@pytest.mark.parametrize(
    ("limit", "amount"),
    [
        ("hidden_numbers", 40 * 2),  # rows and trees
        ("cluster_numbers", 3 * 2 * (N_BINS + 1) * 3),  # cells of histograms
    ],
)
def test_what_costs_more_than_the_limits_is_refused(limit, amount):
    assert reply_within(Limits(**{limit: amount}), growing()).task == "grow"
    with pytest.raises(LimitError, match="the request 'grow'"):
        reply_within(Limits(**{limit: amount - 1}), growing())


# ---- answers -----------------------------------------------------------------------


def test_counts_are_those_of_each_row_by_hand():
    member = member_with_missing()
    content = growing()
    edges = upper_edges()
    expected = np.zeros((3, 2, N_BINS + 1, 3), dtype=int)
    for row, label in zip(member.X.astype(np.float32), member.y, strict=True):
        bins = [
            N_BINS if np.isnan(value) else np.flatnonzero(value <= edges)[0]
            for value in row
        ]
        # Tree 0 has missing values of feature 1 on the right, tree 1 on the left.
        leaf_of_first = 2 if bins[1] <= 31 else 3
        leaf_of_second = 4 if bins[2] <= 20 or bins[2] == N_BINS else 5
        for place, leaf in enumerate([2, 3, 5]):
            if leaf in (leaf_of_first, leaf_of_second):
                for drawn, feature in enumerate([0, 2]):
                    expected[place, drawn, bins[feature], LABELS.index(label)] += 1
    assert expected.sum() > 80 and (expected[:, :, N_BINS] > 0).any()
    np.testing.assert_array_equal(counted(member, content), expected)


def test_leaves_that_are_remembered_are_those_of_the_roots():
    member = member_with_missing()
    counted(member, growing(ROOTS, leaves=[0, 1]))
    assert set(member.memo["grow"]["leaves"].ravel()) == {0, 1}
    remembered = counted(member, growing())
    np.testing.assert_array_equal(remembered, counted(member_with_missing(), growing()))
    assert set(member.memo["grow"]["leaves"].ravel()) == {2, 3, 4, 5}


OTHERS = {
    "another feature": {"feature": [0, 2, -1, -1, -1, -1]},
    "another bin": {"bin": [33, 20, 0, 0, 0, 0]},
    "another side of missing values": {"missing_left": [True, True, 0, 0, 0, 0]},
    "other children": {"left": [4, 2, -1, -1, -1, -1], "leaves": [4, 5, 3]},
    "one tree of them": {
        "n_trees": 1,
        "feature": [1, -1, -1],
        "bin": [31, 0, 0],
        "missing_left": [0, 0, 0],
        "left": [1, -1, -1],
        "leaves": [1, 2],
    },
    "roots": {**ROOTS, "leaves": [0, 1]},
    "other classes": {"classes": ["a", "c"]},
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_trees_and_rows_are_not_led_from_remembered_leaves(name):
    other = growing(**OTHERS[name])
    member = member_with_missing()
    before = counted(member, growing())
    np.testing.assert_array_equal(
        counted(member, other), counted(member_with_missing(), other)
    )
    np.testing.assert_array_equal(counted(member, growing()), before)


def test_trees_with_fewer_vertices_are_not_led_from_those_of_deeper_ones():
    member = make_member()
    deeper = {
        "n_trees": 2,
        "feature": [1, 2, 0, -1, -1, -1, 0, -1, -1, -1],
        "bin": [31, 20, 30, 0, 0, 0, 20, 0, 0, 0],
        "missing_left": [False] * 10,
        "left": [2, 4, 6, -1, -1, -1, 8, -1, -1, -1],
    }
    counted(member, growing(deeper, leaves=[8, 9]))
    np.testing.assert_array_equal(
        counted(member, growing()), counted(make_member(), growing())
    )


def test_remembered_leaves_spare_a_way_from_the_roots(monkeypatch):
    starts = []

    def noting_start(codes, forest, *, start=None):
        starts.append(start is not None)
        return leaves_of(codes, forest, start=start)

    monkeypatch.setattr("skgems.tasks._grow.leaves_of", noting_start)
    member = make_member()
    for content in (growing(ROOTS, leaves=[0, 1]), growing(), growing(bin=[9] * 6)):
        counted(member, content)
    assert starts == [False, True, False]


def test_rows_of_other_roles_and_classes_are_not_counted():
    member = make_member()
    some_rows = np.arange(0, 40, 2)
    of_some = make_member(moments=some_rows, training=some_rows)
    content = growing(ROOTS, leaves=[0, 1], classes=["a", "c"])
    histograms = counted(of_some, content)
    labels = member.y[some_rows]
    expected = [np.sum(labels == "a"), np.sum(labels == "c")]
    np.testing.assert_array_equal(
        histograms.sum(axis=2), np.broadcast_to(expected, (2, 2, 2))
    )


def test_a_feature_that_the_node_lacks_is_named():
    # Of other rows it would read values that belong to another feature.
    for change in (
        {"features": [[0, 4]] * 3},
        {"feature": [4, 2, -1, -1, -1, -1]},
    ):
        with pytest.raises(ValueError, match="'lyon' has 4 features.*by feature 4"):
            counted(make_member(), growing(**change))
    counted(make_member(), growing(features=[[0, 3]] * 3))


# ---- rows drawn with replacement ---------------------------------------------------


def drawn(member, **fields) -> np.ndarray:
    """Histograms at the roots of rows that are drawn with replacement."""
    return counted(member, growing(ROOTS, leaves=[0, 1], bootstrap=True, **fields))


def test_draws_with_replacement_are_a_function_of_the_rows_alone():
    first = drawn(make_member())
    np.testing.assert_array_equal(first, drawn(make_member()))
    # Neither the model nor the name has a part in it.
    np.testing.assert_array_equal(
        first, drawn(replace(make_member(), name="paris", model=None))
    )
    # Other rows of which one differs a bit are drawn otherwise.
    X = make_member().X.copy()
    X[0, 0] += 1e-12
    assert (bin_codes(X) == bin_codes(make_member().X)).all()
    assert (first != drawn(replace(make_member(), X=X))).any()


def test_each_tree_draws_about_as_many_rows_as_there_are():
    histograms = drawn(make_member())
    n_drawn = histograms.sum(axis=(2, 3))
    assert (n_drawn[:, 0] == n_drawn[:, 1]).all()  # whatever the feature
    assert (np.abs(n_drawn - 40) < 4 * np.sqrt(40)).all() and (n_drawn != 40).any()
    assert (histograms[0] != histograms[1]).any()  # trees draw other rows
    assert histograms.max() > 1


def test_rows_that_cannot_be_hashed_cannot_be_drawn(monkeypatch):
    member = make_member()
    monkeypatch.setattr(type(member), "digest", lambda self, classifier: None)
    with pytest.raises(ValueError, match="'lyon' cannot be hashed.*bootstrap=False"):
        drawn(member)
    counted(member, growing())


# ---- bounds on rows ----------------------------------------------------------------


def test_counts_are_rounded_where_a_node_hides_rows():
    exact = counted(member_with_missing(), growing())
    hiding = replace(member_with_missing(), disclosure=rule_of(4))
    rounded = counted(hiding, growing())
    np.testing.assert_array_equal(rounded, rounded_histograms(exact, 4))
    assert (rounded % 4 == 0).all() and rounded.any() and (rounded != exact).any()
    error = np.abs(np.cumsum(rounded, axis=2) - np.cumsum(exact, axis=2))
    assert error.max() <= 2
