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
    """A node as a server knows it, which has none of its rows.

    Attributes
    ----------
    name : str
    network : Network
        Its classifier as arrays.
    row_labels : list
        Labels of its rows, which its classifier need not have seen.
    counts : dict of ndarray of shape (n_row_labels,), int
        How many rows of each are "judging", make "moments", and are for "training".
    """

    name: str
    network: Network = field(repr=False)
    row_labels: list
    counts: Mapping[str, np.ndarray] = field(repr=False)

    @property
    def n_judging(self) -> int:
        """Rows that judge models."""
        return int(self.counts["judging"].sum())


def describe_nodes() -> Generator:
    """Ask all nodes to describe themselves: the first message of a plan.

    Returns
    -------
    plan : generator
        Its result is a list of DescribedNode, in the order of the nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems.federation import InProcess, describe_nodes, run
    >>> from skgems.local import Member
    >>> X, y = np.array([[-1.0], [1.0]]), np.array(["no", "yes"])
    >>> channel = InProcess([Member.of("lyon", LogisticRegression().fit(X, y), X, y)])
    >>> (node,) = run(describe_nodes(), channel)
    >>> node.name, node.network.classes.tolist(), node.n_judging
    ('lyon', ['no', 'yes'], 2)
    """
    replies = yield Message.of("describe")
    described = []
    for name, reply in replies:
        rows = dict(reply.content["rows"])
        network = Network.from_content(reply.content["network"])
        described.append(DescribedNode(name, network, rows.pop("labels"), rows))
    return described
