"""The last layer of networks in GEMS, which is made as a linear model is."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from ..asking import Run
from ..base import Features, Method
from ..networks import Layers, LayersBelow
from ..parties import Federation
from ..spaces import GEOMETRIES, Gram, as_geometry
from ._calibrated import calibrated_plan
from ._fit_warnings import warn_of_same_rows
from ._further import with_objectives
from ._linear_method import LinearMethod
from ._logistic import GEMSLogisticAggregator
from ._parameters import Spaces
from ._stage import LinearMerge, LinearStage


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
        if merged.hidden.weights and self.method.calibrates_last_layer:
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
