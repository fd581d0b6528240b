# SPDX-License-Identifier: BSD-3-Clause
"""Put the hidden units of a network in the order of another's."""

from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..networks import Layers

_MAX_SWEEPS = 20
# As many units are enough to find where networks started.
_MAX_UNITS = 100
# Sums of cosines, in standard deviations of what random orders have: an order like any
# other, and one that clearly fits; of some 15 units or fewer, hardly one is found.
_LIKE_ANY, _FITTING = 1.5, 5.0


def align_hidden_units(layers: Layers, reference: Layers) -> Layers:
    """Permute hidden units so that they lie next to a reference network's.

    The order of each layer is that of least squared difference of all weights, until
    nothing changes (Git Re-Basin, Ainsworth et al. 2023). The function stays the same.
    """
    coefs, intercepts = list(layers.coefs), list(layers.intercepts)
    last = len(coefs) - 2
    for sweep in range(_MAX_SWEEPS):
        changed = False
        for layer in range(last + 1):
            # Permuting does not change the norms, so inner products decide.
            # At first weights to units that have no order yet do not count, so that the
            # order that the units came in does not matter.
            outgoing = bool(sweep) or layer == last
            known = reference.coefs, reference.intercepts
            likeness = _inner_products(*known, coefs, intercepts, layer, outgoing)
            order = linear_sum_assignment(likeness, maximize=True)[1]
            if np.array_equal(order, np.arange(len(order))):
                continue
            changed = True
            coefs[layer] = coefs[layer][:, order]
            intercepts[layer] = intercepts[layer][order]
            coefs[layer + 1] = coefs[layer + 1][order]
        if sweep and not changed:
            break
    return replace(layers, coefs=coefs, intercepts=intercepts)


def started_apart(layers: Layers, reference: Layers) -> bool:
    """Whether units are like a reference's in some order, but not in the one they have.

    In the order they have, first-layer units are then no more alike (cosines of all
    weights) than in random orders (Hoeffding 1951), in the best order far more.
    """
    if layers.is_linear:
        return False
    cosines = _cosines(_first_units(layers), _first_units(reference))
    centred = cosines - cosines.mean(axis=0) - cosines.mean(axis=1, keepdims=True)
    centred += cosines.mean()
    deviation = np.sqrt(np.sum(centred**2) / max(len(centred) - 1, 1))
    # Networks of one start come here only after very long training with strong decay on
    # other classes.
    if np.trace(centred) >= _LIKE_ANY * deviation:
        return False
    best = centred[linear_sum_assignment(centred, maximize=True)].sum()
    return bool(best > _FITTING * deviation)


def _first_units(layers: Layers) -> tuple:
    """Weights and biases of the two lowest layers, of some units between them."""
    coefs, intercepts = layers.coefs, layers.intercepts
    some = slice(_MAX_UNITS)
    return (coefs[0][:, some], coefs[1][some]), (intercepts[0][some],)


def _cosines(units: tuple, reference: tuple) -> np.ndarray:
    sizes = [
        np.sqrt(np.sum(below**2, axis=0) + bias**2 + np.sum(above**2, axis=1))
        for (below, above), (bias,) in (reference, units)
    ]
    products = _inner_products(*reference, *units, 0)
    scale = np.outer(*sizes)
    return np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)


def _inner_products(
    reference_coefs, reference_intercepts, coefs, intercepts, layer, outgoing=True
):
    """Of the units' weights, incoming, bias and outgoing: a row per reference unit."""
    products = reference_coefs[layer].T @ coefs[layer]
    products += np.outer(reference_intercepts[layer], intercepts[layer])
    if outgoing:
        products += reference_coefs[layer + 1] @ coefs[layer + 1].T
    return products
