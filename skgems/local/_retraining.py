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
    """Train layers on what enters them, as a node trains.

    Parameters
    ----------
    model : LocalModel
        The node's own, which lends its trainer; see `LocalModel.carrying`.
    layers : Layers
        Where to start, one output per class: a whole network, or its upper layers.
    Z : {ndarray, CSR matrix} of shape (n_samples, n_inputs)
        What enters the first of the layers.
    y : ndarray of shape (n_samples,), int
        Output column of each row's label.
    epochs : int
        Passes over the rows.
    learning_rate : float, default=None
        None leaves it to the node's classifier.
    random_state : int, RandomState instance or None, default=None
        Source of the order of rows.

    Returns
    -------
    layers : Layers
        Of the same shapes and dtype.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neural_network import MLPClassifier
    >>> from skgems.local import local_model, retrain_layers
    >>> from skgems.networks import Layers
    >>> model = local_model(MLPClassifier(alpha=0.0, learning_rate_init=0.1))
    >>> Z, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    >>> start = Layers.linear(np.zeros((2, 2)))
    >>> further = retrain_layers(model, start, Z, y, epochs=20, random_state=0)
    >>> further.logits(Z).argmax(axis=1)
    array([0, 1])
    """
    if not epochs or not len(y) or layers.n_outputs < 2:
        return layers
    with at_node(model.name, f"{type(model.own).__name__} cannot train on its rows"):
        trained = model.carrying(layers).train(
            Z, y, epochs=epochs, learning_rate=learning_rate, random_state=random_state
        )
    return trained.layers().astype(layers.coefs[0].dtype)
