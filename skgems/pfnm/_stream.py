# SPDX-License-Identifier: BSD-3-Clause
"""What is matched: the networks of nodes as layers, and what earlier steps left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..matching import NetworkMatch, widen_classes
from ..networks import Coordinates, Layers, Network


def common_activation(
    names: Sequence[str], networks: Sequence[Network]
) -> tuple[str, ...] | None:
    """Activations of the hidden layers, or an error; None if all are constant."""
    reference = None
    for name, network in zip(names, networks, strict=True):
        if network.is_constant:
            continue
        if network.is_linear:
            raise TypeError(
                f"node {name!r} is a linear model; PFNMAggregator matches hidden "
                "units. Use GEMSLogisticAggregator, or give networks."
            )
        reference = reference or (name, network.activation)
        if network.activation != reference[1]:
            raise ValueError(
                f"node {name!r} has hidden layers with activations "
                f"{network.activation}, node {reference[0]!r} has {reference[1]}. "
                "Only units of the same kind can be matched."
            )
    return reference and reference[1]


def as_layers(
    networks: Sequence[Network],
    classes: np.ndarray,
    *,
    depth: int,
    start: np.ndarray | None,
    centre: bool = True,
    dtype: str | None = None,
) -> list[Network]:
    """Networks of one dtype with outputs of ``classes`` and ``depth`` hidden layers.

    A softmax says nothing of what is common to classes: outgoing weights, or their
    change since ``start`` (n_in + 1, n_classes), are centred over the classes seen.
    """
    found = []
    for network in networks:
        own = network.with_empty_layers(depth).aligned(classes)
        if centre:
            last, known = own.last, own.seen
            # Of a constant model there is nothing to compare with the start.
            moved = (
                last - start if start is not None and len(last) == len(start) else last
            )
            last[:, known] -= moved[:, known].mean(axis=1, keepdims=True)
            own = own.with_last(last)
        found.append(own)
    dtype = dtype or np.result_type(*(W.dtype for own in found for W in own.coefs))
    return [own.astype(dtype) for own in found]


def class_shares(
    counts: np.ndarray | None, seen: np.ndarray, earlier: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares (n_nodes, n_classes), share of earlier steps (n_classes,), rows so far.

    By rows of all steps. They are NaN for classes of which a step did not count them:
    shares are then of this step alone, by rows or else equal for nodes that know it.
    """
    known = seen.any(axis=0)
    own = np.zeros(seen.shape) if counts is None else counts
    rows = earlier + np.where(known & (counts is None), np.nan, own.sum(axis=0))
    by_rows = rows > 0  # not where NaN
    weights = np.where(by_rows | (own.sum(axis=0) > 0), own, seen)
    total = np.where(by_rows, rows, weights.sum(axis=0))
    shares = weights / np.where(total > 0, total, 1.0)
    earlier_share = np.full(len(rows), np.nan)
    np.divide(earlier, rows, out=earlier_share, where=by_rows)
    return shares, earlier_share, rows


def checked_counts(counts, shape: tuple[int, int]) -> np.ndarray:
    """Counts of rows as a float array; a ValueError unless of ``shape`` and counts."""
    counts = np.asarray(counts, dtype=np.float64)
    if counts.shape != shape or not np.all((counts >= 0) & (counts < np.inf)):
        raise ValueError(
            "n_class_samples must hold one count, finite and not negative, for each "
            f"of {shape[0]} nodes and {shape[1]} classes; got an array of shape "
            f"{counts.shape}."
        )
    return counts


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
