"""The hidden layers of networks in GEMS, which are merged one after the other."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..asking import request_to_retrain
from ..compat import say
from ..messages import Message
from ..networks import Coordinates, Layers, LayersBelow, Network, one_per_layer
from ..parties import Node
from ..spaces import (
    MergedLayer,
    NeuronSpaces,
    draw_common_units,
    merge_neurons,
    neuron_importances,
    pooled_input_moments,
    with_common_units,
)
from ..tasks import NeuronsReply
from ._parameters import HiddenLayers

# Activations whose neurons may be scaled: g(a x) = a g(x) for a > 0.
HOMOGENEOUS = {"relu", "identity"}


@dataclass(frozen=True, eq=False, kw_only=True)
class MergedHidden:
    """The hidden layers as they are merged."""

    hidden: LayersBelow
    networks: dict[str, Network]  # by node, what is left of each over these layers
    report: list[dict]  # one for each layer, as `layer_report_` has it


@dataclass(frozen=True, eq=False, kw_only=True)
class HiddenStage:
    """How hidden layers are merged, by the parameters of a GEMSMLPAggregator."""

    parameters: HiddenLayers  # as `HiddenLayers.from_value` makes them
    local_epochs: int
    n_common_units: int  # beside the merged units of the first layer
    activation: tuple[str, ...]  # of each hidden layer
    n_rows: Mapping[str, int]  # by node, in moments
    coordinates: Coordinates | None  # of the features, in which networks are trained
    retrain_last: bool  # the nodes' own last layers too, over the merged ones
    seed: int  # the same for all nodes: their order does not matter

    def plan(self, networks: Mapping[str, Network]) -> Generator:
        """Plan whose result is MergedHidden, of networks by the names of the nodes.

        Layer by layer, from the lowest: nodes send the spaces of their neurons, these
        are merged, and nodes retrain what is above on what comes out of the merged
        units. A node that fails to retrain keeps what it had. Common units come at the
        end, since merged units do not depend on them.
        """
        depth = len(self.activation)
        epsilons = one_per_layer(
            "epsilon of hidden_layers", self.parameters.epsilon, depth
        )
        max_units = self._max_units(networks)
        networks = dict(networks)
        hidden = LayersBelow()
        common_units = None
        report = []
        for layer in range(depth):
            replies = yield self._neuron_requests(
                networks, layer=layer, epsilon=float(epsilons[layer]), hidden=hidden
            )
            spaces = [_neuron_spaces(reply) for _, reply in replies]
            if layer == 0 and self.n_common_units:
                common_units = self._common_units(list(networks), spaces)
            merged = self._merge_layer(
                list(networks.values()),
                spaces,
                layer=layer,
                max_units=max_units[layer] or None,
            )
            report.append(
                _layer_report(
                    merged,
                    spaces,
                    names=list(networks),
                    n_common=self.n_common_units,
                )
            )
            hidden = LayersBelow(
                weights=[*hidden.weights, merged.W],
                activation=self.activation[: layer + 1],
            )
            above = {
                name: _layers_above(network, merged, k)
                for k, (name, network) in enumerate(networks.items())
            }
            if self._retrains(layer, n_nodes=len(networks)):
                above = yield from self._retrain_plan(networks, above, hidden=hidden)
            networks = {
                name: network.with_layers(above[name])
                for name, network in networks.items()
            }
        if common_units is not None:
            hidden = with_common_units(hidden, common_units)
        return MergedHidden(hidden=hidden, networks=networks, report=report)

    def _common_units(
        self, names: Sequence[str], spaces: Sequence[NeuronSpaces]
    ) -> np.ndarray:
        """Return common units of the first layer, by what nodes tell of features."""
        mean, covariance = pooled_input_moments(
            [of_node.precision for of_node in spaces],
            ridge=self.parameters.geometry.ridge,
            n_rows=[self.n_rows[name] for name in names],
        )
        scale = None
        if self.coordinates is not None:
            scale = self.coordinates.filled().scale
        return draw_common_units(
            mean,
            covariance,
            self.n_common_units,
            scale=scale,
            random_state=self.seed,
        )

    def _max_units(self, networks: Mapping[str, Network]) -> Sequence[int | None]:
        """Return the largest number of units of each hidden layer; None or 0: any."""
        if self.parameters.max_units == "auto":
            widths = [network.widths for network in networks.values()]
            return 2 * np.max(widths, axis=0)
        return [self.parameters.max_units] * len(self.activation)

    def _neuron_requests(
        self,
        networks: Mapping[str, Network],
        *,
        layer: int,
        epsilon: float,
        hidden: LayersBelow,
    ) -> dict[str, Message]:
        """Ask for the spaces of the neurons of a layer, over the merged ones below."""
        return {
            name: Message.of(
                "neurons",
                weights=network.weights[0],
                activation=self.activation[layer],
                epsilon=epsilon,
                geometry=self.parameters.geometry.as_settings(),
                n_directions=self.parameters.n_directions,
                random_state=self.seed,
                hidden=hidden.as_content(),
            )
            for name, network in networks.items()
        }

    def _merge_layer(
        self,
        networks: Sequence[Network],
        spaces: Sequence[NeuronSpaces],
        *,
        layer: int,
        max_units: int | None,
    ) -> MergedLayer:
        n_neurons = len(spaces[0].radii)
        if len(networks) == 1 and (max_units is None or n_neurons <= max_units):
            return _as_it_is(spaces[0])
        is_homogeneous = self.activation[layer] in HOMOGENEOUS
        importances = [
            neuron_importances(
                of_node, outgoing=_outgoing(network), homogeneous=is_homogeneous
            )
            for network, of_node in zip(networks, spaces, strict=True)
        ]
        merged = merge_neurons(
            spaces,
            homogeneous=is_homogeneous,
            importances=importances,
            n_clusters=self.parameters.n_clusters,
            max_units=max_units,
            random_state=self.seed,
        )
        counts = ", ".join(f"{n} {fate}" for fate, n in merged.counts().items())
        say(
            f"hidden layer {layer + 1} of {len(self.activation)}: "
            f"{len(merged.node)} neurons to {merged.n_units} units ({counts})"
        )
        return merged

    def _retrains(self, layer: int, *, n_nodes: int) -> bool:
        """Report whether nodes retrain what is above a merged layer.

        Above the last hidden layer is the nodes' last layer, which is not needed where
        the last layer of all is made of moments.
        """
        is_needed = self.retrain_last or layer + 1 < len(self.activation)
        return is_needed and self.local_epochs > 0 and n_nodes > 1

    def _retrain_plan(
        self,
        networks: Mapping[str, Network],
        above: Mapping[str, Layers],
        *,
        hidden: LayersBelow,
    ) -> Generator:
        """Plan of the layers above the merged ones, retrained where nodes have any."""
        retrained = dict(above)
        requests = {
            name: request_to_retrain(
                above[name],
                labels=network.classes.tolist(),
                epochs=self.local_epochs,
                seed=self.seed,
                hidden=hidden.as_content(),
            )
            for name, network in networks.items()
            if network.widths[0]
        }
        if requests:
            replies = yield requests
            for name, reply in replies:
                retrained[name] = replace(
                    above[name],
                    coefs=reply.coefs,
                    intercepts=reply.intercepts,
                )
        return retrained


def _as_it_is(spaces: NeuronSpaces) -> MergedLayer:
    """Return the layer of a single node, of which each neuron is a unit."""
    n_neurons = len(spaces.radii)
    return MergedLayer(
        W=spaces.centers,
        unit=np.arange(n_neurons),
        node=np.zeros(n_neurons, dtype=np.intp),
        factor=np.ones(n_neurons),
        forced=np.zeros(n_neurons, dtype=bool),
    )


def _layers_above(network: Network, merged: MergedLayer, node: int) -> Layers:
    """Return a node's layers above its lowest, which go on from the merged units."""
    above = network.above(1)
    first = merged.outgoing(node, above.coefs[0])
    return replace(above, coefs=(first, *above.coefs[1:]))


def _outgoing(network: Network) -> np.ndarray:
    """Return outgoing weights of the first hidden layer, as the outputs feel them."""
    above = network.coefs[1]
    if len(network.coefs) > 2:
        return above
    # A node says nothing of classes that it has not seen.
    if network.seen.sum() > 1:
        above = above[:, network.seen]
    return above - above.mean(axis=1, keepdims=True)


def _neuron_spaces(reply: NeuronsReply) -> NeuronSpaces:
    """Return the spaces of a layer's units that a node has replied."""
    return NeuronSpaces(
        centers=reply.centers,
        precision=reply.precision,
        radii=reply.radii,
        sizes=reply.sizes,
    )


def _layer_report(
    merged: MergedLayer,
    spaces: Sequence[NeuronSpaces],
    *,
    names: Sequence[str],
    n_common: int,
) -> dict:
    """Return the fate of the neurons of a layer, each of which is (name, index)."""
    first_neurons = np.searchsorted(merged.node, np.arange(len(names)))
    neurons = [(names[k], int(i - first_neurons[k])) for i, k in enumerate(merged.node)]
    members: list[list[tuple[str, int]]] = [[] for _ in range(merged.n_units)]
    dropped = []
    for neuron, unit in zip(neurons, merged.unit, strict=True):
        if unit >= 0:
            members[unit].append(neuron)
        else:
            dropped.append(neuron)
    return {
        "n_in": len(neurons),
        "n_units": merged.n_units,
        "common": n_common,
        **merged.counts(),
        "members": members,
        "dropped_neurons": dropped,
        "radii": [of_node.radii for of_node in spaces],
    }


def activation_of(nodes: list[Node]) -> tuple[str, ...]:
    """Return the activations of all networks' hidden layers; errors name the node."""
    # A node that saw one class may have a model without any layers.
    layered = [node for node in nodes if not node.network.is_constant]
    if not layered:
        return ()
    first = layered[0]
    expected = first.network.activation
    for node in layered:
        activation = node.network.activation
        if len(activation) != len(expected):
            raise ValueError(
                f"node {node.name!r} has {len(activation)} hidden layers and node "
                f"{first.name!r} has {len(expected)}; networks may differ in width, "
                "but not in depth."
            )
        if activation != expected:
            raise ValueError(
                f"node {node.name!r} has the activations {list(activation)} and node "
                f"{first.name!r} has {list(expected)}; all nodes must have the same."
            )
    return expected
