# SPDX-License-Identifier: BSD-3-Clause
"""How long and how fast nodes train in a round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def learning_rates(
    learning_rate: float,
    epochs: int,
    *,
    decay: float = 0.25,
    schedule: str = "cyclical",
    epochs_before: int = 0,
    epochs_planned: int | None = None,
) -> np.ndarray:
    """Learning rate of each epoch of one round.

    Parameters
    ----------
    learning_rate : float
        Rate ``eta`` that the decay starts from.
    epochs : int
        Epochs ``T`` of this round.
    decay : float, default=0.25
        Factor ``r`` that the rate has fallen by in the end.
    schedule : {"cyclical", "exponential", "constant"}, default="cyclical"
        "cyclical" decays anew in every round, ``eta r^(j / T)`` in epoch j = 1..T;
        "exponential" decays once over all rounds, ``eta r^(e / E)`` in the e-th epoch
        since the first round of E that were planned, and goes on falling after them.
    epochs_before : int, default=0
        Epochs of the earlier rounds; for "exponential".
    epochs_planned : int, default=None
        E; None takes this round as the only one.

    Returns
    -------
    rates : ndarray of shape (epochs,)

    References
    ----------
    Xu et al.: Collaborative Deep Learning Across Multiple Data Centers, 2018, Eq. 3.
    The paper does not define its non-cyclical rate; "exponential" is ours.

    Examples
    --------
    >>> from skgems.rounds import learning_rates
    >>> learning_rates(0.01, 2).tolist()
    [0.005, 0.0025]
    """
    epoch = np.arange(1, epochs + 1)
    if schedule == "cyclical":
        return learning_rate * decay ** (epoch / epochs)
    if schedule == "exponential":
        total = epochs_before + epochs if epochs_planned is None else epochs_planned
        return learning_rate * decay ** ((epochs_before + epoch) / total)
    if schedule == "constant":
        return np.full(epochs, float(learning_rate))
    raise ValueError(
        f'schedule must be "cyclical", "exponential" or "constant", got {schedule!r}.'
    )


def next_epochs(epochs: int, change: float, epsilon: float) -> int:
    """Epochs of the next round: twice as many once the shared model has settled.

    Parameters
    ----------
    epochs : int
        Epochs of the round before.
    change : float
        Relative change of the shared model by that round.
    epsilon : float
        Change up to which the epochs are doubled.

    Returns
    -------
    epochs : int

    References
    ----------
    Xu et al.: Collaborative Deep Learning Across Multiple Data Centers, 2018, Eq. 4.

    Examples
    --------
    >>> from skgems.rounds import next_epochs
    >>> next_epochs(5, change=0.02, epsilon=0.01), next_epochs(5, 0.01, 0.01)
    (5, 10)
    """
    return 2 * epochs if change <= epsilon else epochs


def relative_change(
    parameters: Sequence[np.ndarray], before: Sequence[np.ndarray]
) -> float:
    """``||w - w'|| / ||w'||`` over all floating point arrays.

    Parameters
    ----------
    parameters, before : sequence of ndarray
        Two models, of the same shapes.

    Returns
    -------
    change : float
        Infinite if the model before is zero and this one is not.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.rounds import relative_change
    >>> relative_change([np.array([3.0, 4.5])], [np.array([3.0, 4.0])])
    0.1
    """
    moved = size = 0.0
    for new, old in zip(parameters, before, strict=True):
        if old.dtype.kind == "f":
            moved += float(np.sum(np.square(new - old), dtype=np.float64))
            size += float(np.sum(np.square(old), dtype=np.float64))
    if size == 0:
        return 0.0 if moved == 0 else float("inf")
    return float(np.sqrt(moved / size))
