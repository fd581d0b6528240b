# SPDX-License-Identifier: BSD-3-Clause
"""Second moments of rows, and the log-loss of logits on rows."""

from dataclasses import dataclass, field

import numpy as np
from scipy import sparse
from scipy.special import logsumexp
from sklearn import get_config
from sklearn.utils.extmath import safe_sparse_dot

from ._blocks import float_type, row_blocks, square_blocks, working_bytes
from ._rounding import check_sizes, clear_constants, rounding


@dataclass(frozen=True, eq=False)
class Moments:
    """Number, mean and covariance of rows.

    The covariance is divided by `n_rows`, and exactly 0 for features that vary by
    rounding alone.
    """

    n_rows: int
    mean: np.ndarray = field(repr=False)  # (n_features,)
    covariance: np.ndarray = field(repr=False)  # (n_features, n_features)

    @property
    def second(self) -> np.ndarray:
        """``X1' X1 / n_rows`` of the rows with a 1 at the end."""
        extended = np.append(self.mean, 1.0)
        second = np.outer(extended, extended)
        second[:-1, :-1] += self.covariance
        return second


@np.errstate(over="ignore", invalid="ignore")  # what is too large is an error
def row_moments(X) -> Moments:
    """Mean and covariance of rows (ndarray or CSR), in float64 and one pass.

    Sparse rows are squared about 0, which costs the digits that means take. ValueError
    if there are none, values are too large or the matrix exceeds ``working_memory``.
    """
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
    if sparse.issparse(X):
        wide = X.astype(np.float64, copy=False)
        shift = np.zeros(n_features)
        mean = np.asarray(wide.mean(axis=0)).ravel()
        covariance = safe_sparse_dot(wide.T, wide, dense_output=True) / n_rows
    else:
        # Deviations from a row keep digits where means are far from 0.
        shift = X[0].astype(np.float64)
        # With a column of ones the same product gives the sums.
        sums = np.empty((n_features + 1, n_features + 1))
        limit = max(working_bytes() // 16, 2**20)
        for rows in row_blocks(X, 8 * (n_features + 1), limit):
            block = np.ones((rows.stop - rows.start, n_features + 1))
            np.subtract(X[rows], shift, out=block[:, :-1])
            if rows.start == 0:
                np.matmul(block.T, block, out=sums)
            else:
                sums += block.T @ block
        sums /= n_rows
        mean, covariance = sums[-1, :-1].copy(), sums[:-1, :-1]
    covariance = covariance - np.outer(mean, mean)
    mean = shift + mean
    sizes = np.abs(mean)
    check_sizes(sizes, n_rows * covariance.diagonal(), float_type(X))
    clear_constants(covariance, np.square(rounding(sizes, X)))
    return Moments(n_rows, mean, covariance)


def mean_squares(X, weights: np.ndarray) -> np.ndarray:
    """Mean of every feature's squares, and of 1, under weights (n_rows, n_weights).

    Of shape (n_features + 1, n_weights), in float64. Products are done in the dtype of
    the rows.
    """
    typed = weights.astype(float_type(X), copy=False)
    means = np.zeros((X.shape[1] + 1, weights.shape[1]))
    for rows, _, squares in square_blocks(X):
        means[:-1] += squares.T @ typed[rows]
    means[-1] = weights.sum(axis=0)
    means /= X.shape[0]
    return means


def mean_log_loss(logits: np.ndarray, y: np.ndarray) -> float:
    """Mean negative log-probability, in nats, of labels `y`, columns of `logits`."""
    rows = np.arange(y.shape[0])
    return float(np.mean(logsumexp(logits, axis=1) - logits[rows, y]))


def log_losses(logits: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-loss of each row, in nats, and its gradient in the logits.

    Labels `y` are columns of `logits`. The gradient is probabilities less one-hot
    labels.
    """
    shifted = logits - logits.max(axis=1, keepdims=True)
    residuals = np.exp(shifted)
    totals = residuals.sum(axis=1)
    index = np.arange(len(y))
    losses = np.log(totals) - shifted[index, y]
    residuals /= totals[:, None]
    residuals[index, y] -= 1.0
    return losses, residuals


def about_origin(W: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """A linear model of the same logits on rows less an origin."""
    return np.vstack([W[:-1], W[-1] + origin @ W[:-1]])
