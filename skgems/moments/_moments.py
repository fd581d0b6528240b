# SPDX-License-Identifier: BSD-3-Clause
"""Second moments of rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.utils.extmath import safe_sparse_dot

from ._blocks import float_type, row_blocks, square_blocks, working_bytes


@dataclass(frozen=True, eq=False)
class Moments:
    """Second moments of a node's rows.

    Attributes
    ----------
    n_rows : int
        Rows they are made of.
    second : ndarray of shape (n_features + 1, n_features + 1)
        ``X1' X1 / n_rows``, X1 being the rows with a 1 at the end; in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.moments import second_moments
    >>> moments = second_moments(np.array([[1.0], [3.0]]))
    >>> moments.second
    array([[5., 2.],
           [2., 1.]])
    >>> moments.mean, moments.covariance
    (array([2.]), array([[1.]]))
    """

    n_rows: int
    second: np.ndarray = field(repr=False)

    @property
    def mean(self) -> np.ndarray:
        """Mean of each feature, shape (n_features,)."""
        return self.second[-1, :-1].copy()

    @property
    def covariance(self) -> np.ndarray:
        """Mean product of deviations, shape (n_features, n_features)."""
        mean = self.mean
        return self.second[:-1, :-1] - np.outer(mean, mean)


def second_moments(X) -> Moments:
    """Second moments of rows, in one pass.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_rows, n_features)
        Rows, float32 or float64.

    Returns
    -------
    moments : Moments
        Computed in float64 whatever the dtype of the rows.

    Raises
    ------
    ValueError
        If there are no rows, or the matrix does not fit scikit-learn's
        ``working_memory``.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.moments import second_moments
    >>> second_moments(np.ones((4, 2))).n_rows
    4
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
    second = np.empty((n_features + 1, n_features + 1))
    if sparse.issparse(X):
        wide = X.astype(np.float64, copy=False)
        second[:-1, :-1] = safe_sparse_dot(wide.T, wide, dense_output=True)
        second[-1, :-1] = second[:-1, -1] = np.asarray(wide.sum(axis=0)).ravel()
        second[-1, -1] = n_rows
    else:
        limit = max(working_bytes() // 16, 2**20)
        for rows in row_blocks(X, 8 * (n_features + 1), limit):
            block = np.ones((rows.stop - rows.start, n_features + 1))
            block[:, :-1] = X[rows]
            if rows.start == 0:
                np.matmul(block.T, block, out=second)
            else:
                second += block.T @ block
    second /= n_rows
    return Moments(n_rows, second)


def mean_squares(X, weights: np.ndarray) -> np.ndarray:
    """Mean of the squares of every feature, and of 1, under weights of the rows.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_rows, n_features)
        Rows, float32 or float64: products are done in that dtype.
    weights : ndarray of shape (n_rows, n_weights)

    Returns
    -------
    means : ndarray of shape (n_features + 1, n_weights)
        In float64.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.moments import mean_squares
    >>> mean_squares(np.array([[1.0], [3.0]]), np.array([[1.0, 0.0], [1.0, 1.0]]))
    array([[5. , 4.5],
           [1. , 0.5]])
    """
    typed = weights.astype(float_type(X), copy=False)
    means = np.zeros((X.shape[1] + 1, weights.shape[1]))
    for rows, _, squares in square_blocks(X):
        means[:-1] += squares.T @ typed[rows]
    means[-1] = weights.sum(axis=0)
    means /= X.shape[0]
    return means
