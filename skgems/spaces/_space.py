# SPDX-License-Identifier: BSD-3-Clause
"""Good-enough spaces: the models close enough to a node's own to serve it."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from scipy import special
from sklearn.utils import check_array, check_random_state, check_scalar
from sklearn.utils.extmath import safe_sparse_dot

from ..moments._blocks import output_columns
from ._accuracy import accuracy_profile
from ._loss import loss_profile
from ._metric import Metric, ball_metric, ellipsoid_metric, gram_metric

__all__ = ["GoodEnoughSpace", "build_space"]


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

    center: np.ndarray
    metric: Metric
    radius: float
    epsilon: float
    criterion: str = "accuracy"
    construction: str = "sampled"
    outputs: np.ndarray | None = None
    score: float = np.nan

    def __post_init__(self) -> None:
        center = np.asarray(self.center, dtype=np.float64)
        shape = (self.metric.n_params, self.metric.n_outputs or center.shape[-1])
        if center.shape != shape:
            raise ValueError(
                f"center has shape {center.shape}, the metric is for {shape}."
            )
        if not np.isfinite(center).all():
            raise ValueError("center must not hold NaN or infinity.")
        if not 0 <= self.radius < np.inf:
            raise ValueError(
                f"radius must be finite and at least 0, got {self.radius}."
            )
        object.__setattr__(self, "center", center)
        object.__setattr__(self, "radius", float(self.radius))

    def distance(self, W: np.ndarray) -> float | np.ndarray:
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

    def normalized_squared_distance(self, W: np.ndarray) -> float | np.ndarray:
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

    def contains(self, W: np.ndarray) -> bool | np.ndarray:
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
        scale = np.divide(radii, lengths, out=np.zeros(n_samples), where=lengths > 0)
        return self.center + scale[:, None, None] * steps


def build_space(
    X,
    y: np.ndarray,
    center: np.ndarray,
    *,
    epsilon: float,
    geometry: str = "gram",
    construction: str = "sampled",
    criterion: str = "accuracy",
    ridge: float = 0.2,
    floor: float = 0.1,
    damping: float = 0.1,
    n_directions: int = 500,
    max_radius: float = 4000.0,
    outputs: np.ndarray | None = None,
    logit_scale: float = 1.0,
    random_state=None,
) -> GoodEnoughSpace:
    """Build the good-enough space of one linear classifier on its rows.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        Rows of the node.
    y : array-like of int of shape (n_rows,)
        Output column of each row's label.
    center : array-like of shape (n_features + 1, n_outputs)
        Parameters of the model, the intercepts in the last row.
    epsilon : float
        For "accuracy", in (0, 1]: accuracy the models must reach. For "log_loss",
        above 0: mean log-loss they must not exceed.
    geometry : {"gram", "ball", "ellipsoid"}, default="gram"
        See `gram_metric`, `ball_metric` and `ellipsoid_metric`.
    construction : {"sampled", "certified"}, default="sampled"
        See `accuracy_profile` and `loss_profile`.
    criterion : {"accuracy", "log_loss"}, default="accuracy"
        What is good enough.
    ridge : float, default=0.2
        See `gram_metric`.
    floor, damping : float, default=0.1
        See `ellipsoid_metric`.
    n_directions : int, default=500
        Rays drawn by construction="sampled".
    max_radius : float, default=4000.0
        Largest radius, in units of the metric.
    outputs : array-like of bool of shape (n_outputs,), default=None
        Outputs that are compared; those of "ball" and "ellipsoid" are free in the
        others. None: all.
    logit_scale : float, default=1.0
        Probabilities are the softmax of ``logit_scale * logits``.
    random_state : int, RandomState instance or None, default=None
        Source of the rays.

    Returns
    -------
    space : GoodEnoughSpace

    Raises
    ------
    ValueError
        For arguments out of range, and where the radius is 0: the model itself does
        not reach `epsilon`, or loses it by the smallest change.

    References
    ----------
    Guha et al., "Model Aggregation via Good-Enough Model Spaces", 2019, Eq. 1 and
    Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import build_space
    >>> X, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> center = np.array([[-1.0, 1.0], [0.0, 0.0]])
    >>> space = build_space(
    ...     X, y, center, epsilon=0.9, construction="certified", ridge=0.3
    ... )
    >>> space.score, round(space.radius, 2)
    (1.0, 1.47)
    """
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    center = check_array(center, dtype=np.float64, input_name="center")
    y = np.asarray(y)
    _check_choice("geometry", geometry, ("gram", "ball", "ellipsoid"))
    _check_choice("criterion", criterion, ("accuracy", "log_loss"))
    check_scalar(n_directions, "n_directions", Integral, min_val=1)
    for name, value in (("max_radius", max_radius), ("logit_scale", logit_scale)):
        check_scalar(value, name, Real, min_val=0, include_boundaries="neither")
        if not np.isfinite(value):
            raise ValueError(f"{name} must be finite, got {value}.")
    top = 1.0 if criterion == "accuracy" else None
    check_scalar(epsilon, "epsilon", Real, min_val=0, max_val=top)
    if not 0 < epsilon < np.inf:
        raise ValueError(f"epsilon must be finite and above 0, got {epsilon}.")
    if outputs is None:
        outputs = np.ones(center.shape[1], dtype=bool)
    outputs = np.asarray(outputs)
    output_columns(outputs, center.shape[1])
    if center.shape[0] != X.shape[1] + 1:
        raise ValueError(
            f"center must have shape ({X.shape[1] + 1}, n_outputs) for {X.shape[1]} "
            f"features, got {center.shape}."
        )

    if geometry == "gram":
        metric = gram_metric(X, ridge=ridge)
    elif geometry == "ball":
        metric = ball_metric(center.shape[0], outputs)
    else:
        logits = safe_sparse_dot(X, center[:-1], dense_output=True) + center[-1]
        probabilities = np.zeros_like(logits)
        probabilities[:, outputs] = special.softmax(
            logit_scale * logits[:, outputs], axis=1
        )
        metric = ellipsoid_metric(
            X, probabilities, floor=floor, damping=damping, outputs=outputs
        )
    common = {
        "outputs": outputs,
        "construction": construction,
        "n_directions": n_directions,
        "random_state": random_state,
    }
    if criterion == "accuracy":
        profile = accuracy_profile(X, y, center, metric, **common)
    else:
        profile = loss_profile(X, y, center, metric, logit_scale=logit_scale, **common)
    radius = profile.radius(epsilon, max_radius)
    if radius == 0:
        raise ValueError(
            f"The space has radius 0: the model's {criterion} on its own rows is "
            f"{profile.score:.4g}, epsilon is {epsilon:.4g}. Choose epsilon "
            f"{'below' if criterion == 'accuracy' else 'above'} the model's own."
        )
    return GoodEnoughSpace(
        center=center,
        metric=metric,
        radius=radius,
        epsilon=float(epsilon),
        criterion=criterion,
        construction=construction,
        outputs=outputs,
        score=profile.score,
    )


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}, got {value!r}.")


def _scalar(array: np.ndarray):
    """A Python number for an array without dimensions, others as they are."""
    return array.item() if np.ndim(array) == 0 else array
