"""The layers of networks in GEMS: hidden ones, the last, and rounds that train all."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone

from ..base import BaseAggregator, Features
from ..federation import Federation, Node, Run, ask_to_retrain
from ..local import indices_of
from ..messages import Message
from ..moments import ClassMoments, fewer_parts, merge_moments, ratio
from ..networks import HiddenLayers, Layers, Network, one_per_layer
from ..progress import say
from ..spaces import (
    GEOMETRIES,
    Geometry,
    Gram,
    MergedLayer,
    NeuronSpaces,
    as_construction,
    as_geometry,
    merge_neurons,
    neuron_importances,
)
from ..tuning import mean_parameters
from ._further import with_further
from ._likelihood import warn_of_same_rows
from ._logistic import GEMSLogisticAggregator
from ._stage import Asked, LinearMerge, LinearStage

# Activations whose neurons may be scaled: g(a x) = a g(x) for a > 0.
HOMOGENEOUS = {"relu", "identity"}


@dataclass(frozen=True, eq=False)
class HiddenStage:
    """How hidden layers are merged, by the parameters of a GEMSMLPAggregator."""

    outer: BaseAggregator
    activation: tuple[str, ...]  # of each hidden layer
    geometry: Geometry
    retrain_last: bool  # the nodes' own last layers too, over the merged ones
    seed: int  # the same for all nodes: their order does not matter

    def plan(self, networks: Mapping[str, Network], classes: np.ndarray) -> Generator:
        """Plan of (hidden layers, the nodes' last layers over them, report)."""
        outer, depth, most = self.outer, len(self.activation), self.outer.max_units
        epsilons = one_per_layer("epsilon_hidden", outer.epsilon_hidden, depth)
        construction = as_construction(outer.construction_hidden)
        widths = [network.widths for network in networks.values()]
        most = 2 * np.max(widths, axis=0) if most == "auto" else [most] * depth
        # A node that fails to retrain keeps what it had.
        hidden, report = HiddenLayers(), []
        for layer, activation in enumerate(self.activation):
            common = {
                "activation": activation,
                "epsilon": float(epsilons[layer]),
                "geometry": self.geometry.as_settings(),
                "construction": construction.wire_name,
                "n_directions": construction.n_directions,
                "max_radius": construction.max_radius,
                "random_state": self.seed,
                "hidden": hidden.as_content(),
            }
            replies = yield {
                name: Message.of("neurons", weights=network.weights[0], **common)
                for name, network in networks.items()
            }
            spaces = [_neuron_spaces(reply) for _, reply in replies]
            known = list(networks.values()), spaces, layer, classes, most[layer] or None
            merged = self._merge_layer(*known)
            report.append(_report(merged, spaces, list(networks)))
            weights = [*hidden.weights, merged.W]
            hidden = HiddenLayers(weights, self.activation[: layer + 1])
            above = {}
            for k, (name, network) in enumerate(networks.items()):
                own = network.above(1)
                first = merged.outgoing(k, own.coefs[0])
                above[name] = replace(own, coefs=(first, *own.coefs[1:]))
            wanted = self.retrain_last or layer + 1 < depth
            wanted = wanted and outer.retrain_epochs and len(networks) > 1
            how = {"epochs": outer.retrain_epochs, "seed": self.seed}
            how["hidden"] = hidden.as_content()
            requests = {
                name: ask_to_retrain(above[name], labels=own.classes.tolist(), **how)
                for name, own in networks.items()
                if wanted and own.widths[0]
            }
            if requests:
                replies = yield requests
                for name, reply in replies:
                    above[name] = replace(
                        above[name],
                        coefs=reply.content["coefs"],
                        intercepts=reply.content["intercepts"],
                    )
            networks = {k: own.with_layers(above[k]) for k, own in networks.items()}
        return hidden, networks, report

    def _merge_layer(self, networks, spaces, layer, classes, most) -> MergedLayer:
        if len(networks) == 1 and (most is None or len(spaces[0].radii) <= most):
            n, W = len(spaces[0].radii), spaces[0].centers  # the layer as it is
            none = np.zeros(n, dtype=np.intp)
            return MergedLayer(W, np.arange(n), none, np.ones(n), none.astype(bool))
        pairs, outgoing = list(zip(networks, spaces, strict=True)), None
        how = {"homogeneous": self.activation[layer] in HOMOGENEOUS}
        importances = [neuron_importances(s, _outgoing(n), **how) for n, s in pairs]
        if self.outer.include_outgoing and layer == len(self.activation) - 1:
            outgoing = [n.aligned(classes).coefs[-1].T * s.sizes for n, s in pairs]
        how |= {"n_clusters": self.outer.n_clusters, "random_state": self.seed}
        how |= {"importances": importances, "outgoing": outgoing, "max_units": most}
        merged = merge_neurons(spaces, **how)
        counts = ", ".join(f"{n} {what}" for what, n in merged.counts().items())
        which = f"hidden layer {layer + 1} of {len(self.activation)}"
        units = f"{len(merged.node)} neurons to {merged.n_units} units"
        say(f"{which}: {units} ({counts})")
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


def _neuron_spaces(reply: Message) -> NeuronSpaces:
    """The spaces of a layer's units that a node has replied."""
    content = reply.content
    return NeuronSpaces(
        centers=content["centers"],
        precision=content["precision"],
        radii=content["radii"],
        sizes=content["sizes"],
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


def activation_of(nodes: list[Node]) -> tuple[str, ...]:
    # A node that saw one class may have a model without any layers.
    layered = [node for node in nodes if not node.network.is_constant]
    for node in layered:
        first = layered[0]
        one, other = first.network.activation, node.network.activation
        if len(one) != len(other):
            which = f"{len(other)} hidden layers and node {first.name!r} has {len(one)}"
            why = "networks may differ in width, not in depth"
            raise ValueError(f"node {node.name!r} has {which}; {why}.")
        if one != other:
            which = f"{list(other)} and node {first.name!r} has {list(one)}"
            what = f"node {node.name!r} has the activations {which}"
            raise ValueError(f"{what}; they must be the same.")
    return layered[0].network.activation if layered else ()


def last_geometry(value) -> Geometry:
    own = {"gram": Gram(ridge=0.001, unseen_weight=0.15)}
    return as_geometry(value, GEOMETRIES | own)


@dataclass(frozen=True, eq=False)
class MergedLast:
    merge: LinearMerge
    hidden: HiddenLayers
    messages: slice  # of the run's history, those that it took

    @property
    def layers(self) -> Layers:
        weights = [*self.hidden.weights, self.merge.factor * self.merge.W]
        return Layers.of(weights, self.hidden.activation)


@dataclass(frozen=True, eq=False)
class LastLayer:
    """The aggregator of linear models at work on the last layer of a network."""

    aggregator: GEMSLogisticAggregator  # a clone, not fitted until `publish`
    stage: LinearStage  # what it is on arrays
    asked: Asked
    federation: Federation
    run: Run

    @classmethod
    def of(cls, last_layer, outer, federation, run=None, *, seed: int) -> "LastLayer":
        """Settle the parameters of a clone, by ``outer`` and ``seed`` where not set."""
        aggregator = settled_last_layer(last_layer, outer)
        for name in ("n_jobs", "memory"):
            if getattr(aggregator, name) is None:
                setattr(aggregator, name, getattr(outer, name, None))
        aggregator.verbose = aggregator.verbose or outer.verbose
        if aggregator.random_state is None:
            aggregator.random_state = seed
        run = aggregator._run(federation) if run is None else run
        asked = Asked.of(federation, federation.classes)
        return cls(aggregator, aggregator._stage(asked), asked, federation, run)

    def with_models(self, weights: Mapping[str, np.ndarray]) -> "LastLayer":
        nodes = [replace(n, W=weights[n.name], hidden=None) for n in self.asked.nodes]
        return replace(self, asked=replace(self.asked, nodes=nodes))

    def over(self, hidden: HiddenLayers, *, share: float = 1.0) -> MergedLast:
        """Fit it over merged layers.

        ``share``: of the numbers that nodes may tell about such, the part for this.
        """
        before = len(self.run.history)
        asked = replace(self.asked, hidden=hidden, share=share)
        merge = self.run(self.stage.plan(asked))
        return MergedLast(merge, hidden, slice(before, len(self.run.history)))

    def publish(self, merged: MergedLast) -> np.ndarray:
        """Fit the aggregator and have it scored; returns its last layer, calibrated."""
        likelihood, federation = merged.merge.likelihood, self.federation
        # Without public rows, which tune a whole network.
        asked = replace(self.asked, hidden=merged.hidden)
        W, outcome = self.aggregator._outcome(self.stage, merged.merge, asked, self.run)
        if likelihood is not None and not federation.rows_are_shared:
            warn_of_same_rows(likelihood, federation.names)
        self.aggregator._warn_of_many_rows(federation)
        units = Features(n_features_in=len(W) - 1)
        inner = replace(federation, features=units).attributes()
        history = with_further(self.run.history, merged.merge.further, merged.messages)
        self.aggregator._publish(**inner, **outcome, history_=history)
        return W


# Clusters of a class that a node sends; parts kept of it; parts that it gets of others.
_CLUSTERS, _MOST_OWN, _MOST_PARTS = 16, 256, 1024


def clusters_request(min_cluster_size: int) -> Message:
    """Ask for clusters of rows, of which other nodes draw rows to train on."""
    return Message.of(
        "moments",
        kind="diagonal",
        n_components=_CLUSTERS,
        min_cluster_size=int(min_cluster_size),
    )


def settled_last_layer(
    last_layer: BaseAggregator | None, outer: BaseAggregator
) -> GEMSLogisticAggregator:
    """A clone of the last layer with what ``outer`` decides for it.

    Parameters
    ----------
    outer : BaseAggregator
        Of networks; its `epsilon` and `geometry` win where it has such.
    """
    aggregator = clone(last_layer or GEMSLogisticAggregator())
    aggregator._validate_params()
    if aggregator.estimators is not None:
        raise ValueError(
            "last_layer has estimators of its own: give the networks to "
            f"{type(outer).__name__} alone."
        )
    for name in ("epsilon", "geometry"):
        if getattr(outer, name, None) is not None:
            setattr(aggregator, name, getattr(outer, name))
    aggregator.geometry = last_geometry(aggregator.geometry)
    return aggregator


def last_layer_settings(
    last_layer: BaseAggregator | None, outer: BaseAggregator
) -> dict:
    """What requests about a last layer are made of, for JSON."""
    aggregator = settled_last_layer(last_layer, outer)
    return {
        "settings": aggregator._node_settings(),
        "further_settings": aggregator._further_settings(),
        "n_rounds": aggregator.n_rounds,
    }


def last_layer_of_settings(content: Mapping) -> GEMSLogisticAggregator:
    """The aggregator that asks what `last_layer_settings` says."""
    return GEMSLogisticAggregator._of_settings(
        content["settings"], content["further_settings"]
    )


def train_rounds(
    merged: MergedLast, last: LastLayer, *, n_rounds, epochs, coordinates, seed, share
) -> MergedLast:
    """Have nodes train a network in all rounds but one, also on Gaussians of others.

    In coordinates of the features, with one seed: the order of nodes does not matter.
    It stays what it was unless their loss becomes lower.
    """
    asked = last.asked

    def plan():  # of (layers that the nodes trained in turns, their losses before)
        request = clusters_request(last.aggregator.min_cluster_size)
        replies = yield dict.fromkeys(asked.names, request)
        rows = _RowsOfOthers(replies, asked.classes)
        rng = np.random.RandomState(seed)
        layers, at_start = merged.layers, {}
        if coordinates is not None:
            layers = coordinates.take_in(layers)
        for number in range(2, n_rounds + 1):
            own_seed = int(rng.randint(2**31 - 1))
            how = {"epochs": epochs, "seed": own_seed, "coordinates": coordinates}
            requests = {}
            for node in asked.nodes:
                own = asked.labels_of_rows(node) | {"others": rows.of_others(node.name)}
                requests[node.name] = ask_to_retrain(layers, **own, **how)
            replies = yield requests
            layers, losses = _mean(replies, layers, rows.counts)
            at_start = at_start or losses
            n_rows = [rows.counts[name] for name in losses]
            before = np.average(list(losses.values()), weights=n_rows)
            say(f"round {number} of {n_rounds}: log-loss before {before:.4f}")
        if coordinates is not None:
            layers = coordinates.give_back(layers)
        return layers, at_start

    def improved(before: Mapping, layers: Layers):  # whether the nodes' loss is lower
        some = [node for node in asked.nodes if node.name in before]
        among = replace(asked, nodes=some, hidden=HiddenLayers.of(layers))
        common = {"W": layers.last, "factors": np.ones(1), "of": "learning"}
        replies = yield among.messages("evaluate", asked.labels_of_rows, **common)
        found = {name: reply.content for name, reply in replies}
        counts = {name: own["count"] for name, own in found.items()}
        losses = {k: float(own["losses"][0]) / counts[k] for k, own in found.items()}
        return _lower(losses, before, counts)

    trained, before = last.run(plan())
    other = last.over(HiddenLayers.of(trained), share=share)
    return other if last.run(improved(before, other.layers)) else merged


class _RowsOfOthers:
    """Moments of the rows of nodes, and whose each part is."""

    def __init__(self, replies, classes: np.ndarray) -> None:
        moments: dict[str, ClassMoments] = {}
        for name, reply in replies:
            own = ClassMoments.from_arrays(reply.content["moments"])
            own = own.renamed(indices_of(reply.content["labels"], classes))
            own = replace(own, part_squares=None)  # rows have those of classes
            moments[name] = fewer_parts(own, _MOST_OWN)
        self.counts = {name: own.n_rows for name, own in moments.items()}
        self.merged = merged = merge_moments(moments.values())
        # By class, within one by what they hold: the order of nodes is not to matter.
        away = (merged.means - merged.mean()) ** 2 @ ratio(1.0, merged.within())
        self.order = np.lexsort((away, merged.counts, merged.columns))
        owners = [name for name, own in moments.items() for _ in own.counts]
        self.owners = np.array(owners, dtype=object)[self.order]

    def of_others(self, name: str) -> dict | None:
        """Moments of all but one node, as in messages; None if there is no other."""
        if len(self.counts) < 2:
            return None
        # Of variances within a class all nodes have a share.
        kept = self.order[self.owners != name]
        others = fewer_parts(self.merged.some_parts(kept), _MOST_PARTS)
        return others.as_arrays(dtype="float32")


def _mean(replies, start: Layers, counts: Mapping[str, float]) -> tuple[Layers, dict]:
    losses: dict[str, float] = {}

    def trained():
        for name, reply in replies:
            content = reply.content
            losses[name] = content["loss"]
            yield [*content["coefs"], *content["intercepts"]], counts[name]

    mean, depth = mean_parameters(trained()), len(start.coefs)
    return Layers(mean[:depth], mean[depth:], start.activation), losses


def _lower(losses, others, counts) -> bool:
    both = [name for name in losses if name in others]
    change = sum(counts[name] * (losses[name] - others[name]) for name in both)
    return bool(change < 0)
