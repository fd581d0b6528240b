"""The task "boost": sums of gradients at the leaves of trees that are boosted.

A reply has, for leaf v, feature j and bin b, the sums of gradients and of hessians of
the rows of the node, as multiples of 2^-30, and the number of these rows. A node with
``min_rows`` above 1 joins bins until each has that many rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse

from ..local import Member, NodeShape
from ..messages import MOST_CLASSES, MOST_ROWS, Array, Labels, Place, Task
from ..trees import (
    N_BINS,
    N_SUMS,
    SCALE,
    Asked,
    BoostedRows,
    Forest,
    bin_codes,
    joined_histograms,
    n_outputs,
    packed_counts,
    unpacked_counts,
)
from ._grow import FOREST_FIELDS, forest_is_sound, forest_of, has_grown_from
from ._rows import rows_of_labels
from ._shared import MIN_ROWS, whole_number

# The sums of a reply, in the order of histograms.
SUMS = ("gradients", "hessians", "n_rows")
# Nothing that is added up may leave int64: raw predictions of honest trees are below a
# hundred, whatever the rows.
_LARGEST_VALUE = 1e6

# ---- rules -------------------------------------------------------------------------


def iteration_is_sound(request: Mapping, place: Place) -> None:
    """Trees are sound, and the leaves that are asked about belong to one iteration."""
    forest_is_sound(request, place)
    outputs = n_outputs(len(request["classes"]))
    n_finished = request["n_finished"]
    n_trees = request["n_trees"]
    is_whole = n_trees % outputs == 0 and n_finished % outputs == 0
    place.deny(not is_whole or n_finished >= n_trees, "n_finished", "is no iteration")
    place.deny(len(request["baseline"]) != outputs, "baseline", f"is not {outputs}")
    trees = forest_of(request).trees()[request["leaves"]]
    in_iteration = (trees >= n_finished) & (trees < n_finished + outputs)
    place.deny(not in_iteration.all(), "leaves", "are of other iterations")


def sums_are_of_leaves(content: Mapping, place: Place) -> None:
    """Sums are as many as were asked for, and of enough rows each."""
    asked = place.asked
    shape = (len(asked["leaves"]), asked["n_features"], N_BINS + 1, N_SUMS)
    try:
        sums = unpacked_sums(content, shape)
    except ValueError as error:
        raise place.wrong(f"holds no sums: {error}") from None
    n_rows = sums[..., 2]
    is_too_large = np.abs(sums[..., :2]).max(axis=-1) > SCALE * n_rows
    place.deny(is_too_large.any(), "gradients", "are larger than so many rows have")
    min_rows = content["min_rows"]
    is_small = (n_rows > 0) & (n_rows < min_rows)
    place.deny(is_small.any(), "n_rows", f"are fewer than min_rows={min_rows}")


def unpacked_sums(content: Mapping, shape: tuple[int, ...]) -> np.ndarray:
    """The histograms of a reply; ValueError if it holds others than of this shape."""
    return np.stack(
        [unpacked_counts(content[name], shape[:-1]) for name in SUMS], axis=-1
    )


# ---- cost and answer ---------------------------------------------------------------


def _cost(rows: NodeShape, content: Mapping) -> None:
    request = "the request 'boost'"
    outputs = n_outputs(len(content["classes"]))
    rows.check("row_outputs", rows.n_rows * outputs, request)
    # A node that remembers nothing leads its rows through all trees that are finished.
    rows.check("hidden_numbers", rows.n_rows * content["n_finished"], request)
    n_cells = len(content["leaves"]) * content["n_features"] * (N_BINS + 1) ** 2
    rows.check("cluster_numbers", n_cells, request)


def boost(
    member: Member,
    *,
    classes: Sequence,
    n_features: int,
    n_finished: int,
    values: np.ndarray,
    baseline: np.ndarray,
    leaves: np.ndarray,
    **trees: np.ndarray,
) -> dict:
    """Sums of gradients, hessians and rows of the node at the leaves, by bin."""
    X, labels, _ = rows_of_labels(member, "learning", classes)
    if X.shape[1] != n_features:
        raise ValueError(
            f"Node {member.name!r} has {X.shape[1]} features, but trees are to be "
            f"boosted on {n_features}."
        )
    trees_so_far = _Trees(
        forest=Forest(**trees), values=values, baseline=baseline, n_finished=n_finished
    )
    rows = _remembered_rows(member, trees_so_far)
    if rows is None:
        codes = bin_codes(X.toarray() if issparse(X) else X)
        rows = BoostedRows(codes, labels, n_classes=len(classes))
    member.memo["boost"] = (rows, trees_so_far)
    histograms = rows.histograms(
        Asked(leaves=leaves, features=np.empty((len(leaves), 0), dtype=np.int32)),
        forest=trees_so_far.forest,
        values=values,
        baseline=baseline,
        n_finished=n_finished,
    )
    if member.min_rows > 1:
        histograms = joined_histograms(histograms, member.min_rows)
    return {
        name: packed_counts(histograms[..., kind]) for kind, name in enumerate(SUMS)
    }


@dataclass(frozen=True, eq=False, kw_only=True)
class _Trees:
    """Trees that a request brings, and how far they are boosted."""

    forest: Forest
    values: np.ndarray  # (n_vertices,)
    baseline: np.ndarray  # (n_outputs,)
    n_finished: int

    def have_grown_from(self, before: "_Trees") -> bool:
        """Whether they are others that went on growing."""
        had_value = np.flatnonzero(before.values)
        return (
            self.n_finished >= before.n_finished
            and np.array_equal(self.baseline, before.baseline)
            and has_grown_from(self.forest, before.forest)
            and np.array_equal(self.values[had_value], before.values[had_value])
        )


def _remembered_rows(member: Member, trees: _Trees) -> BoostedRows | None:
    """The rows as the last message left them, if it was about the same trees."""
    rows, trees_before = member.memo.get("boost", (None, None))
    if trees_before is None or not trees.have_grown_from(trees_before):
        return None
    return rows


_SAYS = (
    "Sums of gradients and hessians, and the number of rows, in each bin of features "
    "at leaves of trees: how wrong the trees are about these rows. Where min_rows is "
    "above 1, bins are joined until each has so many rows; else one may have a single "
    "row."
)
BOOST = Task(
    name="boost",
    asks="sums of gradients of boosted trees in each bin of features at leaves",
    often="once for each level of each iteration",
    # More than an honest exchange of few trees asks take a person who read about it.
    most=100,
    without="what follows",
    allows_missing=True,
    request={
        "classes": Labels("k", ordered=True, most=MOST_CLASSES),
        "n_features": whole_number(low=1, high=MOST_ROWS),
        **FOREST_FIELDS,
        "n_finished": whole_number(high=MOST_ROWS),
        "values": Array("v", high=_LARGEST_VALUE),
        "baseline": Array("o", high=_LARGEST_VALUE),
        "leaves": Array("a", kinds="i", low=0),
    },
    request_rule=iteration_is_sound,
    reply={
        "min_rows": MIN_ROWS,
        **{name: Array("*", kinds="u", says=_SAYS) for name in SUMS},
    },
    rule=sums_are_of_leaves,
    cost=_cost,
    answer=boost,
)
