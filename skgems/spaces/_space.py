# SPDX-License-Identifier: BSD-3-Clause
"""Good-enough spaces: the models close enough to a node's own to serve it."""

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state, check_scalar

from ..moments import ratio
from ._metric import Metric


@dataclass(frozen=True, eq=False)
class GoodEnoughSpace:
    """The models within a radius of a centre, good enough for one node.

    Parameters
    ----------
    center : ndarray of shape (n_features + 1, n_outputs)
        Parameters of the node's own model, the intercepts in the last row.
    metric : DiagonalMetric or GramMetric
        Measures the distance from the centre; kept by reference.
    radius : float
        At least 0, in units of the metric.
    epsilon : float
        Level the space was built for.
    criterion : {"accuracy", "log_loss"}, default="accuracy"
        What `epsilon` is a level of.
    construction : {"sampled", "certified"}, default="sampled"
        Whether models inside reached `epsilon` in samples, or provably do.
    outputs : ndarray of bool of shape (n_outputs,), default=None
        Outputs that were compared; None: all.
    score : float, default=nan
        Accuracy or mean log-loss of the centre itself.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import GoodEnoughSpace, ball_metric
    >>> metric = ball_metric(2, np.array([True, True]))
    >>> space = GoodEnoughSpace(np.zeros((2, 2)), metric, radius=2.0, epsilon=0.9)
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

    def __post_init__(self) -> None:
        center = np.asarray(self.center, dtype=np.float64)
        shape = (self.metric.n_params, self.metric.n_outputs or center.shape[-1])
        if center.shape != shape:
            raise ValueError(f"center has shape {center.shape}, not {shape}.")
        if not np.isfinite(center).all():
            raise ValueError("center must not hold NaN or infinity.")
        if not 0 <= self.radius < np.inf:
            raise ValueError(f"radius must be finite, 0 at least, got {self.radius}.")
        object.__setattr__(self, "center", center)
        object.__setattr__(self, "radius", float(self.radius))

    def distance(self, W: np.ndarray) -> Any:
        """Distance of `W` from the centre, in units of the metric.

        Parameters
        ----------
        W : ndarray of shape (..., n_features + 1, n_outputs)
            One model or many.

        Returns
        -------
        distance : float or ndarray of shape (...)
        """
        squared = self.metric.squared_norm(np.asarray(W) - self.center)
        return _scalar(np.sqrt(np.maximum(squared, 0.0)))

    def normalized_squared_distance(self, W: np.ndarray) -> Any:
        """Squared distance over the squared radius: at most 1 inside.

        With radius 0 it is 0 at the centre and infinite elsewhere.

        Parameters
        ----------
        W : ndarray of shape (..., n_features + 1, n_outputs)
            One model or many.

        Returns
        -------
        q : float or ndarray of shape (...)
        """
        distance = self.distance(W)
        if self.radius > 0:
            return (distance / self.radius) ** 2
        return _scalar(np.where(np.asarray(distance) == 0, 0.0, np.inf))

    def contains(self, W: np.ndarray) -> Any:
        """Whether `W` is inside; its surface belongs to the space.

        Parameters
        ----------
        W : ndarray of shape (..., n_features + 1, n_outputs)
            One model or many.

        Returns
        -------
        inside : bool or ndarray of shape (...)
        """
        return _scalar(np.asarray(self.normalized_squared_distance(W)) <= 1.0)

    def sample(
        self, n_samples: int = 1, random_state=None, *, surface: bool = True
    ) -> np.ndarray:
        """Draw models uniformly; free parameters keep the centre's value.

        Uniform is meant in the metric's own units, where the space is a ball.

        Parameters
        ----------
        n_samples : int, default=1
            Number of models.
        random_state : int, RandomState instance or None, default=None
            Source of the models.
        surface : bool, default=True
            Draw on the surface; if False, in the whole space.

        Returns
        -------
        models : ndarray of shape (n_samples, n_features + 1, n_outputs)
        """
        check_scalar(n_samples, "n_samples", Integral, min_val=1)
        rng = check_random_state(random_state)
        steps = self.metric.whiten(rng.standard_normal((n_samples, *self.center.shape)))
        lengths = np.sqrt(self.metric.squared_norm(steps))
        radii = np.full(n_samples, self.radius)
        n_constrained = self.metric.n_constrained(self.center.shape[1])
        if not surface and n_constrained:
            radii *= rng.uniform(size=n_samples) ** (1.0 / n_constrained)
        return self.center + ratio(radii, lengths)[:, None, None] * steps


def _scalar(array: np.ndarray):
    """A Python number for an array without dimensions, others as they are."""
    return array.item() if np.ndim(array) == 0 else array
