"""Solve the equations of linear classifiers whose matrices are sums over rows.

Sums hold squares: where features nearly depend on each other, a matrix has half of the
digits that rows have. So a matrix is factored with its diagonal made 1. Where its
condition is too large still, the directions in which rows vary are found, and others
are left out.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, eigh, svd
from scipy.linalg.lapack import dpocon, dpotrf

from ._promises import PROMISE

_EPS = np.finfo(np.float64).eps


def solve_ridge(scatter: np.ndarray, cross: np.ndarray, *, alpha: float) -> np.ndarray:
    """Solve ``(scatter + alpha) W = cross``."""
    solve = _cholesky_solver(_with_alpha(scatter, alpha))
    if solve is not None:
        return solve(cross)
    root = Root.from_scatter(scatter)
    return _ridge_of_rows(root.rows(), root.targets(cross), alpha=alpha)


def solve_ridge_with_row(
    scatter: np.ndarray,
    cross: np.ndarray,
    *,
    alpha: float,
    row: np.ndarray,  # (n_features,)
    target: np.ndarray,  # (n_outputs,)
) -> np.ndarray:
    """Solve ``(scatter + row row' + alpha) W = cross + row target'`` for a long row.

    A row much longer than those of the scatter would cost the factor their digits.
    """
    shifted = _with_alpha(scatter, alpha)
    solve = _cholesky_solver(shifted + np.outer(row, row))
    if solve is not None:
        return solve(cross + np.outer(row, target))
    solve = _cholesky_solver(shifted)
    if solve is None:
        root = Root.from_scatter(scatter)
        rows = np.vstack([root.rows(), row])
        targets = np.vstack([root.targets(cross), target])
        return _ridge_of_rows(rows, targets, alpha=alpha)
    solved = solve(np.column_stack([cross, row]))
    W = solved[:, :-1]
    along_row = solved[:, -1]
    # By Sherman and Morrison, with B = inv(scatter + alpha): the solution is
    # W + B row (target - row' W) / (1 + row' B row), W = B cross. So the long row never
    # enters the factor.
    return W + np.outer(along_row, (target - row @ W) / (1.0 + row @ along_row))


def _with_alpha(scatter: np.ndarray, alpha: float) -> np.ndarray:
    shifted = scatter.copy()
    shifted[np.diag_indices_from(shifted)] += alpha
    return shifted


def _ridge_of_rows(
    rows: np.ndarray, targets: np.ndarray, *, alpha: float
) -> np.ndarray:
    """Ridge of rows (n_rows, n_features) where these are fewer than features, or so.

    Directions whose singular value s is rounding are left out; others get
    ``s / (s^2 + alpha)``.
    """
    if not len(rows):
        return np.zeros((rows.shape[1], targets.shape[1]))
    left_vectors, sizes, right = svd(rows, full_matrices=False)
    # 8 times the cut of numpy's matrix_rank: rows are made of a scatter, which is
    # rounded itself.
    is_kept = sizes > 8 * max(rows.shape) * _EPS * sizes[0]
    gains = sizes[is_kept] / (sizes[is_kept] ** 2 + alpha)
    return right[is_kept].T @ (gains[:, None] * (left_vectors[:, is_kept].T @ targets))


def solve_least_squares(covariance: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Solve ``covariance W = columns``, in least squares of least norm."""
    solve = _cholesky_solver(covariance)
    if solve is not None:
        return solve(columns)
    rows = Root.from_scatter(covariance).rows()
    if not len(rows):
        return np.zeros_like(columns)
    _, sizes, right = svd(rows, full_matrices=False)
    # As lstsq, which scikit-learn calls: it leaves out singular values of the
    # covariance, squares of these sizes, below this share of the largest.
    is_kept = sizes**2 > _EPS * sizes[0] ** 2
    kept_right = right[is_kept]
    return kept_right.T @ ((kept_right @ columns) / sizes[is_kept, None] ** 2)


def _cholesky_solver(
    matrix: np.ndarray,
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Solver of equations with a matrix; None where it is not well conditioned."""
    diagonal = matrix.diagonal()
    if not (diagonal > 0).all():
        return None
    scale = 1.0 / np.sqrt(diagonal)
    scaled = scale[:, None] * matrix * scale
    norm = np.abs(scaled).sum(axis=0).max()
    factor, failed = dpotrf(scaled, lower=True)
    if failed:
        return None
    inverse_condition = dpocon(factor, norm, uplo="L")[0]
    # Up to this condition, of features in units of their own deviation, Cholesky keeps
    # the digits that sums have: of 16 digits those are left that are promised.
    if inverse_condition < PROMISE:
        return None
    scale_column = scale[:, None]
    return lambda columns: (
        scale_column * cho_solve((factor, True), scale_column * columns)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Root:
    """Directions in which rows vary, of features in units of their own deviations.

    ``scatter = D V diag(r^2) V' D``, for scale D, vectors V and roots r.
    """

    scale: np.ndarray  # (n_features,), deviations; 1 of constant features
    vectors: np.ndarray  # (n_features, rank), orthonormal
    roots: np.ndarray  # (rank,), deviations along them
    squares: np.ndarray  # of all directions, those without rows too, ascending

    @classmethod
    def from_scatter(cls, scatter: np.ndarray, *, least_square: float = 0.0) -> "Root":
        """Keep directions whose squares are above ``least_square`` and rounding."""
        variances = np.maximum(scatter.diagonal(), 0.0)
        scale = np.where(variances > 0, np.sqrt(variances), 1.0)
        squares, vectors = eigh(scatter / scale[:, None] / scale)
        # Eigenvalues round to d units in the last place of the largest; 16 of these,
        # since the scatter is a rounded sum itself.
        noise = 16 * len(scale) * _EPS * max(squares[-1], 0.0)
        is_kept = squares > max(noise, least_square)
        return cls(
            scale=scale,
            vectors=vectors[:, is_kept],
            roots=np.sqrt(squares[is_kept]),
            squares=squares,
        )

    def rows(self) -> np.ndarray:
        """Return as many rows as directions, whose products are the scatter."""
        return self.roots[:, None] * self.vectors.T * self.scale

    def targets(self, cross: np.ndarray) -> np.ndarray:
        """Targets of :meth:`rows` whose products with them are ``cross``."""
        return (self.vectors.T @ (cross / self.scale[:, None])) / self.roots[:, None]
