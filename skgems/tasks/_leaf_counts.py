"""The task "leaf_counts": rows by class in the leaves of totally random trees.

The node draws the trees itself, from a seed that is agreed, so that a server chooses no
split. All that it is told are these counts, in one message.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated

import numpy as np
from scipy.sparse import issparse

from ..local import ChunkedMember, Member, NodeShape, Rows, indices_of
from ..messages import Array, Place, Request, Task, counting
from ..trees import (
    bin_codes,
    leaf_counts,
    packed_counts,
    random_forest,
    rounded_leaf_counts,
    unpacked_counts,
)
from ._forests import MOST_TREES
from ._shared import CLASSES, DisclosedReply, whole_number

# Levels of a tree, each of which doubles its leaves: deeper trees have nearly as many
# leaves as rows, which say what single rows are.
DEEPEST = 16

# ---- words -------------------------------------------------------------------------


def _bytes_in_words(content: Mapping, reply: Mapping) -> str:
    return f"Here they take {counting(len(content['counts']), 'byte')}."


# ---- rules -------------------------------------------------------------------------


def check_leaf_counts(
    reply: "LeafCountsReply", request: "LeafCountsRequest", place: Place
) -> None:
    """Raise ValueError for trees of different rows, or no multiples of min_rows."""
    shape = _shape(request.n_trees, request.max_depth, len(reply.labels))
    try:
        counts = unpacked_counts(reply.counts, shape)
    except ValueError as error:
        raise place.at("counts").wrong(f"are no counts: {error}") from None
    min_rows = reply.min_rows
    is_exact = min_rows > 1 and (counts % np.int64(min_rows)).any()
    place.deny(is_exact, "counts", f"are no multiples of min_rows={min_rows}")
    totals = counts.sum(axis=1, dtype=np.int64)
    differ = (totals != totals[0]).any()
    place.deny(differ, "counts", "are not of the same rows in each tree")


def unpacked_leaf_counts(content: Mapping, request: Mapping) -> np.ndarray:
    """Unpack counts (n_trees, n_leaves, n_classes) of the node's own classes.

    It cannot be written to.
    """
    shape = _shape(request["n_trees"], request["max_depth"], len(content["labels"]))
    return unpacked_counts(content["counts"], shape)


def _shape(n_trees: int, max_depth: int, n_classes: int) -> tuple[int, int, int]:
    """Return the shape of all counts: tree, leaf and class."""
    return n_trees, 2**max_depth, n_classes


class LeafCountsRequest(Request):
    """Which trees the node draws."""

    n_trees: Annotated[int, whole_number(low=1, high=MOST_TREES)]
    max_depth: Annotated[int, whole_number(low=1, high=DEEPEST)]
    # Not "seed", which a server may fill in: the trees are agreed.
    random_state: Annotated[int, whole_number(high=2**32 - 1)]


class LeafCountsReply(DisclosedReply):
    """Rows of each class in each leaf of the trees."""

    labels: Annotated[list, CLASSES]
    counts: Annotated[
        np.ndarray,
        Array(
            "*",
            kinds="u",
            says="How many rows lie in each leaf of trees that an agreed seed draws, "
            "by class. A leaf is a rule about several features. Where min_rows is "
            "above 1, counts up to each leaf are rounded to multiples of it; else deep "
            "leaves speak of single rows.",
            detail=_bytes_in_words,
        ),
    ]

    def check(self, request: LeafCountsRequest, place: Place) -> None:
        check_leaf_counts(self, request, place)


# ---- cost and answer ---------------------------------------------------------------


def _cost(rows: NodeShape, request: LeafCountsRequest) -> None:
    words = "the request 'leaf_counts'"
    # For each row the leaf in each tree.
    rows.check("hidden_numbers", rows.n_rows * request.n_trees, words)
    shape = _shape(request.n_trees, request.max_depth, rows.n_classes)
    rows.check("cluster_numbers", int(np.prod(shape)), words)


def answer_leaf_counts(member: Member, request: LeafCountsRequest) -> LeafCountsReply:
    """Count the node's rows, by class, in the leaves of the trees that it draws."""
    labels, _ = member.row_counts()
    forest = None
    counts = np.zeros(
        _shape(request.n_trees, request.max_depth, len(labels)), dtype=np.int32
    )
    for X, y in _learning_chunks(member):
        if forest is None:
            forest = random_forest(
                n_trees=request.n_trees,
                max_depth=request.max_depth,
                n_features=X.shape[1],
                random_state=request.random_state,
            )
        counts += leaf_counts(
            bin_codes(X.toarray() if issparse(X) else X),
            indices_of(y, labels),
            forest,
            n_classes=len(labels),
        )
    # Rows of a class may all be held out.
    learns = counts[0].any(axis=0)
    counts = counts[:, :, learns]
    if member.min_rows > 1:
        counts = rounded_leaf_counts(counts, member.min_rows)
    return LeafCountsReply(
        labels=[label for label, k in zip(labels, learns, strict=True) if k],
        counts=packed_counts(counts),
    )


def _learning_chunks(member: Member) -> Iterable[tuple[Rows, np.ndarray]]:
    """Rows that learn and their labels, in one chunk where all are in memory."""
    if isinstance(member, ChunkedMember):
        return ((X, y) for X, y, _ in member.learning_rows())
    return [member.rows("learning")]


LEAF_COUNTS = Task(
    name="leaf_counts",
    bound="derived",
    discloses="counts",
    most=1,
    without="needed",
    accepted_by="ledger",
    asks="how many rows lie in each leaf of random trees, by class",
    reveals="Nobody chooses the leaves, which an agreed seed draws. Leaves of deep "
    "trees reveal single rows. Where min_rows is above 1, counts are rounded to "
    "multiples of it.",
    alone=True,
    is_in_summaries=True,
    takes_chunks=True,
    allows_missing=True,
    reads="rows",
    request=LeafCountsRequest,
    reply=LeafCountsReply,
    of_user=("labels",),
    cost=_cost,
    answer=answer_leaf_counts,
)
