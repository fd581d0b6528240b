"""Sums over the rows of all nodes, made of what the nodes reply.

A node replies with sums by class: moments, or sums of values or categories. These are
added up, and one summary may hold them for several nodes, as that of a region does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from ..local import WITHHELD, indices_of
from ..moments import ClassMoments, ClassSums, Trust, merge_moments
from ..tasks import ClassSumsReply, MomentsReply


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledSums:
    """The sums of all nodes."""

    sums: ClassMoments | ClassSums
    reason: str  # why they are not of all rows, or ""
    # Those of each node, without products, and the covariance of all rows within
    # classes, if it is known: by these nodes are compared.
    sums_by_node: Sequence[ClassMoments] | Sequence[ClassSums]
    covariance: np.ndarray | None = None
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
        sums_by_node = []
        covariance = None

        def read_one_by_one() -> Iterator[ClassMoments | ClassSums]:
            # Scatters of all nodes together may be large.
            for reply, factor in zip(replies, factors, strict=True):
                of_node = sums_of_reply(reply, classes, used=used)
                sums_by_node.append(_drop_products(of_node))
                yield _weighted_sums(of_node, factor)

        if isinstance(replies[0], ClassSumsReply):
            sums = ClassSums.merged(read_one_by_one())
        else:
            merged = merge_moments(read_one_by_one())
            covariance = merged.covariance_within_parts()
            sums = merged.by_class()
            for name, reply in zip(names, replies, strict=False):
                for c in _classes_that_share(reply, classes).tolist():
                    sharing_nodes.setdefault(c, []).append(name)
        return cls(
            sums=sums,
            reason=_reason_of_left_out(names, replies),
            sums_by_node=sums_by_node,
            covariance=covariance,
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
            "moments": self.sums.as_content(),
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


def _drop_products(sums: ClassMoments | ClassSums) -> ClassMoments | ClassSums:
    """Return the sums that are held of each node, which are small."""
    return sums if isinstance(sums, ClassSums) else sums.drop_products()


def _weighted_sums(
    sums: ClassMoments | ClassSums, factor: float
) -> ClassMoments | ClassSums:
    """Return the sums of ``factor`` times the rows; the same sums if it is 1."""
    if factor == 1.0:
        return sums
    if isinstance(sums, ClassMoments):
        return sums.weighted(factor)
    return replace(sums, counts=factor * sums.counts, sums=factor * sums.sums)


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
    columns = columns_of_labels(reply.labels, classes)
    return reply.moments.renamed(columns).by_class()


def _classes_that_share(reply: MomentsReply, classes: np.ndarray) -> np.ndarray:
    """Return the classes of a reply without a scatter of their own."""
    sharing = np.setdiff1d(reply.moments.columns, reply.moments.groups)
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
    if len(reply.labels) > len(np.unique(reply.moments.columns)):
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
