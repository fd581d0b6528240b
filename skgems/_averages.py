# SPDX-License-Identifier: BSD-3-Clause
"""Average fitted models whose classes differ, and train them from an average."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from sklearn.dummy import DummyClassifier

from ._descriptions import describe, probabilities
from ._training import (
    class_axes,
    get_parameters,
    is_skorch,
    train,
    unwrap,
    widen,
    with_parameters,
)
from .base import Federation, Node
from .networks import Network, align_outputs, read_network
from .rounds import align_hidden_units, mean_parameters


@dataclass(frozen=True)
class Shares:
    """How much each node counts.

    Attributes
    ----------
    shared : ndarray of shape (n_nodes,)
        For what belongs to no class.
    outputs : ndarray of shape (n_nodes, n_classes)
        For what belongs to a class; zero where the node does not know it.
    """

    shared: np.ndarray
    outputs: np.ndarray

    def for_all_outputs(self) -> Shares:
        """The same, with every node counted for every class."""
        return Shares(
            self.shared, np.broadcast_to(self.shared[:, None], self.outputs.shape)
        )


def read_shares(federation: Federation, weights, n_classes: int) -> Shares:
    """Make shares of the parameter ``weights`` of an aggregator.

    Parameters
    ----------
    federation : Federation
    weights : {"equal", "n_samples", "class_counts"} or array-like of shape (n_nodes,)
    n_classes : int

    Returns
    -------
    shares : Shares

    Raises
    ------
    ValueError
        If weights count rows and there are none, or are not one positive number per
        node.
    """
    nodes = federation.nodes
    known = np.stack([node.seen for node in nodes])
    if isinstance(weights, str):
        if weights == "equal":
            shared = np.ones(len(nodes))
            return Shares(shared, shared[:, None] * known)
        if federation.X is None:
            raise ValueError(
                f"weights={weights!r} counts rows: give fit the rows, fit(X, y, "
                "nodes=nodes), or give one number per node."
            )
        counts = np.stack(
            [
                np.bincount(federation.y[node.training_rows], minlength=n_classes)
                for node in nodes
            ]
        ).astype(np.float64)
        shared = counts.sum(axis=1)
        if weights == "n_samples":
            return Shares(shared, shared[:, None] * known)
        # A class that no row shows is as if each who knows it had one.
        counts[:, ~(counts * known).any(axis=0)] = 1.0
        return Shares(shared, counts * known)
    shared = np.asarray(weights, dtype=np.float64)
    if shared.shape != (len(nodes),) or not np.all(shared > 0):
        raise ValueError(
            f"weights must hold one positive number per node ({len(nodes)}), got "
            f"{weights!r}."
        )
    return Shares(shared, shared[:, None] * known)


def is_any_module(node: Node) -> bool:
    """Whether it is a skorch net whose module is no chain of dense layers."""
    if not is_skorch(unwrap(node.estimator)):
        return False
    try:
        read_network(node.estimator, name=node.name)
    except TypeError:
        return True
    return False


# ---- chains of dense layers ---------------------------------------------------


def average_networks(
    nodes: list[Node], classes: np.ndarray, shares: Shares, *, align: bool = False
) -> Network:
    """Average of chains of dense layers, class by class over the nodes that know it.

    Parameters
    ----------
    nodes : list of Node
        Read one after another; constant models say nothing but that a class exists.
    classes : ndarray of shape (n_classes,)
        Labels of the average's outputs.
    shares : Shares
    align : bool, default=False
        Whether to put hidden units in the order of the first node's.

    Returns
    -------
    network : Network

    Raises
    ------
    ValueError
        If shapes or activations differ.
    """
    constant = [_is_constant(node) for node in nodes]
    speaking = [k for k in range(len(nodes)) if all(constant) or not constant[k]]
    first = read_network(nodes[speaking[0]].estimator, name=nodes[speaking[0]].name)
    depth = len(first.coefs)
    name, reference = nodes[speaking[0]].name, None

    def arrive():
        nonlocal reference
        for k in speaking:
            network = read_network(nodes[k].estimator, name=nodes[k].name)
            _check_shapes(network, first, nodes[k].name, name)
            coef, intercept, _, _ = align_outputs(network, classes)
            coefs = [*network.coefs[:-1], coef]
            intercepts = [*network.intercepts[:-1], intercept]
            if align and reference is None:
                reference = coefs, intercepts
            elif align:
                coefs, intercepts = align_hidden_units(coefs, intercepts, *reference)
            share = [shares.shared[k]] * (depth - 1) + [shares.outputs[k]]
            del network, coef, intercept
            yield coefs + intercepts, share * 2

    mean = mean_parameters(arrive())
    return replace(
        first,
        coefs=tuple(mean[:depth]),
        intercepts=tuple(mean[depth:]),
        classes=classes,
        seen=np.ones(len(classes), dtype=bool),
    )


def _is_constant(node):
    return isinstance(unwrap(node.estimator), DummyClassifier)


def _widths(network):
    return (network.n_features_in, *(coef.shape[1] for coef in network.coefs[:-1]))


def _check_shapes(network, first, name, first_name):
    if _widths(network) != _widths(first):
        raise ValueError(
            f"The networks of nodes {first_name!r} and {name!r} have different shapes: "
            f"{_widths(first)} and {_widths(network)} inputs and hidden units. Only "
            "equal shapes can be averaged; PFNMAggregator and GEMSMLPAggregator merge "
            "networks of different widths."
        )
    if network.activation != first.activation:
        raise ValueError(
            f"The networks of nodes {first_name!r} and {name!r} have different "
            f"activations: {first.activation} and {network.activation}; their "
            "average would mean nothing."
        )


# ---- torch modules of any kind ------------------------------------------------


def average_nets(nodes: list[Node], classes: np.ndarray, shares: Shares):
    """Average of skorch nets, parameter by parameter.

    Parameters
    ----------
    nodes : list of Node
    classes : ndarray of shape (n_classes,)
    shares : Shares

    Returns
    -------
    net : skorch net
        A copy of the first node's with averaged parameters.

    Raises
    ------
    TypeError
        If a node has no skorch net.
    ValueError
        If modules or the labels of their outputs differ.
    """
    first, reference = nodes[0], describe(nodes[0].estimator)
    shapes = _shapes(first)
    for node in nodes[1:]:
        if not is_skorch(unwrap(node.estimator)):
            raise TypeError(
                f"Node {first.name!r} has a torch module that is no chain of dense "
                f"layers, node {node.name!r} {type(node.estimator).__name__}; such a "
                "module is averaged with others of its kind only."
            )
        if _shapes(node) != shapes:
            raise ValueError(
                f"The modules of nodes {first.name!r} and {node.name!r} have "
                f"parameters of different names or shapes: {shapes} and "
                f"{_shapes(node)}. Only equal ones can be averaged."
            )
        columns = describe(node.estimator).classes
        if not np.array_equal(columns, reference.classes):
            raise ValueError(
                f"The outputs of nodes {first.name!r} and {node.name!r} stand for "
                f"different labels: {reference.classes.tolist()} and "
                f"{columns.tolist()}. Give all nets the same classes."
            )
    weights = node_weights(first.estimator, nodes, classes, shares)
    models = (
        (get_parameters(node.estimator), weight)
        for node, weight in zip(nodes, weights, strict=True)
    )
    return with_parameters(first.estimator, mean_parameters(models))


def _shapes(node):
    state = unwrap(node.estimator).module_.state_dict()
    return {name: tuple(value.shape) for name, value in state.items()}


# ---- rounds -------------------------------------------------------------------


def node_weights(template, nodes: list[Node], classes, shares: Shares) -> list:
    """One weight for each parameter array of each node, see ``mean_parameters``.

    Parameters
    ----------
    template : fitted classifier
        Whose parameters are averaged.
    nodes : list of Node
    classes : ndarray of shape (n_classes,)
    shares : Shares

    Returns
    -------
    weights : list of lists
    """
    parameters, axes = get_parameters(template), class_axes(template)
    columns = describe(template).classes.tolist()
    position = {label: c for c, label in enumerate(classes.tolist())}
    both = shares.outputs.min(axis=1) if len(classes) == 2 else shares.shared
    weights = []
    for k in range(len(nodes)):
        row = []
        for i, array in enumerate(parameters):
            if i not in axes:
                row.append(shares.shared[k])
                continue
            if array.shape[axes[i]] == len(columns):
                own = [
                    shares.outputs[k, position[label]]
                    if label in position
                    else shares.shared[k]
                    for label in columns
                ]
            else:  # one output for two classes: of the nodes that know both
                own = [both[k] if both.any() else shares.shared[k]]
            shape = np.ones(array.ndim, dtype=int)
            shape[axes[i]] = -1
            row.append(np.reshape(own, shape))
        weights.append(row)
    return weights


@dataclass(frozen=True)
class LocalTraining:
    """A node of :func:`~skgems.rounds.run_rounds`: an estimator and its rows."""

    estimator: object
    X: object
    y: np.ndarray
    classes: np.ndarray
    codes: np.ndarray

    def __call__(self, parameters, epochs, rates, seed):
        trained = train(
            widen(self.estimator, self.classes),
            self.X,
            self.y,
            parameters=parameters,
            epochs=epochs,
            learning_rate=rates,
            random_state=seed,
        )
        proba = probabilities(trained, self.X, describe(trained), self.classes)
        true = proba[np.arange(len(self.codes)), self.codes]
        loss = -np.mean(np.log(np.maximum(true, np.finfo(np.float64).tiny)))
        return get_parameters(trained), float(loss)


def local_training(node: Node, federation: Federation, classes) -> LocalTraining:
    """What a node does in a round.

    Parameters
    ----------
    node : Node
    federation : Federation
    classes : ndarray of shape (n_classes,)

    Returns
    -------
    training : LocalTraining
    """
    rows = node.training_rows
    codes = federation.y[rows]
    description = describe(node.estimator, name=node.name)
    targets = classes
    if is_skorch(unwrap(node.estimator)):
        # The loss of a net takes the numbers of output columns.
        column = {label: c for c, label in enumerate(description.classes.tolist())}
        targets = np.array([column[label] for label in classes.tolist()])
    return LocalTraining(
        unwrap(node.estimator),
        federation.X[rows],
        targets[codes],
        classes,
        codes,
    )
