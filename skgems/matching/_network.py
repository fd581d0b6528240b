# SPDX-License-Identifier: BSD-3-Clause
"""Match networks layer after layer, and read the merged network off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from sklearn.utils import check_random_state

from ..networks import Layers
from ._atoms import Atoms
from ._auto import auto_sigma, match_at_auto_gamma0
from ._layer import History, LayerMatch, match_layer


@dataclass(frozen=True, eq=False)
class NetworkMatch:
    """What is known of the units of a merged network, and how it came about.

    An atom of a hidden layer holds incoming weights, bias and outgoing weights, in
    this order. Matched from the bottom all layers have incoming weights, and the
    last one outgoing weights; from the top it is the other way round.

    Attributes
    ----------
    layers : list of LayerMatch
        One per hidden layer, from the bottom.
    sigma, sigma0 : list of float
        Standard deviations of each hidden layer.
    gamma0 : list of float
        Mass of the beta process of each hidden layer.
    shares : list of ndarray of shape (n_targets,)
        For each hidden layer, what the nodes' shares of each unit or class that its
        outgoing weights lead to add up to, over all steps of a stream.
    class_share : ndarray of shape (n_classes,)
        The same of each class.
    bias : ndarray of shape (n_classes,)
        The nodes' output biases, each times its share of the class, added up.
    n_networks : int
        Networks with hidden units, over all steps of a stream.
    n_nodes : int
        Networks, those without units too, over all steps of a stream.
    activation : tuple of str
        Activation of each hidden layer.
    """

    layers: list[LayerMatch] = field(repr=False)
    sigma: list[float]
    sigma0: list[float]
    gamma0: list[float]
    shares: list[np.ndarray] = field(repr=False)
    class_share: np.ndarray = field(repr=False)
    bias: np.ndarray = field(repr=False)
    n_networks: int
    n_nodes: int
    activation: tuple[str, ...]


def match_networks(
    networks: Sequence[Layers],
    class_share: np.ndarray,
    *,
    sigma: Sequence[float | str],
    sigma0: Sequence[float | str],
    gamma0: Sequence[float | str],
    max_units: Sequence[int | None],
    layer_order: str = "bottom_up",
    previous: NetworkMatch | None = None,
    previous_share: np.ndarray | None = None,
    counts: Sequence[np.ndarray] | None = None,
    n_steps: int = 0,
    max_iter: int = 100,
    tol: float = 0.0,
    new_atom_cost: str = "exchangeable",
    random_state=None,
) -> NetworkMatch:
    r"""Match the hidden units of several networks.

    From the bottom, a neuron is its incoming weights and bias, in the last layer its
    outgoing weights too; incoming weights are put in the places of the atoms that
    the units below belong to, with zeros for the atoms that a node lacks. From the
    top, a neuron is its bias and outgoing weights, in the first layer its incoming
    weights too, and outgoing weights are put in the places of the atoms above.

    What a node says about the weights that lead to a class or to an atom above
    counts by its share: the class's share, or one over the number of nodes that have
    the atom. Where it has neither it says nothing. In layers matched by outgoing
    weights alone shares are times the number of nodes.

    Parameters
    ----------
    networks : sequence of Layers
        One per node, of equal depth and activations, with one output per class at
        every node. A node with no hidden unit (a constant model) has hidden layers of
        that width, 0.
    class_share : ndarray of shape (n_nodes, n_classes)
        Each node's share of what is known of each class.
    sigma : sequence of float or "auto", one per hidden layer
        Standard deviation of a node's weights about their atom's; "auto" is a tenth of
        the median norm of a layer's neurons, or what it was in the earlier steps.
    sigma0 : sequence of float or "auto", one per hidden layer
        Standard deviation of the atoms about zero; "auto" is sigma.
    gamma0 : sequence of float or "auto", one per hidden layer
        Mass of the beta process; "auto" is the smallest of six, of
        :math:`\exp(-m^2 / 10 \sigma^2)`, m the median norm, to 1, at which the means of
        matched neurons have two thirds of the neurons' squared norm, or what it was in
        the earlier steps.
    max_units : sequence of int or None, one per hidden layer
        Most atoms.
    layer_order : {"bottom_up", "top_down"}, default="bottom_up"
        Which layer is matched first.
    previous : NetworkMatch, default=None
        Posterior of the earlier steps of a stream, with as many classes.
    previous_share : ndarray of shape (n_classes,), default=None
        What the earlier steps' shares of each class are to add up to beside those of
        this step, where rows are counted over all steps. NaN, and None for all
        classes, leaves what they said as it is.
    counts : sequence over hidden layers of ndarray of shape (n_nodes, n_atoms)
        How often each node has used each atom in earlier steps.
    n_steps : int, default=0
        Number of earlier steps.
    max_iter, tol, new_atom_cost : see :func:`match_layer`
    random_state : int, RandomState instance or None
        Draws the order of nodes.

    Returns
    -------
    match : NetworkMatch

    References
    ----------
    M. Yurochkin et al.: Probabilistic Federated Neural Matching, 2018, section 3.2
    and supplement, Algorithm 1 (from the top).
    """
    rng = check_random_state(random_state)
    n_nodes, n_hidden, n_inputs = len(networks), len(sigma), len(networks[0].coefs[0])
    from_bottom = layer_order == "bottom_up"
    # Matched by outgoing weights alone, what nodes say counts once each, not once over
    # all nodes, beside which the prior of assignments is strong.
    times = np.full(class_share.shape[1], n_nodes, dtype=np.float64)
    once = from_bottom or n_hidden == 1
    if previous is not None:
        if previous_share is not None:
            # Shares over all steps are times the number of nodes of all steps.
            times[~np.isnan(previous_share)] += previous.n_nodes
            previous = _reweighted(previous, previous_share, 1.0 if once else times)
        pairs = zip(sigma, previous.sigma, strict=True)
        sigma = [old if own == "auto" else own for own, old in pairs]
        pairs = zip(gamma0, previous.gamma0, strict=True)
        gamma0 = [old if own == "auto" else own for own, old in pairs]
    pairs = zip(sigma, sigma0, strict=True)
    sigma0 = [own if prior == "auto" else prior for own, prior in pairs]
    sigma, gamma0, shares = list(sigma), list(gamma0), [None] * n_hidden
    layers: list[LayerMatch] = [None] * n_hidden
    for layer in range(n_hidden) if from_bottom else range(n_hidden)[::-1]:
        below = above = None
        if layer == 0:
            below = [np.arange(n_inputs)] * n_nodes, n_inputs
        elif from_bottom:
            below = layers[layer - 1].assignments, len(layers[layer - 1].atoms)
        share = np.zeros((n_nodes, 0))
        if layer == n_hidden - 1:
            above, share = [np.arange(class_share.shape[1])] * n_nodes, class_share
        elif not from_bottom:
            above, share = layers[layer + 1].assignments, _share(layers[layer + 1])
        if below is None:
            share = share * (times if layer == n_hidden - 1 else n_nodes)
        groups = [
            _neurons(own, layer, node, below, above, share)
            for node, own in enumerate(networks)
        ]
        shares[layer] = share.sum(axis=0)
        n_shared, history = 1 + (below[1] if below else 0), None
        if previous is not None:
            atoms = widened(
                previous.layers[layer].atoms, n_shared, share.shape[1], sigma0[layer]
            )
            history = History(atoms, counts[layer], n_steps)
            earlier = previous.shares[layer]
            shares[layer][: len(earlier)] += earlier
        if sigma[layer] == "auto":
            sigma[layer] = auto_sigma(groups)
        if sigma0[layer] == "auto":
            sigma0[layer] = sigma[layer]
        precisions = np.hstack([np.ones((n_nodes, 1)), share]) * sigma[layer] ** -2.0
        match_with = partial(
            match_layer,
            groups,
            precisions.astype(groups[0].dtype),
            n_shared=n_shared,
            prior_precision=sigma0[layer] ** -2.0,
            max_units=max_units[layer],
            history=history,
            max_iter=max_iter,
            tol=tol,
            new_atom_cost=new_atom_cost,
            random_state=rng,
        )
        if gamma0[layer] == "auto":
            gamma0[layer], layers[layer] = match_at_auto_gamma0(
                lambda mass, match=match_with: match(gamma0=mass),
                groups,
                sigma[layer],
                max_units[layer],
            )
        else:
            layers[layer] = match_with(gamma0=gamma0[layer])
    biases = [own.intercepts[-1] for own in networks]
    bias = np.sum([w * b for w, b in zip(class_share, biases, strict=True)], 0)
    total = class_share.sum(axis=0)
    n_networks = sum(len(own.intercepts[0]) > 0 for own in networks)
    if previous is not None:
        bias, total = bias + previous.bias, total + previous.class_share
        n_networks += previous.n_networks
        n_nodes += previous.n_nodes
    # A constant model has the depth of the others, not their activations.
    having = [own for own in networks if len(own.intercepts[0])] or networks
    activation = having[0].activation if previous is None else previous.activation
    return NetworkMatch(
        layers,
        sigma,
        sigma0,
        gamma0,
        shares,
        total,
        bias,
        n_networks,
        n_nodes,
        activation,
    )


def _reweighted(match: NetworkMatch, share, times) -> NetworkMatch:
    """The same, with what it says of classes times factors.

    Parameters
    ----------
    match : NetworkMatch
    share : ndarray of shape (n_classes,)
        What the shares of each class are to add up to; NaN leaves them.
    times : float or ndarray of shape (n_classes,)
        What shares are times in the last hidden layer.

    Returns
    -------
    match : NetworkMatch
    """

    def factor(now, wanted):
        return np.where(np.isnan(wanted) | (now <= 0), 1.0, wanted / _or(now, 1.0))

    of_class = factor(match.class_share, share)
    layers, shares = list(match.layers), list(match.shares)
    if layers:
        of_units = factor(shares[-1], share * times)
        shares[-1] = shares[-1] * of_units
        atoms, prior = layers[-1].atoms, match.sigma0[-1] ** -2.0
        linear, precision = atoms.linear.copy(), atoms.precision.copy()
        linear[:, atoms.n_shared :] *= of_units
        precision[:, 1:] = prior + (precision[:, 1:] - prior) * of_units
        atoms = replace(atoms, linear=linear, precision=precision)
        layers[-1] = replace(layers[-1], atoms=atoms)
    return replace(
        match,
        layers=layers,
        shares=shares,
        class_share=match.class_share * of_class,
        bias=match.bias * of_class,
    )


def _neurons(own: Layers, layer, node, below, above, share) -> np.ndarray:
    """One row per unit of a layer: incoming weights, bias, outgoing weights."""
    n_incoming = below[1] if below else 0
    shape = (len(own.intercepts[layer]), n_incoming + 1 + share.shape[1])
    V = np.zeros(shape, dtype=own.coefs[0].dtype)
    if below:
        V[:, below[0][node]] = own.coefs[layer].T
    V[:, n_incoming] = own.intercepts[layer]
    if above:
        V[:, n_incoming + 1 + above[node]] = own.coefs[layer + 1]
    return V


def _share(match: LayerMatch) -> np.ndarray:
    """One over the number of nodes that have an atom, where a node has it."""
    return match.uses / np.maximum(match.popularity, 1)


def widened(atoms: Atoms, n_shared: int, n_targets: int, sigma0: float) -> Atoms:
    """The same beliefs where the layer below or above has new atoms.

    Nothing came from the new atoms below; of weights to those above only the prior
    is known.
    """
    old = atoms.n_shared
    n_atoms, n_old = len(atoms), atoms.linear.shape[1] - old
    linear = np.zeros((n_atoms, n_shared + n_targets), dtype=atoms.linear.dtype)
    linear[:, : old - 1] = atoms.linear[:, : old - 1]
    linear[:, n_shared - 1] = atoms.linear[:, old - 1]
    linear[:, n_shared : n_shared + n_old] = atoms.linear[:, old:]
    precision = np.pad(
        atoms.precision,
        ((0, 0), (0, n_targets - n_old)),
        constant_values=sigma0**-2.0,
    )
    return Atoms(linear, precision, n_shared)


def widen_classes(
    match: NetworkMatch, places: np.ndarray, n_classes: int
) -> NetworkMatch:
    """The same match with more classes, of which nothing is known.

    Parameters
    ----------
    match : NetworkMatch
    places : ndarray of shape (n_old_classes,), int
        Where each old class is among the new ones.
    n_classes : int
        Number of new classes.

    Returns
    -------
    match : NetworkMatch
    """

    def spread(values, fill=0.0):
        shape = (*values.shape[:-1], n_classes)
        wide = np.full(shape, fill, dtype=values.dtype)
        wide[..., places] = values
        return wide

    layers, shares = list(match.layers), list(match.shares)
    if layers:
        atoms, n_shared = layers[-1].atoms, layers[-1].atoms.n_shared
        linear = [atoms.linear[:, :n_shared], spread(atoms.linear[:, n_shared:])]
        own = spread(atoms.precision[:, 1:], match.sigma0[-1] ** -2.0)
        wide = Atoms(
            np.hstack(linear), np.hstack([atoms.precision[:, :1], own]), n_shared
        )
        layers[-1] = replace(layers[-1], atoms=wide)
        shares[-1] = spread(shares[-1])
    return replace(
        match,
        layers=layers,
        shares=shares,
        class_share=spread(match.class_share),
        bias=spread(match.bias),
    )


def merged_layers(match: NetworkMatch) -> Layers:
    r"""Weights and biases of the merged network.

    They are the mode of the posterior (PFNM 2018, Eq. 5), each number times the same
    factor for all units of a layer, such that what all nodes have is not shrunk:
    equal networks, and a single one, come back as they are.

    Parameters
    ----------
    match : NetworkMatch
        With at least one hidden layer.

    Returns
    -------
    layers : Layers
        With one output per class.
    """
    n_hidden = len(match.layers)
    coefs, intercepts = [None] * (n_hidden + 1), []
    for i, layer in enumerate(match.layers):
        n_shared, mean = layer.atoms.n_shared, layer.atoms.mean
        of_incoming, of_outgoing = scale_factors(match, i)
        incoming = mean[:, :n_shared] * of_incoming
        outgoing = mean[:, n_shared:] * of_outgoing
        if n_shared > 1:
            coefs[i] = np.ascontiguousarray(incoming[:, :-1].T)
        intercepts.append(incoming[:, -1].copy())
        if outgoing.shape[1]:
            coefs[i + 1] = np.ascontiguousarray(outgoing, dtype=mean.dtype)
    last = match.bias / _or(match.class_share, 1.0)
    intercepts.append(last.astype(coefs[-1].dtype))
    return Layers(coefs, intercepts, match.activation)


def scale_factors(match: NetworkMatch, layer: int) -> tuple[float, np.ndarray]:
    """What undoes the prior's pull where all nodes agree.

    Parameters
    ----------
    match : NetworkMatch
    layer : int
        Hidden layer.

    Returns
    -------
    incoming : float
        Factor of incoming weights and biases.
    outgoing : ndarray of shape (n_targets,)
        Factor of the outgoing weights to each unit or class.
    """
    ratio = (match.sigma[layer] / match.sigma0[layer]) ** 2
    outgoing = 1 + ratio / _or(match.shares[layer], np.inf)
    return 1 + ratio / max(match.n_networks, 1), outgoing


def _or(share, value):
    return np.where(share > 0, share, value)
