# SPDX-License-Identifier: BSD-3-Clause
"""Rounds: every node trains the merged network further, and all are matched again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..federation import Federation, TooFewNodes, ask_to_retrain
from ..local import local_model
from ..matching import NetworkMatch, merged_layers
from ..messages import Message
from ..networks import Coordinates, Layers, Network
from ._cut_back import all_units, own_units

# Nodes have converged before: their own rate would undo what was merged.
RATE = 0.1


def check_rounds(federation: Federation) -> None:
    """Raise unless there are rows and all nodes can go on training."""
    if not federation.can_reply:
        raise ValueError("n_rounds > 1 trains on the nodes' rows: give fit X and y.")
    for node in federation.nodes:
        if not node.network.is_constant and node.record is None:
            # Not its pipeline, whose steps are folded into the first layer.
            local_model(node.local.own, name=node.name).check_trainable()


@dataclass(frozen=True)
class MatchingRounds:
    """Rounds in which nodes train the merged network further, and are matched again."""

    n_rounds: int  # matches, the first included
    units: str  # "all" of the merged network, or a node's "own"
    n_epochs: int  # passes over the rows in a round
    coordinates: Coordinates | None  # of the features, in which nodes train
    log: Callable[[str], None]

    def plan(
        self,
        networks: Mapping[str, Network],
        match: NetworkMatch,
        rematch: Callable[..., NetworkMatch],
        classes: np.ndarray,
        rng: np.random.RandomState,
    ) -> Generator:
        """Plan whose result is the last match; constant models are left as they are.

        A node that fails is left out of a round, or stays as it was if it alone knows a
        class. TooFewNodes has the ``parameters`` merged before, over features.
        """
        # rematch: from networks, and the indices of their nodes, to a match; `again` is
        # the last one, where nodes have all units of the merged network.
        part = own_units if self.units == "own" else all_units
        names, absent = list(networks), set()
        for number in range(1, self.n_rounds):
            networks = {
                name: network
                # One without units in the match has none to replace its own by.
                if network.is_linear or (name in absent and self.units == "own")
                else part(match, k, network, classes)
                for k, (name, network) in enumerate(networks.items())
            }
            seed = rng.randint(2**31 - 1)
            requests = {
                name: self._request(start, seed)
                for name, start in networks.items()
                if not start.is_linear
            }
            trained: dict[str, Network] = {}
            if requests:
                replies = yield requests
                try:
                    for name, reply in replies:
                        trained[name] = _with_reply(networks[name], reply)
                except TooFewNodes as error:
                    error.parameters = self._parameters(match)
                    raise
            networks = networks | trained
            absent = _dispensable(
                {name: networks[name] for name in requests if name not in trained},
                trained.values(),
            )
            self.log(f"round {number + 1} of {self.n_rounds}: trained, matching")
            present = [k for k, name in enumerate(names) if name not in absent]
            match = rematch(
                [networks[names[k]] for k in present],
                present,
                again=None if self.units == "own" else match,
            )
            match = _of_all_nodes(match, present, len(names))
        return match

    def _parameters(self, match: NetworkMatch) -> list[np.ndarray]:
        merged = merged_layers(match)
        if self.coordinates is not None:
            merged = self.coordinates.give_back(merged)
        return [*merged.coefs, *merged.intercepts]

    def _request(self, start: Network, seed: int) -> Message:
        return ask_to_retrain(
            start,
            epochs=self.n_epochs,
            seed=seed,
            coordinates=self.coordinates,
            labels=start.classes.tolist(),
            rate_factor=RATE,
        )


def _with_reply(start: Network, reply: Message) -> Network:
    content = reply.content
    return start.with_layers(
        Layers(content["coefs"], content["intercepts"], start.activation)
    )


def _dispensable(missing: Mapping[str, Network], trained) -> set[str]:
    """Nodes, of those that did not answer, whose classes are all known by others."""
    known = {label for own in trained for label in own.classes[own.seen].tolist()}
    return {
        name
        for name, own in missing.items()
        if known.issuperset(own.classes[own.seen].tolist())
    }


def _of_all_nodes(
    match: NetworkMatch, present: list[int], n_nodes: int
) -> NetworkMatch:
    """A match of some of the nodes, with no units of the others."""
    if len(present) == n_nodes:
        return match
    layers = []
    for layer in match.layers:
        assignments = [np.empty(0, dtype=np.intp)] * n_nodes
        for k, own in zip(present, layer.assignments, strict=True):
            assignments[k] = own
        layers.append(replace(layer, assignments=assignments))
    return replace(match, layers=layers)
