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
# It costs -2 log(mass), a neuron all unlike its atom |v|^2 / sigma^2 or so.
PRICES = (0.2, 0.16, 0.12, 0.08, 0.04, 0.0)
# What the atoms must explain of the neurons' squared norm.
EXPLAINED = 2 / 3


def median_norm(groups: Sequence[np.ndarray]) -> float:
    """Median norm of the neurons of all nodes; 1 where it is zero."""
    norms = [np.sqrt(np.sum(np.square(V, dtype=np.float64), axis=1)) for V in groups]
    return float(np.median(np.concatenate(norms))) or 1.0


def auto_sigma(groups: Sequence[np.ndarray]) -> float:
    """A tenth of the median norm of the neurons of all nodes."""
    return SIGMA * median_norm(groups)


def match_at_auto_gamma0(
    match_with: Callable[[float], LayerMatch],
    groups: Sequence[np.ndarray],
    sigma: float,
    max_units: int | None = None,
) -> tuple[float, LayerMatch]:
    r"""Match with the smallest mass at which the atoms still explain the neurons.

    It is :math:`\exp(-c \, m^2 / 2 \sigma^2)`, m the neurons' median norm, c the first
    of PRICES at which they do. It is large enough where there are ``max_units`` atoms.
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

    It is 1 where every atom's neurons are equal, and lower the more they differ. The
    match must have no history.
    """
    sums = np.zeros((len(match.atoms), groups[0].shape[1]))
    total = 0.0
    for V, atoms in zip(groups, match.assignments, strict=True):
        sums[atoms] += V
        total += np.sum(np.square(V, dtype=np.float64))
    kept = np.sum(np.square(sums) / match.popularity[:, None])
    return float(kept / total) if total > 0 else 1.0
