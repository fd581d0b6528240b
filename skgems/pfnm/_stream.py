# SPDX-License-Identifier: BSD-3-Clause
"""What the steps of a stream have left so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..matching import NetworkMatch


@dataclass(frozen=True, eq=False)
class Stream:
    """What the steps of a stream have left so far.

    Attributes
    ----------
    names : tuple of str
        Nodes that have taken part.
    popularity : tuple of ndarray of shape (n_nodes, n_units)
        For each hidden layer, how often each node has used each unit.
    n_steps : int
        Batches of networks taken in.
    match : NetworkMatch or None
        Of the last step, which holds what all before it said; None before the first.
    """

    names: tuple[str, ...]
    popularity: tuple[np.ndarray, ...]
    n_steps: int = 0
    match: NetworkMatch | None = None

    @classmethod
    def before(cls, depth: int) -> Stream:
        """That of no step, for networks of some hidden layers."""
        return cls((), (np.zeros((0, 0), dtype=np.int64),) * depth)

    def used(self, name: str) -> list[np.ndarray]:
        """How often a node has used each unit of each layer so far."""
        if name in self.names:
            return [own[self.names.index(name)] for own in self.popularity]
        return [np.zeros(own.shape[1], dtype=np.int64) for own in self.popularity]

    def then(self, match: NetworkMatch, names: Sequence[str]) -> Stream:
        """The stream after one more step, a match of networks of the named nodes."""
        every = (*self.names, *(name for name in names if name not in self.names))
        nodes = [every.index(name) for name in names]
        popularity = []
        for before, layer in zip(self.popularity, match.layers, strict=True):
            used = np.zeros((len(every), len(layer.atoms)), dtype=np.int64)
            used[: len(before), : before.shape[1]] = before
            used[nodes] += layer.uses
            popularity.append(used)
        return Stream(every, tuple(popularity), self.n_steps + 1, match)
