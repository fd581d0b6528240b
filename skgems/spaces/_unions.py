"""Unions of spaces, several a node: one point in a space of every node, or a proof."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_scalar

from ._dual import DualProblem, check_spaces, distances_of, find_deepest
from ._intersection import (
    MAX_ITER,
    PROVED,
    TOL,
    WELL_INSIDE,
    Intersection,
    disjoint,
    intersect,
)
from ._space import GoodEnoughSpace


@dataclass(frozen=True, eq=False)
class UnionIntersection:
    """A choice of one space for each of K nodes, where these meet, and what is proved.

    Where neither `found` nor `empty` is True, it is not decided whether any do.

    Attributes
    ----------
    intersection : Intersection
        Of the chosen spaces; its `empty` is about these alone.
    choice : tuple of int
        For each node the index of its space: the first choice found to meet, else the
        one that comes closest of those that were tried.
    empty : bool
        Whether it is proved that no point is in a space of every node.
    n_searched : int
        Partial choices that were looked at.
    """

    intersection: Intersection
    choice: tuple[int, ...]
    empty: bool
    n_searched: int

    @property
    def found(self) -> bool:
        """Whether the point is in a space of every node."""
        return self.intersection.found

    @property
    def point(self) -> np.ndarray:
        """The model, of shape (n_params, n_outputs)."""
        return self.intersection.point


def intersect_unions(
    unions: Sequence[Sequence[GoodEnoughSpace]],
    *,
    method: str = "consensus",
    node_weight: ArrayLike | None = None,
    max_nodes: int = 10_000,
) -> UnionIntersection:
    r"""Find one model in a space of every node, or prove that there is none.

    Node k has several spaces, of models trained from other starts. Spaces are chosen
    node after node, for the node furthest from the deepest point of those chosen so
    far. A partial choice is given up, with all that continue it, where some node has no
    space left that meets each chosen one, two by two, or where the dual proves that the
    chosen ones do not meet. The point of each is tried on all spaces of all nodes.

    Parameters
    ----------
    unions : sequence of sequences of GoodEnoughSpace
        For each node its spaces, of radii above 0, all of one family of metrics.
    method : {"consensus", "deepest", "hinge"}, default="consensus"
        Which point of the chosen spaces, as of :func:`intersect`.
    node_weight : array-like of shape (K,), default=None
        As of :func:`intersect`.
    max_nodes : int, default=10000
        Most partial choices, nodes of the search tree, to look at: of the
        :math:`\prod_k n_k` choices there are. Then the search ends undecided.

    Returns
    -------
    found : UnionIntersection

    Raises
    ------
    TypeError
        If gram and diagonal metrics are mixed, or a node has no list of spaces.
    ValueError
        If there is no node, a node has no space, shapes differ or a radius is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import GoodEnoughSpace, ball_metric, intersect_unions
    >>> metric = ball_metric(1, np.array([True]))
    >>> def union(*centers):
    ...     models = [np.array([[center]]) for center in centers]
    ...     return [GoodEnoughSpace(W, metric, radius=1.0, epsilon=0.9) for W in models]
    >>> both = intersect_unions([union(0.0, 10.0), union(5.0, 11.0)])
    >>> both.found, both.choice, both.point
    (True, (1, 1), array([[10.5]]))
    >>> intersect_unions([union(0.0, 10.0), union(5.0, 15.0)]).empty
    True
    """
    unions = _checked(unions)
    check_scalar(max_nodes, "max_nodes", Integral, min_val=1)

    def meet(choice: Sequence[int]) -> Intersection:
        chosen = [own[i] for own, i in zip(unions, choice, strict=True)]
        return intersect(chosen, method=method, node_weight=node_weight)

    @cache
    def meeting(node: int, space: int, other: int) -> frozenset[int]:
        one, others = unions[node][space], enumerate(unions[other])
        return frozenset(i for i, another in others if not disjoint(one, another))

    choice = (0,) * len(unions)
    best = meet(choice)
    closest, n_searched, decided = best.max_distance, 1, True
    # Chosen spaces by node, those of other nodes that may meet them, and a point near.
    every = {k: frozenset(range(len(own))) for k, own in enumerate(unions)}
    todo: list[tuple] = [({}, every, best.point)]
    while todo and not best.found:
        if n_searched == max_nodes:
            decided = False
            break
        n_searched += 1
        chosen, left, point = todo.pop()
        if chosen:
            k, i = next(reversed(chosen.items()))
            left = {j: own & meeting(k, i, j) for j, own in left.items()}
            if not all(left.values()):
                continue
        point, proved = _deepest([unions[k][i] for k, i in chosen.items()], point)
        distances = [distances_of(own, point) for own in unions]
        tops = [own.min() for own in distances]
        if max(tops) < closest:
            choice = tuple(int(own.argmin()) for own in distances)
            best = meet(choice)
            closest = min(best.max_distance, max(tops))
        if proved or best.found:
            continue
        # All chosen, and neither a point nor a proof.
        decided = decided and bool(left)
        if left:
            k = max(left, key=tops.__getitem__)
            rest = {j: own for j, own in left.items() if j != k}
            for i in sorted(left[k], key=lambda i: -distances[k][i]):
                todo.append((chosen | {k: i}, rest, point))
    return UnionIntersection(best, choice, decided and not best.found, n_searched)


def _deepest(spaces: list[GoodEnoughSpace], point: np.ndarray):
    """The point, a point in all spaces or the deepest, and whether none is in all."""
    if not spaces or distances_of(spaces, point).max() <= 1.0:
        return point, False
    problem = DualProblem(spaces)
    far_enough = {"inside": WELL_INSIDE, "outside": PROVED}
    bounds = find_deepest(problem, TOL, MAX_ITER, **far_enough)
    return problem.point(bounds.step), bounds.lower_bound > PROVED


def _checked(unions) -> list[list[GoodEnoughSpace]]:
    lists, names = [], []
    for k, own in enumerate(unions):
        if isinstance(own, GoodEnoughSpace):
            raise TypeError(f"Node {k} has one space: give a list of its spaces.")
        lists.append(list(own))
        if not lists[-1]:
            raise ValueError(f"Node {k} has no space: its list is empty.")
        names += [f"{i} of node {k}" for i in range(len(lists[-1]))]
    check_spaces([space for own in lists for space in own], names)
    return lists
