# SPDX-License-Identifier: BSD-3-Clause
"""Counts of leaves that a seed draws: what a node counts, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.disclosures import rule_of
from helpers.rules import assert_outcome
from helpers.tasks import LABELS, ask, make_member
from scipy.sparse import csr_matrix

from skgems.guard import LimitError, Limits, reply_to
from skgems.messages import TASKS, Message, check_reply, check_request
from skgems.tasks import LeafCountsReply, unpacked_leaf_counts
from skgems.trees import (
    bin_codes,
    leaf_counts,
    packed_counts,
    random_forest,
    rounded_leaf_counts,
)

pytestmark = pytest.mark.usefixtures("accepting_nodes")

ASKED = {"n_trees": 3, "max_depth": 2, "random_state": 7}


def counted(member, asked=ASKED) -> np.ndarray:
    """The counts that a node replies with."""
    return unpacked_leaf_counts(ask("leaf_counts", member, **asked), asked)


def expected_counts(X, y) -> np.ndarray:
    forest = random_forest(n_features=X.shape[1], **ASKED)
    return leaf_counts(bin_codes(X), np.searchsorted(LABELS, y), forest, n_classes=3)


# ---- rules -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({}, None),
        ({"random_state": None}, "random_state"),
        ({"random_state": -1}, "random_state"),
        ({"n_trees": 0}, "n_trees"),
        ({"n_trees": 10_001}, "n_trees"),
        ({"max_depth": 0}, "max_depth"),
        ({"max_depth": 17}, "max_depth"),
        ({"feature": np.zeros(3, dtype=int)}, "feature is an unknown field"),
    ],
)
def test_a_request_says_how_trees_are_drawn_and_has_no_splits(change, match):
    request = Message.of("leaf_counts", **ASKED | change)
    if match is None:
        check_request(request)
    else:
        with pytest.raises(ValueError, match=match):
            check_request(request)


def reply_of(counts, *, min_rows=1, labels=("a", "b", "c")) -> dict:
    return {
        "labels": list(labels),
        "counts": packed_counts(np.asarray(counts)),
        "min_rows": min_rows,
    }


OF_OTHER_ROWS = np.full((3, 4, 3), 30)
OF_OTHER_ROWS[1, 2, 0] += 10
MOVED = np.full((3, 4, 3), 30)
MOVED[1, :2, 0] += [10, -10]


@pytest.mark.parametrize(
    ("reply", "match"),
    [
        (reply_of(np.full((3, 4, 3), 3)), None),
        (reply_of(np.full((3, 4, 3), 30), min_rows=10), None),
        (reply_of(MOVED, min_rows=10), None),
        (reply_of(np.full((3, 4, 2), 3), labels="ab"), None),
        (
            reply_of(np.full((3, 4, 2), 3)),
            "counts are no counts: it does not hold counts",
        ),
        (
            reply_of(np.full((2, 4, 3), 3)),
            "counts are no counts: it does not hold counts",
        ),
        (
            reply_of(np.full((3, 4, 3), 3), min_rows=10),
            "counts are no multiples of min_rows=10",
        ),
        (reply_of(OF_OTHER_ROWS), "counts are not of the same rows in each tree"),
    ],
)
def test_counts_are_those_of_what_was_asked(reply, match):
    assert_outcome(LeafCountsReply, reply, match, asked=ASKED)
    request = Message.of("leaf_counts", **ASKED)
    if match is None:
        check_reply(request, Message.of("leaf_counts", **reply))
    else:
        with pytest.raises(ValueError, match=match):
            check_reply(request, Message.of("leaf_counts", **reply))


# ---- costs -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "amount"),
    [("hidden_numbers", 40 * 3), ("cluster_numbers", 3 * 4 * 3)],
)
def test_what_costs_more_than_the_limits_is_refused(limit, amount):
    member = make_member()

    def reply_within(limits):
        request = Message.of("leaf_counts", **ASKED)
        return reply_to(
            request,
            None,
            member.X,
            member.y,
            name="lyon",
            disclosure=None,
            limits=limits,
        )

    assert reply_within(Limits(**{limit: amount})).task == "leaf_counts"
    with pytest.raises(LimitError, match="the request 'leaf_counts'"):
        reply_within(Limits(**{limit: amount - 1}))


# ---- answers -----------------------------------------------------------------------


def test_counts_are_those_of_the_trees_that_the_node_draws():
    member = make_member()
    np.testing.assert_array_equal(counted(member), expected_counts(member.X, member.y))
    other_trees = counted(member, ASKED | {"random_state": 8})
    assert (other_trees != counted(member)).any()


def test_rows_may_be_sparse():
    member = make_member()
    sparse = replace(member, X=csr_matrix(member.X))
    np.testing.assert_array_equal(counted(sparse), counted(member))


def test_rows_of_other_roles_are_not_counted_nor_are_classes_without_rows():
    member = make_member()
    rows = np.flatnonzero(member.y != "b")[::2]
    of_some = make_member(moments=rows, training=rows)
    content = ask("leaf_counts", of_some, **ASKED)
    assert content["labels"] == ["a", "c"]
    expected = expected_counts(member.X[rows], member.y[rows])[:, :, [0, 2]]
    np.testing.assert_array_equal(unpacked_leaf_counts(content, ASKED), expected)


def test_counts_are_rounded_where_a_node_hides_rows():
    exact = counted(make_member())
    rounded = counted(replace(make_member(), disclosure=rule_of(4)))
    np.testing.assert_array_equal(rounded, rounded_leaf_counts(exact, 4))
    assert (rounded % 4 == 0).all() and (rounded != exact).any()


def test_the_task_may_be_part_of_a_first_message():
    task = TASKS["leaf_counts"]
    assert task.is_in_summaries and task.alone and task.takes_chunks
