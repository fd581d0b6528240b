"""Coordinates of few directions, for rows of more features than there are rows.

Gradients of a linear model are sums of rows, so that with a ridge penalty its weights
lie in the span of the rows. Let u be the units in which weights are penalized, and B
the orthonormal basis of the rows less their mean c, divided by u. Then a row x has the
coordinates z, and a model with the weights v there the weights w on rows:

    z = (x - c)^T diag(1/u) B,    w = diag(1/u) B v,    v = (diag(u) B)^T w.

A product ``z^T v`` is the same as ``(x - c)^T w``, and penalties of v are those of w.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..disclosure import indicator
from ._class_moments import ClassMoments, merge_moments
from ._rows import MOST_OF_SQUARE, directions, move_to_origin, ratio


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Span:
    """Coordinates of rows in the span of all that nodes sent of theirs."""

    center: np.ndarray  # (n_features,), mean of all rows
    basis: np.ndarray  # (n_features, n_directions), diag(1/u) B
    inverse: np.ndarray  # the same of weights, its pseudo-inverse, diag(u) B

    @classmethod
    def from_moments(
        cls,
        nodes: Sequence[ClassMoments],
        *,
        scaled: bool,
        zero_row: np.ndarray | None = None,
    ) -> "Span | None":
        """Return the span of moments with roots; None if not smaller than all features.

        With ``zero_row``, at which all logits are to be 0, it goes through that row;
        where that is NaN, through the mean.
        """
        merged = merge_moments(nodes)
        mean = merged.mean()
        variances = merged.variances()
        spanning_rows = [merged.means - mean, *(moments.roots for moments in nodes)]
        is_constant = variances == 0
        if zero_row is not None:
            zero_deviation = np.nan_to_num(merged.origin + mean - zero_row)
            spanning_rows.append(zero_deviation[None])
            is_constant &= zero_deviation == 0
        rows = np.concatenate(spanning_rows)
        if len(rows) >= min(rows.shape[1], MOST_OF_SQUARE):
            return None
        # Weights are penalized in this unit.
        unit = np.ones_like(variances)
        if scaled:
            unit = np.where(variances > 0, np.sqrt(variances), 1.0)
        unit[is_constant] = 0.0
        inverse_unit = ratio(1.0, unit)
        rows *= inverse_unit
        sizes, vectors = directions(rows @ rows.T)
        basis = rows.T @ (vectors / sizes)
        return cls(
            center=merged.origin + mean,
            basis=inverse_unit[:, None] * basis,
            inverse=unit[:, None] * basis,
        )

    def moments(self, own: ClassMoments, n_classes: int) -> ClassMoments:
        """Moments with roots, or without any scatter, in these coordinates."""
        n_directions = self.basis.shape[1]
        in_span = replace(
            own,
            origin=np.zeros(n_directions),
            means=(own.means + (own.origin - self.center)) @ self.basis,
            scatter=np.zeros((0, n_directions, n_directions)),
        )
        if own.roots is None:
            return in_span
        roots = own.roots @ self.basis
        scatter = indicator(own.root_groups, len(own.groups)) @ roots**2
        in_span = replace(in_span, roots=roots, scatter=scatter)
        return in_span.with_matrices(n_classes)

    def coordinates_of_row(self, row: np.ndarray) -> np.ndarray:
        """Return a row in these coordinates; where it is NaN it is the mean of all."""
        return np.nan_to_num(row - self.center) @ self.basis

    def from_rows(self, W: np.ndarray, origin: np.ndarray | float = 0.0) -> np.ndarray:
        """A model on rows less an origin, in these coordinates; equal on its rows."""
        W = move_to_origin(W, self.center - origin)
        return np.vstack([self.inverse.T @ W[:-1], W[-1]])

    def to_rows(self, W: np.ndarray) -> np.ndarray:
        """A model in these coordinates as one on rows as they are."""
        W = np.vstack([self.basis @ W[:-1], W[-1]])
        return move_to_origin(W, -self.center)

    def gradient(
        self, slope: np.ndarray, origin: np.ndarray | float = 0.0
    ) -> np.ndarray:
        """Gradients of a loss of models on rows less an origin, in these coordinates.

        They are (..., n_features + 1, n_outputs), the last row that of intercepts. The
        logits ``w^T (x - origin) + b`` are ``v^T z + b'`` with ``w = diag(1/u) B v``
        and ``b = b' - (c - origin)^T w``. So of the gradients g in w and h in b that in
        v is ``(diag(1/u) B)^T (g - (c - origin) h)``, and that in b' is h.
        """
        of_center = np.multiply.outer(slope[..., -1, :], self.center - origin)
        about_center = slope[..., :-1, :] - of_center.swapaxes(-1, -2)
        return np.concatenate(
            [self.basis.T @ about_center, slope[..., -1:, :]], axis=-2
        )
