# SPDX-License-Identifier: BSD-3-Clause
"""Rounds: the nodes train the merged network, and what they made is averaged."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..federation import ask_to_retrain
from ..local import indices_of
from ..moments import ClassMoments, fewer_parts, merge_moments, ratio
from ..networks import Coordinates, HiddenLayers, Layers
from ..rounds import mean_parameters
from ._last_layer import LastLayer, MergedLast
from ._stage import Asked

# Clusters of a class that a node sends; parts that are kept of a node's, and parts that
# it gets of others.
_CLUSTERS, _MOST_OWN, _MOST_PARTS = 16, 256, 1024


@dataclass(frozen=True, eq=False)
class NetworkRounds:
    """Messages in which nodes train one network; see GEMSMLPAggregator.

    Lest these forget classes, each also trains on rows from Gaussians of others.
    """

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
        replies = yield asked.messages("moments", lambda node: {}, **clusters)
        rows = _RowsOfOthers.of(replies, asked.classes)
        rng = np.random.RandomState(self.seed)
        layers, at_start = start, {}
        if self.coordinates is not None:
            layers = self.coordinates.take_in(start)
        for number in range(1, self.n_rounds):
            seed = int(rng.randint(2**31 - 1))
            replies = yield {
                node.name: ask_to_retrain(
                    layers,
                    epochs=self.epochs,
                    seed=seed,
                    coordinates=self.coordinates,
                    **asked.labels(np.unique(node.row_columns)),
                    others=rows.of_others(node.name),
                )
                for node in asked.nodes
            }
            layers, losses = _mean(replies, layers, rows.counts)
            at_start = at_start or losses
            n_rows = [rows.counts[name] for name in losses]
            before = np.average(list(losses.values()), weights=n_rows)
            self.log(
                f"round {number + 1} of {self.n_rounds}: log-loss before {before:.4f}"
            )
        if self.coordinates is not None:
            layers = self.coordinates.give_back(layers)
        return layers, at_start

    def improved(
        self, before: Mapping[str, float], layers: Layers, asked: Asked
    ) -> Generator:
        """Plan whose result is whether the nodes' loss is lower than at the start."""
        some = [node for node in asked.nodes if node.name in before]
        common = {"W": layers.last, "factors": np.ones(1), "of": "learning"}
        common["hidden"] = HiddenLayers.of(layers).as_content()
        replies = yield replace(asked, nodes=some).messages(
            "evaluate", lambda node: asked.labels(np.unique(node.row_columns)), **common
        )
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
