"""The linear model that is likeliest for rows of which only the moments are known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize, minimize_scalar

from ._class_moments import ClassMoments, merge_moments, products
from ._disagreement import NodeFits, equal_nodes, node_fits
from ._fewer import Span, fewer_parts
from ._gaussian import GaussianLoss
from ._rows import about_origin, ratio

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
# which variances cannot show: there more are kept.
_MOST_PARTS, _MOST_DIAGONAL_PARTS = 512, 4096
# Gain of a step, in nats a row, below which rounding decides.
_LEAST_TOL = 1e-12
# Several times what a search takes; with corrections that are made up it may never end.
_MOST_STEPS = 400
# Least share of what is corrected of gradients that is tried before none is.
_LEAST_CORRECTED = 0.125
# How far below others a class without rows is, in logits.
_NEVER = 30.0
# How near to the row without logits, relative to the size of a feature, rounding leaves
# a feature that is constant there.
_NEAR = 1e-9


@dataclass(frozen=True, eq=False)
class NodeLoss:
    moments: ClassMoments
    columns: np.ndarray  # (n_own,), the classes that the node has seen
    # (n_features + 1, n_own), on rows less the origin of the moments.
    W: np.ndarray | None = None  # None of a node without a model, or with one class
    # (n_features + 1, n_own), summed over rows; the softmax goes over its own classes.
    gradient: np.ndarray | None = None
    slope: np.ndarray | None = None  # (n_features + 1, n_classes), of several nodes
    n_alike: float | None = None  # rows of all nodes that have its model; None: its own

    def of_classes(self, weights: np.ndarray | None) -> "NodeLoss":
        """The same with what is by class summed, each class with a weight; None: 1."""

        def summed(own):
            if own is None or own.ndim == 2:
                return own
            return own.sum(axis=0) if weights is None else np.tensordot(weights, own, 1)

        return replace(self, gradient=summed(self.gradient), slope=summed(self.slope))

    def weighted(self, factor: float) -> "NodeLoss":
        sums = {k: getattr(self, k) for k in ("gradient", "slope", "n_alike")}
        sums = {k: factor * own for k, own in sums.items() if own is not None}
        return replace(self, moments=self.moments.weighted(factor), **sums)

    def in_span(self, span: Span, moments: ClassMoments) -> "NodeLoss":
        into = {"W": span.from_rows, "gradient": span.gradient, "slope": span.gradient}
        given, origin = vars(self), self.moments.origin
        into = {k: f(given[k], origin) for k, f in into.items() if given[k] is not None}
        # Of weighted moments those of the rows themselves.
        kept = replace(moments.without_scatter(), counts=self.moments.counts)
        return replace(self, moments=kept, **into)

    @property
    def is_by_class(self) -> bool:
        return any(a is not None and a.ndim == 3 for a in (self.gradient, self.slope))


def share_of_gradient(n_rows: float, n_features: int, n_own: int, *, diagonal: bool):
    """n / (n + d C) of n rows, d features, C classes; the rest is chance."""
    return n_rows / (n_rows + (2 if diagonal else n_features) * n_own)


@dataclass(frozen=True, eq=False, repr=False)
class Likelihood:
    """Nodes' losses of Gaussians, linear terms of their gradients, and a ridge."""

    loss: GaussianLoss  # of the moments of all nodes, about their mean
    slope: np.ndarray  # (n_features + 1, n_classes), linear term
    C: float
    scaled: bool = True  # whether the penalty is on features of unit variance
    # Of the same moments before parts of different nodes were merged.
    apart: GaussianLoss | None = None
    # (n_nodes + 1,), the first part of each node there, and the number of parts.
    starts: np.ndarray | None = None
    # (n_nodes,), of each node's moments at its own model, nats a row; nan without one.
    own_losses: np.ndarray | None = None
    span: Span | None = None  # whose coordinates features are in
    # (n_features,), the row at which all logits are 0, where intercepts are not fitted:
    # zero with `fit_intercept=False`; where it is NaN, the mean. None: they are fitted.
    zero_row: np.ndarray | None = None

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
        class_weight: np.ndarray | None = None,  # (n_classes,), of a row; None: 1
        span: Span | None = None,
        zero_row: np.ndarray | None = None,
    ) -> "Likelihood":
        """Likelihood of several nodes; of ``merged`` moments nodes need no scatter."""
        if merged is None:
            merged = merge_moments(node.moments for node in nodes)
        merged = merged.about(merged.origin + merged.mean())
        loss = apart = GaussianLoss(merged, n_classes, class_weight)
        most = _MOST_DIAGONAL_PARTS if merged.is_diagonal else _MOST_PARTS
        fewer = fewer_parts(merged, most)
        if fewer is not merged:
            loss = GaussianLoss(fewer, n_classes, class_weight)
        starts = np.cumsum([0, *(len(node.moments.columns) for node in nodes)])
        slope = np.zeros((merged.n_features + 1, n_classes))
        likelihood = cls(
            loss, slope, C, scaled, apart, starts, span=span, zero_row=zero_row
        )
        return likelihood.with_share(nodes, share)

    def with_share(
        self, nodes: Sequence[NodeLoss], share: float | None
    ) -> "Likelihood":
        slope, losses = np.zeros_like(self.slope), np.empty(len(nodes))
        for k, node in enumerate(nodes):
            own, losses[k] = self.at_own_model(k, node, share)
            slope += own
        return replace(self, slope=slope, own_losses=losses)

    def expected(
        self, W: np.ndarray, nodes: Sequence[int], outputs: np.ndarray | None = None
    ) -> tuple[float, np.ndarray]:
        """Loss of some nodes' rows among `outputs`, by moments alone; its gradient."""
        outputs = self.seen if outputs is None else outputs
        spans = [np.arange(self.starts[k], self.starts[k + 1]) for k in nodes]
        parts = np.concatenate(spans)
        parts = parts[outputs[self.apart.moments.columns[parts]]]
        return self.apart.value_and_gradient(W, parts=parts, outputs=outputs)

    def node_fits(self, W: np.ndarray, n_rows: np.ndarray) -> NodeFits:
        """How a model on rows less the origin fits the nodes', of so many at most."""
        return node_fits(self.apart, self.starts, W, self.seen, self.own_losses, n_rows)

    def equal_nodes(self) -> list[tuple[int, int]]:
        return equal_nodes(self.apart.moments, self.starts)

    def slopes(self, nodes: Sequence[NodeLoss]) -> np.ndarray:
        """The linear terms of the rows of each class, (n_classes, *slope.shape)."""
        found = []
        for weight in np.eye(self.loss.n_classes):
            of_class = replace(self, apart=replace(self.apart, class_weight=weight))
            own = [node.of_classes(weight) for node in nodes]
            found.append(of_class.with_share(own, None).slope)
        return np.stack(found)

    def at_own_model(self, k: int, node: NodeLoss, share: float | None = None):
        """The linear term of one node, and the loss of its own model; nan without."""
        moments, slope = self.loss.moments, np.zeros_like(self.slope)
        if node.slope is not None:
            summed = node.slope.copy()
            summed[:-1] -= np.outer(moments.origin - node.moments.origin, summed[-1])
            return self._of_varying(summed), np.nan
        if share is None:
            # How a model's rows are dealt over nodes does not matter.
            n_rows = node.moments.n_rows if node.n_alike is None else node.n_alike
            sizes = n_rows, np.count_nonzero(self.scales), len(node.columns)
            share = share_of_gradient(*sizes, diagonal=moments.is_diagonal)
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
        known = outputs[node.moments.columns]
        n_known = self.apart.weights[slice(*self.starts[[k, k + 1]])][known].sum()
        loss = value / n_known if n_known > 0 else np.nan
        true = np.zeros_like(slope)
        true[:, node.columns] = node.gradient
        true[:-1] -= np.outer(shift, true[-1])
        slope = share * (true - expected)
        seen = self.seen
        if not seen.all():
            # Gradients include classes of too few rows for statistics. What is left
            # without them would drive what all outputs have in common.
            slope[:, ~seen] = 0.0
            slope[:, seen] -= slope[:, seen].mean(axis=1, keepdims=True)
        return self._of_varying(slope), loss

    def _of_varying(self, slope: np.ndarray) -> np.ndarray:
        slope[:-1][~self.moving] = 0.0
        return slope

    def with_gradient(self, W: np.ndarray, gradient: np.ndarray) -> "Likelihood":
        _, own = self.value_and_gradient(W)
        return replace(self, slope=self.slope + gradient - own)

    def penalty(self, W: np.ndarray) -> tuple[float, np.ndarray]:
        """The ridge penalty, in nats, and its gradient."""
        gradient = np.zeros_like(W)
        gradient[:-1] = 2.0 * self._penalties[:, None] * W[:-1]
        return float(np.sum(self._penalties @ W[:-1] ** 2)), gradient

    @property
    def n_rows(self) -> float:
        return float(self.loss.weights.sum())

    def weights_of(self, y: np.ndarray) -> np.ndarray:
        weight = self.loss.class_weight
        return np.ones(len(y)) if weight is None else weight[y]

    @cached_property
    def seen(self) -> np.ndarray:
        """Mask of the classes with rows: the softmax goes over these."""
        return self.loss.moments.class_counts(self.loss.n_classes) > 0

    @cached_property
    def scales(self) -> np.ndarray:
        return np.sqrt(np.maximum(self.loss.moments.variances(), 0.0))

    @cached_property
    def lever(self) -> np.ndarray | None:
        """What an intercept is of the weights, (n_features,): b = lever @ w.

        Of models on rows less the origin, as all are here. None: it is fitted.
        """
        if self.zero_row is None:
            return None
        origin = self.loss.moments.origin
        lever = origin - self.zero_row
        size = np.abs(origin) + np.abs(self.zero_row)
        return np.where(np.abs(lever) > _NEAR * size, lever, 0.0)

    @cached_property
    def moving(self) -> np.ndarray:
        """Mask of the features that have weights, (n_features,)."""
        varying = self.scales > 0
        # Without an intercept a column of ones is one.
        return varying if self.lever is None else varying | (self.lever != 0)

    @cached_property
    def _penalties(self) -> np.ndarray:
        # Two columns (-w/2, w/2) have half the squares of the one weight w.
        strength = (1.0 if self.loss.n_classes == 2 else 0.5) / self.C
        if not self.scaled:
            return strength * self.moving
        # Transformers that scale leave constants as they are.
        units = np.where(self.scales > 0, self.scales, 1.0)
        return strength * np.where(self.moving, units**2, 0.0)

    def with_zero_row(self, W: np.ndarray) -> np.ndarray:
        """A model on rows less the origin, its intercepts as they have to be."""
        return W if self.lever is None else np.vstack([W[:-1], self.lever @ W[:-1]])

    def value_and_gradient(self, W: np.ndarray) -> tuple[float, np.ndarray]:
        """The sum, in nats, and its gradient; W is on rows less the origin."""
        value, gradient = self.loss.value_and_gradient(W, outputs=self.seen)
        more, slope = self.penalty(W)
        value += np.vdot(self.slope, W) + more
        return value, gradient + self.slope + slope

    def from_rows(self, W: np.ndarray) -> np.ndarray:
        """A model on rows as they are, as one on rows less the origin."""
        W = W if self.span is None else self.span.from_rows(W)
        return about_origin(W, self.loss.moments.origin)

    def to_rows(self, W: np.ndarray) -> np.ndarray:
        W = about_origin(W, -self.loss.moments.origin)
        return W if self.span is None else self.span.to_rows(W)

    def gradient_from_rows(self, slope: np.ndarray) -> np.ndarray:
        slope = slope.copy() if self.span is None else self.span.gradient(slope)
        slope[:-1] -= np.outer(self.loss.moments.origin, slope[-1])
        return slope

    def minimize(
        self,
        start: np.ndarray | None = None,  # None: the discriminant analysis
        extra: Loss | None = None,  # added to the sum
        *,
        curvature: np.ndarray | float = 0.0,
        tol: float = 1e-7,  # with C=1, a step that gains less is the last; nats a row
        max_iter: int = 1000,
        least: float = -np.inf,  # loss without penalty, nats a row, that is low enough
    ) -> np.ndarray:
        """The likeliest model on rows less the origin; 0 in constant features."""
        # A weaker penalty leaves the sum flatter, and so a step of the same gain ends
        # farther from the minimum.
        tol = max(tol / max(self.C, 1.0), min(tol, _LEAST_TOL))

        def both(W):
            value, gradient = self.value_and_gradient(W)
            if extra is not None:
                more, slope = extra(W)
                value, gradient = value + more, gradient + slope
            return value / self.n_rows, gradient / self.n_rows

        W, steps = start, _FIRST_STEPS
        if W is None:
            start = self.with_zero_row(self.discriminant_analysis())
            W = _as_sure_as_likely(start, both)
        while max_iter > 0:
            coordinates = _Coordinates(self, W, curvature)

            def flat(z, coordinates=coordinates):
                W = coordinates.weights(z)
                value, gradient = both(W)
                if value - self.penalty(W)[0] / self.n_rows < least:
                    raise _FoundBelowError(W)
                return value, coordinates.gradient(gradient)

            options = {"maxiter": min(steps, max_iter), "maxcor": 20}
            options |= {"ftol": tol, "gtol": 0.0}
            z, search = coordinates.place(W), {"jac": True, "method": "L-BFGS-B"}
            try:
                found = minimize(flat, z, **search, options=options)
            except _FoundBelowError as below:
                W = below.args[0]
                break
            W = coordinates.weights(found.x)
            if found.status == 0:
                break
            max_iter, steps = max_iter - steps, _STEPS
        return self.never_unseen(W)

    def descended(self, start: np.ndarray | None = None, *, tol=1e-7) -> np.ndarray:
        """The minimum, or a model that promises a log-loss below 0, which none has."""
        return self.minimize(start, tol=tol, max_iter=_MOST_STEPS, least=0.0)

    def bounded(self, *, tol: float = 1e-7) -> "tuple[Likelihood, np.ndarray]":
        """The same with no more correction than a loss allows, and its minimum."""
        # Many small nodes may all err alike, and promise a log-loss below 0.
        likelihood, factor = self, 1.0
        while factor > 0:
            W = likelihood.descended(tol=tol)
            if likelihood.value_and_gradient(W)[0] >= likelihood.penalty(W)[0]:
                return likelihood, W
            factor = 0.0 if factor <= _LEAST_CORRECTED else factor / 2
            likelihood = replace(self, slope=factor * self.slope)
        return likelihood, likelihood.minimize(tol=tol, max_iter=_MOST_STEPS)

    def never_unseen(self, W: np.ndarray) -> np.ndarray:
        """The model with classes without rows never likelier than the largest class."""
        if not self.seen.all():
            W = W.copy()
            counts = self.loss.moments.class_counts(self.loss.n_classes)
            W[:, ~self.seen] = W[:, [np.argmax(counts)]]
            W[-1, ~self.seen] -= _NEVER
        return W

    def logit_size(self, W: np.ndarray) -> float:
        own = about_origin(W, -self.loss.moments.origin)
        return self.loss.moments.logit_size(own)

    def inverse_temperature(self, W: np.ndarray) -> float:
        size = self.logit_size(W)
        if size == 0:
            return 1.0

        def loss(log_factor):
            return self.loss.value_and_gradient(np.exp(log_factor) / size * W)[0]

        found = minimize_scalar(loss, bounds=(np.log(1e-3), np.log(1e3)))
        return float(np.exp(found.x) / size)

    def discriminant_analysis(self) -> np.ndarray:
        moments = self.loss.moments
        first, counts, means, away = moments.merged_means(moments.columns)
        columns = moments.columns[first]
        # As by_class() has them, but for scatters of each.
        shares = moments.shares_of_parts().sum(axis=0) / moments.group_counts.sum()
        within = products(away, moments.counts * shares, moments.is_diagonal)
        within += self.loss.within.scatter
        inverse = ratio(1.0, self.scales)
        means = (means * inverse).T
        if moments.is_diagonal:
            weights = means / (within * inverse**2 + _RIDGE)[:, None]
        else:
            within *= np.outer(inverse, inverse)
            within[np.diag_indices_from(within)] += _RIDGE
            weights = np.linalg.solve(within, means)
        W = np.zeros_like(self.slope)
        W[:-1, columns] = weights * inverse[:, None]
        counts = self.weights_of(columns) * counts
        W[-1, columns] = np.log(counts / self.n_rows)
        W[-1, columns] -= 0.5 * np.einsum("ij,ij->j", means, weights)
        return W


def _as_sure_as_likely(W: np.ndarray, loss: Loss) -> np.ndarray:
    """A model halved: Gaussians of one covariance are surer than the rows let them."""
    value = loss(W)[0]
    for _ in range(_MOST_HALVINGS):
        half = loss(W / 2.0)[0]
        if half >= value:
            break
        W, value = W / 2.0, half
    # Where rows are fewer than features it can be worse than no model.
    nothing = np.zeros_like(W)
    return W if value <= loss(nothing)[0] else nothing


class _FoundBelowError(Exception):
    """A model was met whose loss is below `least`."""


class _Coordinates:
    """Coordinates z in which the likelihood is about as steep in every direction."""

    def __init__(self, likelihood: Likelihood, W: np.ndarray, curvature) -> None:
        self.shape = likelihood.slope.shape
        self._is_diagonal = likelihood.loss.moments.is_diagonal
        self._lever = likelihood.lever
        # Weights that are not of constants, the intercept where it is fitted, and the
        # classes with rows.
        self.moving = moving = np.append(likelihood.moving, self._lever is None)
        self.outputs = outputs = np.flatnonzero(likelihood.seen)
        matrix, between = likelihood.loss.curvature(W, likelihood.seen)
        variances = np.append(likelihood.scales**2, 1.0)
        penalties = 2.0 * np.append(likelihood._penalties, 0.0)
        # Where a class is decided the loss is flat here, but not everywhere.
        least = _LEAST_CURVATURE * likelihood.n_rows * variances
        if self._is_diagonal:
            ridged = (1.0 + _RIDGE) * (matrix + least[:, None]) + penalties[:, None]
            if np.ndim(curvature):
                columns = outputs if curvature.shape[1] > 1 else [0]
                ridged = ridged + curvature[:, columns]
            self.root = np.sqrt(self._folded(ridged)[moving])  # of each output
            self.between = self.apart = np.eye(len(outputs))
            return
        ridged = (1.0 + _RIDGE) * (matrix.diagonal() + least) + penalties
        matrix[np.diag_indices_from(matrix)] = ridged
        matrix += curvature
        matrix = self._folded(matrix)
        kept = matrix if moving.all() else matrix[np.ix_(moving, moving)]
        self.root = cholesky(kept, lower=True, check_finite=False)
        self.between, self.apart = _roots_between(between)

    def _folded(self, matrix: np.ndarray) -> np.ndarray:
        """Second derivatives in weights and intercept, as these move together."""
        if self._lever is None:
            return matrix
        lever = self._lever
        folded = matrix.copy()
        if self._is_diagonal:
            folded[:-1] += lever[:, None] ** 2 * matrix[-1]
            return folded
        crossed = np.outer(lever, matrix[-1, :-1])
        squared = matrix[-1, -1] * np.outer(lever, lever)
        folded[:-1, :-1] += crossed + crossed.T + squared
        return folded

    def _solve(self, columns: np.ndarray, *, transposed: bool) -> np.ndarray:
        if self._is_diagonal:
            return columns / self.root
        how = {"lower": True, "trans": int(transposed), "check_finite": False}
        return solve_triangular(self.root, columns, **how)

    def weights(self, z: np.ndarray) -> np.ndarray:
        W = np.zeros(self.shape)
        own = z.reshape(-1, len(self.outputs)) @ self.apart
        W[np.ix_(self.moving, self.outputs)] = self._solve(own, transposed=True)
        if self._lever is not None:
            W[-1] = self._lever @ W[:-1]
        return W

    def gradient(self, gradient: np.ndarray) -> np.ndarray:
        if self._lever is not None:
            gradient = gradient.copy()
            gradient[:-1] += np.outer(self._lever, gradient[-1])
        own = gradient[np.ix_(self.moving, self.outputs)]
        return (self._solve(own, transposed=False) @ self.apart).ravel()

    def place(self, W: np.ndarray) -> np.ndarray:
        own = W[np.ix_(self.moving, self.outputs)]
        own = self.root * own if self._is_diagonal else self.root.T @ own
        return (own @ self.between).ravel()


def _roots_between(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Root of the curvature between outputs, relative to its mean; its inverse."""
    values, vectors = np.linalg.eigh(covariance)
    mean = values[1:].mean() if len(values) > 1 else 0.0
    if mean <= 0:
        return np.eye(len(values)), np.eye(len(values))
    values = np.sqrt(np.maximum(values / mean, _LEAST_BETWEEN))
    values[0] = 1.0
    return (vectors * values) @ vectors.T, (vectors / values) @ vectors.T
