# SPDX-License-Identifier: BSD-3-Clause
"""The likeliest model of those in all spaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ._deepest import Bounds, check_spaces, distances_of, find_deepest
from ._dual import DualProblem
from ._intersection import Intersection, repair, report
from ._space import GoodEnoughSpace

# Multipliers are settled where no space is missed by more, in squared radii.
_TOLERANCE = 1e-6
_MAX_UPDATES = 40


def likeliest(
    spaces: Sequence[GoodEnoughSpace],
    minimize: Callable[..., np.ndarray],
    start: np.ndarray,
    n_rows: float,
    *,
    tol: float = 1e-9,
    max_iter: int = 200,
) -> Intersection:
    """Find the model of least loss in all spaces, or the deepest if they do not meet.

    By the method of multipliers, from the model of least loss anywhere. To the loss
    ``minimize(start, extra, forces)`` adds ``extra(W)``, which has a gradient.
    """
    spaces = list(spaces)
    check_spaces(spaces)
    proof = Bounds(tol)
    proof.lower_bound = 0.0
    proof.weights = np.zeros(len(spaces))
    if distances_of(spaces, start).max() <= 1.0:
        return report(spaces, "likelihood", start, proof)
    problem = DualProblem(spaces)
    # Any point well inside shows that there is an intersection; none, the deepest.
    best = find_deepest(problem, tol, max_iter, inside=0.9)
    deepest = problem.point(best.step)
    if distances_of(spaces, deepest).max() > 1.0:
        return report(spaces, "likelihood", deepest, best)
    squares = np.array([space.radius**2 for space in spaces])

    # Each space adds its excess, and the square of it, to the loss.
    def penalty(W, multipliers, strength):
        value, gradient = 0.0, np.zeros_like(W)
        for space, square, multiplier in zip(spaces, squares, multipliers, strict=True):
            delta = W - space.center
            moved = space.metric.apply(delta)
            excess = np.vdot(delta, moved) / square - 1.0
            force = max(0.0, multiplier + strength * excess)
            value += (force**2 - multiplier**2) / (2.0 * strength)
            gradient += (2.0 * force / square) * moved
        return value, gradient

    point, multipliers = start, np.zeros(len(spaces))
    excess = distances_of(spaces, point) - 1.0
    strength, last = 0.1 * n_rows, np.inf
    for _ in range(_MAX_UPDATES):
        known, now = multipliers, strength

        def extra(W, known=known, now=now):
            return penalty(W, known, now)

        # Near the start the second derivatives of `extra` are about those of the
        # squared distances from the centers, times these.
        forces = np.maximum(0.0, known + now * excess) / squares
        point = minimize(point, extra, forces)
        best.n_iter += 1
        excess = distances_of(spaces, point) - 1.0
        multipliers = np.maximum(0.0, known + now * excess)
        missed = np.abs(np.maximum(excess, -known / now)).max()
        if missed < _TOLERANCE:
            break
        if missed > 0.25 * last:
            strength *= 10.0
        last = missed
    point = repair(problem, spaces, point - problem.base, best.step)
    if multipliers.any():
        best.weights = multipliers / multipliers.sum()
    return report(spaces, "likelihood", point, best)
