# SPDX-License-Identifier: BSD-3-Clause
"""Put the hidden units of a network in the order of another's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

_MAX_SWEEPS = 20


def align_hidden_units(
    coefs: Sequence[np.ndarray],
    intercepts: Sequence[np.ndarray],
    reference_coefs: Sequence[np.ndarray],
    reference_intercepts: Sequence[np.ndarray],
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Permute hidden units so that they lie next to a reference network's.

    Layer after layer, until nothing changes, the order is chosen that makes the sum
    of the squared differences of all weights smallest: a linear assignment.

    Parameters
    ----------
    coefs : sequence of ndarray, layer i of shape (n_in_i, n_out_i)
        Weights of the network to permute.
    intercepts : sequence of ndarray, layer i of shape (n_out_i,)
        Its biases.
    reference_coefs, reference_intercepts : sequence of ndarray
        The network to be like, of the same shapes.

    Returns
    -------
    coefs : list of ndarray
        Computes the same function as before.
    intercepts : list of ndarray

    References
    ----------
    S. Ainsworth, J. Hayase, S. Srinivasa: Git Re-Basin, 2023, weight matching.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.rounds import align_hidden_units
    >>> coefs, biases = [np.array([[1.0, 2.0]]), np.eye(2)], [np.zeros(2)] * 2
    >>> swapped = [coefs[0][:, ::-1], coefs[1][::-1]]
    >>> align_hidden_units(swapped, biases, coefs, biases)[0][0]
    array([[1., 2.]])
    """
    coefs, intercepts = list(coefs), list(intercepts)
    for _ in range(_MAX_SWEEPS):
        changed = False
        for layer in range(len(coefs) - 1):
            # Permuting does not change the norms, so inner products decide.
            likeness = (
                reference_coefs[layer].T @ coefs[layer]
                + np.outer(reference_intercepts[layer], intercepts[layer])
                + reference_coefs[layer + 1] @ coefs[layer + 1].T
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
    return coefs, intercepts
