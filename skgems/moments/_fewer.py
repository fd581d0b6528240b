"""Moments made smaller: fewer parts by k-means, and rows drawn from moments.

k-means of rows x with weights w seeks the labels k(x) of the least

    sum w |x - c_k(x)|^2,    c_k = sum_{k(x) = k} w x / sum_{k(x) = k} w,

by Lloyd's steps: each row goes to the nearest center, each center to the mean of its
rows. As centers are sums of rows with the shares a_ki of row i in center k, all that is
needed are the products of rows with each other, K = X X^T:

    |x_i - c_k|^2 = K_ii - 2 (a K)_ki + (a K a^T)_kk.
"""

from collections.abc import Callable

import numpy as np
from numpy.random import RandomState
from scipy.sparse import sparray, spmatrix
from sklearn.utils import check_random_state
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from ..disclosure import indicator
from ._class_moments import SHARED, ClassMoments
from ._rows import MOST_OF_SQUARE, ULPS, Rows, ratio

# Digits of deviations, and of logarithms of variances, that k-means sees: where two
# rows are one cluster both are as far from its center, and rounding, which units
# change, would choose between them.
DIGITS = 6

# Takes indices of rows; returns squared distances, (n_indices, n_rows).
Distances = Callable[[np.ndarray], np.ndarray]


def k_means(
    rows: Rows,
    n_clusters: int,
    *,
    weights: np.ndarray | None = None,
    max_iter: int = 20,
    random_state: int | RandomState | None = None,
) -> np.ndarray:
    """Cluster of each row, by k-means++ and Lloyd's steps; equal rows share one."""
    rng = check_random_state(random_state)
    n_rows = rows.shape[0]
    if weights is None:
        weights = np.ones(n_rows)
    products = _RowProducts(rows)
    labels = _nearest_seeds(products.distances, weights, n_clusters=n_clusters, rng=rng)
    all_rows = np.arange(n_rows)
    for _ in range(max_iter):
        counts = np.bincount(labels, weights=weights)
        shares = weights / counts[labels]  # a_ki of the center that row i is in
        center_products = products.with_rows(indicator(labels, len(counts), shares))
        # (a K a^T)_kk, the squared lengths of centers.
        lengths = np.bincount(
            labels, weights=shares * center_products[labels, all_rows]
        )
        # In place, as it is the largest array: distances less the lengths of rows.
        center_products *= -2.0
        center_products += lengths[:, None]
        nearest = np.argmin(center_products, axis=0)
        # Centers that no row is nearest to are left out.
        new_labels = np.unique(nearest, return_inverse=True)[1]
        if np.array_equal(new_labels, labels):
            break
        labels = new_labels
    return labels


class _RowProducts:
    """Products of rows with sums of rows; those of few rows are made once and held."""

    def __init__(self, rows: Rows) -> None:
        n_rows, n_columns = rows.shape
        self._rows = rows
        self._squares = row_norms(rows, squared=True)
        # Squared distances that are rounding of products of so many columns.
        relative = ULPS * n_columns * np.finfo(np.float64).eps
        self._noise = relative * self._squares.max()
        # Products of rows with each other are made faster than with sums of rows anew
        # at each step, unless there are many more rows than columns.
        self._gram: np.ndarray | None = None  # (n_rows, n_rows)
        if n_rows <= min(2 * n_columns, MOST_OF_SQUARE):
            self._gram = safe_sparse_dot(rows, rows.T, dense_output=True)

    def with_rows(self, shares: spmatrix | sparray) -> np.ndarray:
        """``a K``, of sums with these shares in rows, (n_sums, n_rows) both."""
        if self._gram is not None:
            return shares @ self._gram
        return safe_sparse_dot(shares @ self._rows, self._rows.T, dense_output=True)

    def distances(self, chosen: np.ndarray) -> np.ndarray:
        """Squared distances of chosen rows, indices, from all; 0 where rounding."""
        if self._gram is not None:
            products = self._gram[chosen]
        else:
            products = safe_sparse_dot(
                self._rows[chosen], self._rows.T, dense_output=True
            )
        distances = self._squares[chosen][:, None] - 2.0 * products + self._squares
        return np.where(distances > self._noise, distances, 0.0)


def _nearest_seeds(
    distances: Distances, weights: np.ndarray, *, n_clusters: int, rng: RandomState
) -> np.ndarray:
    """Label of the nearest seed of each row, (n_rows,), by k-means++.

    Seeds are rows that are drawn one after the other in proportion to their weighted
    squared distance from the nearest seed so far; of several drawn the best stays.
    """
    n_rows = len(weights)
    # As scikit-learn's KMeans.
    n_trials = 2 + int(np.log(n_clusters))
    cumulated = np.cumsum(weights)
    # Rounding may take a number that is drawn beyond the last row.
    first = min(np.searchsorted(cumulated, rng.uniform() * cumulated[-1]), n_rows - 1)
    nearest = distances(np.array([first]))[0]  # squared distance of the nearest seed
    labels = np.zeros(n_rows, dtype=np.intp)
    for label in range(1, n_clusters):
        cumulated = np.cumsum(weights * nearest)
        if not cumulated[-1] > 0:
            break  # all rows are seeds, or equal to one
        trials = np.searchsorted(cumulated, rng.uniform(size=n_trials) * cumulated[-1])
        trials = np.minimum(trials, n_rows - 1)
        nearest_by_trial = np.minimum(distances(trials), nearest)
        best = nearest_by_trial[np.argmin(nearest_by_trial @ weights)]
        labels[best < nearest] = label
        nearest = best
    return np.unique(labels, return_inverse=True)[1]


def fewer_parts(moments: ClassMoments, most: int) -> ClassMoments:
    """Merge parts of each class by k-means of their means, to `most` of all classes."""
    n_parts = len(moments.columns)
    if n_parts <= most:
        return moments
    positions = _scaled_means(moments)
    # Sorted by class, and within it by a fixed random direction: what is drawn must not
    # depend on the order of nodes.
    direction = np.random.RandomState(0).standard_normal(moments.n_features)
    order = np.lexsort((positions @ direction, moments.columns))
    _, starts = np.unique(moments.columns[order], return_index=True)
    labels = np.empty(n_parts, dtype=np.intp)
    n_labels = 0
    for parts in np.split(order, starts[1:]):  # of one class after the other
        n_clusters = max(1, most * len(parts) // n_parts)
        if n_clusters > 1:
            clusters = k_means(
                positions[parts],
                n_clusters,
                weights=moments.counts[parts],
                random_state=0,
            )
        else:
            clusters = np.zeros(len(parts), dtype=np.intp)
        labels[parts] = n_labels + clusters
        n_labels = labels[parts].max() + 1
    return moments.merged_parts(labels)


def _scaled_means(moments: ClassMoments) -> np.ndarray:
    """Means of parts in deviations of features within these, less the mean of all.

    They are (n_parts, n_features), rounded.
    """
    within = moments.covariance_within_parts()
    variances = within if moments.is_diagonal else within.diagonal()
    inverse = ratio(1.0, np.sqrt(np.maximum(variances, 0.0)))
    if not inverse.any():  # each part is one row, as often as it comes
        inverse = ratio(1.0, np.sqrt(moments.variances()))
    return ((moments.means - moments.mean()) * inverse).round(DIGITS)


def draw_rows(
    moments: ClassMoments,
    n_rows: int,
    *,
    random_state: int | RandomState | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of Gaussians, (n_rows, n_features), and their classes, (n_rows,).

    Each has the mean of a part, drawn in proportion to the parts' counts, and the
    variances of its class; features are drawn independently of each other.
    """
    rng = check_random_state(random_state)
    counts = moments.counts
    part_of_row = rng.choice(len(counts), n_rows, p=counts / counts.sum())
    classes, class_of_part = np.unique(moments.columns, return_inverse=True)
    deviations = np.sqrt([_class_variances(moments, c) for c in classes.tolist()])
    X = rng.standard_normal((n_rows, moments.n_features))
    X *= deviations[class_of_part[part_of_row]]
    X += (moments.origin + moments.means)[part_of_row]
    return X, moments.columns[part_of_row]


def _class_variances(moments: ClassMoments, c: int) -> np.ndarray:
    """Variances of features within the parts of a class, (n_features,).

    A class without a scatter has those of the shared one, or of none zeros.
    """
    for group in (c, SHARED):
        indices = np.flatnonzero(moments.groups == group)
        if len(indices):
            g = indices[0]
            count = max(moments.group_counts[g], 1.0)
            return np.maximum(moments.diagonals()[g], 0.0) / count
    return np.zeros(moments.n_features)
