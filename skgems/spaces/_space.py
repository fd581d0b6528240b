"""Good-enough spaces, and the metrics of one node that they are measured by.

The space of a node with the model C, the metric P and the radius R holds the models

    {W : d(W) <= R},    d(W)^2 = <W - C, P (W - C)>,

and ``q(W) = d(W)^2 / R^2``, the normalized squared distance, is at most 1 inside. P is
the identity (ball), the diagonal Fisher information (ellipsoid), or the second moments
of the node's rows (gram).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state, check_scalar

from ..base import Page, ResultMixin, Table
from ..moments import ROUNDING_OF_SUMS, Moments, mean_squares, ratio, row_moments
from ._diagonal import DiagonalMetric
from ._gram import GramMetric
from ._metric import Metric, n_constrained, squared_norm
from ._outputs import Rows, output_columns

RandomSource = int | np.random.RandomState | None
METRICS = {
    metric_class.family: metric_class for metric_class in (DiagonalMetric, GramMetric)
}


class NoSpaceError(ValueError):
    """A node has no good-enough space.

    Its own model does not reach epsilon, or just reaches it, with no room around it.
    """


def ball_metric(n_params: int, outputs: np.ndarray) -> DiagonalMetric:
    """Return the metric ``||delta||_F``, free for outputs that are not in the mask."""
    outputs = np.asarray(outputs)
    output_columns(outputs, len(outputs))  # checks them
    return DiagonalMetric(np.tile(outputs.astype(np.float64), (n_params, 1)))


def ellipsoid_metric(
    X: Rows,
    probabilities: np.ndarray,
    *,
    floor: float = 0.1,
    damping: float = 1.0,
    outputs: np.ndarray | None = None,
) -> DiagonalMetric:
    """Return the metric of a softmax model's diagonal Fisher information (Eq. 4-5).

    For weight i of output j it is ``F_ij = mean_n x_ni^2 p_nj (1 - p_nj)``, with the
    model's `probabilities` p of shape (n_rows, n_outputs) on the rows.
    """
    probabilities = np.asarray(probabilities)
    n_outputs = probabilities.shape[1]
    columns = output_columns(outputs, n_outputs)
    # The variance of a label as the model predicts it: the expectation over labels is
    # exact, and the rows' own labels do not enter.
    variance = probabilities[:, columns] * (1.0 - probabilities[:, columns])
    fisher = mean_squares(X, variance)
    precision = np.zeros((X.shape[1] + 1, n_outputs))
    precision[:, columns] = fisher_precision(fisher, floor=floor, damping=damping)
    return DiagonalMetric(precision)


def fisher_precision(fisher: np.ndarray, *, floor: float, damping: float) -> np.ndarray:
    """Return precisions of an ellipsoid (2019, Eq. 5), of the Fisher information F.

    Its half axes are ``max((min(F) + d) / (F + d), floor)``, d = damping * mean(F), so
    that the longest is 1; the precisions are their inverse squares.
    """
    if not 0 <= floor <= 1:
        raise ValueError(f"floor must be in [0, 1], got {floor}.")
    if not 0 <= damping < np.inf:
        raise ValueError(f"damping must be finite and at least 0, got {damping}.")
    if floor == 0 and damping == 0:
        raise ValueError(
            "floor and damping must not both be 0: an axis of a weight without Fisher "
            "information would be infinitely longer than the others. Set one above 0."
        )
    damped = fisher + damping * fisher.mean()
    # 0 / 0: there is no information anywhere, and all axes are equal.
    axes = ratio(damped.min(), damped, otherwise=1.0)
    return np.maximum(axes, floor) ** -2.0


def ridged(
    moments: Moments, ridge: float, *, output_weights: ArrayLike | None = None
) -> GramMetric:
    """Return the metric of a node's moments, with variances times ``1 + ridge``."""
    if not 0 <= ridge < np.inf:
        raise ValueError(f"ridge must be finite and at least 0, got {ridge}.")
    scatter = moments.covariance.copy()
    scatter[np.diag_indices_from(scatter)] *= 1.0 + ridge
    return GramMetric(scatter=scatter, mean=moments.mean, output_weights=output_weights)


def gram_metric(
    X: Rows, *, ridge: float = 0.2, output_weights: ArrayLike | None = None
) -> GramMetric:
    """Return the metric of rows' moments, with variances times ``1 + ridge``."""
    return ridged(row_moments(X), ridge, output_weights=output_weights)


@dataclass(frozen=True, eq=False, kw_only=True)
class GoodEnoughSpace(ResultMixin):
    """The models within a radius of a center, which are good enough for one node.

    Parameters
    ----------
    center : ndarray of shape (n_features + 1, n_outputs)
        Weights of the node's own model, with the intercepts in the last row.
    metric : Metric
        Measures the distance from the center. It is not copied.
    radius : float
        Radius of the space in units of the metric, at least 0.
    epsilon : float
        Level that the space was built for.
    criterion : {"accuracy", "log_loss"}, default="accuracy"
        What `epsilon` is a level of.
    construction : {"sampled", "certified"}, default="sampled"
        Whether models of the space reach `epsilon` in samples, or provably.
    outputs : ndarray of bool of shape (n_outputs,), default=None
        True for outputs that were compared. None stands for all outputs.
    score : float, default=nan
        Accuracy or mean log-loss of the center itself.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import GoodEnoughSpace, ball_metric
    >>> metric = ball_metric(2, np.array([True, True]))
    >>> space = GoodEnoughSpace(
    ...     center=np.zeros((2, 2)), metric=metric, radius=2.0, epsilon=0.9
    ... )
    >>> space.contains(np.full((2, 2), 0.9)), space.contains(np.full((2, 2), 1.1))
    (True, False)
    """

    center: np.ndarray = field(repr=False)
    metric: Metric = field(repr=False)
    radius: float
    epsilon: float
    criterion: str = "accuracy"
    construction: str = "sampled"
    outputs: np.ndarray | None = field(default=None, repr=False)
    score: float = np.nan

    def _page(self) -> Page:
        figures = {
            "criterion": self.criterion,
            "epsilon": self.epsilon,
            "score of the center": self.score,
            "radius": self.radius,
            "construction": self.construction,
            "weights": self.center.size,
        }
        table = Table(heads=["figure", "value"], rows=list(figures.items()))
        return Page(title="Good-enough space", parts=[table])

    def __post_init__(self) -> None:
        center = np.asarray(self.center, dtype=np.float64)
        n_params, n_outputs = self.metric.shape
        shape = (n_params, n_outputs or center.shape[-1])
        if center.shape != shape:
            raise ValueError(
                f"center must have shape {shape}, that of the metric's parameters, got "
                f"shape {center.shape}."
            )
        if not np.isfinite(center).all():
            raise ValueError(
                "center must be finite, but it has NaN or infinity in "
                f"{np.count_nonzero(~np.isfinite(center))} of its entries."
            )
        if not 0 <= self.radius < np.inf:
            raise ValueError(
                f"radius must be finite and at least 0, got {self.radius}."
            )
        # The class is frozen: what is checked is stored past its __setattr__.
        vars(self).update(center=center, radius=float(self.radius))

    # Any, in this and the next two: a number for one model, an array for many, of which
    # callers know which they have.
    def distance(self, W: np.ndarray) -> Any:
        """Return the distance of `W` from the center, in units of the metric.

        Parameters
        ----------
        W : ndarray of shape (..., n_features + 1, n_outputs)
            One model or many.

        Returns
        -------
        distance : float or ndarray of shape (...)
            One number for each model.
        """
        squared = squared_norm(self.metric, np.asarray(W) - self.center)
        return _scalar(np.sqrt(np.maximum(squared, 0.0)))

    def normalized_squared_distance(self, W: np.ndarray) -> Any:
        """Return the squared distance divided by the squared radius.

        It is at most 1 inside the space. If the radius is 0, it is 0 at the center and
        infinite elsewhere.

        Parameters
        ----------
        W : ndarray of shape (..., n_features + 1, n_outputs)
            One model or many.

        Returns
        -------
        q : float or ndarray of shape (...)
            One number for each model.
        """
        distance = self.distance(W)
        if self.radius > 0:
            return (distance / self.radius) ** 2
        return _scalar(np.where(np.asarray(distance) == 0, 0.0, np.inf))

    def contains(self, W: np.ndarray) -> Any:
        """Return whether `W` is inside the space, to which its surface belongs.

        Parameters
        ----------
        W : ndarray of shape (..., n_features + 1, n_outputs)
            One model or many.

        Returns
        -------
        inside : bool or ndarray of shape (...)
            One answer for each model.
        """
        return _scalar(np.asarray(self.normalized_squared_distance(W)) <= 1.0)

    def sample(
        self,
        n_samples: int = 1,
        random_state: RandomSource = None,
        *,
        surface: bool = True,
    ) -> np.ndarray:
        """Draw models uniformly from the space.

        They are uniform in the metric's own units, in which the space is a ball. Free
        parameters keep the value of the center.

        Parameters
        ----------
        n_samples : int, default=1
            Number of models.
        random_state : int, RandomState instance or None, default=None
            Source of the models. Give an int for the same models in each call.
        surface : bool, default=True
            Whether to draw on the surface. If False, models are drawn from the whole
            space.

        Returns
        -------
        models : ndarray of shape (n_samples, n_features + 1, n_outputs)
            The models.
        """
        check_scalar(n_samples, "n_samples", Integral, min_val=1)
        rng = check_random_state(random_state)
        directions = rng.standard_normal((n_samples, *self.center.shape))
        steps = self.metric.unwhiten(directions)
        lengths = np.sqrt(squared_norm(self.metric, steps))
        radii = np.full(n_samples, self.radius)
        n_dimensions = n_constrained(self.metric, self.center.shape[1])
        if not surface and n_dimensions:
            # The volume within r grows as r^n in n dimensions.
            radii *= rng.uniform(size=n_samples) ** (1.0 / n_dimensions)
        return self.center + ratio(radii, lengths)[:, None, None] * steps


def _scalar(array: np.ndarray) -> Any:
    """Return an array without dimensions as a number of Python's."""
    return array.item() if np.ndim(array) == 0 else array


def factor_kept_inside(
    spaces: Sequence[GoodEnoughSpace], W: np.ndarray, factor: float
) -> float:
    """Return the factor next to `factor` by which W stays in all its spaces.

    In the factor f the distance is a parabola, ``q(f W) = q(0) + slope f + square
    f^2``; its roots of ``q(f W) = 1`` bound f. The result is always between the bounds,
    or 1 where rounding puts 1 outside of them.
    """
    distances_at_0, distances_at_1, distances_at_2 = (
        np.array([space.normalized_squared_distance(f * W) for space in spaces])
        for f in (0.0, 1.0, 2.0)
    )
    square = (distances_at_0 - 2 * distances_at_1 + distances_at_2) / 2
    slope = distances_at_1 - distances_at_0 - square
    # A little is left for the rounding of distances, so that the model is not found
    # outside of a space.
    allowed = 1.0 - ROUNDING_OF_SUMS
    discriminant = slope**2 - 4 * square * (distances_at_0 - allowed)
    root = np.sqrt(np.maximum(discriminant, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        lower = (-slope - root) / (2 * square)
        upper = (-slope + root) / (2 * square)
    # No square: W costs nothing in the space, and no factor leaves it.
    least = np.where(square > 0, lower, 0.0).max()
    most = np.where(square > 0, upper, np.inf).min()
    return float(np.clip(factor, min(least, 1.0), max(most, 1.0)))
