"""Metrics of neurons: one matrix, or one precision for each weight, for all of a layer.

A neuron is a model of one output, the bias last. All neurons of a layer of one node
have one metric, which is sent as its *precision*: P, (n_params, n_params), or where it
is diagonal, its diagonal (n_params,).

Of inputs that are constant on the rows, a P of their moments says nothing apart from
the bias: what is called their scatter here is 0 but for rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from scipy import linalg

from ._diagonal import DiagonalMetric
from ._gram import GramMetric
from ._metric import ROUNDING, Metric, apply_to_params, mean_matrix, weighted_sum

# Variance, or cost, of an input that hardly varies, relative to others: enough for
# matrices that have an inverse, and too little to change any unit visibly.
RIDGE = 1e-6


@dataclass(frozen=True, eq=False)
class MatrixMetric(Metric):
    """Squared length ``w' P w`` of each output, of a positive definite matrix P."""

    matrix: np.ndarray = field(repr=False)  # P, (n_params, n_params)

    family: ClassVar[str] = "matrix"

    @property
    def shape(self) -> tuple[int, int | None]:
        """Return (n_params, None): there may be any number of outputs."""
        return len(self.matrix), None

    def mv(self, W: np.ndarray) -> np.ndarray:
        """Multiply by P."""
        return self.matrix @ W

    def solve(self, B: np.ndarray) -> np.ndarray:
        """Divide by P."""
        return apply_to_params(partial(linalg.solve, self.matrix, assume_a="pos"), B)

    def unwhiten(self, Z: np.ndarray) -> np.ndarray:
        """Multiply by R^-1, a triangle up to the order of parameters, in Z's type."""
        factor = self._factor.astype(Z.dtype, copy=False)
        (trtrs,) = linalg.get_lapack_funcs(("trtrs",), (factor,))
        divide = partial(trtrs, factor, lower=1, trans=1)
        return apply_to_params(lambda columns: divide(columns)[0][::-1], Z)

    @cached_property
    def _factor(self) -> np.ndarray:
        """Lower Cholesky factor of P with its rows and columns in reverse."""
        # The bias first: then the zero of inputs does not matter. Transposed, for
        # LAPACK.
        reverse = self.matrix[::-1, ::-1]
        factor, failed = linalg.lapack.dpotrf(reverse.T, lower=1, clean=0)
        # What is nothing but rounding is no pivot.
        noise = len(reverse) * np.finfo(np.float64).eps * reverse.diagonal()
        if failed or np.any(factor.diagonal() ** 2 <= noise):
            raise ValueError(
                "The second moments of what enters a hidden layer are not positive "
                "definite. Give the geometry of hidden_layers a larger ridge."
            )
        return factor


@weighted_sum.register(MatrixMetric)
def _matrix_weighted_sum(
    first: MatrixMetric, metrics: Sequence[MatrixMetric], weights: np.ndarray
) -> MatrixMetric:
    pairs = zip(metrics, weights, strict=True)
    return MatrixMetric(sum(weight * metric.matrix for metric, weight in pairs))


def metric_of_neurons(precision: np.ndarray) -> MatrixMetric | DiagonalMetric:
    """Return the metric of a precision, for any number of neurons."""
    if precision.ndim == 2:
        return MatrixMetric(precision)
    return DiagonalMetric(precision[:, None])


def metric_of_one_neuron(precision: np.ndarray) -> GramMetric | DiagonalMetric:
    """Return the metric of a precision as one of linear models, for intersections."""
    if precision.ndim == 2:
        return GramMetric.from_matrix(precision)
    return DiagonalMetric(precision[:, None])


def as_precision(metric: Metric) -> np.ndarray:
    """Return the precision of a metric that measures all neurons alike.

    Of shape (n_params,) where it is diagonal, else (n_params, n_params).
    """
    if isinstance(metric, DiagonalMetric):
        return metric.precision.mean(axis=1)
    return mean_matrix(metric)


# ---- what a precision says of inputs -------------------------------------------------


def scatter_diagonal(precision: np.ndarray) -> np.ndarray:
    """Return what each weight costs where the bias makes up for its mean, (n_inputs,).

    It is the diagonal of ``P - p p' / p_bb`` without the bias, with p the bias's column
    of P.
    """
    row = precision[-1]
    return precision.diagonal()[:-1] - row[:-1] ** 2 / row[-1]


def constant_inputs(precision: np.ndarray) -> np.ndarray:
    """Return the mask of inputs that are constant on the rows."""
    if precision.ndim == 1:
        return np.zeros(len(precision) - 1, dtype=bool)
    mean_squares_of_inputs = precision.diagonal()[:-1]
    return scatter_diagonal(precision) <= ROUNDING * mean_squares_of_inputs


def with_costs_of_constant_inputs(
    precision: np.ndarray, costs: np.ndarray | float = 1.0
) -> np.ndarray:
    """Return the precision, with a cost for each input that it says nothing of.

    The costs are (n_inputs,), or one for all.
    """
    constant = np.flatnonzero(constant_inputs(precision))
    if len(constant):
        precision = precision.copy()
        costs = np.broadcast_to(costs, len(precision) - 1)
        precision[constant, constant] += costs[constant]
    return precision
