# SPDX-License-Identifier: BSD-3-Clause
"""A row that a server finds by how many rows models of its own label right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

# How many rows of a class lie above a threshold along a direction: of the thresholds of
# one message to the counts.
Count = Callable[[np.ndarray, np.ndarray], np.ndarray]

# How far a direction is turned towards each further column: the same row stays the
# first one along it.
TURN = 1e-2


class Thresholds:
    """Messages in which a node counts rows above thresholds, until there are no more.

    Parameters
    ----------
    count : callable
        ``count(direction, thresholds)`` returns how many rows are above each.
    n_a_message : int
        Thresholds in one message.
    most : int
        Messages that may be sent.
    """

    def __init__(self, count: Count, *, n_a_message: int, most: int) -> None:
        self.count = count
        self.n_a_message = n_a_message
        self.n_left = most

    def first_above(
        self, direction: np.ndarray, low: float, high: float, *, precision: float
    ) -> float:
        """Return from where on a node counts no row, between two thresholds."""
        while high - low > precision and self.n_left:
            self.n_left -= 1
            edges = np.linspace(low, high, self.n_a_message + 2)
            n_above = self.count(direction, edges[1:-1])
            is_above = np.concatenate([[True], np.asarray(n_above) > 0, [False]])
            place = int(np.flatnonzero(is_above)[-1])
            low, high = edges[place], edges[place + 1]
        return (low + high) / 2


def row_of_counts(thresholds: Thresholds, n_features: int) -> np.ndarray:
    """Return the claimed row that is the first one along the first column.

    Along directions that are turned a little it is the first one as well, and the
    thresholds move by its other columns.
    """
    along = np.eye(n_features)[0]
    first = thresholds.first_above(along, -4.0, 4.0, precision=3e-6)
    row = [first]
    for j in range(1, n_features):
        turned = along + TURN * np.eye(n_features)[j]
        moved = thresholds.first_above(
            turned, first - 4 * TURN, first + 4 * TURN, precision=6e-6
        )
        row.append((moved - first) / TURN)
    return np.array(row)


def models_above(direction: np.ndarray, thresholds: Sequence[float]) -> np.ndarray:
    """Return models whose second output is larger above a threshold.

    They are (n_models, n_features + 1, 2).
    """
    W = np.zeros((len(thresholds), len(direction) + 1, 2))
    W[:, :-1, 1] = direction
    W[:, -1, 1] = -np.asarray(thresholds)
    return W
