# SPDX-License-Identifier: BSD-3-Clause
"""Sums of gradients at leaves: what is asked, what a node sums, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.disclosures import rule_of
from helpers.rules import assert_outcome
from helpers.tasks import LABELS, ask, make_member

import skgems.tasks._boost
from skgems.guard import LimitError, Limits, reply_to
from skgems.messages import Message, check_reply, check_request
from skgems.tasks import BoostReply, unpacked_sums
from skgems.tasks._boost import BoostRequest, packed_sums
from skgems.trees import (
    N_BINS,
    SCALE,
    Asked,
    BoostedGrowth,
    BoostedRows,
    BoostingRules,
    Forest,
    bin_codes,
    joined_histograms,
    packed_counts,
    packed_numbers,
)

pytestmark = pytest.mark.usefixtures("accepting_nodes")

N_FEATURES = 4
TREES = ("n_trees", "feature", "bin", "missing_left", "left")


def request_of(growth, **changes) -> dict:
    """The content of the request for what a growth asks."""
    content = {
        "classes": LABELS,
        "n_features": N_FEATURES,
        "n_finished": growth.n_finished,
        "values": growth.values,
        "baseline": growth.baseline,
        "leaves": growth.asked.leaves,
        **{name: getattr(growth.forest, name) for name in TREES},
    }
    return {**content, **changes}


def requests_of(member, *, max_iter=3) -> list[dict]:
    """All requests about trees of two levels that are boosted on a node's rows."""
    labels = np.searchsorted(LABELS, member.y)
    growth = BoostedGrowth(
        BoostingRules(max_iter=max_iter, max_depth=2, min_samples_leaf=4),
        n_features=N_FEATURES,
        class_counts=np.bincount(labels),
    )
    contents = []
    while growth.is_open:
        contents.append(request_of(growth))
        growth.take(summed(fresh_member(), contents[-1]))
    assert len(contents) == 2 * max_iter
    return contents


def shape_of(content) -> tuple[int, ...]:
    return (len(content["leaves"]), content["n_features"], N_BINS + 1, 3)


def summed(member, content) -> np.ndarray:
    """The histograms that a node replies with."""
    return unpacked_sums(ask("boost", member, **content), shape_of(content))


def fresh_member():
    """A node that remembers nothing, and in whose rows some values are missing."""
    member = make_member()
    X = member.X.copy()
    X[::9, 1] = np.nan
    return replace(member, X=X, memo={})


REQUESTS = requests_of(fresh_member())
# Three classes have three trees an iteration: trees 3, 4 and 5 are the second one.
SECOND = REQUESTS[3]


# ---- rules of requests -----------------------------------------------


def other_trees(name, place, value):
    """One of the fields of the trees with another value at one vertex."""
    values = SECOND[name].copy()
    values[place] = value
    return {name: values}


FIRST_LEAF = int(np.flatnonzero(SECOND["left"] > 0)[0])
UNSOUND = {
    "honest": ({}, None),
    "leaves of the iteration before": (
        {"leaves": REQUESTS[1]["leaves"]},
        "leaves are (of other iterations|not all leaves)",
    ),
    "roots of the next iteration": (
        {"leaves": np.arange(6, 9, dtype=np.int32)},
        "leaves are of other iterations",
    ),
    "a root that is split": (
        {"leaves": np.array([3], dtype=np.int32)},
        "leaves are not all leaves",
    ),
    "one of two trees finished": ({"n_finished": 4}, "n_finished is no iteration"),
    "all trees finished": ({"n_finished": 9}, "n_finished is no iteration"),
    "more trees finished than there are": (
        {"n_finished": 12},
        "n_finished is no iteration",
    ),
    "trees of two classes": (
        {"classes": LABELS[:2]},
        "baseline is not 1",
    ),
    "a baseline of two outputs": (
        {"baseline": SECOND["baseline"][:2]},
        "baseline is not 3",
    ),
    "a feature beyond the last": (
        other_trees("feature", FIRST_LEAF, N_FEATURES),
        "feature are not below n_features",
    ),
    "the last feature": (other_trees("feature", FIRST_LEAF, N_FEATURES - 1), None),
    "a bin beyond the last": (
        other_trees("bin", FIRST_LEAF, N_BINS),
        f"bin are not below {N_BINS}",
    ),
    "a circle": (
        other_trees("left", FIRST_LEAF, FIRST_LEAF),
        "left are not those of trees",
    ),
    "no leaves": ({"leaves": np.zeros(0, dtype=np.int32)}, None),
}


@pytest.mark.parametrize("name", UNSOUND)
def test_leaves_of_a_request_are_of_the_iteration_that_grows(name):
    change, match = UNSOUND[name]
    content = {**SECOND, **change}
    assert_outcome(BoostRequest, content, match)
    request = Message.of("boost", **content)
    if match is None:
        check_request(request)
    else:
        with pytest.raises(ValueError, match=match):
            check_request(request)


def test_four_trees_are_no_iterations_of_three_classes():
    content = {**REQUESTS[0], "leaves": np.arange(3, dtype=np.int32)}
    for name in TREES[1:]:
        content[name] = content[name][:4]
    content["n_trees"] = 4
    assert_outcome(BoostRequest, content, "n_finished is no iteration")


@pytest.mark.parametrize(
    "change",
    [
        {"values": SECOND["values"][:-1]},
        {"values": np.full(len(SECOND["values"]), 2e6)},
        {"baseline": np.full(3, np.nan)},
        {"n_features": 0},
        {"n_finished": -3},
    ],
)
def test_fields_that_are_none_are_refused(change):
    with pytest.raises(ValueError, match=f"boost.*{next(iter(change))}"):
        check_request(Message.of("boost", **{**SECOND, **change}))


# ---- rules of replies -----------------------------------------------


def sums_of_rows(n_rows: int, *, gradient=0, hessian=0) -> np.ndarray:
    """Histograms that have some rows in one bin of all features, and their sums."""
    histograms = np.zeros(shape_of(SECOND), dtype=np.int64)
    histograms[:, :, 7] = [gradient, hessian, n_rows]
    return histograms


REPLIES = {
    "none": (sums_of_rows(0), 1, None),
    "the largest": (
        sums_of_rows(3, gradient=3 * SCALE, hessian=3 * SCALE // 4),
        1,
        None,
    ),
    "the smallest": (sums_of_rows(3, gradient=-3 * SCALE), 1, None),
    "a larger gradient": (
        sums_of_rows(3, gradient=3 * SCALE + 1),
        1,
        "gradients are larger than so many rows have",
    ),
    "a smaller gradient": (
        sums_of_rows(3, gradient=-3 * SCALE - 1),
        1,
        "gradients are larger than so many rows have",
    ),
    "a number without an absolute value": (
        sums_of_rows(3, gradient=-(2**63)),
        1,
        "gradients are larger than so many rows have",
    ),
    "a larger hessian": (
        sums_of_rows(3, hessian=3 * SCALE // 4 + 1),
        1,
        "hessians are larger than so many rows have",
    ),
    "a hessian below 0": (
        sums_of_rows(3, hessian=-1),
        1,
        "hessians are larger than so many rows have, or < 0",
    ),
    "so many rows that sums overflow": (
        sums_of_rows(2**26 + 1),
        1,
        "n_rows are too many",
    ),
    "many rows": (sums_of_rows(2**26), 1, None),
    "fewer rows than the bound": (
        sums_of_rows(9),
        10,
        "n_rows are fewer than min_rows=10",
    ),
    "as many rows as the bound": (sums_of_rows(10), 10, None),
}


@pytest.mark.parametrize("name", REPLIES)
def test_sums_are_those_of_so_many_rows(name):
    histograms, min_rows, match = REPLIES[name]
    content = {**packed_sums(histograms), "min_rows": min_rows}
    assert_outcome(BoostReply, content, match, asked=SECOND)
    request = Message.of("boost", **SECOND)
    reply = Message.of("boost", **content)
    if match is None:
        check_reply(request, reply)
    else:
        with pytest.raises(ValueError, match=match):
            check_reply(request, reply)


def test_an_honest_reply_is_taken():
    for content in REQUESTS:
        request = Message.of("boost", **content)
        check_request(request)
        reply = {**ask("boost", fresh_member(), **content), "min_rows": 1}
        check_reply(request, Message.of("boost", **reply))


HONEST = packed_sums(sums_of_rows(3, gradient=5, hessian=6))
N_CELLS = len(SECOND["leaves"]) * N_FEATURES
GARBAGE = {
    "nothing": {"n_rows": b""},
    "no counts": {"n_rows": b"\x01abc"},
    "counts of eight bytes": {"n_rows": b"\x08abc"},
    "counts of other leaves": {
        "n_rows": packed_counts(sums_of_rows(3)[1:, ..., 2]).tobytes()
    },
    "no gradients": {"gradients": b""},
    "gradients of other bins": {
        "gradients": packed_numbers(np.full(N_CELLS + 1, 5)).tobytes()
    },
    "too few hessians": {"hessians": packed_numbers(np.full(N_CELLS - 1, 6)).tobytes()},
    "numbers of nine bytes": {"hessians": b"\x09" + bytes(9 * N_CELLS)},
}


@pytest.mark.parametrize("name", GARBAGE)
def test_what_is_not_packed_sums_is_refused(name):
    change = {
        field: np.frombuffer(content, dtype=np.uint8)
        for field, content in GARBAGE[name].items()
    }
    content = {**HONEST, **change, "min_rows": 1}
    assert_outcome(BoostReply, content, " holds no sums: it", asked=SECOND)


def test_sums_of_a_reply_that_was_unpacked_last_are_not_those_of_another():
    first = sums_of_rows(3, gradient=5, hessian=6)
    others = [
        sums_of_rows(3, gradient=7, hessian=6),
        sums_of_rows(3, gradient=5, hessian=7),
        sums_of_rows(4, gradient=5, hessian=6),
    ]
    for other in others:
        for histograms in (first, other, other, first):
            unpacked = unpacked_sums(packed_sums(histograms), shape_of(SECOND))
            np.testing.assert_array_equal(unpacked, histograms)
    with pytest.raises(ValueError, match="read-only"):
        unpacked += 1


def test_bins_without_rows_are_not_sent():
    packed = packed_sums(sums_of_rows(3, gradient=5, hessian=6))
    assert len(packed["gradients"]) == len(packed["hessians"]) == 1 + N_CELLS


# ---- costs -----------------------------------------------


def reply_within(limits: Limits, content: dict) -> Message:
    member = make_member()
    request = Message.of("boost", **content)
    return reply_to(
        request, None, member.X, member.y, name="lyon", disclosure=None, limits=limits
    )


@pytest.mark.parametrize(
    ("limit", "amount"),
    [
        ("row_outputs", 40 * 3),  # rows and outputs
        ("hidden_numbers", 40 * 3),  # rows and trees that are finished
        ("cluster_numbers", len(SECOND["leaves"]) * N_FEATURES * (N_BINS + 1) * 3),
    ],
)
def test_what_costs_more_than_the_limits_is_refused(limit, amount):
    assert reply_within(Limits(**{limit: amount}), SECOND).task == "boost"
    with pytest.raises(LimitError, match="the request 'boost'"):
        reply_within(Limits(**{limit: amount - 1}), SECOND)


# ---- answers -----------------------------------------------


def histograms_of_rows(content, member) -> np.ndarray:
    """Those of the room of trees, from rows that remember nothing."""
    rows = BoostedRows(
        bin_codes(member.X), np.searchsorted(LABELS, member.y), n_classes=3
    )
    leaves = content["leaves"]
    return rows.histograms(
        Asked(leaves=leaves, features=np.zeros((len(leaves), 0), dtype=np.int32)),
        forest=Forest(**{name: content[name] for name in TREES}),
        values=content["values"],
        baseline=content["baseline"],
        n_finished=content["n_finished"],
    )


@pytest.mark.parametrize("content", REQUESTS)
def test_sums_are_those_of_the_rows(content):
    histograms = summed(fresh_member(), content)
    assert histograms[..., 2].sum() > 0
    np.testing.assert_array_equal(
        histograms, histograms_of_rows(content, fresh_member())
    )


def reads(monkeypatch) -> list:
    """Gets an entry each time that a node reads its rows anew."""
    entries = []
    read_rows = skgems.tasks._boost._read_rows

    def noting_read(*arguments):
        entries.append(arguments)
        return read_rows(*arguments)

    monkeypatch.setattr(skgems.tasks._boost, "_read_rows", noting_read)
    return entries


def test_remembered_rows_have_the_same_sums_as_rows_that_are_read_anew(monkeypatch):
    expected = [summed(fresh_member(), content) for content in REQUESTS]
    n_reads = reads(monkeypatch)
    member = fresh_member()
    for content, histograms in zip(REQUESTS, expected, strict=True):
        for _ in range(2):  # a message may be asked for again
            np.testing.assert_array_equal(summed(member, content), histograms)
    assert len(n_reads) == 1


@pytest.mark.parametrize("order", [[0, 5], [1, 4, 5], [5, 0], [3, 1, 2], [4, 3]])
def test_messages_may_be_missed_or_come_in_another_order(order):
    member = fresh_member()
    for place in order:
        np.testing.assert_array_equal(
            summed(member, REQUESTS[place]), summed(fresh_member(), REQUESTS[place])
        )


def changed(name, place, amount, of=SECOND):
    """One value of the finished trees, of three, is another one."""
    values = of[name].copy()
    values[place] = values[place] + amount
    return {name: values}


FINISHED_LEAF = int(np.flatnonzero(SECOND["values"])[0])
FINISHED_SPLIT = int(np.flatnonzero(SECOND["left"][:3] > 0)[0])
GROWING_SPLIT = 3 + int(np.flatnonzero(SECOND["left"][3:6] > 0)[0])
OTHERS = {
    "another leaf value": changed("values", FINISHED_LEAF, 0.5),
    "another value of a vertex that has none": changed("values", FINISHED_SPLIT, 0.5),
    "another baseline": changed("baseline", 1, 0.5),
    "another bin": changed("bin", FINISHED_SPLIT, 1),
    "another bin of a tree that grows": changed("bin", GROWING_SPLIT, 1),
    "an earlier iteration": REQUESTS[1],
    "the first message": REQUESTS[0],
}


@pytest.mark.parametrize("name", OTHERS)
def test_rows_of_other_trees_are_not_remembered(name, monkeypatch):
    other = {**SECOND, **OTHERS[name]}
    expected = summed(fresh_member(), other)
    member = fresh_member()
    summed(member, SECOND)
    n_reads = reads(monkeypatch)
    np.testing.assert_array_equal(summed(member, other), expected)
    assert len(n_reads) == 1


def test_rows_of_other_classes_are_not_remembered():
    """They are other rows, or the same ones with other labels."""
    first = REQUESTS[0]
    member = fresh_member()
    summed(member, first)
    for classes in (["a", "b", "d"], ["b", "c", "d"]):
        other = {**first, "classes": classes}
        histograms = summed(member, other)
        np.testing.assert_array_equal(histograms, summed(fresh_member(), other))
        n_rows = np.isin(member.y, classes).sum()
        np.testing.assert_array_equal(histograms[..., 2].sum(axis=2), n_rows)


def test_a_finished_tree_that_is_split_again_is_another_one():
    leaf = FINISHED_LEAF
    n_vertices = len(SECOND["feature"])
    split = {
        "feature": np.append(SECOND["feature"], [-1, -1]).astype(np.int32),
        "bin": np.append(SECOND["bin"], [0, 0]).astype(np.int32),
        "missing_left": np.append(SECOND["missing_left"], [False, False]),
        "left": np.append(SECOND["left"], [-1, -1]).astype(np.int32),
        "values": np.append(SECOND["values"], [0.5, -0.5]),
    }
    split["feature"][leaf] = 2
    split["bin"][leaf] = N_BINS // 2
    split["left"][leaf] = n_vertices
    other = {**SECOND, **split}
    check_request(Message.of("boost", **other))
    member = fresh_member()
    summed(member, SECOND)
    np.testing.assert_array_equal(summed(member, other), summed(fresh_member(), other))


def test_rows_of_another_role_are_not_summed():
    some_rows = np.arange(0, 40, 2)
    member = make_member(moments=some_rows, training=some_rows)
    histograms = summed(member, REQUESTS[0])
    np.testing.assert_array_equal(histograms[..., 2].sum(axis=2), 20)


def test_another_number_of_features_names_the_node():
    with pytest.raises(ValueError, match="'lyon' has 4 features.*boosted on 5"):
        ask("boost", make_member(), **{**REQUESTS[0], "n_features": 5})
    member = make_member()
    summed(member, REQUESTS[0])
    with pytest.raises(ValueError, match="'lyon' has 4 features.*boosted on 3"):
        ask("boost", member, **{**REQUESTS[0], "n_features": 3})


@pytest.mark.parametrize("content", [REQUESTS[0], REQUESTS[3]])
def test_bins_are_joined_where_a_node_hides_rows(content):
    exact = summed(fresh_member(), content)
    joined = summed(replace(fresh_member(), disclosure=rule_of(4)), content)
    np.testing.assert_array_equal(joined, joined_histograms(exact, 4))
    assert (joined != exact).any()
    reply = {**packed_sums(joined), "min_rows": 4}
    check_reply(Message.of("boost", **content), Message.of("boost", **reply))
    with pytest.raises(ValueError, match="fewer than min_rows=4"):
        reply = {**packed_sums(exact), "min_rows": 4}
        check_reply(Message.of("boost", **content), Message.of("boost", **reply))
