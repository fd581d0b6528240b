"""What is matched in one step of a stream of networks, and what earlier steps left."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..gems import activation_of
from ..networks import Coordinates, Layers, Network
from ..parties import Node
from ._network import NetworkMatch, merged_layers, widen_classes

# Which outgoing weight counts as zero: from the mean over the classes of a node, so far
# on the way to the largest. A softmax subtracts the logarithm of a sum of exponentials,
# which lies between these too. At the mean, units of nodes that know few classes speak
# against their other classes too loudly; at the largest, nobody speaks for a class.
TOWARDS_LARGEST = 0.2


def activations_of(nodes: Sequence[Node]) -> tuple[str, ...]:
    """Return the activations of the hidden layers; none if all are constant."""
    for node in nodes:
        if node.network.is_linear and not node.network.is_constant:
            raise TypeError(
                f"node {node.name!r} is a linear model; PFNMAggregator matches hidden "
                "units. Use GEMSLogisticAggregator, or give networks."
            )
    return activation_of(nodes)


def common_coordinates(
    networks: Sequence[Network], *, are_trained: bool = False
) -> Coordinates | None:
    """Return what networks are compared in; of features if None.

    Where networks are trained in them, features that no network knows have a weight
    too, and so a center and a scale.
    """
    coordinates = Coordinates.common(
        [network.coordinates for network in networks if not network.is_constant]
    )
    if are_trained and coordinates is not None:
        return coordinates.filled()
    return coordinates


def aligned_networks(
    networks: Sequence[Network],
    classes: np.ndarray,
    *,
    depth: int,
    start: np.ndarray | None,
    center: bool,
    dtype: str | None,
) -> list[Network]:
    """Return networks of one dtype, with outputs of ``classes`` and ``depth`` layers.

    A softmax says nothing of what is common to classes. So, with ``center``, that is
    taken from the outgoing weights to the classes that a network has seen. After
    training that began at ``start``, (n_in + 1, n_classes), the mean change since then
    is taken from them.
    """
    aligned = [
        network.with_empty_layers(depth).aligned(classes) for network in networks
    ]
    if center:
        aligned = [_centred(network, start) for network in aligned]
    common_dtype = dtype or np.result_type(
        *(W.dtype for network in aligned for W in network.coefs)
    )
    return [network.astype(common_dtype) for network in aligned]


def _centred(network: Network, start: np.ndarray | None) -> Network:
    last = network.last
    seen = network.seen
    # A constant model has other last weights: there is nothing to compare with.
    if start is not None and len(last) == len(start):
        changes = last - start
        last[:, seen] -= changes[:, seen].mean(axis=1, keepdims=True)
    else:
        last[:, seen] -= common_part(last[:, seen])
    return network.with_last(last)


def common_part(W: np.ndarray) -> np.ndarray:
    """Return what outgoing weights, (n_in, n_classes), have in common, (n_in, 1).

    It moves with the weights: taken from them, it leaves nothing that depends on it.
    """
    mean = W.mean(axis=1, keepdims=True)
    return mean + TOWARDS_LARGEST * (W.max(axis=1, keepdims=True) - mean)


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassShares:
    """Which part of what is known of each class is whose."""

    of_nodes: np.ndarray  # (n_nodes, n_classes)
    # (n_classes,): of earlier steps; NaN where a step did not count rows.
    of_earlier: np.ndarray
    class_rows: np.ndarray  # (n_classes,): rows so far; NaN where not counted

    @classmethod
    def from_counts(
        cls,
        counts: np.ndarray | None,  # (n_nodes, n_classes); None: not counted
        *,
        seen: np.ndarray,  # whether each node has seen each class
        earlier_rows: np.ndarray,  # (n_classes,), NaN where not counted
    ) -> "ClassShares":
        """Return shares by rows where all steps counted them, or by nodes."""
        if counts is None:
            node_rows = np.zeros(seen.shape)
            step_rows = np.where(seen.any(axis=0), np.nan, 0.0)
        else:
            node_rows = counts
            step_rows = counts.sum(axis=0)
        class_rows = earlier_rows + step_rows
        is_by_rows = class_rows > 0  # not where NaN
        has_rows = is_by_rows | (node_rows.sum(axis=0) > 0)
        weights = np.where(has_rows, node_rows, seen)
        total = np.where(is_by_rows, class_rows, weights.sum(axis=0))
        of_earlier = np.full(len(class_rows), np.nan)
        np.divide(earlier_rows, class_rows, out=of_earlier, where=is_by_rows)
        return cls(
            of_nodes=weights / np.where(total > 0, total, 1.0),
            of_earlier=of_earlier,
            class_rows=class_rows,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Stream:
    """What is known after some steps, each of which matched a batch of networks."""

    names: tuple[str, ...]  # nodes that have taken part
    # For each hidden layer how often nodes have used units, (n_nodes, n_units).
    popularity: tuple[np.ndarray, ...]
    n_steps: int  # batches of networks taken in
    class_rows: np.ndarray  # rows of each class so far; NaN where not counted
    coordinates: Coordinates | None = None  # that units are compared in; None: features
    match: NetworkMatch | None = None  # of the last step, with all before it

    @classmethod
    def empty(
        cls, *, depth: int, n_classes: int, coordinates: Coordinates | None
    ) -> "Stream":
        """Return the stream before its first step, of networks of ``depth`` layers."""
        return cls(
            names=(),
            popularity=(np.zeros((0, 0), dtype=np.int64),) * depth,
            n_steps=0,
            class_rows=np.zeros(n_classes),
            coordinates=coordinates,
        )

    def in_coordinates(self, networks: Sequence[Network]) -> list[Network]:
        """Return networks of features as networks in the stream's coordinates."""
        if self.coordinates is None:
            return list(networks)
        return [self.coordinates.take_in(network) for network in networks]

    def to_features(self, layers: Layers) -> Layers:
        """Return the inverse of :meth:`in_coordinates`."""
        if self.coordinates is None:
            return layers
        return self.coordinates.give_back(layers)

    def uses_by(self, name: str) -> list[np.ndarray]:
        """Return how often a node has used units, (n_units,), for each hidden layer."""
        if name in self.names:
            node = self.names.index(name)
            return [uses[node] for uses in self.popularity]
        return [np.zeros(uses.shape[1], dtype=np.int64) for uses in self.popularity]

    def layers(self, n_features: int) -> Layers:
        """Return the matched layers, in the stream's coordinates."""
        if self.match.layers:
            return merged_layers(self.match)
        # Constant models only.
        shares = self.match.class_share
        last = np.zeros((n_features + 1, len(shares)))
        last[-1] = self.match.bias / np.where(shares > 0, shares, 1.0)
        return Layers.from_weights([last])

    def with_classes(self, places: np.ndarray, n_classes: int) -> "Stream":
        """Return the stream with more classes, old ones at the indices ``places``."""
        class_rows = np.zeros(n_classes)
        class_rows[places] = self.class_rows
        match = widen_classes(self.match, places=places, n_classes=n_classes)
        return replace(self, class_rows=class_rows, match=match)

    def centered(self) -> "Stream":
        """Return the stream without what outgoing weights of classes have in common.

        A network alone comes back as it is, number by number, and so is not centered.
        Beside others, of other rows for each class, what a softmax says nothing of
        would say something.
        """
        match = self.match
        is_known = match.class_share > 0
        bias = match.bias.copy()
        bias[is_known] -= common_part(bias[is_known][None, :])[0]
        layers = list(match.layers)
        if layers:
            atoms = layers[-1].atoms
            linear = atoms.linear.copy()
            outgoing = linear[:, atoms.n_shared :]
            outgoing[:, is_known] -= common_part(outgoing[:, is_known])
            atoms = replace(atoms, linear=linear)
            layers[-1] = replace(layers[-1], atoms=atoms)
        return replace(self, match=replace(match, bias=bias, layers=layers))

    def extended(
        self, match: NetworkMatch, *, names: Sequence[str], class_rows: np.ndarray
    ) -> "Stream":
        """Return the stream after a step that matched the networks of ``names``."""
        all_names = tuple(dict.fromkeys((*self.names, *names)))
        nodes = [all_names.index(name) for name in names]
        popularity = []
        for earlier, layer in zip(self.popularity, match.layers, strict=True):
            uses = np.zeros((len(all_names), len(layer.atoms)), dtype=np.int64)
            uses[: len(earlier), : earlier.shape[1]] = earlier
            uses[nodes] += layer.uses
            popularity.append(uses)
        return replace(
            self,
            names=all_names,
            popularity=tuple(popularity),
            n_steps=self.n_steps + 1,
            class_rows=class_rows,
            match=match,
        )
