# SPDX-License-Identifier: BSD-3-Clause
"""Rounds: every node trains the merged network further, and all are matched again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.parallel import Parallel, delayed

from ..federation import Federation, Node
from ..local import local_model, retrain_layers
from ..matching import NetworkMatch
from ..networks import Coordinates, Network
from ._cut_back import all_units, own_units

# Nodes have converged before: their own rate would undo what was merged.
RATE = 0.1


def check_rounds(federation: Federation) -> None:
    """Raise unless there are rows and all nodes can go on training."""
    if federation.X is None:
        raise ValueError("n_rounds > 1 trains on the nodes' rows: give fit X and y.")
    for node in federation.nodes:
        if not node.network.is_constant:
            # Not its pipeline, whose steps are folded into the first layer.
            local_model(node.local.own, name=node.name).check_trainable()


def match_in_rounds(
    federation: Federation,
    networks: list[Network],
    match: NetworkMatch,
    rematch: Callable[..., NetworkMatch],
    *,
    coordinates: Coordinates | None,
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
    networks : list of Network
        The nodes' own, over coordinates.
    match : NetworkMatch
        The first round's.
    rematch : callable
        From networks to their match; given ``again``, the last match, where they
        have all units of the merged network.
    coordinates : Coordinates or None
        Of the features, in which nodes train.
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
    for round_ in range(1, n_rounds):
        part = own_units if units == "own" else all_units
        starts = [
            network
            if network.is_linear
            else part(match, k, network, federation.classes)
            for k, network in enumerate(networks)
        ]
        networks = train_further(
            federation, starts, coordinates, n_epochs=n_epochs, n_jobs=n_jobs, rng=rng
        )
        log(f"round {round_ + 1} of {n_rounds}: trained, matching")
        match = rematch(networks, again=None if units == "own" else match)
    return match


def train_further(
    federation: Federation,
    starts: list[Network],
    coordinates: Coordinates | None = None,
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
    coordinates : Coordinates or None, default=None
        What the starts work on; None: the features as they are.
    n_epochs : int
        Passes over the rows.
    n_jobs : int or None
        Nodes trained in parallel.
    rng : RandomState
        Source of the seed, the same for all nodes.

    Returns
    -------
    networks : list of Network
        Of the same widths.
    """
    # One seed for all nodes, so that their order does not matter.
    seed = int(rng.randint(2**31 - 1))
    return Parallel(n_jobs=n_jobs)(
        delayed(_train_node)(
            node,
            start,
            coordinates,
            federation.X,
            federation.y,
            federation.classes,
            n_epochs,
            seed,
        )
        for node, start in zip(federation.nodes, starts, strict=True)
    )


def _train_node(
    node: Node, start: Network, coordinates, X, y, classes, n_epochs, seed
) -> Network:
    if start.is_linear:  # constant
        return start
    rows = node.training_rows
    # A row of a class that the node's network has no output for teaches it nothing.
    known, columns = start.rows_with_output(classes, y[rows])
    X, left_out = X[rows[known]], None
    if coordinates is not None:
        left_out = coordinates.left_out() if issparse(X) else None
        X = coordinates.rows(X)
    layers = retrain_layers(
        node.local,
        start if left_out is None else left_out.give_back(start),
        X,
        columns,
        epochs=n_epochs,
        learning_rate=RATE * node.local.learning_rate,
        random_state=seed,
    )
    return start.with_layers(layers if left_out is None else left_out.take_in(layers))
