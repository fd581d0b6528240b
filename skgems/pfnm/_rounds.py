# SPDX-License-Identifier: BSD-3-Clause
"""Rounds: every node trains the merged network further, and all are matched again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass

import numpy as np

from ..federation import Federation, InProcess, Message, run
from ..local import local_model
from ..matching import NetworkMatch
from ..networks import Coordinates, Layers, Network
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


@dataclass(frozen=True)
class MatchingRounds:
    """Rounds in which nodes train the merged network further, and are matched again.

    Attributes
    ----------
    n_rounds : int
        Matches, the first included.
    units : {"all", "own"}
        Which units of the merged network a node gets.
    n_epochs : int
        Passes over the rows in a round.
    coordinates : Coordinates or None
        Of the features, in which nodes train.
    log : callable
        Takes messages of progress.
    """

    n_rounds: int
    units: str
    n_epochs: int
    coordinates: Coordinates | None
    log: Callable[[str], None]

    def plan(
        self,
        networks: Mapping[str, Network],
        match: NetworkMatch,
        rematch: Callable[..., NetworkMatch],
        classes: np.ndarray,
        rng: np.random.RandomState,
    ) -> Generator:
        """What the server does.

        Parameters
        ----------
        networks : mapping of str to Network
            The nodes' own by name, over the coordinates.
        match : NetworkMatch
            The first round's.
        rematch : callable
            From a list of networks to their match; given ``again``, the last match,
            where they have all units of the merged network.
        classes : ndarray of shape (n_classes,)
        rng : RandomState
            Source of a seed for each round, the same for all nodes.

        Returns
        -------
        plan : generator
            Its result is the last match. Constant models are left as they are, and a
            node that fails stays where the round began.
        """
        part = own_units if self.units == "own" else all_units
        for number in range(1, self.n_rounds):
            networks = {
                name: network if network.is_linear else part(match, k, network, classes)
                for k, (name, network) in enumerate(networks.items())
            }
            seed = rng.randint(2**31 - 1)
            requests = {
                name: self._request(start, seed)
                for name, start in networks.items()
                if not start.is_linear
            }
            if requests:
                replies = yield requests
                networks = networks | {
                    name: _with_reply(networks[name], reply) for name, reply in replies
                }
            self.log(f"round {number + 1} of {self.n_rounds}: trained, matching")
            again = None if self.units == "own" else match
            match = rematch(list(networks.values()), again=again)
        return match

    def _request(self, start: Network, seed: int) -> Message:
        where = {}
        if self.coordinates is not None:
            where = {"center": self.coordinates.center, "scale": self.coordinates.scale}
        return Message.of(
            "retrain",
            coefs=start.coefs,
            intercepts=start.intercepts,
            activation=start.activation,
            labels=start.classes.tolist(),
            epochs=self.n_epochs,
            seed=seed,
            rate_factor=RATE,
            **where,
        )


def _with_reply(start: Network, reply: Message) -> Network:
    content = reply.content
    return start.with_layers(
        Layers(content["coefs"], content["intercepts"], start.activation)
    )


def match_in_rounds(
    federation: Federation,
    rounds: MatchingRounds,
    networks: list[Network],
    match: NetworkMatch,
    rematch: Callable[..., NetworkMatch],
    *,
    n_jobs: int | None,
    rng: np.random.RandomState,
) -> tuple[NetworkMatch, list[dict]]:
    """Carry out rounds with the nodes of a federation.

    Parameters
    ----------
    federation : Federation
        With rows.
    rounds : MatchingRounds
    networks, match, rematch, rng
        See :meth:`MatchingRounds.plan`.
    n_jobs : int or None
        Nodes trained in parallel.

    Returns
    -------
    match : NetworkMatch
    history : list of dict
        An entry for each message.
    """
    channel = InProcess([federation.member(n) for n in federation.nodes], n_jobs=n_jobs)
    by_name = dict(zip(federation.names, networks, strict=True))
    plan = rounds.plan(by_name, match, rematch, federation.classes, rng)
    return run(plan, channel), channel.history
