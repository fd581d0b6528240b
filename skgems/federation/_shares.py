# SPDX-License-Identifier: BSD-3-Clause
"""How much each node counts, overall and for each class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
        Rows of each node; the same as ``shared`` if there are no rows to count.
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


def read_shares(federation: Federation, weights) -> Shares:
    """Make shares of the parameter ``weights`` of an aggregator.

    Parameters
    ----------
    federation : Federation
    weights : {"equal", "n_samples", "class_counts"} or array-like of shape (n_nodes,)

    Returns
    -------
    shares : Shares

    Raises
    ------
    ValueError
        If weights count rows and there are none, or are not one positive number per
        node.
    """
    nodes = federation.nodes
    known, counts = federation.seen, None
    if federation.X is not None:
        counts = federation.class_counts().astype(np.float64)
    elif isinstance(weights, str) and weights != "equal":
        raise ValueError(
            f"weights={weights!r} counts rows: give fit the rows, fit(X, y, "
            "nodes=nodes), or give one number per node."
        )
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
    else:
        shared = counts.sum(axis=1)
    outputs = shared[:, None] * known
    if isinstance(weights, str) and weights == "class_counts":
        # A class that no row shows is as if each who knows it had one.
        rows = np.where((counts * known).any(axis=0), counts, 1.0)
        outputs = rows * known
    return Shares(shared, outputs, shared if counts is None else counts.sum(axis=1))
