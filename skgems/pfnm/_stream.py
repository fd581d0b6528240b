# SPDX-License-Identifier: BSD-3-Clause
"""What the steps of a stream have left so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..matching import NetworkMatch, widen_classes
from ..networks import Coordinates, Layers, Network


@dataclass(frozen=True, eq=False)
class Stream:
    """What the steps of a stream have left so far."""

    names: tuple[str, ...]  # nodes that have taken part
    # For each hidden layer how often nodes have used units, (n_nodes, n_units).
    popularity: tuple[np.ndarray, ...]
    n_steps: int  # batches of networks taken in
    class_rows: np.ndarray  # rows of each class so far; NaN where not counted
    coordinates: Coordinates | None = None  # that units are compared in; None: features
    match: NetworkMatch | None = None  # of the last step, with all before it

    def taken_in(self, networks: Sequence[Network]) -> list[Network]:
        """Networks in the coordinates in which they are compared."""
        if self.coordinates is None:
            return list(networks)
        return [self.coordinates.take_in(network) for network in networks]

    def given_back(self, layers: Layers) -> Layers:
        """Layers in these coordinates as layers over features."""
        if self.coordinates is None:
            return layers
        return self.coordinates.give_back(layers)

    def used(self, name: str) -> list[np.ndarray]:
        """How often a node has used each unit of each layer so far."""
        if name in self.names:
            return [own[self.names.index(name)] for own in self.popularity]
        return [np.zeros(own.shape[1], dtype=np.int64) for own in self.popularity]

    def widened(self, places: np.ndarray, n_classes: int) -> Stream:
        """The same with more classes, which no step had; see ``widen_classes``."""
        rows = np.zeros(n_classes)
        rows[places] = self.class_rows
        match = widen_classes(self.match, places, n_classes)
        return replace(self, class_rows=rows, match=match)

    def centred(self) -> Stream:
        """The same, its only network without what is common to its classes.

        A single network comes back as it is, number by number. Beside others, of other
        rows for each class, what a softmax says nothing of would say something.
        """
        match = self.match
        known = match.class_share > 0
        bias, layers = match.bias.copy(), list(match.layers)
        bias[known] -= bias[known].mean()
        if layers:
            atoms = layers[-1].atoms
            linear = atoms.linear.copy()
            outgoing = linear[:, atoms.n_shared :]
            outgoing[:, known] -= outgoing[:, known].mean(axis=1, keepdims=True)
            atoms = replace(atoms, linear=linear)
            layers[-1] = replace(layers[-1], atoms=atoms)
        return replace(self, match=replace(match, bias=bias, layers=layers))

    def then(
        self, match: NetworkMatch, names: Sequence[str], class_rows: np.ndarray
    ) -> Stream:
        """The stream after one more step, a match of networks of the named nodes."""
        every = tuple(dict.fromkeys((*self.names, *names)))
        nodes = [every.index(name) for name in names]
        popularity = []
        for before, layer in zip(self.popularity, match.layers, strict=True):
            used = np.zeros((len(every), len(layer.atoms)), dtype=np.int64)
            used[: len(before), : before.shape[1]] = before
            used[nodes] += layer.uses
            popularity.append(used)
        return replace(
            self,
            names=every,
            popularity=tuple(popularity),
            n_steps=self.n_steps + 1,
            class_rows=class_rows,
            match=match,
        )
