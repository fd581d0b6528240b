"""Where spaces meet, deepest or by consensus, and which do not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from ._dual import (
    Bounds,
    DualProblem,
    check_spaces,
    distances_of,
    find_deepest,
    interior_point,
)
from ._space import GoodEnoughSpace

METHODS = ("consensus", "deepest", "hinge")
# A bound that is above 1 by no more may be so by rounding.
_ROUNDING = 1e-9
PROVED = 1.0 + _ROUNDING
# Gap of bounds and number of steps at which a search ends, unless others are given.
TOL, MAX_ITER = 1e-9, 200
# A point that is so far inside proves an intersection: it need not be the deepest.
WELL_INSIDE = 0.9
# Pairs that are tried: their number grows with the square of that of the spaces.
_MOST_PAIRS = 64
# The hinge is smoothed over these parts of the radii, one after the other.
_SMOOTHING = 10.0 ** -np.arange(1, 7)
# Multipliers are settled where no space is missed by more, in squared radii.
_SETTLED, _MAX_UPDATES = 1e-6, 40


class EmptyIntersectionWarning(UserWarning):
    """No model is good enough for all nodes; the one that misses least is used."""


class EmptyIntersectionError(ValueError):
    """No model is good enough for all nodes, and ``on_empty="raise"``."""


class NoSpaceError(ValueError):
    """No model but a node's own is good enough there, and perhaps not even that."""


@dataclass(frozen=True, eq=False)
class Intersection:
    """A point of the intersection of K spaces, or the deepest point, and its proof.

    Attributes
    ----------
    found : bool
        Whether `point` is in every space; the same as ``max_distance <= 1``.
    point : ndarray of shape (n_params, n_outputs)
        The model.
    max_distance : float
        Largest normalised squared distance of the point.
    lower_bound : float
        No model has a smaller one. Above 1 it proves that the intersection is empty.
    weights : ndarray of shape (K,)
        Nonnegative, sum 1. For "deepest" and "hinge" the dual weights that give
        `lower_bound`: nodes that bind. For "consensus" those of matrices in the point.
    normalized_squared_distances : ndarray of shape (K,)
        Of the point, at most 1 inside.
    method : str
        The method asked for.
    n_iter : int
        Newton steps, of L-BFGS for "hinge".
    """

    found: bool
    point: np.ndarray = field(repr=False)
    max_distance: float
    lower_bound: float
    weights: np.ndarray = field(repr=False)
    normalized_squared_distances: np.ndarray = field(repr=False)
    method: str
    n_iter: int
    spaces: list[GoodEnoughSpace] = field(repr=False, default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether it is proved that no point is in all spaces.

        Spaces that all but touch may be neither found to meet nor proved not to.
        """
        return not self.found and self.lower_bound > PROVED

    @cached_property
    def conflicts(self) -> list[tuple[int, int]]:
        """Where nothing was found: pairs of spaces proved not to meet, in order.

        Looked up when asked for: the 64 pairs whose `weights` have the largest products
        are tried, all pairs of up to 11 spaces, in at most 50 steps each. There may be
        none: spaces can meet two by two and not all together.
        """
        return sorted(self._proved_conflicts())

    @cached_property
    def worst_conflict(self) -> tuple[int, int] | None:
        """The pair of `conflicts` that weighs most, the only one tried, or None."""
        return next(self._proved_conflicts(), None)

    @property
    def all_pairs_are_tried(self) -> bool:
        """Whether `conflicts` is about all pairs of spaces."""
        n_spaces = len(self.weights)
        return n_spaces * (n_spaces - 1) // 2 <= _MOST_PAIRS

    def _proved_conflicts(self) -> Iterator[tuple[int, int]]:
        if not self.empty:
            return iter(())
        return likely_conflicts(self.spaces, self.point, self.weights, _MOST_PAIRS)


def intersect(
    spaces: Sequence[GoodEnoughSpace],
    *,
    method: str = "consensus",
    node_weight: ArrayLike | None = None,
    tol: float = TOL,
    max_iter: int = MAX_ITER,
) -> Intersection:
    r"""Find one model in all spaces, or prove that there is none.

    With :math:`d_k` the distance from the centre of space k, :math:`R_k` its radius and
    :math:`q_k = d_k^2 / R_k^2`:

    - ``"deepest"``: :math:`\min_W \max_k q_k(W)`. Its concave dual, of one weight a
      space, bounds the answer from below.
    - ``"consensus"``: :math:`\min_W \sum_k w_k d_k(W)^2` subject to :math:`q_k(W) \le
      1`: of the models in the intersection, the one that moves the nodes least. Where
      no bound binds it is the matrix-weighted mean of the centres.
    - ``"hinge"`` (GEMS 2019, Eq. 2): the first point inside that L-BFGS meets when it
      minimises :math:`\sum_k \max(0, d_k(W) - R_k)` from the mean of the centres.

    Where the intersection is empty, "consensus" and "deepest" return the deepest point
    and "hinge" the minimiser of its sum, all with ``found=False``.

    Parameters
    ----------
    spaces : sequence of GoodEnoughSpace
        With metrics of one family: all gram, or all ball or ellipsoid.
    method : {"consensus", "deepest", "hinge"}, default="consensus"
        See above.
    node_weight : array-like of shape (K,), default=None
        Weights w of "consensus", above 0. None: equal.
    tol : float, default=1e-9
        Relative gap of the bounds at which to stop.
    max_iter : int, default=200
        Largest number of steps.

    Returns
    -------
    intersection : Intersection

    Raises
    ------
    TypeError
        If gram and diagonal metrics are mixed.
    ValueError
        If there is no space, their shapes differ or a radius is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import GoodEnoughSpace, ball_metric, intersect
    >>> metric = ball_metric(2, np.array([True]))
    >>> spaces = [
    ...     GoodEnoughSpace(np.array([[0.0], [0.0]]), metric, radius=1.0, epsilon=0.9),
    ...     GoodEnoughSpace(np.array([[4.0], [0.0]]), metric, radius=3.5, epsilon=0.9),
    ... ]
    >>> both = intersect(spaces)
    >>> both.found, both.point.ravel().round(3)
    (True, array([1., 0.]))
    >>> intersect(spaces, method="deepest").point.ravel().round(3)
    array([0.889, 0.   ])
    """
    spaces = list(spaces)
    check_spaces(spaces)
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {method!r}.")
    if not 0 < tol < 1:
        raise ValueError(f"tol must be in (0, 1), got {tol}.")
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, got {max_iter}.")
    problem = DualProblem(spaces)
    if method == "deepest":
        best = find_deepest(problem, tol, max_iter)
        return report(spaces, method, problem.point(best.step), best)
    if method == "hinge":
        return _hinge(problem, spaces, tol, max_iter)
    return _consensus(problem, spaces, node_weight, tol, max_iter)


def _consensus(problem, spaces, node_weight, tol, max_iter) -> Intersection:
    n_spaces = len(spaces)
    node_weight = np.ones(n_spaces) if node_weight is None else np.asarray(node_weight)
    usable = np.isfinite(node_weight) & (node_weight > 0)
    if node_weight.shape != (n_spaces,) or not usable.all():
        raise ValueError(
            f"node_weight must hold {n_spaces} finite numbers above 0, got "
            f"{node_weight}. To leave a node out, leave out its space."
        )
    lower = node_weight / problem.inverse_squares
    lower = lower / lower.sum()
    start = problem.evaluate(lower)
    mean = problem.point(start.step)
    if distances_of(spaces, mean).max() <= 1.0:
        proof = Bounds(tol)
        proof(start)
        proof.weights = _effective(problem, lower)
        return report(spaces, "consensus", mean, proof)
    best = find_deepest(problem, tol, max_iter, inside=WELL_INSIDE)
    deepest = report(spaces, "consensus", problem.point(best.step), best)
    if not deepest.found:
        return deepest

    def done(dual) -> bool:
        excess = dual.distances - 1.0
        loose = abs((dual.weights - lower) @ excess)
        return excess.max() <= tol and loose <= tol * (lower @ dual.distances)

    # From the deepest point's weights, with some for the spaces that do not bind there.
    share = 0.9 * best.weights + 0.1 / n_spaces
    weights = lower + start.value * share
    options = {"simplex": False, "tol": tol, "done": done, "max_iter": max_iter}
    last, n_iter = interior_point(problem, weights, lower, **options)
    best.n_iter += n_iter
    point = repair(problem, spaces, last.step, best.step)
    best.weights = _effective(problem, last.weights)
    return report(spaces, "consensus", point, best)


def _effective(problem: DualProblem, weights: np.ndarray) -> np.ndarray:
    scaled = weights * problem.inverse_squares
    return scaled / scaled.sum()


def repair(problem, spaces, step: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Go from base + step towards base + inner, a point in all, until in all."""
    direction = inner - step
    # q_k is a parabola along the way.
    forces, distances = problem.forces(step)
    linear = 2.0 * np.einsum("ij,kij->k", direction, forces)
    moved = problem.apply([direction] * len(spaces))
    quadratic = np.einsum("ij,kij->k", direction, moved)
    excess = distances - 1.0
    root = np.sqrt(np.maximum(linear**2 - 4.0 * quadratic * excess, 0.0))
    out = excess > 0
    parts = 2.0 * excess[out] / np.maximum(root - linear, 1e-300)[out]
    part = float(parts.max(initial=0.0))
    # What rounding still leaves outside is settled by a little more of the way.
    for extra in (0.0, 1e-15, 1e-13, 1e-11, 1e-9, 1e-6, 1e-3):
        if part + extra >= 1.0:
            break
        point = problem.point(step + (part + extra) * direction)
        if distances_of(spaces, point).max() <= 1.0:
            return point
    return problem.point(inner)


def _hinge(problem, spaces, tol, max_iter) -> Intersection:
    mean = np.mean([space.center for space in spaces], axis=0)
    best = find_deepest(problem, tol, max_iter)
    if distances_of(spaces, mean).max() <= 1.0:
        return report(spaces, "hinge", mean, replace(best, n_iter=0))

    def excess(flat: np.ndarray, smoothing: float) -> tuple[float, np.ndarray]:
        point = flat.reshape(mean.shape)
        value, gradient = 0.0, np.zeros_like(point)
        for space in spaces:
            distance = space.distance(point)
            over, width = distance - space.radius, smoothing * space.radius
            if over <= 0:
                continue
            slope = 1.0 if over >= width else over / width
            value += over - width / 2 if over >= width else over * slope / 2
            gradient += slope / distance * space.metric.apply(point - space.center)
        return value, gradient.ravel()

    def minimise(start: np.ndarray, smoothing: float) -> np.ndarray:
        options = {"maxiter": max_iter, "gtol": 0.0, "ftol": 0.0}
        more = {"jac": True, "method": "L-BFGS-B", "options": options}
        result = optimize.minimize(excess, start.ravel(), args=(smoothing,), **more)
        best.n_iter += int(result.nit)
        return result.x

    deepest, best.n_iter = problem.point(best.step), 0
    inside = distances_of(spaces, deepest).max() <= 1.0
    found = minimise(mean, 0.0)
    if not inside:
        # The sum has kinks, at which L-BFGS gets stuck: it goes by sums without.
        start = found
        for smoothing in _SMOOTHING:
            start = minimise(start, smoothing)
        all_found = (found, start, deepest.ravel())
        found = min(all_found, key=lambda flat: excess(flat, 0.0)[0])
    point = found.reshape(mean.shape)
    if inside and distances_of(spaces, point).max() > 1.0:
        point = repair(problem, spaces, point - problem.base, best.step)
    return report(spaces, "hinge", point, best)


def report(spaces, method: str, point: np.ndarray, proof: Bounds) -> Intersection:
    distances = distances_of(spaces, point)
    top = float(distances.max())
    # Rounding may carry the bound past the value that it bounds.
    bound, steps = float(np.clip(proof.lower_bound, 0.0, top)), proof.n_iter
    about = point, top, bound, proof.weights, distances, method, steps, spaces
    return Intersection(top <= 1.0, *about)


def likeliest(spaces, minimize, start: np.ndarray, n_rows: float) -> Intersection:
    """Find the model of least loss in all spaces; if they do not meet, the deepest."""
    spaces = list(spaces)
    check_spaces(spaces)
    if distances_of(spaces, start).max() <= 1.0:
        proof = Bounds(TOL, lower_bound=0.0, weights=np.zeros(len(spaces)))
        return report(spaces, "likelihood", start, proof)
    problem = DualProblem(spaces)
    best = find_deepest(problem, TOL, MAX_ITER, inside=WELL_INSIDE)
    deepest = report(spaces, "likelihood", problem.point(best.step), best)
    if not deepest.found:
        return deepest
    squares = np.array([space.radius**2 for space in spaces])

    # Each space adds its excess, and the square of it, to the loss.
    def penalty(W, multipliers, strength):
        value, gradient = 0.0, np.zeros_like(W)
        for space, square, multiplier in zip(spaces, squares, multipliers, strict=True):
            delta = W - space.center
            moved = space.metric.apply(delta)
            excess = np.vdot(delta, moved) / square - 1.0
            force = max(0.0, multiplier + strength * excess)
            value += (force**2 - multiplier**2) / (2.0 * strength)
            gradient += (2.0 * force / square) * moved
        return value, gradient

    point, multipliers = start, np.zeros(len(spaces))
    excess = distances_of(spaces, point) - 1.0
    strength, last = 0.1 * n_rows, np.inf
    for _ in range(_MAX_UPDATES):
        extra = partial(penalty, multipliers=multipliers, strength=strength)
        # About the second derivatives of `extra`, by those of squared distances.
        forces = np.maximum(0.0, multipliers + strength * excess) / squares
        point = minimize(point, extra, forces)
        best.n_iter += 1
        excess = distances_of(spaces, point) - 1.0
        missed = np.abs(np.maximum(excess, -multipliers / strength)).max()
        multipliers = np.maximum(0.0, multipliers + strength * excess)
        if missed < _SETTLED:
            break
        if missed > 0.25 * last:
            strength *= 10.0
        last = missed
    point = repair(problem, spaces, point - problem.base, best.step)
    if multipliers.any():
        best.weights = multipliers / multipliers.sum()
    return report(spaces, "likelihood", point, best)


def likely_conflicts(spaces, point, weights, most: int) -> Iterator[tuple[int, int]]:
    """Yield pairs proved not to meet, of the ``most`` of largest product of weights."""
    # The pairs of largest product are among the first spaces.
    heaviest = np.sort(np.argsort(-weights, kind="stable")[: most + 1])
    first, second = np.triu_indices(len(heaviest), 1)
    product = weights[heaviest[first]] * weights[heaviest[second]]
    tried = np.argsort(-product, kind="stable")[:most]
    # Spaces that hold one and the same point need no proof.
    outside = distances_of(spaces, point) > 1.0
    for i, j in heaviest[np.stack([first, second], axis=1)[tried]].tolist():
        if (outside[i] or outside[j]) and disjoint(spaces[i], spaces[j]):
            yield i, j


def disjoint(one: GoodEnoughSpace, other: GoodEnoughSpace) -> bool:
    """Whether it is proved that two spaces do not meet."""
    there, back = one.distance(other.center), other.distance(one.center)
    # They meet on the line between their centres, or but for rounding.
    if one.radius * back + other.radius * there >= (1.0 - _ROUNDING) * there * back:
        return False
    # Of one metric, they meet nowhere else.
    if one.metric is other.metric:
        return True
    problem = DualProblem([one, other])
    bounds = find_deepest(problem, 1e-9, 50, inside=1.0, outside=PROVED)
    return bounds.lower_bound > PROVED


def largest_coalition(spaces: Sequence[GoodEnoughSpace]) -> list[int]:
    """Sorted indices of a large set of spaces that intersect, found greedily."""
    spaces = list(spaces)
    check_spaces(spaces)

    def settle(indices: list[int]) -> Bounds:
        chosen = [spaces[k] for k in indices]
        problem = DualProblem(chosen)
        bounds = find_deepest(problem, 1e-9, 100, inside=1.0)
        bounds.max_distance = distances_of(chosen, problem.point(bounds.step)).max()
        return bounds

    coalition, dropped = list(range(len(spaces))), []
    while (bounds := settle(coalition)).max_distance > 1.0:
        dropped.append(coalition.pop(int(bounds.weights.argmax())))
    for k in reversed(dropped):
        if settle([*coalition, k]).max_distance <= 1.0:
            coalition.append(k)
    return sorted(coalition)
