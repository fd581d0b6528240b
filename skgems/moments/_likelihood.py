# SPDX-License-Identifier: BSD-3-Clause
"""The linear model that is likeliest for rows of which only the moments are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize, minimize_scalar

from ._class_moments import ClassMoments, merge_moments
from ._disagreement import NodeFits, equal_nodes, node_fits
from ._fewer_parts import fewer_parts
from ._gaussian import GaussianLoss

# Takes a model and returns a value and its gradient.
Loss = Callable[[np.ndarray], tuple[float, np.ndarray]]
# Ridge of the matrices that the search is preconditioned by, relative to them and to
# the features' variances.
_RIDGE, _LEAST_CURVATURE = 1e-3, 1e-5
# The search begins anew with other coordinates after so many steps: soon, since what
# is steep where it starts is not where it ends.
_FIRST_STEPS, _STEPS = 15, 40
# How often the discriminant analysis, where the search starts, is made less sure.
_MOST_HALVINGS = 10
# Least curvature between outputs, relative to the mean: none where classes are decided.
_LEAST_BETWEEN = 0.05
# Parts that the loss is taken over. What lies between merged ones is a covariance,
# which variances cannot tell: there more are kept.
_MOST_PARTS, _MOST_DIAGONAL_PARTS = 512, 4096
# Several times what a search takes; with corrections that are made up it may never end.
_MOST_STEPS = 400
# Least share of what is corrected of gradients that is tried before none is.
_LEAST_CORRECTED = 0.125
# How far below others a class is that nothing is told of, in logits.
_NEVER = 30.0


@dataclass(frozen=True, eq=False)
class NodeLoss:
    """What a node tells of its loss: moments, and the gradient at its own model.

    Attributes
    ----------
    moments : ClassMoments
        Of the node's rows.
    columns : ndarray of shape (n_own,), int
        Classes that it has seen.
    W : ndarray of shape (n_features + 1, n_own) or None
        Its own model, on rows less the origin of the moments, the intercepts in the
        last row. None: it has none, or one class.
    gradient : ndarray of shape (n_features + 1, n_own) or None
        Of its rows' summed log-loss there, the softmax going over its own classes.
    slope : ndarray of shape (n_features + 1, n_classes) or None
        The linear term itself, where these are several nodes whose corrections were
        summed; in models of all classes on rows less the origin of the moments.
    n_alike : float or None
        Rows of all nodes that have its model. None: its own.
    """

    moments: ClassMoments
    columns: np.ndarray
    W: np.ndarray | None = None
    gradient: np.ndarray | None = None
    slope: np.ndarray | None = None
    n_alike: float | None = None

    def weighted(self, factor: float) -> NodeLoss:
        """The same as if there were so many times the rows."""
        gradient = None if self.gradient is None else factor * self.gradient
        slope = None if self.slope is None else factor * self.slope
        moments = self.moments.weighted(factor)
        n_alike = None if self.n_alike is None else factor * self.n_alike
        return NodeLoss(moments, self.columns, self.W, gradient, slope, n_alike)


def share_of_gradient(n_rows: float, n_features: int, n_own: int, *, diagonal: bool):
    """How much of what Gaussians miss in a node's gradient is to be corrected.

    Parameters
    ----------
    n_rows : float
        Of the node.
    n_features : int
        Those that are not constant.
    n_own : int
        Classes that the node has seen.
    diagonal : bool
        Whether only variances are known.

    Returns
    -------
    share : float
        ``n / (n + d C)`` of n rows, d features and C classes; ``n / (n + 2 C)`` where
        only variances are known: the fewer rows, the more of it is chance.

    Examples
    --------
    >>> from skgems.moments import share_of_gradient
    >>> share_of_gradient(300.0, 10, 10, diagonal=False)
    0.75
    """
    return n_rows / (n_rows + (2 if diagonal else n_features) * n_own)


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Sum of the nodes' losses as far as they are known, and one ridge penalty.

    The loss is that of Gaussians, see :class:`GaussianLoss`, to which each node adds a
    linear term: a share of the difference between its rows' gradient at its own model
    and that of the Gaussians. The penalty on weights, not on intercepts, is that of
    ``LogisticRegression(C)``, on features of unit variance or as they are.

    Attributes
    ----------
    loss : GaussianLoss
        Of the moments of all nodes, told from their mean.
    slope : ndarray of shape (n_features + 1, n_classes)
        The linear term.
    C : float
        Inverse strength of the penalty.
    scaled : bool, default=True
        Whether it is that on features of unit variance, so that units do not matter.
    apart : GaussianLoss, default=None
        Of the same moments before parts of different nodes were merged.
    starts : ndarray of shape (n_nodes + 1,), int, default=None
        First part of each node there, and the number of parts.
    own_losses : ndarray of shape (n_nodes,), default=None
        Of each node's moments at its own model, in nats a row; nan without one.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.moments import Likelihood, NodeLoss, class_moments
    >>> X, y = np.array([[-1.0], [-3.0], [2.0], [4.0]]), np.array([0, 0, 1, 1])
    >>> node = NodeLoss(class_moments(X, y), np.arange(2))
    >>> likelihood = Likelihood.of([node], 2)
    >>> W = likelihood.minimize()
    >>> value, gradient = likelihood.value_and_gradient(W)
    >>> bool(np.abs(gradient).max() < 1e-4)
    True
    """

    loss: GaussianLoss
    slope: np.ndarray = field(repr=False)
    C: float
    scaled: bool = True
    apart: GaussianLoss | None = field(default=None, repr=False)
    starts: np.ndarray | None = field(default=None, repr=False)
    own_losses: np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        nodes: Sequence[NodeLoss],
        n_classes: int,
        *,
        C: float = 1.0,
        scaled: bool = True,
        share: float | None = None,
        merged: ClassMoments | None = None,
    ) -> Likelihood:
        """What several nodes tell.

        Parameters
        ----------
        nodes : sequence of NodeLoss
            The moments' classes are numbers below `n_classes`.
        n_classes : int
        C : float, default=1.0
        scaled : bool, default=True
        share : float in [0, 1], default=None
            How much of each node's gradient is corrected. None: as
            :func:`share_of_gradient` says.
        merged : ClassMoments, default=None
            The merged moments of the nodes, of which these need no scatter then.

        Returns
        -------
        likelihood : Likelihood
        """
        if merged is None:
            merged = merge_moments(node.moments for node in nodes)
        merged = merged.about(merged.origin + merged.mean())
        apart = GaussianLoss(merged, n_classes)
        most = _MOST_DIAGONAL_PARTS if merged.is_diagonal else _MOST_PARTS
        fewer = fewer_parts(merged, most)
        loss = apart if fewer is merged else GaussianLoss(fewer, n_classes)
        starts = np.cumsum([0, *(len(node.moments.columns) for node in nodes)])
        slope = np.zeros((merged.n_features + 1, n_classes))
        return cls(loss, slope, C, scaled, apart, starts).with_share(nodes, share)

    def with_share(self, nodes: Sequence[NodeLoss], share: float | None) -> Likelihood:
        """The same with another share of the nodes' gradients.

        Parameters
        ----------
        nodes : sequence of NodeLoss
            All that it is of.
        share : float in [0, 1] or None

        Returns
        -------
        likelihood : Likelihood
        """
        slope, losses = np.zeros_like(self.slope), np.empty(len(nodes))
        for k, node in enumerate(nodes):
            own, losses[k] = self._at_own_model(k, node, share)
            slope += own
        return replace(self, slope=slope, own_losses=losses)

    def expected(
        self, W: np.ndarray, nodes: Sequence[int], outputs: np.ndarray | None = None
    ) -> tuple[float, np.ndarray]:
        """Loss of some nodes' rows by their moments alone, and its gradient.

        Parameters
        ----------
        W : ndarray of shape (n_features + 1, n_classes)
            A linear model on rows less the origin of the moments.
        nodes : sequence of int
            Their places among all.
        outputs : ndarray of bool of shape (n_classes,), default=None
            Outputs that the softmax goes over; rows of other classes do not count.
            None: those that anything is told of.

        Returns
        -------
        value : float
            In nats.
        gradient : ndarray of shape (n_features + 1, n_classes)
        """
        outputs = self.told if outputs is None else outputs
        spans = [np.arange(self.starts[k], self.starts[k + 1]) for k in nodes]
        parts = np.concatenate(spans)
        parts = parts[outputs[self.apart.moments.columns[parts]]]
        return self.apart.value_and_gradient(W, parts=parts, outputs=outputs)

    def node_fits(self, W: np.ndarray, n_rows: np.ndarray) -> NodeFits:
        """How a model on rows less the origin fits the nodes', of so many at most."""
        return node_fits(self.apart, self.starts, W, self.told, self.own_losses, n_rows)

    def equal_nodes(self) -> list[tuple[int, int]]:
        """Pairs of nodes whose rows seem to be the same."""
        return equal_nodes(self.apart.moments, self.starts)

    def slope_of(self, k: int, node: NodeLoss, *, share: float | None = None):
        """The linear term of one node.

        Parameters
        ----------
        k : int
            Its place among all.
        node : NodeLoss
            What it told.
        share : float in [0, 1], default=None
            How much of its gradient is corrected. None: as :func:`share_of_gradient`
            says.

        Returns
        -------
        slope : ndarray of shape (n_features + 1, n_classes)
        """
        return self._at_own_model(k, node, share)[0]

    def _at_own_model(self, k: int, node: NodeLoss, share: float | None):
        """The linear term of one node, and the loss of its own model; nan without."""
        moments, slope = self.loss.moments, np.zeros_like(self.slope)
        if node.slope is not None:
            summed = node.slope.copy()
            summed[:-1] -= np.outer(moments.origin - node.moments.origin, summed[-1])
            return self._of_varying(summed), np.nan
        if share is None:
            # How a model's rows are dealt over nodes does not matter.
            share = share_of_gradient(
                node.moments.n_rows if node.n_alike is None else node.n_alike,
                np.count_nonzero(self.scales),
                len(node.columns),
                diagonal=moments.is_diagonal,
            )
        if node.W is None or node.gradient is None or share == 0:
            return slope, np.nan
        # From the node's origin to that of all.
        shift = moments.origin - node.moments.origin
        W = np.zeros_like(slope)
        W[:, node.columns] = node.W
        W[-1] += shift @ W[:-1]
        outputs = np.zeros(self.loss.n_classes, dtype=bool)
        outputs[node.columns] = True
        # Rows of classes that its model does not know say nothing of it.
        value, expected = self.expected(W, [k], outputs)
        n_known = node.moments.counts[outputs[node.moments.columns]].sum()
        loss = value / n_known if n_known > 0 else np.nan
        true = np.zeros_like(slope)
        true[:, node.columns] = node.gradient
        true[:-1] -= np.outer(shift, true[-1])
        slope = share * (true - expected)
        told = self.told
        if not told.all():
            # Gradients speak of a class that has too few rows to be told of. What is
            # left without it would drive what all outputs have in common.
            slope[:, ~told] = 0.0
            slope[:, told] -= slope[:, told].mean(axis=1, keepdims=True)
        return self._of_varying(slope), loss

    def _of_varying(self, slope: np.ndarray) -> np.ndarray:
        """A linear term without what rounding leaves in constant features."""
        slope[:-1][self.scales == 0] = 0.0
        return slope

    def with_gradient(self, W: np.ndarray, gradient: np.ndarray) -> Likelihood:
        """The same with another linear term: the one with which it is as steep there.

        Parameters
        ----------
        W : ndarray of shape (n_features + 1, n_classes)
            A linear model on rows less the origin of the moments.
        gradient : ndarray of shape (n_features + 1, n_classes)

        Returns
        -------
        likelihood : Likelihood
        """
        _, own = self.value_and_gradient(W)
        return replace(self, slope=self.slope + gradient - own)

    def penalty(self, W: np.ndarray) -> tuple[float, np.ndarray]:
        """The ridge penalty and its gradient.

        Parameters
        ----------
        W : ndarray of shape (n_features + 1, n_classes)

        Returns
        -------
        value : float
            In nats.
        gradient : ndarray of shape (n_features + 1, n_classes)
        """
        gradient = np.zeros_like(W)
        gradient[:-1] = 2.0 * self._penalties[:, None] * W[:-1]
        return float(np.sum(self._penalties @ W[:-1] ** 2)), gradient

    @property
    def n_rows(self) -> float:
        """Rows that it is summed over."""
        return self.loss.moments.n_rows

    @cached_property
    def told(self) -> np.ndarray:
        """Classes that anything is told of, a mask: the softmax goes over these."""
        counts = self.loss.moments.class_counts(self.loss.n_classes)
        return counts > 0

    @cached_property
    def scales(self) -> np.ndarray:
        """Standard deviation of each feature over all rows; 0 where it is constant."""
        return np.sqrt(np.maximum(self.loss.moments.variances(), 0.0))

    @cached_property
    def _penalties(self) -> np.ndarray:
        """Strength of the penalty on each weight's square."""
        # Two columns (-w/2, w/2) have half the squares of the one weight w.
        strength = (1.0 if self.loss.n_classes == 2 else 0.5) / self.C
        return strength * (self.scales**2 if self.scaled else self.scales > 0)

    def value_and_gradient(self, W: np.ndarray) -> tuple[float, np.ndarray]:
        """The sum and its gradient.

        Parameters
        ----------
        W : ndarray of shape (n_features + 1, n_classes)
            A linear model on rows less the origin of the moments.

        Returns
        -------
        value : float
            In nats.
        gradient : ndarray of shape (n_features + 1, n_classes)
        """
        value, gradient = self.loss.value_and_gradient(W, outputs=self.told)
        more, slope = self.penalty(W)
        value += np.vdot(self.slope, W) + more
        return value, gradient + self.slope + slope

    def from_rows(self, W: np.ndarray) -> np.ndarray:
        """A model on rows as they are, as one on rows less the origin."""
        return np.vstack([W[:-1], W[-1] + self.loss.moments.origin @ W[:-1]])

    def to_rows(self, W: np.ndarray) -> np.ndarray:
        """A model on rows less the origin, as one on rows as they are."""
        return np.vstack([W[:-1], W[-1] - self.loss.moments.origin @ W[:-1]])

    def minimize(
        self,
        start: np.ndarray | None = None,
        extra: Loss | None = None,
        *,
        curvature: np.ndarray | float = 0.0,
        tol: float = 1e-7,
        max_iter: int = 1000,
        least: float = -np.inf,
    ) -> np.ndarray:
        """Find the likeliest model.

        Parameters
        ----------
        start : ndarray of shape (n_features + 1, n_classes), default=None
            Where to start; None starts from the discriminant analysis.
        extra : callable, default=None
            What is to be added; takes a model and returns a value and its gradient.
        curvature : ndarray of shape (n_features + 1, n_features + 1) or \
                (n_features + 1, n_classes), default=0.0
            Second derivatives of `extra` in the weights of an output, about; their
            diagonals where moments are diagonal. They make the search shorter.
        tol : float, default=1e-7
            The search ends where a step gains less, in nats a row.
        max_iter : int, default=1000
            Largest number of steps.
        least : float, default=-inf
            The search also ends at a model whose loss, in nats a row and without the
            penalty, is below that.

        Returns
        -------
        W : ndarray of shape (n_features + 1, n_classes)
            On rows less the origin of the moments, like `start`. The weights of a
            feature that is constant on all rows are 0.
        """

        def both(W):
            value, gradient = self.value_and_gradient(W)
            if extra is not None:
                more, slope = extra(W)
                value, gradient = value + more, gradient + slope
            return value / self.n_rows, gradient / self.n_rows

        if start is None:
            # As sure as it is likely: Gaussians with one covariance are surer than
            # the rows let them.
            start = self.discriminant_analysis()
            value = both(start)[0]
            for _ in range(_MOST_HALVINGS):
                half = both(start / 2.0)[0]
                if half >= value:
                    break
                start, value = start / 2.0, half
        W, steps = start, _FIRST_STEPS
        while max_iter > 0:
            coordinates = _Coordinates.of(self, W, curvature)

            def flat(z, coordinates=coordinates):
                W = coordinates.weights(z)
                value, gradient = both(W)
                if value - self.penalty(W)[0] / self.n_rows < least:
                    raise _FoundBelow(W)
                return value, coordinates.gradient(gradient)

            try:
                found = minimize(
                    flat,
                    coordinates.place(W),
                    jac=True,
                    method="L-BFGS-B",
                    options={
                        "maxiter": min(steps, max_iter),
                        "maxcor": 20,
                        "ftol": tol,
                        "gtol": 0.0,
                    },
                )
            except _FoundBelow as below:
                W = below.W
                break
            W = coordinates.weights(found.x)
            if found.status == 0:
                break
            max_iter, steps = max_iter - steps, _STEPS
        return self.never_untold(W)

    def bounded(self, *, tol: float = 1e-7) -> tuple[Likelihood, np.ndarray]:
        """The same with no more correction than a loss allows, and its minimum.

        No model's log-loss is below 0. Where corrections of many small nodes promise
        one, since all of them err in one direction, they are halved until no model
        that is met has one.

        Parameters
        ----------
        tol : float, default=1e-7
            See :meth:`minimize`.

        Returns
        -------
        likelihood : Likelihood
        W : ndarray of shape (n_features + 1, n_classes)
            The likeliest model, see :meth:`minimize`.
        """
        likelihood, factor = self, 1.0
        while factor > 0:
            W = likelihood.minimize(tol=tol, max_iter=_MOST_STEPS, least=0.0)
            if likelihood.value_and_gradient(W)[0] >= likelihood.penalty(W)[0]:
                return likelihood, W
            factor = 0.0 if factor <= _LEAST_CORRECTED else factor / 2
            likelihood = replace(self, slope=factor * self.slope)
        return likelihood, likelihood.minimize(tol=tol, max_iter=_MOST_STEPS)

    def never_untold(self, W: np.ndarray) -> np.ndarray:
        """A model whose classes that nothing is told of are never found likely.

        Parameters
        ----------
        W : ndarray of shape (n_features + 1, n_classes)

        Returns
        -------
        W : ndarray of shape (n_features + 1, n_classes)
            Below the most frequent class everywhere.
        """
        if not self.told.all():
            W = W.copy()
            counts = self.loss.moments.class_counts(self.loss.n_classes)
            W[:, ~self.told] = W[:, [np.argmax(counts)]]
            W[-1, ~self.told] -= _NEVER
        return W

    def inverse_temperature(self, W: np.ndarray) -> float:
        """The factor on a model's logits under which the rows are likeliest.

        Parameters
        ----------
        W : ndarray of shape (n_features + 1, n_classes)
            On rows less the origin of the moments.

        Returns
        -------
        factor : float
            Between 1e-3 and 1e3 over the logits' root mean square.
        """
        size = self.loss.moments.logit_size(self.to_rows(W))
        if size == 0:
            return 1.0

        def loss(log_factor):
            return self.loss.value_and_gradient(np.exp(log_factor) / size * W)[0]

        found = minimize_scalar(loss, bounds=(np.log(1e-3), np.log(1e3)))
        return float(np.exp(found.x) / size)

    def discriminant_analysis(self) -> np.ndarray:
        """Linear discriminant analysis, with a little ridge; a good place to start.

        Returns
        -------
        W : ndarray of shape (n_features + 1, n_classes)
            On rows less the origin of the moments.
        """
        classes = self.loss.moments.by_class()
        inverse = np.divide(
            1.0, self.scales, out=np.zeros_like(self.scales), where=self.scales > 0
        )
        means = (classes.means * inverse).T
        within = classes.within()
        if classes.is_diagonal:
            weights = means / (within * inverse**2 + _RIDGE)[:, None]
        else:
            within = within * np.outer(inverse, inverse)
            within[np.diag_indices_from(within)] += _RIDGE
            weights = np.linalg.solve(within, means)
        W = np.zeros_like(self.slope)
        W[:-1, classes.columns] = weights * inverse[:, None]
        W[-1, classes.columns] = np.log(classes.counts / self.n_rows)
        W[-1, classes.columns] -= 0.5 * np.einsum("ij,ij->j", means, weights)
        return W


class _FoundBelow(Exception):
    """A model was met whose loss is below what was asked for."""

    def __init__(self, W: np.ndarray) -> None:
        self.W = W


@dataclass(frozen=True, eq=False)
class _Coordinates:
    """Coordinates in which the likelihood is about as steep in every direction.

    Attributes
    ----------
    likelihood : Likelihood
    moving : ndarray of bool of shape (n_features + 1,)
        Weights that are looked for: all but those of constant features.
    outputs : ndarray of int
        Outputs that are looked for.
    root : ndarray of shape (n_moving, n_moving) or (n_moving, n_outputs)
        Lower triangular root of the curvature, in the mean over outputs; where moments
        are diagonal the root of each output's diagonal.
    between : ndarray of shape (n_outputs, n_outputs)
        Root of the curvature between outputs, relative to that mean.
    apart : ndarray of shape (n_outputs, n_outputs)
        Its inverse.
    """

    likelihood: Likelihood
    moving: np.ndarray
    outputs: np.ndarray
    root: np.ndarray
    between: np.ndarray
    apart: np.ndarray

    @classmethod
    def of(cls, likelihood: Likelihood, W: np.ndarray, curvature) -> _Coordinates:
        moving = np.append(likelihood.scales > 0, True)
        outputs = np.flatnonzero(likelihood.told)
        known = likelihood.loss.curvature(W, likelihood.told)
        matrix = known.matrix()
        variances = np.append(likelihood.scales**2, 1.0)
        penalties = 2.0 * np.append(likelihood._penalties, 0.0)
        # Where a class is decided the loss is flat here, but not everywhere.
        least = _LEAST_CURVATURE * likelihood.n_rows * variances
        if likelihood.loss.moments.is_diagonal:
            ridged = (1.0 + _RIDGE) * (matrix + least[:, None]) + penalties[:, None]
            if np.ndim(curvature):
                columns = outputs if curvature.shape[1] > 1 else [0]
                ridged = ridged + curvature[:, columns]
            none = np.eye(len(outputs))
            return cls(likelihood, moving, outputs, np.sqrt(ridged[moving]), none, none)
        ridged = (1.0 + _RIDGE) * (matrix.diagonal() + least) + penalties
        matrix[np.diag_indices_from(matrix)] = ridged
        matrix += curvature
        kept = matrix if moving.all() else matrix[np.ix_(moving, moving)]
        root = cholesky(kept, lower=True, check_finite=False)
        return cls(likelihood, moving, outputs, root, *_roots_between(known.between))

    @property
    def _is_diagonal(self) -> bool:
        return self.likelihood.loss.moments.is_diagonal

    def _solve(self, columns: np.ndarray, *, transposed: bool) -> np.ndarray:
        if self._is_diagonal:
            return columns / self.root
        return solve_triangular(
            self.root, columns, lower=True, trans=int(transposed), check_finite=False
        )

    def weights(self, z: np.ndarray) -> np.ndarray:
        """The model at a place."""
        W = np.zeros_like(self.likelihood.slope)
        W[np.ix_(self.moving, self.outputs)] = self._solve(
            z.reshape(-1, len(self.outputs)) @ self.apart, transposed=True
        )
        return W

    def gradient(self, gradient: np.ndarray) -> np.ndarray:
        """The gradient in the place, of that in the model."""
        own = gradient[np.ix_(self.moving, self.outputs)]
        return (self._solve(own, transposed=False) @ self.apart).ravel()

    def place(self, W: np.ndarray) -> np.ndarray:
        """The place of a model."""
        own = W[np.ix_(self.moving, self.outputs)]
        own = self.root * own if self._is_diagonal else self.root.T @ own
        return (own @ self.between).ravel()


def _roots_between(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Root of the curvature between outputs, relative to its mean, and the inverse.

    What all outputs have in common is not bent at all, and kept as it is.
    """
    values, vectors = np.linalg.eigh(covariance)
    mean = values[1:].mean() if len(values) > 1 else 0.0
    if mean <= 0:
        return np.eye(len(values)), np.eye(len(values))
    values = np.sqrt(np.maximum(values / mean, _LEAST_BETWEEN))
    values[0] = 1.0
    return (vectors * values) @ vectors.T, (vectors / values) @ vectors.T
