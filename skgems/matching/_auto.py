# SPDX-License-Identifier: BSD-3-Clause
"""Sigma and the mass of a layer from its neurons alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ._layer import LayerMatch

# Sigma, as a share of the median norm of a layer's neurons. Small: where it is large,
# how many nodes use an atom outweighs what its neurons are like.
SIGMA = 0.1
# What a new atom costs, in squares of the median norm: the first that explains enough.
PRICES = (0.2, 0.16, 0.12, 0.08, 0.04, 0.0)
# What the atoms must explain of the neurons' squared norm.
EXPLAINED = 2 / 3


def median_norm(groups: Sequence[np.ndarray]) -> float:
    """Median norm of the neurons of all nodes; 1 where it is zero."""
    norms = [np.sqrt(np.sum(np.square(V, dtype=np.float64), axis=1)) for V in groups]
    return float(np.median(np.concatenate(norms))) or 1.0


def auto_sigma(groups: Sequence[np.ndarray]) -> float:
    """A tenth of the median norm of the neurons.

    Parameters
    ----------
    groups : sequence of ndarray of shape (n_neurons_j, n_numbers)
        Neurons of each node.

    Returns
    -------
    sigma : float
    """
    return SIGMA * median_norm(groups)


def match_at_auto_gamma0(
    match_with: Callable[[float], LayerMatch],
    groups: Sequence[np.ndarray],
    sigma: float,
    max_units: int | None = None,
) -> tuple[float, LayerMatch]:
    r"""Match with the smallest mass at which the atoms still explain the neurons.

    An atom of one neuron more costs :math:`-2 \log \gamma_0`, a neuron that is all
    unlike its atom :math:`\| v \|^2 / \sigma^2` or so. So the mass is
    :math:`\exp(-c \, m^2 / 2 \sigma^2)`, with m the median norm of the neurons and c
    a fifth, or as much less, down to none, as it takes for the means of matched
    neurons to have two thirds of the neurons' squared norm.

    Parameters
    ----------
    match_with : callable
        From the mass to the match of the layer.
    groups : sequence of ndarray of shape (n_neurons_j, n_numbers)
        Neurons of each node.
    sigma : float
        The layer's.
    max_units : int, default=None
        Most atoms there may be. Where there are as many, a larger mass has no use.

    Returns
    -------
    gamma0 : float
    match : LayerMatch
    """
    squared = (median_norm(groups) / sigma) ** 2
    for price in PRICES:
        gamma0 = float(np.exp(-min(price * squared / 2, 500.0)))
        match = match_with(gamma0)
        if len(match.atoms) == max_units or explained_share(groups, match) >= EXPLAINED:
            break
    return gamma0, match


def explained_share(groups: Sequence[np.ndarray], match: LayerMatch) -> float:
    """Share of the neurons' squared norm that remains if each is its atom's mean.

    It is 1 where every atom's neurons are equal, and lower the more they differ.

    Parameters
    ----------
    groups : sequence of ndarray of shape (n_neurons_j, n_numbers)
    match : LayerMatch
        Of these, without a history.

    Returns
    -------
    share : float
    """
    sums = np.zeros((len(match.atoms), groups[0].shape[1]))
    total = 0.0
    for V, atoms in zip(groups, match.assignments, strict=True):
        sums[atoms] += V
        total += np.sum(np.square(V, dtype=np.float64))
    kept = np.sum(np.square(sums) / match.popularity[:, None])
    return float(kept / total) if total > 0 else 1.0
