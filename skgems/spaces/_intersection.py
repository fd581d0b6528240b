r"""Where spaces meet, deepest, by consensus or likeliest, and which do not.

With q_k the normalized squared distance from space k, a model W is in the intersection
where ``max_k q_k(W) <= 1``. Which of these models is returned depends on the method:

- deepest: ``min_W max_k q_k(W)``;
- consensus: ``min_W sum_k w_k R_k^2 q_k(W)`` subject to ``q_k(W) <= 1``;
- hinge (GEMS 2019, Eq. 2): ``min_W sum_k max(0, d_k(W) - R_k)``;
- likelihood: ``min_W loss(W)`` subject to ``q_k(W) <= 1``.

Weights c of sum 1 with ``min_W sum_k c_k q_k(W) > 1`` prove that there is none.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from ..base import Page, Paragraph, ResultMixin, Table
from ..moments import ROUNDING_OF_SUMS
from ._dual import (
    Bounds,
    DualPoint,
    DualProblem,
    Orthant,
    check_spaces,
    find_deepest,
    interior_point,
    normalized_distances,
)
from ._metric import MOST_STEPS, TOLERANCE
from ._space import GoodEnoughSpace

# Value and gradient of what is added to a loss.
Penalty = Callable[[np.ndarray], tuple[float, np.ndarray]]

_METHODS = ("consensus", "deepest", "hinge")
# A point that is so far inside proves an intersection, and is deep enough for a model
# just outside to be moved towards it. Towards one on the boundary, likeliest models
# moved by 5e-4 of their size.
_WELL_INSIDE = 0.9
# The hinge is smoothed over these parts of the radii, one after the other.
_SMOOTHING = np.logspace(-1, -6, 6)
# Parts of the way that are added until rounding leaves a point in all spaces.
_EXTRA_PARTS = (0.0, 1e-15, 1e-13, 1e-11, 1e-9, 1e-6, 1e-3)
# Multipliers are settled where no space is missed by more, in squared radii.
_SETTLED = 1e-6
# First strength of the penalty, in the loss of one row: a far stronger one makes the
# minimization ill conditioned, and takes more updates, as a far weaker one does.
_FIRST_STRENGTH = 0.3
# Factor on the strength after an update that brought little.
_STRENGTHENING = 10.0
# An update brought little if more than this part of what spaces were missed by before
# is left.
_SLOW_PROGRESS = 0.25


class EmptyIntersectionWarning(UserWarning):
    """No model is good enough for all nodes; the one that misses least is used.

    The message says how far the spaces are from a common point, which nodes conflict
    most, and which epsilon would do for all nodes, if any. It also comes where a node's
    own model does not reach its epsilon, and says which one the node can reach.
    """


class EmptyIntersectionError(ValueError):
    """No model is good enough for all nodes, and spaces have ``on_empty="raise"``.

    The message says how far the spaces are from a common point, which nodes conflict
    most, and which epsilon would do for all nodes, if any.
    """


@dataclass(frozen=True, eq=False, kw_only=True)
class Intersection(ResultMixin):
    """A point of the intersection of K spaces, or the deepest point, and the proof.

    Attributes
    ----------
    found : bool
        Whether `point` is in every space. This is the same as ``max_distance <= 1``.
    point : ndarray of shape (n_params, n_outputs)
        The model.
    max_distance : float
        Largest normalized squared distance of the point from any space.
    lower_bound : float
        No model has a smaller `max_distance`. If it is above 1, it proves that the
        intersection is empty.
    weights : ndarray of shape (K,)
        Weights of the spaces, at least 0, with the sum 1. Their meaning depends on the
        method:

        - "deepest", "hinge": the dual weights that give `lower_bound`. They are above 0
          for nodes that bind.
        - "consensus": the weights of the nodes' matrices in the point.
        - the likeliest model: the multipliers, divided by their sum. They are all 0 if
          the model without bounds is in all spaces. They are the dual weights if the
          spaces do not intersect, or if no multiplier is above 0.
    normalized_squared_distances : ndarray of shape (K,)
        Normalized squared distance of the point from each space, at most 1 inside.
    method : str
        The method that was asked for.
    n_iter : int
        Number of steps: of Newton's method, or of L-BFGS for "hinge". For the likeliest
        model, minimisations of the loss count, too.

    Examples
    --------
    The third of these intervals does not intersect the other two:

    >>> import numpy as np
    >>> from skgems.spaces import GoodEnoughSpace, ball_metric, intersect
    >>> metric = ball_metric(1, np.array([True]))
    >>> spaces = [
    ...     GoodEnoughSpace(
    ...         center=np.array([[center]]), metric=metric, radius=1.0, epsilon=0.9
    ...     )
    ...     for center in (0.0, 1.0, 5.0)
    ... ]
    >>> intersection = intersect(spaces)
    >>> intersection.found, intersection.empty, intersection.conflicts
    (False, True, [(0, 2), (1, 2)])
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

    def _page(self) -> Page:
        outcome = "The model is in all spaces."
        if self.empty:
            outcome = "No model is in all spaces: this is proved."
        elif not self.found:
            outcome = "No model was found in all spaces; there may be one."
        distances = self.normalized_squared_distances
        columns = {
            "space": range(len(distances)),
            "distance (radii)": np.sqrt(distances).tolist(),
            "weight": self.weights.tolist(),
            "is inside": [bool(distance <= 1.0) for distance in distances],
        }
        return Page(
            title=f"Intersection of {len(distances)} good-enough spaces",
            parts=[Paragraph(text=outcome), Table.from_columns(columns)],
        )

    @property
    def empty(self) -> bool:
        """Report whether it is proved that no point is in all spaces.

        If spaces almost touch, it may be that no common point is found, and that it is
        not proved either that there is none.
        """
        return not self.found and self.lower_bound > 1.0 + ROUNDING_OF_SUMS

    @cached_property
    def conflicts(self) -> list[tuple[int, int]]:
        """Pairs of spaces that are proved not to intersect, in order.

        They are searched for when this is first used, and only if the intersection is
        proved `empty`. The 200 pairs whose `weights` have the largest products are
        tried. These are all pairs of up to 20 spaces. The
        list may be empty: spaces can intersect two by two and not all together.
        """
        return sorted(self._proved_conflicts())

    @cached_property
    def worst_conflict(self) -> tuple[int, int] | None:
        """The pair of `conflicts` with the largest weights, or None.

        The pairs are tried in this order until one is proved not to intersect.
        """
        return next(self._proved_conflicts(), None)

    def drop_spaces(self) -> "Intersection":
        """Return the intersection without the spaces, which nodes have sent.

        The conflicts are searched for before.
        """
        without = replace(self, spaces=[])
        # Both are kept by the names of the properties, as functools does it.
        vars(without)["conflicts"] = self.conflicts
        vars(without)["worst_conflict"] = self.worst_conflict
        return without

    @property
    def all_pairs_are_tried(self) -> bool:
        """Report whether `conflicts` is about all pairs of spaces."""
        n_spaces = len(self.weights)
        return n_spaces * (n_spaces - 1) // 2 <= MOST_STEPS

    def _proved_conflicts(self) -> Iterator[tuple[int, int]]:
        if not self.empty:
            return iter(())
        return likely_conflicts(
            self.spaces, self.point, self.weights, n_pairs=MOST_STEPS
        )


def intersect(
    spaces: Sequence[GoodEnoughSpace],
    *,
    method: str = "consensus",
    node_weight: ArrayLike | None = None,
    tol: float = ROUNDING_OF_SUMS,
    max_iter: int = MOST_STEPS,
) -> Intersection:
    r"""Find one model in all spaces, or prove that there is none.

    With :math:`d_k` the distance from the center of space k, :math:`R_k` its radius and
    :math:`q_k = d_k^2 / R_k^2`, the methods are:

    - ``"deepest"``: :math:`\min_W \max_k q_k(W)`. Its concave dual, with one weight per
      space, bounds the answer from below.
    - ``"consensus"``: :math:`\min_W \sum_k w_k d_k(W)^2` subject to :math:`q_k(W) \le
      1`. This is the model of the intersection that moves the nodes least. If no bound
      binds, it is the matrix-weighted mean of the centers.
    - ``"hinge"`` (GEMS 2019, Eq. 2): the first point inside all spaces on the way from
      the mean of the centers, on which L-BFGS minimizes :math:`\sum_k \max(0, d_k(W) -
      R_k)`.

    If the intersection is empty, "consensus" and "deepest" return the deepest point,
    and "hinge" returns the minimiser of its sum. Then ``found`` is False.

    Parameters
    ----------
    spaces : sequence of GoodEnoughSpace
        The spaces. Their metrics must be of one family: all gram, or all ball or
        ellipsoid.
    method : {"consensus", "deepest", "hinge"}, default="consensus"
        Which point of the intersection is returned, see above.
    node_weight : array-like of shape (K,), default=None
        Weights :math:`w_k` of "consensus", above 0. None stands for equal weights.
    tol : float, default=1e-9
        The search stops when the relative gap of the bounds is at most this.
    max_iter : int, default=200
        Largest number of steps.

    Returns
    -------
    intersection : Intersection
        The point, whether it is in all spaces, and the proof.

    Raises
    ------
    TypeError
        If gram metrics are mixed with ball or ellipsoid metrics.
    ValueError
        If there is no space, if shapes of spaces differ, if a radius is 0, or if
        another argument is out of range.

    See Also
    --------
    skgems.spaces.build_space : Build the space of one classifier.

    Examples
    --------
    Two discs of radii 1 and 3.5, with the centers (0, 0) and (4, 0), overlap:

    >>> import numpy as np
    >>> from skgems.spaces import GoodEnoughSpace, ball_metric, intersect
    >>> metric = ball_metric(2, np.array([True]))
    >>> spaces = [
    ...     GoodEnoughSpace(
    ...         center=np.array([[0.0], [0.0]]), metric=metric, radius=1.0, epsilon=0.9
    ...     ),
    ...     GoodEnoughSpace(
    ...         center=np.array([[4.0], [0.0]]), metric=metric, radius=3.5, epsilon=0.9
    ...     ),
    ... ]
    >>> both = intersect(spaces)
    >>> both.found, both.point.ravel().round(3)
    (True, array([1., 0.]))
    >>> intersect(spaces, method="deepest").point.ravel().round(3)
    array([0.889, 0.   ])
    """
    spaces = list(spaces)
    check_spaces(spaces)
    if method not in _METHODS:
        raise ValueError(f"method must be one of {_METHODS}, got {method!r}.")
    if not 0 < tol < 1:
        raise ValueError(f"tol must be in (0, 1), got {tol}.")
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, got {max_iter}.")
    problem = DualProblem(spaces)
    if method == "deepest":
        bounds = find_deepest(problem, tol=tol, max_iter=max_iter)
        return _intersection(
            spaces, method=method, point=problem.model(bounds.step), proof=bounds
        )
    if method == "hinge":
        return _hinge(problem, spaces, tol=tol, max_iter=max_iter)
    return _consensus(
        problem,
        spaces,
        node_weight=_checked_node_weight(node_weight, len(spaces)),
        tol=tol,
        max_iter=max_iter,
    )


def _checked_node_weight(node_weight: ArrayLike | None, n_spaces: int) -> np.ndarray:
    if node_weight is None:
        return np.ones(n_spaces)
    checked = np.asarray(node_weight)
    is_usable = np.isfinite(checked) & (checked > 0)
    if checked.shape != (n_spaces,) or not is_usable.all():
        raise ValueError(
            f"node_weight must hold {n_spaces} finite numbers above 0, got "
            f"{checked}. To leave a node out, leave out its space."
        )
    return checked


def _intersection(
    spaces: list[GoodEnoughSpace], *, method: str, point: np.ndarray, proof: Bounds
) -> Intersection:
    """Return what is known of a point: its distances, and the proof of a bound."""
    distances = normalized_distances(spaces, point)
    max_distance = float(distances.max())
    return Intersection(
        found=max_distance <= 1.0,
        point=point,
        max_distance=max_distance,
        # Rounding may carry the bound past the value that it bounds.
        lower_bound=float(np.clip(proof.lower_bound, 0.0, max_distance)),
        weights=proof.weights,
        normalized_squared_distances=distances,
        method=method,
        n_iter=proof.n_iter,
        spaces=spaces,
    )


# ---- the consensus -------------------------------------------------------------------


def _consensus(
    problem: DualProblem,
    spaces: list[GoodEnoughSpace],
    *,
    node_weight: np.ndarray,
    tol: float,
    max_iter: int,
) -> Intersection:
    # sum_k w_k d_k^2 is sum_k lower_k q_k, but for a factor.
    lower = node_weight / problem.inverse_squares
    lower = lower / lower.sum()
    start = problem.evaluate(lower)
    mean = problem.model(start.step)
    if normalized_distances(spaces, mean).max() <= 1.0:
        proof = Bounds(tol=tol)
        proof.include(start)
        proof.weights = _matrix_weights(problem, lower)
        return _intersection(spaces, method="consensus", point=mean, proof=proof)
    bounds = find_deepest(problem, tol=tol, max_iter=max_iter, inside=_WELL_INSIDE)
    deepest = _intersection(
        spaces, method="consensus", point=problem.model(bounds.step), proof=bounds
    )
    if not deepest.found:
        return deepest

    def is_done(dual: DualPoint) -> bool:
        """Report whether the point is in all spaces and touches those that bind."""
        excess = dual.distances - 1.0
        complementarity = abs((dual.weights - lower) @ excess)
        return excess.max() <= tol and complementarity <= tol * (lower @ dual.distances)

    # Mostly the spaces that bind at the deepest point bind; all weights are above 0.
    shares = (bounds.weights + 1.0 / len(spaces)) / 2.0
    last, n_iter = interior_point(
        problem,
        Orthant(lower),
        lower + start.value * shares,
        tol=tol,
        is_done=is_done,
        max_iter=max_iter,
    )
    bounds.n_iter += n_iter
    point = repair(problem, spaces, step=last.step, inner_step=bounds.step)
    bounds.weights = _matrix_weights(problem, last.weights)
    return _intersection(spaces, method="consensus", point=point, proof=bounds)


def _matrix_weights(problem: DualProblem, weights: np.ndarray) -> np.ndarray:
    """Return weights of the metrics, of sum 1, for weights of the distances."""
    scaled = weights * problem.inverse_squares
    return scaled / scaled.sum()


def repair(
    problem: DualProblem,
    spaces: Sequence[GoodEnoughSpace],
    *,
    step: np.ndarray,
    inner_step: np.ndarray,
) -> np.ndarray:
    """Go from base + step towards base + inner_step, a point in all, until in all.

    After the part t of the way ``q_k - 1 = quadratic t^2 + linear t + excess``. Where
    the excess is above 0 its first root is ``2 excess / (-linear + root)``.
    """
    direction = inner_step - step
    forces, distances = problem.forces(step)
    linear = 2.0 * np.einsum("ij,kij->k", direction, forces)
    products = problem.apply([direction] * len(spaces))
    quadratic = np.einsum("ij,kij->k", direction, products)
    excess = distances - 1.0
    root = np.sqrt(np.maximum(linear**2 - 4.0 * quadratic * excess, 0.0))
    is_outside = excess > 0
    # A denominator of 0 but for rounding makes the step a whole one.
    tiny = np.finfo(np.float64).tiny
    denominators = np.maximum(root - linear, tiny)[is_outside]
    part = float((2.0 * excess[is_outside] / denominators).max(initial=0.0))
    # What rounding still leaves outside is settled by a little more of the way.
    for extra_part in _EXTRA_PARTS:
        if part + extra_part >= 1.0:
            break
        point = problem.model(step + (part + extra_part) * direction)
        if normalized_distances(spaces, point).max() <= 1.0:
            return point
    return problem.model(inner_step)


# ---- the hinge -----------------------------------------------------------------------


def _hinge(
    problem: DualProblem, spaces: list[GoodEnoughSpace], *, tol: float, max_iter: int
) -> Intersection:
    mean = np.mean([space.center for space in spaces], axis=0)
    bounds = find_deepest(problem, tol=tol, max_iter=max_iter)
    if normalized_distances(spaces, mean).max() <= 1.0:
        return _intersection(
            spaces, method="hinge", point=mean, proof=replace(bounds, n_iter=0)
        )
    deepest = problem.model(bounds.step)
    they_meet = normalized_distances(spaces, deepest).max() <= 1.0
    point, n_iter = _minimize_hinge(spaces, mean, smoothing=0.0, max_iter=max_iter)
    if not they_meet:
        # The sum has kinks, at which L-BFGS gets stuck: it goes by sums without.
        smoothed = point
        for smoothing in _SMOOTHING:
            smoothed, n_steps = _minimize_hinge(
                spaces, smoothed, smoothing=smoothing, max_iter=max_iter
            )
            n_iter += n_steps
        point = min(
            (point, smoothed, deepest),
            key=lambda model: _hinge_sum(spaces, model, smoothing=0.0)[0],
        )
    elif normalized_distances(spaces, point).max() > 1.0:
        point = repair(
            problem, spaces, step=point - problem.base, inner_step=bounds.step
        )
    bounds.n_iter = n_iter
    return _intersection(spaces, method="hinge", point=point, proof=bounds)


def _hinge_sum(
    spaces: Sequence[GoodEnoughSpace], point: np.ndarray, *, smoothing: float
) -> tuple[float, np.ndarray]:
    """Return ``sum_k max(0, d_k - R_k)`` and its gradient.

    With smoothing s each term is a parabola up to ``d_k - R_k = s R_k``, and a line
    from there on.
    """
    total = 0.0
    gradient = np.zeros_like(point)
    for space in spaces:
        distance = space.distance(point)
        excess = distance - space.radius
        width = smoothing * space.radius
        if excess <= 0:
            continue
        slope = 1.0 if excess >= width else excess / width
        total += excess - width / 2 if excess >= width else excess * slope / 2
        gradient += slope / distance * space.metric.mv(point - space.center)
    return total, gradient


def _minimize_hinge(
    spaces: Sequence[GoodEnoughSpace],
    start: np.ndarray,
    *,
    smoothing: float,
    max_iter: int,
) -> tuple[np.ndarray, int]:
    """Return the point at which L-BFGS ends, and its number of steps."""

    def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _hinge_sum(
            spaces, flat.reshape(start.shape), smoothing=smoothing
        )
        return value, gradient.ravel()

    optimum = optimize.minimize(
        value_and_gradient,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        # To the end: the first point inside has a sum and a gradient of exactly 0.
        options={"maxiter": max_iter, "gtol": 0.0, "ftol": 0.0},
    )
    return optimum.x.reshape(start.shape), int(optimum.nit)


# ---- the likeliest -------------------------------------------------------------------


def likeliest(
    spaces: Sequence[GoodEnoughSpace],
    minimize: Callable[[np.ndarray, Penalty, np.ndarray], np.ndarray],
    start: np.ndarray,
    n_rows: float,
) -> Intersection:
    """Find the model of least loss in all spaces; if they do not meet, the deepest.

    ``minimize(start, penalty, forces)`` returns the minimiser of the loss and a
    penalty, whose second derivatives are about the sum of 2 forces_k P_k. `start` is
    the minimiser of the loss alone, a sum over `n_rows`.

    By the method of multipliers: with multipliers m_k >= 0 and the strength s, space k
    adds ``(max(0, m_k + s (q_k - 1))^2 - m_k^2) / (2 s)`` to the loss, and after each
    minimization m_k becomes ``max(0, m_k + s (q_k - 1))``. Multipliers that stay are
    those of the constraints q_k <= 1.
    """
    spaces = list(spaces)
    check_spaces(spaces)
    if normalized_distances(spaces, start).max() <= 1.0:
        proof = Bounds(
            tol=ROUNDING_OF_SUMS, lower_bound=0.0, weights=np.zeros(len(spaces))
        )
        return _intersection(spaces, method="likelihood", point=start, proof=proof)
    problem = DualProblem(spaces)
    bounds = find_deepest(
        problem, tol=ROUNDING_OF_SUMS, max_iter=MOST_STEPS, inside=_WELL_INSIDE
    )
    deepest = _intersection(
        spaces, method="likelihood", point=problem.model(bounds.step), proof=bounds
    )
    if not deepest.found:
        return deepest
    squared_radii = np.array([space.radius**2 for space in spaces])
    point = start
    multipliers = np.zeros(len(spaces))
    excess = normalized_distances(spaces, point) - 1.0
    strength = _FIRST_STRENGTH * n_rows
    last_violation = np.inf
    for _ in range(MOST_STEPS):
        penalty = partial(
            _penalty, spaces=spaces, multipliers=multipliers, strength=strength
        )
        # About the second derivatives of the penalty, by those of squared distances.
        forces = np.maximum(0.0, multipliers + strength * excess) / squared_radii
        point = minimize(point, penalty, forces)
        bounds.n_iter += 1
        excess = normalized_distances(spaces, point) - 1.0
        # Outside of a space, or inside of one that has a multiplier.
        violation = np.abs(np.maximum(excess, -multipliers / strength)).max()
        multipliers = np.maximum(0.0, multipliers + strength * excess)
        is_slow = violation > _SLOW_PROGRESS * last_violation
        # An update that brings little is the last: what is still missed is what
        # minimizations leave, which end a little before their minima. It is repaired.
        if violation < _SETTLED or (is_slow and violation < TOLERANCE):
            break
        if is_slow:
            strength *= _STRENGTHENING
        last_violation = violation
    point = repair(problem, spaces, step=point - problem.base, inner_step=bounds.step)
    if multipliers.any():
        bounds.weights = multipliers / multipliers.sum()
    return _intersection(spaces, method="likelihood", point=point, proof=bounds)


def _penalty(
    W: np.ndarray,
    *,
    spaces: Sequence[GoodEnoughSpace],
    multipliers: np.ndarray,
    strength: float,
) -> tuple[float, np.ndarray]:
    """Return what spaces add to the loss at W, see `likeliest`, and its gradient."""
    total = 0.0
    gradient = np.zeros_like(W)
    for space, multiplier in zip(spaces, multipliers, strict=True):
        squared_radius = space.radius**2
        delta = W - space.center
        product = space.metric.mv(delta)
        excess = np.vdot(delta, product) / squared_radius - 1.0
        force = max(0.0, multiplier + strength * excess)
        total += (force**2 - multiplier**2) / (2.0 * strength)
        gradient += (2.0 * force / squared_radius) * product
    return total, gradient


# ---- which do not meet ---------------------------------------------------------------


def likely_conflicts(
    spaces: Sequence[GoodEnoughSpace],
    point: np.ndarray,
    weights: np.ndarray,
    n_pairs: int,
) -> Iterator[tuple[int, int]]:
    """Yield pairs proved not to meet, of `n_pairs` of the largest product of weights.

    The weights are the dual ones, and `point` is the point that they belong to.
    """
    # The pairs of largest product are among the first spaces.
    heaviest = np.sort(np.argsort(-weights, kind="stable")[: n_pairs + 1])
    first, second = np.triu_indices(len(heaviest), 1)
    products = weights[heaviest[first]] * weights[heaviest[second]]
    pairs = np.argsort(-products, kind="stable")[:n_pairs]
    # Spaces that hold one and the same point need no proof.
    is_outside = normalized_distances(spaces, point) > 1.0
    for i, j in heaviest[np.stack([first, second], axis=1)[pairs]].tolist():
        if (is_outside[i] or is_outside[j]) and disjoint(spaces[i], spaces[j]):
            yield i, j


def disjoint(one: GoodEnoughSpace, other: GoodEnoughSpace) -> bool:
    """Report whether it is proved that two spaces do not meet."""
    distance_by_one = one.distance(other.center)
    distance_by_other = other.distance(one.center)
    # At the part t of the line from one center to the other, the distances are t and
    # 1 - t times these. The spaces meet on it, or but for rounding, where
    # one.radius / distance_by_one + other.radius / distance_by_other >= 1.
    reach = one.radius * distance_by_other + other.radius * distance_by_one
    if reach >= (1.0 - ROUNDING_OF_SUMS) * distance_by_one * distance_by_other:
        return False
    # Of one metric, they meet nowhere else.
    if one.metric is other.metric:
        return True
    bounds = find_deepest(
        DualProblem([one, other]),
        tol=ROUNDING_OF_SUMS,
        max_iter=MOST_STEPS,
        inside=1.0,
        outside=1.0 + ROUNDING_OF_SUMS,
    )
    return bounds.lower_bound > 1.0 + ROUNDING_OF_SUMS
