"""All neurons of a layer side by side, and the points that move them least.

A group of neurons with the weights v_i, of the nodes k_i, is merged at its *consensus*,
the point w that minimizes

    sum_i a_i (w - v_i)' P_{k_i} (w - v_i),

with the nodes' metrics P_k and a mass a_i for each neuron: how much it matters. It is
``(sum_i a_i P_{k_i})^-1 sum_i a_i P_{k_i} v_i``. What it costs to merge two neurons i
and j of the nodes k and l is taken for

    2 a_i a_j / (a_i + a_j) * D' (P_k^-1 + P_l^-1)^-1 D,    D = v_i - v_j,

which is exact for equal masses and for equal metrics. For all pairs at once it is
computed by the metrics' diagonals, in coordinates in which they are nearly diagonal;
see `JointBasis`.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from scipy import linalg
from sklearn.cluster import KMeans

from ..moments import ROUNDING_OF_SUMS, ratio
from ._metric import MOST_STEPS, NEGLIGIBLE, TOLERANCE, Metric, combine_metrics
from ._neuron_metrics import (
    RIDGE,
    constant_inputs,
    metric_of_neurons,
    metric_of_one_neuron,
    scatter_diagonal,
    with_costs_of_constant_inputs,
)
from ._neuron_spaces import NeuronSpaces
from ._space import GoodEnoughSpace, RandomSource


class NeuronPool:
    """All neurons that are alive; attributes after `alive` are of these only.

    Parameters
    ----------
    spaces : sequence of NeuronSpaces
        One for each node, on the same inputs.
    homogeneous : bool
        Whether neurons may be scaled: they are compared at unit size.
    importances : sequence of ndarray of shape (n_neurons,), or None
        How much each neuron matters; None: all alike.
    """

    def __init__(
        self,
        spaces: Sequence[NeuronSpaces],
        *,
        homogeneous: bool,
        importances: Sequence[np.ndarray] | None = None,
    ) -> None:
        is_dead = _dead_mask(spaces)
        n_neurons = [space.centers.shape[1] for space in spaces]
        self.n_nodes = len(spaces)
        self.all_nodes = np.repeat(np.arange(len(spaces)), n_neurons)
        self.alive = np.flatnonzero(~is_dead)  # indices among all neurons
        self.node = self.all_nodes[self.alive]
        # By how much squared distances from a neuron count.
        self.masses = np.ones(len(self.node))
        if importances is not None:
            self.masses = _masses(np.concatenate(importances)[self.alive], self.node)
        # The size that a neuron is divided by.
        self.scale = np.ones(len(self.node))
        if homogeneous:
            self.scale = _nonzero_sizes(spaces)[self.alive]
        radii = np.concatenate([space.radii for space in spaces])[self.alive]
        self.radii = radii / self.scale
        # (n_params, n_alive): weights at unit size, the biases in the last row.
        self.centers = np.hstack([space.centers for space in spaces])
        self.n_params = len(self.centers)
        # One for each node, of the rows of `centers`.
        self.precisions = _filled_precisions(spaces, self.centers)
        if is_dead.any():
            self.centers = self.centers[:, self.alive]
        if homogeneous:
            self.centers /= self.scale

    @cached_property
    def metrics(self) -> list[Metric]:
        """Return the metric of each node, by its precision."""
        return [metric_of_neurons(P) for P in self.precisions]

    @cached_property
    def basis(self) -> "JointBasis":
        return JointBasis.from_precisions(self.precisions)

    @cached_property
    def coordinates(self) -> np.ndarray:
        """The neurons in the joint basis, (n_params, n_alive)."""
        if self.basis.axes is None:
            return self.centers
        return self.basis.axes.T @ (self.basis.mean @ self.centers)

    @cached_property
    def _pulls(self) -> np.ndarray:
        """Multiply each neuron's weights by its node's metric."""
        return self._times_metric(self.centers, self.node)

    def _times_metric(self, columns: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return columns times the metric of the node of each."""
        products = np.empty_like(columns)
        for k in np.unique(node):
            of_node = node == k
            products[:, of_node] = self.metrics[k].mv(columns[:, of_node])
        return products

    def consensus(self, groups: Sequence[np.ndarray]) -> np.ndarray:
        """Return the points (n_params, n_groups) that move neurons of groups least."""
        members = np.concatenate(groups)
        sizes = [len(group) for group in groups]
        group = np.repeat(np.arange(len(groups)), sizes)
        shares = np.zeros((self.n_nodes, len(groups)))  # masses by node and group
        np.add.at(shares, (self.node[members], group), self.masses[members])
        starts = np.cumsum([0] + sizes[:-1])

        def sums_by_group(columns: np.ndarray) -> np.ndarray:
            weighted = columns[..., members] * self.masses[members]
            return np.add.reduceat(weighted, starts, axis=-1)

        points = sums_by_group(self.centers) / shares.sum(axis=0)
        # Of one node, or of one metric, the mean is that point.
        mixed = np.flatnonzero(np.count_nonzero(shares, axis=0) > 1)
        if len(mixed):
            squares = _column_dots(self.centers, self._pulls)
            points[:, mixed] = self._points_of_mixed_groups(
                points[:, mixed],
                shares=shares[:, mixed],
                pulls=sums_by_group(self._pulls)[:, mixed],
                squares=sums_by_group(squares)[mixed],
            )
        return points

    def _points_of_mixed_groups(
        self,
        points: np.ndarray,
        *,
        shares: np.ndarray,
        pulls: np.ndarray,
        squares: np.ndarray,
    ) -> np.ndarray:
        """Divide pulls by sums of shares times metrics; overwrites `points`.

        The shares are (n_nodes, n_groups), points and pulls (n_params, n_groups), and
        squares (n_groups,): the sums of ``a_i v_i' P v_i``. With the sum M of metrics
        and the residual ``r = pull - M w``, a point w costs its group
        ``square - w' (pull + r)``, of which about ``r' M^-1 r`` is avoidable.
        """
        if self.precisions[0].ndim == 1:
            return pulls / (np.stack(self.precisions, axis=1) @ shares)
        # Conjugate gradients, for all columns at once; those that are there leave.
        divide = _by_diagonals(self.precisions, shares)
        waiting = np.arange(pulls.shape[1])
        residuals = pulls - self._times_summed_metrics(shares, points)
        directions = divide(residuals, waiting)
        errors = _column_dots(residuals, directions)
        for _ in range(MOST_STEPS):
            costs = squares[waiting] - _column_dots(
                points[:, waiting], pulls[:, waiting] + residuals
            )
            is_off = errors > np.maximum(
                TOLERANCE * costs, ROUNDING_OF_SUMS**2 * squares[waiting]
            )
            if not is_off.all():
                waiting = waiting[is_off]
                errors = errors[is_off]
                residuals = residuals[:, is_off]
                directions = directions[:, is_off]
            if not len(waiting):
                return points
            products = self._times_summed_metrics(shares[:, waiting], directions)
            steps = errors / _column_dots(directions, products)
            points[:, waiting] += steps * directions
            residuals -= steps * products
            preconditioned = divide(residuals, waiting)
            last_errors = errors
            errors = _column_dots(residuals, preconditioned)
            directions *= errors / last_errors
            directions += preconditioned
        for column in waiting:
            nodes = np.flatnonzero(shares[:, column])
            total = combine_metrics(
                [self.metrics[k] for k in nodes], shares[nodes, column]
            )
            points[:, [column]] = total.solve(pulls[:, [column]])
        return points

    def _times_summed_metrics(
        self, shares: np.ndarray, columns: np.ndarray
    ) -> np.ndarray:
        """Return columns times ``sum_k shares_k P_k``; shares (n_nodes, n_columns)."""
        products = np.zeros_like(columns)
        for node_shares, metric in zip(shares, self.metrics, strict=True):
            of_node = np.flatnonzero(node_shares)
            if len(of_node):
                product = metric.mv(columns[:, of_node])
                products[:, of_node] += node_shares[of_node] * product
        return products

    def normalized_squared_distances(
        self, points: np.ndarray, groups: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Return q of each group's members at its point; infinite without a radius."""
        members = np.concatenate(groups)
        sizes = [len(group) for group in groups]
        group = np.repeat(np.arange(len(groups)), sizes)
        deltas = points[:, group] - self.centers[:, members]
        products = self._times_metric(deltas, self.node[members])
        squares = _column_dots(deltas, products)
        with np.errstate(divide="ignore", invalid="ignore"):
            radii = self.radii[members]
            q = np.where(radii > 0, squares / radii**2, np.inf)
        return np.split(q, np.cumsum(sizes)[:-1])

    def space(self, index: int) -> GoodEnoughSpace:
        """Return the space of one neuron, as of a linear model of one output."""
        return GoodEnoughSpace(
            center=self.centers[:, [index]],
            metric=metric_of_one_neuron(self.precisions[self.node[index]]),
            radius=self.radii[index],
            epsilon=0.0,
        )

    def pair_costs(self, members: np.ndarray) -> np.ndarray:
        """Return costs of merging each two of some neurons; the diagonal means nothing.

        By the formula of the module, where ``(P_k^-1 + P_l^-1)^-1`` has the diagonal
        ``d_k d_l / (d_k + d_l)`` in the joint basis, d_k that of node k's metric.
        """
        costs = np.empty((len(members), len(members)))
        diagonals = self.basis.diagonals
        masses = self.masses[members]
        places = [np.flatnonzero(self.node[members] == k) for k in range(self.n_nodes)]
        points = [self.coordinates[:, members[of_node]] for of_node in places]
        # Squared length of each neuron, by the diagonal of its node and each other.
        norms = np.empty((len(members), self.n_nodes))
        for k, of_node in enumerate(places):
            halves = diagonals[k] * diagonals / (diagonals[k] + diagonals)
            norms[of_node] = (points[k] ** 2).T @ halves.T
        for k, of_node in enumerate(places):
            a = masses[of_node][:, None]
            for other, of_other in enumerate(places[: k + 1]):
                half = diagonals[k] * diagonals[other]
                half = half / (diagonals[k] + diagonals[other])
                block = (points[k] * (-2.0 * half)[:, None]).T @ points[other]
                block += norms[of_node, other][:, None]
                block += norms[of_other, k]
                if other == k:  # rounding must not make it lopsided
                    block = (block + block.T) / 2
                block *= 2.0 * a * masses[of_other] / (a + masses[of_other])
                np.maximum(block, 0.0, out=block)  # but for rounding
                costs[np.ix_(of_node, of_other)] = block
                costs[np.ix_(of_other, of_node)] = block.T
        return costs

    def levels(self, W: np.ndarray) -> np.ndarray:
        """Mean pre-activations, which do not depend on the zero of the inputs.

        Of the weights W (n_params, n_units), the biases in the last row.
        """
        mean = self.basis.mean
        if mean.ndim == 1:
            return W[-1]
        return W[-1] + mean[-1, :-1] / mean[-1, -1] @ W[:-1]

    def clusters(
        self, n_clusters: int | None, random_state: RandomSource
    ) -> list[np.ndarray]:
        """Return indices of the neurons of each k-means cluster; None: one of all."""
        # In an order for which that of nodes and units does not matter.
        order = np.lexsort(
            (self.centers.sum(axis=0), self.masses, self.levels(self.centers))
        )
        if n_clusters is None:
            return [order]
        points = self.coordinates.T
        if self.basis.axes is None:
            points = points * np.sqrt(self.basis.mean)
        k_means = KMeans(
            min(n_clusters, len(order)), n_init=1, random_state=random_state
        )
        k_means.fit(points[order], sample_weight=self.masses[order])
        return [order[k_means.labels_ == c] for c in np.unique(k_means.labels_)]


def _dead_mask(spaces: Sequence[NeuronSpaces]) -> np.ndarray:
    """Return the mask of the neurons that are dropped, as they are 0 on their rows."""
    is_dead = np.concatenate([space.dead for space in spaces])
    # A layer needs units: where all are dead none is dropped.
    return np.zeros_like(is_dead) if is_dead.all() else is_dead


def _nonzero_sizes(spaces: Sequence[NeuronSpaces]) -> np.ndarray:
    """Return sizes of all neurons; 1 for those of size 0."""
    sizes = np.concatenate([space.sizes for space in spaces])
    return np.where(sizes > 0, sizes, 1.0)


def _masses(importances: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Return importances relative to the mean of a neuron's node, but not too small."""
    n_neurons = np.maximum(np.bincount(node), 1)
    means = (np.bincount(node, importances) / n_neurons)[node]
    # Without a mass they would have no place of their own, and nothing would say which
    # to merge.
    return np.maximum(ratio(importances, means, otherwise=1.0), NEGLIGIBLE)


def _by_diagonals(
    precisions: Sequence[np.ndarray], shares: np.ndarray
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return a division by sums of the nodes' diagonals, about the mean of the inputs.

    It divides columns by the sums at some indices: with the nodes' scatters, means and
    costs of the bias added up by shares (n_nodes, n_sums), as if all else of them were
    0.
    """
    node_bias_costs = np.array([P[-1, -1] for P in precisions])
    node_means = np.stack([P[-1, :-1] for P in precisions], axis=1)
    node_means = node_means / node_bias_costs
    node_scatters = np.stack([scatter_diagonal(P) for P in precisions], axis=1)
    bias_costs = node_bias_costs @ shares
    means = node_means @ (node_bias_costs[:, None] * shares) / bias_costs
    scatters = node_scatters @ shares

    def divide(columns: np.ndarray, sums: np.ndarray) -> np.ndarray:
        quotients = np.empty_like(columns)
        weights = columns[:-1] - means[:, sums] * columns[-1]
        weights = weights / scatters[:, sums]
        quotients[:-1] = weights
        quotients[-1] = columns[-1] / bias_costs[sums] - _column_dots(
            means[:, sums], weights
        )
        return quotients

    return divide


def _column_dots(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return dot products of the columns of one array with those of the other."""
    return np.einsum("ij,ij->j", A, B)


def _filled_precisions(
    spaces: Sequence[NeuronSpaces], centers: np.ndarray
) -> list[np.ndarray]:
    """Return precisions that cost a little, in others' unit, where they say nothing.

    `centers` are the weights (n_params, n_neurons) of all neurons.
    """
    precisions = [space.precision for space in spaces]
    if precisions[0].ndim == 1:
        return precisions
    costs = np.max([scatter_diagonal(P) for P in precisions], axis=0)
    # An input that is constant everywhere has no unit but that of its weights, with
    # which it is to count as much as others do with theirs.
    is_constant = np.all([constant_inputs(P) for P in precisions], axis=0)
    if is_constant.any():
        squares = np.mean(centers[:-1] ** 2, axis=1)
        typical = 1.0
        if not is_constant.all():
            typical = np.mean((costs * squares)[~is_constant])
        is_usable = (squares > 0) & (typical > 0)
        costs_by_weights = np.divide(
            typical, squares, out=np.ones_like(squares), where=is_usable
        )
        costs = np.where(is_constant, costs_by_weights, costs)
    return [with_costs_of_constant_inputs(P, RIDGE * costs) for P in precisions]


class JointBasis(NamedTuple):
    """Coordinates in which the nodes' metrics are nearly diagonal; exact for two.

    Let M = L L' be the mean of the metrics and Q a weighted sum of them. The axes are
    ``L'^-1 U`` for the eigenvectors U of ``L^-1 Q L'^-1``. In them M is the identity,
    and Q is diagonal.
    """

    # (n_params, n_params): weights are axes @ coordinates; None: the same.
    axes: np.ndarray | None
    mean: np.ndarray  # of the metrics, (n_params, n_params) or (n_params,)
    diagonals: np.ndarray  # (n_nodes, n_params), of each node's metric in these

    @classmethod
    def from_precisions(cls, precisions: Sequence[np.ndarray]) -> "JointBasis":
        """Return the basis of the metrics of all nodes."""
        mean = sum(P / len(precisions) for P in precisions)
        if mean.ndim == 1:
            return cls(axes=None, mean=mean, diagonals=np.stack(precisions))
        # Transposed it is in the order that LAPACK reads.
        factor, failed = linalg.lapack.dpotrf(mean.T, lower=1)
        if failed:
            raise ValueError(
                "The second moments of what enters a hidden layer, over all nodes, are "
                "not positive definite. Give the geometry of hidden_layers a larger "
                "ridge."
            )
        divide = partial(
            linalg.solve_triangular, factor, lower=True, check_finite=False
        )
        axes = np.eye(len(mean))
        if len(precisions) > 1:
            weighted_sum = _sum_that_differs_most(precisions, mean)
            white = divide(divide(weighted_sum).T)
            # Twice the matrix, and symmetric in spite of rounding.
            _, axes = linalg.eigh(white + white.T, overwrite_a=True, check_finite=False)
        axes = divide(axes, trans="T")
        diagonals = np.stack([_column_dots(axes, P @ axes) for P in precisions])
        diagonals = np.maximum(diagonals, np.finfo(np.float64).tiny)
        return cls(axes=axes, mean=mean, diagonals=diagonals)


def _sum_that_differs_most(
    precisions: Sequence[np.ndarray], mean: np.ndarray
) -> np.ndarray:
    """Return the weighted sum of metrics in which inputs differ most between nodes.

    Its weights are the first principal component of the nodes' scatters, each input's
    relative to its mean over the nodes.
    """
    scatters = np.stack([scatter_diagonal(P) for P in precisions])
    scatters = ratio(scatters, scatter_diagonal(mean))
    components, _, _ = linalg.svd(scatters - scatters.mean(axis=0), full_matrices=False)
    weights = components[:, 0]
    return sum(weight * P for weight, P in zip(weights, precisions, strict=True))
