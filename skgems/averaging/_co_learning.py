# SPDX-License-Identifier: BSD-3-Clause
"""Train the nodes' classifiers in rounds, by their own trainers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base._aggregator import Federation
from ..federation._shares import Shares
from ..local._descriptions import describe, probabilities
from ..local._fitting import Parcel
from ..local._training import (
    check_trainable,
    class_axes,
    get_parameters,
    initialise,
    layout,
    parameters_of,
    train,
    widen,
    with_parameters,
)
from ..networks._kinds import is_constant, is_skorch, unwrap
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
    if seed is None:
        seed = estimator.random_state
    return initialise(estimator, X, y, classes=classes, random_state=seed)


def co_learn(
    federation: Federation,
    classes: np.ndarray,
    shares: Shares,
    *,
    by_class: bool,
    align: bool,
    **options,
) -> tuple[object, Rounds]:
    """Rounds of local training, from the average of the nodes' classifiers.

    Parameters
    ----------
    federation : Federation
        A node with a constant model trains as the first that has another.
    classes : ndarray of shape (n_classes,)
    shares : Shares
    by_class : bool
        Whether nodes count for a class as much as the shares say also once all of
        them train all outputs.
    align : bool
        Whether to put the hidden units of each node in the order of the first node's
        before the first round.
    **options
        Of :func:`~skgems.rounds.run_rounds`.

    Returns
    -------
    model : fitted classifier
        Of the kind of the first node's, with the shared model's parameters.
    rounds : Rounds

    Raises
    ------
    TypeError
        If a node cannot go on training, or not from the parameters of another.
    ValueError
        If shapes differ, or hidden units of torch modules are to be aligned.
    """
    speaking, spoken = not_constant(federation.nodes, shares)
    for node in speaking:
        check_trainable(node.estimator, name=node.name)
    first = speaking[0]
    for node in speaking[1:]:
        if layout(node.estimator) != layout(first.estimator):
            raise TypeError(
                "In rounds parameters are handed from node to node, but nodes "
                f"{first.name!r} and {node.name!r} have "
                f"{type(unwrap(first.estimator)).__name__} and "
                f"{type(unwrap(node.estimator)).__name__}, whose parameters differ. "
                "Give all nodes classifiers of one kind."
            )
    if is_skorch(unwrap(first.estimator)):
        if align:
            raise ValueError(
                "align='permutation' cannot be had with rounds of skorch nets; set "
                "align=None."
            )
        problem = why_not_alike(speaking)
        if problem is not None:
            raise problem
        template = average_nets(speaking, classes, spoken)
        start = get_parameters(template)
    else:
        template = widen(first.estimator, classes)
        network = average_networks(speaking, classes, spoken, align=align)
        start = parameters_of(network, template)
    # From here on every node has all outputs, and trains them.
    weights = parameter_weights(
        start,
        class_axes(template),
        describe(template).classes,
        classes,
        shares if by_class else shares.for_all_outputs(),
    )
    nodes = [
        local_training(
            first.estimator if is_constant(node.estimator) else node.estimator,
            federation.X[node.training_rows],
            federation.y[node.training_rows],
            classes,
        )
        for node in federation.nodes
    ]
    rounds = run_rounds(start, nodes, weights=weights, **options)
    return with_parameters(template, rounds.parameters), rounds


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
        trained = train(
            self.parcel.estimator,
            self.X,
            self.targets[self.codes],
            parameters=parameters,
            epochs=epochs,
            learning_rate=rates,
            random_state=seed,
        )
        proba = probabilities(trained, self.X, describe(trained), self.classes)
        true = proba[np.arange(len(self.codes)), self.codes]
        loss = -np.mean(np.log(np.maximum(true, np.finfo(np.float64).tiny)))
        return get_parameters(trained), float(loss)


def local_training(estimator, X, codes, classes: np.ndarray) -> LocalTraining:
    """What a node does in a round; see :class:`LocalTraining` for the parameters."""
    estimator, targets = unwrap(estimator), classes
    if is_skorch(estimator):
        # The loss of a net takes the numbers of output columns.
        columns = describe(estimator).classes.tolist()
        column = {label: c for c, label in enumerate(columns)}
        targets = np.array([column[label] for label in classes.tolist()])
    else:
        estimator = widen(estimator, classes)
    return LocalTraining(Parcel(estimator), X, codes, classes, targets)
