# SPDX-License-Identifier: BSD-3-Clause
"""Cut a merged network back to one node's units, and write it into its estimator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ._training import get_parameters, is_skorch, parameters_of, unwrap
from .matching import NetworkMatch, merged_layers
from .networks import Network


def cut_back(
    match: NetworkMatch, node: int, network: Network, classes: np.ndarray
) -> Network:
    """The node's own network, each weight replaced by what was matched to it.

    Parameters
    ----------
    match : NetworkMatch
    node : int
        Which of the matched networks.
    network : Network
        The node's own, whose units, outputs and classes it keeps.
    classes : ndarray of shape (n_classes,)
        Classes of the match.

    Returns
    -------
    network : Network
        A weight of which no node says anything stays the node's own.
    """
    coefs = [coef.copy() for coef in network.coefs]
    intercepts = [intercept.copy() for intercept in network.intercepts]
    outputs = np.flatnonzero(np.isin(network.classes, classes))
    columns = np.searchsorted(classes, network.classes[outputs])
    n_hidden = len(match.layers)
    for i, layer in enumerate(match.layers):
        prior, n_shared = match.sigma0[i] ** -2.0, layer.atoms.n_shared
        units = layer.assignments[node]
        mean = layer.atoms.without_prior(prior)[units]
        intercepts[i] = mean[:, n_shared - 1].copy()
        if i == 0:
            coefs[0] = np.ascontiguousarray(mean[:, : n_shared - 1].T)
        elif n_shared > 1:
            below = match.layers[i - 1].assignments[node]
            coefs[i] = (mean[:, below] * _users_over_pairs(match, i, node)).T.copy()
        if n_shared == layer.atoms.linear.shape[1]:
            continue
        last = i == n_hidden - 1
        above = columns if last else match.layers[i + 1].assignments[node]
        own = outputs if last else slice(None)
        known = layer.atoms.precision[units][:, 1 + above] > (1 + 1e-6) * prior
        coefs[i + 1][:, own] = np.where(
            known, mean[:, n_shared + above], coefs[i + 1][:, own]
        )
    bias = merged_layers(match)[1][-1]
    known = match.class_share > 0
    intercepts[-1][outputs] = np.where(
        known[columns], bias[columns], intercepts[-1][outputs]
    )
    return replace(network, coefs=tuple(coefs), intercepts=tuple(intercepts))


def _users_over_pairs(match: NetworkMatch, layer: int, node: int) -> np.ndarray:
    """How many nodes have a unit, over how many have the unit below as well.

    The mean over all that have the unit counts those that lack the one below as
    zero; the node itself has both.
    """
    uses = []
    for part in match.layers[layer - 1 : layer + 1]:
        table = np.zeros((len(part.assignments), len(part.atoms)))
        for row, units in zip(table, part.assignments, strict=True):
            row[units] = 1.0
        uses.append(table[:, part.assignments[node]])
    below, here = uses
    return here.sum(axis=0)[:, None] / (here.T @ below)


def layers_to_parameters(
    network: Network, own: Network, estimator, *, name: str = "estimator"
) -> list[np.ndarray]:
    """Parameters of a network in the layout of an estimator, torch modules included.

    Parameters
    ----------
    network : Network
        What to write.
    own : Network
        What the estimator is now.
    estimator : fitted classifier
        MLPClassifier or skorch net.
    name : str, default="estimator"
        Name of the node, for the message.

    Returns
    -------
    parameters : list of ndarray
        For ``with_parameters`` and ``train``.

    Raises
    ------
    TypeError
        If the torch module has parameters other than weights and biases of its
        Linear layers in their order.
    """
    if not is_skorch(unwrap(estimator)):
        return parameters_of(network, estimator)
    current = get_parameters(estimator)
    one_output = len(own.classes) == 2 and np.shape(current[-1]) == (1,)
    expected = _as_linear_layers(own, one_output)
    same = len(current) == len(expected) and all(
        a.shape == b.shape and np.allclose(a, b)
        for a, b in zip(current, expected, strict=True)
    )
    if not same:
        raise TypeError(
            f"Node {name!r}: weights can be written back only into a torch module "
            "whose parameters are the weights and biases of its Linear layers, in "
            "their order. Train with n_rounds=1, or give such a module."
        )
    return _as_linear_layers(network, one_output)


def _as_linear_layers(network, one_output):
    coefs, intercepts = list(network.coefs), list(network.intercepts)
    if one_output:
        coefs[-1], intercepts[-1] = np.diff(coefs[-1]), np.diff(intercepts[-1])
    pairs = zip(coefs, intercepts, strict=True)
    return [part for W, b in pairs for part in (np.ascontiguousarray(W.T), b)]
