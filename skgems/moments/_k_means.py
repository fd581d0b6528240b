# SPDX-License-Identifier: BSD-3-Clause
"""k-means of a few thousand rows, by their products with each other."""

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from ._blocks import indicator

# Rows whose products with each other are all held: 32 MB.
_MOST_HELD = 2048
# Squared distances that are rounding, relative to the squared length of rows.
_ROUNDING = 1e-12


def k_means(
    rows,
    n_clusters: int,
    *,
    weights: np.ndarray | None = None,
    max_iter: int = 20,
    random_state=None,
) -> np.ndarray:
    """Cluster of each row, from 0, none left out: k-means++, then Lloyd's steps.

    At most `n_clusters`: equal rows share one. Rows are float64, dense or CSR. Arthur,
    Vassilvitskii 2007, with several candidates a centre, as in scikit-learn.
    """
    rng, n_rows = check_random_state(random_state), rows.shape[0]
    weights = np.ones(n_rows) if weights is None else weights
    squares = row_norms(rows, squared=True)
    noise = _ROUNDING * squares.max()
    held = None
    if n_rows <= min(2 * rows.shape[1], _MOST_HELD):
        held = safe_sparse_dot(rows, rows.T, dense_output=True)

    def products(shares) -> np.ndarray:
        """Of means of rows, so much of each, with every row."""
        if held is not None:
            return shares @ held
        return safe_sparse_dot(shares @ rows, rows.T, dense_output=True)

    def distances(chosen: np.ndarray) -> np.ndarray:
        """Squared, of every row from some of them."""
        if held is not None:
            found = held[chosen]
        else:
            found = safe_sparse_dot(rows[chosen], rows.T, dense_output=True)
        found = squares[chosen][:, None] - 2.0 * found + squares
        return np.where(found > noise, found, 0.0)

    labels = _nearest_seeds(distances, weights, n_clusters, rng)
    for _ in range(max_iter):
        counts = np.bincount(labels, weights=weights)
        values, every = weights / counts[labels], np.arange(n_rows)
        to_rows = products(indicator(labels, len(counts), values))
        lengths = np.bincount(labels, weights=values * to_rows[labels, every])
        to_rows *= -2.0
        to_rows += lengths[:, None]
        found = np.unique(np.argmin(to_rows, axis=0), return_inverse=True)[1]
        if np.array_equal(found, labels):
            break
        labels = found
    return labels


def _nearest_seeds(distances, weights, n_clusters: int, rng) -> np.ndarray:
    """Which of some rows that are far from each other each row is nearest to."""
    n_rows = len(weights)
    n_trials = 2 + int(np.log(n_clusters))
    shares = np.cumsum(weights)
    first = min(np.searchsorted(shares, rng.uniform() * shares[-1]), n_rows - 1)
    nearest, labels = distances(np.array([first]))[0], np.zeros(n_rows, dtype=np.intp)
    for label in range(1, n_clusters):
        shares = np.cumsum(weights * nearest)
        if not shares[-1] > 0:
            break  # no other row is left
        tried = np.searchsorted(shares, rng.uniform(size=n_trials) * shares[-1])
        tried = np.minimum(tried, n_rows - 1)
        found = np.minimum(distances(tried), nearest)
        best = found[np.argmin(found @ weights)]
        labels[best < nearest] = label
        nearest = best
    return np.unique(labels, return_inverse=True)[1]
