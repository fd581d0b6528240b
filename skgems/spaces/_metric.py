r"""What a metric is: three products. Everything else is a function of a metric.

A metric measures a change W of a model, with a column w_k for each output, by

    ||W||^2 = sum_k w_k' P_k w_k,

where P_k is a symmetric matrix of all parameters (n_params, n_params), positive
definite but for *free* parameters: these cost nothing where the others make up for
them. With ``P_k = R_k' R_k``, a metric multiplies all columns at once:

    mv(W)        P_k w_k
    solve(B)     P_k^-1 b_k
    unwhiten(Z)  R_k^-1 z_k,  so that ||unwhiten(Z)||^2 is the sum of the squares of Z

`solve` and `unwhiten` leave free parameters at 0. Nothing here needs ``R_k w_k``
itself: rays are drawn in white coordinates and carried back, and a row x changes a
logit by ``|R_k^-T x|`` at most.

`Metric` is the base of all metrics, of linear models and of neurons. The functions
below need no more than what it declares. Those that are generic
(`functools.singledispatch`) compute with matrices (n_params, n_params) of each output,
or each row in each output; a metric that has a shorter way registers it in its own
module.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import ClassVar

import numpy as np

from ..moments import ULPS, float_type, row_blocks, working_bytes
from ._outputs import Rows, dense_rows, logits_on_rows, output_columns

# What rounding leaves of sums of some products, relative to these: of a variance beside
# its mean square, of Newton equations and of the barrier function beside their terms.
ROUNDING = ULPS * np.finfo(np.float64).eps
# Relative accuracy of a radius, on the safe side, and of constraints that are settled.
TOLERANCE = 1e-4
# Change of a logit, or of a loss or a mass relative to others, that is none.
NEGLIGIBLE = 1e-3
# Rays that are followed first: they choose the range in which all are followed, and the
# others only have to beat them. With two, radii are up to a tenth smaller.
N_PILOTS = 16
# Steps of a search, and pairs of spaces, that are tried at most: some ten are usual, so
# that a search which takes more is held up by rounding. What it leaves open ends safe.
MOST_STEPS = 200


class Metric(ABC):
    """Base class of metrics, which say how long a change of a model is.

    A subclass is a frozen dataclass of the arrays that it is made of: spaces copy it by
    `dataclasses.replace`, and messages hold its fields. It defines `shape` and three
    products, :meth:`mv`, :meth:`solve` and :meth:`unwhiten`. If it has free parameters
    it also defines `free`. Arrays of models have the shape (..., n_params, n_outputs),
    with intercepts or biases in the last row.

    Attributes
    ----------
    family : str
        Name of the class in messages. Only metrics of one class can be added up.
    shape : tuple of int
        The pair (n_params, n_outputs). The second is None if any number of outputs is
        measured, all alike.
    free : ndarray of bool of shape (n_params, n_outputs) or (n_params, 1), or None
        True for parameters that are free. None if no parameter is free.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import GramMetric, Metric, squared_norm
    >>> metric = GramMetric(scatter=np.array([[4.0]]), mean=np.array([0.0]))
    >>> W = np.array([[1.0], [3.0]])
    >>> isinstance(metric, Metric), metric.mv(W).ravel(), float(squared_norm(metric, W))
    (True, array([4., 3.]), 13.0)
    """

    family: ClassVar[str]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int | None]:
        """Return (n_params, n_outputs), the second None for any number of outputs."""

    @property
    def free(self) -> np.ndarray | None:
        """Mask of the parameters that cost nothing; None: there is none."""
        return None

    @abstractmethod
    def mv(self, W: np.ndarray) -> np.ndarray:
        """Multiply the column of each output by its matrix P.

        Parameters
        ----------
        W : ndarray of shape (..., n_params, n_outputs)
            One change of a model, or many.

        Returns
        -------
        product : ndarray of the shape of W
            The products.
        """

    @abstractmethod
    def solve(self, B: np.ndarray) -> np.ndarray:
        """Multiply the column of each output by the inverse of its matrix P.

        Parameters
        ----------
        B : ndarray of shape (..., n_params, n_outputs)
            One right-hand side, or many.

        Returns
        -------
        quotient : ndarray of the shape of B
            The products, which are 0 in free parameters.
        """

    @abstractmethod
    def unwhiten(self, Z: np.ndarray) -> np.ndarray:
        """Multiply the column of each output by the inverse of R, where R' R = P.

        Parameters
        ----------
        Z : ndarray of shape (..., n_params, n_outputs)
            White coordinates, in which squared lengths are sums of squares.

        Returns
        -------
        W : ndarray of the shape of Z, of its type or float64
            The same changes as weights, which are 0 in free parameters.
        """


# ---- for any metric ------------------------------------------------------------------


def n_constrained(metric: Metric, n_outputs: int) -> int:
    """Count the parameters that are not free, of models of so many outputs."""
    n_params = metric.shape[0]
    if metric.free is None:
        return n_params * n_outputs
    free = np.broadcast_to(metric.free, (n_params, n_outputs))
    return int(np.count_nonzero(~free))


def with_free(metric: Metric, step: np.ndarray, free_values: np.ndarray) -> np.ndarray:
    """Return a step with other values in free parameters, at the same cost.

    The other parameters make up for what the free ones change.
    """
    if metric.free is None:
        return step
    changed = np.where(metric.free, free_values, step)
    return changed - metric.solve(metric.mv(changed - step))


def check_family(metrics: Sequence[Metric]) -> None:
    """Raise a TypeError, which names the spaces, if the metrics' classes differ."""
    if all(type(metric) is type(metrics[0]) for metric in metrics):
        return
    families = [f"{k}: {metric.family}" for k, metric in enumerate(metrics)]
    raise TypeError(
        f"Spaces of different geometries cannot be combined ({', '.join(families)}). "
        "Build all with geometry='gram', or all with 'ball' or 'ellipsoid'."
    )


def combine_metrics(metrics: Sequence[Metric], weights: np.ndarray) -> Metric:
    """Return the weighted sum of metrics of one family."""
    check_family(metrics)
    return weighted_sum(metrics[0], metrics, weights)


# ---- generic, with a shorter way for some metrics ------------------------------------


@singledispatch
def squared_norm(metric: Metric, W: np.ndarray) -> np.ndarray:
    """Return the squared length of changes W of shape (..., n_params, n_outputs)."""
    return np.einsum("...ij,...ij->...", W, metric.mv(W))


@singledispatch
def weighted_sum(
    first: Metric, metrics: Sequence[Metric], weights: np.ndarray
) -> Metric:
    """Return the weighted sum of metrics that are all of the class of the first one."""
    raise TypeError(
        f"Metrics of the class {type(first).__name__} cannot be added up, so spaces of "
        "different metrics cannot be intersected. Register a function of the first "
        "metric, all metrics and their weights with skgems.spaces.weighted_sum."
    )


@singledispatch
def select_outputs(metric: Metric, places: np.ndarray) -> Metric:
    """Return the metric of other outputs: for each, its place in this one.

    A place may be there several times. At -1, where a metric allows it, an output is
    free.
    """
    if metric.shape[1] is None:
        return metric
    raise TypeError(
        f"Metrics of the class {type(metric).__name__} cannot be taken to other "
        "outputs. Register a function of the metric and places with "
        "skgems.spaces.select_outputs, or let the metric measure any number of outputs "
        "alike."
    )


@singledispatch
def diagonal(metric: Metric, origin: np.ndarray | None = None) -> np.ndarray:
    """Return the diagonal of P, (n_params, n_outputs), or (n_params, 1) for any.

    With an origin of shape (n_features,) it is that of the same models on rows less
    the origin, whose intercepts are larger by ``w' origin``.
    """
    return np.einsum("kii->ik", _matrices(metric, origin))


@singledispatch
def mean_matrix(metric: Metric, origin: np.ndarray | None = None) -> np.ndarray:
    """Return P of the mean output, (n_params, n_params); origin as in `diagonal`."""
    return _matrices(metric, origin).mean(axis=0)


@singledispatch
def row_norms(
    metric: Metric,
    X: Rows,
    outputs: np.ndarray | None = None,
    *,
    squared: bool = False,
) -> np.ndarray:
    """Return the largest change of logits over the unit ball, ``|R^-T [x_i; 1]|``.

    Of shape (n_rows, n_compared) for a mask of outputs (None: all), or (n_rows, 1)
    where the metric measures any number of outputs.
    """
    n_params, n_outputs = metric.shape
    if n_outputs is not None:
        metric = select_outputs(metric, output_columns(outputs, n_outputs))
    ones = np.ones(metric.shape[1] or 1)
    squares = np.empty((X.shape[0], len(ones)))
    # The rows once for each output, and what they are divided to.
    row_bytes = 2 * 8 * n_params * len(ones)
    for rows in row_blocks(X, bytes_per_row=row_bytes, limit=working_bytes()):
        extended = _extended(X[rows])[:, :, None] * ones
        squares[rows] = np.einsum("nij,nij->nj", extended, metric.solve(extended))
    return squares if squared else np.sqrt(squares)


@singledispatch
def ray_map(
    metric: Metric, X: Rows, columns: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the map from isotropic directions to the logits' changes on X.

    From shape (n_directions, n_columns, n_params), of the outputs at some columns, to
    (..., n_rows).
    """
    if metric.shape[1] is not None:
        metric = select_outputs(metric, columns)
    dtype = float_type(X)

    def changes(directions: np.ndarray) -> np.ndarray:
        by_params = np.swapaxes(directions.astype(dtype, copy=False), -1, -2)
        steps = np.swapaxes(metric.unwhiten(by_params), -1, -2)
        return logits_on_rows(steps.astype(dtype, copy=False), X)

    return changes


def apply_to_params(
    function: Callable[[np.ndarray], np.ndarray], array: np.ndarray
) -> np.ndarray:
    """Apply a function of (n_params, m) arrays to one of (..., n_params, n_outputs)."""
    params_first = np.moveaxis(array, -2, 0)
    flat = function(params_first.reshape(params_first.shape[0], -1))
    return np.moveaxis(flat.reshape(params_first.shape), 0, -2)


def _matrices(metric: Metric, origin: np.ndarray | None) -> np.ndarray:
    """Return P of each output less an origin, (n_outputs or 1, n_params, n_params)."""
    n_params, n_outputs = metric.shape
    basis = np.eye(n_params)[:, :, None] * np.ones(n_outputs or 1)
    matrices = np.moveaxis(metric.mv(basis), -1, 0)
    if origin is None:
        return matrices
    # The intercept on the rows themselves is b = b' - w' origin.
    to_rows = np.eye(n_params)
    to_rows[-1, :-1] = -origin
    return to_rows.T @ matrices @ to_rows


def _extended(X: Rows) -> np.ndarray:
    """Return dense rows with a 1 after the features, in float64."""
    return np.column_stack([dense_rows(X), np.ones(X.shape[0])])
