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
    """What is asked of a node that is to train layers on its rows.

    Parameters
    ----------
    layers : Layers
        Where training starts.
    epochs : int
    seed : int or None
    coordinates : Coordinates, default=None
        Of the features, in which weights are small; features of which nothing is known
        are taken as they are. None: all are.
    **more
        Other parameters of :func:`skgems.local.retrain`, `labels` among them.

    Returns
    -------
    request : Message

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.federation import ask_to_retrain
    >>> from skgems.networks import Layers
    >>> layers = Layers([np.eye(2)], [np.zeros(2)], ())
    >>> request = ask_to_retrain(layers, epochs=3, seed=0, labels=["no", "yes"])
    >>> request.task, sorted(request.content)
    ('retrain', ['activation', 'coefs', 'epochs', 'intercepts', 'labels', 'seed'])
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
