# SPDX-License-Identifier: BSD-3-Clause
"""Layers at a node: they are trained, or judged, on its rows."""

import numpy as np

from ..networks import Layers
from ..spaces import SpaceProfile, on_one_scale, profile_space
from ._fitting import at_node
from ._model import LocalModel


def retrain_layers(
    model: LocalModel,
    layers: Layers,
    Z,
    y: np.ndarray,
    *,
    epochs: int,
    **options,
) -> Layers:
    """Train layers, a whole network or its last ones, by the trainer of `model`.

    ``Z``: (n_samples, n_inputs), the input of the first layer. ``y``: indices of
    outputs. The result has the dtype of the layers. Errors name the node.
    """
    if not epochs or not len(y) or layers.n_outputs < 2:
        return layers
    with at_node(model.name, f"{type(model.own).__name__} cannot train on its rows"):
        trained = model.carrying(layers).train(Z, y, epochs=epochs, **options)
    return trained.layers().astype(layers.coefs[0].dtype)


def node_space(
    W: np.ndarray,
    X,
    y: np.ndarray,
    *,
    n_others: int = 0,
    scale_logits: bool,
    rows=None,
    seed: int | None = None,
    **settings,
) -> SpaceProfile:
    """All of a node's good-enough spaces that does not depend on epsilon.

    ``W``: (n_features + 1, n_own_classes), intercepts last. ``y``: indices of own
    classes, -1 for others. At most one more output represents each other class.
    """
    n_own = W.shape[1]
    center, scale = np.pad(W.astype(np.float64), [(0, 0), (0, n_others)]), 1.0
    known = np.arange(n_own + n_others) < n_own
    if scale_logits:
        center, scale = on_one_scale(center, known, X if rows is None else rows)
    profile = profile_space(
        X, y, center, known, **settings, scale=scale, rows=rows, random_state=seed
    )
    if not n_others:
        return profile
    return profile.of_outputs(np.arange(n_own + (not profile.last_is_free)))
