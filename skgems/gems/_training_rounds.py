"""Rounds in which the nodes of GEMS train all layers of a merged network."""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..asking import mean_parameters, request_to_retrain
from ..compat import say
from ..local import indices_of
from ..messages import Message
from ..moments import MOST_PARTS, ClassMoments, fewer_parts, merge_moments, ratio
from ..networks import Coordinates, Layers, LayersBelow
from ..tasks import MomentsReply, RetrainReply
from ._last_layer import LastLayer, MergedLast
from ._problem import LinearModels
from ._terms import clusters_request


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
            of_node = reply.moments.renamed(indices_of(reply.labels, classes))
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
        return others.as_content()


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
