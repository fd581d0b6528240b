# SPDX-License-Identifier: BSD-3-Clause
"""Coordinates of the features in which first layers can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_matrix, issparse

from ._layers import Layers


@dataclass(frozen=True, eq=False)
class Coordinates:
    """A centre and a scale of each feature: row x is ``(x - center) / scale`` in them.

    The scale is NaN where a classifier has seen no spread of a feature, the centre too
    where it has not seen the feature at all. It is used as it is: centre 0, scale 1.
    """

    center: np.ndarray  # (n_features,)
    scale: np.ndarray  # (n_features,), positive

    @classmethod
    def common(cls, several: Sequence[Coordinates | None]) -> Coordinates | None:
        """One for several nodes: the mean of their centres, the median of their scales.

        Each feature by the nodes that know it; a None (features as they are) counts
        where the others know nothing of it. None if no node has any.
        """
        having = [own for own in several if own is not None]
        if not having:
            return None
        centers = np.ma.masked_invalid([own.center for own in having])
        scales = np.ma.masked_invalid([own.scale for own in having])
        found = cls(
            np.ma.filled(centers.mean(axis=0), np.nan),
            np.ma.filled(np.ma.median(scales, axis=0), np.nan),
        )
        return found if len(having) == len(several) else found.filled()

    def filled(self) -> Coordinates:
        """The same, with features as they are where nothing is known of them."""
        return self.extended(None)

    def extended(self, other: Coordinates | None) -> Coordinates:
        """The same, with what others say, if any, where nothing is known."""
        center, scale = (0.0, 1.0) if other is None else (other.center, other.scale)
        return Coordinates(
            np.where(np.isnan(self.center), center, self.center),
            np.where(np.isnan(self.scale), scale, self.scale),
        )

    def take_in(self, layers: Layers) -> Layers:
        """Layers over features as layers over these coordinates, of the same dtype.

        A Network's weights of features without spread are left out, since they are
        where training started: the function is that at these features' centres.
        """
        first, bias = layers.coefs[0], layers.intercepts[0]
        own = getattr(layers, "coordinates", None)
        if own is not None:
            constant = np.isnan(own.scale) & np.isfinite(own.center)
            bias = bias + own.center[constant] @ first[constant]
            first = np.where(constant[:, None], 0.0, first)
        known = self.filled()
        return _with_first(
            layers, first * known.scale[:, None], bias + known.center @ first
        )

    def give_back(self, layers: Layers) -> Layers:
        """Layers over these coordinates as layers over features; undoes `take_in`."""
        known = self.filled()
        first = layers.coefs[0] / known.scale[:, None]
        return _with_first(layers, first, layers.intercepts[0] - known.center @ first)

    def rows(self, X):
        """Rows in these coordinates; sparse ones are scaled only, see `left_out`."""
        known = self.filled()
        if issparse(X):
            return csr_matrix(X.multiply(1.0 / known.scale))
        return ((X - known.center) / known.scale).astype(X.dtype, copy=False)

    def left_out(self) -> Coordinates:
        """What `rows` does not do to sparse rows: the centre, in units of the scale."""
        known = self.filled()
        return Coordinates(known.center / known.scale, np.ones_like(known.scale))


def _with_first(layers: Layers, coef, bias) -> Layers:
    dtypes = layers.coefs[0].dtype, layers.intercepts[0].dtype
    return replace(
        layers,
        coefs=(coef.astype(dtypes[0], copy=False), *layers.coefs[1:]),
        intercepts=(bias.astype(dtypes[1], copy=False), *layers.intercepts[1:]),
    )
