"""Unions of spaces, several a node: one point in a space of every node, or a proof.

With the spaces S_k1, S_k2, ... of node k the intersection of unions is

    cap_k (S_k1 u S_k2 u ...) = union over all choices i of cap_k S_{k i_k}.

There are exponentially many choices of one space a node, so they are searched depth
first, and a partial choice is given up with all that continue it once its spaces are
proved not to meet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_scalar

from ._dual import DualProblem, check_spaces, find_deepest, normalized_distances
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


@dataclass(frozen=True, eq=False, kw_only=True)
class UnionIntersection:
    """A choice of one space for each of K nodes, its intersection, and what is proved.

    If neither `found` nor `empty` is True, it is not decided whether any choice of
    spaces has a common point.

    Attributes
    ----------
    intersection : Intersection
        Intersection of the chosen spaces. Its `empty` is about these spaces alone.
    choice : tuple of int
        For each node the index of its chosen space. It is the first choice that was
        found to intersect. If there is none, it is the one that comes closest of those
        that were tried.
    empty : bool
        Whether it is proved that no point is in a space of every node.
    n_searched : int
        Number of partial choices that were tried.
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
        """The model, an array of shape (n_params, n_outputs)."""
        return self.intersection.point


def intersect_unions(
    unions: Sequence[Sequence[GoodEnoughSpace]],
    *,
    method: str = "consensus",
    node_weight: ArrayLike | None = None,
    max_nodes: int = 10_000,
) -> UnionIntersection:
    r"""Find one model in a space of every node, or prove that there is none.

    Each node may have several spaces, for example those of models that were trained
    from different starts. One space per node is chosen, node after node. The next node
    is always the one that is furthest from the deepest point of the spaces chosen so
    far.

    A partial choice is given up, with all choices that continue it, in two cases. In
    the first, some node has no space left that intersects each chosen one, two by two.
    In the second, the dual proves that the chosen spaces do not intersect. The deepest
    point of each partial choice is tried on all spaces of all nodes.

    Parameters
    ----------
    unions : sequence of sequences of GoodEnoughSpace
        For each node a list of its spaces. All radii are above 0, and all metrics are
        of one family.
    method : {"consensus", "deepest", "hinge"}, default="consensus"
        Which point of the chosen spaces is returned, as for :func:`intersect`.
    node_weight : array-like of shape (K,), default=None
        Weights of the nodes, as for :func:`intersect`.
    max_nodes : int, default=10000
        Largest number of partial choices, which are nodes of the search tree, to look
        at. There are :math:`\prod_k n_k` complete choices. If this number is reached,
        the search ends undecided. Raise it if neither ``found`` nor ``empty`` is True.

    Returns
    -------
    found : UnionIntersection
        The choice and its point, or the proof that there is none.

    Raises
    ------
    TypeError
        If gram metrics are mixed with ball or ellipsoid metrics, or a node has no list
        of spaces.
    ValueError
        If there is no node, a node has no space, shapes differ, or a radius is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import GoodEnoughSpace, ball_metric, intersect_unions
    >>> metric = ball_metric(1, np.array([True]))
    >>> def union(*centers):
    ...     models = [np.array([[center]]) for center in centers]
    ...     return [
    ...         GoodEnoughSpace(center=W, metric=metric, radius=1.0, epsilon=0.9)
    ...         for W in models
    ...     ]
    >>> both = intersect_unions([union(0.0, 10.0), union(5.0, 11.0)])
    >>> both.found, both.choice, both.point
    (True, (1, 1), array([[10.5]]))
    >>> intersect_unions([union(0.0, 10.0), union(5.0, 15.0)]).empty
    True
    """
    checked_unions = _checked_unions(unions)
    check_scalar(max_nodes, "max_nodes", Integral, min_val=1)
    search = _Search(checked_unions, method=method, node_weight=node_weight)
    is_complete = search.run(max_nodes)
    return UnionIntersection(
        intersection=search.best,
        choice=search.choice,
        empty=is_complete and not search.best.found,
        n_searched=search.n_searched,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _PartialChoice:
    chosen: dict[int, int]  # space by node, in the order in which they were chosen
    # Of each other node the spaces that may meet all chosen ones but the last.
    candidates: dict[int, frozenset[int]]
    point: np.ndarray  # the deepest of the chosen ones but the last


class _Search:
    """Depth-first search through partial choices, and what it has come to."""

    def __init__(
        self,
        unions: list[list[GoodEnoughSpace]],
        *,
        method: str,
        node_weight: ArrayLike | None,
    ) -> None:
        self.unions = unions
        self.method = method
        self.node_weight = node_weight
        self.choice = (0,) * len(unions)
        self.best = self._intersect(self.choice)
        # Smallest of the largest distances, of any point so far.
        self._closest = self.best.max_distance
        self.n_searched = 1
        # Spaces of a node that may meet a space of another, by (node, space, other).
        self._meeting: dict[tuple[int, int, int], frozenset[int]] = {}

    def run(self, max_nodes: int) -> bool:
        """Search to the end or until a point is found; whether nothing is left open."""
        is_complete = True
        waiting = [self._no_choice()]
        while waiting and not self.best.found:
            if self.n_searched == max_nodes:
                return False
            self.n_searched += 1
            partial_choice = waiting.pop()
            candidates = self._candidates_after(partial_choice)
            if not all(candidates.values()):
                continue
            point, is_empty = _deepest(
                [self.unions[node][i] for node, i in partial_choice.chosen.items()],
                partial_choice.point,
            )
            distances = [normalized_distances(spaces, point) for spaces in self.unions]
            self._try_nearest(distances)
            if is_empty or self.best.found:
                continue
            # All nodes have a space, and there is neither a point nor a proof.
            is_complete = is_complete and bool(candidates)
            waiting += _extensions(
                partial_choice, candidates=candidates, point=point, distances=distances
            )
        return is_complete

    def _no_choice(self) -> _PartialChoice:
        """The root of the tree: nothing is chosen, and every space is possible."""
        candidates = {
            node: frozenset(range(len(spaces)))
            for node, spaces in enumerate(self.unions)
        }
        return _PartialChoice(chosen={}, candidates=candidates, point=self.best.point)

    def _intersect(self, choice: Sequence[int]) -> Intersection:
        chosen = [spaces[i] for spaces, i in zip(self.unions, choice, strict=True)]
        return intersect(chosen, method=self.method, node_weight=self.node_weight)

    def _candidates_after(
        self, partial_choice: _PartialChoice
    ) -> dict[int, frozenset[int]]:
        """Of each other node the spaces that may meet all chosen ones, two by two."""
        if not partial_choice.chosen:
            return partial_choice.candidates
        node, space = next(reversed(partial_choice.chosen.items()))
        return {
            other: spaces & self._spaces_meeting(node, space, other)
            for other, spaces in partial_choice.candidates.items()
        }

    def _spaces_meeting(self, node: int, space: int, other: int) -> frozenset[int]:
        """Spaces of the other node that are not proved to miss a space of this one."""
        key = (node, space, other)
        if key not in self._meeting:
            self._meeting[key] = frozenset(
                i
                for i, space_of_other in enumerate(self.unions[other])
                if not disjoint(self.unions[node][space], space_of_other)
            )
        return self._meeting[key]

    def _try_nearest(self, distances: list[np.ndarray]) -> None:
        """Choose each node's nearest space, if no point came as close to all so far."""
        largest = max(of_node.min() for of_node in distances)
        if largest < self._closest:
            self.choice = tuple(int(of_node.argmin()) for of_node in distances)
            self.best = self._intersect(self.choice)
            self._closest = min(self.best.max_distance, largest)


def _extensions(
    partial_choice: _PartialChoice,
    *,
    candidates: dict[int, frozenset[int]],
    point: np.ndarray,
    distances: list[np.ndarray],
) -> list[_PartialChoice]:
    """The choice with each space of the node furthest from its point, nearest last."""
    if not candidates:
        return []
    node = max(candidates, key=lambda other: distances[other].min())
    others = {other: spaces for other, spaces in candidates.items() if other != node}
    return [
        _PartialChoice(
            chosen=partial_choice.chosen | {node: space},
            candidates=others,
            point=point,
        )
        for space in sorted(candidates[node], key=lambda i: -distances[node][i])
    ]


def _deepest(
    spaces: list[GoodEnoughSpace], point: np.ndarray
) -> tuple[np.ndarray, bool]:
    """The point, a point in all spaces or the deepest, and whether none is in all."""
    if not spaces or normalized_distances(spaces, point).max() <= 1.0:
        return point, False
    problem = DualProblem(spaces)
    bounds = find_deepest(
        problem, tol=TOL, max_iter=MAX_ITER, inside=WELL_INSIDE, outside=PROVED
    )
    return problem.model(bounds.step), bounds.lower_bound > PROVED


def _checked_unions(
    unions: Sequence[Sequence[GoodEnoughSpace]],
) -> list[list[GoodEnoughSpace]]:
    checked = []
    names = []
    for node, spaces in enumerate(unions):
        if isinstance(spaces, GoodEnoughSpace):
            raise TypeError(
                f"Node {node} has one space instead of a list. Give a list of its "
                "spaces, such as [space] for a single one."
            )
        checked.append(list(spaces))
        if not checked[-1]:
            raise ValueError(
                f"Node {node} has no space: its list is empty. Give it one space or "
                "more, or leave the node out."
            )
        names += [f"{i} of node {node}" for i in range(len(checked[-1]))]
    check_spaces([space for spaces in checked for space in spaces], names)
    return checked
