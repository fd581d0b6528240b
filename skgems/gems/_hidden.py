# SPDX-License-Identifier: BSD-3-Clause
"""The hidden stage of GEMS: layers merged neuron by neuron, from the bottom up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from ..federation import Federation, Node, hold_out
from ..local import retrain_layers
from ..networks import Network, activate, linear_logits
from ..neurons import MergedLayer, NeuronSpaces, build_neuron_spaces, merge_neurons
from ..spaces import Geometry
from ._stage import LinearNode

# Activations whose neurons may be scaled: g(a x) = a g(x) for a > 0.
HOMOGENEOUS = {"relu", "identity"}


@dataclass(frozen=True, eq=False)
class NodeInProgress:
    """A node while layers are merged: what is left of its network, and its rows.

    Attributes
    ----------
    node : Node
    network : Network
        The layers that are not merged yet, over what comes out of those that are.
    hidden_rows : ndarray of int
        Rows that hidden layers' spaces are made of, which need no labels.
    judging_rows, moment_rows, training_rows : ndarray of int
        Rows that judge the last layer, make its moments, and retrain.
    """

    node: Node
    network: Network
    hidden_rows: np.ndarray
    judging_rows: np.ndarray
    moment_rows: np.ndarray
    training_rows: np.ndarray

    @property
    def name(self) -> str:
        """Of the node."""
        return self.node.name

    def last_layer(self, classes: np.ndarray) -> LinearNode:
        """The node's last layer, a linear model of what enters it."""
        aligned = self.network.aligned(classes)
        return LinearNode(
            self.name, aligned.last, aligned.seen, self.judging_rows, self.moment_rows
        )


def begin(
    federation: Federation, depth: int, seed: int, fraction: float | None
) -> list[NodeInProgress]:
    """Every node with its whole network, and which of its rows are for what.

    Parameters
    ----------
    federation : Federation
    depth : int
        Number of hidden layers; a constant network gets as many, without units.
    seed : int
        Of the rows that are held out.
    fraction : float or None
        Share of the rows that judge, where they are not split already; None: they
        are, since the user said how.

    Returns
    -------
    members : list of NodeInProgress
    """
    shared = np.zeros(len(federation.y), dtype=bool)
    if federation.rows_are_shared and fraction is not None:
        owned = federation.judging_rows
        shared[owned] = hold_out(federation.y[owned], fraction, seed)
    members = []
    for node in federation.nodes:
        judging, moments = node.judging_rows, node.moment_rows
        training = node.training_rows
        hidden = np.union1d(moments, training)
        if fraction is not None and np.array_equal(judging, training):
            mask = shared[judging]
            if not federation.rows_are_shared:
                mask = hold_out(federation.y[judging], fraction, seed)
            if mask.any():
                training, judging = judging[~mask], judging[mask]
                moments = judging
        network = node.network.with_empty_layers(depth)
        members.append(
            NodeInProgress(node, network, hidden, judging, moments, training)
        )
    return members


@dataclass(frozen=True, eq=False)
class HiddenMerge:
    """Hidden layers made of those of the nodes.

    Attributes
    ----------
    weights : list of ndarray of shape (n_in + 1, n_units)
        Of each layer, the biases in the last row.
    Z : ndarray of shape (n_samples, n_units)
        What comes out of the last of them on all rows.
    members : list of NodeInProgress
        The nodes, with no more than their last layer left.
    report : list of dict
        See GEMSMLPAggregator.
    """

    weights: list[np.ndarray]
    Z: np.ndarray
    members: list[NodeInProgress]
    report: list[dict]


@dataclass(frozen=True, eq=False)
class HiddenStage:
    """How hidden layers are merged; see GEMSMLPAggregator for what is not here.

    Attributes
    ----------
    activation : tuple of str
        Of each hidden layer.
    epsilons : sequence of float
        Of each hidden layer.
    geometry : Geometry
    construction : {"certified", "sampled"}
    n_directions : int
    max_radius : float
    include_outgoing : bool
    n_clusters, max_units : int or None
    retrain_epochs : int
    n_jobs : int or None
    seed : int
        The same for all nodes, so that their order does not matter.
    log : callable
        Takes messages of progress.
    """

    activation: tuple[str, ...]
    epsilons: Sequence[float]
    geometry: Geometry
    construction: str
    n_directions: int
    max_radius: float
    include_outgoing: bool
    n_clusters: int | None
    max_units: int | None
    retrain_epochs: int
    n_jobs: int | None
    seed: int
    log: Callable[[str], None]

    def merge(
        self, members: list[NodeInProgress], X, y: np.ndarray, classes: np.ndarray
    ) -> HiddenMerge:
        """Merge layer after layer; the nodes retrain those above each.

        Parameters
        ----------
        members : list of NodeInProgress
            With their whole networks.
        X : {ndarray, CSR matrix} of shape (n_samples, n_features)
            Rows of all nodes.
        y : ndarray of shape (n_samples,), int
            Their labels, as indices of ``classes``.
        classes : ndarray of shape (n_classes,)

        Returns
        -------
        merge : HiddenMerge
        """
        Z, weights, report = X, [], []
        for layer in range(len(self.activation)):
            spaces = self._spaces(members, Z, layer)
            merged = self._merge_layer(members, spaces, layer, classes)
            weights.append(merged.W)
            report.append(_report(merged, spaces, [member.name for member in members]))
            Z = activate(linear_logits(Z, merged.W), self.activation[layer])
            members = self._retrain(members, merged, Z, y, classes)
        return HiddenMerge(weights, Z, members, report)

    def _spaces(self, members, Z, layer) -> list[NeuronSpaces]:
        def build(member):
            first = member.network
            return build_neuron_spaces(
                Z[member.hidden_rows],
                np.vstack([first.coefs[0], first.intercepts[0]]),
                self.activation[layer],
                epsilon=self.epsilons[layer],
                geometry=self.geometry,
                construction=self.construction,
                n_directions=self.n_directions,
                max_radius=self.max_radius,
                random_state=self.seed,
            )

        return Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(build)(member) for member in members
        )

    def _merge_layer(self, members, spaces, layer, classes) -> MergedLayer:
        if len(members) == 1 and self.max_units is None:
            return _as_it_is(spaces[0])
        outgoing = None
        if self.include_outgoing and layer == len(self.activation) - 1:
            outgoing = [
                member.network.aligned(classes).coefs[-1].T * space.sizes
                for member, space in zip(members, spaces, strict=True)
            ]
        merged = merge_neurons(
            spaces,
            homogeneous=self.activation[layer] in HOMOGENEOUS,
            outgoing=outgoing,
            n_clusters=self.n_clusters,
            max_units=self.max_units,
            random_state=self.seed,
        )
        counts = merged.counts()
        self.log(
            f"hidden layer {layer + 1} of {len(self.activation)}: "
            f"{len(merged.node)} neurons to {merged.n_units} units ("
            + ", ".join(f"{n} {what}" for what, n in counts.items())
            + ")"
        )
        return merged

    def _retrain(self, members, merged: MergedLayer, Z, y, classes) -> list:
        """Each node's network above the merged layer, retrained on its rows."""
        epochs = self.retrain_epochs if len(members) > 1 else 0

        def one(index, member: NodeInProgress):
            own = member.network
            above = own.above(1)
            layers = replace(
                above, coefs=(merged.outgoing(index, above.coefs[0]), *above.coefs[1:])
            )
            if epochs and own.widths[0]:
                rows = member.training_rows
                known, columns = own.rows_with_output(classes, y[rows])
                layers = retrain_layers(
                    member.node.local,
                    layers,
                    Z[rows[known]],
                    columns,
                    epochs=epochs,
                    random_state=self.seed,
                )
            return replace(member, network=own.with_layers(layers))

        return Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(one)(index, member) for index, member in enumerate(members)
        )


def _report(merged: MergedLayer, spaces, names: list[str]) -> dict:
    starts = np.searchsorted(merged.node, np.arange(len(names)))
    neurons = [(names[k], int(i - starts[k])) for i, k in enumerate(merged.node)]
    members = [[] for _ in range(merged.n_units)]
    dropped = []
    for neuron, unit in zip(neurons, merged.unit, strict=True):
        (members[unit] if unit >= 0 else dropped).append(neuron)
    return {
        "n_in": len(neurons),
        "n_units": merged.n_units,
        **merged.counts(),
        "members": members,
        "dropped_neurons": dropped,
        "radii": [space.radii for space in spaces],
    }


def _as_it_is(space) -> MergedLayer:
    """The layer of the only node."""
    n_neurons = space.centers.shape[1]
    return MergedLayer(
        space.centers,
        np.arange(n_neurons),
        np.zeros(n_neurons, dtype=np.intp),
        np.ones(n_neurons),
        np.zeros(n_neurons, dtype=bool),
    )


def common_activations(nodes: list[Node]) -> tuple[str, ...]:
    """Activations of the hidden layers, which must be the same at every node."""
    first = None
    for node in nodes:
        # A node that saw one class may have a model without any layers.
        if node.network.is_constant:
            continue
        if first is None:
            first = node
        one, other = first.network.activation, node.network.activation
        if len(one) != len(other):
            raise ValueError(
                f"node {node.name!r} has {len(other)} hidden layers and node "
                f"{first.name!r} has {len(one)}; networks may differ in width, not in "
                "depth."
            )
        if one != other:
            raise ValueError(
                f"node {node.name!r} has the activations {list(other)} and node "
                f"{first.name!r} has {list(one)}; they must be the same."
            )
    return () if first is None else first.network.activation
