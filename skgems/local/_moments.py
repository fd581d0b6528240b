# SPDX-License-Identifier: BSD-3-Clause
"""Sums over a node's rows: moments, and its own model's loss and gradient."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot

from ..moments import (
    ClassMoments,
    block_bytes,
    check_rows,
    class_moments,
    indicator,
    k_means,
    moments_kind,
    rounding,
    row_blocks,
)
from ..networks import HiddenLayers
from ._closed_forms import closed_form, has_steps
from ._fitting import at_node
from ._member import Member
from ._own_model import OwnGradient

# Rows that a cluster is made of at least: the mean of one row is the row. As many as
# what nodes send is made of unless they say otherwise.
CLUSTER_ROWS = 10
# Rows a cluster that centres are looked for with, and steps to these.
SAMPLE_ROWS, _MAX_ITERATIONS = 32, 20
# Digits that these see, in deviations: where two rows are one cluster both are as far
# from its centre, and rounding, which units change, would choose between them.
_DIGITS = 6


def moments(
    member: Member,
    *,
    kind,
    n_components,
    min_cluster_size,
    seed,
    model=None,
    hidden=None,
    class_weight=None,
) -> dict:
    """Counts, means and scatter of the node's rows by class or cluster.

    With its own model the "factor" on logits that fits its rows, and the "gradient"
    there of their log-loss; "gradients" by class where weights are not known yet.
    """
    X, y = member.rows("learning")
    weights = None if member.weights is None else member.weights[member.learning]
    own = np.unique(y) if member.left_out is None else np.union1d(y, member.left_out)
    codes = np.searchsorted(own, y)
    with at_node(member.name, "its rows cannot be summed"):
        if hidden is not None:
            check_rows(X)  # before layers make of them what can be summed
        X, parts = HiddenLayers.from_content(hidden).outputs(X), None
        if n_components > 1:
            parts = cluster_classes(
                X,
                codes,
                n_components,
                max(min_cluster_size, CLUSTER_ROWS, member.min_rows),
                random_state=seed,
            )
        sums = class_moments(
            X,
            codes,
            kind=moments_kind(kind, X.shape[1], len(own), X.shape[0]),
            parts=parts,
            min_cluster_size=min_cluster_size,
            weights=weights,
        )
    in_sums = np.isin(np.arange(len(own)), sums.columns)
    gradient = OwnGradient(member, model, own, in_sums, sums.origin, class_weight)
    gradient.add(X, codes, weights)
    return reply_of(member, own, sums) | gradient.reply(sums)


def reply_of(member: Member, own, sums: ClassMoments) -> dict:
    """What is sent of rows and classifier beside the gradient."""
    form = closed_form(member.picklable.estimator)
    if "kind" in form and len(np.unique(sums.columns)) < len(own):
        form = {"reason": "a class with too few rows to be in sums (min_rows)"}
    return {
        "labels": own.tolist(),
        "moments": sums.as_arrays(),
        "form": form,
        "scaled": has_steps(member.picklable.estimator),
    }


def cluster_classes(
    X, y: np.ndarray, n_components: int, min_cluster_size: int, random_state=None
) -> np.ndarray:
    """Cluster of each row, by k-means within classes, of ``min_cluster_size`` at least.

    Distances are in units of the deviation within classes. Rows of clusters that are
    too small go to the nearest of the others. No two classes have a cluster in common.
    """
    rng = check_random_state(random_state)
    classes, sizes = np.unique(y, return_counts=True)
    n_clusters = np.clip(sizes // min_cluster_size, 1, n_components)
    if n_clusters.max() == 1:
        return np.searchsorted(classes, y)
    parts, n_parts = np.empty(len(y), dtype=np.intp), 0
    # Rows are drawn by their place: the order they come in must not matter.
    order = _order(X)
    owned = [order[y[order] == c] for c in classes]
    samples = [_sample(rows, n, rng) for rows, n in zip(owned, n_clusters, strict=True)]
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
    """Of each feature within classes; 0 for constants."""
    unit = class_moments(X, y, kind="diagonal").within()
    return np.divide(1.0, np.sqrt(unit), out=np.zeros_like(unit), where=unit > 0)


def _order(X) -> np.ndarray:
    """Places of rows by what these hold, in whatever units and order of features."""
    highest, lowest = _dense(X.max(axis=0)), _dense(X.min(axis=0))
    ranges = highest - lowest
    # What rounding leaves of a constant says nothing of a row.
    ranges[ranges <= rounding(np.maximum(np.abs(highest), np.abs(lowest)), X)] = 0.0
    means = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    inverse = np.divide(1.0, ranges, out=np.zeros_like(ranges), where=ranges > 0)
    # Sums of squares and fourth powers of what rows are away from the mean.
    length = np.zeros(X.shape[0])
    for rows in row_blocks(X, 32 * X.shape[1], block_bytes()):
        block = X[rows].toarray() if sparse.issparse(X) else X[rows]
        squares = np.square((block - means) * inverse)
        length[rows] = squares.sum(axis=1)
        length[rows] += np.einsum("ij,ij->i", squares, squares)
    return np.argsort(length, kind="stable")


def _dense(values) -> np.ndarray:
    if sparse.issparse(values):
        values = values.toarray()
    return np.asarray(values, dtype=np.float64).ravel()


def _sample(rows: np.ndarray, n_clusters: int, rng) -> np.ndarray:
    """Enough of a class's rows to find centres by."""
    n_rows = SAMPLE_ROWS * n_clusters
    if len(rows) <= n_rows:
        return rows
    return rows[np.sort(rng.choice(len(rows), n_rows, replace=False))]


@dataclass(frozen=True, eq=False)
class Centres:
    """Centres of the clusters of a class, found by some of its rows."""

    found: np.ndarray = field(repr=False)  # (n_sample,), cluster of each of these
    centres: np.ndarray = field(repr=False)  # (n_clusters, n_features), less zero
    zero: np.ndarray = field(repr=False)  # (n_features,)
    factors: np.ndarray = field(repr=False)  # (n_features,), inverse deviations

    @classmethod
    def of(cls, sample, n_clusters: int, inverse: np.ndarray, seed) -> Centres:
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
        centers = safe_sparse_dot(means, scaled, dense_output=True)
        return cls(found, centers, zero, factors)

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
    centres = Centres.of(X[sample], n_clusters, inverse, seed)
    distances = centres.distances(X, rows)
    n_clusters = distances.shape[1]
    found = np.argmin(distances, axis=1)
    alive = np.ones(n_clusters, dtype=bool)
    while alive.sum() > 1:
        sizes = np.where(alive, np.bincount(found, minlength=n_clusters), np.inf)
        least = int(np.argmin(sizes))
        if sizes[least] >= min_cluster_size:
            break
        alive[least] = False
        distances[:, least] = np.inf
        moved = found == least
        found[moved] = np.argmin(distances[moved], axis=1)
    return np.unique(found, return_inverse=True)[1]
