# SPDX-License-Identifier: BSD-3-Clause
"""Put the hidden units of a network in the order of another's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..networks import Layers

_MAX_SWEEPS = 20
# As many units are enough to tell where networks started.
_MAX_UNITS = 100
# Sums of cosines, in standard deviations of what random orders have: an order like any
# other, and one that clearly fits; of some 15 units or fewer, hardly one is found.
_LIKE_ANY, _FITTING = 1.5, 5.0


def align_hidden_units(layers: Layers, reference: Layers) -> Layers:
    """Permute hidden units so that they lie next to a reference network's.

    Layer after layer, until nothing changes, the order is chosen that makes the sum
    of the squared differences of all weights smallest: a linear assignment. At first
    weights to units that have no order yet do not count, so that the order that the
    units came in does not matter.

    Parameters
    ----------
    layers : Layers
        The network to permute.
    reference : Layers
        The network to be like, of the same shapes.

    Returns
    -------
    layers : Layers
        Computes the same function as before.

    References
    ----------
    S. Ainsworth, J. Hayase, S. Srinivasa: Git Re-Basin, 2023, weight matching.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.networks import Layers
    >>> from skgems.rounds import align_hidden_units
    >>> biases = [np.zeros(2)] * 2
    >>> reference = Layers([np.array([[1.0, 2.0]]), np.eye(2)], biases, "relu")
    >>> swapped = Layers([np.array([[2.0, 1.0]]), np.eye(2)[::-1]], biases, "relu")
    >>> align_hidden_units(swapped, reference).coefs[0]
    array([[1., 2.]])
    """
    coefs, intercepts = list(layers.coefs), list(layers.intercepts)
    last = len(coefs) - 2
    for sweep in range(_MAX_SWEEPS):
        changed = False
        for layer in range(last + 1):
            # Permuting does not change the norms, so inner products decide.
            likeness = _inner_products(
                reference.coefs,
                reference.intercepts,
                coefs,
                intercepts,
                layer,
                outgoing=bool(sweep) or layer == last,
            )
            order = linear_sum_assignment(likeness, maximize=True)[1]
            if np.array_equal(order, np.arange(len(order))):
                continue
            changed = True
            coefs[layer] = coefs[layer][:, order]
            intercepts[layer] = intercepts[layer][order]
            coefs[layer + 1] = coefs[layer + 1][order]
        if sweep and not changed:
            break
    return replace(layers, coefs=tuple(coefs), intercepts=tuple(intercepts))


def started_apart(layers: Layers, reference: Layers) -> bool:
    """Whether units are like those of the same number by chance only, not like others.

    Units of the first hidden layer are compared by the cosines of all their weights,
    incoming, bias and outgoing. The networks count as started apart if the units in the
    order they have are no more alike than in random orders, whose mean and variance
    are known, and in the best order far more. Networks trained from the same weights
    lose the first for very long training with strong decay on other classes only. Too
    few units have too few orders to tell.

    Parameters
    ----------
    layers : Layers
    reference : Layers
        Of the same shapes.

    Returns
    -------
    apart : bool

    References
    ----------
    W. Hoeffding: A Combinatorial Central Limit Theorem, 1951, for the variance over
    orders.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.networks import Layers
    >>> from skgems.rounds import started_apart
    >>> rng = np.random.RandomState(0)
    >>> biases = [np.zeros(30), np.zeros(5)]
    >>> start, other = (
    ...     [rng.normal(size=(10, 30)), rng.normal(size=(30, 5))] for _ in range(2)
    ... )
    >>> trained = [weights + rng.normal(size=weights.shape) for weights in start]
    >>> start, other, trained = (
    ...     Layers(coefs, biases, "relu") for coefs in (start, other, trained)
    ... )
    >>> started_apart(trained, start), started_apart(other, start)
    (False, True)
    """
    if layers.is_linear:
        return False
    cosines = _cosines(_first_units(layers), _first_units(reference))
    centred = cosines - cosines.mean(axis=0) - cosines.mean(axis=1, keepdims=True)
    centred += cosines.mean()
    deviation = np.sqrt(np.sum(centred**2) / max(len(centred) - 1, 1))
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
