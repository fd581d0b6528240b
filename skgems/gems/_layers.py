"""The layers of networks in GEMS: hidden ones, the last, and rounds that train all."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from sklearn.base import clone

from ..base import Features
from ..federation import Federation, Node, Run, ask_to_retrain
from ..local import indices_of
from ..messages import Message
from ..moments import ClassMoments, fewer_parts, merge_moments, ratio
from ..networks import Coordinates, HiddenLayers, Layers, Network
from ..neurons import MergedLayer, NeuronSpaces, merge_neurons, neuron_importances
from ..rounds import mean_parameters
from ..spaces import GEOMETRIES, Construction, Geometry, Gram, as_geometry
from ._further import with_further
from ._likelihood import warn_of_same_rows
from ._logistic import GEMSLogisticAggregator
from ._stage import Asked, LinearMerge, LinearStage

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
        how = {"homogeneous": homogeneous, "n_clusters": self.n_clusters}
        how |= {"max_units": most, "random_state": self.seed}
        known = {"importances": importances, "outgoing": outgoing}
        merged = merge_neurons(spaces, **known, **how)
        counts = ", ".join(f"{n} {what}" for what, n in merged.counts().items())
        which = f"hidden layer {layer + 1} of {len(self.activation)}"
        units = f"{len(merged.node)} neurons to {merged.n_units} units"
        self.log(f"{which}: {units} ({counts})")
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
    """What a geometry, or a word for one, is in the last layer of networks."""
    own = {"gram": Gram(ridge=0.001, unseen_weight=0.15)}
    return as_geometry(value, GEOMETRIES | own)


@dataclass(frozen=True, eq=False)
class MergedLast:
    """A last layer over hidden ones, and how it came about."""

    merge: LinearMerge
    hidden: HiddenLayers  # the hidden layers
    messages: slice  # of the run's history, those that it took

    @property
    def layers(self) -> Layers:
        """The whole network, its softmax calibrated."""
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
    def of(cls, last_layer, outer, federation, run=None, *, seed: int) -> LastLayer:
        """Settle the parameters of a clone, by ``outer`` and ``seed`` where not set."""
        aggregator = clone(last_layer)
        aggregator._validate_params()
        if aggregator.estimators is not None:
            what = "last_layer has estimators of its own"
            raise ValueError(f"{what}: give the networks to this aggregator alone.")
        for name in ("epsilon", "geometry"):  # which win
            if getattr(outer, name, None) is not None:
                setattr(aggregator, name, getattr(outer, name))
        aggregator.geometry = last_geometry(aggregator.geometry)
        for name in ("n_jobs", "memory"):
            if getattr(aggregator, name) is None:
                setattr(aggregator, name, getattr(outer, name, None))
        aggregator.verbose = aggregator.verbose or outer.verbose
        if aggregator.random_state is None:
            aggregator.random_state = seed
        run = aggregator._run(federation) if run is None else run
        asked = Asked.of(federation, federation.classes)
        return cls(aggregator, aggregator._stage(asked), asked, federation, run)

    def with_models(self, weights: Mapping[str, np.ndarray]) -> LastLayer:
        """The same with the nodes' own last layers over merged ones, by name."""
        nodes = [replace(n, W=weights[n.name], hidden=None) for n in self.asked.nodes]
        return replace(self, asked=replace(self.asked, nodes=nodes))

    def over(self, hidden: HiddenLayers) -> MergedLast:
        """Merge last layers over hidden ones, by messages to the nodes."""
        before = len(self.run.history)
        merge = self.run(self.stage.plan(replace(self.asked, hidden=hidden)))
        return MergedLast(merge, hidden, slice(before, len(self.run.history)))

    def publish(self, merged: MergedLast) -> np.ndarray:
        """Fit the aggregator and have it scored; returns its last layer, calibrated."""
        likelihood, federation = merged.merge.likelihood, self.federation
        # Without public rows, which tune a whole network.
        asked = replace(self.asked, hidden=merged.hidden)
        W, outcome = self.aggregator._outcome(self.stage, merged.merge, asked, self.run)
        if likelihood is not None and not federation.rows_are_shared:
            warn_of_same_rows(likelihood, federation.names)
        inner = replace(federation, features=Features(len(W) - 1, None)).attributes()
        history = with_further(self.run.history, merged.merge.further, merged.messages)
        self.aggregator._publish(**inner, **outcome, history_=history)
        return W


# Clusters of a class that a node sends; parts that are kept of a node's, and parts that
# it gets of others.
_CLUSTERS, _MOST_OWN, _MOST_PARTS = 16, 256, 1024


@dataclass(frozen=True, eq=False)
class NetworkRounds:
    """Messages in which nodes train one network, also on Gaussians of others' rows."""

    n_rounds: int  # one more than the times that nodes train
    epochs: int  # passes over the rows in each
    min_cluster_size: int  # of a cluster that a node sends, at least
    coordinates: Coordinates | None  # of the features, in which nodes train
    seed: int  # the same for all nodes: their order does not matter
    log: Callable[[str], None]

    def run(self, merged: MergedLast, last: LastLayer) -> MergedLast:
        """Have nodes train a network; what it was, unless their loss became lower."""
        trained, before = last.run(self.plan(merged.layers, last.asked))
        other = last.over(HiddenLayers.of(trained))
        is_better = last.run(self.improved(before, other.layers, last.asked))
        return other if is_better else merged

    def plan(self, start: Layers, asked: Asked) -> Generator:
        """Plan of (layers that the nodes trained in turns, their losses before)."""
        clusters = {"kind": "diagonal", "n_components": _CLUSTERS, "seed": self.seed}
        clusters["min_cluster_size"] = self.min_cluster_size
        names = [node.name for node in asked.nodes]
        replies = yield {name: Message.of("moments", **clusters) for name in names}
        rows = _RowsOfOthers.of(replies, asked.classes)
        rng = np.random.RandomState(self.seed)
        layers, at_start = start, {}
        if self.coordinates is not None:
            layers = self.coordinates.take_in(start)
        for number in range(1, self.n_rounds):
            seed = int(rng.randint(2**31 - 1))
            how = {"epochs": self.epochs, "seed": seed, "coordinates": self.coordinates}
            requests = {}
            for node in asked.nodes:
                own = asked.labels_of_rows(node) | {"others": rows.of_others(node.name)}
                requests[node.name] = ask_to_retrain(layers, **own, **how)
            replies = yield requests
            layers, losses = _mean(replies, layers, rows.counts)
            at_start = at_start or losses
            n_rows = [rows.counts[name] for name in losses]
            before = np.average(list(losses.values()), weights=n_rows)
            which = f"round {number + 1} of {self.n_rounds}"
            self.log(f"{which}: log-loss before {before:.4f}")
        if self.coordinates is not None:
            layers = self.coordinates.give_back(layers)
        return layers, at_start

    def improved(self, before: Mapping, layers: Layers, asked: Asked) -> Generator:
        """Plan whose result is whether the nodes' loss is lower than at the start."""
        some = [node for node in asked.nodes if node.name in before]
        among = replace(asked, nodes=some, hidden=HiddenLayers.of(layers))
        common = {"W": layers.last, "factors": np.ones(1), "of": "learning"}
        replies = yield among.messages("evaluate", asked.labels_of_rows, **common)
        losses, counts = {}, {}
        for name, reply in replies:
            counts[name] = reply.content["count"]
            losses[name] = float(reply.content["losses"][0]) / counts[name]
        return _lower(losses, before, counts)


@dataclass(frozen=True, eq=False)
class _RowsOfOthers:
    """Moments of the rows of nodes, and whose each part is."""

    merged: ClassMoments
    owner: np.ndarray
    names: list[str]
    counts: Mapping[str, float]

    @classmethod
    def of(cls, replies, classes: np.ndarray) -> _RowsOfOthers:
        moments: dict[str, ClassMoments] = {}
        for name, reply in replies:
            content = reply.content
            own = ClassMoments.from_arrays(content["moments"])
            own = own.renamed(indices_of(content["labels"], classes))
            own = replace(own, part_squares=None)  # rows have those of classes
            moments[name] = fewer_parts(own, _MOST_OWN)
        sizes = [len(own.counts) for own in moments.values()]
        owner = np.repeat(np.arange(len(moments)), sizes)
        counts = {name: own.n_rows for name, own in moments.items()}
        return cls(merge_moments(moments.values()), owner, list(moments), counts)

    @cached_property
    def order(self) -> np.ndarray:
        """Parts by class, within one by what they hold: the order of nodes is not."""
        within = self.merged.within()
        away = (self.merged.means - self.merged.mean()) ** 2 @ ratio(1.0, within)
        return np.lexsort((away, self.merged.counts, self.merged.columns))

    def of_others(self, name: str) -> dict | None:
        """Moments of all but one node, as in messages; None if there is no other."""
        if len(self.names) < 2:
            return None
        # Of variances within a class all nodes have a share.
        kept = self.order[self.owner[self.order] != self.names.index(name)]
        others = fewer_parts(self.merged.some_parts(kept), _MOST_PARTS)
        return others.as_arrays(dtype="float32")


def _mean(replies, start: Layers, counts: Mapping[str, float]) -> tuple[Layers, dict]:
    """Mean of trained networks by rows, and the nodes' losses of the one before."""
    losses: dict[str, float] = {}

    def trained():
        for name, reply in replies:
            content = reply.content
            losses[name] = content["loss"]
            yield [*content["coefs"], *content["intercepts"]], counts[name]

    mean, depth = mean_parameters(trained()), len(start.coefs)
    return Layers(mean[:depth], mean[depth:], start.activation), losses


def _lower(losses, others, counts) -> bool:
    """Whether losses are lower than others, at the nodes that sent both."""
    both = [name for name in losses if name in others]
    change = sum(counts[name] * (losses[name] - others[name]) for name in both)
    return bool(change < 0)
