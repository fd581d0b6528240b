# SPDX-License-Identifier: BSD-3-Clause
"""Accuracy profiles: how far a model may move and keep a share of its rows right."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..moments import float_type
from ._margins import MOST_ROWS, Margins, check_construction
from ._metric import Metric
from ._rays import Rays

# A margin this small, against the change a unit step makes, is a tie.
_TIE = 1e-15
# Relative rounding of a distance, by which certified radii are shortened.
_ROUNDING = 1e-9


def rows_needed(epsilon: float, n_rows: int) -> int:
    """Smallest number of right rows m with ``m / n_rows >= epsilon`` in floats."""
    needed = int(np.ceil(epsilon * n_rows))
    if needed > 0 and (needed - 1) / n_rows >= epsilon:
        needed -= 1
    elif needed / n_rows < epsilon:
        needed += 1
    return needed


@dataclass(frozen=True, eq=False)
class AccuracyProfile:
    """Radius of a space for every level of accuracy."""

    n_rows: int  # that the model was tried on
    score: float  # accuracy of the centre
    # Sorted. radii[j] is the smallest distance at which more than may_lose[j] of the
    # rows that the centre has right may be lost.
    radii: np.ndarray = field(repr=False)
    # Increasing from 0 to all rows that the centre has right.
    may_lose: np.ndarray = field(repr=False)

    def thinned(self, most: int = 1001) -> AccuracyProfile:
        """The same at fewer levels; between them radii are those of a higher one."""
        if len(self.radii) <= most:
            return self
        kept = np.linspace(0, len(self.radii) - 1, most).astype(np.intp)
        may_lose = np.append(self.may_lose[kept], self.may_lose[-1])
        return replace(self, radii=self.radii[kept], may_lose=may_lose)

    def radius(self, epsilon: float, max_radius: float = np.inf) -> float:
        """Largest radius within which ``ceil(epsilon * n_rows)`` rows stay right."""
        n_right = self.may_lose[-1]
        may_lose = n_right - rows_needed(epsilon, self.n_rows)
        if may_lose < 0:
            return 0.0
        if may_lose == n_right:
            return float(max_radius)
        last = np.searchsorted(self.may_lose, may_lose, side="right") - 1
        return float(min(self.radii[last], max_radius))

    def level(self, distance: float) -> float:
        """Return the accuracy that models at most so far away are known to keep."""
        lost = self.may_lose[np.searchsorted(self.radii, distance, side="left")]
        return float((self.may_lose[-1] - lost) / self.n_rows)


def accuracy_profile(
    X,
    y: np.ndarray,
    center: np.ndarray,
    metric: Metric,
    *,
    outputs: np.ndarray | None = None,
    construction: str = "sampled",
    n_directions: int = 500,
    random_state=None,
) -> AccuracyProfile:
    """Find how far a model may move before it loses its rows (2019, Algorithm 2)."""
    check_construction(construction)
    certified = construction == "certified"
    node = Margins(X, y, center, metric, outputs, certified=certified)
    n_rows, right = node.n_rows, np.flatnonzero(node.right)
    if certified:
        node.check_certifiable()
        radii = np.sort(_certified_radii(node)[node.right])
    else:
        if n_rows > MOST_ROWS:  # some stand for all, evenly spaced by their margin
            node = node.thinned(right, _nearest(node)[right])
        radii = _sampled_radii(node, node.rays(n_directions, random_state))
    may_lose = np.arange(len(radii) + 1) * len(right) // max(len(radii), 1)
    return AccuracyProfile(n_rows, len(right) / n_rows, radii, may_lose)


def _nearest(node: Margins) -> np.ndarray:
    """The label's logit less the largest of the others, row by row."""
    others = node.margins.copy()
    others[node.label, np.arange(node.n_rows)] = np.inf
    return others.min(axis=0)


def _certified_radii(node: Margins) -> np.ndarray:
    # The worst direction for a row: min_c (z_y - z_c) / sqrt(v_y + v_c), v the norms.
    index = np.arange(node.n_rows)
    squared = node.norms
    own = squared[node.label if len(squared) > 1 else 0, index]
    # Short of where rounding of the margins, or of a distance, could go over.
    margins = np.maximum(node.margins - node.rounding, 0.0) * (1.0 - _ROUNDING)
    # An output that cannot move against the label's gives 0 / 0 or x / 0.
    with np.errstate(divide="ignore", invalid="ignore"):
        radii = margins / np.sqrt(squared + own)
    radii[node.label, index] = np.inf
    radii[np.isnan(radii)] = 0.0
    return radii.min(axis=0)


def _sampled_radii(node: Margins, rays: Rays) -> np.ndarray:
    dtype = float_type(node.X)
    n_right = int(node.right.sum())
    # A row fails at 1 / max_c (change / margin); 0 for rows that do not count.
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.minimum(1.0 / node.margins, _TIE**-2)
    inverse[node.label, np.arange(node.n_rows)] = 0.0
    inverse[:, ~node.right] = 0.0
    inverse = inverse.astype(dtype, copy=False)
    fastest = np.zeros(n_right)
    for batch, scale, parts in rays.chunks():
        rates = np.empty((batch.stop - batch.start, node.n_rows), dtype=dtype)
        for rows, changes in parts:
            node.against_label(changes, rows)
            changes *= inverse[:, rows]
            changes.max(axis=1, out=rates[:, rows])
        rates *= scale.astype(dtype)[:, None]
        rates.sort(axis=1)
        np.maximum(fastest, rates[:, node.n_rows - n_right :].max(axis=0), out=fastest)
    with np.errstate(divide="ignore"):
        # abs: a rate may be -0.0, whose inverse is not infinity.
        radii = 1.0 / np.abs(fastest[::-1])
    radii[radii < _TIE] = 0.0
    return radii
