"""How far a model may move before its accuracy or its log-loss is too bad."""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy import linalg, special
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.extmath import row_norms

from ..moments import float_type, working_bytes
from ._margins import MOST_ROWS, Margins, Rays

# A margin this small, against the change a unit step makes, is a tie.
_TIE = 1e-15
# Relative rounding of a distance, by which certified radii are shortened.
_ROUNDING = 1e-9


def rows_needed(epsilon: float, n_rows: int) -> int:
    """Smallest number of right rows m with ``m / n_rows >= epsilon`` in floats."""
    needed = int(np.ceil(epsilon * n_rows))
    if needed > 0 and (needed - 1) / n_rows >= epsilon:
        return needed - 1
    return needed + (needed / n_rows < epsilon)


@dataclass(frozen=True, eq=False)
class AccuracyProfile:
    n_rows: int  # that the model was tried on
    score: float  # accuracy of the centre
    # Sorted. radii[j] is the smallest distance at which more than may_lose[j] of the
    # rows that the centre has right may be lost.
    radii: np.ndarray = field(repr=False)
    # Increasing from 0 to all rows that the centre has right.
    may_lose: np.ndarray = field(repr=False)

    def thinned(self, most: int = 1001) -> "AccuracyProfile":
        """The same at fewer levels; between them radii are those of a higher one."""
        if len(self.radii) <= most:
            return self
        kept = np.linspace(0, len(self.radii) - 1, most).astype(np.intp)
        may_lose = np.append(self.may_lose[kept], self.may_lose[-1])
        return replace(self, radii=self.radii[kept], may_lose=may_lose)

    def radius(self, epsilon: float, max_radius: float = np.inf) -> float:
        """Largest radius within which ``ceil(epsilon * n_rows)`` rows stay right."""
        n_right = self.may_lose[-1]
        may_lose = n_right - rows_needed(epsilon, self.n_rows)
        if may_lose < 0:
            return 0.0
        if may_lose == n_right:
            return float(max_radius)
        last = np.searchsorted(self.may_lose, may_lose, side="right") - 1
        return float(min(self.radii[last], max_radius))

    def level(self, distance: float) -> float:
        lost = self.may_lose[np.searchsorted(self.radii, distance, side="left")]
        return float((self.may_lose[-1] - lost) / self.n_rows)


def accuracy_profile(
    X, y, center, metric, *, n_directions=500, random_state=None, **how
) -> AccuracyProfile:
    """How far a model may move before it loses its rows (2019, Algorithm 2)."""
    node = Margins(X, y, center, metric, **how)
    n_rows, right = node.n_rows, np.flatnonzero(node.right)
    if node.certified:
        radii = np.sort(_certified_radii(node)[node.right])
    else:
        if n_rows > MOST_ROWS:  # some stand for all, evenly spaced by their margin
            # The label's logit less the largest of the others.
            others = node.margins[:, right]
            others[node.label[right], np.arange(len(right))] = np.inf
            node = node.thinned(right, others.min(axis=0))
        radii = _sampled_radii(node, node.rays(n_directions, random_state))
    may_lose = np.arange(len(radii) + 1) * len(right) // max(len(radii), 1)
    return AccuracyProfile(n_rows, len(right) / n_rows, radii, may_lose)


def _certified_radii(node: Margins) -> np.ndarray:
    # The worst direction for a row: min_c (z_y - z_c) / sqrt(v_y + v_c), v the norms.
    index, squared = np.arange(node.n_rows), node.norms
    own = squared[node.label if len(squared) > 1 else 0, index]
    # Short of where rounding of margins (by Cauchy and Schwarz) or distances goes over.
    lengths = np.sqrt(row_norms(node.X, squared=True) + 1.0)
    largest = np.sqrt(np.max(np.sum(node.weights**2, axis=0)))
    digits = 4.0 * np.finfo(np.float64).eps * np.sqrt(len(node.weights))
    margins = np.maximum(node.margins - digits * largest * lengths, 0.0)
    margins *= 1.0 - _ROUNDING
    # An output that cannot move against the label's gives 0 / 0 or x / 0.
    with np.errstate(divide="ignore", invalid="ignore"):
        radii = margins / np.sqrt(squared + own)
    radii[node.label, index] = np.inf
    radii[np.isnan(radii)] = 0.0
    return radii.min(axis=0)


def _sampled_radii(node: Margins, rays: Rays) -> np.ndarray:
    dtype = float_type(node.X)
    n_right = int(node.right.sum())
    # A row fails at 1 / max_c (change / margin); 0 for rows that do not count.
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.minimum(1.0 / node.margins, _TIE**-2).astype(dtype, copy=False)
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
    radii[radii < _TIE] = 0.0
    return radii


# Sampled losses are stored at distances in geometric progression, from where pilot rays
# begin to lose to where they lose linearly: the ratio, the widest range in units of the
# step that changes a logit by 1 (its upper end by its own size), and a margin in knots.
_KNOT_RATIO = 1.2
_WIDEST = (1e-3, 1e3)
_N_PILOTS = 16
_MARGIN = 3
# And some more far out, where steeper rays than the pilots' may overtake.
_TAIL = 2.0 ** np.arange(1, 7)
# float32 exponentials overflow above 88.
_LARGEST_EXPONENT = 80.0


@dataclass(frozen=True, eq=False)
class LossProfile:
    """Radius for every mean log-loss: at most chords of the knots, and the parabola."""

    n_rows: int  # that the model was tried on
    score: float  # mean log-loss of the centre
    knots: np.ndarray = field(repr=False)  # increasing distances, the first is 0
    losses: np.ndarray = field(repr=False)
    slope: float  # of the bound beyond the last knot
    # Infinite where there is no parabola.
    gradient: float = np.inf
    curvature: float = np.inf

    def radius(self, epsilon: float, max_radius: float = np.inf) -> float:
        spare, on_chords, on_parabola = epsilon - self.score, 0.0, 0.0
        if spare < 0:
            return 0.0
        reached = np.flatnonzero(self.losses <= epsilon)
        if len(reached):  # else by rounding
            last = int(reached[-1])
            slopes = np.append(np.diff(self.losses) / np.diff(self.knots), self.slope)
            on_chords = np.inf
            if slopes[last] > 0:
                more = (epsilon - self.losses[last]) / slopes[last]
                on_chords = self.knots[last] + more
        if np.isfinite(self.curvature):
            root = np.sqrt(self.gradient**2 + 2.0 * self.curvature * spare)
            on_parabola = 2.0 * spare / (self.gradient + root) if root > 0 else np.inf
        return float(min(max(on_chords, on_parabola), max_radius))

    def level(self, distance: float) -> float:
        """The mean log-loss that models at most so far away do not exceed."""
        found = np.interp(distance, self.knots, self.losses)
        found += self.slope * max(distance - self.knots[-1], 0.0)
        if np.isfinite(self.curvature):
            steepness = self.gradient + 0.5 * self.curvature * distance
            found = min(found, self.score + distance * steepness)
        return float(found)

    def thinned(self) -> "LossProfile":
        """The same: its knots are few."""
        return self


def loss_profile(
    X, y, center, metric, *, n_directions=500, logit_scale=1.0, random_state=None, **how
) -> LossProfile:
    """How the mean loss of ``logit_scale * logits`` is bound; as `accuracy_profile`."""
    node = Margins(X, y, center, metric, norms=True, **how)
    if not node.known.all():
        raise ValueError(
            "criterion='log_loss' needs rows whose labels are compared: "
            f"{int((~node.known).sum())} rows of {node.n_rows} have another label."
        )
    if node.certified:
        return _certified_loss(node, logit_scale)
    rng = check_random_state(random_state)
    return _sampled_loss(node, logit_scale, n_directions, rng)


def _certified_loss(node: Margins, scale: float) -> LossProfile:
    # A row's log-loss is sqrt(2)-Lipschitz in its logits, and its second derivative is
    # at most 1/2. Within R the mean norm of the logits' changes is at most R times the
    # mean of the rows' largest norms; for a gram metric also at most R times the root
    # of the largest eigenvalue of A^(-1) X1' X1 / n.
    loss = float(special.logsumexp(-scale * node.margins, axis=0).mean())
    norms = node.norms
    mean_norm = float(np.sqrt(norms.max(axis=0)).mean())
    mean_square = float(norms.mean(axis=1).max())
    if node.metric.family == "gram" and np.isfinite(norms).all():
        top = _largest_eigenvalue(node.X, node.metric)
        if node.metric.output_weights is not None:
            top /= node.metric.output_weights[node.columns].min()
        mean_norm, mean_square = min(mean_norm, np.sqrt(top)), min(mean_square, top)
    residuals = special.softmax(-scale * node.margins, axis=0)
    residuals[node.label, np.arange(node.n_rows)] -= 1.0
    gradient = np.zeros((node.X.shape[1] + 1, node.n_outputs))
    gradient[:-1, node.columns] = node.X.T @ residuals.T
    gradient[-1, node.columns] = residuals.sum(axis=1)
    gradient *= scale / node.n_rows
    steepest = np.sqrt(max(np.vdot(gradient, node.metric.solve(gradient)), 0.0))
    slope, curvature = np.sqrt(2.0) * scale * mean_norm, 0.5 * scale**2 * mean_square
    chords = np.zeros(1), np.array([loss]), float(slope)
    return LossProfile(node.n_rows, loss, *chords, float(steepest), curvature)


def _largest_eigenvalue(X, metric) -> float:
    """Largest eigenvalue of A^(-1) X1' X1 / n; infinite where rows are too many."""
    n_rows, n_params = X.shape[0], metric.n_params
    if 3 * 8 * n_rows * n_params > working_bytes():
        return np.inf
    white = metric.whiten_rows(X).astype(np.float64, copy=False)
    moments = white.T @ white if n_params <= n_rows else white @ white.T
    last = len(moments) - 1
    return float(linalg.eigvalsh(moments, subset_by_index=[last, last])[0] / n_rows)


def _sampled_loss(node: Margins, scale: float, n_directions: int, rng) -> LossProfile:
    losses = special.logsumexp(-scale * node.margins, axis=0)
    n_rows, loss, away = node.n_rows, float(losses.mean()), 0.0
    if n_rows > MOST_ROWS:
        node = node.thinned(np.arange(n_rows), losses)
        away = loss - float(special.logsumexp(-scale * node.margins, axis=0).mean())
    n_moved = node.metric.n_constrained(node.n_outputs)
    # A unit step changes a logit by about this much.
    # Rows with a feature that the metric does not show have no finite norm.
    norms = node.norms[np.isfinite(node.norms)]
    step = scale * np.sqrt(norms.mean() / max(n_moved, 1)) if len(norms) else 0.0
    if step == 0:
        return LossProfile(n_rows, loss, np.zeros(1), np.array([loss]), slope=0.0)
    size = max(1.0, scale * np.sqrt(np.mean(node.margins**2)))
    low, high = _WIDEST[0] / step, _WIDEST[1] * size / step
    n_grid = 1 + int(np.ceil(np.log(high / low) / np.log(_KNOT_RATIO)))
    grid = low * _KNOT_RATIO ** np.arange(n_grid)
    pilots, slope = _losses_on_rays(node, scale, node.rays(_N_PILOTS, rng), grid)
    rising = pilots + away > (1.0 + 1e-3) * loss
    linear = np.diff(pilots) >= 0.99 * slope * np.diff(grid)
    start = int(rising.argmax()) if rising.any() else 0
    stop = int(linear.argmax()) if linear.any() else n_grid
    knots = grid[max(start - _MARGIN, 0) : max(stop, start) + _MARGIN]
    # The largest loss is convex in the distance, so chords between knots lie above it.
    knots = np.concatenate([knots, knots[-1] * _TAIL])
    losses, slope = _losses_on_rays(node, scale, node.rays(n_directions, rng), knots)
    losses, knots = np.append(loss, losses + away), np.append(0.0, knots)
    return LossProfile(n_rows, loss, knots, losses, slope)


def _losses_on_rays(node: Margins, scale: float, rays: Rays, knots) -> tuple:
    """Largest mean loss over the rays at each knot, and the largest final slope."""
    # Exponentials are taken in float32; sums over rows are in float64.
    start = (-scale * node.margins).astype(np.float32)
    losses, slope = np.full(len(knots), -np.inf), -np.inf
    for batch, unit, parts in rays.chunks():
        sums = np.zeros((len(knots), batch.stop - batch.start))
        slopes = np.zeros(sums.shape[1])
        for rows, changes in parts:
            node.against_label(changes, rows)
            changes *= (scale * unit).astype(changes.dtype)[:, None, None]
            slopes += changes.max(axis=1).sum(axis=1, dtype=np.float64)
            _add_losses(sums, start[:, rows], changes, knots)
        np.maximum(losses, sums.max(axis=1) / node.n_rows, out=losses)
        slope = max(slope, float(slopes.max()) / node.n_rows)
    return losses, slope


def _add_losses(sums, start, changes, knots) -> None:
    """Add each direction's summed log-loss on a block of rows at each knot."""
    # As many directions at a time as stay in cache with their exponentials.
    n_block = max(1, 2**17 // max(start.size, 1))
    buffer = np.empty((min(n_block, len(changes)), *start.shape), dtype=np.float32)
    highest = start.max()
    for block in gen_batches(len(changes), n_block):
        some = changes[block].astype(np.float32, copy=False)
        steepest = some.max()
        logits = buffer[: len(some)]
        for k, knot in enumerate(knots):
            np.multiply(some, np.float32(knot), out=logits)
            logits += start
            top = 0.0
            if highest + knot * steepest > _LARGEST_EXPONENT:
                top = logits.max(axis=1)
                logits -= top[:, None]
            np.exp(logits, out=logits)
            total = np.log(logits.sum(axis=1)) + top
            sums[k, block] += total.sum(axis=1, dtype=np.float64)
