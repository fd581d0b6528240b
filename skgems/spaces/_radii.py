"""How far a model may move before its accuracy or its log-loss is too bad.

A profile has the radius of the good-enough space for every epsilon at once: it tells,
for each distance R, the worst that a model within R of the center may score, along
random rays (sampled) or at all (certified).

Accuracy. With the margin m_ic of row i against output c and the squared norms v of the
metric, ``v_ic = [x_i; 1]' P_c^-1 [x_i; 1]``, no change shorter than

    min_c m_ic / sqrt(v_iy + v_ic)

loses row i (certified); on a ray the row is lost at ``1 / max_c (change_ic / m_ic)``.
The sorted distances are the profile.

Log-loss. The mean loss is convex, and within R it is at most (certified)

    loss + sqrt(2) s R mean_i max_c sqrt(v_ic)    and
    loss + R |gradient| + R^2 / 2 * s^2 / 2 * max_c mean_i v_ic,

with s the scale of the logits: a row's loss is sqrt(2)-Lipschitz in its logits, and its
second derivative is at most 1/2. Sampled, the largest loss over the rays is taken at
some distances (*knots*); chords between them lie above it, since it is convex.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, special
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.extmath import row_norms

from ..moments import (
    CACHE_BYTES,
    ROUNDING_OF_SUMS,
    SMALLEST,
    float_type,
    working_bytes,
)
from ._gram import GramMetric, white_rows
from ._margins import MOST_ROWS, Margins, Rays
from ._metric import N_PILOTS, NEGLIGIBLE, Metric, n_constrained
from ._outputs import Rows
from ._space import RandomSource

_EPS = np.finfo(np.float64).eps
# Levels that a profile is thinned to: a thousandth of the rows is no loss, and what a
# node sends no longer grows with its rows.
_MOST_LEVELS = 1001
# A log-loss whose space is not empty, as a multiple of that of the center. At exactly
# that of the center nothing may move.
_NEAR_SCORE = 1.05


def rows_needed(epsilon: float, n_rows: int) -> int:
    """Return the smallest number m with ``m / n_rows >= epsilon`` in floats."""
    needed = int(np.ceil(epsilon * n_rows))
    if needed > 0 and (needed - 1) / n_rows >= epsilon:
        return needed - 1
    return needed + (needed / n_rows < epsilon)


# ---- accuracy ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class AccuracyProfile:
    """Radius for every accuracy that is to be kept."""

    n_rows: int  # that the model was tried on
    score: float  # accuracy of the center
    # Sorted. radii[j] is the smallest distance at which more than may_lose[j] of the
    # rows that the center has right may be lost.
    radii: np.ndarray = field(repr=False)
    # One longer, increasing from 0 to all rows that the center has right.
    may_lose: np.ndarray = field(repr=False)

    def thinned(self, most: int = _MOST_LEVELS) -> "AccuracyProfile":
        """Return the profile at fewer levels; others have a higher one's radius."""
        if len(self.radii) <= most:
            return self
        levels = np.linspace(0, len(self.radii) - 1, most).astype(np.intp)
        may_lose = np.append(self.may_lose[levels], self.may_lose[-1])
        return replace(self, radii=self.radii[levels], may_lose=may_lose)

    def radius(self, epsilon: float, max_radius: float = np.inf) -> float:
        """Return the largest radius with ``ceil(epsilon * n_rows)`` right rows."""
        n_right = self.may_lose[-1]
        may_lose = n_right - rows_needed(epsilon, self.n_rows)
        if may_lose < 0:
            return 0.0
        if may_lose == n_right:
            return float(max_radius)
        last = np.searchsorted(self.may_lose, may_lose, side="right") - 1
        return float(min(self.radii[last], max_radius))

    def best_epsilon(self) -> float | None:
        """Return the highest accuracy that some models around the center reach."""
        n_losing = np.count_nonzero(self.radii <= SMALLEST)
        if n_losing == len(self.radii):
            return None
        return float((self.may_lose[-1] - self.may_lose[n_losing]) / self.n_rows)

    def level(self, distance: float) -> float:
        """Return the accuracy that models at most so far away have at least."""
        n_lost = self.may_lose[np.searchsorted(self.radii, distance, side="left")]
        return float((self.may_lose[-1] - n_lost) / self.n_rows)


def accuracy_profile(
    X: Rows,
    y: np.ndarray,
    center: np.ndarray,
    metric: Metric,
    *,
    outputs: ArrayLike | None = None,
    construction: str = "sampled",
    n_directions: int = 500,
    random_state: RandomSource = None,
) -> AccuracyProfile:
    """Return how far a model may move before it loses its rows (2019, Algorithm 2)."""
    node = Margins(X, y, center, metric, outputs=outputs, construction=construction)
    n_rows = node.n_rows
    right = np.flatnonzero(node.right)
    if node.certified:
        radii = np.sort(_certified_radii(node)[node.right])
    else:
        if n_rows > MOST_ROWS:  # some stand for all, evenly spaced by their margin
            # The label's logit less the largest of the others.
            margins = node.margins[:, right]
            margins[node.label[right], np.arange(len(right))] = np.inf
            node = node.thinned(right, order_by=margins.min(axis=0))
        radii = _sampled_radii(node, node.rays(n_directions, random_state))
    # Each radius stands for as many of the right rows as there are radii.
    may_lose = np.arange(len(radii) + 1) * len(right) // max(len(radii), 1)
    return AccuracyProfile(
        n_rows=n_rows, score=len(right) / n_rows, radii=radii, may_lose=may_lose
    )


def _certified_radii(node: Margins) -> np.ndarray:
    """Return each row's distance within which no model loses it, (n_rows,)."""
    rows = np.arange(node.n_rows)
    squares = node.norms
    # Norms are (1, n_rows) where they are the same for all outputs.
    squares_of_label = squares[node.label if len(squares) > 1 else 0, rows]
    # Margins are shortened twice, so that rounding errs on the safe side: by what
    # rounding of the logits can be, |x| |w| eps by Cauchy and Schwarz, and by that of
    # the distances.
    lengths = np.sqrt(row_norms(node.X, squared=True) + 1.0)
    largest = np.sqrt(np.max(np.sum(node.weights**2, axis=0)))
    rounding = 4.0 * np.finfo(np.float64).eps * np.sqrt(len(node.weights))
    margins = np.maximum(node.margins - rounding * largest * lengths, 0.0)
    margins *= 1.0 - ROUNDING_OF_SUMS
    # An output that cannot move against the label's gives 0 / 0 or x / 0.
    with np.errstate(divide="ignore", invalid="ignore"):
        radii = margins / np.sqrt(squares + squares_of_label)
    radii[node.label, rows] = np.inf
    radii[np.isnan(radii)] = 0.0
    return radii.min(axis=0)


def _sampled_radii(node: Margins, rays: Rays) -> np.ndarray:
    """Return sorted distances at which right rows are lost, each on its worst ray.

    The j-th is the smallest over the rays of the j-th smallest on a ray.
    """
    dtype = float_type(node.X)
    n_right = int(node.right.sum())
    # A row fails at 1 / max_c (change / margin); 0 for rows that do not count.
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.minimum(1.0 / node.margins, _EPS**-2).astype(dtype, copy=False)
    inverse[node.label, np.arange(node.n_rows)] = 0.0
    inverse[:, ~node.right] = 0.0
    fastest = np.zeros(n_right)
    for batch, scale, parts in rays.chunks():
        rates = np.empty((batch.stop - batch.start, node.n_rows), dtype=dtype)
        for rows, changes in parts:
            node.against_label(changes, rows)
            changes *= inverse[:, rows]
            changes.max(axis=1, out=rates[:, rows])
        rates *= scale.astype(dtype)[:, None]
        rates.sort(axis=1)
        np.maximum(fastest, rates[:, node.n_rows - n_right :].max(axis=0), out=fastest)
    with np.errstate(divide="ignore"):
        # abs: a rate may be -0.0, whose inverse is not infinity.
        radii = 1.0 / np.abs(fastest[::-1])
    radii[radii < _EPS] = 0.0  # a tie, against the change that a unit step makes
    return radii


# ---- log-loss ------------------------------------------------------------------------

# Sampled losses are stored at distances in geometric progression, from where pilot rays
# begin to lose to where they lose linearly. The ratio is so small that chords overshoot
# a parabola by 1 % of its height at most.
_KNOT_RATIO = 1.2
# Knots that are added at either end, as other rays than the pilots may be steeper: with
# one, radii for a loss 1 % above the center's are up to a half smaller.
_MARGIN = 3
# Exponentials of float32 up to this do not overflow, nor do sums and products of two.
_LARGEST_EXPONENT = np.log(np.sqrt(np.finfo(np.float32).max))


@dataclass(frozen=True, eq=False, kw_only=True)
class LossProfile:
    """Radius for every mean log-loss: at most chords of the knots, and the parabola."""

    n_rows: int  # that the model was tried on
    score: float  # mean log-loss of the center
    knots: np.ndarray = field(repr=False)  # increasing distances, the first is 0
    losses: np.ndarray = field(repr=False)  # largest mean loss at each
    slope: float  # of the bound beyond the last knot
    # The parabola is score + R gradient + R^2 curvature / 2; infinite: there is none.
    gradient: float = np.inf
    curvature: float = np.inf

    def radius(self, epsilon: float, max_radius: float = np.inf) -> float:
        """Return the largest radius within which the loss is at most epsilon."""
        if epsilon < self.score:
            return 0.0
        radius = max(self._radius_on_chords(epsilon), self._radius_on_parabola(epsilon))
        return float(min(radius, max_radius))

    def _radius_on_chords(self, epsilon: float) -> float:
        reached = np.flatnonzero(self.losses <= epsilon)
        if not len(reached):  # by rounding: the first loss is the score
            return 0.0
        last = int(reached[-1])
        slopes = np.append(np.diff(self.losses) / np.diff(self.knots), self.slope)
        if slopes[last] > 0:
            return self.knots[last] + (epsilon - self.losses[last]) / slopes[last]
        return np.inf

    def _radius_on_parabola(self, epsilon: float) -> float:
        if not np.isfinite(self.curvature):
            return 0.0
        spare = epsilon - self.score
        root = np.sqrt(self.gradient**2 + 2.0 * self.curvature * spare)
        return 2.0 * spare / (self.gradient + root) if root > 0 else np.inf

    def best_epsilon(self) -> float | None:
        """Return a log-loss that models not too near the center reach."""
        epsilon = _NEAR_SCORE * self.score
        return epsilon if self.radius(epsilon) > SMALLEST else None

    def level(self, distance: float) -> float:
        """Return the mean log-loss that models at most so far away do not exceed."""
        loss = np.interp(distance, self.knots, self.losses)
        loss += self.slope * max(distance - self.knots[-1], 0.0)
        if np.isfinite(self.curvature):
            steepness = self.gradient + 0.5 * self.curvature * distance
            loss = min(loss, self.score + distance * steepness)
        return float(loss)

    def thinned(self) -> "LossProfile":
        """Return the profile itself: its knots are few."""
        return self


def loss_profile(
    X: Rows,
    y: np.ndarray,
    center: np.ndarray,
    metric: Metric,
    *,
    outputs: ArrayLike | None = None,
    construction: str = "sampled",
    n_directions: int = 500,
    logit_scale: float = 1.0,
    random_state: RandomSource = None,
) -> LossProfile:
    """Return bounds of the mean loss of ``logit_scale * logits``, by distance."""
    node = Margins(
        X, y, center, metric, outputs=outputs, construction=construction, norms=True
    )
    if not node.known.all():
        raise ValueError(
            "criterion='log_loss' needs rows whose labels are compared, but "
            f"{int((~node.known).sum())} rows of {node.n_rows} have another label. "
            "Leave these rows out, or compare the outputs of their labels."
        )
    if node.certified:
        return _certified_loss(node, logit_scale)
    return _sampled_loss(
        node,
        logit_scale,
        n_directions=n_directions,
        rng=check_random_state(random_state),
    )


def _certified_loss(node: Margins, scale: float) -> LossProfile:
    """Return bounds on the loss: the Lipschitz one as a line, and a parabola."""
    loss = float(special.logsumexp(-scale * node.margins, axis=0).mean())
    # Within R the mean norm of the logits' changes is at most R times the mean of the
    # rows' largest norms; for a gram metric also at most R times the root of the
    # largest eigenvalue of A^(-1) X1' X1 / n.
    norms = node.norms
    mean_norm = float(np.sqrt(norms.max(axis=0)).mean())
    mean_square = float(norms.mean(axis=1).max())
    if isinstance(node.metric, GramMetric) and np.isfinite(norms).all():
        largest = _largest_eigenvalue(node.X, node.metric)
        if node.metric.output_weights is not None:
            largest /= node.metric.output_weights[node.columns].min()
        mean_norm = min(mean_norm, np.sqrt(largest))
        mean_square = min(mean_square, largest)
    gradient = _loss_gradient(node, scale)
    # Its length is measured by P^-1, as steps are by P.
    steepest = np.sqrt(max(np.vdot(gradient, node.metric.solve(gradient)), 0.0))
    return LossProfile(
        n_rows=node.n_rows,
        score=loss,
        knots=np.zeros(1),
        losses=np.array([loss]),
        slope=float(np.sqrt(2.0) * scale * mean_norm),
        gradient=float(steepest),
        curvature=0.5 * scale**2 * mean_square,
    )


def _loss_gradient(node: Margins, scale: float) -> np.ndarray:
    """Return the gradient (n_params, n_outputs) of the mean log-loss at the center."""
    residuals = special.softmax(-scale * node.margins, axis=0)
    residuals[node.label, np.arange(node.n_rows)] -= 1.0
    gradient = np.zeros((node.X.shape[1] + 1, node.n_outputs))
    gradient[:-1, node.columns] = node.X.T @ residuals.T
    gradient[-1, node.columns] = residuals.sum(axis=1)
    gradient *= scale / node.n_rows
    return gradient


def _largest_eigenvalue(X: Rows, metric: GramMetric) -> float:
    """Return the largest eigenvalue of A^(-1) X1' X1 / n, or infinity."""
    n_rows = X.shape[0]
    n_params = metric.shape[0]
    # The white rows in float64, their deviations and a copy.
    if 3 * 8 * n_rows * n_params > working_bytes():
        return np.inf
    white = white_rows(metric, X).astype(np.float64, copy=False)
    # Of the two products, which have the same eigenvalues but for zeros, the smaller.
    moments = white.T @ white if n_params <= n_rows else white @ white.T
    last = len(moments) - 1
    return float(linalg.eigvalsh(moments, subset_by_index=[last, last])[0] / n_rows)


def _sampled_loss(
    node: Margins, scale: float, *, n_directions: int, rng: np.random.RandomState
) -> LossProfile:
    """Return the largest loss over the rays, at knots that pilot rays choose."""
    row_losses = special.logsumexp(-scale * node.margins, axis=0)
    n_rows = node.n_rows
    loss = float(row_losses.mean())
    # What the mean loss of the rows that are followed is below that of all.
    offset = 0.0
    if n_rows > MOST_ROWS:
        node = node.thinned(np.arange(n_rows), order_by=row_losses)
        thinned_losses = special.logsumexp(-scale * node.margins, axis=0)
        offset = loss - float(thinned_losses.mean())
    step = _step_of_a_logit(node, scale)
    if step == 0:
        return LossProfile(
            n_rows=n_rows,
            score=loss,
            knots=np.zeros(1),
            losses=np.array([loss]),
            slope=0.0,
        )
    logit_size = max(1.0, scale * np.sqrt(np.mean(node.margins**2)))
    # The first knot is at the earliest where a step changes a logit by NEGLIGIBLE, and
    # the last one, after which losses are linear, at the latest at its inverse times
    # the size of the logits. A loss begins to rise where it is more than this part
    # above that of the center, and is linear where a chord has less than this part to
    # the final slope.
    grid = _geometric_grid(NEGLIGIBLE / step, logit_size / (NEGLIGIBLE * step))
    pilot_rays = node.rays(N_PILOTS, rng)
    pilot_losses, slope = _losses_on_rays(node, scale, rays=pilot_rays, knots=grid)
    is_rising = pilot_losses + offset > (1.0 + NEGLIGIBLE) * loss
    is_linear = np.diff(pilot_losses) >= (1.0 - NEGLIGIBLE) * slope * np.diff(grid)
    start = int(is_rising.argmax()) if is_rising.any() else 0
    stop = int(is_linear.argmax()) if is_linear.any() else len(grid)
    # The largest loss is convex in the distance, so chords between knots lie above it.
    knots = grid[max(start - _MARGIN, 0) : max(stop, start) + _MARGIN]
    rays = node.rays(n_directions, rng)
    losses, slope = _losses_on_rays(node, scale, rays=rays, knots=knots)
    return LossProfile(
        n_rows=n_rows,
        score=loss,
        knots=np.append(0.0, knots),
        losses=np.append(loss, losses + offset),
        slope=slope,
    )


def _step_of_a_logit(node: Margins, scale: float) -> float:
    """Estimate by how much a random step of unit length changes a logit."""
    n_dimensions = n_constrained(node.metric, node.n_outputs)
    # Rows with a feature that the metric does not show have no finite norm.
    norms = node.norms[np.isfinite(node.norms)]
    if not len(norms):
        return 0.0
    return scale * np.sqrt(norms.mean() / max(n_dimensions, 1))


def _geometric_grid(low: float, high: float) -> np.ndarray:
    n_knots = 1 + int(np.ceil(np.log(high / low) / np.log(_KNOT_RATIO)))
    return low * _KNOT_RATIO ** np.arange(n_knots)


def _losses_on_rays(
    node: Margins, scale: float, *, rays: Rays, knots: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return the largest mean loss of rays at knots, and the largest final slope."""
    # Exponentials are taken in float32; sums over rows are in float64.
    start = (-scale * node.margins).astype(np.float32)
    losses = np.full(len(knots), -np.inf)
    slope = -np.inf
    for batch, unit, parts in rays.chunks():
        sums = np.zeros((len(knots), batch.stop - batch.start))
        slopes = np.zeros(sums.shape[1])
        for rows, changes in parts:
            node.against_label(changes, rows)
            changes *= (scale * unit).astype(changes.dtype)[:, None, None]
            slopes += changes.max(axis=1).sum(axis=1, dtype=np.float64)
            _add_losses(sums, start=start[:, rows], changes=changes, knots=knots)
        np.maximum(losses, sums.max(axis=1) / node.n_rows, out=losses)
        slope = max(slope, float(slopes.max()) / node.n_rows)
    return losses, slope


def _add_losses(
    sums: np.ndarray, *, start: np.ndarray, changes: np.ndarray, knots: np.ndarray
) -> None:
    """Add each direction's summed log-loss on a block of rows at each knot.

    To `sums` (n_knots, n_directions), of logits ``start + knot * changes`` against the
    label's, with start (n_columns, n_rows) and changes (n_directions, n_columns,
    n_rows).
    """
    # As many directions at a time as stay in cache with their exponentials.
    n_block = max(1, CACHE_BYTES // 4 // max(start.size, 1))
    buffer = np.empty((min(n_block, len(changes)), *start.shape), dtype=np.float32)
    highest = start.max()
    for block in gen_batches(len(changes), n_block):
        block_changes = changes[block].astype(np.float32, copy=False)
        steepest = block_changes.max()
        logits = buffer[: len(block_changes)]
        for k, knot in enumerate(knots):
            np.multiply(block_changes, np.float32(knot), out=logits)
            logits += start
            row_maxima = 0.0
            if highest + knot * steepest > _LARGEST_EXPONENT:
                row_maxima = logits.max(axis=1)
                logits -= row_maxima[:, None]
            np.exp(logits, out=logits)
            row_losses = np.log(logits.sum(axis=1)) + row_maxima
            sums[k, block] += row_losses.sum(axis=1, dtype=np.float64)
