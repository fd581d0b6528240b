"""Match networks layer after layer, and again after training; the merged network."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from sklearn.utils import check_random_state

from ..networks import Layers
from ._layer import (
    Atoms,
    History,
    LayerMatch,
    auto_sigma,
    match_at_auto_gamma0,
    match_layer,
    scaled,
)


@dataclass(frozen=True, eq=False)
class NetworkMatch:
    layers: list[LayerMatch] = field(repr=False)  # from the bottom, hidden ones
    sigma: list[float]
    sigma0: list[float]
    gamma0: list[float]
    # (n_targets,) each: sums of shares of what outgoing weights lead to, in all steps.
    shares: list[np.ndarray] = field(repr=False)
    class_share: np.ndarray = field(repr=False)  # (n_classes,): the same of classes
    bias: np.ndarray = field(repr=False)  # (n_classes,): sum of shares times biases
    n_networks: int  # with hidden units, over all steps of a stream
    n_nodes: int  # networks without hidden units too, over all steps
    activation: tuple[str, ...]


def match_networks(
    networks: Sequence[Layers],  # hidden layers of width 0 where a node has no units
    class_share: np.ndarray,  # (n_nodes, n_classes)
    *,
    # For each hidden layer; "auto" sigma and gamma0 are those of earlier steps, if any.
    sigma: Sequence[float | str],  # deviation of weights from their atom's
    sigma0: Sequence[float | str],  # of atoms from zero; "auto" is sigma
    gamma0: Sequence[float | str],  # mass of the beta process
    max_units: Sequence[int | None],
    layer_order: str = "bottom_up",  # or "top_down"
    previous: NetworkMatch | None = None,  # of as many classes
    # (n_classes,): what shares of the earlier steps are to add up to; NaN: as they are.
    previous_share: np.ndarray | None = None,
    counts: Sequence[np.ndarray] | None = None,  # earlier uses, (n_nodes, n_atoms)
    n_steps: int = 0,
    max_iter: int = 100,
    tol: float = 0.0,
    new_atom_cost: str = "exchangeable",
    random_state=None,
) -> NetworkMatch:
    """Match hidden units of equally deep networks (PFNM 2018, 3.2 and Algorithm 1)."""
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
        sigma = _instead_of_auto(sigma, previous.sigma)
        gamma0 = _instead_of_auto(gamma0, previous.gamma0)
    sigma0 = _instead_of_auto(sigma0, sigma)
    how = {"max_iter": max_iter, "tol": tol, "new_atom_cost": new_atom_cost}
    how["random_state"] = rng
    sigma, gamma0, shares = list(sigma), list(gamma0), [None] * n_hidden
    layers: list[LayerMatch] = [None] * n_hidden
    # A neuron is its bias and, from the bottom, its incoming weights (in the last layer
    # outgoing ones too), from the top the other way round. Weights are put at the atoms
    # of the units of the layer before; atoms that a node lacks have zeros.
    for layer in range(n_hidden) if from_bottom else range(n_hidden)[::-1]:
        below = _below(layers, layer, n_inputs, n_nodes, from_bottom)
        above, share = _above(layers, layer, class_share, from_bottom)
        if below is None:
            share = share * (times if layer == n_hidden - 1 else n_nodes)
        known = below, above, share
        groups = [_neurons(own, layer, k, *known) for k, own in enumerate(networks)]
        shares[layer] = share.sum(axis=0)
        n_shared, history = 1 + (below[1] if below else 0), None
        if previous is not None:
            atoms, n = previous.layers[layer].atoms, share.shape[1]
            atoms = widened(atoms, n_shared, n, sigma0[layer])
            history = History(atoms, counts[layer], n_steps)
            earlier = previous.shares[layer]
            shares[layer][: len(earlier)] += earlier
        if sigma[layer] == "auto":
            sigma[layer] = auto_sigma(groups)
        if sigma0[layer] == "auto":
            sigma0[layer] = sigma[layer]
        precisions = np.hstack([np.ones((n_nodes, 1)), share]) * sigma[layer] ** -2.0
        how |= {"n_shared": n_shared, "prior_precision": sigma0[layer] ** -2.0}
        how |= {"max_units": max_units[layer], "history": history}
        precisions = precisions.astype(groups[0].dtype)
        match_with = partial(match_layer, groups, precisions, **how)
        if gamma0[layer] == "auto":
            known = groups, sigma[layer], max_units[layer]
            found = match_at_auto_gamma0(match_with, *known)
            gamma0[layer], layers[layer] = found
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
    settings, known = (sigma, sigma0, gamma0), (shares, total, bias)
    return NetworkMatch(layers, *settings, *known, n_networks, n_nodes, activation)


def _instead_of_auto(given: Sequence, others: Sequence) -> list:
    pairs = zip(given, others, strict=True)
    return [other if own == "auto" else own for own, other in pairs]


def _below(layers, layer: int, n_inputs: int, n_nodes: int, from_bottom: bool):
    """What incoming weights come from at each node, of how many; None: not matched."""
    if layer == 0:
        return [np.arange(n_inputs)] * n_nodes, n_inputs
    if not from_bottom:
        return None
    return layers[layer - 1].assignments, len(layers[layer - 1].atoms)


def _above(layers, layer: int, class_share, from_bottom: bool):
    """What outgoing weights lead to at each node, and its shares; None: not matched."""
    n_nodes, n_classes = class_share.shape
    if layer == len(layers) - 1:
        return [np.arange(n_classes)] * n_nodes, class_share
    if from_bottom:
        return None, np.zeros((n_nodes, 0))
    last = layers[layer + 1]
    # One over the number of nodes that have an atom, where a node has it.
    return last.assignments, last.uses / np.maximum(last.popularity, 1)


def _reweighted(match: NetworkMatch, share, times) -> NetworkMatch:
    """The same, with shares of each class that add up to ``share``; NaN: as now."""

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
    known = {"class_share": match.class_share * of_class, "bias": match.bias * of_class}
    return replace(match, layers=layers, shares=shares, **known)


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


def widened(atoms: Atoms, n_shared: int, n_targets: int, sigma0: float) -> Atoms:
    """The same beliefs where the layer before or after has new atoms."""
    old = atoms.n_shared
    n_atoms, n_old = len(atoms), atoms.linear.shape[1] - old
    linear = np.zeros((n_atoms, n_shared + n_targets), dtype=atoms.linear.dtype)
    linear[:, : old - 1] = atoms.linear[:, : old - 1]
    linear[:, n_shared - 1 : n_shared + n_old] = atoms.linear[:, old - 1 :]
    more = ((0, 0), (0, n_targets - n_old))
    precision = np.pad(atoms.precision, more, constant_values=sigma0**-2.0)
    return Atoms(linear, precision, n_shared)


def widen_classes(match: NetworkMatch, places, n_classes: int) -> NetworkMatch:
    """The same match with more classes, the old ones at the indices ``places``."""

    def spread(values, fill=0.0):
        wide = np.full((*values.shape[:-1], n_classes), fill, dtype=values.dtype)
        wide[..., places] = values
        return wide

    layers, shares = list(match.layers), list(match.shares)
    if layers:
        atoms, n_shared = layers[-1].atoms, layers[-1].atoms.n_shared
        own = spread(atoms.linear[:, n_shared:])
        linear = np.hstack([atoms.linear[:, :n_shared], own])
        own = spread(atoms.precision[:, 1:], match.sigma0[-1] ** -2.0)
        precision = np.hstack([atoms.precision[:, :1], own])
        layers[-1] = replace(layers[-1], atoms=Atoms(linear, precision, n_shared))
        shares[-1] = spread(shares[-1])
    known = {"class_share": spread(match.class_share), "bias": spread(match.bias)}
    return replace(match, layers=layers, shares=shares, **known)


def merged_layers(match: NetworkMatch) -> Layers:
    """Mode of the posterior (PFNM 2018, Eq. 5), each layer rescaled for the prior."""
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
    """Factors on incoming (one) and outgoing weights that undo the prior's pull."""
    ratio = (match.sigma[layer] / match.sigma0[layer]) ** 2
    outgoing = 1 + ratio / _or(match.shares[layer], np.inf)
    return 1 + ratio / max(match.n_networks, 1), outgoing


def _or(share, value):
    return np.where(share > 0, share, value)


def match_again(
    networks: Sequence[Layers],  # without changes common to all classes, as for softmax
    class_share: np.ndarray,
    merged: NetworkMatch,
    **settings,  # of match_networks
) -> NetworkMatch:
    r"""Match networks whose training started from the network of an earlier match.

    The prior of an atom is centred at its merged unit, not at zero: :math:`\theta_i =
    \mu_i + \sum_{jl \to i} s_j (v_{jl} - \mu_i) / (s_0 + \sum_{jl \to i} s_j)`.
    """
    # What networks said before is not counted again: it came from the same rows.
    prior = _prior(merged)
    how = {"sigma": merged.sigma, "sigma0": merged.sigma0, "previous": prior}
    # Each node has used each atom once: training started from all.
    counts = [np.ones((len(networks), len(own.atoms)), int) for own in merged.layers]
    how |= {"counts": counts, "n_steps": 1}
    match = match_networks(networks, class_share, **how, **settings)
    layers = list(match.layers)
    for i, layer in enumerate(match.layers):
        atoms, precision = layer.atoms, match.sigma0[i] ** -2.0
        n_targets = atoms.linear.shape[1] - atoms.n_shared
        wide = atoms.n_shared, n_targets, match.sigma0[i]
        start = widened(prior.layers[i].atoms, *wide).linear
        start = start / start.dtype.type(precision)
        start = np.pad(start, ((0, len(atoms) - len(start)), (0, 0)))
        # Means such that the factors of merged_layers act on the changes only.
        incoming, outgoing = scale_factors(match, i)
        start[:, : atoms.n_shared] *= 1 - 1 / incoming
        start[:, atoms.n_shared :] *= 1 - 1 / outgoing
        linear = scaled(atoms.mean - start, atoms.precision, atoms.n_shared)
        layers[i] = replace(layer, atoms=replace(atoms, linear=linear))
    return replace(match, layers=layers)


def _prior(merged: NetworkMatch) -> NetworkMatch:
    """Atoms at the merged units, as uncertain as any; nothing else is known."""
    start, layers = merged_layers(merged), []
    for i, layer in enumerate(merged.layers):
        atoms, parts = layer.atoms, [start.intercepts[i][:, None]]
        if atoms.n_shared > 1:
            parts.insert(0, start.coefs[i].T)
        if atoms.linear.shape[1] > atoms.n_shared:
            parts.append(start.coefs[i + 1])
        dtype = atoms.linear.dtype
        precision = dtype.type(merged.sigma0[i] ** -2.0)
        linear = np.hstack(parts).astype(dtype, copy=False) * precision
        precision = np.full_like(atoms.precision, precision)
        layers.append(replace(layer, atoms=Atoms(linear, precision, atoms.n_shared)))
    shares = [np.zeros_like(share) for share in merged.shares]
    class_share, bias = np.zeros_like(merged.class_share), np.zeros_like(merged.bias)
    known = {"shares": shares, "class_share": class_share, "bias": bias}
    return replace(merged, layers=layers, **known, n_networks=0, n_nodes=0)
