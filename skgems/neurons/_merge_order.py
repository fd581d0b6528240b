# SPDX-License-Identifier: BSD-3-Clause
"""What it costs to merge neurons of several nodes, and the order cheapest first."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import linalg
from scipy.cluster.hierarchy import linkage
from sklearn.cluster import KMeans

from ..moments import working_bytes
from ..spaces import DiagonalMetric, GoodEnoughSpace, GramMetric
from ._spaces import filled, hidden_inputs, scatter_diagonal, times


class NeuronPool:
    """All neurons that are alive, at the scale at which they are compared.

    Parameters
    ----------
    spaces : sequence of NeuronSpaces
        One per node.
    homogeneous : bool
        Whether neurons are compared at unit size.
    outgoing : sequence of ndarray of shape (n_outputs, n_neurons) or None
        Outgoing weights, if they count too.

    Attributes
    ----------
    all_nodes : ndarray of shape (n_all,)
        Node of every neuron, dead or alive.
    alive : ndarray of shape (n_neurons,)
        Places among them of the neurons that are alive; the following are of these.
    node, scale, radii : ndarray of shape (n_neurons,)
        Node, the size by which weights are divided, radius at that scale.
    centers : ndarray of shape (n_params, n_neurons)
        Weights at that scale; below them the outgoing ones.
    precisions : list of ndarray
        Of each node, for `centers`.
    """

    def __init__(self, spaces, homogeneous, outgoing) -> None:
        dead = np.concatenate([space.dead for space in spaces])
        if dead.all():  # a layer needs units: then none is dropped
            dead[:] = False
        self.alive = np.flatnonzero(~dead)
        self.n_nodes = len(spaces)
        self.all_nodes = np.repeat(
            np.arange(len(spaces)), [space.centers.shape[1] for space in spaces]
        )
        self.node = self.all_nodes[self.alive]
        sizes = np.concatenate([space.sizes for space in spaces])[self.alive]
        radii = np.concatenate([space.radii for space in spaces])[self.alive]
        scale = np.where(sizes > 0, sizes, 1.0) if homogeneous else np.ones(len(sizes))
        self.scale = scale
        self.radii = radii / scale
        centers = [space.centers for space in spaces]
        self.precisions = _filled_from_others(
            [space.precision for space in spaces], np.hstack(centers)
        )
        self.n_params = len(centers[0])
        if outgoing is not None:
            centers = [np.vstack(pair) for pair in zip(centers, outgoing, strict=True)]
            extra = len(outgoing[0])
            self.precisions = [
                linalg.block_diag(P, np.eye(extra))
                if P.ndim == 2
                else np.append(P, np.ones(extra))
                for P in self.precisions
            ]
        self.centers = np.hstack(centers)
        if dead.any():
            self.centers = self.centers[:, self.alive]
        if homogeneous:
            self.centers[: self.n_params] /= scale
        self._factors: dict[bytes, tuple] = {}

    @cached_property
    def _pulls(self) -> np.ndarray:
        """Each centre times the precision of its node."""
        pulls = np.empty_like(self.centers)
        for k in np.unique(self.node):
            own = self.node == k
            pulls[:, own] = times(self.precisions[k], self.centers[:, own])
        return pulls

    def consensus(self, groups: list[np.ndarray]) -> np.ndarray:
        """For each group, the point with the least sum of squared distances."""
        counts = np.stack(
            [np.bincount(self.node[g], minlength=self.n_nodes) for g in groups], axis=1
        )
        # Groups in which nodes have equal shares have the same matrix, but a factor.
        factor = np.gcd.reduce(counts, axis=0)
        shares, pattern = np.unique(counts // factor, axis=1, return_inverse=True)
        points = np.empty((len(self.centers), len(groups)))
        for index, share in enumerate(shares.T):
            alike = np.flatnonzero(pattern.ravel() == index)
            alone = np.count_nonzero(share) == 1
            summed = self.centers if alone else self._pulls
            members = np.concatenate([groups[g] for g in alike])
            starts = np.cumsum([0] + [len(groups[g]) for g in alike[:-1]])
            sums = np.add.reduceat(summed[:, members], starts, axis=1) / factor[alike]
            points[:, alike] = sums if alone else self._solve(share, sums)
        return points

    def _solve(self, share: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """Multiply by the inverse of the sum of all nodes' share times precision."""
        used = np.flatnonzero(share)
        if self.precisions[0].ndim == 1:
            total = sum(share[k] * self.precisions[k] for k in used)
            return rhs / total[:, None]
        key = share.tobytes()
        if key not in self._factors:
            room = working_bytes() // (4 * self.precisions[0].nbytes)
            while len(self._factors) >= max(room, 1):
                self._factors.pop(next(iter(self._factors)))
            total = share[used[0]] * self.precisions[used[0]]
            for k in used[1:]:
                linalg.blas.daxpy(self.precisions[k].ravel(), total.ravel(), a=share[k])
            self._factors[key] = _cholesky(total)
        return linalg.cho_solve(self._factors[key], rhs, check_finite=False)

    def pair_costs(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Costs of merging all neurons of one node with all of another, or the same.

        That is D' M D, with M = (P_k^-1 + P_j^-1)^-1. For two nodes M is P_k S^-1 P_j
        and P_k - P_k S^-1 P_k, S = P_k + P_j: a triangular system for each of them.
        """
        k, j = self.node[left[0]], self.node[right[0]]
        one, other = self.precisions[k], self.precisions[j]
        W, V = self.centers[:, left], self.centers[:, right]
        if k != j and one.ndim == 2:
            factor, _ = _cholesky(one + other)
            pulls = self._pulls[:, left], self._pulls[:, right]
            a, b = (
                linalg.solve_triangular(factor, p, lower=True, check_finite=False)
                for p in pulls
            )
            costs = a.T @ b
            left_norms = _dots(W, pulls[0]) - _dots(a, a)
            right_norms = _dots(V, pulls[1]) - _dots(b, b)
        else:
            if k == j:
                a = b = self._pulls[:, left] / 2
            else:
                half = (one * other / (one + other))[:, None]
                a, b = half * W, half * V
            costs = W.T @ b
            left_norms, right_norms = _dots(W, a), _dots(V, b)
        costs *= -2.0
        costs += left_norms[:, None]
        costs += right_norms
        return costs

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

    @cached_property
    def _metrics(self):
        return [
            GramMetric.of(P) if P.ndim == 2 else DiagonalMetric(P[:, None])
            for P in self.precisions
        ]

    def space(self, index: int) -> GoodEnoughSpace:
        """One neuron's space as what `intersect` takes."""
        return GoodEnoughSpace(
            center=self.centers[:, [index]],
            metric=self._metrics[self.node[index]],
            radius=self.radii[index],
            epsilon=0.0,
        )

    @cached_property
    def _common(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean of the inputs, and what each number costs where that is their zero."""
        total = self.precisions[0] / self.n_nodes
        for P in self.precisions[1:]:
            total += P / self.n_nodes
        last = self.n_params - 1
        if total.ndim == 1:
            return np.zeros(last), total
        mean, costs = total[last, :last] / total[last, last], total.diagonal().copy()
        costs[:last] -= total[last, last] * mean**2
        return mean, np.maximum(costs, 0.0)

    def levels(self, W: np.ndarray) -> np.ndarray:
        """Mean pre-activations, which do not depend on the zero of the inputs."""
        return W[-1] + self._common[0] @ W[:-1]

    def clusters(self, n_clusters: int | None, random_state) -> list[np.ndarray]:
        """Groups of neurons that are alike, by k-means."""
        n_neurons = len(self.node)
        if n_clusters is None:
            return [np.arange(n_neurons)]
        points = self.centers.copy()
        points[self.n_params - 1] = self.levels(points[: self.n_params])
        points = (points * np.sqrt(self._common[1])[:, None]).T
        # In an order of their own, so that the order of units does not matter.
        order = np.lexsort((points.sum(axis=1), points[:, -1]))
        n_clusters = min(n_clusters, n_neurons)
        means = KMeans(n_clusters, n_init=1, random_state=random_state)
        labels = np.empty(n_neurons, dtype=np.intp)
        labels[order] = means.fit(points[order]).labels_
        return [np.flatnonzero(labels == c) for c in np.unique(labels)]


def _dots(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", one, other)


def _cholesky(matrix) -> tuple:
    """Cholesky factor of a symmetric matrix, which is overwritten."""
    # Transposed it is in the order that LAPACK works on in place.
    return linalg.cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)


# What an input that is constant at a node counts there, relative to other nodes.
_UNSEEN = 1e-6


def _filled_from_others(precisions: list[np.ndarray], centers) -> list[np.ndarray]:
    """Precisions that cost a little, in the unit of others, where they say nothing."""
    if precisions[0].ndim == 1:
        return precisions
    shown = np.max([scatter_diagonal(P) for P in precisions], axis=0)
    # An input that is constant everywhere has no unit but that of its weights, with
    # which it is to count as much as others do with theirs.
    lonely = np.all([hidden_inputs(P) for P in precisions], axis=0)
    if lonely.any():
        squares = np.mean(centers[:-1] ** 2, axis=1)
        typical = np.mean((shown * squares)[~lonely]) if not lonely.all() else 1.0
        usable = (squares > 0) & (typical > 0)
        own = np.divide(typical, squares, out=np.ones_like(squares), where=usable)
        shown = np.where(lonely, own, shown)
    return [filled(P, _UNSEEN * shown) for P in precisions]


class MergeOrder:
    """The order in which neurons would be merged, cheapest first: a tree.

    Row t joins the nodes ``children[t]`` of the tree into node ``n_leaves + t``.
    Where there are groups that are not compared, their roots are joined after all
    else: only the first `n_comparable` rows join neurons of one group.

    Parameters
    ----------
    pool : NeuronPool
    groups : list of ndarray
        Neurons that are compared.
    """

    def __init__(self, pool: NeuronPool, groups: list[np.ndarray]) -> None:
        self.groups = groups
        self.n_leaves = len(pool.node)
        self._place = np.empty(self.n_leaves, dtype=np.intp)
        self._group = np.empty(self.n_leaves, dtype=np.intp)
        for index, members in enumerate(self.groups):
            self._place[members] = np.arange(len(members))
            self._group[members] = index
        self._distances = _pair_distances(pool, self.groups)
        self._build(pool)

    def _build(self, pool) -> None:
        rows = []  # (height, group, row of the group)
        trees = []
        for index, members in enumerate(self.groups):
            tree = None
            if len(members) > 1:
                tree = linkage(self._distances[index], "ward")
                rows += [(h, index, t) for t, h in enumerate(tree[:, 2])]
            trees.append(tree)
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

    def costs(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Costs of merging all pairs of two sets of neurons of one group."""
        group = self._group[one[0]]
        size = len(self.groups[group])
        a, b = self._place[one][:, None], self._place[other]
        i, j = np.minimum(a, b), np.maximum(a, b)
        distances = self._distances[group][size * i - i * (i + 1) // 2 + j - i - 1]
        return distances**2 / 2


def _pair_distances(pool: NeuronPool, groups) -> list[np.ndarray]:
    """Roots of twice the cost of every pair within a group, condensed matrices."""
    # One array a group is all that there is of the size of n_neurons^2.
    condensed = [np.zeros(len(m) * (len(m) - 1) // 2) for m in groups]
    neurons = [np.flatnonzero(pool.node == k) for k in range(pool.n_nodes)]
    for k in range(pool.n_nodes):
        for j in range(k, pool.n_nodes):
            if not len(neurons[k]) or not len(neurons[j]):
                continue
            costs = pool.pair_costs(neurons[k], neurons[j])
            for members, distances in zip(groups, condensed, strict=True):
                rows = np.flatnonzero(pool.node[members] == k)
                columns = np.flatnonzero(pool.node[members] == j)
                if len(rows) and len(columns):
                    block = costs[
                        np.ix_(
                            np.searchsorted(neurons[k], members[rows]),
                            np.searchsorted(neurons[j], members[columns]),
                        )
                    ]
                    _fill(distances, len(members), rows, columns, block)
    return condensed


def _fill(condensed, size, rows, columns, costs) -> None:
    """Put a block of costs into a condensed matrix of distances."""
    distances = np.sqrt(np.maximum(2.0 * costs, 0.0))
    # Neurons are in the order of nodes: rows come before columns, or are the same.
    for place, row in zip(rows, distances, strict=True):
        later = columns > place
        start = size * place - place * (place + 1) // 2 - place - 1
        condensed[start + columns[later]] = row[later]
