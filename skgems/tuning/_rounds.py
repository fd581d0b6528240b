"""Rounds: how long and how fast nodes train, and the mean of what they learn."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Real

import numpy as np
from scipy.linalg.blas import daxpy, saxpy
from scipy.optimize import linear_sum_assignment

from ..networks import Layers

_AXPY = {np.dtype(np.float32): saxpy, np.dtype(np.float64): daxpy}

Weight = float | Sequence[float | np.ndarray]
Weighted = tuple[Sequence[np.ndarray], Weight]


def mean_parameters(models: Iterable[Weighted]) -> list[np.ndarray]:
    """Weighted mean of models, held one by one; of integers the heaviest's."""
    sums: list[np.ndarray] = []
    totals: list[float | np.ndarray] = []
    for index, (parameters, weight) in enumerate(models):
        arrays = [np.asarray(array) for array in parameters]
        alone = isinstance(weight, Real)
        weights = [float(weight)] * len(arrays) if alone else list(weight)
        if index == 0:
            # A copy: the caller's arrays are not written to.
            sums = [
                np.zeros_like(a, order="A") if _is_float(a) else a.copy()
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
    n, given = len(arrays), len(weights)
    if given != n:
        raise ValueError(f"Model {index} has {n} arrays and {given} weights.")
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
    """Of each epoch; "cyclical" (Xu et al. 2018, Eq. 3) decays in every round."""
    epoch = np.arange(1, epochs + 1)
    if schedule == "cyclical":
        return learning_rate * decay ** (epoch / epochs)
    if schedule == "exponential":
        total = epochs_before + epochs if epochs_planned is None else epochs_planned
        return learning_rate * decay ** ((epochs_before + epoch) / total)
    if schedule == "constant":
        return np.full(epochs, float(learning_rate))
    known = '"cyclical", "exponential" or "constant"'
    raise ValueError(f"schedule must be {known}, got {schedule!r}.")


def relative_change(parameters: Sequence, before: Sequence) -> float:
    """``||w - w'|| / ||w'||`` of float arrays; infinite if only w' is zero."""
    moved = size = 0.0
    for new, old in zip(parameters, before, strict=True):
        if old.dtype.kind == "f":
            moved += float(np.sum(np.square(new - old), dtype=np.float64))
            size += float(np.sum(np.square(old), dtype=np.float64))
    if size == 0:
        return 0.0 if moved == 0 else float("inf")
    return float(np.sqrt(moved / size))


_MAX_SWEEPS = 20
# As many units of a layer are enough to find where networks started.
_MAX_UNITS = 100
# How many standard deviations the order of units has to stand out among all orders, or
# networks count as started apart: 846 pairs of two starts (digits, MNIST, three tables,
# 12 to 100 units, 1 to 500 epochs) came to 3.2 at most. Of 429 pairs of one start whose
# average loses less than 5 points of accuracy, three had less than is asked for.
_STANDS_OUT = 3.5
# Equal networks of n units come to n - 1 deviations, so less is asked of few units. Of
# pairs of two starts one in 25 comes to that with 8 units, and one in 6 with 5.
_PART_OF_EQUAL = 0.2
# Weights of a feature that differ by less, relative to the largest, differ by rounding.
_ROUNDING = 1e-10


def align_hidden_units(layers: Layers, reference: Layers) -> Layers:
    """Permute units to a reference's (Git Re-Basin, 2023): the same function."""
    coefs, intercepts = list(layers.coefs), list(layers.intercepts)
    last = len(coefs) - 2
    for sweep in range(_MAX_SWEEPS):
        changed = False
        for layer in range(last + 1):
            # Permuting does not change the norms, so inner products decide.
            # At first weights to units that have no order yet do not count, so that the
            # order that the units came in does not matter.
            known = reference.coefs
            likeness = known[layer].T @ coefs[layer]
            likeness += np.outer(reference.intercepts[layer], intercepts[layer])
            if sweep or layer == last:
                likeness += known[layer + 1] @ coefs[layer + 1].T
            order = linear_sum_assignment(likeness, maximize=True)[1]
            if np.array_equal(order, np.arange(len(order))):
                continue
            changed = True
            coefs[layer] = coefs[layer][:, order]
            intercepts[layer] = intercepts[layer][order]
            coefs[layer + 1] = coefs[layer + 1][order]
        if sweep and not changed:
            break
    return replace(layers, coefs=coefs, intercepts=intercepts)


def started_apart(layers: Layers, reference: Layers) -> bool:
    """Whether no more than chance puts hidden units in the order of a reference's.

    Networks that start from the same weights keep something of them, unit by unit. The
    scores of layers are added, as those of independent tests are.
    """
    scores, sizes = [], []
    for layer in range(len(layers.coefs) - 1):
        units = _standardized_units(layers, layer)
        others = _standardized_units(reference, layer)
        likeness = others.T @ units
        if likeness.any():
            scores.append(_order_score(likeness))
            sizes.append(len(likeness) - 1)
    if not scores:
        return False
    n_layers = len(scores)
    asked = min(_STANDS_OUT, _PART_OF_EQUAL * sum(sizes) / n_layers**0.5)
    return sum(scores) / n_layers**0.5 < asked


def _order_score(likeness: np.ndarray) -> float:
    """Likeness of units that stand at the same place, in deviations over all orders.

    Rows and columns of ``likeness`` (n_units, n_units) sum to 0. Then the sum over a
    random order has the mean 0 and the variance ``sum(likeness**2) / (n_units - 1)``.
    """
    variance = np.sum(likeness**2) / (len(likeness) - 1)
    return float(np.trace(likeness) / np.sqrt(variance))


def _standardized_units(layers: Layers, layer: int) -> np.ndarray:
    """Weights of hidden units (columns), each feature with mean 0 and variance 1.

    What all units have learnt in common drops out, and so do the units of features,
    which would let one feature of small values outweigh all others.
    """
    below, above = layers.coefs[layer], layers.coefs[layer + 1].T
    weights = np.vstack([below, layers.intercepts[layer], above])[:, :_MAX_UNITS]
    weights = weights.astype(np.float64)
    largest = np.abs(weights).max(axis=1, keepdims=True)
    weights -= weights.mean(axis=1, keepdims=True)
    spread = np.sqrt(np.mean(weights**2, axis=1, keepdims=True))
    differs = spread > _ROUNDING * largest
    return np.divide(weights, spread, out=np.zeros_like(weights), where=differs)
