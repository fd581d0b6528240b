# SPDX-License-Identifier: BSD-3-Clause
"""The part of a merged network that a node gets to start training from."""

from dataclasses import replace

import numpy as np

from ..matching import NetworkMatch, merged_layers
from ..networks import Layers, Network


def all_units(
    match: NetworkMatch, node: int, network: Network, classes: np.ndarray
) -> Network:
    """The merged network with a node's outputs; what no node knows is its bias."""
    merged = merged_layers(match)
    outputs, columns = _common_columns(network, classes)
    last = np.zeros((len(merged.last), len(network.classes)), dtype=merged.last.dtype)
    last[-1] = network.intercepts[-1]
    last[:, outputs] = merged.last[:, columns]
    return network.with_layers(merged.with_last(last))


def own_units(
    match: NetworkMatch, node: int, network: Network, classes: np.ndarray
) -> Network:
    """The node's network with what was matched to each weight, if any node says it."""
    coefs = [coef.copy() for coef in network.coefs]
    intercepts = [intercept.copy() for intercept in network.intercepts]
    outputs, columns = _common_columns(network, classes)
    for i, layer in enumerate(match.layers):
        prior, n_shared = match.sigma0[i] ** -2.0, layer.atoms.n_shared
        units = layer.assignments[node]
        mean = layer.atoms.without_prior(prior)[units]
        intercepts[i] = mean[:, n_shared - 1].copy()
        if i == 0:
            coefs[0] = np.ascontiguousarray(mean[:, : n_shared - 1].T)
        elif n_shared > 1:
            below = match.layers[i - 1].assignments[node]
            coefs[i] = (mean[:, below] * _users_over_pairs(match, i, node)).T.copy()
        if n_shared == layer.atoms.linear.shape[1]:
            continue
        last = i == len(match.layers) - 1
        above = columns if last else match.layers[i + 1].assignments[node]
        own = outputs if last else slice(None)
        known = layer.atoms.precision[units][:, 1 + above] > (1 + 1e-6) * prior
        coefs[i + 1][:, own] = np.where(
            known, mean[:, n_shared + above], coefs[i + 1][:, own]
        )
    bias, known = merged_layers(match).intercepts[-1], match.class_share[columns] > 0
    intercepts[-1][outputs[known]] = bias[columns[known]]
    return replace(network, coefs=coefs, intercepts=intercepts)


def _common_columns(network: Network, classes: np.ndarray):
    """Outputs of a network that stand for classes, and which classes these are."""
    outputs = np.flatnonzero(np.isin(network.classes, classes))
    return outputs, np.searchsorted(classes, network.classes[outputs])


def _users_over_pairs(match: NetworkMatch, layer: int, node: int) -> np.ndarray:
    """How many nodes have a unit, over those that have the one below as well."""
    below, here = (
        part.uses[:, part.assignments[node]].astype(np.float64)
        for part in match.layers[layer - 1 : layer + 1]
    )
    return here.sum(axis=0)[:, None] / (here.T @ below)


def drawn_units(
    layers: Layers,
    used: list[np.ndarray],
    widths: list[int],
    n_fresh: int | None,
    rng: np.random.RandomState,
) -> Layers:
    """Layers of units drawn by how often they were used, and of fresh ones."""
    coefs, intercepts = list(layers.coefs), list(layers.intercepts)
    for layer, (counts, width) in enumerate(zip(used, widths, strict=True)):
        fresh = max(1, width // 10) if n_fresh is None else min(n_fresh, width)
        known = min(width - fresh, len(counts))
        chance = 1.0 + counts
        drawn = rng.choice(len(counts), known, False, chance / chance.sum())
        units = np.append(drawn, np.full(width - known, -1)).astype(np.intp)
        coefs[layer] = _with_fresh(coefs[layer].T, units, rng).T
        intercepts[layer] = np.where(units < 0, 0, intercepts[layer][units])
        coefs[layer + 1] = _with_fresh(coefs[layer + 1], units, rng)
    return replace(layers, coefs=coefs, intercepts=intercepts)


def _with_fresh(rows: np.ndarray, chosen: np.ndarray, rng) -> np.ndarray:
    """The chosen rows; where the index is negative, small random ones."""
    result = rows[chosen]
    fresh = np.flatnonzero(chosen < 0)
    size = np.sqrt(2.0 / sum(result.shape))
    result[fresh] = size * rng.standard_normal((len(fresh), rows.shape[1]))
    return result
