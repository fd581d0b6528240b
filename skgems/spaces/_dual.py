"""The concave dual that gives the deepest and the consensus point, one number a space.

For weights c >= 0 on the spaces' normalised squared distances q_k,
``g(c) = min_W sum_k c_k q_k(W)`` is concave with the gradient q(W(c)) and the Hessian
``-2 <G_k, M^-1 G_l>``, where ``M = sum_k c_k P_k / R_k^2`` and ``G_k = P_k / R_k^2
(W(c) - W_k)``. With c = lower + l, l >= 0, both problems maximise it:

- deepest: g(c), lower = 0, over the simplex;
- consensus: g(c) - sum(l), lower_k = w_k R_k^2.

An interior-point method follows the maximisers of these with ``mu sum(log l)`` added,
mu to 0. The barrier keeps every weight positive, and the weights of spaces that do not
bind in proportion: the point stays well defined where only such spaces know a
parameter. W(c) is exact at every step, so each step brings a bound and a point.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from scipy import linalg

from ._diagonal import check_family
from ._space import GoodEnoughSpace, Metric, combine_metrics

# Part of the way to the boundary that a step goes; bounds on slacks, by the barrier's.
_TO_BOUNDARY = 0.99
_SLACK_RATIO = 1e8


@dataclass
class DualPoint:
    """The minimiser W(c) of the weighted distances and what belongs to it."""

    weights: np.ndarray
    step: np.ndarray  # W(c) - base, (n_params, n_outputs)
    distances: np.ndarray  # q_k(W(c)), (K,)
    forces: np.ndarray  # G_k, (K, n_params, n_outputs)
    metric: Metric
    size: float  # M is so many times the metric's P

    @property
    def value(self) -> float:
        return float(self.weights @ self.distances)

    def curvature(self) -> np.ndarray:
        solved, n_spaces = self.metric.solve(self.forces), len(self.weights)
        solved = (solved / self.size).reshape(n_spaces, -1)
        half = self.forces.reshape(n_spaces, -1) @ solved.T
        return half + half.T


class DualProblem:
    """Evaluates g(c) for spaces of positive radius, in steps from the smallest."""

    def __init__(self, spaces: Sequence[GoodEnoughSpace]) -> None:
        self.metrics = [space.metric for space in spaces]
        radii = np.array([space.radius for space in spaces])
        self.inverse_squares = radii**-2.0
        self.base = spaces[int(radii.argmin())].center
        self.offsets = np.stack([space.center - self.base for space in spaces])
        self.pulls = self.apply(self.offsets)
        self._one_metric = all(metric is self.metrics[0] for metric in self.metrics)

    def point(self, step: np.ndarray) -> np.ndarray:
        if all(metric.free_mask() is not None for metric in self.metrics):
            summed = combine_metrics(self.metrics, self.inverse_squares)
            if summed.free_mask() is not None:
                step = summed.with_free(step, self.offsets.mean(axis=0))
        return self.base + step

    def apply(self, steps: np.ndarray) -> np.ndarray:
        """Return P_k / R_k^2 times step k, for each k."""
        every = zip(self.metrics, steps, self.inverse_squares, strict=True)
        return np.stack([metric.apply(step) * scale for metric, step, scale in every])

    def evaluate(self, weights: np.ndarray) -> DualPoint:
        """Minimise ``sum_k weights_k q_k(W)`` over W."""
        scaled = weights * self.inverse_squares
        # The size of the weights is taken out, so that nothing under- or overflows.
        size = scaled.sum()
        metric = self.metrics[0]
        if not self._one_metric:
            metric = combine_metrics(self.metrics, scaled / size)
        step = metric.solve(np.tensordot(weights / size, self.pulls, axes=1))
        forces, distances = self.forces(step)
        return DualPoint(weights, step, distances, forces, metric, size)

    def forces(self, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """G_k and q_k at the point ``base + step``."""
        deltas = step - self.offsets
        forces = self.apply(deltas)
        distances = np.einsum("kij,kij->k", deltas, forces)
        return forces, np.maximum(distances, 0.0, out=distances)


def interior_point(problem, weights, lower, *, simplex, tol, done, max_iter):
    """Maximise g(c) on the simplex, or g(c) - sum(c), until done; last point, steps."""
    point = problem.evaluate(weights)
    free = weights - lower
    top = point.distances.max() if simplex else 1.0
    slack = np.maximum(top - point.distances, 0.1 * max(top, point.distances.max()))
    for n_iter in count():
        if done(point) or n_iter == max_iter:
            return point, n_iter
        least = 0.01 * tol * abs(point.value) / len(free)
        towards = _newton(point.curvature(), free, slack, simplex)
        gradient = point.distances
        # Mehrotra's rule: how far the step without a barrier gets says what mu to use.
        change, slack_change = towards(gradient, 0.0)
        now = free @ slack
        ahead = (free + _part(free, change) * change) @ (
            slack + _part(slack, slack_change) * slack_change
        )
        mu = max((ahead / now) ** 3 * now / len(free), least)
        change, slack_change = towards(gradient, mu)
        found = _line_search(problem, point, free, lower, change, mu, simplex)
        if found is None:
            return point, n_iter
        # Not weights - lower: next to a large bound that difference is lost.
        point, free = found
        slack = slack + _part(slack, slack_change) * slack_change
        slack = np.clip(slack, mu / free / _SLACK_RATIO, mu / free * _SLACK_RATIO)


def _newton(curvature, free, slack, simplex: bool) -> Callable:
    matrix = curvature + np.diag(slack / free)
    scale = np.diag(matrix) ** -0.5
    scaled = matrix * np.outer(scale, scale)
    if simplex:
        # g has degree 1, so its Hessian is 0 along the weights; a multiple of 1 1'
        # changes no step of sum 0, and makes the equations well conditioned.
        ones = scale / scale.max()
        scaled += np.outer(ones, ones)
    # Duplicated spaces make it singular but for rounding.
    scaled[np.diag_indices_from(scaled)] += 1e-14 * len(free)
    factor = linalg.cho_factor(scaled, check_finite=False)

    def solve(rhs):
        return scale * linalg.cho_solve(factor, scale * rhs, check_finite=False)

    def towards(gradient, mu: float) -> tuple[np.ndarray, np.ndarray]:
        level = gradient @ free / free.sum() if simplex else 1.0
        change = solve(gradient - level + mu / free)
        if simplex:
            ones = solve(np.ones_like(gradient))
            change -= change.sum() / ones.sum() * ones
        return change, (mu - slack * change) / free - slack

    return towards


def _part(values: np.ndarray, change: np.ndarray) -> float:
    """Part of the change, up to 1, that keeps the values above 0."""
    shrinking = change < 0
    room = (values[shrinking] / -change[shrinking]).min(initial=np.inf)
    return min(1.0, _TO_BOUNDARY * float(room))


def _line_search(problem, point, free, lower, change, mu, simplex):
    linear = 0.0 if simplex else 1.0

    def barrier(at: DualPoint, free: np.ndarray) -> float:
        return at.value - linear * at.weights.sum() + mu * np.log(free).sum()

    start = barrier(point, free)
    rise = (point.distances + mu / free - linear) @ change
    rounding = 1e-13 * (abs(point.value) + linear * point.weights.sum())
    part = _part(free, change)
    for _ in range(30):
        trial = free + part * change
        if simplex:
            trial /= trial.sum()
        new = problem.evaluate(lower + trial)
        if barrier(new, trial) >= start + 1e-4 * part * rise - rounding:
            return new, trial
        part *= 0.5
    return None


def check_spaces(spaces: list[GoodEnoughSpace], names: Sequence | None = None) -> None:
    if not spaces:
        raise ValueError("There is no space to intersect: the list is empty.")
    names = names or range(len(spaces))
    check_family(type(spaces[0].metric), [space.metric for space in spaces], names)
    first = spaces[0].center.shape
    for k, space in zip(names, spaces, strict=True):
        if (shape := space.center.shape) != first:
            what = f"Space {k} has parameters {shape}, space {names[0]} has {first}"
            raise ValueError(f"{what}.")
        if space.radius == 0:
            raise ValueError(
                f"Space {k} has radius 0: its own model does not reach epsilon on its "
                "rows; choose another epsilon."
            )


def distances_of(spaces: Sequence[GoodEnoughSpace], point: np.ndarray) -> np.ndarray:
    return np.array([space.normalized_squared_distance(point) for space in spaces])


@dataclass
class Bounds:
    """Best point and proof so far; enough if within `tol`, or past either bound."""

    tol: float
    inside: float = 0.0
    outside: float = np.inf
    step: np.ndarray | None = None
    max_distance: float = np.inf
    lower_bound: float = -np.inf
    weights: np.ndarray | None = None
    n_iter: int = 0

    def __call__(self, dual: DualPoint) -> bool:
        top = float(dual.distances.max())
        if top < self.max_distance:
            self.max_distance, self.step = top, dual.step
        size = dual.weights.sum()
        if dual.value / size > self.lower_bound:
            self.lower_bound = dual.value / size
            self.weights = dual.weights / size
        if self.max_distance < self.inside or self.lower_bound > self.outside:
            return True
        gap = self.max_distance - self.lower_bound
        return gap <= self.tol * self.max_distance or dual.value <= 0


def find_deepest(problem: DualProblem, tol, max_iter, **far_enough: float) -> Bounds:
    bounds = Bounds(tol, **far_enough)
    # Two touching balls have dual weights in proportion to their radii.
    weights = problem.inverse_squares**-0.5
    weights, lower = weights / weights.sum(), np.zeros(len(weights))
    options = {"simplex": True, "tol": tol, "done": bounds, "max_iter": max_iter}
    _, bounds.n_iter = interior_point(problem, weights, lower, **options)
    return bounds
