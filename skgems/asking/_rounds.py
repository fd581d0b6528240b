"""Rounds: how fast nodes train, and how far a model has moved in one of them."""

from collections.abc import Sequence

import numpy as np


def learning_rates(
    learning_rate: float,
    epochs: int,
    *,
    decay: float = 0.25,
    schedule: str = "cyclical",  # "exponential", "constant"
    epochs_before: int = 0,
    epochs_planned: int | None = None,
) -> np.ndarray:
    """Return the learning rate of each epoch of a round.

    Epoch j of T has the rate ``learning_rate * decay ** (j / T)`` (Xu et al. 2018, Eq.
    3). In a "cyclical" schedule T is the number of epochs of this round, so the rate
    decays anew in each round. In an "exponential" schedule T is the number of epochs of
    all rounds, ``epochs_planned``, and ``epochs_before`` of them are over. In a
    "constant" schedule all epochs have the rate ``learning_rate``.
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


def relative_change(
    parameters: Sequence[np.ndarray], before: Sequence[np.ndarray]
) -> float:
    """Return ``||w - w'|| / ||w'||`` over float arrays; infinite if only w' is zero."""
    change = 0.0
    size = 0.0
    for new, old in zip(parameters, before, strict=True):
        if old.dtype.kind == "f":
            change += float(np.sum(np.square(new - old), dtype=np.float64))
            size += float(np.sum(np.square(old), dtype=np.float64))
    if size == 0:
        return 0.0 if change == 0 else float("inf")
    return float(np.sqrt(change / size))
