# SPDX-License-Identifier: BSD-3-Clause
"""Rounds: how long and how fast nodes train in one, and the mean of what they learn."""

from collections.abc import Iterable, Sequence
from numbers import Real

import numpy as np
from scipy.linalg.blas import daxpy, saxpy

_AXPY = {np.dtype(np.float32): saxpy, np.dtype(np.float64): daxpy}

Weight = float | Sequence[float | np.ndarray]


def mean_parameters(
    models: Iterable[tuple[Sequence[np.ndarray], Weight]],
) -> list[np.ndarray]:
    """Weighted mean of models, of which only the present one is held in memory.

    A weight is a number or one for each array, which may broadcast; where weights are
    zero so is the mean. Integer arrays are of the first model of the largest weight.
    """
    sums: list[np.ndarray] = []
    totals: list[float | np.ndarray] = []
    for index, (parameters, weight) in enumerate(models):
        arrays = [np.asarray(array) for array in parameters]
        alone = isinstance(weight, Real)
        weights = [float(weight)] * len(arrays) if alone else list(weight)
        if index == 0:
            # A copy: the caller's arrays are not written to.
            sums = [
                np.zeros_like(a, order="F" if a.flags.fnc else "C")
                if _is_float(a)
                else a.copy()
                for a in arrays
            ]
            totals = [0.0] * len(arrays)
        _check(index, arrays, weights, sums)
        for i, (array, share) in enumerate(zip(arrays, weights, strict=True)):
            if _is_float(array):
                sums[i] = _added(sums[i], array, share)
                totals[i] = totals[i] + share
            elif np.max(share) > totals[i]:
                sums[i], totals[i] = array.copy(), float(np.max(share))
        del arrays, parameters  # before the next one is made
    if not sums:
        raise ValueError("There is no model to average.")
    for array, total in zip(sums, totals, strict=True):
        if _is_float(array):
            array /= np.where(np.asarray(total) > 0, total, 1.0).astype(array.dtype)
    return sums


def _is_float(array):
    return array.dtype.kind == "f"


def _check(index, arrays, weights, sums):
    shapes, expected = [a.shape for a in arrays], [a.shape for a in sums]
    if shapes != expected:
        raise ValueError(
            f"Model {index} has arrays of shapes {shapes}, model 0 of {expected}; only "
            "models of the same shape can be averaged."
        )
    if len(weights) != len(arrays):
        raise ValueError(
            f"Model {index} has {len(arrays)} arrays and {len(weights)} weights."
        )
    if any(np.min(share) < 0 for share in weights):
        raise ValueError(f"Model {index} has a negative weight.")


def _added(total, array, share):
    """``total + share * array``, in place where the dtypes agree."""
    dtype = np.result_type(total, array)
    if dtype != total.dtype:
        total = total.astype(dtype)
    axpy = _AXPY.get(dtype)
    alike = array.flags.forc and array.flags.fnc == total.flags.fnc
    if axpy is None or np.ndim(share) or not alike or not array.size:
        total += share * array
    else:
        # One pass over memory, with no array for the product.
        array = array.astype(dtype, copy=False)
        axpy(array.ravel("K"), total.ravel("K"), a=share)
    return total


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


def relative_change(
    parameters: Sequence[np.ndarray], before: Sequence[np.ndarray]
) -> float:
    """``||w - w'|| / ||w'||`` of float arrays; infinite if only w' is zero."""
    moved = size = 0.0
    for new, old in zip(parameters, before, strict=True):
        if old.dtype.kind == "f":
            moved += float(np.sum(np.square(new - old), dtype=np.float64))
            size += float(np.sum(np.square(old), dtype=np.float64))
    if size == 0:
        return 0.0 if moved == 0 else float("inf")
    return float(np.sqrt(moved / size))
