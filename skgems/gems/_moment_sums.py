"""Gradient and information of a logistic regression, expected of rows by moments.

They stand in for what nodes do not tell. Parameters are contrasts against the first
class, as in `skgems.moments`; models are on rows as they are.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from ..evaluation import NodeSums
from ..moments import Likelihood

# Step of differences in logits, a column's deviation long. Expectations have about
# seven digits, and their third derivatives are below 0.1, so that curvatures are right
# to 1e-4 of their size.
_STEP = 1e-2
# Skewness of a column within classes from which moments of two orders miss the labels'
# dependence on it: that of a log-normal column of sigma 0.25 is 0.8, that of an
# exponential one 2, and a column of zeros and ones with a share of 0.2 has 1.5.
_SKEWED = 0.7


@dataclass(frozen=True, eq=False, kw_only=True)
class MomentSums:
    """The expected sums of some nodes' rows, or of all."""

    likelihood: Likelihood

    @property
    def n_columns(self) -> int:
        return len(self.likelihood.scales)

    @property
    def n_classes(self) -> int:
        return self.likelihood.loss.n_classes

    def sums_of_all(self, W: np.ndarray) -> NodeSums:
        """Return the sums of all rows at a model, with what gradients corrected."""

        def loss_gradient(at_origin: np.ndarray) -> np.ndarray:
            _, gradient = self.likelihood.value_and_gradient(at_origin)
            return gradient - self.likelihood.penalty(at_origin)[1]

        return self._sums(W, loss_gradient)

    def sums_of_node(self, W: np.ndarray, node: int) -> NodeSums:
        """Return the sums of a node's rows, with its share of all corrections."""
        slope = self.likelihood.slope * self.likelihood.shares_of_nodes[node]

        def loss_gradient(at_origin: np.ndarray) -> np.ndarray:
            return self.likelihood.expected(at_origin, [node])[1] + slope

        return self._sums(W, loss_gradient)

    def _sums(
        self, W: np.ndarray, loss_gradient: Callable[[np.ndarray], np.ndarray]
    ) -> NodeSums:
        """Return the gradient, and its differences as the information."""
        at_origin = self.likelihood.from_rows(W)
        scales = self.likelihood.scales
        steps = _STEP / np.append(np.where(scales > 0, scales, 1.0), 1.0)
        differences = []
        for k in range(1, self.n_classes):
            for j, step in enumerate(steps):
                ends = []
                for sign in (1.0, -1.0):
                    moved = at_origin.copy()
                    moved[j, k] += sign * step
                    ends.append(loss_gradient(moved)[:, 1:].T.ravel())
                differences.append((ends[0] - ends[1]) / (2.0 * step))
        information = np.array(differences)
        to_origin = self._to_origin()
        gradient = -loss_gradient(at_origin)[:, 1:].T.ravel()
        return NodeSums(
            gradient=to_origin.T @ gradient,
            information=to_origin.T @ ((information + information.T) / 2) @ to_origin,
        )

    def _to_origin(self) -> np.ndarray:
        """Return the matrix that takes parameters on rows to those less the origin."""
        of_class = np.eye(self.n_columns + 1)
        of_class[-1, :-1] = self.likelihood.loss.moments.origin
        return np.kron(np.eye(self.n_classes - 1), of_class)

    def products(self) -> np.ndarray:
        """Return the mean products of the columns and the intercept."""
        total = self.likelihood.loss.moments.total()
        extended = np.append(total.mean, 1.0)
        products = np.outer(extended, extended)
        products[:-1, :-1] += total.covariance
        return products

    def penalty(self) -> np.ndarray:
        """Return the second derivatives of the penalty in the parameters.

        The squares of all outputs less their mean are those of contrasts, less the
        square of their sum over the number of classes.
        """
        n_contrasts = self.n_classes - 1
        between = np.eye(n_contrasts) - 1.0 / self.n_classes
        return np.kron(
            between, np.diag(2.0 * np.append(self.likelihood.penalties, 0.0))
        )

    def skewed_columns(self) -> list[int]:
        """Return columns that are far from normal within classes, by their clusters.

        Third moments of the means of clusters are a part of those of rows.
        """
        moments = self.likelihood.apart.moments
        merged = moments.by_class()
        centers = dict(zip(merged.columns.tolist(), merged.means, strict=True))
        deviations = moments.means - np.stack(
            [centers[c] for c in moments.columns.tolist()]
        )
        weights = moments.counts / moments.counts.sum()
        thirds = weights @ deviations**3
        squares = moments.part_squares
        if squares is not None:
            spread = squares / moments.counts[:, None]
            thirds += 3.0 * weights @ (deviations * spread)
        within = np.sqrt(np.maximum(merged.covariance_within_parts(), 0.0).diagonal())
        skewness = np.abs(thirds) / np.where(within > 0, within, 1.0) ** 3
        return np.flatnonzero(skewness > _SKEWED).tolist()

    def separated_columns(self) -> list[int]:
        """Return columns that vary, but not within some class."""
        squares_of_classes = self.likelihood.apart.moments.by_class().class_squares()
        is_separated = np.zeros(self.n_columns, dtype=bool)
        for squares in squares_of_classes.values():
            is_separated |= squares <= 0
        return np.flatnonzero(is_separated & (self.likelihood.scales > 0)).tolist()

    def nodes_of_column(self, column: int) -> list[int]:
        """Return the nodes at which a column varies between the means of its parts."""
        moments = self.likelihood.apart.moments
        starts = self.likelihood.starts
        return [
            k
            for k in range(len(starts) - 1)
            if np.ptp(moments.means[starts[k] : starts[k + 1], column]) > 0
        ]

    def with_site_intercepts(self, W: np.ndarray) -> np.ndarray:
        """Return the likeliest model with an intercept for each node.

        Returns
        -------
        models : ndarray of shape (n_nodes, n_columns + 1, n_classes)
            They differ in their intercepts alone.
        """
        likelihood = self.likelihood
        shares = likelihood.shares_of_nodes
        n_nodes = len(shares)
        scales = np.where(likelihood.scales > 0, likelihood.scales, 1.0)[:, None]
        start = likelihood.from_rows(W)
        start = start - start[:, [0]]
        n_weights = self.n_columns * (self.n_classes - 1)

        def models_of(z: np.ndarray) -> np.ndarray:
            models = np.zeros((n_nodes, *W.shape))
            models[:, :-1, 1:] = z[:n_weights].reshape(self.n_columns, -1) / scales
            models[:, -1, 1:] = z[n_weights:].reshape(n_nodes, -1)
            return models

        def loss(z: np.ndarray) -> tuple[float, np.ndarray]:
            models = models_of(z)
            value = 0.0
            gradients = []
            for k, model in enumerate(models):
                of_node, gradient = likelihood.expected(model, [k])
                slope = shares[k] * likelihood.slope
                value += of_node + np.vdot(slope, model)
                gradients.append(gradient + slope)
            penalty, penalty_gradient = likelihood.penalty(models[0])
            by_weights = np.sum(gradients, axis=0)[:-1] + penalty_gradient[:-1]
            by_intercepts = np.array(gradients)[:, -1, 1:]
            gradient = np.concatenate(
                [(by_weights[:, 1:] / scales).ravel(), by_intercepts.ravel()]
            )
            return (value + penalty) / likelihood.n_rows, gradient / likelihood.n_rows

        z = np.concatenate(
            [
                (start[:-1, 1:] * scales).ravel(),
                np.tile(start[-1, 1:], n_nodes),
            ]
        )
        minimum = minimize(loss, z, jac=True, method="L-BFGS-B").x
        models = models_of(minimum)
        return np.stack([likelihood.to_rows(model) for model in models])


def contrasts_of(W: np.ndarray) -> np.ndarray:
    """Return the parameters of a model, contrasts against the first class."""
    return (W[:, 1:] - W[:, :1]).T.ravel()


def places_of_nodes(
    *, n_columns: int, n_classes: int, n_intercepts: int, n_nodes: int
) -> list[np.ndarray]:
    """Return where the parameters of each node are among all.

    All are, class by class, those of the columns and then the intercepts: one, or one
    for each node.
    """
    n_of_class = n_columns + n_intercepts
    places = []
    for node in range(n_nodes):
        own_intercept = n_columns + (node if n_intercepts > 1 else 0)
        of_class = np.append(np.arange(n_columns), own_intercept)
        places.append(
            np.concatenate([k * n_of_class + of_class for k in range(n_classes - 1)])
        )
    return places
