"""Averages of the parameters of nodes' models, each class over nodes that know it.

For a parameter that belongs to class c, and nodes k with weights w_k(c),

    mean = sum_k w_k(c) parameter_k / sum_k w_k(c),

where w_k(c) = 0 at nodes that do not know c. Parameters that belong to no class have
one weight a node.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..asking import Shares, Weight, align_hidden_units, mean_parameters, started_apart
from ..base import warn_user
from ..local import LocalModel, indices_of
from ..messages import listed
from ..networks import N_ROWS, Coordinates, Network, read_network
from ..parties import Node
from ._large_models import ModelSizes

# Makes one model of several with their weights, `mean_parameters` or another.
Combine = Callable[[Iterable[tuple[Sequence[np.ndarray], Weight]]], list[np.ndarray]]


class StartedApartWarning(UserWarning):
    """The networks that are averaged have unrelated hidden units."""


def average(
    nodes: list[Node],
    *,
    classes: np.ndarray,
    shares: Shares,
    sizes: ModelSizes,
    combine: Combine = mean_parameters,
    align: bool = False,
    X: np.ndarray | None = None,
) -> LocalModel | Network:
    """The average by class over the nodes that know it; ``sizes`` notes the models.

    ``combine`` makes one model of several.

    ``align``: whether hidden units are brought into one order before. ``X``: rows of
    some nodes, if there are any, to compare modules on that no made-up rows fit.
    """
    nodes, shares = not_constant(nodes, shares)
    problem = why_not_alike(nodes, X)
    if problem is None and not align:
        mean = average_nets(
            nodes, classes=classes, shares=shares, sizes=sizes, combine=combine
        )
        warn_of_apart(nodes, classes)
        return mean
    for node in nodes:
        if not node.model.is_chain:
            raise problem or ValueError(
                "align='permutation' matches the units of chains of dense layers; the "
                f"module of node {node.name!r} is not such a chain. Set align=None."
            )
    mean = average_networks(
        nodes,
        classes=classes,
        shares=shares,
        sizes=sizes,
        align=align,
        combine=combine,
    )
    if not align and not mean.is_linear:
        warn_of_apart(nodes, classes)
    return mean


def not_constant(nodes: list[Node], shares: Shares) -> tuple[list[Node], Shares]:
    """Return nodes whose model is not constant, and their shares; all if none is."""
    varying = [k for k, node in enumerate(nodes) if not node.model.is_constant]
    if not varying:
        return nodes, shares
    return [nodes[k] for k in varying], shares.select(varying)


def parameter_weights(
    parameters: Sequence[np.ndarray],
    *,
    output_axes: Mapping[int, int],
    columns: Sequence,
    classes: np.ndarray,
    shares: Shares,
) -> list[list[Weight]]:
    """Return the weight of each array of each node.

    Parameters
    ----------
    parameters : sequence of ndarray
        Arrays of a model of the same layout as those of the nodes.
    output_axes : dict
        For the index of each array that has a number per output: the axis of outputs.
    columns : array-like of shape (n_columns,)
        The labels that outputs stand for.
    classes : ndarray of shape (n_classes,)
        The classes that ``shares`` are about.
    shares : Shares
        Weights of nodes.

    Returns
    -------
    weights : list of list
        For each node, for each array, a number, or an array that broadcasts to it.
    """
    places = indices_of(columns, classes)
    of_outputs = np.where(
        places >= 0, shares.outputs[:, places], shares.shared[:, None]
    )  # (n_nodes, n_columns)
    # One output for two classes is of the nodes that know both.
    of_pair = shares.outputs.min(axis=1, keepdims=True)
    if len(classes) != 2 or not of_pair.any():
        of_pair = shares.shared[:, None]
    weights_of_arrays = []  # for each array, the weight of each node
    for i, array in enumerate(parameters):
        if array.dtype.kind != "f":  # a counter, which is one node's
            weights_of_arrays.append(shares.sizes)
        elif i not in output_axes:
            weights_of_arrays.append(shares.shared)
        else:
            axis = output_axes[i]
            has_all_columns = array.shape[axis] == len(columns)
            of_axis = of_outputs if has_all_columns else of_pair
            if np.ptp(of_axis, axis=1).any():
                shape = np.ones(array.ndim, dtype=int)
                shape[axis] = -1
                weights_of_arrays.append([row.reshape(shape) for row in of_axis])
            else:  # one number, where it is the same for all outputs, is faster
                weights_of_arrays.append(of_axis[:, 0])
    return [list(of_node) for of_node in zip(*weights_of_arrays, strict=True)]


def average_networks(
    nodes: list[Node],
    *,
    classes: np.ndarray,
    shares: Shares,
    sizes: ModelSizes,
    align: bool,
    combine: Combine = mean_parameters,
) -> Network:
    """Return the average of chains of dense layers, which may be of different kinds."""
    first = with_outputs(nodes[0].model.borrow_network(), classes)
    depth = len(first.coefs)
    weights = parameter_weights(
        [*first.coefs, *first.intercepts],
        output_axes={depth - 1: 1, 2 * depth - 1: 0},
        columns=classes,
        classes=classes,
        shares=shares,
    )

    def networks() -> Iterator[Network]:
        for node in nodes:
            network = node.model.borrow_network()
            _check_alike(network, first, name=node.name, first_name=nodes[0].name)
            sizes.note(node.name, _arrays_of_varying_features(network))
            yield with_outputs(network, classes)

    def weighted_arrays() -> Iterator[tuple[list[np.ndarray], Weight]]:
        in_order = _in_one_order(networks()) if align else networks()
        for network, weight in zip(in_order, weights, strict=True):
            arrays = _arrays_of_varying_features(network)
            del network
            yield arrays, weight
            del arrays  # before the next one comes

    mean = combine(weighted_arrays())
    if not all(np.isfinite(array).all() for array in mean):
        for node in nodes:  # raises an error that names the node
            read_network(node.model.estimator, name=node.name)
    return replace(first, coefs=mean[:depth], intercepts=mean[depth:], coordinates=None)


def _arrays_of_varying_features(network: Network) -> list[np.ndarray]:
    """Return the arrays of a model, without weights of features that do not vary."""
    coordinates = network.coordinates
    if coordinates is not None:
        network = coordinates.give_back(coordinates.take_in(network))
    return [*network.coefs, *network.intercepts]


def _in_one_order(networks: Iterable[Network]) -> Iterator[Network]:
    """Return hidden units in the order of the network of most weight on its outputs."""
    networks = list(networks)
    # Sums over hidden units are rounded: their last digits depend on the units' order.
    sizes = [float(f"{np.linalg.norm(net.coefs[-1]):.9g}") for net in networks]
    common = Coordinates.common([net.coordinates for net in networks])
    if common is not None:
        networks = [common.take_in(net) for net in networks]
    reference = networks[int(np.argmax(sizes))]
    for network in networks:
        aligned = align_hidden_units(network, reference)
        yield aligned if common is None else common.give_back(aligned)


def with_outputs(network: Network, classes: np.ndarray) -> Network:
    """A network with one output for each of ``classes``, zero where it had none."""
    if not np.array_equal(network.classes, classes):
        network = network.aligned(classes)
    return replace(network, seen=np.ones(len(classes), dtype=bool))


def _check_alike(
    network: Network, first: Network, *, name: str, first_name: str
) -> None:
    """Raise ValueError where two networks cannot be averaged."""
    widths = (network.n_features_in, *network.widths)
    first_widths = (first.n_features_in, *first.widths)
    if widths != first_widths:
        raise ValueError(
            f"The networks of nodes {first_name!r} and {name!r} have different shapes: "
            f"{first_widths} and {widths} inputs and hidden units. Only equal shapes "
            "can be averaged; PFNMAggregator and GEMSMLPAggregator merge different "
            "widths."
        )
    if network.activation != first.activation:
        raise ValueError(
            f"The networks of nodes {first_name!r} and {name!r} have different "
            f"activations: {first.activation} and {network.activation}; their average "
            "would mean nothing. Give all nodes networks of one activation."
        )


def average_nets(
    nodes: list[Node],
    *,
    classes: np.ndarray,
    shares: Shares,
    sizes: ModelSizes,
    combine: Combine = mean_parameters,
) -> LocalModel:
    """Average of alike nets, buffers included: a copy of the first of largest dtype."""
    template = max(
        (node.model for node in nodes), key=lambda local: local.dtype.itemsize
    )
    weights = parameter_weights(
        template.parameters(),
        # Where a node counts equally for all classes, nothing depends on the outputs.
        output_axes=template.class_axes() if shares.differ_by_class else {},
        columns=template.description.classes,
        classes=classes,
        shares=shares,
    )

    def weighted_parameters() -> Iterator[tuple[list[np.ndarray], Weight]]:
        for node, weight in zip(nodes, weights, strict=True):
            parameters = node.model.parameters()
            sizes.note(node.name, parameters)
            yield parameters, weight
            del parameters  # before the next one comes

    mean = combine(weighted_parameters())
    if not all(np.isfinite(array).all() for array in mean):
        for node in nodes:  # raises an error that names the node
            node.model.check_finite()
    return template.with_parameters(mean)


def has_counters(nodes: list[Node]) -> bool:
    """Report whether modules have buffers of integers, which are those of one node."""
    for node in nodes:
        if node.model.has_module:
            return any(array.dtype.kind != "f" for array in node.model.parameters())
    return False


def why_not_alike(nodes: list[Node], X: np.ndarray | None = None) -> Exception | None:
    """Return the error of nodes whose parameters do not correspond; None where they do.

    Modules with equal parameters may still compute other things from them. ``X``: see
    `average`.
    """
    X = None if X is None else X[:N_ROWS]
    nets = [node for node in nodes if node.model.has_module]
    others = [node for node in nodes if not node.model.has_module]
    if others:
        return TypeError(
            f"Nodes {[node.name for node in nets]} have torch modules, node "
            f"{others[0].name!r} has {type(others[0].model.estimator).__name__}. A "
            "module that is not a chain of dense layers, or that trains in rounds, can "
            "be averaged only with modules of its own kind."
        )
    first, *rest = nets
    errors = (_why_modules_differ(first, node, X) for node in rest)
    return next((error for error in errors if error is not None), None)


def _why_modules_differ(
    first: Node, node: Node, X: np.ndarray | None
) -> ValueError | None:
    """Return the error of a node with another module than the first; None if equal."""
    first_shapes = first.model.module_shapes()
    shapes = node.model.module_shapes()
    if shapes != first_shapes:
        only_first = dict(sorted(first_shapes.items() - shapes.items()))
        only_here = dict(sorted(shapes.items() - first_shapes.items()))
        return ValueError(
            f"The modules of nodes {first.name!r} and {node.name!r} have "
            f"parameters of different names or shapes: {only_first} and "
            f"{only_here}. Only equal modules can be averaged; "
            "PFNMAggregator and GEMSMLPAggregator merge layers of other widths."
        )
    first_labels = first.model.description.classes
    labels = node.model.description.classes
    if not np.array_equal(labels, first_labels):
        return ValueError(
            f"The outputs of nodes {first.name!r} and {node.name!r} stand for "
            f"different labels: {first_labels.tolist()} and {labels.tolist()}. "
            "Give all nets the same classes."
        )
    reason = first.model.why_forward_differs(node.model, X)
    if reason is None:
        return None
    return ValueError(
        f"The modules of nodes {first.name!r} and {node.name!r} give different "
        f"outputs with equal weights. At node {node.name!r}, {reason}. Their "
        "average would mean nothing. Give all nodes one module, or use "
        "EnsembleAggregator."
    )


def warn_of_apart(nodes: Sequence[Node], classes: np.ndarray) -> None:
    """Warn of networks whose units are not like the first one's at the same place."""
    chains = [node for node in nodes if node.model.is_chain]
    if not chains:
        return
    first = with_outputs(chains[0].model.borrow_network(), classes)
    apart = [
        node.name
        for node in chains[1:]
        if started_apart(with_outputs(node.model.borrow_network(), classes), first)
    ]
    if not apart:
        return
    warn_user(
        f"Hidden units of node {chains[0].name!r} are no more similar to those of "
        f"{listed(map(repr, apart))} than by chance.\nSuch networks started from "
        "different weights, or trained so long that nothing is left of a common "
        "start.\nTheir average is of little use. Set align='permutation', or use "
        "PFNMAggregator.",
        StartedApartWarning,
    )
