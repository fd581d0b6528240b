# SPDX-License-Identifier: BSD-3-Clause
"""Put the hidden units of a network in the order of another's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..networks import Layers

_MAX_SWEEPS = 20


def align_hidden_units(layers: Layers, reference: Layers) -> Layers:
    """Permute hidden units so that they lie next to a reference network's.

    Layer after layer, until nothing changes, the order is chosen that makes the sum
    of the squared differences of all weights smallest: a linear assignment.

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
    for _ in range(_MAX_SWEEPS):
        changed = False
        for layer in range(len(coefs) - 1):
            # Permuting does not change the norms, so inner products decide.
            likeness = (
                reference.coefs[layer].T @ coefs[layer]
                + np.outer(reference.intercepts[layer], intercepts[layer])
                + reference.coefs[layer + 1] @ coefs[layer + 1].T
            )
            order = linear_sum_assignment(likeness, maximize=True)[1]
            if np.array_equal(order, np.arange(len(order))):
                continue
            changed = True
            coefs[layer] = coefs[layer][:, order]
            intercepts[layer] = intercepts[layer][order]
            coefs[layer + 1] = coefs[layer + 1][order]
        if not changed:
            break
    return replace(layers, coefs=tuple(coefs), intercepts=tuple(intercepts))
