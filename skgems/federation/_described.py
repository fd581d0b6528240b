# SPDX-License-Identifier: BSD-3-Clause
"""What nodes tell of themselves before a plan asks them anything else."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ..messages import Message
from ..networks import Network

__all__ = ["DescribedNode", "describe_nodes"]


@dataclass(frozen=True, eq=False)
class DescribedNode:
    """A node as a server knows it, which has none of its rows."""

    name: str
    network: Network = field(repr=False)
    row_labels: list  # of its rows; its classifier need not have seen them
    # Rows of each label that are for "judging", "moments" and "training".
    counts: Mapping[str, np.ndarray] = field(repr=False)

    @property
    def n_judging(self) -> int:
        """Rows that judge models."""
        return int(self.counts["judging"].sum())


def describe_nodes() -> Generator:
    """Plan that asks all nodes to describe themselves, by the first message.

    Its result is a list of DescribedNode, in the order of the nodes.
    """
    replies = yield Message.of("describe")
    described = []
    for name, reply in replies:
        rows = dict(reply.content["rows"])
        network = Network.from_content(reply.content["network"])
        described.append(DescribedNode(name, network, rows.pop("labels"), rows))
    return described
