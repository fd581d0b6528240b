# SPDX-License-Identifier: BSD-3-Clause
"""The average of fitted models whose classes may differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..base._aggregator import Node
from ..federation._shares import Shares
from ..local._descriptions import describe
from ..local._training import class_axes, get_parameters, with_parameters
from ..networks import Network, align_outputs, read_network
from ..networks._kinds import is_constant, is_skorch, unwrap
from ..rounds import align_hidden_units, mean_parameters


def average(
    nodes: list[Node], classes: np.ndarray, shares: Shares, *, align: bool = False
):
    """Average of fitted models, class by class over the nodes that know it.

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
    model : skorch net or Network
        A net if all are skorch nets of equal modules, averaged parameter by
        parameter, buffers included; else layer by layer.

    Raises
    ------
    TypeError
        If a torch module is no chain of dense layers, and there are other models.
    ValueError
        If shapes, activations, or the labels of such a module's outputs differ.
    """
    nodes, shares = not_constant(nodes, shares)
    problem = why_not_alike(nodes)
    if problem is None and not align:
        return average_nets(nodes, classes, shares)
    odd = next((node for node in nodes if _is_no_chain(node)), None)
    if odd is None:
        return average_networks(nodes, classes, shares, align=align)
    if problem is None:
        raise ValueError(
            "align='permutation' matches the units of chains of dense layers; the "
            f"module of node {odd.name!r} is none."
        )
    raise problem


def not_constant(nodes: list[Node], shares: Shares) -> tuple[list[Node], Shares]:
    """The nodes with a model that is not constant; all, if there is none."""
    chosen = [k for k, node in enumerate(nodes) if not is_constant(node.estimator)]
    chosen = chosen or list(range(len(nodes)))
    return [nodes[k] for k in chosen], shares.of(chosen)


def parameter_weights(
    parameters: Sequence[np.ndarray],
    axes: Mapping[int, int],
    columns: np.ndarray,
    classes: np.ndarray,
    shares: Shares,
) -> list[list]:
    """One weight for each parameter array of each node, see ``mean_parameters``.

    Parameters
    ----------
    parameters : sequence of ndarray
        Of any of the models.
    axes : mapping of int to int
        From the index of an array to its axis of outputs, if it has one.
    columns : ndarray of shape (n_outputs,)
        Labels of the outputs.
    classes : ndarray of shape (n_classes,)
        Labels that the shares are for.
    shares : Shares

    Returns
    -------
    weights : list of lists
    """
    position = {label: c for c, label in enumerate(classes.tolist())}
    own = np.array([position.get(label, -1) for label in columns.tolist()])
    of_output = np.where(own >= 0, shares.outputs[:, own], shares.shared[:, None])
    # One output for two classes is of the nodes that know both.
    of_pair = shares.outputs.min(axis=1, keepdims=True)
    if len(classes) != 2 or not of_pair.any():
        of_pair = shares.shared[:, None]
    weights = []
    for i, array in enumerate(parameters):
        if array.dtype.kind != "f":  # a counter, which is one node's
            weights.append(shares.sizes)
        elif i not in axes:
            weights.append(shares.shared)
        else:
            full = array.shape[axes[i]] == len(columns)
            shape = np.ones(array.ndim, dtype=int)
            shape[axes[i]] = -1
            own_weights = of_output if full else of_pair
            # One number, where it is the same for all, is faster.
            alike = not np.ptp(own_weights, axis=1).any()
            weights.append(
                own_weights[:, 0] if alike else [a.reshape(shape) for a in own_weights]
            )
    return [list(of_node) for of_node in zip(*weights, strict=True)]


# ---- chains of dense layers ---------------------------------------------------


def average_networks(
    nodes: list[Node], classes: np.ndarray, shares: Shares, *, align: bool = False
) -> Network:
    """Average of chains of dense layers, layer by layer; see :func:`average`."""
    first = with_outputs(read_network(nodes[0].estimator, name=nodes[0].name), classes)
    depth = len(first.coefs)
    axes = {depth - 1: 1, 2 * depth - 1: 0}
    weights = parameter_weights(
        [*first.coefs, *first.intercepts], axes, classes, classes, shares
    )
    reference = (first.coefs, first.intercepts) if align else None
    widths, first = _widths(first), replace(first, coefs=(), intercepts=())

    def arrive():
        for k, node in enumerate(nodes):
            network = read_network(node.estimator, name=node.name, copy=False)
            _check_alike(network, node.name, first, widths, nodes[0].name)
            network = with_outputs(network, classes)
            coefs, intercepts = network.coefs, network.intercepts
            del network
            if align and k:
                coefs, intercepts = align_hidden_units(coefs, intercepts, *reference)
            yield [*coefs, *intercepts], weights[k]
            del coefs, intercepts  # before the next one comes

    mean = mean_parameters(arrive())
    if not all(np.isfinite(array).all() for array in mean):
        for node in nodes:  # whose fault it is
            read_network(node.estimator, name=node.name)
    return replace(first, coefs=tuple(mean[:depth]), intercepts=tuple(mean[depth:]))


def with_outputs(network: Network, classes: np.ndarray) -> Network:
    """A network with one output for each of ``classes``, zero where it had none."""
    if np.array_equal(network.classes, classes):
        return replace(network, seen=np.ones(len(classes), dtype=bool))
    coef, intercept, _, _ = align_outputs(network, classes)
    return replace(
        network,
        coefs=(*network.coefs[:-1], coef),
        intercepts=(*network.intercepts[:-1], intercept),
        classes=classes,
        seen=np.ones(len(classes), dtype=bool),
    )


def _widths(network):
    return (network.n_features_in, *(coef.shape[1] for coef in network.coefs[:-1]))


def _check_alike(network, name, first, widths, first_name):
    if _widths(network) != widths:
        raise ValueError(
            f"The networks of nodes {first_name!r} and {name!r} have different shapes: "
            f"{widths} and {_widths(network)} inputs and hidden units. Only equal "
            "shapes can be averaged; PFNMAggregator and GEMSMLPAggregator merge "
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
    """Average of skorch nets that are alike, parameter by parameter.

    Parameters
    ----------
    nodes : list of Node
        For which :func:`why_not_alike` finds no reason.
    classes : ndarray of shape (n_classes,)
    shares : Shares

    Returns
    -------
    net : skorch net
        A copy of the first node's with averaged parameters and buffers.
    """
    first = nodes[0].estimator
    weights = parameter_weights(
        get_parameters(first),
        class_axes(first),
        describe(first).classes,
        classes,
        shares,
    )
    models = (
        (get_parameters(node.estimator), weight)
        for node, weight in zip(nodes, weights, strict=True)
    )
    return with_parameters(first, mean_parameters(models))


def _is_no_chain(node):
    if not is_skorch(unwrap(node.estimator)):
        return False
    try:
        read_network(node.estimator, name=node.name)
    except TypeError:
        return True
    return False


def why_not_alike(nodes):
    """The exception that says why they are no nets of equal modules, or None."""
    nets = [node for node in nodes if is_skorch(unwrap(node.estimator))]
    others = [node for node in nodes if not is_skorch(unwrap(node.estimator))]
    if others:
        names = [node.name for node in nets]
        return TypeError(
            f"Nodes {names} have torch modules, node {others[0].name!r} has "
            f"{type(others[0].estimator).__name__}. A module that is no chain of dense "
            "layers, or trains in rounds, is averaged with others of its kind only."
        )
    first, *rest = nets
    shapes, columns = _shapes(first), describe(first.estimator).classes
    for node in rest:
        own = _shapes(node)
        if own != shapes:
            here, there = shapes.items() - own.items(), own.items() - shapes.items()
            return ValueError(
                f"The modules of nodes {first.name!r} and {node.name!r} have "
                f"parameters of different names or shapes: {dict(sorted(here))} and "
                f"{dict(sorted(there))}. Only equal modules can be averaged; "
                "PFNMAggregator and GEMSMLPAggregator merge chains of dense layers of "
                "different widths."
            )
        labels = describe(node.estimator).classes
        if not np.array_equal(labels, columns):
            return ValueError(
                f"The outputs of nodes {first.name!r} and {node.name!r} stand for "
                f"different labels: {columns.tolist()} and {labels.tolist()}. Give all "
                "nets the same classes."
            )
    return None


def _shapes(node):
    state = unwrap(node.estimator).module_.state_dict()
    return {name: tuple(value.shape) for name, value in state.items()}
