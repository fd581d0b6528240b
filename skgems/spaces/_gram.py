# SPDX-License-Identifier: BSD-3-Clause
"""Gram metrics: one matrix of the rows' second moments, shared by the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import linalg
from sklearn.utils.extmath import safe_sparse_dot

from ..moments import float_type, row_blocks, working_bytes
from ._outputs import check_family, logits_on_rows, output_columns

__all__ = ["GramMetric"]


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

    def free_mask(self) -> None:
        """Mask of the free parameters; None: none."""
        return None

    def ray_map(self, X, columns: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the map from isotropic directions to the logits' changes on X.

        The map takes an array of shape (n_directions, n_columns, n_params) to one of
        shape (n_directions, n_columns, n_rows).
        """
        dtype = float_type(X)
        # Whitening the rows once is cheaper than whitening every direction.
        if 4 * X.shape[0] * self.n_params * dtype.itemsize <= working_bytes():
            rows = self.whiten_rows(X)

            def changes(directions: np.ndarray) -> np.ndarray:
                flat = directions.reshape(-1, self.n_params)
                product = flat.astype(dtype, copy=False) @ rows.T
                return product.reshape(*directions.shape[:-1], -1)

        else:
            inverse = self._inverse_factor.astype(dtype, copy=False)

            def changes(directions: np.ndarray) -> np.ndarray:
                flat = directions.reshape(-1, self.n_params)
                white = flat.astype(dtype, copy=False) @ inverse
                return logits_on_rows(white.reshape(directions.shape), X)

        if self.output_weights is None:
            return changes
        roots = self._roots[columns].astype(np.float32)[:, None]
        return lambda directions: changes(directions / roots)

    @classmethod
    def combine(
        cls, metrics: Sequence[GramMetric], weights: np.ndarray
    ) -> GramMetric | GramSum:
        """Return the weighted sum of metrics of this family."""
        check_family(cls, metrics)
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
        patterns = shares / sizes
        # Rounded, so that rounding errors do not split a group.
        _, first, group = np.unique(
            patterns.round(12), axis=1, return_index=True, return_inverse=True
        )
        self._sizes, self._group = sizes, group.ravel()
        self._grams = [_sum_of_grams(metrics, patterns[:, at]) for at in first]

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
        linalg.blas.daxpy(by_id[key].ravel(), total.ravel(), a=weight)
    return total


def _cholesky(gram: np.ndarray) -> np.ndarray:
    try:
        # Transposed it is in the order that LAPACK reads.
        return linalg.cholesky(gram.T, lower=True, check_finite=False)
    except linalg.LinAlgError:
        raise ValueError(
            "The gram matrix is not positive definite: some change of the "
            "parameters leaves every logit as it is. Give a larger ridge."
        ) from None


def _cho_solve(factor: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    return _on_params(
        lambda flat: linalg.cho_solve((factor, True), flat, check_finite=False), rhs
    )


def _on_params(function: Callable, array: np.ndarray) -> np.ndarray:
    """Apply a function of (n_params, m) arrays to one of (..., n_params, n_outputs)."""
    moved = np.moveaxis(array, -2, 0)
    flat = function(moved.reshape(moved.shape[0], -1))
    return np.moveaxis(flat.reshape(moved.shape), 0, -2)
