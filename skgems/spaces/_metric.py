# SPDX-License-Identifier: BSD-3-Clause
"""Metrics: how far two linear models are apart, seen from one node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import linalg, sparse
from sklearn import get_config
from sklearn.utils import gen_batches
from sklearn.utils.extmath import safe_sparse_dot

__all__ = [
    "DiagonalMetric",
    "GramMetric",
    "ball_metric",
    "combine_metrics",
    "ellipsoid_metric",
    "gram_metric",
]

# Blocks of X that are squared are made to stay in the cache of one core.
_CACHE_BYTES = 2**19

# What a feature that is 0 on all rows counts, relative to the mean feature.
_ABSENT = 1e-6


def working_bytes() -> int:
    """Memory in bytes that scikit-learn's ``working_memory`` grants."""
    return int(get_config()["working_memory"] * 2**20)


def float_type(X) -> np.dtype:
    """float32 for float32 rows, else float64: the type products are done in."""
    return np.dtype(np.float32 if X.dtype == np.float32 else np.float64)


def output_columns(outputs: np.ndarray | None, n_outputs: int) -> np.ndarray:
    """Indices of the outputs that are compared; None means all of them."""
    if outputs is None:
        return np.arange(n_outputs)
    outputs = np.asarray(outputs)
    if outputs.dtype != bool or outputs.shape != (n_outputs,):
        raise ValueError(
            f"outputs must be a boolean mask of shape ({n_outputs},), got an array of "
            f"{outputs.dtype} of shape {outputs.shape}."
        )
    if not outputs.any():
        raise ValueError("outputs selects no output at all.")
    return np.flatnonzero(outputs)


def row_blocks(X, bytes_per_row: int, limit: int) -> list[slice]:
    """Slices over the rows of X, each within `limit` bytes (one row at least)."""
    size = max(1, min(X.shape[0], limit // max(1, bytes_per_row)))
    return list(gen_batches(X.shape[0], size))


def _squares(X):
    """Yield (rows, X[rows] ** 2), in blocks that stay in cache where X is dense."""
    if sparse.issparse(X):
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        squared = sparse.csr_matrix((X.data**2, X.indices, X.indptr), shape=X.shape)
        yield slice(0, X.shape[0]), squared
        return
    blocks = row_blocks(X, X.shape[1] * X.itemsize, _CACHE_BYTES)
    buffer = np.empty((blocks[0].stop, X.shape[1]), dtype=X.dtype)
    for rows in blocks:
        block = buffer[: rows.stop - rows.start]
        yield rows, np.multiply(X[rows], X[rows], out=block)


@dataclass(frozen=True, eq=False)
class DiagonalMetric:
    """Squared length ``sum(precision * delta ** 2)``: a ball or an ellipsoid.

    Parameters
    ----------
    precision : ndarray of shape (n_params, n_outputs)
        One number a parameter, at least 0. 0 leaves that parameter free: it does not
        count in the distance, and is never moved by `whiten`.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import DiagonalMetric
    >>> metric = DiagonalMetric(np.array([[4.0, 1.0], [0.0, 1.0]]))
    >>> float(metric.squared_norm(np.ones((2, 2))))
    6.0
    """

    precision: np.ndarray

    family: ClassVar[str] = "diagonal"

    def __post_init__(self) -> None:
        precision = np.asarray(self.precision, dtype=np.float64)
        if precision.ndim != 2 or not np.isfinite(precision).all():
            raise ValueError("precision must be a finite array with 2 dimensions.")
        if precision.size and precision.min() < 0:
            raise ValueError("precision must not be negative.")
        object.__setattr__(self, "precision", precision)

    @property
    def n_params(self) -> int:
        """Rows of a parameter array: features and the intercept."""
        return self.precision.shape[0]

    @property
    def n_outputs(self) -> int | None:
        """Columns of a parameter array."""
        return self.precision.shape[1]

    @cached_property
    def axes(self) -> np.ndarray:
        """Half axes of the unit ball, 1 / sqrt(precision); 0 where free."""
        with np.errstate(divide="ignore"):
            return np.where(self.precision > 0, self.precision**-0.5, 0.0)

    def n_constrained(self, n_outputs: int | None = None) -> int:
        """Count the parameters that are not free."""
        return int(np.count_nonzero(self.precision))

    def squared_norm(self, delta: np.ndarray) -> np.ndarray:
        """Squared length of `delta` of shape (..., n_params, n_outputs)."""
        return np.einsum("...ij,...ij,ij->...", delta, delta, self.precision)

    def apply(self, delta: np.ndarray) -> np.ndarray:
        """Multiply `delta` by P."""
        return self.precision * delta

    def whiten(self, directions: np.ndarray) -> np.ndarray:
        """Carry isotropic directions to this metric, P^(-1/2); free entries give 0."""
        return self.axes * directions

    def diagonal(self) -> np.ndarray:
        """Diagonal of P, of shape (n_params, n_outputs)."""
        return self.precision

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """Multiply `rhs` by P^(-1); free entries give 0."""
        return self.axes**2 * rhs

    def row_norms(
        self, X, outputs: np.ndarray | None = None, *, squared: bool = False
    ) -> np.ndarray:
        """Largest change of each logit over the unit ball, ``||P_c^(-1/2) [x_i; 1]||``.

        Returns an array of shape (n_rows, n_outputs compared); 0 for free outputs.
        """
        columns = output_columns(outputs, self.n_outputs)
        weights = (self.axes[:, columns] ** 2).astype(float_type(X), copy=False)
        norms = np.empty((X.shape[0], len(columns)))
        for rows, squares in _squares(X):
            norms[rows] = squares @ weights[:-1]
        norms += weights[-1]
        return norms if squared else np.sqrt(norms)

    def free_outputs(self, outputs: np.ndarray | None = None) -> np.ndarray:
        """Indices of the outputs compared in which some parameter is free."""
        columns = output_columns(outputs, self.n_outputs)
        return columns[(self.precision[:, columns] == 0).any(axis=0)]

    def free_mask(self) -> np.ndarray | None:
        """Mask of shape (n_params, n_outputs) of the free parameters; None: none."""
        mask = self.precision == 0
        return mask if mask.any() else None

    def ray_map(self, X, columns: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the map from isotropic directions to the logits' changes on X.

        The map takes an array of shape (n_directions, n_columns, n_params), which it
        may overwrite, to one of shape (n_directions, n_columns, n_rows).
        """
        axes = np.ascontiguousarray(self.axes[:, columns].T, dtype=float_type(X))

        def changes(directions: np.ndarray) -> np.ndarray:
            directions = np.multiply(directions, axes, dtype=axes.dtype)
            return _times_rows(directions, X)

        return changes

    @classmethod
    def combine(
        cls, metrics: Sequence[DiagonalMetric], weights: np.ndarray
    ) -> DiagonalMetric:
        """Return the weighted sum of metrics of this family."""
        _check_family(cls, metrics)
        total = np.zeros_like(metrics[0].precision)
        for metric, weight in zip(metrics, weights, strict=True):
            total += weight * metric.precision
        return cls(total)


@dataclass(frozen=True, eq=False)
class GramMetric:
    """Squared length ``tr(delta' A delta B)``: one matrix A, B diagonal over outputs.

    With ``A = X1' X1 / n`` (X1: X with a column of ones) and B the identity the length
    is the root mean square change of the logits on the rows of X.

    Parameters
    ----------
    gram : ndarray of shape (n_params, n_params)
        Symmetric and positive definite. It is kept by reference: thousands of spaces
        may share one metric and its Cholesky factor.
    output_weights : ndarray of shape (n_outputs,), default=None
        Diagonal of B, above 0: how much a change of each output's logit counts.
        None: all alike, for any number of outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import GramMetric
    >>> metric = GramMetric(np.array([[2.0, 0.0], [0.0, 1.0]]))
    >>> float(metric.squared_norm(np.ones((2, 1))))
    3.0
    """

    gram: np.ndarray
    output_weights: np.ndarray | None = None

    family: ClassVar[str] = "gram"

    def __post_init__(self) -> None:
        gram = np.ascontiguousarray(self.gram, dtype=np.float64)
        if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
            raise ValueError(f"gram must be a square array, got shape {gram.shape}.")
        object.__setattr__(self, "gram", gram)
        if self.output_weights is None:
            return
        weights = np.asarray(self.output_weights, dtype=np.float64)
        if weights.ndim != 1 or not (
            np.isfinite(weights).all() and (weights > 0).all()
        ):
            raise ValueError(
                f"output_weights must hold finite numbers above 0, got {weights}."
            )
        object.__setattr__(self, "output_weights", weights)

    @property
    def n_params(self) -> int:
        """Rows of a parameter array: features and the intercept."""
        return self.gram.shape[0]

    @property
    def n_outputs(self) -> int | None:
        """Columns of a parameter array; None: any number."""
        return None if self.output_weights is None else len(self.output_weights)

    @cached_property
    def factor(self) -> np.ndarray:
        """Lower Cholesky factor L of the gram matrix, ``A = L L'``."""
        return _cholesky(self.gram)

    @cached_property
    def _roots(self) -> np.ndarray | float:
        return 1.0 if self.output_weights is None else np.sqrt(self.output_weights)

    def n_constrained(self, n_outputs: int | None = None) -> int:
        """Count the parameters that are not free: all, for `n_outputs` outputs."""
        return self.n_params * (1 if n_outputs is None else n_outputs)

    def squared_norm(self, delta: np.ndarray) -> np.ndarray:
        """Squared length of `delta` of shape (..., n_params, n_outputs)."""
        return np.einsum("...ij,...ij->...", delta, self.apply(delta))

    def apply(self, delta: np.ndarray) -> np.ndarray:
        """Multiply `delta` by P."""
        return self.gram @ delta * self._roots**2

    def diagonal(self) -> np.ndarray:
        """Diagonal of P, of shape (n_params, n_outputs), or (n_params, 1) for any."""
        return np.diag(self.gram)[:, None] * np.atleast_1d(self._roots) ** 2

    def whiten(self, directions: np.ndarray) -> np.ndarray:
        """Carry isotropic directions to this metric, ``L^(-T)`` and ``B^(-1/2)``."""
        white = _on_params(
            lambda flat: linalg.solve_triangular(
                self.factor, flat, lower=True, trans="T", check_finite=False
            ),
            directions,
        )
        return white / self._roots

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """Multiply `rhs` by P^(-1)."""
        return _cho_solve(self.factor, rhs) / self._roots**2

    @cached_property
    def _inverse_factor(self) -> np.ndarray:
        return linalg.solve_triangular(
            self.factor, np.eye(self.n_params), lower=True, check_finite=False
        )

    def whiten_rows(self, X) -> np.ndarray:
        """Return ``L^(-1) [x_i; 1]`` for each row, shape (n_rows, n_params)."""
        inverse = self._inverse_factor.T.astype(float_type(X), copy=False)
        return safe_sparse_dot(X, inverse[:-1], dense_output=True) + inverse[-1]

    def row_norms(
        self, X, outputs: np.ndarray | None = None, *, squared: bool = False
    ) -> np.ndarray:
        """Largest change of each logit over the unit ball, ``||P_c^(-1/2) [x_i; 1]||``.

        Returns an array of shape (n_rows, n_outputs compared), or (n_rows, 1) where
        all outputs count alike.
        """
        norms = np.empty((X.shape[0], 1))
        row_bytes = 2 * self.n_params * float_type(X).itemsize
        for rows in row_blocks(X, row_bytes, working_bytes()):
            white = self.whiten_rows(X[rows])
            norms[rows, 0] = np.einsum("ij,ij->i", white, white, dtype=np.float64)
        if self.output_weights is not None:
            norms = norms / self.output_weights[output_columns(outputs, self.n_outputs)]
        return norms if squared else np.sqrt(norms)

    def free_outputs(self, outputs: np.ndarray | None = None) -> np.ndarray:
        """Indices of the outputs in which some parameter is free: none."""
        return np.empty(0, dtype=np.intp)

    def free_mask(self) -> None:
        """Mask of the free parameters; None: none."""
        return None

    def ray_map(self, X, columns: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the map from isotropic directions to the logits' changes on X.

        The map takes an array of shape (n_directions, n_columns, n_params), which it
        may overwrite, to one of shape (n_directions, n_columns, n_rows).
        """
        dtype = float_type(X)
        # Whitening the rows once is cheaper than whitening every direction.
        if 4 * X.shape[0] * self.n_params * dtype.itemsize <= working_bytes():
            rows = self.whiten_rows(X)

            def changes(directions: np.ndarray) -> np.ndarray:
                return directions.astype(dtype, copy=False) @ rows.T

        else:
            inverse = self._inverse_factor.astype(dtype, copy=False)

            def changes(directions: np.ndarray) -> np.ndarray:
                return _times_rows(directions.astype(dtype, copy=False) @ inverse, X)

        if self.output_weights is None:
            return changes
        roots = self._roots[columns].astype(np.float32)[:, None]
        return lambda directions: changes(np.divide(directions, roots, out=directions))

    @classmethod
    def combine(
        cls, metrics: Sequence[GramMetric], weights: np.ndarray
    ) -> GramMetric | GramSum:
        """Return the weighted sum of metrics of this family."""
        _check_family(cls, metrics)
        if any(metric.output_weights is not None for metric in metrics):
            return GramSum(list(metrics), np.asarray(weights, dtype=np.float64))
        return cls(_sum_of_grams(metrics, weights))


class GramSum:
    """Weighted sum of gram metrics that weigh the outputs differently.

    Each output has its own sum of grams; those that are alike (the classes of one
    node, say) share a Cholesky factor.

    Parameters
    ----------
    metrics : list of GramMetric
    weights : ndarray of shape (n_metrics,)
    """

    family = "gram"

    def __init__(self, metrics: list[GramMetric], weights: np.ndarray) -> None:
        per_output = [np.atleast_1d(metric._roots) ** 2 for metric in metrics]
        shares = np.stack(np.broadcast_arrays(*per_output)) * weights[:, None]
        sizes = shares.sum(axis=0)
        # Rounded, so that rounding errors do not split a group.
        patterns, group = np.unique(
            (shares / sizes).round(12), axis=1, return_inverse=True
        )
        self._sizes, self._group = sizes, group.ravel()
        self._grams = [_sum_of_grams(metrics, pattern) for pattern in patterns.T]

    @cached_property
    def _factors(self) -> list[np.ndarray]:
        return [_cholesky(gram) for gram in self._grams]

    def _on_groups(self, function: Callable, array: np.ndarray) -> np.ndarray:
        out = np.empty_like(array, dtype=np.float64)
        for index in range(len(self._grams)):
            columns = self._group == index
            out[..., columns] = function(index, array[..., columns])
        return out

    def apply(self, delta: np.ndarray) -> np.ndarray:
        """Multiply `delta` of shape (..., n_params, n_outputs) by P."""
        return self._sizes * self._on_groups(
            lambda i, part: self._grams[i] @ part, delta
        )

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """Multiply `rhs` of shape (..., n_params, n_outputs) by P^(-1)."""
        return (
            self._on_groups(lambda i, part: _cho_solve(self._factors[i], part), rhs)
            / self._sizes
        )

    def free_mask(self) -> None:
        """Mask of the free parameters; None: none."""
        return None

    def diagonal(self) -> np.ndarray:
        """Diagonal of P, of shape (n_params, n_outputs)."""
        diagonals = np.stack([np.diag(gram) for gram in self._grams], axis=1)
        return diagonals[:, self._group] * self._sizes


def _sum_of_grams(metrics: Sequence[GramMetric], weights: np.ndarray) -> np.ndarray:
    total = np.zeros_like(metrics[0].gram)
    shared: dict[int, float] = {}
    by_id = {id(metric.gram): metric.gram for metric in metrics}
    for metric, weight in zip(metrics, weights, strict=True):
        shared[id(metric.gram)] = shared.get(id(metric.gram), 0.0) + float(weight)
    for key, weight in shared.items():
        total += weight * by_id[key]
    return total


def _cholesky(gram: np.ndarray) -> np.ndarray:
    try:
        return linalg.cholesky(gram, lower=True)
    except linalg.LinAlgError:
        raise ValueError(
            "The gram matrix is not positive definite: some change of the "
            "parameters leaves every logit as it is. Give a larger ridge."
        ) from None


def _cho_solve(factor: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    return _on_params(
        lambda flat: linalg.cho_solve((factor, True), flat, check_finite=False), rhs
    )


Metric = DiagonalMetric | GramMetric


def combine_metrics(metrics: Sequence[Metric], weights: np.ndarray) -> Metric:
    """Return the weighted sum of metrics, which must be of one family.

    Raises
    ------
    TypeError
        If diagonal and gram metrics are mixed; the message names each.
    """
    return type(metrics[0]).combine(metrics, weights)


def _check_family(cls: type, metrics: Sequence[Metric]) -> None:
    if all(type(metric) is cls for metric in metrics):
        return
    names = ", ".join(f"{i}: {metric.family}" for i, metric in enumerate(metrics))
    raise TypeError(
        "Metrics of different families cannot be combined "
        f"({names}). Build all nodes' spaces with geometry='gram', or all with 'ball' "
        "or 'ellipsoid'."
    )


def _on_params(function: Callable, array: np.ndarray) -> np.ndarray:
    """Apply a function of (n_params, m) arrays to one of (..., n_params, n_outputs)."""
    moved = np.moveaxis(array, -2, 0)
    flat = function(moved.reshape(moved.shape[0], -1))
    return np.moveaxis(flat.reshape(moved.shape), 0, -2)


def _times_rows(directions: np.ndarray, X) -> np.ndarray:
    """Logits of models of shape (m, n_columns, n_params) on X: (m, n_columns, n)."""
    flat = directions.reshape(-1, directions.shape[-1])
    if sparse.issparse(X):
        logits = np.ascontiguousarray((X @ np.ascontiguousarray(flat[:, :-1].T)).T)
    else:
        logits = flat[:, :-1] @ X.T
    logits += flat[:, -1:]
    return logits.reshape(*directions.shape[:-1], -1)


def ball_metric(n_params: int, outputs: np.ndarray) -> DiagonalMetric:
    """Metric of a ball, ``||delta||_F`` over the known outputs.

    Parameters
    ----------
    n_params : int
        Number of features and one for the intercept.
    outputs : ndarray of bool of shape (n_outputs,)
        Outputs the node knows; the parameters of the others are free.

    Returns
    -------
    metric : DiagonalMetric

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import ball_metric
    >>> ball_metric(2, np.array([True, False])).precision
    array([[1., 0.],
           [1., 0.]])
    """
    outputs = np.asarray(outputs)
    output_columns(outputs, len(outputs))
    return DiagonalMetric(np.tile(outputs.astype(np.float64), (n_params, 1)))


def ellipsoid_metric(
    X,
    probabilities: np.ndarray,
    *,
    floor: float = 0.1,
    damping: float = 0.1,
    outputs: np.ndarray | None = None,
) -> DiagonalMetric:
    r"""Metric of an ellipsoid along the axes, from the diagonal Fisher information.

    The half axes of the unit ellipsoid are :math:`a_{jc} = \max((\min F + \delta) /
    (F_{jc} + \delta), floor)`, with :math:`F_{jc} = \frac1n \sum_i x_{ij}^2 p_{ic}
    (1 - p_{ic})` (for the intercepts x = 1): the Fisher information of a softmax
    model, its expectation taken exactly over the model's own predictive distribution.
    :math:`\delta = damping \cdot \mathrm{mean}(F)`.

    Parameters
    ----------
    X : {ndarray, csr_matrix} of shape (n_rows, n_features)
        Rows of the node, float32 or float64.
    probabilities : ndarray of shape (n_rows, n_outputs)
        Probabilities the model gives to the outputs.
    floor : float in [0, 1], default=0.1
        Smallest half axis, as a part of the largest.
    damping : float, default=0.1
        Part of the mean of F that is added to every entry, since entries may be 0.
    outputs : ndarray of bool of shape (n_outputs,), default=None
        Outputs the node knows; the parameters of the others are free. None: all.

    Returns
    -------
    metric : DiagonalMetric

    References
    ----------
    Guha et al., "Model Aggregation via Good-Enough Model Spaces", 2019, appendix A,
    Eq. 4-5.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import ellipsoid_metric
    >>> X = np.array([[1.0, 0.0], [2.0, 1.0]])
    >>> p = np.full((2, 2), 0.5)
    >>> metric = ellipsoid_metric(X, p, floor=0.1, damping=0.0)
    >>> metric.axes.round(2)
    array([[0.2, 0.2],
           [1. , 1. ],
           [0.5, 0.5]])
    """
    if not 0 <= floor <= 1:
        raise ValueError(f"floor must be in [0, 1], got {floor}.")
    if not 0 <= damping < np.inf:
        raise ValueError(f"damping must be finite and at least 0, got {damping}.")
    if floor == 0 and damping == 0:
        raise ValueError("floor and damping must not both be 0: axes would be 0.")
    probabilities = np.asarray(probabilities)
    n_rows, n_outputs = probabilities.shape
    if n_rows != X.shape[0] or n_rows == 0:
        raise ValueError(
            f"probabilities has {n_rows} rows, X has {X.shape[0]}: they must be equal "
            "and not 0."
        )
    columns = output_columns(outputs, n_outputs)
    variance = probabilities[:, columns] * (1.0 - probabilities[:, columns])
    typed = variance.astype(float_type(X), copy=False)
    fisher = np.zeros((X.shape[1] + 1, len(columns)))
    for rows, squares in _squares(X):
        fisher[:-1] += squares.T @ typed[rows]
    fisher[-1] = variance.sum(axis=0)
    fisher /= n_rows
    damped = fisher + damping * fisher.mean()
    smallest = damped.min()
    # 0 / 0: no information anywhere, then all axes are equal.
    ratio = np.divide(smallest, damped, out=np.ones_like(damped), where=damped > 0)
    precision = np.zeros((X.shape[1] + 1, n_outputs))
    precision[:, columns] = np.maximum(ratio, floor) ** -2.0
    return DiagonalMetric(precision)


def gram_metric(
    X, *, ridge: float = 0.3, output_weights: np.ndarray | None = None
) -> GramMetric:
    r"""Metric of the root mean square change of the logits on a node's rows.

    :math:`A = X_1' X_1 / n + \rho\, \mathrm{diag}(X_1' X_1 / n)`, :math:`X_1` being X
    with a column of ones and :math:`\rho` the `ridge`. The ridge is relative to each
    feature's own second moment, so the metric does not depend on the units of any
    feature. Features that are 0 on all rows get a vanishing share of the mean diagonal.

    Parameters
    ----------
    X : {ndarray, csr_matrix} of shape (n_rows, n_features)
        Rows of the node. A is computed in float64 whatever their type.
    ridge : float, default=0.3
        At least 0; 0 needs rows that span all features.
    output_weights : ndarray of shape (n_outputs,), default=None
        How much the logit of each output counts. None: all alike.

    Returns
    -------
    metric : GramMetric

    Raises
    ------
    ValueError
        If A does not fit scikit-learn's ``working_memory``.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import gram_metric
    >>> gram_metric(np.array([[1.0], [3.0]]), ridge=0.1).gram
    array([[5.5, 2. ],
           [2. , 1.1]])
    """
    if not 0 <= ridge < np.inf:
        raise ValueError(f"ridge must be finite and at least 0, got {ridge}.")
    n_rows, n_features = X.shape
    if n_rows == 0:
        raise ValueError("X has no rows.")
    n_bytes = 8 * (n_features + 1) ** 2
    if n_bytes > working_bytes():
        raise ValueError(
            f"geometry='gram' needs a matrix of {n_features + 1} x {n_features + 1} "
            f"numbers a node ({n_bytes / 2**20:.0f} MiB), more than scikit-learn's "
            f"working_memory ({get_config()['working_memory']} MiB). Use "
            "geometry='ellipsoid', or raise working_memory by sklearn.set_config."
        )
    gram = np.empty((n_features + 1, n_features + 1))
    features = gram[:-1, :-1]
    if sparse.issparse(X):
        wide = X.astype(np.float64, copy=False)
        features[:] = safe_sparse_dot(wide.T, wide, dense_output=True)
    else:
        features[:] = 0.0
        limit = max(working_bytes() // 16, 2**20)
        for rows in row_blocks(X, 8 * n_features, limit):
            block = X[rows].astype(np.float64, copy=False)
            features += block.T @ block
    features /= n_rows
    gram[-1, :-1] = gram[:-1, -1] = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
    gram[-1, -1] = 1.0
    index = np.arange(n_features + 1)
    diagonal = gram[index, index]
    absent = _ABSENT * diagonal.mean() * (diagonal == 0) * (ridge > 0)
    gram[index, index] += ridge * diagonal + absent
    return GramMetric(gram, output_weights)
