# SPDX-License-Identifier: BSD-3-Clause
"""Merge neurons of several nodes: those whose spaces meet, then the cheapest."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..spaces import intersect
from ._merge_order import MergeOrder
from ._pool import NeuronPool
from ._spaces import NeuronSpaces

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
        """Number of units."""
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
        """How many neurons were kept, merged, merged by force and dropped."""
        sizes = np.bincount(self.unit[self.unit >= 0], minlength=self.n_units)
        alone = sizes == 1
        return {
            "kept": int(alone.sum()),
            "merged": int(sizes[~alone & ~self.forced].sum()),
            "forced": int(sizes[self.forced].sum()),
            "dropped": int(np.sum(self.unit < 0)),
        }


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
    meets = np.zeros(n_leaves + len(order.children), dtype=bool)
    meets[:n_leaves] = True
    # What a group may cost where spaces meet: the sum of masses times squared radii.
    allowed = np.zeros(n_leaves + len(children))
    allowed[:n_leaves] = pool.masses * pool.radii**2
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
        groups = [
            np.sort(np.concatenate([leaves[c] for c in children[t]])) for t in rows
        ]
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
    groups, roots, unit = _groups(order, joined)
    originals = np.cumsum([0, *(space.centers.shape[1] for space in spaces)])
    n_params = pool.n_params
    W = np.empty((n_params, len(groups)))
    scale = np.array([np.exp(np.mean(np.log(pool.scale[m]))) for m in groups])
    by_force = np.zeros(len(groups), dtype=bool)
    for index, members in enumerate(groups):
        first = members[0]
        if len(members) == 1:
            k = pool.node[first]
            W[:, index] = spaces[k].centers[:, pool.alive[first] - originals[k]]
            scale[index] = pool.scale[first]
        elif roots[index] in points:
            W[:, index] = scale[index] * points[roots[index]][:n_params]
        else:
            by_force[index] = True
    if by_force.any():
        merged = pool.consensus([groups[i] for i in np.flatnonzero(by_force)])
        W[:, by_force] = merged[:n_params] * scale[by_force]
    # An order of their own, so that that of neurons and nodes, and units and zero of
    # the inputs do not matter.
    ranking = np.lexsort((W.sum(axis=0), pool.levels(W)))
    W, scale, by_force = W[:, ranking], scale[ranking], by_force[ranking]
    unit = np.argsort(ranking)[unit]

    full_unit = np.full(len(pool.all_nodes), -1, dtype=np.intp)
    full_unit[pool.alive] = unit
    factor = np.zeros(len(pool.all_nodes))
    factor[pool.alive] = pool.scale / scale[unit]
    return MergedLayer(W, full_unit, pool.all_nodes, factor, by_force)


def _groups(order: MergeOrder, joined):
    """Members and tree node of every unit, and the unit of every neuron."""
    n_leaves = order.n_leaves
    root = np.arange(n_leaves + len(order.children))
    for t in range(len(order.children) - 1, -1, -1):
        if joined[t]:
            root[order.children[t]] = root[n_leaves + t]
    _, first, unit = np.unique(root[:n_leaves], return_index=True, return_inverse=True)
    unit = np.argsort(np.argsort(first))[unit]
    by_unit = np.argsort(unit, kind="stable")
    groups = np.split(by_unit, np.cumsum(np.bincount(unit))[:-1])
    return groups, root[:n_leaves][np.sort(first)], unit
