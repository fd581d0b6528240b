"""The task "grow": histograms of the leaves of trees that grow by a level.

A reply has, for leaf v, feature j, bin b and class c, the number of rows of the node.
A leaf is a rule, such as "age up to 50, and pressure above 120", so that counts of
small leaves speak of few rows: a node with ``min_rows`` above 1 rounds counts to it.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
from scipy.sparse import issparse

from ..local import Member, NodeShape
from ..messages import (
    Array,
    Flag,
    Place,
    Task,
)
from ..trees import (
    N_BINS,
    Asked,
    Forest,
    bin_codes,
    bootstrap_weights,
    bytes_of_bins,
    class_cells,
    leaves_of,
    packed_cells,
    rounded_cells,
    unpacked_cells,
)
from ._forests import GrowthRequest, check_features, check_leaves, has_grown_from
from ._rows import rows_of_labels
from ._shared import DisclosedReply

# ---- words -------------------------------------------------------------------------


def _bytes_in_words(content: Mapping, reply: Mapping) -> str:
    return f"Here they take {len(content['counts']):,} bytes."


# ---- fields ------------------------------------------------------------------------


class GrowRequest(GrowthRequest):
    """Trees so far, and the leaves and features whose histograms are asked for."""

    features: Annotated[np.ndarray, Array("a j", kinds="i", low=0)]  # of each leaf
    bootstrap: Annotated[bool, Flag()]

    @property
    def asked(self) -> Asked:
        """The leaves and the features of each."""
        return Asked(leaves=self.leaves, features=self.features)

    def check(self, place: Place) -> None:
        check_leaves(self, place)
        is_out_of_order = (np.diff(self.features, axis=1) <= 0).any()
        place.deny(is_out_of_order, "features", "are not in order")

    def check_counts(self, counts: np.ndarray, place: Place, *, min_rows: int) -> None:
        """Raise ValueError for other counts than asked for, or no multiples."""
        shape = self.asked.shape(len(self.classes))
        try:
            cells = unpacked_cells(counts, math.prod(shape))
        except ValueError as error:
            raise place.at("counts").wrong(f"are no counts: {error}") from None
        is_exact = min_rows > 1 and (cells.counts % min_rows).any()
        place.deny(is_exact, "counts", f"are no multiples of min_rows={min_rows}")


class GrowReply(DisclosedReply):
    """How many rows lie in each bin of the features at the leaves, by class."""

    counts: Annotated[
        np.ndarray,
        Array(
            "*",
            kinds="u",
            says="How many rows lie in each bin of features, by class, at leaves of "
            "trees. A leaf is a rule about several features. Where min_rows is above "
            "1, counts up to each bin are rounded to multiples of it; else deep leaves "
            "speak of single rows.",
            detail=_bytes_in_words,
        ),
    ]

    def check(self, request: GrowRequest, place: Place) -> None:
        request.check_counts(self.counts, place, min_rows=self.min_rows)


# ---- cost and answer ---------------------------------------------------------------


def _cost(rows: NodeShape, request: GrowRequest) -> None:
    words = "the request 'grow'"
    # For each row the leaf in each tree, and how often it counts there.
    rows.check("hidden_numbers", rows.n_rows * request.n_trees, words)
    n_cells = request.features.size * (N_BINS + 1) * len(request.classes)
    rows.check("cluster_numbers", n_cells, words)


def grow(member: Member, request: GrowRequest) -> GrowReply:
    """Count the node's rows at the leaves, by bin and class."""
    rows = _remembered_rows(member, request.classes)
    n_features = rows["codes"].shape[1]
    check_features(member, request.feature, request.features, n_features=n_features)
    forest = request.forest
    asked = request.asked
    weights = None
    if request.bootstrap:
        weights = _remembered_weights(member, rows, forest)
    n_classes = len(request.classes)
    cells = class_cells(
        rows["codes"],
        rows["labels"],
        _remembered_leaves(rows, forest),
        asked,
        n_classes=n_classes,
        weights=weights,
    )
    shape = asked.shape(n_classes)
    if member.min_rows > 1:
        cells = rounded_cells(cells, shape, member.min_rows)
    return GrowReply(counts=packed_cells(cells, math.prod(shape)))


def _remembered_rows(member: Member, classes: Sequence) -> dict:
    """The bins and labels of the node's rows, and what else is remembered of them.

    Rows of other classes are other rows.
    """
    rows = member.memo.get("grow")
    if rows is None or rows["classes"] != list(classes):
        X, labels, _ = rows_of_labels(member, "learning", classes)
        codes = bin_codes(X.toarray() if issparse(X) else X)
        rows = {"classes": list(classes), "codes": codes, "labels": labels}
        member.memo["grow"] = rows
    return rows


def _remembered_leaves(rows: dict, forest: Forest) -> np.ndarray:
    """The leaf of each row, from where it was when the trees were asked about last."""
    start = None
    if "leaves" in rows and has_grown_from(forest, rows["forest"]):
        start = rows["leaves"]
    leaves = leaves_of(rows["codes"], forest, start=start)
    rows.update(forest=forest, leaves=leaves)
    return leaves


def _remembered_weights(member: Member, rows: dict, forest: Forest) -> np.ndarray:
    """Return how often each tree counts each row, drawn once for so many trees."""
    weights = rows.get("weights")
    if weights is None or weights.shape[1] != forest.n_trees:
        weights = _drawn_weights(member, len(rows["labels"]), forest.n_trees)
        rows["weights"] = weights
    return weights


def _drawn_weights(member: Member, n_rows: int, n_trees: int) -> np.ndarray:
    """Draw how often each tree counts each row, from a secret of the node.

    The secret is a hash of its rows, which nobody else has: it is never sent, and the
    same in all exchanges. Two samples of the same rows would tell a server more.
    """
    digest = member.digest(classifier=False)
    if digest is None:
        raise ValueError(
            f"The rows of node {member.name!r} cannot be hashed, so that none can be "
            "drawn with replacement. Set bootstrap=False."
        )
    secret = hashlib.sha256(f"rows of trees {digest}".encode()).digest()
    return bootstrap_weights(n_rows, n_trees, secret)


GROW = Task(
    name="grow",
    bound="terms",
    discloses="consent",
    most=20,
    without="what follows",
    accepted_by="person",
    asks="how many rows lie in each bin of features at leaves of trees, by class",
    reveals="A leaf is a rule about several features, so deep leaves reveal single "
    "rows. Where min_rows is above 1, counts are rounded to multiples of it.",
    often="once for each level of the trees",
    smaller_with_lower="n_estimators, max_depth or max_features",
    bytes_of_rows=bytes_of_bins,
    allows_missing=True,
    request=GrowRequest,
    reply=GrowReply,
    of_user=(),
    cost=_cost,
    answer=grow,
)
