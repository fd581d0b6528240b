"""Models made one: the weighted mean, sum_k w_k P_k / sum_k w_k, or the median."""

from collections.abc import Iterable, Sequence
from numbers import Real

import numpy as np
from scipy.linalg.blas import daxpy, saxpy

_AXPY = {np.dtype(np.float32): saxpy, np.dtype(np.float64): daxpy}

# One number for a model, or for each of its arrays a number or an array.
Weight = float | Sequence[float | np.ndarray]
Weighted = tuple[Sequence[np.ndarray], Weight]


def mean_parameters(models: Iterable[Weighted]) -> list[np.ndarray]:
    """Return the weighted mean of models, of which only one is in memory at a time.

    Arrays that are not of floats are taken from the model with the largest weight.
    """
    sums: list[np.ndarray] = []
    totals: list[float | np.ndarray] = []
    for index, (parameters, weight) in enumerate(models):
        arrays = [np.asarray(array) for array in parameters]
        weights = _weights_of_arrays(weight, len(arrays))
        if index == 0:
            # A copy: the caller's arrays are not written to.
            sums = [
                np.zeros_like(array, order="A") if _is_float(array) else array.copy()
                for array in arrays
            ]
            totals = [0.0] * len(arrays)
        _check(arrays, weights, sums, index=index)
        for i, (array, array_weight) in enumerate(zip(arrays, weights, strict=True)):
            if _is_float(array):
                sums[i] = _add_product(sums[i], array, array_weight)
                totals[i] = totals[i] + array_weight
            elif np.max(array_weight) > totals[i]:
                sums[i] = array.copy()
                totals[i] = float(np.max(array_weight))
        del arrays, parameters  # before the next one is made
    if not sums:
        raise ValueError("There is no model to average.")
    for array, total in zip(sums, totals, strict=True):
        if _is_float(array):
            array /= np.where(np.asarray(total) > 0, total, 1.0).astype(array.dtype)
    return sums


def median_parameters(models: Iterable[Weighted]) -> list[np.ndarray]:
    """Return the median of models, coordinate by coordinate, over those with a weight.

    It takes the memory of all models. A coordinate without any weight is 0. Arrays that
    are not of floats are taken from the model with the largest weight.
    """
    arrays_of_models: list[list[np.ndarray]] = []
    weights_of_models: list[list[float | np.ndarray]] = []
    for parameters, weight in models:
        arrays = [np.array(array) for array in parameters]
        weights = _weights_of_arrays(weight, len(arrays))
        first = arrays_of_models[0] if arrays_of_models else arrays
        _check(arrays, weights, first, index=len(arrays_of_models))
        arrays_of_models.append(arrays)
        weights_of_models.append(weights)
    if not arrays_of_models:
        raise ValueError("There is no model to take a median of.")
    medians = []
    for arrays, weights in zip(
        zip(*arrays_of_models, strict=True),
        zip(*weights_of_models, strict=True),
        strict=True,
    ):
        if not _is_float(arrays[0]):
            largest = int(np.argmax([np.max(weight) for weight in weights]))
            medians.append(arrays[largest])
            continue
        counted = [
            np.where(np.broadcast_to(weight, array.shape) > 0, array, np.nan)
            for array, weight in zip(arrays, weights, strict=True)
        ]
        medians.append(_median_of_told(np.stack(counted)).astype(arrays[0].dtype))
    return medians


def _median_of_told(values: np.ndarray) -> np.ndarray:
    """Return medians over the first axis without NaN; 0 where all are NaN."""
    is_told = ~np.isnan(values).all(axis=0)
    medians = np.zeros(values.shape[1:], dtype=values.dtype)
    medians[is_told] = np.nanmedian(values[:, is_told], axis=0)
    return medians


def _weights_of_arrays(weight: Weight, n_arrays: int) -> list[float | np.ndarray]:
    if isinstance(weight, Real):
        return [float(weight)] * n_arrays
    return list(weight)


def _is_float(array: np.ndarray) -> bool:
    return array.dtype.kind == "f"


def _check(
    arrays: list[np.ndarray],
    weights: list[float | np.ndarray],
    sums: list[np.ndarray],
    *,
    index: int,
) -> None:
    """Raise ValueError for a model that does not fit to those before it."""
    shapes = [array.shape for array in arrays]
    first_shapes = [array.shape for array in sums]
    if shapes != first_shapes:
        raise ValueError(
            f"Model {index} has arrays of shapes {shapes}, model 0 of {first_shapes}; "
            "only models of the same shape can be averaged."
        )
    if len(weights) != len(arrays):
        raise ValueError(
            f"Model {index} has {len(arrays)} arrays and {len(weights)} weights. Give "
            "one weight for each array, or one for all."
        )
    if any(np.min(array_weight) < 0 for array_weight in weights):
        raise ValueError(f"Model {index} has a negative weight.")


def _add_product(
    total: np.ndarray, array: np.ndarray, weight: float | np.ndarray
) -> np.ndarray:
    """Return ``total + weight * array``, in place where the dtypes agree."""
    dtype = np.result_type(total, array)
    if dtype != total.dtype:
        total = total.astype(dtype)
    axpy = _AXPY.get(dtype)
    same_layout = array.flags.forc and array.flags.fnc == total.flags.fnc
    if axpy is None or np.ndim(weight) or not same_layout or not array.size:
        total += weight * array
    else:
        # One pass over memory, with no array for the product.
        array = array.astype(dtype, copy=False)
        axpy(array.ravel("K"), total.ravel("K"), a=weight)
    return total
