# SPDX-License-Identifier: BSD-3-Clause
"""Rows fewer than features: moments in coordinates of the directions that rows have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ._blocks import indicator, ratio
from ._class_moments import ClassMoments, merge_moments
from ._moments import about_origin
from ._rounding import directions

# Directions that the coordinates are of, at most: matrices of more take too long.
MOST_DIRECTIONS = 4000


@dataclass(frozen=True, eq=False)
class Span:
    """Coordinates of rows in the span of all that nodes sent of theirs."""

    center: np.ndarray = field(repr=False)  # (n_features,), mean of all rows
    basis: np.ndarray = field(repr=False)  # (n_features, n_directions)
    inverse: np.ndarray = field(repr=False)  # the same of weights, its pseudo-inverse

    @classmethod
    def of(cls, nodes: Sequence[ClassMoments], *, scaled: bool) -> Span | None:
        """The span of moments with roots; None if it is no smaller than all features.

        ``scaled``: a unit in it is one of features of unit variance, by which weights
        are penalised.
        """
        merged = merge_moments(nodes)
        mean, variances = merged.mean(), merged.variances()
        rows = np.concatenate([merged.means - mean, *(own.roots for own in nodes)])
        if len(rows) >= min(rows.shape[1], MOST_DIRECTIONS):
            return None
        unit = np.sqrt(variances) if scaled else np.ones_like(variances)
        unit[variances == 0] = 0.0
        inverse = ratio(1.0, unit)
        rows *= inverse
        sizes, vectors = directions(rows @ rows.T)
        basis = rows.T @ (vectors / sizes)
        back = unit[:, None] * basis
        return cls(merged.origin + mean, inverse[:, None] * basis, back)

    def moments(self, own: ClassMoments, n_classes: int) -> ClassMoments:
        """Moments with roots, or without any scatter, in these coordinates."""
        n_directions = self.basis.shape[1]
        moved = replace(
            own,
            origin=np.zeros(n_directions),
            means=(own.means + (own.origin - self.center)) @ self.basis,
            scatter=np.zeros((0, n_directions, n_directions)),
        )
        if own.roots is None:
            return moved
        roots = own.roots @ self.basis
        scatter = indicator(own.root_groups, len(own.groups)) @ roots**2
        return replace(moved, roots=roots, scatter=scatter).with_matrices(n_classes)

    def from_rows(self, W: np.ndarray, origin=0.0) -> np.ndarray:
        """A model on rows less an origin, in these coordinates; equal on its rows."""
        W = about_origin(W, self.center - origin)
        return np.vstack([self.inverse.T @ W[:-1], W[-1]])

    def to_rows(self, W: np.ndarray) -> np.ndarray:
        """A model in these coordinates, on rows as they are."""
        W = np.vstack([self.basis @ W[:-1], W[-1]])
        return about_origin(W, -self.center)

    def gradient(self, slope: np.ndarray, origin=0.0) -> np.ndarray:
        """A gradient in weights on rows less an origin, in these coordinates.

        ``slope``: (..., n_features + 1, n_outputs).
        """
        moved = slope[..., :-1, :] - np.multiply.outer(
            slope[..., -1, :], self.center - origin
        ).swapaxes(-1, -2)
        return np.concatenate([self.basis.T @ moved, slope[..., -1:, :]], axis=-2)
