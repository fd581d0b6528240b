"""Orders of hidden units: which units of two networks are like each other.

The likeness of unit i of a reference to unit j of a network is the inner product of
their weights, those that come in and those that go out. `align_hidden_units` permutes a
network's units so that the sum over pairs is largest; `started_apart` says whether the
sum over units at the same places is no more than chance.
"""

from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..moments import ROUNDING_OF_SUMS
from ..networks import Layers

# Sweeps over layers before the search for orders is given up; some three are needed.
_MAX_SWEEPS = 20
# As many units of a layer are enough to find where networks started.
_MAX_UNITS = 100
# How many standard deviations the order of units has to stand out among all orders, or
# networks count as started apart: 846 pairs of two starts (digits, MNIST, three tables,
# 12 to 100 units, 1 to 500 epochs) came to 3.2 at most. Of 429 pairs of one start whose
# average loses less than 5 points of accuracy, three had less than is asked for.
_STANDS_OUT = 3.5
# Equal networks of n units come to n - 1 deviations, so less is asked of few units. Of
# pairs of two starts one in 25 comes to that with 8 units, and one in 6 with 5.
_PART_OF_EQUAL = 0.2


def align_hidden_units(layers: Layers, reference: Layers) -> Layers:
    """Permute hidden units to match those of a reference; the function stays the same.

    The method is that of Git Re-Basin (2023).
    """
    coefs = list(layers.coefs)
    intercepts = list(layers.intercepts)
    last_hidden = len(coefs) - 2
    for sweep in range(_MAX_SWEEPS):
        changed = False
        for layer in range(last_hidden + 1):
            # Permuting does not change the norms, so inner products decide.
            likeness = reference.coefs[layer].T @ coefs[layer]
            likeness += np.outer(reference.intercepts[layer], intercepts[layer])
            # In the first sweep weights to units that have no order yet do not count,
            # so that the order that the units came in does not matter.
            if sweep or layer == last_hidden:
                likeness += reference.coefs[layer + 1] @ coefs[layer + 1].T
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
    """Report whether only chance orders hidden units like those of a reference.

    Networks that start from the same weights keep something of them, unit by unit. The
    scores of layers are added, as those of independent tests are.
    """
    scores = []
    largest_scores = []  # those that equal layers would have
    for layer in range(len(layers.coefs) - 1):
        units = _standardized_units(layers, layer)
        reference_units = _standardized_units(reference, layer)
        likeness = reference_units.T @ units
        if likeness.any():
            scores.append(_order_score(likeness))
            largest_scores.append(len(likeness) - 1)
    if not scores:
        return False
    # A sum of n scores has the standard deviation n^0.5.
    deviation = len(scores) ** 0.5
    threshold = min(_STANDS_OUT, _PART_OF_EQUAL * sum(largest_scores) / deviation)
    return sum(scores) / deviation < threshold


def _order_score(likeness: np.ndarray) -> float:
    """Likeness of units that stand at the same place, in deviations over all orders.

    Rows and columns of ``likeness`` (n_units, n_units) sum to 0. Then the sum over a
    random order has the mean 0 and the variance ``sum(likeness**2) / (n_units - 1)``.
    """
    variance = np.sum(likeness**2) / (len(likeness) - 1)
    return float(np.trace(likeness) / np.sqrt(variance))


def _standardized_units(layers: Layers, layer: int) -> np.ndarray:
    """Weights of hidden units (columns), each feature with mean 0 and variance 1.

    What all units have learnt in common drops out, and so do the units of features,
    which would let one feature of small values outweigh all others.
    """
    weights_in = layers.coefs[layer]
    weights_out = layers.coefs[layer + 1].T
    weights = np.vstack([weights_in, layers.intercepts[layer], weights_out])
    weights = weights[:, :_MAX_UNITS].astype(np.float64)
    largest = np.abs(weights).max(axis=1, keepdims=True)
    weights -= weights.mean(axis=1, keepdims=True)
    deviations = np.sqrt(np.mean(weights**2, axis=1, keepdims=True))
    differs = deviations > ROUNDING_OF_SUMS * largest
    return np.divide(weights, deviations, out=np.zeros_like(weights), where=differs)
