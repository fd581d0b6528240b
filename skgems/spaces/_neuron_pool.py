"""All neurons of a layer side by side, and the points that move them least."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from scipy import linalg
from sklearn.cluster import KMeans

from ..moments import ratio
from ._diagonal import DiagonalMetric
from ._gram import GramMetric
from ._neuron_spaces import filled, hidden_inputs, scatter_diagonal, times
from ._space import GoodEnoughSpace

# Mass of neurons without any importance, relative to the mean of their node.
_LEAST_MASS = 1e-3
# By how much a point may move its neurons more than the one that moves them least,
# relative to that, and to the neurons themselves where they are all but the same.
_TOLERANCE, _ROUNDING = 1e-4, 1e-20
_MOST_STEPS = 100
# What an input that is constant at a node counts there, relative to other nodes.
_UNSEEN = 1e-6


class NeuronPool:
    """All neurons that are alive; attributes after `alive` are of these only."""

    def __init__(self, spaces, homogeneous, outgoing, importances=None) -> None:
        dead = np.concatenate([space.dead for space in spaces])
        if dead.all():  # a layer needs units: then none is dropped
            dead[:] = False
        self.alive = np.flatnonzero(~dead)  # indices among all neurons
        self.n_nodes = len(spaces)
        n_neurons = [space.centers.shape[1] for space in spaces]
        self.all_nodes = np.repeat(np.arange(len(spaces)), n_neurons)
        self.node = self.all_nodes[self.alive]
        # By how much squared distances from a neuron count.
        self.masses = np.ones(len(self.node))
        if importances is not None:
            # Relative to the mean of the neuron's node, but not too small.
            own = np.concatenate(importances)[self.alive]
            counts = np.maximum(np.bincount(self.node), 1)
            mean = (np.bincount(self.node, own) / counts)[self.node]
            self.masses = np.maximum(ratio(own, mean, 1.0), _LEAST_MASS)
        sizes = np.concatenate([space.sizes for space in spaces])[self.alive]
        radii = np.concatenate([space.radii for space in spaces])[self.alive]
        scale = np.where(sizes > 0, sizes, 1.0) if homogeneous else np.ones(len(sizes))
        self.scale = scale
        self.radii = radii / scale
        centers = [space.centers for space in spaces]
        # Of each node, for `centers`: weights at that scale, then outgoing ones.
        self.precisions = _filled_from_others(
            [space.precision for space in spaces], np.hstack(centers)
        )
        self.n_params = len(centers[0])
        if outgoing is not None:
            centers = [np.vstack(pair) for pair in zip(centers, outgoing, strict=True)]
            new = np.ones(len(outgoing[0]))
            self.precisions = [
                linalg.block_diag(P, np.diag(new)) if P.ndim == 2 else np.append(P, new)
                for P in self.precisions
            ]
        self.centers = np.hstack(centers)
        if dead.any():
            self.centers = self.centers[:, self.alive]
        if homogeneous:
            self.centers[: self.n_params] /= scale

    @cached_property
    def basis(self) -> "JointBasis":
        return JointBasis.of(self.precisions, self.n_params - 1)

    @cached_property
    def coordinates(self) -> np.ndarray:
        axes, mean, _ = self.basis
        return self.centers if axes is None else axes.T @ times(mean, self.centers)

    @cached_property
    def _pulls(self) -> np.ndarray:
        return self._times(self.centers, self.node)

    def _times(self, columns: np.ndarray, node: np.ndarray) -> np.ndarray:
        pulled = np.empty_like(columns)
        for k in np.unique(node):
            own = node == k
            pulled[:, own] = times(self.precisions[k], columns[:, own])
        return pulled

    def consensus(self, groups: Sequence[np.ndarray]) -> np.ndarray:
        """The points (n_params, n_groups) that move the neurons of groups least."""
        members = np.concatenate(groups)
        group = np.repeat(np.arange(len(groups)), [len(g) for g in groups])
        shares = np.zeros((self.n_nodes, len(groups)))
        np.add.at(shares, (self.node[members], group), self.masses[members])
        starts = np.cumsum([0] + [len(g) for g in groups[:-1]])

        def sums(columns):
            weighed = columns[..., members] * self.masses[members]
            return np.add.reduceat(weighed, starts, axis=-1)

        points = sums(self.centers) / shares.sum(axis=0)
        # Of one node, or of one metric, the mean is that point.
        apart = np.flatnonzero(np.count_nonzero(shares, axis=0) > 1)
        if len(apart):
            pulls = sums(self._pulls)[:, apart]
            squares = sums(_dots(self.centers, self._pulls))[apart]
            own = points[:, apart], shares[:, apart]
            points[:, apart] = self._solve(*own, pulls, squares)
        return points

    def _solve(self, points, shares, pulls, squares) -> np.ndarray:
        """Divide columns by sums of shares times metrics; overwrites `points`."""
        if self.precisions[0].ndim == 1:
            return pulls / (np.stack(self.precisions, axis=1) @ shares)
        # Conjugate gradients, for all columns at once; those that are there leave.
        divide = _by_diagonals(self.precisions, self.n_params - 1, shares)
        todo = np.arange(pulls.shape[1])
        rest = pulls - self._summed(shares, points)
        course = divide(rest, todo)
        error = _dots(rest, course)
        for _ in range(_MOST_STEPS):
            cost = squares[todo] - _dots(points[:, todo], pulls[:, todo] + rest)
            going = error > np.maximum(_TOLERANCE * cost, _ROUNDING * squares[todo])
            if not going.all():
                todo, error = todo[going], error[going]
                rest, course = rest[:, going], course[:, going]
            if not len(todo):
                return points
            pulled = self._summed(shares[:, todo], course)
            step = error / _dots(course, pulled)
            points[:, todo] += step * course
            rest -= step * pulled
            ahead = divide(rest, todo)
            error, before = _dots(rest, ahead), error
            course *= error / before
            course += ahead
        for column in todo:
            used = np.flatnonzero(shares[:, column])
            total = sum(shares[k, column] * self.precisions[k] for k in used)
            points[:, column] = linalg.solve(total, pulls[:, column], assume_a="pos")
        return points

    def _summed(self, shares, columns) -> np.ndarray:
        summed = np.zeros_like(columns)
        for share, P in zip(shares, self.precisions, strict=True):
            own = np.flatnonzero(share)
            if len(own):
                summed[:, own] += share[own] * (P @ columns[:, own])
        return summed

    def normalized_squared_distances(self, points, groups) -> list[np.ndarray]:
        """q of each group's members at its point; infinite where there is no radius."""
        members = np.concatenate(groups)
        point = np.repeat(np.arange(len(groups)), [len(g) for g in groups])
        delta = points[:, point] - self.centers[:, members]
        squared = _dots(delta, self._times(delta, self.node[members]))
        with np.errstate(divide="ignore", invalid="ignore"):
            radii = self.radii[members]
            q = np.where(radii > 0, squared / radii**2, np.inf)
        return np.split(q, np.cumsum([len(g) for g in groups])[:-1])

    def space(self, index: int) -> GoodEnoughSpace:
        P = self.precisions[self.node[index]]
        return GoodEnoughSpace(
            center=self.centers[:, [index]],
            metric=GramMetric.of(P) if P.ndim == 2 else DiagonalMetric(P[:, None]),
            radius=self.radii[index],
            epsilon=0.0,
        )

    def pair_costs(self, members: np.ndarray) -> np.ndarray:
        """What it costs to merge each two of some neurons; the diagonal means nothing.

        ``2 a b / (a + b) * D' (P_k^-1 + P_l^-1)^-1 D``, with a, b masses, D the
        difference and the metrics' diagonals in the joint basis.
        """
        costs = np.empty((len(members),) * 2)
        diagonals, masses = self.basis.diagonals, self.masses[members]
        places = [np.flatnonzero(self.node[members] == k) for k in range(self.n_nodes)]
        points = [self.coordinates[:, members[own]] for own in places]
        norms = np.empty((len(members), self.n_nodes))
        for k, own in enumerate(places):
            halves = diagonals[k] * diagonals / (diagonals[k] + diagonals)
            norms[own] = (points[k] ** 2).T @ halves.T
        for k, own in enumerate(places):
            a = masses[own][:, None]
            for j, other in enumerate(places[: k + 1]):
                half = diagonals[k] * diagonals[j] / (diagonals[k] + diagonals[j])
                block = (points[k] * (-2.0 * half)[:, None]).T @ points[j]
                block += norms[own, j][:, None]
                block += norms[other, k]
                if j == k:  # rounding must not make it lopsided
                    block = (block + block.T) / 2
                block *= 2.0 * a * masses[other] / (a + masses[other])
                np.maximum(block, 0.0, out=block)  # but for rounding
                costs[np.ix_(own, other)] = block
                costs[np.ix_(other, own)] = block.T
        return costs

    def levels(self, W: np.ndarray) -> np.ndarray:
        """Mean pre-activations, which do not depend on the zero of the inputs."""
        mean, level = self.basis.mean, self.n_params - 1
        if mean.ndim == 1:
            return W[-1]
        return W[-1] + mean[level, :level] / mean[level, level] @ W[:-1]

    def clusters(self, n_clusters: int | None, random_state) -> list[np.ndarray]:
        # In an order for which that of nodes and units does not matter.
        weights = self.centers[: self.n_params]
        order = np.lexsort((weights.sum(axis=0), self.masses, self.levels(weights)))
        if n_clusters is None:
            return [order]
        points = self.coordinates.T
        if self.basis.axes is None:
            points = points * np.sqrt(self.basis.mean)
        means = KMeans(min(n_clusters, len(order)), n_init=1, random_state=random_state)
        labels = means.fit(points[order], sample_weight=self.masses[order]).labels_
        return [order[labels == c] for c in np.unique(labels)]


def _by_diagonals(precisions, level: int, shares) -> Callable:
    """Division by sums of the nodes' diagonals, about the mean of the inputs."""
    own = np.delete(np.arange(len(precisions[0])), level)
    levels = np.array([P[level, level] for P in precisions])
    means = np.stack([P[level, own] for P in precisions], axis=1) / levels
    scatters = np.stack([scatter_diagonal(P, level) for P in precisions], axis=1)
    means, scatters = means @ (levels[:, None] * shares), scatters @ shares
    levels = levels @ shares
    means /= levels

    def divide(columns: np.ndarray, sums: np.ndarray) -> np.ndarray:
        divided = np.empty_like(columns)
        rest = (columns[own] - means[:, sums] * columns[level]) / scatters[:, sums]
        divided[own] = rest
        divided[level] = columns[level] / levels[sums] - _dots(means[:, sums], rest)
        return divided

    return divide


def _dots(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", one, other)


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


class JointBasis(NamedTuple):
    """Coordinates in which the nodes' metrics are nearly diagonal; exact for two."""

    # (n_params, n_params): weights are axes @ coordinates; None: the same.
    axes: np.ndarray | None
    mean: np.ndarray  # of the metrics, (n_params, n_params) or (n_params,)
    diagonals: np.ndarray  # (n_nodes, n_params), of each node's metric in these

    @classmethod
    def of(cls, precisions: Sequence[np.ndarray], level: int) -> "JointBasis":
        """Of the metrics of all nodes; ``level`` is the index of the bias."""
        mean = sum(P / len(precisions) for P in precisions)
        if mean.ndim == 1:
            return cls(None, mean, np.stack(precisions))
        # Transposed it is in the order that LAPACK reads.
        factor, failed = linalg.lapack.dpotrf(mean.T, lower=1)
        if failed:
            raise ValueError(
                "All nodes' second moments of what enters a hidden layer are not "
                "positive definite: give geometry_hidden a larger ridge."
            )
        lower = partial(linalg.solve_triangular, factor, lower=True, check_finite=False)
        axes = np.eye(len(mean))
        if len(precisions) > 1:
            # The sum of the metrics in which inputs differ most between nodes.
            shown = np.stack([scatter_diagonal(P, level) for P in precisions])
            shown = ratio(shown, scatter_diagonal(mean, level))
            left, _, _ = linalg.svd(shown - shown.mean(axis=0), full_matrices=False)
            pairs = zip(left[:, 0], precisions, strict=True)
            white = lower(lower(sum(share * P for share, P in pairs)).T)
            _, axes = linalg.eigh(white + white.T, overwrite_a=True, check_finite=False)
        axes = lower(axes, trans="T")
        diagonals = np.stack([_dots(axes, P @ axes) for P in precisions])
        return cls(axes, mean, np.maximum(diagonals, np.finfo(np.float64).tiny))
