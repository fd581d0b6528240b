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
    schedule: str = "cyclical",  # "exponential", "constant"
    epochs_before: int = 0,
    epochs_planned: int | None = None,
) -> np.ndarray:
    """Learning rate of each epoch of one round, which falls by the factor ``decay``.

    "cyclical" decays anew in every round (Co-learning, Xu et al. 2018, Eq. 3),
    "exponential" once over ``epochs_planned`` (None: this round's), and goes on after.
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

    Xu et al.: Collaborative Deep Learning Across Multiple Data Centers, 2018, Eq. 4.
    """
    return 2 * epochs if change <= epsilon else epochs


def relative_change(
    parameters: Sequence[np.ndarray], before: Sequence[np.ndarray]
) -> float:
    """``||w - w'|| / ||w'||`` over all floating point arrays of two models.

    Infinite if the model before is zero and this one is not.
    """
    moved = size = 0.0
    for new, old in zip(parameters, before, strict=True):
        if old.dtype.kind == "f":
            moved += float(np.sum(np.square(new - old), dtype=np.float64))
            size += float(np.sum(np.square(old), dtype=np.float64))
    if size == 0:
        return 0.0 if moved == 0 else float("inf")
    return float(np.sqrt(moved / size))
