"""Moments made smaller: fewer parts by k-means, coordinates of fewer directions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import eye_array
from sklearn.utils import check_random_state
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from ._class_moments import SHARED, ClassMoments, merge_moments
from ._rows import about_origin, directions, indicator, ratio

# Rows whose products with each other are all held: 32 MB.
_MOST_HELD = 2048
# Squared distances that are rounding, relative to the squared length of rows.
_ROUNDING = 1e-12


def k_means(
    rows, n_clusters: int, *, weights=None, max_iter: int = 20, random_state=None
) -> np.ndarray:
    """Cluster of each row, by k-means++ and Lloyd's steps; equal rows share one."""
    rng, n_rows = check_random_state(random_state), rows.shape[0]
    weights = np.ones(n_rows) if weights is None else weights
    squares = row_norms(rows, squared=True)
    noise = _ROUNDING * squares.max()
    held, ones = None, eye_array(n_rows, dtype=rows.dtype, format="csr")
    if n_rows <= min(2 * rows.shape[1], _MOST_HELD):
        held = safe_sparse_dot(rows, rows.T, dense_output=True)

    def products(shares) -> np.ndarray:
        if held is not None:
            return shares @ held
        return safe_sparse_dot(shares @ rows, rows.T, dense_output=True)

    def distances(chosen: np.ndarray) -> np.ndarray:
        found = squares[chosen][:, None] - 2.0 * products(ones[chosen]) + squares
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


_MAX_ITERATIONS = 10
# As where nodes divide their classes: rounding must not choose between parts.
_DIGITS = 6


def fewer_parts(moments: ClassMoments, most: int) -> ClassMoments:
    """Merge parts of each class by k-means of their means, to `most` of all classes."""
    n_parts = len(moments.columns)
    if n_parts <= most:
        return moments
    within = moments.within()
    within = within if moments.is_diagonal else within.diagonal()
    inverse = ratio(1.0, np.sqrt(np.maximum(within, 0.0)))
    if not inverse.any():  # each part is one row, as often as it comes
        inverse = ratio(1.0, np.sqrt(moments.variances()))
    places = ((moments.means - moments.mean()) * inverse).round(_DIGITS)
    along = places @ np.random.RandomState(0).standard_normal(len(inverse))
    order = np.lexsort((along, moments.columns))
    labels, n_labels = np.empty(n_parts, dtype=np.intp), 0
    _, starts = np.unique(moments.columns[order], return_index=True)
    for own in np.split(order, starts[1:]):
        n_clusters = max(1, most * len(own) // n_parts)
        found = np.zeros(len(own), dtype=np.intp)
        if n_clusters > 1:
            how = {"weights": moments.counts[own], "max_iter": _MAX_ITERATIONS}
            found = k_means(places[own], n_clusters, **how, random_state=0)
        labels[own] = n_labels + found
        n_labels = labels[own].max() + 1
    return moments.merged_parts(labels)


def draw_rows(moments: ClassMoments, n_rows: int, *, random_state=None) -> tuple:
    """Rows and classes of Gaussians: parts' means, and variances of their classes."""
    rng = check_random_state(random_state)
    counts = moments.counts
    parts = rng.choice(len(counts), n_rows, p=counts / counts.sum())
    classes, places = np.unique(moments.columns, return_inverse=True)
    deviations = np.sqrt([_variances(moments, column) for column in classes.tolist()])
    X = rng.standard_normal((n_rows, moments.n_features))
    X *= deviations[places[parts]]
    X += (moments.origin + moments.means)[parts]
    return X, moments.columns[parts]


def _variances(moments: ClassMoments, column: int) -> np.ndarray:
    """Of each feature within the parts of a class; shared if it has no scatter."""
    for group in (column, SHARED):
        own = np.flatnonzero(moments.groups == group)
        if len(own):
            count = max(moments.group_counts[own[0]], 1.0)
            return np.maximum(moments.diagonals()[own[0]], 0.0) / count
    return np.zeros(moments.n_features)


# Directions that the coordinates are of, at most: matrices of more take too long.
MOST_DIRECTIONS = 4000


@dataclass(frozen=True, eq=False, repr=False)
class Span:
    """Coordinates of rows in the span of all that nodes sent of theirs."""

    center: np.ndarray  # (n_features,), mean of all rows
    basis: np.ndarray  # (n_features, n_directions)
    inverse: np.ndarray  # the same of weights, its pseudo-inverse

    @classmethod
    def of(
        cls,
        nodes: Sequence[ClassMoments],
        *,
        scaled: bool,
        zero_row: np.ndarray | None = None,
    ) -> "Span | None":
        """The span of moments with roots; None if no smaller than all features.

        With ``zero_row``, at which all logits are to be 0, it goes through that row;
        where that is NaN, through the mean.
        """
        merged = merge_moments(nodes)
        mean, variances = merged.mean(), merged.variances()
        rows = [merged.means - mean, *(own.roots for own in nodes)]
        constant = variances == 0
        if zero_row is not None:
            away = np.nan_to_num(merged.origin + mean - zero_row)
            rows.append(away[None])
            constant &= away == 0
        rows = np.concatenate(rows)
        if len(rows) >= min(rows.shape[1], MOST_DIRECTIONS):
            return None
        # Weights are penalised in this unit.
        unit = np.ones_like(variances)
        if scaled:
            unit = np.where(variances > 0, np.sqrt(variances), 1.0)
        unit[constant] = 0.0
        inverse = ratio(1.0, unit)
        rows *= inverse
        sizes, vectors = directions(rows @ rows.T)
        basis = rows.T @ (vectors / sizes)
        center = merged.origin + mean
        return cls(center, inverse[:, None] * basis, unit[:, None] * basis)

    def moments(self, own: ClassMoments, n_classes: int) -> ClassMoments:
        """Moments with roots, or without any scatter, in these coordinates."""
        n_directions = self.basis.shape[1]
        means = (own.means + (own.origin - self.center)) @ self.basis
        origin, none = np.zeros(n_directions), np.zeros((0, n_directions, n_directions))
        moved = replace(own, origin=origin, means=means, scatter=none)
        if own.roots is None:
            return moved
        roots = own.roots @ self.basis
        scatter = indicator(own.root_groups, len(own.groups)) @ roots**2
        return replace(moved, roots=roots, scatter=scatter).with_matrices(n_classes)

    def of_row(self, row: np.ndarray) -> np.ndarray:
        """A row in these coordinates; where it is NaN it is the mean of all."""
        return np.nan_to_num(row - self.center) @ self.basis

    def from_rows(self, W: np.ndarray, origin=0.0) -> np.ndarray:
        """A model on rows less an origin, in these coordinates; equal on its rows."""
        W = about_origin(W, self.center - origin)
        return np.vstack([self.inverse.T @ W[:-1], W[-1]])

    def to_rows(self, W: np.ndarray) -> np.ndarray:
        W = np.vstack([self.basis @ W[:-1], W[-1]])
        return about_origin(W, -self.center)

    def gradient(self, slope: np.ndarray, origin=0.0) -> np.ndarray:
        last = np.multiply.outer(slope[..., -1, :], self.center - origin)
        moved = slope[..., :-1, :] - last.swapaxes(-1, -2)
        return np.concatenate([self.basis.T @ moved, slope[..., -1:, :]], axis=-2)
