"""Sums over the rows of all nodes, made of what the nodes reply.

A node replies with sums by class: moments, or sums of values or categories. These are
added up, and one summary may hold them for several nodes, as that of a region does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ..local import WITHHELD, indices_of
from ..moments import ClassMoments, ClassSums, NodeMeans, Trust, merge_moments
from ..tasks import ClassSumsReply, MomentsReply
from ._disagreement import means_of_moments, means_of_sums
from ._trusted import weighted_sums


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledSums:
    """The sums of all nodes."""

    sums: ClassMoments | ClassSums
    reason: str  # why they are not of all rows, or ""
    node_means: NodeMeans  # class means of each node, which are compared
    # By class, its place among the classes: nodes that tell a scatter of its rows
    # together with those of other classes alone.
    sharing_nodes: Mapping[int, Sequence[str]] = field(default_factory=dict)
    trust: Trust | None = None  # what was found of the nodes, if some may lie

    @classmethod
    def from_replies(
        cls,
        replies: Sequence[MomentsReply | ClassSumsReply],
        *,
        names: Sequence[str],
        classes: np.ndarray,
        used: np.ndarray | None = None,
        factors: Sequence[float] | None = None,
    ) -> Self:
        """Add up what the nodes of these names replied.

        ``classes`` are those of all nodes, and ``used`` are the features that are
        summed, (n_features,), bool; None: all. ``factors`` are the parts of their rows
        that nodes count with; None: all. There may be more names than replies.
        """
        sums: ClassMoments | ClassSums
        sharing_nodes: dict[int, list[str]] = {}
        if factors is None:
            factors = [1.0] * len(replies)
        # One after the other: scatters of all nodes together may be large.
        sums_by_node = (
            weighted_sums(sums_of_reply(reply, classes, used=used), factor)
            for reply, factor in zip(replies, factors, strict=True)
        )
        if isinstance(replies[0], ClassSumsReply):
            parts = list(sums_by_node)
            sums = ClassSums.merged(parts)
            node_means = means_of_sums(parts, sums)
        else:
            merged = merge_moments(sums_by_node)
            n_parts = [len(np.unique(reply.moments["columns"])) for reply in replies]
            node_means = means_of_moments(merged, np.cumsum([0, *n_parts]))
            sums = merged.by_class()
            for name, reply in zip(names, replies, strict=False):
                for c in _classes_that_share(reply, classes).tolist():
                    sharing_nodes.setdefault(c, []).append(name)
        return cls(
            sums=sums,
            reason=_reason_of_left_out(names, replies),
            node_means=node_means,
            sharing_nodes=sharing_nodes,
        )

    def drop_empty_classes(
        self, classes: np.ndarray
    ) -> tuple[ClassMoments | ClassSums, np.ndarray]:
        """Return sums by classes with rows, and their columns in ``classes``.

        Columns have the shape (n_classes_with_rows,).
        """
        if isinstance(self.sums, ClassSums):
            return self.sums, columns_of_labels(self.sums.labels, classes)
        columns = np.unique(self.sums.columns)
        places = np.searchsorted(columns, np.arange(len(classes)))
        return self.sums.renamed(places), columns

    def as_content(self, classes: np.ndarray) -> dict[str, object]:
        """The sums as one node would reply them that had the rows of all nodes."""
        if isinstance(self.sums, ClassSums):
            fields = {
                name: value
                for name, value in vars(self.sums).items()
                if value is not None
            }
            return {**fields, "left_out": bool(self.reason)}
        return {
            "labels": classes.tolist(),
            "moments": self.sums.as_arrays(),
            "form": {"reason": self.reason or "there is no classifier"},
            "scaled": False,
        }


def sums_of_reply(
    reply: MomentsReply | ClassSumsReply,
    classes: np.ndarray,
    *,
    used: np.ndarray | None,
) -> ClassMoments | ClassSums:
    """Return the sums in a reply, of the features that are used."""
    if isinstance(reply, ClassSumsReply):
        return _select_features(_class_sums_of(reply), used)
    return _select_features(_class_moments_of(reply, classes), used)


def _select_features(
    sums: ClassMoments | ClassSums, used: np.ndarray | None
) -> ClassMoments | ClassSums:
    """Return the sums of the features that are used; None: all."""
    return sums if used is None else sums.select_features(used)


def _class_sums_of(reply: ClassSumsReply) -> ClassSums:
    return ClassSums(
        labels=reply.labels, counts=reply.counts, sums=reply.sums, sizes=reply.sizes
    )


def _class_moments_of(reply: MomentsReply, classes: np.ndarray) -> ClassMoments:
    """Return moments with one part a class, whose columns are of all classes."""
    moments = ClassMoments.from_arrays(reply.moments)
    return moments.renamed(columns_of_labels(reply.labels, classes)).by_class()


def _classes_that_share(reply: MomentsReply, classes: np.ndarray) -> np.ndarray:
    """Return the classes of a reply without a scatter of their own."""
    sharing = np.setdiff1d(reply.moments["columns"], reply.moments["groups"])
    return columns_of_labels(reply.labels, classes)[sharing]


def _reason_of_left_out(
    names: Sequence[str], replies: Sequence[MomentsReply | ClassSumsReply]
) -> str:
    """Say why sums are not of all rows, with the first such node; "" if they are."""
    for name, reply in zip(names, replies, strict=False):
        if isinstance(reply, ClassSumsReply):
            is_withheld = reply.left_out
        elif _leaves_classes_out(reply):
            return (
                f"classes with too few rows (min_rows) are left out at node {name!r}."
            )
        else:
            is_withheld = WITHHELD in reply.form.get("reason", "")
        if is_withheld:
            return f"{WITHHELD} at node {name!r}."
    return ""


def _leaves_classes_out(reply: MomentsReply) -> bool:
    if len(reply.labels) > len(np.unique(reply.moments["columns"])):
        return True
    # A region adds up what its nodes sent, and says so in its reason alone.
    return "min_rows" in reply.form.get("reason", "")


def columns_of_labels(labels: Sequence, classes: np.ndarray) -> np.ndarray:
    """The place of each label among those of all nodes; ValueError if it has none."""
    columns = indices_of(labels, classes)
    if (columns < 0).any():
        unknown = np.asarray(labels)[columns < 0].tolist()
        raise ValueError(
            f"A node has rows of the classes {unknown}, which are none of the classes "
            f"{classes.tolist()} of the nodes. Have all nodes summarize again."
        )
    return columns
