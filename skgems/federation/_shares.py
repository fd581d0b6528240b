# SPDX-License-Identifier: BSD-3-Clause
"""How much each node counts, overall and for each class."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from ..local import places
from ..messages import Message
from ._federation import Federation


@dataclass(frozen=True)
class Shares:
    """How much each node counts.

    Attributes
    ----------
    shared : ndarray of shape (n_nodes,)
        For what belongs to no class.
    outputs : ndarray of shape (n_nodes, n_classes)
        For what belongs to a class; zero where the node does not know it.
    sizes : ndarray of shape (n_nodes,)
        Rows of each node; the same as ``shared`` if they were not counted.
    """

    shared: np.ndarray
    outputs: np.ndarray
    sizes: np.ndarray

    def for_all_outputs(self) -> Shares:
        """The same, with every node counted for every class."""
        outputs = np.broadcast_to(self.shared[:, None], self.outputs.shape)
        return Shares(self.shared, outputs, self.sizes)

    def of(self, nodes: list[int]) -> Shares:
        """Those of some of the nodes."""
        return Shares(self.shared[nodes], self.outputs[nodes], self.sizes[nodes])


def counts_rows(weights) -> bool:
    """Whether weights of nodes are made of the numbers of their rows.

    Parameters
    ----------
    weights : {"equal", "n_samples", "class_counts"} or array-like

    Returns
    -------
    counts : bool

    Examples
    --------
    >>> from skgems.federation import counts_rows
    >>> [counts_rows(weights) for weights in ("equal", "n_samples", [1, 2])]
    [False, True, False]
    """
    return isinstance(weights, str) and weights != "equal"


def ask_counts(classes: np.ndarray) -> Generator:
    """Ask all nodes how many rows of each class they may train on.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)

    Returns
    -------
    plan : generator
        Its result has shape (n_nodes, n_classes) and dtype float64.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from skgems.federation import InProcess, ask_counts, run
    >>> from skgems.local import Member
    >>> X, y = np.zeros((3, 1)), np.array(["a", "c", "a"])
    >>> channel = InProcess([Member.of("lyon", DummyClassifier().fit(X, y), X, y)])
    >>> run(ask_counts(np.array(["a", "b", "c"])), channel)
    array([[2., 0., 1.]])
    """
    replies = yield Message.of("counts")
    counts = []
    for _, reply in replies:
        columns = places(reply.content["labels"], classes)
        own = np.bincount(
            columns[columns >= 0],
            weights=reply.content["counts"][columns >= 0],
            minlength=len(classes),
        )
        counts.append(own)
    return np.stack(counts)


def ask_shares(federation: Federation, weights, *, sized: bool = False) -> Generator:
    """Make shares of the parameter ``weights`` of an aggregator.

    Nodes are asked for the numbers of their rows where these are needed.

    Parameters
    ----------
    federation : Federation
        Whose rows are not read.
    weights : {"equal", "n_samples", "class_counts"} or array-like of shape (n_nodes,)
    sized : bool, default=False
        Whether to ask for sizes even if weights do not count rows, if there are rows.

    Returns
    -------
    plan : generator
        Its result are Shares.

    Raises
    ------
    ValueError
        If weights count rows and there are none, or are not one positive number per
        node.
    """
    nodes, known, counts = federation.nodes, federation.seen, None
    if not isinstance(weights, str):
        shared = np.asarray(weights, dtype=np.float64)
        positive = np.all((shared > 0) & (shared < np.inf))
        if shared.shape != (len(nodes),) or not positive:
            raise ValueError(
                f"weights must hold one positive number per node ({len(nodes)}), got "
                f"{weights!r}."
            )
    elif weights == "equal":
        shared = np.ones(len(nodes))
    elif not federation.can_reply:
        raise ValueError(
            f"weights={weights!r} counts rows: give fit the rows, fit(X, y, "
            "nodes=nodes), or summaries, or give one number per node."
        )
    if counts_rows(weights) or (sized and federation.can_reply):
        counts = yield from ask_counts(federation.classes)
    if counts_rows(weights):
        shared = counts.sum(axis=1)
    outputs = shared[:, None] * known
    if isinstance(weights, str) and weights == "class_counts":
        # A class that no row shows is as if each who knows it had one.
        rows = np.where((counts * known).any(axis=0), counts, 1.0)
        outputs = rows * known
    return Shares(shared, outputs, shared if counts is None else counts.sum(axis=1))
