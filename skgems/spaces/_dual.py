"""The concave dual that gives the deepest and the consensus point, one number a space.

For weights c >= 0 on the spaces' normalized squared distances q_k,

    g(c) = min_W sum_k c_k q_k(W)

is concave with the gradient q(W(c)) and the Hessian ``-2 <G_k, M^-1 G_l>``, where
``M = sum_k c_k P_k / R_k^2`` and ``G_k = P_k / R_k^2 (W(c) - C_k)``, with the centers
C_k. With c = lower + l, l >= 0, both problems maximize it:

- deepest: g(c), lower = 0, over the simplex;
- consensus: g(c) - sum(l), lower_k = w_k R_k^2.

An interior-point method follows the maximisers of these with ``mu sum(log l)`` added,
mu to 0. The barrier keeps every weight positive, and the weights of spaces that do not
bind in proportion: the point stays well defined where only such spaces know a
parameter. W(c) is exact at every step, so each step brings a bound and a point.

In code l is `free`, and `slack` is the multiplier of l >= 0: the maximiser for mu has
``free * slack = mu``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

import numpy as np
from scipy import linalg

from ._metric import (
    ROUNDING,
    Metric,
    check_family,
    combine_metrics,
    with_free,
)
from ._space import GoodEnoughSpace

# Part of the way to the boundary, where a weight or a slack is 0, that a step goes:
# near enough for fast convergence, and no logarithm of 0.
_TO_BOUNDARY = 0.99
# Slacks at the start, relative to the largest distance, where the gradient gives less:
# on the boundary the method would not move, and from farther inside it ends elsewhere
# where spaces have no common point.
_FIRST_SLACK = 0.1
# Smallest mu, as a part of what the tolerance allows for all weights together: the
# barrier itself must not keep the bounds apart.
_LEAST_BARRIER = 0.01


@dataclass(kw_only=True)
class DualPoint:
    """The minimiser W(c) of the weighted distances and what belongs to it."""

    weights: np.ndarray  # c, (K,)
    step: np.ndarray  # W(c) - base, (n_params, n_outputs)
    distances: np.ndarray  # q_k(W(c)), (K,)
    forces: np.ndarray  # G_k, (K, n_params, n_outputs)
    metric: Metric
    size: float  # M is so many times the metric's P

    @property
    def value(self) -> float:
        """g(c)."""
        return float(self.weights @ self.distances)

    def curvature(self) -> np.ndarray:
        """Return the negative Hessian of g, ``2 <G_k, M^-1 G_l>``, (K, K)."""
        n_spaces = len(self.weights)
        divided = self.metric.solve(self.forces)
        divided = (divided / self.size).reshape(n_spaces, -1)
        products = self.forces.reshape(n_spaces, -1) @ divided.T
        return products + products.T  # twice, and symmetric in spite of rounding


class DualProblem:
    """Evaluates g(c) for spaces of positive radius, in steps from the smallest.

    Steps from the center of the smallest space keep digits where centers are far from
    zero.
    """

    def __init__(self, spaces: Sequence[GoodEnoughSpace]) -> None:
        self.metrics = [space.metric for space in spaces]
        radii = np.array([space.radius for space in spaces])
        self.inverse_squares = radii**-2.0  # 1 / R_k^2, (K,)
        self.base = spaces[int(radii.argmin())].center
        # C_k - base, and P_k / R_k^2 times it; (K, n_params, n_outputs) both.
        self.offsets = np.stack([space.center - self.base for space in spaces])
        self.pulls = self.apply(self.offsets)
        self._one_metric = all(metric is self.metrics[0] for metric in self.metrics)

    def model(self, step: np.ndarray) -> np.ndarray:
        """Return the model base + step; what is free in all has the centers' mean."""
        if all(metric.free is not None for metric in self.metrics):
            summed = combine_metrics(self.metrics, self.inverse_squares)
            step = with_free(summed, step, self.offsets.mean(axis=0))
        return self.base + step

    def apply(self, steps: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
        """Return P_k / R_k^2 times step k, for each k."""
        return np.stack(
            [
                metric.mv(step) * inverse_square
                for metric, step, inverse_square in zip(
                    self.metrics, steps, self.inverse_squares, strict=True
                )
            ]
        )

    def evaluate(self, weights: np.ndarray) -> DualPoint:
        """Minimize ``sum_k weights_k q_k(W)`` over W."""
        scaled_weights = weights * self.inverse_squares
        # The size of the weights is taken out, so that nothing under- or overflows.
        size = scaled_weights.sum()
        metric = self.metrics[0]
        if not self._one_metric:
            metric = combine_metrics(self.metrics, scaled_weights / size)
        step = metric.solve(np.tensordot(weights / size, self.pulls, axes=1))
        forces, distances = self.forces(step)
        return DualPoint(
            weights=weights,
            step=step,
            distances=distances,
            forces=forces,
            metric=metric,
            size=size,
        )

    def forces(self, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return G_k and q_k at the point ``base + step``."""
        deltas = step - self.offsets
        forces = self.apply(deltas)
        distances = np.einsum("kij,kij->k", deltas, forces)
        return forces, np.maximum(distances, 0.0, out=distances)


class Domain(ABC):
    """Where the weights may be, and what is maximized there: one class a problem."""

    price: ClassVar[float]  # of each free weight: g(c) - price * sum(l) is maximized
    lower: np.ndarray  # (K,)

    @abstractmethod
    def largest_distance(self, point: DualPoint) -> float:
        """Return the distance that no space is to exceed, where slacks begin."""

    @abstractmethod
    def multiplier(self, gradient: np.ndarray, free: np.ndarray) -> float:
        """Return the cost of a unit of free weight: the price, or the constraint's."""

    def normalize(self, free: np.ndarray) -> np.ndarray:
        """Return free weights after a step, without what rounding takes them off by."""
        return free

    def conditioned(self, matrix: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return the matrix of scaled Newton equations, made well conditioned."""
        return matrix

    def project(
        self, change: np.ndarray, solve: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Return the change within the domain next to one without the constraint."""
        return change


class Simplex(Domain):
    """Weights of sum 1, where g(c) is maximized: by the deepest point."""

    price = 0.0

    def __init__(self, n_spaces: int) -> None:
        self.lower = np.zeros(n_spaces)

    def largest_distance(self, point: DualPoint) -> float:
        return point.distances.max()

    def multiplier(self, gradient: np.ndarray, free: np.ndarray) -> float:
        return gradient @ free / free.sum()

    def normalize(self, free: np.ndarray) -> np.ndarray:
        return free / free.sum()

    def conditioned(self, matrix: np.ndarray, scale: np.ndarray) -> np.ndarray:
        # g has degree 1, so its Hessian is 0 along the weights; a multiple of 1 1'
        # changes no step of sum 0, and makes the equations well conditioned.
        ones = scale / scale.max()
        return matrix + np.outer(ones, ones)

    def project(
        self, change: np.ndarray, solve: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        response = solve(np.ones_like(change))
        return change - change.sum() / response.sum() * response


class Orthant(Domain):
    """Weights above lower bounds, where g(c) - sum(c) is maximized: by the consensus.

    Its optimality conditions are those of the consensus point: distances of at most 1,
    and of 1 where a weight is above its bound.
    """

    price = 1.0

    def __init__(self, lower: np.ndarray) -> None:
        self.lower = lower

    def largest_distance(self, point: DualPoint) -> float:
        return 1.0

    def multiplier(self, gradient: np.ndarray, free: np.ndarray) -> float:
        return 1.0


def interior_point(
    problem: DualProblem,
    domain: Domain,
    weights: np.ndarray,
    *,
    tol: float,
    is_done: Callable[[DualPoint], bool],
    max_iter: int,
) -> tuple[DualPoint, int]:
    """Maximize the domain's function from `weights` until done; last point, steps."""
    point = problem.evaluate(weights)
    free = weights - domain.lower
    largest = domain.largest_distance(point)
    slack = np.maximum(
        largest - point.distances, _FIRST_SLACK * max(largest, point.distances.max())
    )
    for n_iter in count():
        if is_done(point) or n_iter == max_iter:
            return point, n_iter
        newton = _NewtonEquations(
            point.curvature(), free=free, slack=slack, domain=domain
        )
        mu = max(
            _barrier_ahead(newton, point.distances),
            _LEAST_BARRIER * tol * abs(point.value) / len(free),
        )
        change, slack_change = newton.step(point.distances, mu)
        ascent = _line_search(
            problem, domain, point=point, free=free, change=change, mu=mu
        )
        if ascent is None:
            return point, n_iter
        # Not weights - lower: next to a large bound that difference is lost.
        point, free = ascent
        slack = slack + _part_of_step(slack, slack_change) * slack_change


class _NewtonEquations:
    """Newton's equations at one point, of which several right sides are solved."""

    def __init__(
        self,
        curvature: np.ndarray,
        *,
        free: np.ndarray,
        slack: np.ndarray,
        domain: Domain,
    ) -> None:
        self.free = free
        self.slack = slack
        self.domain = domain
        matrix = curvature + np.diag(slack / free)
        # Scaled to ones on the diagonal: weights differ by many orders of magnitude.
        self._scale = np.diag(matrix) ** -0.5
        scaled_matrix = matrix * np.outer(self._scale, self._scale)
        scaled_matrix = domain.conditioned(scaled_matrix, self._scale)
        scaled_matrix[np.diag_indices_from(scaled_matrix)] += ROUNDING * len(free)
        self._factor = linalg.cho_factor(scaled_matrix, check_finite=False)

    def _solve(self, rhs: np.ndarray) -> np.ndarray:
        return self._scale * linalg.cho_solve(
            self._factor, self._scale * rhs, check_finite=False
        )

    def step(self, gradient: np.ndarray, mu: float) -> tuple[np.ndarray, np.ndarray]:
        """Return changes of `free` and `slack` towards the maximiser for mu."""
        multiplier = self.domain.multiplier(gradient, self.free)
        change = self._solve(gradient - multiplier + mu / self.free)
        change = self.domain.project(change, self._solve)
        return change, (mu - self.slack * change) / self.free - self.slack


def _barrier_ahead(newton: _NewtonEquations, gradient: np.ndarray) -> float:
    """Return the next mu, by Mehrotra's rule.

    How far the step without a barrier gets says what to use: the share of
    ``free @ slack`` that it leaves, cubed.
    """
    free = newton.free
    slack = newton.slack
    change, slack_change = newton.step(gradient, 0.0)
    now = free @ slack
    free_ahead = free + _part_of_step(free, change) * change
    slack_ahead = slack + _part_of_step(slack, slack_change) * slack_change
    return (free_ahead @ slack_ahead / now) ** 3 * now / len(free)


def _part_of_step(positive: np.ndarray, change: np.ndarray) -> float:
    """Return the part of the change, up to 1, that keeps positive numbers above 0."""
    shrinking = change < 0
    room = (positive[shrinking] / -change[shrinking]).min(initial=np.inf)
    return min(1.0, _TO_BOUNDARY * float(room))


def _line_search(
    problem: DualProblem,
    domain: Domain,
    *,
    point: DualPoint,
    free: np.ndarray,
    change: np.ndarray,
    mu: float,
) -> tuple[DualPoint, np.ndarray] | None:
    """Return point and free weights after part of a change; None if nothing rises."""

    def barrier_function(point: DualPoint, free: np.ndarray) -> float:
        return (
            point.value - domain.price * point.weights.sum() + mu * np.log(free).sum()
        )

    start = barrier_function(point, free)
    rounding = ROUNDING * (abs(point.value) + domain.price * point.weights.sum())
    part = _part_of_step(free, change)
    # A smaller part of the step changes nothing but by rounding.
    while part > ROUNDING:
        trial = domain.normalize(free + part * change)
        trial_point = problem.evaluate(domain.lower + trial)
        if barrier_function(trial_point, trial) >= start - rounding:
            return trial_point, trial
        part *= 0.5
    return None


def check_spaces(spaces: list[GoodEnoughSpace]) -> None:
    """Raise an error for spaces that cannot be intersected."""
    if not spaces:
        raise ValueError(
            "There is no space to intersect: the list is empty. Give one space or more."
        )
    check_family([space.metric for space in spaces])
    for k, space in enumerate(spaces):
        if space.center.shape != spaces[0].center.shape:
            raise ValueError(
                f"Space {k} has parameters {space.center.shape}, space 0 has "
                f"{spaces[0].center.shape}. Build all spaces of models of the same "
                "features and classes."
            )
        if space.radius == 0:
            raise ValueError(
                f"Space {k} has radius 0: its own model does not reach epsilon on "
                "its rows. Choose another epsilon."
            )


def normalized_distances(
    spaces: Sequence[GoodEnoughSpace], model: np.ndarray
) -> np.ndarray:
    """Return the normalized squared distance of one model in each space, (K,)."""
    return np.array([space.normalized_squared_distance(model) for space in spaces])


@dataclass(kw_only=True)
class Bounds:
    """The best point and the best proof that a search has come by.

    The search ends when they are within `tol` of each other, relative to the former,
    or past either of `inside` and `outside`.
    """

    tol: float
    inside: float = 0.0  # a point of less than this is deep enough
    outside: float = np.inf  # a proof of more than this is enough
    step: np.ndarray | None = None  # of the point, from the problem's base
    max_distance: float = np.inf  # of the point: the largest q_k
    lower_bound: float = -np.inf  # of the largest q_k of any point
    weights: np.ndarray | None = None  # that prove it: (K,), of sum 1
    n_iter: int = 0

    def include(self, dual: DualPoint) -> bool:
        """Take a point into account, and return whether the search may end."""
        max_distance = float(dual.distances.max())
        if max_distance < self.max_distance:
            self.max_distance = max_distance
            self.step = dual.step
        # With weights of sum 1, g(c) is at most the largest distance of any point.
        size = dual.weights.sum()
        if dual.value / size > self.lower_bound:
            self.lower_bound = dual.value / size
            self.weights = dual.weights / size
        if self.max_distance < self.inside or self.lower_bound > self.outside:
            return True
        gap = self.max_distance - self.lower_bound
        # A value of 0: the centers are one point, but for rounding.
        return gap <= self.tol * self.max_distance or dual.value <= 0


def find_deepest(
    problem: DualProblem,
    *,
    tol: float,
    max_iter: int,
    inside: float = 0.0,
    outside: float = np.inf,
) -> Bounds:
    """Search for the point of least largest distance; see `Bounds` for when to end."""
    bounds = Bounds(tol=tol, inside=inside, outside=outside)
    # Two touching balls have dual weights in proportion to their radii.
    weights = problem.inverse_squares**-0.5
    _, bounds.n_iter = interior_point(
        problem,
        Simplex(len(weights)),
        weights / weights.sum(),
        tol=tol,
        is_done=bounds.include,
        max_iter=max_iter,
    )
    return bounds
