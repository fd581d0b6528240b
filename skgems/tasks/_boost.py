"""The task "boost": sums of gradients at the leaves of trees that are boosted.

A reply has, for leaf v, feature j and bin b, the sums of gradients and of hessians of
the rows of the node, as multiples of 2^-30, and the number of these rows. The sums of
a bin without rows are zero, and are not sent. A node with ``min_rows`` above 1 joins
bins until each has that many rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated

import numpy as np
from scipy.sparse import issparse

from ..local import Member, NodeShape
from ..messages import Array, Place, Task
from ..trees import (
    N_BINS,
    N_SUMS,
    SCALE,
    Asked,
    BoostedRows,
    Cells,
    Forest,
    bin_codes,
    bytes_of_bins,
    joined_histograms,
    n_outputs,
    packed_cells,
    packed_numbers,
    unpacked_counts,
    unpacked_numbers,
)
from ._forests import GrowthRequest, check_leaves, has_grown_from
from ._rows import rows_of_labels
from ._shared import DisclosedReply, number_of_rows

# Rows of a node, so that sums over 2^7 nodes stay within int64.
_MOST_ROWS_OF_A_NODE = 2**26
_SUMS = ("gradients", "hessians", "n_rows")
# Nothing that is added up may leave int64: raw predictions of honest trees are below a
# hundred, whatever the rows.
_LARGEST_VALUE = 1e6

# ---- rules -------------------------------------------------------------------------


def check_iteration(request: "BoostRequest", place: Place) -> None:
    """Raise ValueError for trees that are not sound, or leaves of two iterations."""
    check_leaves(request, place)
    outputs = n_outputs(len(request.classes))
    n_finished = request.n_finished
    n_trees = request.n_trees
    is_whole = n_trees % outputs == 0 and n_finished % outputs == 0
    place.deny(not is_whole or n_finished >= n_trees, "n_finished", "is no iteration")
    place.deny(len(request.baseline) != outputs, "baseline", f"is not {outputs}")
    is_beyond = request.feature >= request.n_features
    place.deny(is_beyond.any(), "feature", "are not below n_features")
    trees = request.forest.trees[request.leaves]
    in_iteration = (trees >= n_finished) & (trees < n_finished + outputs)
    place.deny(not in_iteration.all(), "leaves", "are of other iterations")


def check_sums(reply: "BoostReply", request: "BoostRequest", place: Place) -> None:
    """Raise ValueError for other sums than asked for, or of too few rows."""
    shape = (len(request.leaves), request.n_features, N_BINS + 1, N_SUMS)
    try:
        sums = unpacked_sums(vars(reply), shape)
    except ValueError as error:
        raise place.wrong(f"holds no sums: {error}") from None
    gradients, hessians, n_rows = np.moveaxis(sums, -1, 0)
    most_rows = n_rows.sum(axis=2).max(initial=0)
    place.deny(most_rows > _MOST_ROWS_OF_A_NODE, "n_rows", "are too many")
    # Not by the absolute value, of which the smallest number has none.
    is_large = (gradients > SCALE * n_rows) | (gradients < -SCALE * n_rows)
    place.deny(is_large.any(), "gradients", "are larger than so many rows have")
    # The largest hessian of a row, p (1 - p), is a quarter.
    is_large = (hessians > SCALE // 4 * n_rows) | (hessians < 0)
    place.deny(is_large.any(), "hessians", "are larger than so many rows have, or < 0")
    min_rows = reply.min_rows
    is_small = (n_rows > 0) & (n_rows < min_rows)
    place.deny(is_small.any(), "n_rows", f"are fewer than min_rows={min_rows}")


def packed_sums(histograms: np.ndarray) -> dict[str, np.ndarray]:
    """Histograms, of three sums a bin, as the fields of a reply."""
    gradients, hessians, n_rows = np.moveaxis(histograms, -1, 0)
    cells = Cells.from_histograms(n_rows)
    return {
        "gradients": packed_numbers(gradients.ravel().take(cells.indices)),
        "hessians": packed_numbers(hessians.ravel().take(cells.indices)),
        "n_rows": packed_cells(cells, n_rows.size),
    }


def unpacked_sums(content: Mapping, shape: tuple[int, ...]) -> np.ndarray:
    """The histograms of a reply; ValueError if it holds others than of this shape."""
    fields = [content[name].tobytes() for name in _SUMS]
    return _unpacked(*fields, shape)


@lru_cache(maxsize=1)  # a reply is unpacked to be checked, and then to be added up
def _unpacked(
    gradients: bytes, hessians: bytes, n_rows: bytes, shape: tuple[int, ...]
) -> np.ndarray:
    histograms = np.zeros(shape, dtype=np.int64)
    histograms[..., 2] = unpacked_counts(_as_array(n_rows), shape[:-1])
    has_rows = histograms[..., 2] > 0
    n_cells = np.count_nonzero(has_rows)
    for kind, content in enumerate((gradients, hessians)):
        numbers = unpacked_numbers(_as_array(content), n_cells)
        histograms[..., kind][has_rows] = numbers
    histograms.flags.writeable = False
    return histograms


def _as_array(content: bytes) -> np.ndarray:
    return np.frombuffer(content, dtype=np.uint8)


# ---- fields ------------------------------------------------------------------------

_SAYS = (
    "Sums of gradients and hessians, and the number of rows, in each bin of features "
    "at leaves of trees: how wrong the trees are about these rows. Where min_rows is "
    "above 1, bins are joined until each has so many rows; else one may have a single "
    "row."
)
_PACKED = Array("*", kinds="u", says=_SAYS)


class BoostRequest(GrowthRequest):
    """Trees so far, how far they are boosted, and the leaves that are asked about."""

    n_features: Annotated[int, number_of_rows(low=1)]
    n_finished: Annotated[int, number_of_rows()]
    values: Annotated[np.ndarray, Array("v", high=_LARGEST_VALUE)]
    baseline: Annotated[np.ndarray, Array("o", high=_LARGEST_VALUE)]

    @cached_property
    def trees(self) -> "_Trees":
        """Return the trees so far, and how far they are boosted."""
        return _Trees(
            forest=self.forest,
            values=self.values,
            baseline=self.baseline,
            n_finished=self.n_finished,
        )

    def check(self, place: Place) -> None:
        check_iteration(self, place)


class BoostReply(DisclosedReply):
    """The sums of gradients and of hessians, and the number of rows, in each bin."""

    gradients: Annotated[np.ndarray, _PACKED]
    hessians: Annotated[np.ndarray, _PACKED]
    n_rows: Annotated[np.ndarray, _PACKED]
    # Unpacked, where the reply was made in this process; no message has it.
    histograms: np.ndarray | None = None

    def check(self, request: BoostRequest, place: Place) -> None:
        check_sums(self, request, place)

    def sums(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return the histograms, of this shape; ValueError if they are others."""
        if self.histograms is None:
            return unpacked_sums(vars(self), shape)
        return self.histograms


# ---- cost and answer ---------------------------------------------------------------


def _cost(rows: NodeShape, request: BoostRequest) -> None:
    words = "the request 'boost'"
    outputs = n_outputs(len(request.classes))
    rows.check("row_outputs", rows.n_rows * outputs, words)
    # A node that remembers nothing leads its rows through all trees that are finished.
    rows.check("hidden_numbers", rows.n_rows * request.n_finished, words)
    n_cells = len(request.leaves) * request.n_features * (N_BINS + 1) * N_SUMS
    rows.check("cluster_numbers", n_cells, words)


def boost(member: Member, request: BoostRequest) -> BoostReply:
    """Sum gradients, hessians and rows of the node at the leaves, by bin."""
    trees = request.trees
    rows = _remembered_rows(member, request.classes, request.n_features, trees)
    if rows is None:
        rows = _read_rows(member, request.classes, request.n_features)
    member.memo["boost"] = _Remembered(
        classes=list(request.classes),
        n_features=request.n_features,
        rows=rows,
        trees=trees,
    )
    leaves = request.leaves
    histograms = rows.histograms(
        Asked(leaves=leaves, features=np.empty((len(leaves), 0), dtype=np.int32)),
        forest=trees.forest,
        values=request.values,
        baseline=request.baseline,
        n_finished=request.n_finished,
    )
    if member.min_rows > 1:
        histograms = joined_histograms(histograms, member.min_rows)
    return BoostReply(**packed_sums(histograms), histograms=histograms)


def _read_rows(member: Member, classes: Sequence, n_features: int) -> BoostedRows:
    """The rows of a node, which no tree has seen."""
    X, labels, _ = rows_of_labels(member, "learning", classes)
    if X.shape[1] != n_features:
        raise ValueError(
            f"Node {member.name!r} has {X.shape[1]} features, but trees are to be "
            f"boosted on {n_features}."
        )
    codes = bin_codes(X.toarray() if issparse(X) else X)
    return BoostedRows(codes, labels, n_classes=len(classes))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Trees:
    """Trees that a request brings, and how far they are boosted."""

    forest: Forest
    values: np.ndarray  # (n_vertices,)
    baseline: np.ndarray  # (n_outputs,)
    n_finished: int

    @cached_property
    def is_finished(self) -> np.ndarray:
        """Report which vertices are of trees that grow no more: (n_vertices,)."""
        return self.forest.trees < self.n_finished


@lru_cache(maxsize=1)  # nodes in one process are asked about the same trees, in turn
def _have_grown_from(trees: _Trees, before: _Trees) -> bool:
    """Report whether trees are those ``before`` after more growth."""
    if trees.n_finished < before.n_finished:
        return False
    if not has_grown_from(trees.forest, before.forest):
        return False
    finished = np.flatnonzero(before.is_finished)
    return (
        np.array_equal(trees.baseline, before.baseline)
        and np.array_equal(trees.values[finished], before.values[finished])
        and np.array_equal(
            trees.forest.feature[finished], before.forest.feature[finished]
        )
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Remembered:
    """Rows of a node as the last message left them, and what it was about."""

    classes: list
    n_features: int
    rows: BoostedRows
    trees: _Trees


def _remembered_rows(
    member: Member, classes: Sequence, n_features: int, trees: _Trees
) -> BoostedRows | None:
    """The rows as the last message left them, if it was about the same trees."""
    last = member.memo.get("boost")
    if last is None or last.classes != list(classes) or last.n_features != n_features:
        return None
    return last.rows if _have_grown_from(trees, last.trees) else None


BOOST = Task(
    name="boost",
    bound="terms",
    discloses="consent",
    most=100,
    without="what follows",
    accepted_by="person",
    asks="sums of gradients of boosted trees in each bin of features at leaves",
    reveals="A leaf is a rule about several features, so deep leaves reveal single "
    "rows. Where min_rows is above 1, each sum is over at least that many rows.",
    often="once for each level of each iteration",
    smaller_with_lower="max_iter or max_depth",
    bytes_of_rows=bytes_of_bins,
    # More than an honest exchange of few trees asks take a person who read about it.
    allows_missing=True,
    request=BoostRequest,
    reply=BoostReply,
    of_user=(),
    cost=_cost,
    answer=boost,
)
