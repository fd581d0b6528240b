# SPDX-License-Identifier: BSD-3-Clause
"""The deepest point of several spaces: how far it is, and the proof that it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._dual import DualPoint, DualProblem, interior_point
from ._space import GoodEnoughSpace

__all__ = ["Bounds", "check_spaces", "distances_of", "find_deepest"]


def check_spaces(spaces: list[GoodEnoughSpace]) -> None:
    """Raise if the spaces cannot be intersected."""
    if not spaces:
        raise ValueError("There is no space to intersect: the list is empty.")
    families = [space.metric.family for space in spaces]
    if len(set(families)) > 1:
        names = ", ".join(f"{k}: {family}" for k, family in enumerate(families))
        raise TypeError(
            "Spaces of different geometries cannot be intersected: gram spaces with "
            f"diagonal (ball, ellipsoid) ones ({names}). Build all with one of them."
        )
    for k, space in enumerate(spaces):
        if space.center.shape != spaces[0].center.shape:
            raise ValueError(
                f"Space {k} has parameters of shape {space.center.shape}, space 0 of "
                f"{spaces[0].center.shape}."
            )
        if space.radius == 0:
            raise ValueError(
                f"Space {k} has radius 0: it holds its centre only. Its model does "
                "not reach epsilon on its own rows; choose another epsilon."
            )


def distances_of(spaces: Sequence[GoodEnoughSpace], point: np.ndarray) -> np.ndarray:
    """Normalised squared distance of a point from each space."""
    return np.array([space.normalized_squared_distance(point) for space in spaces])


class Bounds:
    """Best point and best proof met so far on the way to the deepest point.

    It is far enough where the gap is small, the point deeper than `inside` or the
    bound above `outside`.
    """

    def __init__(
        self, tol: float, inside: float = 0.0, outside: float = np.inf
    ) -> None:
        self.tol, self.inside, self.outside = tol, inside, outside
        self.step = np.empty(0)
        self.max_distance, self.lower_bound = np.inf, -np.inf
        self.weights = np.empty(0)
        self.n_iter = 0

    def __call__(self, dual: DualPoint) -> bool:
        top = float(dual.distances.max())
        if top < self.max_distance:
            self.max_distance, self.step = top, dual.step
        size = dual.weights.sum()
        if dual.value / size > self.lower_bound:
            self.lower_bound = dual.value / size
            self.weights = dual.weights / size
        if self.max_distance < self.inside or self.lower_bound > self.outside:
            return True
        gap = self.max_distance - self.lower_bound
        return gap <= self.tol * self.max_distance or dual.value <= 0


def find_deepest(problem: DualProblem, tol, max_iter, **far_enough: float) -> Bounds:
    """Go towards the deepest point until the bounds are far enough."""
    bounds = Bounds(tol, **far_enough)
    # Two touching balls have dual weights in proportion to their radii.
    weights = problem.inverse_squares**-0.5
    bounds.n_iter = interior_point(
        problem,
        weights / weights.sum(),
        np.zeros(len(weights)),
        simplex=True,
        tol=tol,
        done=bounds,
        max_iter=max_iter,
    )
    return bounds
