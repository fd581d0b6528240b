"""Clusters of the rows of each class, of whose rows sums are made.

Rows x of a class are divided by k-means, which seeks the labels k(x) and centers c_k of
the least

    sum |(x - c_k(x)) / s|^2,

where s are the deviations of features within classes, so that units do not matter. The
centers are found by some of the rows, and all rows go to the nearest of them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot

from ..disclosure import indicator
from ._class_moments import class_moments
from ._fewer import DIGITS, k_means
from ._rows import (
    SAMPLE_ROWS,
    Rows,
    block_bytes,
    column_ends,
    ratio,
    rounding,
    row_blocks,
)

# Rows that a cluster is made of at least: the mean of one row is the row. As many as
# what nodes send is made of unless they say otherwise.
CLUSTER_ROWS = 10


def cluster_classes(
    X: Rows,
    y: np.ndarray,
    n_components: int,
    min_cluster_size: int,
    *,
    random_state: int | RandomState | None = None,
    groups: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Cluster of each row, (n_rows,), by k-means within classes.

    Numbers of clusters ascend with the class. A class has at most `n_components`, and
    no more than its rows allow; rows of clusters that are too small go to the nearest
    others. Rows of one of the ``groups``, (n_rows,), count as one row. Sizes of classes
    and clusters count rows, whatever ``weights`` they have in the means, (n_rows,).
    """
    rng = check_random_state(random_state)
    classes, class_sizes = np.unique(y, return_counts=True)
    if groups is not None:
        class_sizes = np.array([len(np.unique(groups[y == c])) for c in classes])
    n_clusters = np.clip(class_sizes // min_cluster_size, 1, n_components)
    if n_clusters.max() == 1:
        return np.searchsorted(classes, y)
    # Rows are drawn by their place: the order they come in must not matter.
    order = _order_of_rows(X)
    rows_by_class = [order[y[order] == c] for c in classes]
    samples = [
        _sample(rows, SAMPLE_ROWS * n, rng)
        for rows, n in zip(rows_by_class, n_clusters, strict=True)
    ]
    sampled_rows = np.concatenate(samples)
    inverse = inverse_deviations(
        X[sampled_rows], y[sampled_rows], _some(weights, sampled_rows)
    )
    seed = rng.randint(2**31 - 1)
    clusters = np.empty(len(y), dtype=np.intp)
    n_earlier = 0  # clusters of the classes before
    for rows, n, sample in zip(rows_by_class, n_clusters, samples, strict=True):
        if n > 1:
            centers = Centers(
                X[sample], n, inverse, seed, weights=_some(weights, sample)
            )
            labels = _large_clusters(
                centers.distances(X, rows),
                min_cluster_size,
                groups=None if groups is None else groups[rows],
            )
        else:
            labels = np.zeros(len(rows), dtype=np.intp)
        clusters[rows] = n_earlier + labels
        n_earlier += labels.max() + 1
    return clusters


def _some(weights: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    """Return the weights of some rows, indices, where rows have weights."""
    return None if weights is None else weights[rows]


def inverse_deviations(
    X: Rows, y: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return one over the deviations of features within classes; 0 of constants."""
    sums = class_moments(X, y, kind="diagonal", weights=weights)
    return ratio(1.0, np.sqrt(sums.covariance_within_parts()))


def _sample(rows: np.ndarray, most: int, rng: RandomState) -> np.ndarray:
    """Draw ``most`` of the rows, in their order; all if there are no more."""
    if len(rows) <= most:
        return rows
    chosen = rng.choice(len(rows), most, replace=False)
    return rows[np.sort(chosen)]


def _order_of_rows(X: Rows) -> np.ndarray:
    """Indices of rows sorted by what these hold: their distances from the mean.

    With d_j the deviation of feature j from its mean, divided by its range, they are
    sorted by ``sum d_j^2 + d_j^4``. That depends neither on units nor on the order of
    features; the fourth powers separate rows that are equally far.
    """
    highest, lowest = column_ends(X)
    ranges = highest - lowest
    # What rounding leaves of a constant says nothing of a row.
    ranges[ranges <= rounding(np.maximum(np.abs(highest), np.abs(lowest)), X)] = 0.0
    means = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    inverse = ratio(1.0, ranges)
    sizes = np.zeros(X.shape[0])
    # A row of a block is held in 8 bytes a number, up to four times.
    for rows in row_blocks(X, 32 * X.shape[1], block_bytes()):
        block = X[rows].toarray() if sparse.issparse(X) else X[rows]
        # In place: fresh arrays of this size take as long as the arithmetic.
        squares = block - means
        squares *= inverse
        np.square(squares, out=squares)
        sizes[rows] = squares.sum(axis=1)
        sizes[rows] += np.einsum("ij,ij->i", squares, squares)
    return np.argsort(sizes, kind="stable")


@dataclass(frozen=True, eq=False, kw_only=True)
class _ScaledSample:
    """Rows less a zero row, in units of the deviations within classes."""

    rows: Rows  # (n_rows, n_features)
    zero: np.ndarray  # (n_features,), in the units that rows came in
    factors: np.ndarray  # (n_features,), which the differences are multiplied by


def _scaled_sample(sample: Rows, inverse: np.ndarray) -> _ScaledSample:
    """Sampled rows as k-means sees them; sparse ones stay sparse, about 0."""
    factors = inverse.astype(sample.dtype)
    if sparse.issparse(sample):
        scaled = (sample @ sparse.diags(factors)).tocsr().astype(np.float64)
        scaled.data = scaled.data.round(DIGITS)
        zero = np.zeros(sample.shape[1], dtype=sample.dtype)
    else:
        # Differences from a row keep digits where rows are far from zero.
        zero = sample[0].copy()
        # float32 distances are made from float64 ones, which takes longer.
        scaled = ((sample - zero) * factors).astype(np.float64).round(DIGITS)
    return _ScaledSample(rows=scaled, zero=zero, factors=factors)


class Centers:
    """Centers of the clusters of a class, found by some of its rows."""

    def __init__(
        self,
        sample: Rows,
        n_clusters: int,
        inverse: np.ndarray,
        seed: int,
        weights: np.ndarray | None = None,
    ) -> None:
        """At most so many, in units of the deviations within classes."""
        scaled = _scaled_sample(sample, inverse)
        if weights is None:
            weights = np.ones(sample.shape[0])
        labels = k_means(
            scaled.rows,
            n_clusters,
            weights=weights,
            random_state=seed,
        )
        sizes = np.bincount(labels, weights)
        means = indicator(labels, len(sizes), weights / sizes[labels])
        # (n_clusters, n_features), less zero
        self.centers = safe_sparse_dot(means, scaled.rows, dense_output=True)
        self.zero = scaled.zero
        self.factors = scaled.factors

    def distances(self, X: Rows, rows: np.ndarray) -> np.ndarray:
        """Squared, of some rows from each center, less what the centers share.

        With z the scaled row it is ``|c|^2 - 2 c^T z``, (n_rows, n_clusters): the
        length of z, which does not say what center is the nearest, is left out.
        """
        # The scaling is multiplied into the centers: one product, and no scaled rows.
        weights = (self.centers * self.factors).T.astype(X.dtype)
        lengths = np.einsum("ij,ij->i", self.centers, self.centers, dtype=np.float64)
        distances = np.empty((len(rows), len(self.centers)))
        for block in row_blocks(rows[:, None], 8 * X.shape[1], block_bytes()):
            some_rows = X[rows[block]]
            if not sparse.issparse(X):
                np.subtract(some_rows, self.zero, out=some_rows)
            distances[block] = lengths - 2.0 * safe_sparse_dot(some_rows, weights)
        return distances


def _large_clusters(
    distances: np.ndarray,
    min_cluster_size: int,
    *,
    groups: np.ndarray | None = None,
) -> np.ndarray:
    """Cluster of each row by distances, (n_rows, n_clusters), which change in place.

    Clusters that are too small are dissolved, the smallest first, whose rows may make
    the next one large enough.
    """
    labels = np.argmin(distances, axis=1)
    n_clusters = distances.shape[1]
    remains = np.ones(n_clusters, dtype=bool)
    while remains.sum() > 1:
        sizes = _cluster_sizes(labels, groups, n_clusters=n_clusters)
        sizes = np.where(remains, sizes, np.inf)
        smallest = int(np.argmin(sizes))
        if sizes[smallest] >= min_cluster_size:
            break
        remains[smallest] = False
        distances[:, smallest] = np.inf
        is_homeless = labels == smallest
        labels[is_homeless] = np.argmin(distances[is_homeless], axis=1)
    return np.unique(labels, return_inverse=True)[1]


def _cluster_sizes(
    labels: np.ndarray, groups: np.ndarray | None, *, n_clusters: int
) -> np.ndarray:
    """Count the rows of each cluster, or the groups that its rows are of."""
    if groups is not None:
        labels, _ = np.unique(np.stack([labels, groups]), axis=1)
    return np.bincount(labels, minlength=n_clusters)
