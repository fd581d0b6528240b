# SPDX-License-Identifier: BSD-3-Clause
"""The hidden stage of GEMS: layers merged neuron by neuron, from the bottom up."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..federation import Node, ask_to_retrain
from ..messages import Message
from ..networks import HiddenLayers, Network
from ..neurons import MergedLayer, NeuronSpaces, merge_neurons, neuron_importances
from ..spaces import Construction, Geometry

# Activations whose neurons may be scaled: g(a x) = a g(x) for a > 0.
HOMOGENEOUS = {"relu", "identity"}


@dataclass(frozen=True, eq=False)
class HiddenStage:
    """How hidden layers are merged; see GEMSMLPAggregator for what is not here."""

    activation: tuple[str, ...]  # of each hidden layer
    epsilons: Sequence[float]  # of each hidden layer
    geometry: Geometry
    construction: Construction
    include_outgoing: bool
    n_clusters: int | None
    max_units: Sequence[int | None]  # of each hidden layer
    retrain_epochs: int
    retrain_last: bool  # the nodes' own last layers too, over the merged ones
    seed: int  # the same for all nodes: their order does not matter
    log: Callable[[str], None]

    def plan(self, networks: Mapping[str, Network], classes: np.ndarray) -> Generator:
        """Plan of (weights of layers, the nodes' last layers over them, report)."""
        # A node that fails to retrain keeps what it had.
        names, weights, report = list(networks), [], []
        for layer, activation in enumerate(self.activation):
            hidden = HiddenLayers(weights, self.activation[:layer])
            replies = yield {
                name: Message.of(
                    "neurons",
                    weights=np.vstack([network.coefs[0], network.intercepts[0]]),
                    activation=activation,
                    epsilon=float(self.epsilons[layer]),
                    geometry=self.geometry.as_settings(),
                    construction=self.construction.wire_name,
                    n_directions=self.construction.n_directions,
                    max_radius=self.construction.max_radius,
                    random_state=self.seed,
                    hidden=hidden.as_content(),
                )
                for name, network in networks.items()
            }
            spaces = [NeuronSpaces(**reply.content) for _, reply in replies]
            merged = self._merge_layer(list(networks.values()), spaces, layer, classes)
            weights = [*weights, merged.W]
            report.append(_report(merged, spaces, names))
            hidden = HiddenLayers(weights, self.activation[: layer + 1])
            above = {}
            for k, (name, network) in enumerate(networks.items()):
                own = network.above(1)
                first = merged.outgoing(k, own.coefs[0])
                above[name] = replace(own, coefs=(first, *own.coefs[1:]))
            wanted = self.retrain_last or layer + 1 < len(self.activation)
            wanted = wanted and self.retrain_epochs and len(networks) > 1
            how = {"epochs": self.retrain_epochs, "seed": self.seed}
            how["hidden"] = hidden.as_content()
            requests = {
                name: ask_to_retrain(above[name], labels=own.classes.tolist(), **how)
                for name, own in networks.items()
                if wanted and own.widths[0]
            }
            if requests:
                replies = yield requests
                for name, reply in replies:
                    above[name] = replace(above[name], **reply.content)
            networks = {k: own.with_layers(above[k]) for k, own in networks.items()}
        return weights, networks, report

    def _merge_layer(self, networks, spaces, layer, classes) -> MergedLayer:
        most = self.max_units[layer]
        if len(networks) == 1 and (most is None or len(spaces[0].radii) <= most):
            return _as_it_is(spaces[0])
        outgoing, homogeneous = None, self.activation[layer] in HOMOGENEOUS
        importances = [
            neuron_importances(space, _outgoing(network), homogeneous=homogeneous)
            for network, space in zip(networks, spaces, strict=True)
        ]
        if self.include_outgoing and layer == len(self.activation) - 1:
            outgoing = [
                network.aligned(classes).coefs[-1].T * space.sizes
                for network, space in zip(networks, spaces, strict=True)
            ]
        merged = merge_neurons(
            spaces,
            homogeneous=homogeneous,
            importances=importances,
            outgoing=outgoing,
            n_clusters=self.n_clusters,
            max_units=most,
            random_state=self.seed,
        )
        counts = ", ".join(f"{n} {what}" for what, n in merged.counts().items())
        self.log(
            f"hidden layer {layer + 1} of {len(self.activation)}: "
            f"{len(merged.node)} neurons to {merged.n_units} units ({counts})"
        )
        return merged


def _outgoing(network: Network) -> np.ndarray:
    """Outgoing weights of the first hidden layer, as the node's outputs feel them."""
    above = network.coefs[1]
    if len(network.coefs) > 2:
        return above
    # A node says nothing of classes that it has not seen.
    if network.seen.sum() > 1:
        above = above[:, network.seen]
    return above - above.mean(axis=1, keepdims=True)


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
    n = space.centers.shape[1]
    none = np.zeros(n, dtype=np.intp)
    return MergedLayer(space.centers, np.arange(n), none, np.ones(n), none.astype(bool))


def common_activations(nodes: list[Node]) -> tuple[str, ...]:
    # A node that saw one class may have a model without any layers.
    layered = [node for node in nodes if not node.network.is_constant]
    for node in layered:
        first = layered[0]
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
    return layered[0].network.activation if layered else ()
