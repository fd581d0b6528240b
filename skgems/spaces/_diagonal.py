"""Diagonal metrics: balls and ellipsoids along the axes.

A diagonal metric with the precisions p, one for each weight of each output, measures a
change D of a model by

    ||D||_P^2 = sum_ij p_ij D_ij^2.

It is a ball where all p are equal. A parameter with p = 0 is *free*: to change it costs
nothing, so spaces of this metric say nothing about it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..moments import float_type, square_blocks
from ._metric import (
    Metric,
    diagonal,
    mean_matrix,
    row_norms,
    select_outputs,
    squared_norm,
    weighted_sum,
)
from ._outputs import Rows, output_columns


@dataclass(frozen=True, eq=False)
class DiagonalMetric(Metric):
    """Squared length ``sum(precision * delta ** 2)``: a ball or an ellipsoid."""

    precision: np.ndarray = field(repr=False)  # (n_params, n_outputs); 0 where free

    family: ClassVar[str] = "diagonal"

    def __post_init__(self) -> None:
        precision = np.asarray(self.precision, dtype=np.float64)
        if precision.ndim != 2 or not np.isfinite(precision).all():
            raise ValueError(
                "precision must be a finite array with 2 dimensions, of shape "
                f"(n_params, n_outputs). It has the shape {precision.shape}."
            )
        if precision.size and precision.min() < 0:
            raise ValueError(
                "precision must not be negative, since it is the cost of a squared "
                f"change. Its smallest value is {precision.min()}."
            )
        object.__setattr__(self, "precision", precision)

    @property
    def shape(self) -> tuple[int, int | None]:
        """Return the shape of centers, (n_params, n_outputs)."""
        return self.precision.shape

    @property
    def free(self) -> np.ndarray | None:
        """Mask (n_params, n_outputs) of precisions of 0, or None where none is."""
        mask = self.precision == 0
        return mask if mask.any() else None

    @cached_property
    def axes(self) -> np.ndarray:
        """Return half axes of the unit ball, 1 / sqrt(precision); 0 where free."""
        with np.errstate(divide="ignore"):
            return np.where(self.precision > 0, self.precision**-0.5, 0.0)

    def mv(self, W: np.ndarray) -> np.ndarray:
        """Multiply by the precisions."""
        return self.precision * W

    def solve(self, B: np.ndarray) -> np.ndarray:
        """Divide by the precisions; free parameters come back as 0."""
        return self.axes**2 * B

    def unwhiten(self, Z: np.ndarray) -> np.ndarray:
        """Multiply by the half axes, in the type of Z; free parameters are 0."""
        return self.axes.astype(Z.dtype, copy=False) * Z


@squared_norm.register(DiagonalMetric)
def _diagonal_squared_norm(metric: DiagonalMetric, W: np.ndarray) -> np.ndarray:
    # In one pass, without an array of products.
    return np.einsum("...ij,...ij,ij->...", W, W, metric.precision)


@weighted_sum.register(DiagonalMetric)
def _diagonal_weighted_sum(
    first: DiagonalMetric, metrics: Sequence[DiagonalMetric], weights: np.ndarray
) -> DiagonalMetric:
    pairs = zip(metrics, weights, strict=True)
    return DiagonalMetric(sum(weight * metric.precision for metric, weight in pairs))


@select_outputs.register(DiagonalMetric)
def _diagonal_select_outputs(
    metric: DiagonalMetric, places: np.ndarray
) -> DiagonalMetric:
    """Return the metric of outputs at some places; at -1 an output is free."""
    return DiagonalMetric(np.where(places < 0, 0.0, metric.precision[:, places]))


@diagonal.register(DiagonalMetric)
def _diagonal_diagonal(
    metric: DiagonalMetric, origin: np.ndarray | None = None
) -> np.ndarray:
    if origin is None:
        return metric.precision
    # On rows x - origin the same model has the weights w and the intercept
    # b' = b + w' origin, so that b = (-origin, 1)' (w, b').
    squares = np.append(origin**2, 0.0)[:, None]
    return metric.precision + squares * metric.precision[-1]


@mean_matrix.register(DiagonalMetric)
def _diagonal_mean_matrix(
    metric: DiagonalMetric, origin: np.ndarray | None = None
) -> np.ndarray:
    mean = metric.precision.mean(axis=1)
    if origin is None:
        return np.diag(mean)
    intercept = np.append(-origin, 1.0)
    return mean[-1] * np.outer(intercept, intercept) + np.diag(
        np.append(mean[:-1], 0.0)
    )


@row_norms.register(DiagonalMetric)
def _diagonal_row_norms(
    metric: DiagonalMetric,
    X: Rows,
    outputs: np.ndarray | None = None,
    *,
    squared: bool = False,
) -> np.ndarray:
    """Return norms of rows for each output, in blocks; 0 for free outputs."""
    columns = output_columns(outputs, metric.precision.shape[1])
    squared_axes = metric.axes[:, columns] ** 2
    weights = np.ascontiguousarray(squared_axes[:-1], dtype=float_type(X))
    norms = np.empty((X.shape[0], len(columns)), dtype=weights.dtype)
    for rows, _, squares in square_blocks(X):
        norms[rows] = squares @ weights
    norms = norms + squared_axes[-1]
    return norms if squared else np.sqrt(norms)
