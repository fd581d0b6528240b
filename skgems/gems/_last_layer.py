# SPDX-License-Identifier: BSD-3-Clause
"""The last layer of a network, by the aggregator of linear models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone

from ..base import Features
from ..federation import Federation, InProcess, run
from ..local import Below
from ..networks import Layers
from ..spaces import GEOMETRIES, Gram, as_geometry
from ._further import with_further
from ._logistic import GEMSLogisticAggregator
from ._stage import LinearMerge, LinearNode, LinearStage

# What the words for a geometry stand for in the last layer of networks.
LAST_LAYER_GEOMETRIES = GEOMETRIES | {"gram": Gram(ridge=0.001, unseen_weight=0.15)}


def settled_last_layer(
    last_layer: GEMSLogisticAggregator, outer, seed: int, *, epsilon=None, geometry=None
) -> GEMSLogisticAggregator:
    """A clone of what merges last layers, its parameters settled.

    Parameters
    ----------
    last_layer : GEMSLogisticAggregator
    outer : estimator
        Whose last layer it merges: its ``n_jobs``, ``memory`` and ``verbose`` stand
        for those that are not set.
    seed : int
        Stands for a ``random_state`` that is not set.
    epsilon, geometry : optional
        In place of its own unless they are None.

    Returns
    -------
    last_layer : GEMSLogisticAggregator
        Not fitted.

    Raises
    ------
    ValueError
        If it has estimators, or parameters that are not valid.
    """
    last = clone(last_layer)
    last._validate_params()
    if last.estimators is not None:
        raise ValueError(
            "last_layer has estimators of its own; it merges the last layers of this "
            "aggregator's networks. Give them here, and leave last_layer.estimators "
            "None."
        )
    if epsilon is not None:
        last.epsilon = epsilon
    geometry = last.geometry if geometry is None else geometry
    last.geometry = as_geometry(geometry, LAST_LAYER_GEOMETRIES)
    for name in ("n_jobs", "memory"):
        if getattr(last, name) is None:
            setattr(last, name, getattr(outer, name, None))
    if not last.verbose:
        last.verbose = outer.verbose
    if last.random_state is None:
        last.random_state = seed
    return last


@dataclass(frozen=True, eq=False)
class MergedLast:
    """A last layer over hidden ones, and how it came about.

    Attributes
    ----------
    merge : LinearMerge
    below : Below
        The hidden layers.
    messages : slice
        Those of the channel's history that it took.
    """

    merge: LinearMerge
    below: Below
    messages: slice

    @property
    def W(self) -> np.ndarray:
        """Weights of shape (n_units + 1, n_classes), logits calibrated."""
        return self.merge.factor * self.merge.W

    @property
    def layers(self) -> Layers:
        """The whole network."""
        weights = [*self.below.weights, self.W]
        return Layers(
            [W[:-1] for W in weights],
            [W[-1] for W in weights],
            tuple(self.below.activation),
        )


def merge_last_layers(
    stage: LinearStage,
    nodes: Sequence[LinearNode],
    classes: np.ndarray,
    channel: InProcess,
    below: Below,
) -> MergedLast:
    """Merge last layers over hidden ones, by messages to the nodes.

    Parameters
    ----------
    stage : LinearStage
    nodes : sequence of LinearNode
    classes : ndarray of shape (n_classes,)
    channel : InProcess
    below : Below
        The hidden layers.

    Returns
    -------
    merged : MergedLast
    """
    before = len(channel.history)
    merge = run(stage.plan(list(nodes), classes, below), channel)
    return MergedLast(merge, below, slice(before, len(channel.history)))


def publish_last_layer(
    last_layer: GEMSLogisticAggregator,
    stage: LinearStage,
    merged: MergedLast,
    nodes: Sequence[LinearNode],
    federation: Federation,
    channel: InProcess,
) -> np.ndarray:
    """Fit the aggregator of last layers: it becomes what was merged, and scored.

    Parameters
    ----------
    last_layer : GEMSLogisticAggregator
        Becomes fitted, on what comes out of the hidden layers.
    stage : LinearStage
    merged : MergedLast
    nodes : sequence of LinearNode
    federation : Federation
    channel : InProcess
        Over which nodes score it.

    Returns
    -------
    W : ndarray of shape (n_units + 1, n_classes)
        The last layer, the biases in the last row; its softmax is calibrated.
    """
    outcome = last_layer._outcome(
        stage,
        merged.merge,
        list(nodes),
        federation.classes,
        channel,
        ([], []),  # public rows tune a whole network
        merged.below,
        stacklevel=5,
    )
    inputs = Features(len(outcome.W) - 1, None)
    last_layer._publish(
        **replace(federation, features=inputs).attributes(),
        **outcome.attributes(),
        history_=with_further(channel.history, merged.merge.further, merged.messages),
    )
    return outcome.factor * outcome.W
