# SPDX-License-Identifier: BSD-3-Clause
"""The last layer of a network, by the aggregator of linear models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone

from ..base import BaseAggregator, Features
from ..federation import Federation, Run
from ..networks import HiddenLayers, Layers
from ..spaces import GEOMETRIES, Gram, as_geometry
from ._further import with_further
from ._likelihood import warn_of_same_rows
from ._logistic import GEMSLogisticAggregator
from ._stage import Asked, LinearMerge, LinearStage

# What the words for a geometry stand for in the last layer of networks.
LAST_LAYER_GEOMETRIES = GEOMETRIES | {"gram": Gram(ridge=0.001, unseen_weight=0.15)}


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
    def of(
        cls,
        last_layer: GEMSLogisticAggregator,
        outer: BaseAggregator,
        federation: Federation,
        run: Run | None = None,
        *,
        seed: int,
    ) -> LastLayer:
        """Settle the parameters of a clone, by ``outer`` and ``seed`` where not set."""
        aggregator = clone(last_layer)
        aggregator._validate_params()
        if aggregator.estimators is not None:
            raise ValueError(
                "last_layer has estimators of its own; it merges the last layers of "
                "this aggregator's networks. Give them here, and leave "
                "last_layer.estimators None."
            )
        for name in ("epsilon", "geometry"):  # which win
            if getattr(outer, name, None) is not None:
                setattr(aggregator, name, getattr(outer, name))
        aggregator.geometry = as_geometry(aggregator.geometry, LAST_LAYER_GEOMETRIES)
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
        nodes = [
            replace(node, W=weights[node.name], hidden=None)
            for node in self.asked.nodes
        ]
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
