# SPDX-License-Identifier: BSD-3-Clause
"""How nodes are asked to train layers."""

from __future__ import annotations

from ..messages import Message
from ..networks import Coordinates, Layers


def ask_to_retrain(
    layers: Layers,
    *,
    epochs: int,
    seed: int | None,
    coordinates: Coordinates | None = None,
    **more,
) -> Message:
    """Request to a node to train layers on its rows; see `local.retrain`.

    ``coordinates``: of the features, with those that are unknown kept as they are.
    """
    where = {} if coordinates is None else vars(coordinates.filled())
    return Message.of(
        "retrain",
        coefs=layers.coefs,
        intercepts=layers.intercepts,
        activation=layers.activation,
        epochs=epochs,
        seed=seed,
        **where,
        **more,
    )
