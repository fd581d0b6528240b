# SPDX-License-Identifier: BSD-3-Clause
"""Conflicts: which spaces do not meet, and which of them do together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from ._deepest import Bounds, check_spaces, distances_of, find_deepest
from ._dual import DualProblem
from ._space import GoodEnoughSpace

__all__ = ["conflicts_of", "largest_coalition", "pairwise_conflicts"]


def pairwise_conflicts(spaces: Sequence[GoodEnoughSpace]) -> list[tuple[int, int]]:
    """Return the pairs of spaces that are proved not to meet.

    Parameters
    ----------
    spaces : sequence of GoodEnoughSpace
        With metrics of one family.

    Returns
    -------
    conflicts : list of tuple (int, int)
        Indices i < j.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import GoodEnoughSpace, ball_metric, pairwise_conflicts
    >>> metric = ball_metric(1, np.array([True]))
    >>> pairwise_conflicts([
    ...     GoodEnoughSpace(np.array([[at]]), metric, radius=1.0, epsilon=0.9)
    ...     for at in (0.0, 1.5, 3.0)
    ... ])
    [(0, 2)]
    """
    spaces = list(spaces)
    check_spaces(spaces)
    return conflicts_of(spaces, np.mean([space.center for space in spaces], axis=0))


def conflicts_of(
    spaces, point: np.ndarray, among: np.ndarray | None = None
) -> list[tuple[int, int]]:
    """Return the pairs proved not to meet; `point` may spare some of the proofs.

    With `among` only pairs of these spaces are looked at.
    """
    # Spaces that hold one and the same point need no proof.
    outside = distances_of(spaces, point) > 1.0
    chosen = range(len(spaces)) if among is None else np.sort(among).tolist()
    return [
        (i, j)
        for i, j in combinations(chosen, 2)
        if (outside[i] or outside[j]) and _disjoint(spaces[i], spaces[j])
    ]


def _disjoint(one: GoodEnoughSpace, other: GoodEnoughSpace) -> bool:
    there, back = one.distance(other.center), other.distance(one.center)
    # They meet on the line between their centres.
    if one.radius * back + other.radius * there >= there * back:
        return False
    # Of one metric, they meet nowhere else.
    if one.metric is other.metric:
        return True
    settled = {"inside": 1.0, "outside": 1.0}
    return (
        find_deepest(DualProblem([one, other]), 1e-9, 50, **settled).lower_bound > 1.0
    )


def largest_coalition(spaces: Sequence[GoodEnoughSpace]) -> list[int]:
    """Return a large set of spaces that do intersect, found greedily.

    The space with the largest weight in the proof of emptiness is dropped until the
    rest intersect; then those dropped are taken back where they fit. No space can be
    added to the result, but a larger one may exist.

    Parameters
    ----------
    spaces : sequence of GoodEnoughSpace
        With metrics of one family.

    Returns
    -------
    coalition : list of int
        Sorted indices of the spaces.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import GoodEnoughSpace, ball_metric, largest_coalition
    >>> metric = ball_metric(1, np.array([True]))
    >>> largest_coalition([
    ...     GoodEnoughSpace(np.array([[at]]), metric, radius=1.0, epsilon=0.9)
    ...     for at in (0.0, 9.0, 1.0)
    ... ])
    [0, 2]
    """
    spaces = list(spaces)
    check_spaces(spaces)

    def settle(indices: list[int]) -> Bounds:
        chosen = [spaces[k] for k in indices]
        problem = DualProblem(chosen)
        bounds = find_deepest(problem, 1e-9, 100, inside=1.0)
        bounds.max_distance = distances_of(chosen, problem.point(bounds.step)).max()
        return bounds

    coalition, dropped = list(range(len(spaces))), []
    while (bounds := settle(coalition)).max_distance > 1.0:
        dropped.append(coalition.pop(int(bounds.weights.argmax())))
    for k in reversed(dropped):
        if settle([*coalition, k]).max_distance <= 1.0:
            coalition.append(k)
    return sorted(coalition)
