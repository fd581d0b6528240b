# SPDX-License-Identifier: BSD-3-Clause
"""Rounds: every node trains the merged network further, and all are matched again."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace

import numpy as np

from ..federation import Federation, TooFewNodes, ask_to_retrain
from ..local import local_model
from ..matching import NetworkMatch, merged_layers
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


def match_in_rounds(
    networks: Mapping[str, Network],
    match: NetworkMatch,
    # From networks, and the indices of their nodes; `again` is the last match, where
    # nodes have all units of the merged network.
    rematch: Callable[..., NetworkMatch],
    classes: np.ndarray,
    rng: np.random.RandomState,
    *,
    n_rounds: int,  # matches, the first included
    units: str,  # "all" of the merged network, or a node's "own"
    n_epochs: int,  # passes over the rows in a round
    coordinates: Coordinates | None,  # of the features, in which nodes train
    log: Callable[[str], None],
) -> Generator:
    """Plan whose result is the last match; constant models are left as they are.

    A node that fails is left out of a round, or stays as it was if it alone knows a
    class. TooFewNodes has the ``parameters`` merged before, over features.
    """
    names, absent, own_only = list(networks), set(), units == "own"
    part = own_units if own_only else all_units
    for number in range(1, n_rounds):
        networks = {
            name: network
            # One without units in the match has none to replace its own by.
            if network.is_linear or (name in absent and own_only)
            else part(match, k, network, classes)
            for k, (name, network) in enumerate(networks.items())
        }
        seed = rng.randint(2**31 - 1)
        requests = {
            name: ask_to_retrain(
                start,
                epochs=n_epochs,
                seed=seed,
                coordinates=coordinates,
                labels=start.classes.tolist(),
                rate_factor=RATE,
            )
            for name, start in networks.items()
            if not start.is_linear
        }
        trained: dict[str, Network] = {}
        replies = (yield requests) if requests else ()
        try:
            for name, reply in replies:
                content, start = reply.content, networks[name]
                trained[name] = start.with_layers(
                    Layers(content["coefs"], content["intercepts"], start.activation)
                )
        except TooFewNodes as error:
            merged = merged_layers(match)
            if coordinates is not None:
                merged = coordinates.give_back(merged)
            error.parameters = [*merged.coefs, *merged.intercepts]
            raise
        networks = networks | trained
        absent = _dispensable(
            {name: networks[name] for name in requests if name not in trained},
            trained.values(),
        )
        log(f"round {number + 1} of {n_rounds}: trained, matching")
        present = [k for k, name in enumerate(names) if name not in absent]
        match = rematch(
            [networks[names[k]] for k in present],
            present,
            again=None if own_only else match,
        )
        match = _of_all_nodes(match, present, len(names))
    return match


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
    layers = []
    for layer in match.layers:
        assignments = [np.empty(0, dtype=np.intp)] * n_nodes
        for k, own in zip(present, layer.assignments, strict=True):
            assignments[k] = own
        layers.append(replace(layer, assignments=assignments))
    return replace(match, layers=layers)
