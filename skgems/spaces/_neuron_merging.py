"""Merge neurons of several nodes: those whose spaces meet, then the cheapest.

The order of merges is a tree by Ward's method with masses. Where groups p and q join,
what it costs to join the new group with another group r is, by Lance and Williams,

    cost(pq, r) = ((a_p + a_r) cost(p, r) + (a_q + a_r) cost(q, r) - a_r cost(p, q))
                  / (a_p + a_q + a_r),

exact where costs are ``a b / (a + b)`` times squared distances of the groups' means. A
join takes place if the spaces of all its neurons have a common point, and beyond these
by cost until the layer has at most `max_units` units.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..compat import tracked
from ._intersection import intersect
from ._metric import TOLERANCE
from ._neuron_pool import NeuronPool
from ._neuron_spaces import NeuronSpaces
from ._space import RandomSource

# Larger groups are merged at the point that moves them least, or not at all: the search
# for another one intersects as many spaces as there are members.
_LARGEST_EXACT_GROUP = 8
# What neurons whose spaces meet cost to merge, at most, as estimated: the estimate of a
# pair's cost is twice too high at most for its masses, and some for its metrics.
_SLACK = 8.0

# ---- the order of merges -------------------------------------------------------------


def ward_tree(costs: np.ndarray, masses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return joins by Ward's update with masses, and their heights, ascending.

    Row t of the joins (n_points - 1, 2) has the two nodes of the tree that are joined
    into node n_points + t; nodes below n_points are the points. Its height is the cost.
    """
    n_points = len(masses)
    np.fill_diagonal(costs, np.inf)
    masses = masses.astype(np.float64)
    tree_node = np.arange(n_points)  # that stands at each index
    is_active = np.ones(n_points, dtype=bool)
    children = np.empty((n_points - 1, 2), dtype=np.intp)
    heights = np.empty(n_points - 1)
    chain: list[int] = []
    for t in tracked(range(n_points - 1), "merges"):
        if not chain:
            chain.append(int(is_active.argmax()))
        _extend_to_mutual_neighbours(chain, costs)
        i = chain.pop()
        j = chain.pop()
        cost = costs[i, j]
        children[t] = (tree_node[i], tree_node[j])
        below = [heights[c - n_points] for c in children[t] if c >= n_points]
        # Rounding must not put a node below its children.
        heights[t] = max([cost, *below])
        # By Lance and Williams. The cost never falls below the cheapest of the three,
        # so chains of nearest neighbors find the tree.
        joined_costs = (masses[i] + masses) * costs[i]
        joined_costs += (masses[j] + masses) * costs[j]
        joined_costs -= masses * cost
        joined_costs /= masses[i] + masses[j] + masses
        joined_costs[j] = np.inf
        # The joined group stands at i, and nothing at j.
        costs[i] = costs[:, i] = joined_costs
        costs[j] = costs[:, j] = np.inf
        masses[i] = masses[i] + masses[j]
        is_active[j] = False
        tree_node[i] = n_points + t
    return _sorted_by_height(children, heights)


def _extend_to_mutual_neighbours(chain: list[int], costs: np.ndarray) -> None:
    """Append nearest neighbors until the last two are each other's, in place."""
    while True:
        last = chain[-1]
        nearest = int(costs[last].argmin())
        if len(chain) > 1 and costs[last, chain[-2]] <= costs[last, nearest]:
            return
        chain.append(nearest)


def _sorted_by_height(
    children: np.ndarray, heights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return joins in ascending order, with the nodes that they make numbered anew."""
    n_points = len(heights) + 1
    order = np.argsort(heights, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(n_points - 1)
    is_join = children >= n_points
    children[is_join] = n_points + rank[children[is_join] - n_points]
    return children[order], heights[order]


class MergeOrder:
    """Row t joins ``children[t]`` into node n_leaves + t; whole groups come last.

    Leaves are the neurons of the pool. The first `n_comparable` joins are within
    groups, and `heights` is what they cost, ascending.
    """

    def __init__(self, pool: NeuronPool, groups: list[np.ndarray]) -> None:
        self.n_leaves = len(pool.node)
        # Joins are numbered group after group until they are sorted.
        joins_of_groups = []
        heights_of_groups = []
        roots = []  # the tree node of each whole group
        n_joins = 0
        for members in groups:
            children, heights = ward_tree(
                pool.pair_costs(members), pool.masses[members]
            )
            tree_nodes = np.append(
                members, self.n_leaves + n_joins + np.arange(len(heights))
            )
            n_joins += len(heights)
            joins_of_groups.append(tree_nodes[children])
            heights_of_groups.append(heights)
            roots.append(tree_nodes[-1])
        heights = np.concatenate(heights_of_groups)
        order = np.argsort(heights, kind="stable")
        sorted_tree_node = np.arange(self.n_leaves + n_joins)
        sorted_tree_node[self.n_leaves + order] = self.n_leaves + np.arange(n_joins)
        self.heights = heights[order]
        self.n_comparable = n_joins
        # Whole groups are joined above the other nodes, in an order of their own.
        group_children, _ = ward_tree(
            _costs_of_groups(pool, groups), _group_masses(pool, groups)
        )
        first_tree_node = self.n_leaves + n_joins
        tree_nodes_of_groups = np.append(
            sorted_tree_node[roots], first_tree_node + np.arange(len(group_children))
        )
        self.children = np.concatenate(
            [
                sorted_tree_node[np.concatenate(joins_of_groups)[order]],
                tree_nodes_of_groups[group_children],
            ]
        )


def _group_masses(pool: NeuronPool, groups: list[np.ndarray]) -> np.ndarray:
    return np.array([pool.masses[members].sum() for members in groups])


def _costs_of_groups(pool: NeuronPool, groups: list[np.ndarray]) -> np.ndarray:
    """Return costs of joining whole groups, by their means, (n_groups, n_groups)."""
    masses = _group_masses(pool, groups)
    sums = [pool.coordinates[:, g] @ pool.masses[g] for g in groups]
    scale = np.sqrt(pool.basis.diagonals.mean(axis=0))[:, None]
    means = np.stack(sums, axis=1) / masses * scale
    products = means.T @ means
    costs = products.diagonal()[:, None] + products.diagonal() - 2.0 * products
    costs *= masses[:, None] * masses / (masses[:, None] + masses)
    return np.maximum(costs, 0.0)  # but for rounding


# ---- the layer -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class MergedLayer:
    """One layer made of the neurons of several nodes, listed node after node."""

    W: np.ndarray = field(repr=False)  # (n_params, n_units), biases in the last row
    unit: np.ndarray = field(repr=False)  # (n_neurons,), of each; -1 if dropped
    node: np.ndarray = field(repr=False)  # (n_neurons,), of each
    # (n_neurons,), of outgoing weights: units may be larger or smaller than neurons.
    factor: np.ndarray = field(repr=False)
    forced: np.ndarray = field(repr=False)  # (n_units,), bool: without a common point

    @property
    def n_units(self) -> int:
        return self.W.shape[1]

    def outgoing(self, node: int, V: np.ndarray) -> np.ndarray:
        """Return weights (n_units, n_outputs) out of units: sums over a node's neurons.

        V are those out of the node's neurons, (n_neurons of the node, n_outputs).
        """
        of_node = self.node == node
        unit = self.unit[of_node]
        factor = self.factor[of_node]
        weights = np.zeros((self.n_units, V.shape[1]))
        has_unit = unit >= 0
        np.add.at(weights, unit[has_unit], factor[has_unit, None] * V[has_unit])
        return weights

    def counts(self) -> dict[str, int]:
        """Return how many neurons are kept, merged, merged by force, and dropped."""
        sizes = np.bincount(self.unit[self.unit >= 0], minlength=self.n_units)
        is_alone = sizes == 1
        return {
            "kept": int(sizes[is_alone].sum()),
            "merged": int(sizes[~is_alone & ~self.forced].sum()),
            "forced": int(sizes[self.forced].sum()),
            "dropped": int(np.sum(self.unit < 0)),
        }


def merge_neurons(
    spaces: Sequence[NeuronSpaces],  # one per node, on the same inputs
    *,
    homogeneous: bool = False,  # neurons may be scaled: compared at unit size
    importances: Sequence[np.ndarray] | None = None,  # (n_neurons,) each
    n_clusters: int | None = None,  # k-means clusters within which neurons are compared
    max_units: int | None = None,
    random_state: RandomSource = None,
) -> MergedLayer:
    """Make one layer of all nodes' neurons: those that meet, then the cheapest."""
    pool = NeuronPool(spaces, homogeneous=homogeneous, importances=importances)
    order = MergeOrder(pool, pool.clusters(n_clusters, random_state))
    common_points = _CommonPoints(pool, order)
    common_points.search()
    is_joined = common_points.exists[order.n_leaves :].copy()
    if max_units is not None:
        n_excess = max(order.n_leaves - int(is_joined.sum()) - max_units, 0)
        is_joined[np.flatnonzero(~is_joined)[:n_excess]] = True
    return _merged_layer(
        pool,
        order,
        centers=np.hstack([space.centers for space in spaces]),
        is_joined=is_joined,
        points=common_points.points,
    )


class _CommonPoints:
    """Which nodes of the tree stand for neurons with a common point, and the points."""

    def __init__(self, pool: NeuronPool, order: MergeOrder) -> None:
        self.pool = pool
        self.n_leaves = order.n_leaves
        self.children = order.children[: order.n_comparable]
        # Whether the neurons of a node have a common point, (n_leaves + n_joins,): a
        # neuron alone has its own.
        n_tree_nodes = order.n_leaves + len(order.children)
        self.exists = np.arange(n_tree_nodes) < order.n_leaves
        # Points of the joins that are in no larger one with a common point.
        self.points: dict[int, np.ndarray] = {}
        self._members = {i: np.array([i]) for i in range(order.n_leaves)}
        # What a group may cost where spaces meet: the sum of masses times squared
        # radii. Nodes that cost far more are not tried.
        allowed = np.append(pool.masses * pool.radii**2, np.zeros(len(self.children)))
        for t, pair in enumerate(self.children):
            allowed[self.n_leaves + t] = allowed[pair].sum()
        self._is_done = order.heights > _SLACK * allowed[self.n_leaves :]

    def search(self) -> None:
        """Look for points from the leaves up, level by level.

        All joins whose children have common points are tried at once.
        """
        while True:
            has_common_children = self.exists[self.children].all(axis=1)
            joins = np.flatnonzero(~self._is_done & has_common_children)
            if not len(joins):
                return
            self._is_done[joins] = True
            groups = [
                np.sort(np.concatenate([self._members[c] for c in self.children[t]]))
                for t in joins
            ]
            points = _points_in_all(self.pool, groups)
            for t, members, point in zip(joins, groups, points, strict=True):
                if point is not None:
                    self._add(t, members, point)

    def _add(self, join: int, members: np.ndarray, point: np.ndarray) -> None:
        tree_node = self.n_leaves + join
        self.exists[tree_node] = True
        self._members[tree_node] = members
        self.points[tree_node] = point
        for child in self.children[join]:
            self.points.pop(child, None)


def _points_in_all(
    pool: NeuronPool, groups: list[np.ndarray]
) -> list[np.ndarray | None]:
    """Return a common point of each group's spaces, or None where none was found."""
    consensus = pool.consensus(groups)
    distances = pool.normalized_squared_distances(consensus, groups)
    return [
        point if q.max() <= 1.0 else _point_aside(pool, members, q)
        for point, members, q in zip(consensus.T, groups, distances, strict=True)
    ]


def _point_aside(
    pool: NeuronPool, members: np.ndarray, q: np.ndarray
) -> np.ndarray | None:
    """Return a common point of a group whose consensus, at q, is not one."""
    allowed = pool.masses[members] * pool.radii[members] ** 2
    # No point has a much smaller sum of weighted squared distances, and at a common
    # point the sum is at most that of the squared radii.
    if q @ allowed > allowed.sum() * (1 + TOLERANCE):
        return None
    if len(members) > _LARGEST_EXACT_GROUP or not allowed.all():
        return None
    intersection = intersect([pool.space(i) for i in members])
    return intersection.point[:, 0] if intersection.found else None


def _merged_layer(
    pool: NeuronPool,
    order: MergeOrder,
    *,
    centers: np.ndarray,  # of all neurons, (n_params, n_neurons)
    is_joined: np.ndarray,  # (n_joins,)
    points: dict[int, np.ndarray],  # by node of the tree
) -> MergedLayer:
    """Return the layer after some joins: units at their common points, or by force."""
    root = _roots(order, is_joined)
    roots, unit = np.unique(root, return_inverse=True)
    by_unit = np.argsort(unit, kind="stable")
    groups = np.split(by_unit, np.cumsum(np.bincount(unit))[:-1])
    W = np.empty((pool.n_params, len(groups)))
    # Units are as large as their neurons are on average.
    scale = np.array([np.exp(np.mean(np.log(pool.scale[g]))) for g in groups])
    is_forced = np.zeros(len(groups), dtype=bool)
    for index, members in enumerate(groups):
        if len(members) == 1:
            W[:, index] = centers[:, pool.alive[members[0]]]
            scale[index] = pool.scale[members[0]]
        elif roots[index] in points:
            W[:, index] = scale[index] * points[roots[index]]
        else:
            is_forced[index] = True
    if is_forced.any():
        consensus = pool.consensus([groups[i] for i in np.flatnonzero(is_forced)])
        W[:, is_forced] = consensus * scale[is_forced]
    # An order that does not depend on that of nodes, nor on the inputs' units and zero.
    ranking = np.lexsort((W.sum(axis=0), pool.levels(W)))
    scale = scale[ranking]
    unit = np.argsort(ranking)[unit]

    unit_of_all = np.full(len(pool.all_nodes), -1, dtype=np.intp)
    unit_of_all[pool.alive] = unit
    factor = np.zeros(len(pool.all_nodes))
    factor[pool.alive] = pool.scale / scale[unit]
    return MergedLayer(
        W=W[:, ranking],
        unit=unit_of_all,
        node=pool.all_nodes,
        factor=factor,
        forced=is_forced[ranking],
    )


def _roots(order: MergeOrder, is_joined: np.ndarray) -> np.ndarray:
    """Return the topmost node that each neuron is joined into, (n_leaves,)."""
    root = np.arange(order.n_leaves + len(order.children))
    # From the top: a join has the root of its own node before its children take it.
    for t in range(len(order.children) - 1, -1, -1):
        if is_joined[t]:
            root[order.children[t]] = root[order.n_leaves + t]
    return root[: order.n_leaves]
