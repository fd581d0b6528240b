"""What a node says of its loss: moments of its rows, its model and the gradient there.

The gradient of the sum of the log-losses of n rows, at a model V that was fitted to
them, is what moments cannot know. Of it a likelihood takes the share

    n / (n + d C)

with d features and C classes: V has d C weights that were fitted to chance as well, and
where rows are few, most of the gradient at V is of that.
"""

from dataclasses import dataclass, replace

import numpy as np

from ._class_moments import ClassMoments
from ._span import Span


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeLoss:
    """Moments of a node's rows, and the gradient of its loss at its own model."""

    moments: ClassMoments
    columns: np.ndarray  # (n_own,), the classes that the node has seen
    # (n_features + 1, n_own), on rows less the origin of the moments.
    W: np.ndarray | None = None  # None of a node without a model, or with one class
    # (n_features + 1, n_own), summed over rows; the softmax goes over its own classes.
    # Or by class of the rows, (n_classes, n_features + 1, n_own), until `sum_classes`.
    gradient: np.ndarray | None = None
    # (n_features + 1, n_classes), of several nodes; or by class, as the gradient.
    slope: np.ndarray | None = None
    n_alike: float | None = None  # rows of all nodes that have its model; None: its own

    def sum_classes(self, weights: np.ndarray | None) -> "NodeLoss":
        """Return the loss with sums over classes, weighted by ``weights``; None: 1."""

        def summed(gradients: np.ndarray | None) -> np.ndarray | None:
            if gradients is None or gradients.ndim == 2:
                return gradients
            if weights is None:
                return gradients.sum(axis=0)
            return np.tensordot(weights, gradients, 1)

        return replace(self, gradient=summed(self.gradient), slope=summed(self.slope))

    def weighted(self, factor: float) -> "NodeLoss":
        """Return the loss of ``factor`` times the rows."""
        return replace(
            self,
            moments=self.moments.weighted(factor),
            gradient=None if self.gradient is None else factor * self.gradient,
            slope=None if self.slope is None else factor * self.slope,
            n_alike=None if self.n_alike is None else factor * self.n_alike,
        )

    def in_span(self, span: Span, moments: ClassMoments) -> "NodeLoss":
        """Return the loss in coordinates of few directions, in which `moments` are."""
        origin = self.moments.origin
        W = self.W
        gradient = self.gradient
        slope = self.slope
        return replace(
            self,
            # Of weighted moments those of the rows themselves.
            moments=replace(moments.drop_scatter(), counts=self.moments.counts),
            W=None if W is None else span.from_rows(W, origin),
            gradient=None if gradient is None else span.gradient(gradient, origin),
            slope=None if slope is None else span.gradient(slope, origin),
        )

    @property
    def is_by_class(self) -> bool:
        """Report whether a gradient is still by class of the rows."""
        gradients = (self.gradient, self.slope)
        return any(array is not None and array.ndim == 3 for array in gradients)


def share_of_gradient(
    n_rows: float, n_features: int, n_own: int, *, diagonal: bool
) -> float:
    """n / (n + d C) of n rows, d features, C classes; the rest is chance.

    Moments with variances alone err more than the gradient does, so that more of it is
    taken, as if there were two features.
    """
    return n_rows / (n_rows + (2 if diagonal else n_features) * n_own)
