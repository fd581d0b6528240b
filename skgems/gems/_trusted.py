"""Replies of nodes of which some may lie: those of the nodes that are kept."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ..moments import Trust, claims_of_moments, trusted_nodes
from ..tasks import MomentsReply
from ._problem import LinearModels
from ._sums import read_moments


@dataclass(frozen=True, eq=False, kw_only=True)
class TrustedReplies:
    """What the kept nodes replied to "moments", and what was found of all nodes."""

    trust: Trust
    stage: LinearModels  # of the kept nodes
    replies: list[tuple[str, MomentsReply]]  # of the kept nodes

    @classmethod
    def from_replies(
        cls,
        replies: Iterable[tuple[str, MomentsReply]],
        stage: LinearModels,
        *,
        most_liars: int,
    ) -> Self:
        """Judge the nodes by their moments, of which at most so many lie."""
        replies = list(replies)
        moments = [
            read_moments(node, reply, classes=stage.classes)
            for node, (_, reply) in zip(stage.nodes, replies, strict=True)
        ]
        claims = claims_of_moments(
            moments,
            [node.rows_by_class for node in stage.nodes],
            lacking=[stage.lacking(node) for node in stage.nodes],
        )
        trust = trusted_nodes(claims, most_liars)
        kept = np.flatnonzero(trust.is_kept).tolist()
        return cls(
            trust=trust,
            stage=replace(stage, nodes=[stage.nodes[k] for k in kept]),
            replies=[replies[k] for k in kept],
        )

    @property
    def row_factors(self) -> np.ndarray:
        """The part of its rows that each kept node counts with, (n_kept,)."""
        return self.trust.factors[self.trust.is_kept]
