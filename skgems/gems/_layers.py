"""The layers of networks in GEMS: hidden ones, the last, and rounds that train all."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from ..base import Features, Method
from ..federation import Federation, Node, Run, request_to_retrain
from ..local import indices_of
from ..messages import Message
from ..moments import MOST_PARTS, ClassMoments, fewer_parts, merge_moments, ratio
from ..networks import Coordinates, Layers, LayersBelow, Network, one_per_layer
from ..progress import say
from ..spaces import (
    GEOMETRIES,
    Gram,
    MergedLayer,
    NeuronSpaces,
    as_geometry,
    draw_common_units,
    merge_neurons,
    neuron_importances,
    pooled_input_moments,
    with_common_units,
)
from ..tasks import MomentsReply, NeuronsReply, RetrainReply
from ..tuning import mean_parameters
from ._calibrated import calibrated_plan
from ._further import with_objectives
from ._likelihood import warn_of_same_rows
from ._linear_method import LinearMethod
from ._logistic import GEMSLogisticAggregator
from ._parameters import HiddenLayers, Spaces
from ._problem import LinearModels
from ._stage import LinearMerge, LinearStage
from ._terms import clusters_request

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


def last_spaces(spaces: Spaces | str) -> Spaces:
    """Return the spaces of last layers; there "gram" has other settings than elsewhere.

    They are part of the documented meaning of GEMSMLPAggregator's parameters.
    """
    Spaces.check_is_no_part_of_it(spaces, parameter="spaces")
    gram = Gram(ridge=0.001, unseen_weight=0.15)
    of_last_layer = Spaces(spaces) if isinstance(spaces, str) else clone(spaces)
    geometry = as_geometry(of_last_layer.geometry, {**GEOMETRIES, "gram": gram})
    return of_last_layer.set_params(geometry=geometry)


@dataclass(frozen=True, eq=False, kw_only=True)
class MergedLast:
    """The merged last layer, over merged hidden ones."""

    merge: LinearMerge
    hidden: LayersBelow
    messages: slice  # of the run's history, those that it took

    @property
    def layers(self) -> Layers:
        weights = [*self.hidden.weights, self.merge.factor * self.merge.W]
        return Layers.from_weights(weights, self.hidden.activation)


@dataclass(frozen=True, eq=False, kw_only=True)
class NetworksMethod(Method):
    """A method for networks whose last layer is made as one of linear models."""

    aggregator: ClassVar[str] = ""  # the name that errors have for its aggregator

    last_layer: GEMSLogisticAggregator | str | None  # a word: "auto"
    n_jobs: int | None
    verbose: int
    random_state: object
    # Not every method has these.
    epsilon: ArrayLike | None = None  # it wins over that of the last layer
    memory: object = None

    def settled_last_layer(self) -> GEMSLogisticAggregator:
        """Return a clone of the last layer with what is decided here for it."""
        template = None if self.last_layer == "auto" else self.last_layer
        aggregator = clone(template or GEMSLogisticAggregator())
        aggregator._validate_params()
        if aggregator.estimators is not None:
            raise ValueError(
                "last_layer has estimators of its own: give the networks to "
                f"{self.aggregator} alone."
            )
        if aggregator.robust:
            raise ValueError(
                f"last_layer has robust={aggregator.robust}, but its class sums are of "
                "hidden layers that the nodes themselves have made, and nobody can "
                "check these. Leave last_layer__robust at 0."
            )
        if self.epsilon is not None:
            aggregator.epsilon = self.epsilon
        aggregator.spaces = last_spaces(aggregator.spaces)
        return aggregator


@dataclass(frozen=True, eq=False, kw_only=True)
class LastLayer:
    """The aggregator of linear models at work on the last layer of a network."""

    aggregator: GEMSLogisticAggregator  # a clone, not fitted until `publish`
    method: LinearMethod
    stage: LinearStage  # what it is on arrays
    federation: Federation
    run: Run

    @classmethod
    def from_method(
        cls, outer: NetworksMethod, federation: Federation, run: Run, *, seed: int
    ) -> "LastLayer":
        """Make a last layer of a clone, with ``outer``'s parameters where not set."""
        aggregator = outer.settled_last_layer()
        if aggregator.n_jobs is None:
            aggregator.n_jobs = outer.n_jobs
        if aggregator.memory is None:
            aggregator.memory = outer.memory
        aggregator.verbose = aggregator.verbose or outer.verbose
        if aggregator.random_state is None:
            aggregator.random_state = seed
        method = aggregator._method()
        method = method.with_seed(method.terms.seed())
        return cls(
            aggregator=aggregator,
            method=method,
            stage=method.stage(federation, federation.classes),
            federation=federation,
            run=run,
        )

    def with_models(self, weights: Mapping[str, np.ndarray]) -> "LastLayer":
        """Return the last layer of these models of nodes, over common hidden layers."""
        nodes = [
            replace(node, W=weights[node.name], hidden=None)
            for node in self.stage.nodes
        ]
        return replace(self, stage=replace(self.stage, nodes=nodes))

    def fit_over(self, hidden: LayersBelow) -> MergedLast:
        """Fit the last layer over merged layers."""
        n_messages_before = len(self.run.history)
        merge = self.run(replace(self.stage, hidden=hidden).plan())
        messages = slice(n_messages_before, len(self.run.history))
        return MergedLast(merge=merge, hidden=hidden, messages=messages)

    def publish(self, merged: MergedLast) -> np.ndarray:
        """Fit the aggregator and have it scored; returns its last layer, calibrated."""
        merge = merged.merge
        stage = replace(self.stage, hidden=merged.hidden)
        if merged.hidden.weights and self.method.chooses_C_of_units:
            merge = self.run(
                calibrated_plan(merge, stage, reached=self.run.nodes.reached)
            )
        # Without public rows, which tune a whole network.
        W, attributes = self.method.outcome(merge, stage=stage, run=self.run)
        if merge.likelihood is not None and not self.federation.rows_are_shared:
            warn_of_same_rows(merge.likelihood, self.federation.names)
        self.method.warn_of_many_rows(self.federation)
        # Its features are the units of the last hidden layer.
        units = Features(n_features_in=len(W) - 1)
        self.aggregator._publish(
            **replace(self.federation, features=units).attributes(),
            **attributes,
            history_=with_objectives(
                self.run.history, merge.refinement, merged.messages
            ),
        )
        return W


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingRounds:
    """Rounds in which all nodes train a network, and the mean of theirs is the next.

    A node trains on its rows, and on rows drawn from the clusters that the other nodes
    sent, so that it does not forget their classes.
    """

    problem: LinearModels
    n_rounds: int  # the first of them is the one in which layers were merged
    epochs: int
    coordinates: Coordinates | None  # of the features, in which networks are trained
    seed: int  # one for all nodes: their order does not matter

    def plan(self, layers: Layers) -> Generator:
        """Plan whose result is (trained layers, losses by node before the training).

        Losses are log-losses in nats a row.
        """
        request = clusters_request()
        replies = yield dict.fromkeys(self.problem.names, request)
        clusters = _ClustersOfNodes(replies, self.problem.classes)
        rng = np.random.RandomState(self.seed)
        losses_at_start: dict[str, float] = {}
        if self.coordinates is not None:
            layers = self.coordinates.take_in(layers)
        for number in range(2, self.n_rounds + 1):
            replies = yield self._retrain_requests(
                layers, clusters, seed=int(rng.randint(2**31 - 1))
            )
            reader = _TrainedReader(clusters.n_rows)
            layers = reader.mean(replies, start=layers)
            losses_at_start = losses_at_start or reader.losses
            mean_loss = np.average(
                list(reader.losses.values()),
                weights=[clusters.n_rows[name] for name in reader.losses],
            )
            say(f"round {number} of {self.n_rounds}: log-loss before {mean_loss:.4f}")
        if self.coordinates is not None:
            layers = self.coordinates.give_back(layers)
        return layers, losses_at_start

    def _retrain_requests(
        self, layers: Layers, clusters: "_ClustersOfNodes", *, seed: int
    ) -> dict[str, Message]:
        requests = {}
        for node in self.problem.nodes:
            row_labels = self.problem.row_labels_content(node)
            requests[node.name] = request_to_retrain(
                layers,
                labels=row_labels["labels"],
                columns=row_labels["columns"],
                others=clusters.moments_of_others(node.name),
                epochs=self.epochs,
                seed=seed,
                coordinates=self.coordinates,
            )
        return requests

    def is_lower_plan(
        self, layers: Layers, *, losses_before: Mapping[str, float]
    ) -> Generator:
        """Plan whose result is whether the nodes' loss by the layers is lower."""
        nodes = [node for node in self.problem.nodes if node.name in losses_before]
        problem = replace(
            self.problem, nodes=nodes, hidden=LayersBelow.from_layers(layers)
        )
        replies = yield problem.requests(
            "evaluate",
            [problem.row_labels_content(node) for node in nodes],
            W=layers.last,
            factors=np.ones(1),
            of="learning",
        )
        n_rows = {}
        losses = {}
        for name, reply in replies:
            n_rows[name] = reply.count
            losses[name] = float(reply.losses[0]) / reply.count
        return _is_lower(losses, losses_before, n_rows=n_rows)


def train_rounds(
    merged: MergedLast,
    last: LastLayer,
    *,
    n_rounds: int,
    epochs: int,
    coordinates: Coordinates | None,
    seed: int,
) -> MergedLast:
    """Have nodes train a merged network, and merge the last layer of it anew.

    The network stays what it was unless the nodes' loss becomes lower.
    """
    rounds = TrainingRounds(
        problem=last.stage,
        n_rounds=n_rounds,
        epochs=epochs,
        coordinates=coordinates,
        seed=seed,
    )
    layers, losses_before = last.run(rounds.plan(merged.layers))
    trained = last.fit_over(LayersBelow.from_layers(layers))
    is_lower = last.run(
        rounds.is_lower_plan(trained.layers, losses_before=losses_before)
    )
    return trained if is_lower else merged


class _ClustersOfNodes:
    """Clusters of the rows of all nodes, and whose each is."""

    def __init__(
        self, replies: Iterable[tuple[str, MomentsReply]], classes: np.ndarray
    ) -> None:
        moments: dict[str, ClassMoments] = {}
        for name, reply in replies:
            of_node = ClassMoments.from_arrays(reply.moments)
            of_node = of_node.renamed(indices_of(reply.labels, classes))
            # Rows are drawn with the squares of their class, not of their cluster.
            of_node = replace(of_node, part_squares=None)
            moments[name] = fewer_parts(of_node, MOST_PARTS)
        self.n_rows = {name: of_node.n_rows for name, of_node in moments.items()}
        self._merged = merged = merge_moments(moments.values())
        # By class, within one by what they hold: the order of nodes is not to matter.
        distances = (merged.means - merged.mean()) ** 2 @ ratio(
            1.0, merged.covariance_within_parts()
        )
        self._order = np.lexsort((distances, merged.counts, merged.columns))
        owners = [name for name, of_node in moments.items() for _ in of_node.counts]
        self._owners = np.array(owners, dtype=object)[self._order]

    def moments_of_others(self, name: str) -> dict | None:
        """Return moments of all other nodes, as in messages; None without another."""
        if len(self.n_rows) < 2:
            return None
        # Variances within a class are those of all nodes: this one has a share in them.
        parts_of_others = self._order[self._owners != name]
        others = fewer_parts(self._merged.some_parts(parts_of_others), MOST_PARTS)
        return others.as_arrays()


class _TrainedReader:
    """Reads networks that nodes have trained, so that one at a time is in memory."""

    def __init__(self, n_rows: Mapping[str, float]) -> None:
        self._n_rows = n_rows  # of each node
        self.losses: dict[str, float] = {}  # of the network that the node was sent

    def mean(
        self, replies: Iterable[tuple[str, RetrainReply]], *, start: Layers
    ) -> Layers:
        """Return the mean of the networks over all rows, of the shape of ``start``."""
        parameters = mean_parameters(self._read(name, reply) for name, reply in replies)
        depth = len(start.coefs)
        return Layers(
            coefs=parameters[:depth],
            intercepts=parameters[depth:],
            activation=start.activation,
        )

    def _read(self, name: str, reply: RetrainReply) -> tuple[list[np.ndarray], float]:
        """Return the parameters of a node's network, and their weight."""
        self.losses[name] = reply.loss
        return [*reply.coefs, *reply.intercepts], self._n_rows[name]


def _is_lower(
    losses: Mapping[str, float],
    losses_before: Mapping[str, float],
    *,
    n_rows: Mapping[str, float],
) -> bool:
    """Report whether losses a row fell in sum over the rows of nodes that have both."""
    change = sum(
        n_rows[name] * (losses[name] - losses_before[name])
        for name in losses
        if name in losses_before
    )
    return bool(change < 0)
