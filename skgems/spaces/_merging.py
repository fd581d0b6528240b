# SPDX-License-Identifier: BSD-3-Clause
"""Merge neurons of several nodes: those whose spaces meet, then the cheapest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.cluster.hierarchy import linkage
from sklearn.cluster import KMeans

from ._intersection import intersect
from ._metric import DiagonalMetric, GramMetric
from ._neurons import NeuronSpaces, times
from ._space import GoodEnoughSpace

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

    W: np.ndarray
    unit: np.ndarray
    node: np.ndarray
    factor: np.ndarray
    forced: np.ndarray

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
    >>> from skgems.spaces._merging import merge_neurons
    >>> from skgems.spaces._neurons import build_neuron_spaces
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> nodes = [np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
    ...          np.array([[0.0, 1.1], [1.0, 0.0], [0.0, 0.0]])]
    >>> spaces = [build_neuron_spaces(X, W, "relu", epsilon=0.2) for W in nodes]
    >>> layer = merge_neurons(spaces, homogeneous=True)
    >>> layer.unit, layer.n_units
    (array([1, 0, 0, 1]), 2)
    """
    pool = _Pool(spaces, homogeneous, outgoing)
    n_neurons = len(pool.node)
    labels = _clusters(pool, n_clusters, random_state)
    tree = _Tree(pool, labels)
    meets, points = _common_points(pool, tree)
    forced = _force(tree, meets, n_neurons, max_units)
    return _assemble(pool, tree, meets, forced, points)


class _Pool:
    """All neurons that are alive, at the scale at which they are compared."""

    def __init__(self, spaces, homogeneous, outgoing) -> None:
        self.spaces = spaces
        dead = np.concatenate([space.dead for space in spaces])
        if dead.all():  # a layer needs units: then none is dropped
            dead[:] = False
        self.alive = np.flatnonzero(~dead)
        owners = np.repeat(
            np.arange(len(spaces)), [space.centers.shape[1] for space in spaces]
        )
        self.all_nodes = owners
        self.node = owners[self.alive]
        self.original = np.hstack([space.centers for space in spaces])[:, self.alive]
        sizes = np.concatenate([space.sizes for space in spaces])[self.alive]
        radii = np.concatenate([space.radii for space in spaces])[self.alive]
        scale = np.where(sizes > 0, sizes, 1.0) if homogeneous else np.ones(len(sizes))
        self.scale = scale
        self.radii = radii / scale
        self.centers = self.original / scale
        self.precisions = [space.precision for space in spaces]
        if outgoing is not None:
            extra = np.hstack(outgoing)[:, self.alive]
            self.centers = np.vstack([self.centers, extra])
            self.precisions = [
                linalg.block_diag(P, np.eye(len(extra)))
                if P.ndim == 2
                else np.append(P, np.ones(len(extra)))
                for P in self.precisions
            ]

    def pair_times(self, k: int, j: int, delta: np.ndarray) -> np.ndarray:
        """Multiply columns by (P_k^-1 + P_j^-1)^-1."""
        one, other = self.precisions[k], self.precisions[j]
        if k == j:
            return times(one, delta) / 2
        if one.ndim == 1:
            return (one * other / (one + other))[:, None] * delta
        inner = linalg.solve(
            one + other, other @ delta, assume_a="pos", check_finite=False
        )
        return one @ inner

    def consensus(self, groups: list[np.ndarray]) -> np.ndarray:
        """For each group, the point with the least sum of squared distances."""
        n_nodes = len(self.spaces)
        points = np.empty((self.centers.shape[0], len(groups)))
        patterns: dict[tuple, list[int]] = {}
        for index, members in enumerate(groups):
            counts = np.bincount(self.node[members], minlength=n_nodes)
            if np.count_nonzero(counts) == 1:
                points[:, index] = self.centers[:, members].mean(axis=1)
                continue
            # Equal proportions have the same matrix up to a factor.
            key = tuple((counts // np.gcd.reduce(counts)).tolist())
            patterns.setdefault(key, []).append(index)
        for pattern, indices in patterns.items():
            total = sum(n * self.precisions[k] for k, n in enumerate(pattern) if n)
            rhs = np.zeros((self.centers.shape[0], len(indices)))
            for k in np.flatnonzero(pattern):
                sums = [
                    self.centers[:, m[self.node[m] == k]].sum(axis=1)
                    for m in (groups[i] for i in indices)
                ]
                sizes = [
                    len(groups[i]) / sum(pattern) for i in indices
                ]  # the factor above
                rhs += times(self.precisions[k], np.column_stack(sums)) / sizes
            if total.ndim == 1:
                points[:, indices] = rhs / total[:, None]
            else:
                points[:, indices] = linalg.solve(
                    total, rhs, assume_a="pos", check_finite=False
                )
        return points

    def normalized_squared_distances(self, point, members) -> np.ndarray:
        """q of each member at a point; infinite where a member has no radius."""
        q = np.empty(len(members))
        for k in np.unique(self.node[members]):
            own = self.node[members] == k
            delta = point[:, None] - self.centers[:, members[own]]
            squared = np.einsum("ij,ij->j", delta, times(self.precisions[k], delta))
            radii = self.radii[members[own]]
            with np.errstate(divide="ignore", invalid="ignore"):
                q[own] = np.where(radii > 0, squared / radii**2, np.inf)
        return q

    def space(self, index: int) -> GoodEnoughSpace:
        """One neuron's space as what `intersect` takes."""
        P = self.precisions[self.node[index]]
        metric = GramMetric(P) if P.ndim == 2 else DiagonalMetric(P[:, None])
        return GoodEnoughSpace(
            center=self.centers[:, [index]],
            metric=metric,
            radius=self.radii[index],
            epsilon=0.0,
        )


def _clusters(pool: _Pool, n_clusters, random_state) -> np.ndarray:
    n_neurons = len(pool.node)
    if n_clusters is None:
        return np.zeros(n_neurons, dtype=np.intp)
    diagonals = [np.diag(P) if P.ndim == 2 else P for P in pool.precisions]
    points = (pool.centers * np.sqrt(np.mean(diagonals, axis=0))[:, None]).T
    # In an order of their own, so that the order of units does not matter.
    order = np.lexsort((points.sum(axis=1), points[:, -1]))
    means = KMeans(min(n_clusters, n_neurons), n_init=1, random_state=random_state).fit(
        points[order]
    )
    labels = np.empty(n_neurons, dtype=np.intp)
    labels[order] = means.labels_
    return labels


class _Tree:
    """The order in which neurons would be merged, cheapest first.

    Row t joins the nodes ``children[t]`` of the tree into node ``n_leaves + t``.
    Where there are clusters, their roots are joined after all else, and such rows
    are not ``comparable``.
    """

    def __init__(self, pool: _Pool, labels: np.ndarray) -> None:
        self.groups = [np.flatnonzero(labels == c) for c in np.unique(labels)]
        self.n_leaves = len(labels)
        self._place = np.empty(self.n_leaves, dtype=np.intp)
        self._group = np.empty(self.n_leaves, dtype=np.intp)
        for index, members in enumerate(self.groups):
            self._place[members] = np.arange(len(members))
            self._group[members] = index
        self._squares = _pair_costs(pool, self.groups)
        self._build(pool)

    def _build(self, pool) -> None:
        rows = []  # (height, group, row of the group)
        trees = []
        for index, members in enumerate(self.groups):
            distances = np.sqrt(self._squares[index])
            trees.append(linkage(distances, "ward") if len(members) > 1 else None)
            if len(members) > 1:
                rows += [(h, index, t) for t, h in enumerate(trees[index][:, 2])]
        rows.sort()
        position = {(g, t): i for i, (_, g, t) in enumerate(rows)}
        children = []
        for _, g, t in rows:
            members = self.groups[g]
            children.append(
                [
                    members[c]
                    if c < len(members)
                    else self.n_leaves + position[g, c - len(members)]
                    for c in trees[g][t, :2].astype(int)
                ]
            )
        self.n_comparable = len(children)
        if len(self.groups) > 1:
            roots = [
                members[0]
                if len(members) == 1
                else self.n_leaves + position[g, len(members) - 2]
                for g, members in enumerate(self.groups)
            ]
            means = np.stack([pool.centers[:, m].mean(axis=1) for m in self.groups])
            for a, b in linkage(means, "ward")[:, :2].astype(int):
                ids = [
                    roots[c]
                    if c < len(roots)
                    else self.n_leaves + self.n_comparable + c - len(roots)
                    for c in (a, b)
                ]
                children.append(ids)
        self.children = np.array(children, dtype=np.intp).reshape(-1, 2)

    def squares(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Twice the merging costs of all pairs of two sets of leaves of one group."""
        group = self._group[one[0]]
        size = len(self.groups[group])
        a, b = self._place[one][:, None], self._place[other]
        i, j = np.minimum(a, b), np.maximum(a, b)
        return self._squares[group][size * i - i * (i + 1) // 2 + j - i - 1]


def _pair_costs(pool: _Pool, groups) -> list[np.ndarray]:
    """Twice the cost of every pair within a group, as condensed matrices."""
    squares = [np.zeros(len(m) * (len(m) - 1) // 2) for m in groups]
    n_nodes = len(pool.spaces)
    neurons = [np.flatnonzero(pool.node == k) for k in range(n_nodes)]
    for k in range(n_nodes):
        for j in range(k, n_nodes):
            if not len(neurons[k]) or not len(neurons[j]):
                continue
            left = pool.centers[:, neurons[k]]
            right = pool.centers[:, neurons[j]]
            both = left if k == j else np.hstack([left, right])
            moved = pool.pair_times(k, j, both)
            norms = np.einsum("ij,ij->j", both, moved)
            left_norms, right_norms = norms[: left.shape[1]], norms[-right.shape[1] :]
            moved = moved[:, -right.shape[1] :]
            for index, members in enumerate(groups):
                _fill(
                    squares[index],
                    members,
                    pool.node,
                    (k, j),
                    left,
                    moved,
                    left_norms,
                    right_norms,
                    neurons,
                )
    return squares


def _fill(
    condensed, members, node, pair, left, moved, left_norms, right_norms, neurons
) -> None:
    k, j = pair
    rows = np.flatnonzero(node[members] == k)
    columns = np.flatnonzero(node[members] == j)
    if not len(rows) or not len(columns):
        return
    a = np.searchsorted(neurons[k], members[rows])
    b = np.searchsorted(neurons[j], members[columns])
    block = left[:, a].T @ moved[:, b]
    block *= -2.0
    block += left_norms[a][:, None]
    block += right_norms[b]
    block *= 2.0
    np.maximum(block, 0.0, out=block)
    size = len(members)
    # Neurons are in the order of nodes, so k <= j means rows come before columns.
    for place, row in zip(rows, block, strict=True):
        later = columns > place
        start = size * place - place * (place + 1) // 2 - place - 1
        condensed[start + columns[later]] = row[later]


def _common_points(pool: _Pool, tree: _Tree):
    """Which nodes of the tree stand for neurons with a common point, and the points."""
    n_leaves = tree.n_leaves
    meets = np.zeros(n_leaves + len(tree.children), dtype=bool)
    meets[:n_leaves] = True
    leaves: dict[int, np.ndarray] = {i: np.array([i]) for i in range(n_leaves)}
    points: dict[int, np.ndarray] = {}
    squared_radii = pool.radii**2
    for t, (a, b) in enumerate(tree.children[: tree.n_comparable]):
        if not (meets[a] and meets[b]):
            continue
        one, other = leaves[a], leaves[b]
        if len(one) * len(other) > _LARGEST_LOOKUP:
            one, other = one[:1], other[:1]
        # Two spaces that meet are no more expensive to merge than this.
        bound = 2 * (squared_radii[one][:, None] + squared_radii[other])
        if np.any(tree.squares(one, other) > bound * (1 + 1e-9) + 1e-300):
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


def _common_point(pool: _Pool, members: np.ndarray):
    point = pool.consensus([members])[:, 0]
    if pool.normalized_squared_distances(point, members).max() <= 1.0:
        return point
    if len(members) > _LARGEST_EXACT_GROUP or not np.all(pool.radii[members] > 0):
        return None
    found = intersect([pool.space(i) for i in members], tol=1e-6)
    return found.point[:, 0] if found.found else None


def _force(tree: _Tree, meets, n_neurons: int, max_units) -> np.ndarray:
    """Rows of the tree that are taken only to have few enough units."""
    taken = meets[n_neurons:]
    forced = np.zeros(len(tree.children), dtype=bool)
    if max_units is not None:
        excess = max(n_neurons - int(taken.sum()) - max_units, 0)
        forced[np.flatnonzero(~taken)[:excess]] = True
    return forced


def _assemble(pool: _Pool, tree: _Tree, meets, forced, points) -> MergedLayer:
    n_leaves = tree.n_leaves
    root = np.arange(n_leaves + len(tree.children))
    for t in range(len(tree.children) - 1, -1, -1):
        if meets[n_leaves + t] or forced[t]:
            root[tree.children[t]] = root[n_leaves + t]
    _, first, unit = np.unique(root[:n_leaves], return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    unit = rank[unit]
    roots = root[:n_leaves][np.sort(first)]
    order = np.argsort(unit, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(unit))[:-1])

    n_params = pool.original.shape[0]
    W = np.empty((n_params, len(groups)))
    scale = np.array([np.exp(np.mean(np.log(pool.scale[m]))) for m in groups])
    by_force = np.zeros(len(groups), dtype=bool)
    open_groups = []
    for index, members in enumerate(groups):
        if len(members) == 1:
            W[:, index] = pool.original[:, members[0]]
            scale[index] = pool.scale[members[0]]
        elif roots[index] in points:
            W[:, index] = scale[index] * points[roots[index]][:n_params]
        else:
            by_force[index] = True
            open_groups.append(index)
    merged = pool.consensus([groups[i] for i in open_groups])[:n_params]
    W[:, open_groups] = merged * scale[open_groups]
    # An order of their own, so that the order of neurons and nodes does not matter.
    ranking = np.lexsort((W.sum(axis=0), W[-1]))
    W, scale, by_force = W[:, ranking], scale[ranking], by_force[ranking]
    unit = np.argsort(ranking)[unit]

    full_unit = np.full(len(pool.all_nodes), -1, dtype=np.intp)
    full_unit[pool.alive] = unit
    factor = np.zeros(len(pool.all_nodes))
    factor[pool.alive] = pool.scale / scale[unit]
    return MergedLayer(W, full_unit, pool.all_nodes, factor, by_force)
