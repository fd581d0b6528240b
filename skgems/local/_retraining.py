# SPDX-License-Identifier: BSD-3-Clause
"""Retrain the upper layers of a node's network by the node's own trainer."""

from __future__ import annotations

import numpy as np

from ..networks import Layers
from ._errors import at_node
from ._model import LocalModel


def retrain_layers(
    model: LocalModel,
    layers: Layers,
    Z,
    y: np.ndarray,
    *,
    epochs: int,
    learning_rate: float | None = None,
    random_state=None,
) -> Layers:
    """Train layers, a whole network or its last ones, by the trainer of `model`.

    ``Z``: (n_samples, n_inputs), the input of the first layer. ``y``: indices of
    outputs. The result has the dtype of the layers. Errors name the node.
    """
    if not epochs or not len(y) or layers.n_outputs < 2:
        return layers
    with at_node(model.name, f"{type(model.own).__name__} cannot train on its rows"):
        trained = model.carrying(layers).train(
            Z, y, epochs=epochs, learning_rate=learning_rate, random_state=random_state
        )
    return trained.layers().astype(layers.coefs[0].dtype)
