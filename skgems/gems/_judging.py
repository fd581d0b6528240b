# SPDX-License-Identifier: BSD-3-Clause
"""What the server can say of nodes by their moments: other rules, equal rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from ..federation import NodesDisagreeWarning, SameRowsWarning
from ..moments import Likelihood
from ._stage import LinearNode

_MOST_NAMED = 5


def node_losses(
    likelihood: Likelihood, W: np.ndarray, nodes: Sequence[LinearNode], stacklevel: int
) -> list[float]:
    """Of a model on each node's moments; warns of nodes of another rule."""
    n_rows = np.array([node.n_rows for node in nodes])
    fits = likelihood.node_fits(likelihood.from_rows(W), n_rows)
    if fits.disagrees.any():
        own = np.fmin(likelihood.own_losses, fits.without)
        found = [
            f"{nodes[k].name!r} ({fits.among_own[k]:.2f}, {own[k]:.2f}, "
            f"{fits.without[k]:.2f})"
            for k in np.flatnonzero(fits.disagrees)
        ]
        warnings.warn(
            "The aggregate fits the rows of some nodes badly, as if they had another "
            "rule: nats a row of the aggregate, of their own models and of class "
            f"shares alone are {_named(found)}. See whether labels are coded there as "
            "elsewhere, and features in the same order and units; or leave these nodes "
            "out. Where classes are far from linear rows of another place look so too.",
            NodesDisagreeWarning,
            stacklevel=stacklevel,
        )
    return fits.losses.tolist()


def warn_of_same_rows(
    likelihood: Likelihood, names: Sequence[str], stacklevel: int
) -> None:
    """Warn of nodes that sent equal moments."""
    pairs = likelihood.equal_nodes()
    if pairs:
        words = _named([f"{names[i]!r} and {names[j]!r}" for i, j in pairs])
        warnings.warn(
            f"Nodes sent equal moments: {words}. The same rows count twice: leave one "
            "of them out.",
            SameRowsWarning,
            stacklevel=stacklevel,
        )


def _named(found: list[str]) -> str:
    more = len(found) - _MOST_NAMED
    return "; ".join(found[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
