# SPDX-License-Identifier: BSD-3-Clause
"""Merge neurons of several nodes: those whose spaces meet, then the cheapest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..spaces import intersect
from ._merge_order import MergeOrder, NeuronPool
from ._spaces import NeuronSpaces

__all__ = ["MergedLayer", "merge_neurons"]

# Larger groups are merged at the point that moves them least, or not at all.
_LARGEST_EXACT_GROUP = 8
# Pairs that are looked up before a common point is computed.
_LARGEST_LOOKUP = 10_000


@dataclass(frozen=True, eq=False)
class MergedLayer:
    """One layer made of the neurons of several nodes.

    Attributes
    ----------
    W : ndarray of shape (n_params, n_units)
        Incoming weights of the units, the biases in the last row.
    unit : ndarray of shape (n_neurons,), int
        Unit that each neuron went into, -1 if it was dropped. Neurons of node 0
        come first, then those of node 1, and so on.
    node : ndarray of shape (n_neurons,), int
        Node of each neuron.
    factor : ndarray of shape (n_neurons,)
        By how much the outgoing weights of each neuron are multiplied, since its
        unit may be larger or smaller than the neuron was.
    forced : ndarray of shape (n_units,), bool
        Units whose members were merged although no common point was found.
    """

    W: np.ndarray = field(repr=False)
    unit: np.ndarray = field(repr=False)
    node: np.ndarray = field(repr=False)
    factor: np.ndarray = field(repr=False)
    forced: np.ndarray = field(repr=False)

    @property
    def n_units(self) -> int:
        """Number of units."""
        return self.W.shape[1]

    def outgoing(self, node: int, V: np.ndarray) -> np.ndarray:
        """Outgoing weights of the units in one node's network.

        Parameters
        ----------
        node : int
            Index of the node.
        V : ndarray of shape (n_neurons_of_node, n_outputs)
            Outgoing weights of its neurons.

        Returns
        -------
        V : ndarray of shape (n_units, n_outputs)
            For each unit the sum over the node's neurons in it; 0 for units of
            other nodes.
        """
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
    spaces: Sequence[NeuronSpaces],
    *,
    homogeneous: bool = False,
    outgoing: Sequence[np.ndarray] | None = None,
    n_clusters: int | None = None,
    max_units: int | None = None,
    random_state=None,
) -> MergedLayer:
    r"""Make one layer of the neurons of all nodes.

    Merging neurons i of node k and j of node l into one costs the least sum of
    squared distances, :math:`D'(P_k^{-1} + P_l^{-1})^{-1} D` with :math:`D = w_i -
    w_j`; for all pairs of two nodes that is one matrix product. The costs make a tree
    (Ward's update, which is exact where nodes share a metric). From its leaves up,
    neurons whose spaces have a common point become one unit there: the point that
    moves them least if all spaces hold it, else, for up to 8 neurons, one that
    `intersect` finds. Then the tree's cheapest steps are taken until there are at
    most `max_units`.

    Parameters
    ----------
    spaces : sequence of NeuronSpaces
        One per node, with weights on the same inputs. A node may have no neurons.
    homogeneous : bool, default=False
        Whether a neuron may be scaled, as with "relu" and "identity": then all are
        compared at unit size.
    outgoing : sequence of ndarray of shape (n_outputs, n_neurons), default=None
        Outgoing weights times the sizes of the neurons, if they count too.
    n_clusters : int, default=None
        k-means clusters within which neurons are compared. None: all are.
    max_units : int, default=None
        Largest number of units. None: any.
    random_state : int, RandomState instance or None, default=None
        Source of the first k-means centres.

    Returns
    -------
    layer : MergedLayer

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.neurons import build_neuron_spaces, merge_neurons
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> nodes = [np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
    ...          np.array([[0.0, 1.1], [1.0, 0.0], [0.0, 0.0]])]
    >>> spaces = [build_neuron_spaces(X, W, "relu", epsilon=0.2) for W in nodes]
    >>> layer = merge_neurons(spaces, homogeneous=True)
    >>> layer.unit, layer.n_units
    (array([1, 0, 0, 1]), 2)
    """
    pool = NeuronPool(spaces, homogeneous, outgoing)
    order = MergeOrder(pool, pool.clusters(n_clusters, random_state))
    meets, points = _common_points(pool, order)
    forced = _forced(order, meets, max_units)
    return _assemble(spaces, pool, order, meets, forced, points)


def _common_points(pool: NeuronPool, order: MergeOrder):
    """Which nodes of the tree stand for neurons with a common point, and the points."""
    n_leaves = order.n_leaves
    meets = np.zeros(n_leaves + len(order.children), dtype=bool)
    meets[:n_leaves] = True
    leaves: dict[int, np.ndarray] = {i: np.array([i]) for i in range(n_leaves)}
    points: dict[int, np.ndarray] = {}
    squared_radii = pool.radii**2
    for t, (a, b) in enumerate(order.children[: order.n_comparable]):
        if not (meets[a] and meets[b]):
            continue
        one, other = leaves[a], leaves[b]
        if len(one) * len(other) > _LARGEST_LOOKUP:
            one, other = one[:1], other[:1]
        # Two spaces that meet are no more expensive to merge than this.
        bound = squared_radii[one][:, None] + squared_radii[other]
        if np.any(order.costs(one, other) > bound * (1 + 1e-9) + 1e-300):
            continue
        members = np.concatenate([leaves[a], leaves[b]])
        point = _common_point(pool, members)
        if point is not None:
            meets[n_leaves + t] = True
            leaves[n_leaves + t] = np.sort(members)
            points[n_leaves + t] = point
            points.pop(a, None)
            points.pop(b, None)
    return meets, points


def _common_point(pool: NeuronPool, members: np.ndarray):
    point = pool.consensus([members])[:, 0]
    q = pool.normalized_squared_distances(point, members)
    if q.max() <= 1.0:
        return point
    squared_radii = pool.radii[members] ** 2
    # No point has a smaller sum of squared distances than this one.
    empty = q @ squared_radii > squared_radii.sum() * (1 + 1e-9)
    if empty or len(members) > _LARGEST_EXACT_GROUP or not squared_radii.all():
        return None
    found = intersect([pool.space(i) for i in members], tol=1e-6)
    return found.point[:, 0] if found.found else None


def _forced(order: MergeOrder, meets, max_units) -> np.ndarray:
    """Rows of the tree that are taken only to have few enough units."""
    taken = meets[order.n_leaves :]
    forced = np.zeros(len(order.children), dtype=bool)
    if max_units is not None:
        excess = max(order.n_leaves - int(taken.sum()) - max_units, 0)
        forced[np.flatnonzero(~taken)[:excess]] = True
    return forced


def _assemble(spaces, pool: NeuronPool, order: MergeOrder, meets, forced, points):
    groups, roots, unit = _groups(order, meets, forced)
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


def _groups(order: MergeOrder, meets, forced):
    """Members and tree node of every unit, and the unit of every neuron."""
    n_leaves = order.n_leaves
    root = np.arange(n_leaves + len(order.children))
    for t in range(len(order.children) - 1, -1, -1):
        if meets[n_leaves + t] or forced[t]:
            root[order.children[t]] = root[n_leaves + t]
    _, first, unit = np.unique(root[:n_leaves], return_index=True, return_inverse=True)
    unit = np.argsort(np.argsort(first))[unit]
    by_unit = np.argsort(unit, kind="stable")
    groups = np.split(by_unit, np.cumsum(np.bincount(unit))[:-1])
    return groups, root[:n_leaves][np.sort(first)], unit
