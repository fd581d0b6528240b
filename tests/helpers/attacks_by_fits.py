# SPDX-License-Identifier: BSD-3-Clause
"""Rows behind fronts that are no linear maps, by fits of made-up rows to what is told.

With f(x) the columns that a front makes of a row x, a node tells sum w z z' of the
z = (1, f(x)). If that matrix is singular, its range has such a z for no x but the rows,
so that they are found one by one. If it is not, all rows are fitted at once: there may
be more numbers told than the rows have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from sklearn.pipeline import FeatureUnion
from sklearn.preprocessing import PowerTransformer

from helpers.attacked_exchanges import GroupSums
from skgems.steps import RandomFeatures

# Share of the largest eigenvalue below which an eigenvalue is rounding.
_ROUNDING = 1e-11
# Squared distance from a range below which there is none; and squared misfit of all
# sums, which is far smaller at the rows than where a fit ends beside them.
_IN_RANGE = 1e-13
_EXACT = 1e-22
# Distance in deviations below which two claims are the same.
_SAME = 1e-4


# Fronts -------------------------------------------------------------------------------


class FeatureMap:
    """What a front makes of rows, and how that changes with them."""

    def values(self, X: np.ndarray) -> np.ndarray:
        """Return columns of rows, (n_rows, n_columns)."""
        raise NotImplementedError

    def slopes(self, X: np.ndarray) -> np.ndarray:
        """Return derivatives by the rows, (n_rows, n_columns, n_features)."""
        raise NotImplementedError


class IdentityMap(FeatureMap):
    """The rows themselves."""

    def values(self, X: np.ndarray) -> np.ndarray:
        return X

    def slopes(self, X: np.ndarray) -> np.ndarray:
        n_rows, n_features = X.shape
        return np.broadcast_to(np.eye(n_features), (n_rows, n_features, n_features))


@dataclass(frozen=True, eq=False)
class FourierMap(FeatureMap):
    """The columns and random features of them, which a seed tells the server."""

    weights: np.ndarray  # (n_features, n_components)
    offsets: np.ndarray  # (n_components,)
    n_of_draw: int | None = None  # how many one step draws; None: all

    @classmethod
    def of(cls, step: RandomFeatures) -> FourierMap:
        return cls(step.weights_, step.offsets_)

    @classmethod
    def of_union(cls, step: FeatureUnion) -> FourierMap:
        """Return the map of columns, which come first, and of several draws."""
        draws = [draw for _, draw in step.transformer_list[1:]]
        return cls(
            np.hstack([draw.weights_ for draw in draws]),
            np.hstack([draw.offsets_ for draw in draws]),
            n_of_draw=draws[0].n_components,
        )

    @property
    def _size(self) -> float:
        return float(np.sqrt(2.0 / (self.n_of_draw or len(self.offsets))))

    def values(self, X: np.ndarray) -> np.ndarray:
        phases = X @ self.weights + self.offsets
        return np.hstack([X, self._size * np.cos(phases)])

    def slopes(self, X: np.ndarray) -> np.ndarray:
        sines = -self._size * np.sin(X @ self.weights + self.offsets)
        of_columns = IdentityMap().slopes(X)
        return np.concatenate(
            [of_columns, sines[:, :, None] * self.weights.T[None]], axis=1
        )


@dataclass(frozen=True, eq=False)
class PowerMap(FeatureMap):
    """A power transform of each column, whose fitted numbers the server sends."""

    step: PowerTransformer

    def values(self, X: np.ndarray) -> np.ndarray:
        return self.step.transform(X)

    def slopes(self, X: np.ndarray) -> np.ndarray:
        change = 1e-6
        steps = (self.values(X + change) - self.values(X - change)) / (2 * change)
        return steps[:, :, None] * np.eye(X.shape[1])


# Ranges of singular sums --------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """Sums of a group of rows behind one front."""

    features: FeatureMap
    group: GroupSums


def rows_of_ranges(
    views: Sequence[View], *, n_starts: int, seed: int = 0
) -> np.ndarray:
    """Return rows whose columns are in the range of the sums behind every front.

    The first front passes the columns themselves on, before others. Nothing is claimed
    where the sums have full rank.
    """
    outside = [_directions_outside(view.group.with_one) for view in views]
    start = _StartingRows.of(views[0].group, views[0].features, seed)
    n_equations = sum(directions.shape[1] for directions in outside)
    if n_equations < start.n_features:
        return start.no_rows
    most_rows = int(np.ceil(views[0].group.n_rows))

    def misfit(x: np.ndarray) -> np.ndarray:
        return np.concatenate(
            [
                directions[0] + view.features.values(x[None])[0] @ directions[1:]
                for view, directions in zip(views, outside, strict=True)
            ]
        )

    def slopes(x: np.ndarray) -> np.ndarray:
        return np.concatenate(
            [
                directions[1:].T @ view.features.slopes(x[None])[0]
                for view, directions in zip(views, outside, strict=True)
            ]
        )

    claims: list[np.ndarray] = []
    for _ in range(n_starts):
        fit = least_squares(misfit, start.drawn(1)[0], jac=slopes, method="lm")
        is_new = all(
            np.abs(fit.x - claim).max() > _SAME * start.size for claim in claims
        )
        if 2.0 * fit.cost < _IN_RANGE and is_new:
            claims.append(fit.x)
        if len(claims) >= most_rows:
            break
    return np.array(claims).reshape(-1, start.n_features)


def _directions_outside(product: np.ndarray) -> np.ndarray:
    """Return orthonormal combinations of (1, columns) that are 0 in every row.

    With columns of equal size, since rounding is relative to the largest.
    """
    if not np.isfinite(product).all():
        return np.zeros((len(product), 0))
    sizes = np.sqrt(np.diag(product))
    sizes = np.where(sizes > 0, sizes, 1.0)
    eigenvalues, vectors = np.linalg.eigh(product / np.outer(sizes, sizes))
    outside = vectors[:, eigenvalues < _ROUNDING * eigenvalues[-1]]
    # A combination of columns that are divided by their root mean square.
    return np.sqrt(product[0, 0]) * outside / sizes[:, None]


@dataclass(eq=False)
class _StartingRows:
    """Rows of the normal distribution that has the mean and covariances told."""

    mean: np.ndarray  # (n_features,)
    root: np.ndarray  # (n_features, n_features)
    rng: np.random.Generator

    @classmethod
    def of(cls, group: GroupSums, features: FeatureMap, seed: int) -> _StartingRows:
        n_features = _n_features(features, len(group.product) - group.n_parts)
        mean = group.sums[:n_features] / group.n_rows
        squares = group.with_one[1:, 1:][:n_features, :n_features]
        covariance = squares / group.n_rows - np.outer(mean, mean)
        variances = np.maximum(np.diag(covariance), 1e-300)
        covariance = np.where(np.isfinite(covariance), covariance, 0.0)
        np.fill_diagonal(covariance, variances)
        eigenvalues, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(eigenvalues, 1e-4 * variances.max()))
        return cls(mean, root, np.random.default_rng(seed))

    @property
    def n_features(self) -> int:
        return len(self.mean)

    @property
    def size(self) -> float:
        return float(np.sqrt(np.square(self.root).sum(axis=1)).max())

    @property
    def no_rows(self) -> np.ndarray:
        return np.zeros((0, self.n_features))

    def drawn(self, n_rows: int) -> np.ndarray:
        return self.mean + self.rng.standard_normal((n_rows, len(self.mean))) @ (
            self.root.T
        )


def _n_features(features: FeatureMap, n_columns: int) -> int:
    """Return the number of columns before the front, which it passes on first."""
    return len(features.weights) if isinstance(features, FourierMap) else n_columns


# All rows at once ---------------------------------------------------------------------


def rows_of_fit(
    view: View,
    *,
    n_starts: int,
    max_steps: int = 600,
    seed: int = 0,
    with_weights: bool = False,
    n_rows: int | None = None,
) -> np.ndarray:
    """Return as many rows as a group has, with all sums that are told of them.

    Unknown are the rows and, with `with_weights`, what each counts in the sums. Nothing
    is claimed if no start ends at rows with these sums, or if fewer numbers are told
    than are unknown.
    """
    fit = _RowsFit.of(view, with_weights=with_weights, n_rows=n_rows)
    start = _StartingRows.of(view.group, view.features, seed)
    if fit.n_equations < fit.n_unknown(start.n_features):
        return start.no_rows
    for _ in range(n_starts):
        first = fit.packed(start.drawn(fit.n_rows))
        end = least_squares(
            fit.misfit,
            first,
            jac=fit.slopes,
            method="lm",
            ftol=1e-15,
            xtol=1e-15,
            gtol=1e-15,
            max_nfev=max_steps,
        )
        if 2.0 * end.cost < _EXACT:
            return fit.rows(end.x)
    return start.no_rows


@dataclass(frozen=True, kw_only=True, eq=False)
class _RowsFit:
    """Equations of all sums of a group, for its rows and the roots of their weights."""

    view: View
    parts: np.ndarray  # (n_rows, n_parts), 1 for the part of each row
    is_told: np.ndarray  # (n_equations,) pairs of columns, as two index arrays
    scale: np.ndarray  # (n_equations,)
    with_weights: bool

    @classmethod
    def of(cls, view: View, *, with_weights: bool, n_rows: int | None) -> _RowsFit:
        product = view.group.product
        sizes = np.diag(product)[: view.group.n_parts]
        counts = np.maximum(np.rint(sizes).astype(int), 1)
        if n_rows is not None:  # rows of weights below 1 are more than they weigh
            counts[np.argmax(counts)] += n_rows - counts.sum()
        first, second = np.triu_indices(len(product))
        told = np.isfinite(product[first, second])
        if not with_weights:  # counts of parts are not of the rows' columns
            told &= second >= view.group.n_parts
        roots = np.sqrt(np.maximum(np.diag(product), 1e-300))
        return cls(
            view=view,
            parts=np.repeat(np.eye(len(counts)), counts, axis=0),
            is_told=np.stack([first[told], second[told]]),
            scale=1.0 / (roots[first[told]] * roots[second[told]]),
            with_weights=with_weights,
        )

    @property
    def n_rows(self) -> int:
        return len(self.parts)

    @property
    def n_equations(self) -> int:
        return len(self.scale)

    def n_unknown(self, n_features: int) -> int:
        return self.n_rows * (n_features + self.with_weights)

    def packed(self, X: np.ndarray) -> np.ndarray:
        """Return unknowns, (n_rows * (n_features + 1),) where weights are unknown."""
        if self.with_weights:
            X = np.column_stack([X, np.ones(len(X))])
        return X.ravel()

    def rows(self, unknowns: np.ndarray) -> np.ndarray:
        unknowns = unknowns.reshape(self.n_rows, -1)
        return unknowns[:, :-1] if self.with_weights else unknowns

    def _roots_of_weights(self, unknowns: np.ndarray) -> np.ndarray:
        if self.with_weights:
            return unknowns.reshape(self.n_rows, -1)[:, -1:]
        return np.ones((self.n_rows, 1))

    def _columns(self, unknowns: np.ndarray) -> np.ndarray:
        """Return (parts, features) of the rows, of weight 1."""
        return np.hstack([self.parts, self.view.features.values(self.rows(unknowns))])

    def misfit(self, unknowns: np.ndarray) -> np.ndarray:
        Z = self._roots_of_weights(unknowns) * self._columns(unknowns)
        first, second = self.is_told
        return self.scale * (Z.T @ Z - self.view.group.product)[first, second]

    def slopes(self, unknowns: np.ndarray) -> np.ndarray:
        first, second = self.is_told
        roots = self._roots_of_weights(unknowns)
        columns = self._columns(unknowns)
        Z = roots * columns
        of_features = self.view.features.slopes(self.rows(unknowns))
        changes = np.concatenate(
            [
                np.zeros((self.n_rows, self.parts.shape[1], of_features.shape[2])),
                roots[:, :, None] * of_features,
            ],
            axis=1,
        )  # (n_rows, n_columns, n_unknown of a row)
        if self.with_weights:
            changes = np.concatenate([changes, columns[:, :, None]], axis=2)
        slopes = changes[:, first] * Z[:, second, None]
        slopes += changes[:, second] * Z[:, first, None]
        slopes *= self.scale[:, None]
        return slopes.transpose(1, 0, 2).reshape(self.n_equations, -1)
