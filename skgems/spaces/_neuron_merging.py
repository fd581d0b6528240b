"""Merge neurons of several nodes: those whose spaces meet, then the cheapest."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..progress import tracked
from ._intersection import intersect
from ._neuron_pool import NeuronPool
from ._neuron_spaces import NeuronSpaces


def ward_tree(costs: np.ndarray, masses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Joins by Ward's update with masses, ascending heights; overwrites ``costs``."""
    n_points = len(masses)
    np.fill_diagonal(costs, np.inf)
    masses = masses.astype(np.float64)
    node = np.arange(n_points)  # of the tree, that stands at each index
    active = np.ones(n_points, dtype=bool)
    children = np.empty((n_points - 1, 2), dtype=np.intp)
    heights = np.empty(n_points - 1)
    chain: list[int] = []
    for t in tracked(range(n_points - 1), "merges"):
        if not chain:
            chain.append(int(active.argmax()))
        while True:
            i = chain[-1]
            j = int(costs[i].argmin())
            if len(chain) > 1 and costs[i, chain[-2]] <= costs[i, j]:
                break
            chain.append(j)
        j = chain[-2]
        del chain[-2:]
        cost, a, b = costs[i, j], masses[i], masses[j]
        children[t] = node[i], node[j]
        below = [heights[c - n_points] for c in children[t] if c >= n_points]
        # Rounding must not put a node below its children.
        heights[t] = max(cost, *below) if below else cost
        # By Lance and Williams, exact where costs are a b / (a + b) times squared
        # distances. It never falls below the cheapest of the three costs, so chains of
        # nearest neighbours find the tree.
        joined = (a + masses) * costs[i]
        joined += (b + masses) * costs[j]
        joined -= masses * cost
        joined /= a + b + masses
        joined[j] = np.inf
        costs[i] = costs[:, i] = joined
        costs[j] = costs[:, j] = np.inf
        masses[i] = a + b
        active[j] = False
        node[i] = n_points + t
    order = np.argsort(heights, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(n_points - 1)
    inner = children >= n_points
    children[inner] = n_points + place[children[inner] - n_points]
    return children[order], heights[order]


class MergeOrder:
    """Row t joins ``children[t]`` into node n_leaves + t; whole groups come last."""

    def __init__(self, pool: NeuronPool, groups: list[np.ndarray]) -> None:
        self.n_leaves = len(pool.node)
        parts, heights, roots, n_rows = [], [], [], 0
        for members in groups:
            children, height = ward_tree(pool.pair_costs(members), pool.masses[members])
            # Joins are numbered group after group until they are sorted.
            names = np.append(members, self.n_leaves + n_rows + np.arange(len(height)))
            n_rows += len(height)
            parts.append(names[children])
            heights.append(height)
            roots.append(names[-1])
        heights = np.concatenate(heights)
        rows = np.argsort(heights, kind="stable")
        names = np.arange(self.n_leaves + n_rows)
        names[self.n_leaves + rows] = self.n_leaves + np.arange(n_rows)
        joins = names[np.concatenate(parts)[rows]]
        self.heights = heights[rows]  # what comparable joins cost, ascending
        self.n_comparable = n_rows
        # What it would cost to join whole groups, by their means.
        masses = np.array([pool.masses[g].sum() for g in groups])
        means = [pool.coordinates[:, g] @ pool.masses[g] for g in groups]
        scale = np.sqrt(pool.basis.diagonals.mean(axis=0))[:, None]
        means = np.stack(means, axis=1) / masses * scale
        products = means.T @ means
        costs = products.diagonal()[:, None] + products.diagonal() - 2.0 * products
        costs *= masses[:, None] * masses / (masses[:, None] + masses)
        children, _ = ward_tree(np.maximum(costs, 0.0), masses)
        above = self.n_leaves + n_rows + np.arange(len(children))
        nodes = np.append(names[roots], above)
        self.children = np.concatenate([joins, nodes[children]])


# Larger groups are merged at the point that moves them least, or not at all.
_LARGEST_EXACT_GROUP = 8
# What neurons whose spaces meet cost to merge, at most, as estimated: the estimate of a
# pair's cost is twice too high at most for its masses, and some for its metrics.
_SLACK = 8.0


@dataclass(frozen=True, eq=False)
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
        """Weights (n_units, n_outputs) out of units: sums over one node's neurons."""
        own = self.node == node
        unit, factor = self.unit[own], self.factor[own]
        rows = np.zeros((self.n_units, V.shape[1]))
        kept = unit >= 0
        np.add.at(rows, unit[kept], factor[kept, None] * V[kept])
        return rows

    def counts(self) -> dict[str, int]:
        sizes = np.bincount(self.unit[self.unit >= 0], minlength=self.n_units)
        alone = sizes == 1
        found = {"kept": alone, "merged": ~alone & ~self.forced, "forced": self.forced}
        found = {name: int(sizes[units].sum()) for name, units in found.items()}
        return {**found, "dropped": int(np.sum(self.unit < 0))}


def merge_neurons(
    spaces: Sequence[NeuronSpaces],  # one per node, on the same inputs
    *,
    homogeneous: bool = False,  # neurons may be scaled: compared at unit size
    importances: Sequence[np.ndarray] | None = None,  # (n_neurons,) each
    # (n_outputs, n_neurons) each, times the sizes of the neurons, if they count too.
    outgoing: Sequence[np.ndarray] | None = None,
    n_clusters: int | None = None,  # k-means clusters within which neurons are compared
    max_units: int | None = None,
    random_state=None,
) -> MergedLayer:
    """Make one layer of all nodes' neurons: those that meet, then the cheapest."""
    pool = NeuronPool(spaces, homogeneous, outgoing, importances)
    order = MergeOrder(pool, pool.clusters(n_clusters, random_state))
    meets, points = _common_points(pool, order)
    joined = meets[order.n_leaves :].copy()
    if max_units is not None:
        excess = max(order.n_leaves - int(joined.sum()) - max_units, 0)
        joined[np.flatnonzero(~joined)[:excess]] = True
    return _assemble(spaces, pool, order, joined, points)


def _common_points(pool: NeuronPool, order: MergeOrder):
    """Which nodes of the tree stand for neurons with a common point, and the points."""
    n_leaves, children = order.n_leaves, order.children[: order.n_comparable]
    meets = np.arange(n_leaves + len(order.children)) < n_leaves
    # What a group may cost where spaces meet: the sum of masses times squared radii.
    allowed = np.append(pool.masses * pool.radii**2, np.zeros(len(children)))
    for t, pair in enumerate(children):
        allowed[n_leaves + t] = allowed[pair].sum()
    tried = order.heights > _SLACK * allowed[n_leaves:]
    leaves: dict[int, np.ndarray] = {i: np.array([i]) for i in range(n_leaves)}
    points: dict[int, np.ndarray] = {}
    while True:
        # All whose children meet, at once.
        rows = np.flatnonzero(~tried & meets[children].all(axis=1))
        if not len(rows):
            return meets, points
        tried[rows] = True
        below = [[leaves[c] for c in children[t]] for t in rows]
        groups = [np.sort(np.concatenate(own)) for own in below]
        found = _points_in_all(pool, groups)
        for t, members, point in zip(rows, groups, found, strict=True):
            if point is not None:
                meets[n_leaves + t] = True
                leaves[n_leaves + t] = members
                points[n_leaves + t] = point
                for child in children[t]:
                    points.pop(child, None)


def _points_in_all(pool: NeuronPool, groups: list[np.ndarray]) -> list:
    """A common point of each group's spaces, or None where none was found."""
    consensus, found = pool.consensus(groups), []
    distances = pool.normalized_squared_distances(consensus, groups)
    for point, members, q in zip(consensus.T, groups, distances, strict=True):
        allowed = pool.masses[members] * pool.radii[members] ** 2
        if q.max() > 1.0:
            point = None
            # No point has a much smaller sum of weighed squared distances.
            far = q @ allowed > allowed.sum() * (1 + 1e-3)
            if not far and len(members) <= _LARGEST_EXACT_GROUP and allowed.all():
                met = intersect([pool.space(i) for i in members], tol=1e-6)
                point = met.point[:, 0] if met.found else None
        found.append(point)
    return found


def _assemble(spaces, pool: NeuronPool, order: MergeOrder, joined, points):
    n_leaves = order.n_leaves
    root = np.arange(n_leaves + len(order.children))
    for t in range(len(order.children) - 1, -1, -1):
        if joined[t]:
            root[order.children[t]] = root[n_leaves + t]
    roots, unit = np.unique(root[:n_leaves], return_inverse=True)
    by_unit = np.argsort(unit, kind="stable")
    groups = np.split(by_unit, np.cumsum(np.bincount(unit))[:-1])
    n_params, originals = pool.n_params, np.hstack([own.centers for own in spaces])
    W = np.empty((n_params, len(groups)))
    scale = np.array([np.exp(np.mean(np.log(pool.scale[m]))) for m in groups])
    by_force = np.zeros(len(groups), dtype=bool)
    for index, members in enumerate(groups):
        if len(members) == 1:
            W[:, index] = originals[:, pool.alive[members[0]]]
            scale[index] = pool.scale[members[0]]
        elif roots[index] in points:
            W[:, index] = scale[index] * points[roots[index]][:n_params]
        else:
            by_force[index] = True
    if by_force.any():
        merged = pool.consensus([groups[i] for i in np.flatnonzero(by_force)])
        W[:, by_force] = merged[:n_params] * scale[by_force]
    # An order that does not depend on that of nodes, nor on the inputs' units and zero.
    ranking = np.lexsort((W.sum(axis=0), pool.levels(W)))
    W, scale, by_force = W[:, ranking], scale[ranking], by_force[ranking]
    unit = np.argsort(ranking)[unit]

    full_unit = np.full(len(pool.all_nodes), -1, dtype=np.intp)
    full_unit[pool.alive] = unit
    factor = np.zeros(len(pool.all_nodes))
    factor[pool.alive] = pool.scale / scale[unit]
    return MergedLayer(W, full_unit, pool.all_nodes, factor, by_force)
