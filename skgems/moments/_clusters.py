"""Clusters of the rows of each class, of whose rows sums are made."""

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot

from ._class_moments import class_moments
from ._fewer import k_means
from ._rows import block_bytes, column_ends, indicator, ratio, rounding, row_blocks

# Rows that a cluster is made of at least: the mean of one row is the row. As many as
# what nodes send is made of unless they say otherwise.
CLUSTER_ROWS = 10
# Rows a cluster that centres are looked for with, and steps to these.
SAMPLE_ROWS, _MAX_ITERATIONS = 32, 20
# Digits that these see, in deviations: where two rows are one cluster both are as far
# from its centre, and rounding, which units change, would choose between them.
_DIGITS = 6


def cluster_classes(
    X, y: np.ndarray, n_components: int, min_cluster_size: int, random_state=None
) -> np.ndarray:
    """k-means within classes; rows of too small clusters go to the nearest."""
    rng = check_random_state(random_state)
    classes, sizes = np.unique(y, return_counts=True)
    n_clusters = np.clip(sizes // min_cluster_size, 1, n_components)
    if n_clusters.max() == 1:
        return np.searchsorted(classes, y)
    parts, n_parts = np.empty(len(y), dtype=np.intp), 0
    # Rows are drawn by their place: the order they come in must not matter.
    order = _order(X)
    owned = [order[y[order] == c] for c in classes]
    samples = list(owned)  # enough of each class to find centres by
    for c, most in enumerate(SAMPLE_ROWS * n_clusters):
        if len(owned[c]) > most:
            some = rng.choice(len(owned[c]), most, replace=False)
            samples[c] = owned[c][np.sort(some)]
    chosen = np.concatenate(samples)
    inverse = inverse_deviations(X[chosen], y[chosen])
    seed = rng.randint(2**31 - 1)
    for rows, n, sample in zip(owned, n_clusters, samples, strict=True):
        found = np.zeros(len(rows), dtype=np.intp)
        if n > 1:
            found = _large_clusters(X, rows, sample, n, min_cluster_size, inverse, seed)
        parts[rows], n_parts = n_parts + found, n_parts + found.max() + 1
    return parts


def inverse_deviations(X, y) -> np.ndarray:
    return ratio(1.0, np.sqrt(class_moments(X, y, kind="diagonal").within()))


def _order(X) -> np.ndarray:
    """Places of rows by what these hold, in whatever units and order of features."""
    highest, lowest = column_ends(X)
    ranges = highest - lowest
    # What rounding leaves of a constant says nothing of a row.
    ranges[ranges <= rounding(np.maximum(np.abs(highest), np.abs(lowest)), X)] = 0.0
    means = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    # Sums of squares and fourth powers of what rows are away from the mean.
    inverse, length = ratio(1.0, ranges), np.zeros(X.shape[0])
    for rows in row_blocks(X, 32 * X.shape[1], block_bytes()):
        block = X[rows].toarray() if sparse.issparse(X) else X[rows]
        squares = np.square((block - means) * inverse)
        length[rows] = squares.sum(axis=1)
        length[rows] += np.einsum("ij,ij->i", squares, squares)
    return np.argsort(length, kind="stable")


class Centres:
    """Centres of the clusters of a class, found by some of its rows."""

    def __init__(self, sample, n_clusters: int, inverse: np.ndarray, seed) -> None:
        """At most so many, in units of the deviations within classes."""
        zero, scaled = np.zeros(sample.shape[1], dtype=sample.dtype), sample
        factors = inverse.astype(sample.dtype)
        if sparse.issparse(sample):
            scaled = (scaled @ sparse.diags(factors)).tocsr().astype(np.float64)
            scaled.data = scaled.data.round(_DIGITS)
        else:
            zero = scaled[0].copy()
            # float32 distances are made from float64 ones, which takes longer.
            scaled = ((scaled - zero) * factors).astype(np.float64).round(_DIGITS)
        found = k_means(scaled, n_clusters, max_iter=_MAX_ITERATIONS, random_state=seed)
        sizes = np.bincount(found)
        means = indicator(found, len(sizes), 1.0 / sizes[found])
        self.centres = safe_sparse_dot(means, scaled, dense_output=True)  # less zero
        self.zero, self.factors = zero, factors  # of each feature

    def distances(self, X, rows: np.ndarray) -> np.ndarray:
        """Squared, of some rows from each centre, less what the centres share."""
        # But for the length of a row, in one product.
        weights = (self.centres * self.factors).T.astype(X.dtype)
        lengths = np.einsum("ij,ij->i", self.centres, self.centres, dtype=np.float64)
        distances = np.empty((len(rows), len(self.centres)))
        for block in row_blocks(rows[:, None], 8 * X.shape[1], block_bytes()):
            own = X[rows[block]]
            own = own if sparse.issparse(X) else np.subtract(own, self.zero, out=own)
            distances[block] = lengths - 2.0 * safe_sparse_dot(own, weights)
        return distances


def _large_clusters(
    X, rows, sample, n_clusters, min_cluster_size, inverse, seed
) -> np.ndarray:
    """Cluster of each row; small ones are dissolved, the smallest first."""
    distances = Centres(X[sample], n_clusters, inverse, seed).distances(X, rows)
    found, n = np.argmin(distances, axis=1), distances.shape[1]
    alive = np.ones(n, dtype=bool)
    while alive.sum() > 1:
        sizes = np.where(alive, np.bincount(found, minlength=n), np.inf)
        least = int(np.argmin(sizes))
        if sizes[least] >= min_cluster_size:
            break
        alive[least] = False
        distances[:, least] = np.inf
        moved = found == least
        found[moved] = np.argmin(distances[moved], axis=1)
    return np.unique(found, return_inverse=True)[1]
