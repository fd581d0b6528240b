# SPDX-License-Identifier: BSD-3-Clause
"""Train the nodes' classifiers in rounds, by their own trainers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..federation import Federation, Node, Shares
from ..local import LocalModel, Parcel, fit_local, local_model
from ..rounds import Rounds, run_rounds
from ._averages import (
    average_nets,
    average_networks,
    not_constant,
    parameter_weights,
    why_not_alike,
)


def start_local(estimator, X, y, classes: np.ndarray, seed: int | None):
    """Where a simulated node starts; see ``fit_local`` for the parameters."""
    if len(classes) == 1:  # nothing to train
        return fit_local(estimator, X, y, classes, seed)
    if seed is None:
        seed = estimator.random_state
    return local_model(estimator).start(X, y, classes=classes, random_state=seed)


def co_learn(
    federation: Federation,
    shares: Shares,
    *,
    by_class: bool,
    align: bool,
    **options,
) -> tuple[LocalModel, Rounds]:
    """Rounds of local training, from the average of the nodes' classifiers.

    Parameters
    ----------
    federation : Federation
        A node with a constant model trains as the first that has another.
    shares : Shares
    by_class : bool
        Whether nodes count for a class as much as the shares say also once all of
        them train all outputs.
    align : bool
        Whether to put the hidden units of the nodes in one order before the first
        round.
    **options
        Of :func:`~skgems.rounds.run_rounds`.

    Returns
    -------
    model : LocalModel
        Of the kind of the first node's, with the shared model's parameters.
    rounds : Rounds

    Raises
    ------
    TypeError
        If a node cannot go on training, or not from the parameters of another.
    ValueError
        If shapes differ, or hidden units of torch modules are to be aligned.
    """
    classes = federation.classes
    speaking, spoken = not_constant(federation.nodes, shares)
    for node in speaking:
        node.local.check_trainable()
    first = speaking[0]
    _check_layouts(speaking)
    if first.local.has_module:
        if align:
            raise ValueError(
                "align='permutation' cannot be had with rounds of skorch nets; set "
                "align=None."
            )
        problem = why_not_alike(speaking)
        if problem is not None:
            raise problem
        template = average_nets(speaking, classes, spoken)
        start = template.parameters()
    else:
        template = first.local.widened(classes)
        network = average_networks(speaking, classes, spoken, align=align)
        start = template.parameters_of(network)
    # From here on every node has all outputs, and trains them.
    weights = parameter_weights(
        start,
        template.class_axes(),
        template.description.classes,
        classes,
        shares if by_class else shares.for_all_outputs(),
    )
    nodes = [
        local_training(
            first.local if node.local.is_constant else node.local,
            federation.X[node.training_rows],
            federation.y[node.training_rows],
            classes,
        )
        for node in federation.nodes
    ]
    rounds = run_rounds(
        start, nodes, weights=weights, names=federation.names, **options
    )
    return template.with_parameters(rounds.parameters), rounds


def _check_layouts(nodes: list[Node]) -> None:
    first, *others = nodes
    for node in others:
        if node.local.layout != first.local.layout:
            raise TypeError(
                "In rounds parameters are handed from node to node, but nodes "
                f"{first.name!r} and {node.name!r} have "
                f"{type(first.local.own).__name__} and "
                f"{type(node.local.own).__name__}, whose parameters differ. "
                "Give all nodes classifiers of one kind."
            )


@dataclass(frozen=True)
class LocalTraining:
    """A node of :func:`~skgems.rounds.run_rounds`.

    Attributes
    ----------
    parcel : Parcel
        With a classifier that has an output for each class.
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows of the node.
    codes : ndarray of shape (n_samples,), int
        Their labels, as indices of classes.
    classes : ndarray of shape (n_classes,)
    targets : ndarray of shape (n_classes,)
        What the classifier's trainer takes for each class.
    """

    parcel: Parcel
    X: object
    codes: np.ndarray
    classes: np.ndarray
    targets: np.ndarray

    def __call__(self, parameters, epochs, rates, seed):
        trained = local_model(self.parcel.estimator).train(
            self.X,
            self.targets[self.codes],
            parameters=parameters,
            epochs=epochs,
            learning_rate=rates,
            random_state=seed,
        )
        parameters = trained.parameters()
        if not all(np.isfinite(array).all() for array in parameters):
            return parameters, np.nan  # which the loop over rounds judges
        proba = trained.probabilities(self.X, self.classes)
        true = proba[np.arange(len(self.codes)), self.codes]
        loss = -np.mean(np.log(np.maximum(true, np.finfo(np.float64).tiny)))
        return parameters, float(loss)


def local_training(model: LocalModel, X, codes, classes: np.ndarray) -> LocalTraining:
    """What a node does in a round; see :class:`LocalTraining` for the parameters."""
    wide = model.widened(classes)
    return LocalTraining(Parcel(wide.own), X, codes, classes, wide.targets(classes))
