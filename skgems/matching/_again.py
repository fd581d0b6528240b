# SPDX-License-Identifier: BSD-3-Clause
"""Match networks again that were all trained further from the merged one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..networks import Layers
from ._atoms import Atoms
from ._network import (
    NetworkMatch,
    match_networks,
    merged_layers,
    scale_factors,
    widened,
)


def match_again(
    networks: Sequence[Layers],
    class_share: np.ndarray,
    merged: NetworkMatch,
    **settings,
) -> NetworkMatch:
    r"""Match networks whose training started from a merged network.

    Their units are close to the atoms that they started from, so these are what is
    expected before the match: the prior of atom i is centred at its merged unit
    :math:`\mu_i` in place of zero, with the precision of the prior, and

    .. math:: \theta_i = \mu_i + \frac{\sum_{jl \to i} s_j (v_{jl} - \mu_i)}
              {s_0 + \sum_{jl \to i} s_j}.

    What the networks said before is not counted again: they were trained on the same
    rows.  A unit that moved too far from all atoms opens one of its own, about zero.
    As in :func:`merged_layers`, a change that all nodes make is not shrunk.

    Parameters
    ----------
    networks, class_share : as in :func:`match_networks`
        The trained networks, with the scale of the merged one: a softmax says
        nothing of what is common to all classes, so such a change is to be left out.
    merged : NetworkMatch
        The match that made the network which training started from.
    **settings
        What else :func:`match_networks` takes; sigma and sigma0 are those of the
        earlier match, and each node is held to have used each atom once, as it
        started from all.

    Returns
    -------
    match : NetworkMatch
        :func:`merged_layers` gives the new network, and streams go on from it as from
        a match of one shot.
    """
    prior = _prior(merged)
    match = match_networks(
        networks,
        class_share,
        sigma=merged.sigma,
        sigma0=merged.sigma0,
        previous=prior,
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
        linear = (atoms.mean - start) * atoms.precision[:, :1]
        own = atoms.n_shared
        linear[:, own:] = (atoms.mean - start)[:, own:] * atoms.precision[:, 1:]
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
        layers.append(
            replace(
                layer,
                atoms=Atoms(
                    np.hstack(parts).astype(dtype, copy=False) * precision,
                    np.full_like(atoms.precision, precision),
                    atoms.n_shared,
                ),
            )
        )
    return replace(
        merged,
        layers=layers,
        shares=[np.zeros_like(share) for share in merged.shares],
        class_share=np.zeros_like(merged.class_share),
        bias=np.zeros_like(merged.bias),
        n_networks=0,
        n_nodes=0,
    )
