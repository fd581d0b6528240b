"""The linear model that is likeliest for rows of which only the moments are known.

With the expected loss E of Gaussian rows that have the moments of all nodes (see
`GaussianLoss`), a linear term S, and the penalty of a logistic regression, it is the
minimum of

    L(W) = E(W) + sum_jk S_jk W_jk + sum_j lambda_j |w_j|^2.

Rows are not Gaussian. How far they are not is known at the model V_i of each node i,
by its true gradient g_i there, so that S makes up for the difference:

    S = sum_i s_i (g_i - E_i'(V_i)),

where E_i is the expected loss of the rows of the node alone, and the share s_i leaves
out what is chance in g_i (see `share_of_gradient`). Models here are W of the shape
(n_features + 1, n_classes), the last row that of intercepts, on rows less the mean of
all rows; losses are in nats.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg

from ._class_moments import ClassMoments, merge_moments
from ._disagreement import equal_nodes, node_losses
from ._fewer import fewer_parts
from ._gaussian import GaussianLoss
from ._likelihood_search import RIDGE, Loss, as_sure_as_likely, lowest, point_at
from ._node_loss import NodeLoss, share_of_gradient
from ._part_sums import products
from ._rows import ROUNDING_OF_SUMS, move_to_origin, ratio
from ._span import Span
from ._temperature import factor_by_steps

# Parts that the loss is taken over, whose number its time grows with.
MOST_PARTS = 512
# The same where moments have variances alone. What lies between merged parts is a
# covariance, which variances cannot show: with 512, 1,600 parts of 20 nodes lose 0.1
# points and 0.0015 nats.
_MOST_DIAGONAL_PARTS = 4096
# Least share of what is corrected of gradients that is tried before none is: moments of
# variances alone promise more than there is to gain, and need a part of it.
_LEAST_CORRECTED = 0.125


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
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
    span: Span | None = None  # whose coordinates features are in
    # (n_features,), the row at which all logits are 0, where intercepts are not fitted:
    # zero with `fit_intercept=False`; where it is NaN, the mean. None: they are fitted.
    zero_row: np.ndarray | None = None

    @classmethod
    def from_nodes(
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
        """Make the likelihood of nodes; with ``merged`` they need no scatter."""
        uncorrected = cls.uncorrected(
            nodes,
            n_classes,
            C=C,
            scaled=scaled,
            merged=merged,
            class_weight=class_weight,
            span=span,
            zero_row=zero_row,
        )
        return uncorrected.with_share(nodes, share)

    @classmethod
    def uncorrected(
        cls,
        nodes: Sequence[NodeLoss],
        n_classes: int,
        *,
        C: float = 1.0,
        scaled: bool = True,
        merged: ClassMoments | None = None,
        class_weight: np.ndarray | None = None,
        span: Span | None = None,
        zero_row: np.ndarray | None = None,
    ) -> "Likelihood":
        """Make a likelihood of moments alone, which no node's gradient corrects."""
        if merged is None:
            merged = merge_moments(node.moments for node in nodes)
        merged = merged.with_origin(merged.origin + merged.mean())
        apart = GaussianLoss(merged, n_classes, class_weight)
        most = _MOST_DIAGONAL_PARTS if merged.is_diagonal else MOST_PARTS
        fewer = fewer_parts(merged, most)
        if fewer is merged:
            loss = apart  # with what it holds
        else:
            loss = GaussianLoss(fewer, n_classes, class_weight)
        return cls(
            loss=loss,
            slope=np.zeros((merged.n_features + 1, n_classes)),
            C=C,
            scaled=scaled,
            apart=apart,
            starts=np.cumsum([0, *(len(node.moments.columns) for node in nodes)]),
            span=span,
            zero_row=zero_row,
        )

    def with_share(
        self, nodes: Sequence[NodeLoss], share: float | None
    ) -> "Likelihood":
        """Return a likelihood with the slopes of nodes' gradients.

        ``share`` is the part of each difference that is corrected; None: by the number
        of rows, see `share_of_gradient`.
        """
        total_slope = np.zeros_like(self.slope)
        for k, node in enumerate(nodes):
            total_slope += self.slope_of_own_model(k, node, share)
        return replace(self, slope=total_slope)

    def expected(
        self, W: np.ndarray, nodes: Sequence[int], outputs: np.ndarray | None = None
    ) -> tuple[float, np.ndarray]:
        """Loss of some nodes' rows among `outputs`, by moments alone; its gradient."""
        if outputs is None:
            outputs = self.seen
        parts = np.concatenate(
            [np.arange(self.starts[k], self.starts[k + 1]) for k in nodes]
        )
        parts = parts[outputs[self.apart.moments.columns[parts]]]
        return self.apart.value_and_gradient(W, parts=parts, outputs=outputs)

    def node_losses(self, W: np.ndarray) -> np.ndarray:
        """Return losses of a model on rows less the origin, (n_nodes,), nats a row."""
        return node_losses(self.apart, starts=self.starts, W=W, seen=self.seen)

    def equal_nodes(self) -> list[tuple[int, int]]:
        """Pairs of nodes that seem to have the same rows."""
        return equal_nodes(self.apart.moments, self.starts)

    @property
    def shares_of_nodes(self) -> np.ndarray:
        """The share of each node in all rows, as these weigh, (n_nodes,)."""
        weights = self.apart.weights
        of_nodes = np.add.reduceat(np.append(weights, 0.0), self.starts[:-1])
        return of_nodes / weights.sum()

    def slopes(self, nodes: Sequence[NodeLoss]) -> np.ndarray:
        """The linear terms of the rows of each class, (n_classes, *slope.shape)."""
        slopes = []
        for weights in np.eye(self.loss.n_classes):
            of_class = replace(self, apart=replace(self.apart, class_weight=weights))
            class_losses = [node.sum_classes(weights) for node in nodes]
            slopes.append(of_class.with_share(class_losses, None).slope)
        return np.stack(slopes)

    def slope_of_own_model(
        self, k: int, node: NodeLoss, share: float | None = None
    ) -> np.ndarray:
        """Return a node's linear term; 0 without a gradient."""
        if node.slope is not None:
            return self._slope_about_origin(node)
        if share is None:
            share = self._share_of_gradient(node)
        if node.W is None or node.gradient is None or share == 0:
            return np.zeros_like(self.slope)
        # From the node's origin to that of all.
        shift = self.loss.moments.origin - node.moments.origin
        W = np.zeros_like(self.slope)
        W[:, node.columns] = node.W
        W[-1] += shift @ W[:-1]
        own_outputs = np.zeros(self.loss.n_classes, dtype=bool)
        own_outputs[node.columns] = True
        _, expected_gradient = self.expected(W, [k], own_outputs)
        true_gradient = np.zeros_like(self.slope)
        true_gradient[:, node.columns] = node.gradient
        true_gradient[:-1] -= np.outer(shift, true_gradient[-1])
        slope = share * (true_gradient - expected_gradient)
        seen = self.seen
        if not seen.all():
            # Gradients include classes of too few rows for statistics. What remains
            # without them would drive what all outputs have in common.
            slope[:, ~seen] = 0.0
            slope[:, seen] -= slope[:, seen].mean(axis=1, keepdims=True)
        return self._zero_constants(slope)

    def _slope_about_origin(self, node: NodeLoss) -> np.ndarray:
        """The slope that comes with a node instead of a gradient, about our origin."""
        slope = node.slope.copy()
        slope[:-1] -= np.outer(
            self.loss.moments.origin - node.moments.origin, slope[-1]
        )
        return self._zero_constants(slope)

    def _share_of_gradient(self, node: NodeLoss) -> float:
        """The share of a node's gradient that is not chance."""
        # How a model's rows are dealt over nodes does not matter.
        n_rows = node.moments.n_rows if node.n_alike is None else node.n_alike
        return share_of_gradient(
            n_rows,
            np.count_nonzero(self.scales),
            len(node.columns),
            diagonal=self.loss.moments.is_diagonal,
        )

    def _zero_constants(self, slope: np.ndarray) -> np.ndarray:
        """Set the slope to 0, in place, for features without weights."""
        slope[:-1][~self.moving] = 0.0
        return slope

    def with_gradient(self, W: np.ndarray, gradient: np.ndarray) -> "Likelihood":
        """Return a likelihood whose gradient at W is the given one."""
        _, expected_gradient = self.value_and_gradient(W)
        return replace(self, slope=self.slope + gradient - expected_gradient)

    def penalty(self, W: np.ndarray) -> tuple[float, np.ndarray]:
        """The ridge penalty, ``sum_j lambda_j |w_j|^2`` in nats, and its gradient."""
        gradient = np.zeros_like(W)
        gradient[:-1] = 2.0 * self.penalties[:, None] * W[:-1]
        return float(np.sum(self.penalties @ W[:-1] ** 2)), gradient

    @cached_property
    def coarser(self) -> "Likelihood":
        """Return the likelihood of a similar loss that takes a fraction of the time."""
        return replace(self, loss=self.loss.coarser())

    @property
    def n_rows(self) -> float:
        """Number of rows, each with the weight of its class."""
        return float(self.loss.weights.sum())

    def weights_of(self, y: np.ndarray) -> np.ndarray:
        """Weights of rows by their classes."""
        class_weight = self.loss.class_weight
        return np.ones(len(y)) if class_weight is None else class_weight[y]

    @cached_property
    def seen(self) -> np.ndarray:
        """Mask of the classes with rows: the softmax goes over these."""
        return self.loss.moments.class_counts(self.loss.n_classes) > 0

    @cached_property
    def scales(self) -> np.ndarray:
        """Deviations of the features over all rows, (n_features,)."""
        return np.sqrt(np.maximum(self.loss.moments.variances(), 0.0))

    @cached_property
    def lever(self) -> np.ndarray | None:
        """Return the intercept's factors of weights, (n_features,): b = lever @ w.

        On rows less the origin, as all models here have them, they are where the origin
        lies about the row without logits. None: the intercept is fitted.
        """
        if self.zero_row is None:
            return None
        origin = self.loss.moments.origin
        lever = origin - self.zero_row
        size = np.abs(origin) + np.abs(self.zero_row)
        # NaN, which is not larger than anything, is 0: the mean itself.
        return np.where(np.abs(lever) > ROUNDING_OF_SUMS * size, lever, 0.0)

    @cached_property
    def moving(self) -> np.ndarray:
        """Mask of the features that have weights, (n_features,)."""
        varying = self.scales > 0
        # Without an intercept a column of ones is one.
        return varying if self.lever is None else varying | (self.lever != 0)

    @cached_property
    def penalties(self) -> np.ndarray:
        """lambda, (n_features,): 1 / (2 C), in units of variances where scaled."""
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
        """The sum L, in nats, and its gradient; W is on rows less the origin."""
        value, gradient = self.loss.value_and_gradient(W, outputs=self.seen)
        penalty, penalty_gradient = self.penalty(W)
        value += np.vdot(self.slope, W) + penalty
        return value, gradient + self.slope + penalty_gradient

    def from_rows(self, W: np.ndarray) -> np.ndarray:
        """A model on rows as they are, as one on rows less the origin."""
        W = W if self.span is None else self.span.from_rows(W)
        return move_to_origin(W, self.loss.moments.origin)

    def to_rows(self, W: np.ndarray) -> np.ndarray:
        """A model on rows less the origin, as one on rows as they are."""
        W = move_to_origin(W, -self.loss.moments.origin)
        return W if self.span is None else self.span.to_rows(W)

    def gradient_from_rows(self, slope: np.ndarray) -> np.ndarray:
        """A gradient in weights on rows as they are, as one on rows less the origin."""
        slope = slope.copy() if self.span is None else self.span.gradient(slope)
        slope[:-1] -= np.outer(self.loss.moments.origin, slope[-1])
        return slope

    def minimize(
        self,
        start: np.ndarray | None = None,  # None: the discriminant analysis
        extra: Loss | None = None,  # added to the sum
        *,
        curvature: np.ndarray | float = 0.0,  # about that of `extra`
        tol: float = 1e-7,  # with C=1, a step that gains less is the last; nats a row
        # Several times what a search takes. With corrections that are made up it may
        # never end, and with three of 3,000 rows a thousandfold too large it takes two
        # to three times as long for a model that is no better.
        max_iter: int = 400,
        least: float = -np.inf,  # loss without penalty, nats a row, that is low enough
    ) -> np.ndarray:
        """The likeliest model on rows less the origin; 0 in constant features."""
        # A weaker penalty leaves the sum flatter, and so a step of the same gain ends
        # farther from the minimum.
        tol = max(tol / max(self.C, 1.0), min(tol, np.finfo(float).eps))

        def loss_a_row(W: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self.value_and_gradient(W)
            if extra is not None:
                extra_value, extra_gradient = extra(W)
                value = value + extra_value
                gradient = gradient + extra_gradient
            return value / self.n_rows, gradient / self.n_rows

        if start is None:
            analysis = self.with_zero_row(self.discriminant_analysis())
            point = as_sure_as_likely(analysis, loss_a_row)
        else:
            point = point_at(self._drop_constant_part(start), loss_a_row)
        W = lowest(
            self,
            point,
            loss_a_row,
            curvature=curvature,
            tol=tol,
            max_iter=max_iter,
            least=least,
        )
        return self.never_unseen(W)

    def _drop_constant_part(self, W: np.ndarray) -> np.ndarray:
        """Return a model with 0 where the search goes nowhere."""
        W = np.where(self.seen, W, 0.0)
        return self.with_zero_row(self._zero_constants(W))

    def descended(
        self, start: np.ndarray | None = None, *, tol: float = 1e-7
    ) -> np.ndarray:
        """The minimum, or a model that promises a log-loss below 0, which none has."""
        return self.minimize(start, tol=tol, least=0.0)

    def bounded(self, *, tol: float = 1e-7) -> "tuple[Likelihood, np.ndarray]":
        """Return the most corrected likelihood that a loss allows, and its minimum.

        Many small nodes may all err alike, so that the linear term promises a log-loss
        below 0. Then half of it is tried, and so on, and at last none.
        """
        likelihood = self
        factor = 1.0
        while factor > 0:
            W = likelihood.descended(tol=tol)
            if likelihood.value_and_gradient(W)[0] >= likelihood.penalty(W)[0]:
                return likelihood, W
            factor = 0.0 if factor <= _LEAST_CORRECTED else factor / 2
            likelihood = replace(self, slope=factor * self.slope)
        return likelihood, likelihood.minimize(tol=tol)

    def never_unseen(self, W: np.ndarray) -> np.ndarray:
        """The model with classes without rows never likelier than the largest class."""
        if not self.seen.all():
            W = W.copy()
            counts = self.loss.moments.class_counts(self.loss.n_classes)
            W[:, ~self.seen] = W[:, [np.argmax(counts)]]
            W[-1, ~self.seen] += np.log(ROUNDING_OF_SUMS)  # their probability
        return W

    def logit_size(self, W: np.ndarray) -> float:
        """Root mean square of the logits of a model on rows less the origin."""
        moments = self.loss.moments
        return moments.logit_size(move_to_origin(W, -moments.origin))

    def inverse_temperature(self, W: np.ndarray) -> float:
        """The factor on the logits of a model with which the expected loss is least."""
        size = self.logit_size(W)
        if size == 0:
            return 1.0
        return factor_by_steps(
            lambda factor: self.loss.value_and_gradient(factor * W)[0], size=size
        )

    def n_parameters(self, W: np.ndarray) -> float:
        r"""Return the effective number of parameters of a model that is its minimum.

        With the second derivatives H_k of the loss in the weights of output k, and the
        matrix Lambda of those of the penalty, it is

            p = \frac{1}{2} \sum_k trace((H_k + Lambda)^-1 H_k) .

        The half is there since each row that is hard to tell is so for two outputs: of
        two classes, both outputs have all parameters.
        """
        is_free = np.append(self.moving, self.lever is None)
        ridge = 2.0 * np.append(self.penalties, 0.0)[is_free]
        variances, _ = self.loss.label_variances(W, self.seen)
        total = 0.0
        for k in range(variances.shape[1]):  # one at a time, to save memory
            (curvature,) = self.loss.curvature_by_output(variances[:, [k]])
            H = curvature[np.ix_(is_free, is_free)].astype(np.float64)
            # Intercepts have no penalty: with a small one they count as a parameter.
            least = ROUNDING_OF_SUMS * H.diagonal().max(initial=0.0)
            scale = ratio(1.0, np.sqrt(np.maximum(ridge, least)))
            eigenvalues = linalg.eigvalsh(H * np.outer(scale, scale))
            eigenvalues = np.maximum(eigenvalues, 0.0)
            total += np.sum(eigenvalues / (1.0 + eigenvalues))
        return float(total / 2.0)

    def discriminant_analysis(self) -> np.ndarray:
        """The model of Gaussian classes with one covariance, where a search starts.

        With the means m_c of classes less that of all, and the covariance Sigma within
        classes, weights and intercepts are

            w_c = Sigma^-1 m_c,    b_c = log(n_c / n) - m_c^T Sigma^-1 m_c / 2.
        """
        moments = self.loss.moments
        first, counts, means, part_deviations = moments.merged_means(moments.columns)
        columns = moments.columns[first]
        # As `by_class` does, but without a scatter for each class: what lies between
        # the parts of a class joins the covariance within classes.
        shares = moments.shares_of_parts().sum(axis=0) / moments.group_counts.sum()
        within = products(
            part_deviations, moments.counts * shares, is_diagonal=moments.is_diagonal
        )
        within += self.loss.covariance_within_parts.scatter
        # In units of the features' deviations, to which the ridge is relative.
        inverse = ratio(1.0, self.scales)
        means = (means * inverse).T
        if moments.is_diagonal:
            weights = means / (within * inverse**2 + RIDGE)[:, None]
        else:
            within *= np.outer(inverse, inverse)
            within[np.diag_indices_from(within)] += RIDGE
            weights = np.linalg.solve(within, means)
        W = np.zeros_like(self.slope)
        W[:-1, columns] = weights * inverse[:, None]
        class_sizes = self.weights_of(columns) * counts
        W[-1, columns] = np.log(class_sizes / self.n_rows)
        W[-1, columns] -= 0.5 * np.einsum("ij,ij->j", means, weights)
        return W
