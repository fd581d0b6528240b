# SPDX-License-Identifier: BSD-3-Clause
"""Match networks again that were all trained further from the merged one."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..networks import Layers
from ._atoms import Atoms, scaled
from ._network import (
    NetworkMatch,
    match_networks,
    merged_layers,
    scale_factors,
    widened,
)


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
    match = match_networks(
        networks,
        class_share,
        sigma=merged.sigma,
        sigma0=merged.sigma0,
        previous=prior,
        # Each node has used each atom once: training started from all.
        counts=[np.ones((len(networks), len(own.atoms)), int) for own in merged.layers],
        n_steps=1,
        **settings,
    )
    layers = list(match.layers)
    for i, layer in enumerate(match.layers):
        atoms, precision = layer.atoms, match.sigma0[i] ** -2.0
        n_targets = atoms.linear.shape[1] - atoms.n_shared
        start = widened(
            prior.layers[i].atoms, atoms.n_shared, n_targets, match.sigma0[i]
        )
        start = np.pad(
            start.linear / start.linear.dtype.type(precision),
            ((0, len(atoms) - len(start)), (0, 0)),
        )
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
    return replace(
        merged,
        layers=layers,
        shares=[np.zeros_like(share) for share in merged.shares],
        class_share=np.zeros_like(merged.class_share),
        bias=np.zeros_like(merged.bias),
        n_networks=0,
        n_nodes=0,
    )
