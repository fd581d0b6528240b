# SPDX-License-Identifier: BSD-3-Clause
"""Rounds: every node trains the merged network further, and all are matched again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from ..base._aggregator import Federation, Node
from ..local._training import check_trainable, get_parameters, train, with_parameters
from ..matching import NetworkMatch
from ..networks import Network, read_network, to_mlp_classifier
from ..networks._classes import contract_binary, rows_with_output
from ..networks._kinds import is_skorch, unwrap
from ._cut_back import all_units, own_units

# Nodes have converged before: their own rate would undo what was merged.
RATE = 0.1


def check_rounds(federation: Federation) -> None:
    """Raise unless there are rows and all nodes can go on training."""
    if federation.X is None:
        raise ValueError("n_rounds > 1 trains on the nodes' rows: give fit X and y.")
    for node in federation.nodes:
        if not node.network.is_constant:
            check_trainable(node.estimator, name=node.name)


def match_in_rounds(
    federation: Federation,
    match: NetworkMatch,
    classes: np.ndarray,
    rematch: Callable[..., NetworkMatch],
    *,
    n_rounds: int,
    units: str,
    n_epochs: int,
    n_jobs: int | None,
    rng: np.random.RandomState,
    log: Callable[[str], None],
) -> NetworkMatch:
    """Train from the merged network and match, round after round.

    Parameters
    ----------
    federation : Federation
        With rows.
    match : NetworkMatch
        The first round's.
    classes : ndarray of shape (n_classes,)
        Classes of the match.
    rematch : callable
        From networks to their match; given ``again``, the last match, where they
        have all units of the merged network.
    n_rounds : int
        Matches, the first included.
    units : {"all", "own"}
        Which units of the merged network a node gets.
    n_epochs, n_jobs, rng : see :func:`train_further`
    log : callable
        Takes messages of progress.

    Returns
    -------
    match : NetworkMatch
        The last one.
    """
    networks = [node.network for node in federation.nodes]
    for round_ in range(1, n_rounds):
        part = own_units if units == "own" else all_units
        starts = [
            network if network.is_linear else part(match, k, network, classes)
            for k, network in enumerate(networks)
        ]
        networks = train_further(
            federation, starts, classes, n_epochs=n_epochs, n_jobs=n_jobs, rng=rng
        )
        log(f"round {round_ + 1} of {n_rounds}: trained, matching")
        match = rematch(networks, again=None if units == "own" else match)
    return match


def train_further(
    federation: Federation,
    starts: list[Network],
    classes: np.ndarray,
    *,
    n_epochs: int,
    n_jobs: int | None,
    rng: np.random.RandomState,
) -> list[Network]:
    """Train each node on its rows, at a tenth of its estimator's learning rate.

    Parameters
    ----------
    federation : Federation
        With rows.
    starts : list of Network
        Where each node starts. Constant models are left as they are.
    classes : ndarray of shape (n_classes,)
        Labels that the federation's y counts in.
    n_epochs : int
        Passes over the rows.
    n_jobs : int or None
        Nodes trained in parallel.
    rng : RandomState
        Source of a seed for each node.

    Returns
    -------
    networks : list of Network
        Of the same widths.

    Raises
    ------
    TypeError
        If the torch module of a node has parameters other than weights and biases
        of its Linear layers in their order.
    """
    seeds = rng.randint(2**31 - 1, size=len(starts))
    return Parallel(n_jobs=n_jobs)(
        delayed(_train_node)(node, start, federation, classes, n_epochs, seed)
        for node, start, seed in zip(federation.nodes, starts, seeds, strict=True)
    )


def _train_node(node: Node, start, federation, classes, n_epochs, seed) -> Network:
    if start.is_linear:  # constant
        return start
    own = node.network
    rows = node.training_rows
    # A row of a class that the node's network has no output for teaches it nothing.
    known, columns = rows_with_output(own, classes, federation.y[rows])
    rows = rows[known]
    bare = unwrap(node.estimator)
    if is_skorch(bare):
        # The loss of a net takes the numbers of output columns.
        y = columns
        estimator = _as_skorch(start, own, bare, node.name)
        rate = bare.optimizer_.param_groups[0]["lr"]
    else:
        y = own.classes[columns]
        estimator = _as_mlp_classifier(start, bare)
        rate = bare.learning_rate_init
    trained = train(
        estimator,
        federation.X[rows],
        y,
        epochs=n_epochs,
        learning_rate=RATE * rate,
        random_state=seed,
    )
    return read_network(trained, name=node.name)


def _as_mlp_classifier(network: Network, estimator):
    wide = to_mlp_classifier(
        network.coefs, network.intercepts, estimator.activation, network.classes
    )
    widths = wide.hidden_layer_sizes
    return wide.set_params(**estimator.get_params()).set_params(
        hidden_layer_sizes=widths
    )


def _as_skorch(network: Network, own: Network, net, name: str):
    """A copy of the net whose Linear layers have the network's weights and widths."""
    import torch

    one_output = len(own.classes) == 2 and len(get_parameters(net)[-1]) == 1
    current, expected = get_parameters(net), _as_linear_layers(own, one_output)
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
    copy = with_parameters(net, current)
    arrays = iter(_as_linear_layers(network, one_output))
    for layer in copy.module_.modules():
        if isinstance(layer, torch.nn.Linear):
            for part in ("weight", "bias"):
                old = getattr(layer, part)
                new = torch.as_tensor(next(arrays)).to(old)
                setattr(layer, part, torch.nn.Parameter(new))
            layer.out_features, layer.in_features = layer.weight.shape
    return copy


def _as_linear_layers(network: Network, one_output: bool) -> list[np.ndarray]:
    coefs, intercepts = list(network.coefs), list(network.intercepts)
    if one_output:
        coefs[-1], intercepts[-1] = contract_binary(coefs[-1], intercepts[-1])
    pairs = zip(coefs, intercepts, strict=True)
    return [part for W, b in pairs for part in (np.ascontiguousarray(W.T), b)]
