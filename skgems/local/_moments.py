# SPDX-License-Identifier: BSD-3-Clause
"""Sums over a node's rows: moments, and its own model's loss and gradient."""

from __future__ import annotations

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
    log_losses,
    moments_kind,
    rounding,
    row_blocks,
)
from ..networks import HiddenLayers, linear_logits
from ..tuning import fit_inverse_temperature
from ._closed_forms import closed_form, has_steps, weights_of
from ._descriptions import indices_of
from ._doubts import class_weight_of
from ._effective import EffectiveRows
from ._fitting import at_node
from ._member import Member

# Rows that a cluster is made of at least: the mean of one row is the row. As many as
# what nodes send is made of unless they say otherwise.
_CLUSTER_ROWS = 10
# Rows a cluster that centres are looked for with, and steps to these.
_SAMPLE_ROWS, _MAX_ITERATIONS = 32, 20
# Digits that these see, in deviations: where two rows are one cluster both are as far
# from its centre, and rounding, which units change, would choose between them.
_DIGITS = 6
# Rows that the factor on a model's logits is fitted to.
_TEMPERATURE_ROWS = 4000


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
                max(min_cluster_size, _CLUSTER_ROWS, member.min_rows),
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
    form = closed_form(member.picklable.estimator)
    if "kind" in form and len(np.unique(sums.columns)) < len(own):
        form = {"reason": "a class with too few rows to be in sums (min_rows)"}
    reply = {
        "labels": own.tolist(),
        "moments": sums.as_arrays(),
        "form": form,
        "scaled": has_steps(member.picklable.estimator),
    }
    by_class = class_weight == "balanced"
    if class_weight == "members":
        found = class_weight_of(member.picklable.estimator)
        if found is not None:  # what counts depends on other nodes
            reply["class_weight"], by_class = found, True
    W, labels = member.own_linear() if model == "own" else (None, ())
    if len(labels) > 1:
        columns = indices_of(own, labels)[codes]
        # Rows of a class that is too small for a mean are in no other sum by class.
        known = (columns >= 0) & np.isin(codes, sums.columns)
        if known.any():
            if not known.all():
                X, columns = X[known], columns[known]
                weights = None if weights is None else weights[known]
                codes = codes[known]
            factor, residuals = _residuals(X, columns, W, weights)
            effective = EffectiveRows.of(1)
            effective.add([residuals], 1.0)
            reply["effective_rows"] = float(effective.least()[0])
            reply["factor"] = factor
            if by_class:
                classes = (np.flatnonzero(codes == c) for c in range(len(own)))
                reply["gradients"] = np.stack(
                    [_gradient(X[rows], residuals[rows], sums) for rows in classes]
                )
            else:
                if isinstance(class_weight, list):
                    residuals *= weights_of(class_weight, own)[codes][:, None]
                reply["gradient"] = _gradient(X, residuals, sums)
    return reply


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
    unit = class_moments(X[chosen], y[chosen], kind="diagonal").within()
    inverse = np.divide(1.0, np.sqrt(unit), out=np.zeros_like(unit), where=unit > 0)
    seed = rng.randint(2**31 - 1)
    for rows, n, sample in zip(owned, n_clusters, samples, strict=True):
        found = np.zeros(len(rows), dtype=np.intp)
        if n > 1:
            found = _large_clusters(X, rows, sample, n, min_cluster_size, inverse, seed)
        parts[rows], n_parts = n_parts + found, n_parts + found.max() + 1
    return parts


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
    n_rows = _SAMPLE_ROWS * n_clusters
    if len(rows) <= n_rows:
        return rows
    return rows[np.sort(rng.choice(len(rows), n_rows, replace=False))]


def _large_clusters(
    X, rows, sample, n_clusters, min_cluster_size, inverse, seed
) -> np.ndarray:
    """Cluster of each row; small ones are dissolved, the smallest first."""
    zero, scaled = np.zeros(X.shape[1], dtype=X.dtype), X[sample]
    factors = inverse.astype(X.dtype)
    if sparse.issparse(X):
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
    # Distances to the centres, but for the length of a row, in one product.
    weights = (centers * factors).T.astype(X.dtype)
    lengths = np.einsum("ij,ij->i", centers, centers, dtype=np.float64)
    n_clusters = len(centers)
    distances = np.empty((len(rows), n_clusters))
    for block in row_blocks(rows[:, None], 8 * X.shape[1], block_bytes()):
        own = X[rows[block]]
        own = own if sparse.issparse(X) else np.subtract(own, zero, out=own)
        distances[block] = lengths - 2.0 * safe_sparse_dot(own, weights)
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


def _residuals(X, y, W, weights) -> tuple[float, np.ndarray]:
    """The factor on a model's logits that fits rows, and what is wrong there."""
    logits = linear_logits(X, W).astype(np.float64)
    # A factor that is next to the best will do.
    some = np.linspace(0, len(y) - 1, min(len(y), _TEMPERATURE_ROWS)).astype(np.intp)
    factor = fit_inverse_temperature(logits[some], y[some])
    residuals = log_losses(factor * logits, y)[1]
    if weights is not None:
        residuals *= weights[:, None]
    return factor, residuals


def _gradient(X, residuals, sums: ClassMoments) -> np.ndarray:
    """Rows less the origin, and 1, times what is wrong with each."""
    gradient = np.zeros((X.shape[1] + 1, residuals.shape[1]))
    gradient[-1] = residuals.sum(axis=0)
    if sparse.issparse(X):
        gradient[:-1] = safe_sparse_dot(X.T, residuals, dense_output=True)
        gradient[:-1] -= np.outer(sums.origin, gradient[-1])
    else:
        origin, residuals = sums.origin.astype(X.dtype), residuals.astype(X.dtype)
        for rows in row_blocks(X, 8 * X.shape[1], block_bytes()):
            gradient[:-1] += (X[rows] - origin).T @ residuals[rows]
    # Of a constant, which rows have but for rounding, what its mean says.
    constant = sums.variances() == 0
    gradient[:-1][constant] = np.outer(sums.mean()[constant], gradient[-1])
    return gradient
