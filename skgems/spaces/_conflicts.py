# SPDX-License-Identifier: BSD-3-Clause
"""Conflicts: which spaces do not meet, and which of them do together."""

from collections.abc import Iterator, Sequence

import numpy as np

from ._dual import Bounds, DualProblem, check_spaces, distances_of, find_deepest
from ._space import GoodEnoughSpace


def likely_conflicts(
    spaces: Sequence[GoodEnoughSpace],
    point: np.ndarray,
    weights: np.ndarray,
    most: int,
) -> Iterator[tuple[int, int]]:
    """Yield pairs proved not to meet, of the ``most`` of largest product of weights."""
    # The pairs of largest product are among the first spaces.
    heaviest = np.sort(np.argsort(-weights, kind="stable")[: most + 1])
    first, second = np.triu_indices(len(heaviest), 1)
    product = weights[heaviest[first]] * weights[heaviest[second]]
    tried = np.argsort(-product, kind="stable")[:most]
    # Spaces that hold one and the same point need no proof.
    outside = distances_of(spaces, point) > 1.0
    pairs = zip(heaviest[first[tried]], heaviest[second[tried]], strict=True)
    for i, j in pairs:
        if (outside[i] or outside[j]) and _disjoint(spaces[i], spaces[j]):
            yield int(i), int(j)


def _disjoint(one: GoodEnoughSpace, other: GoodEnoughSpace) -> bool:
    there, back = one.distance(other.center), other.distance(one.center)
    # They meet on the line between their centres.
    if one.radius * back + other.radius * there >= there * back:
        return False
    # Of one metric, they meet nowhere else.
    if one.metric is other.metric:
        return True
    problem = DualProblem([one, other])
    return find_deepest(problem, 1e-9, 50, inside=1.0, outside=1.0).lower_bound > 1.0


def largest_coalition(spaces: Sequence[GoodEnoughSpace]) -> list[int]:
    """Sorted indices of a large set of spaces that intersect, found greedily."""
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
