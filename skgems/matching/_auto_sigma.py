# SPDX-License-Identifier: BSD-3-Clause
"""The sigma of a layer from its neurons alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ._layer import LayerMatch

# Where to start, as a share of the median norm of a layer's neurons.
LARGEST = 0.23
SMALLEST = LARGEST / 2
STEP = 0.9
# What the atoms must explain of the neurons' squared norm.
EXPLAINED = 2 / 3


def match_at_auto_sigma(
    match_with: Callable[[float], LayerMatch],
    groups: Sequence[np.ndarray],
    max_units: int | None = None,
) -> tuple[float, LayerMatch]:
    """Match with the largest sigma at which the atoms still explain the neurons.

    That is 0.23 times the median norm of the neurons, lowered by a tenth, to half of
    that at least, as long as the means of matched neurons have less than two thirds
    of the neurons' squared norm.

    Parameters
    ----------
    match_with : callable
        From sigma to the match of the layer.
    groups : sequence of ndarray of shape (n_neurons_j, n_numbers)
        Neurons of each node.
    max_units : int, default=None
        Most atoms there may be. Where there are as many, a lower sigma has no use.

    Returns
    -------
    sigma : float
    match : LayerMatch
    """
    norms = [np.sqrt(np.sum(np.square(V, dtype=np.float64), axis=1)) for V in groups]
    size = float(np.median(np.concatenate(norms))) or 1.0
    sigma = LARGEST * size
    match = match_with(sigma)
    while (
        sigma * STEP >= SMALLEST * size
        and len(match.atoms) != max_units
        and explained_share(groups, match) < EXPLAINED
    ):
        sigma *= STEP
        match = match_with(sigma)
    return sigma, match


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
