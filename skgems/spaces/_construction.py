# SPDX-License-Identifier: BSD-3-Clause
"""Constructions: how far from its centre a space may reach and stay good enough."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import linalg, special
from sklearn.utils.extmath import safe_sparse_dot

from ._metric import Metric, float_type, output_columns, working_bytes
from ._rays import Rays

__all__ = ["AccuracyProfile", "LossProfile", "accuracy_profile", "loss_profile"]

# A margin this small, against the change a unit step makes, is a tie.
_TIE = 1e-15
# Radii at which the sampled loss is stored: ratio of neighbours, and the range in
# units of the step that changes a logit by about its own size.
_KNOT_RATIO = 1.3
_KNOT_RANGE = (1e-2, 1e2)


def rows_needed(epsilon: float, n_rows: int) -> int:
    """Smallest number of right rows m with ``m / n_rows >= epsilon`` in floats."""
    needed = int(np.ceil(epsilon * n_rows))
    if needed > 0 and (needed - 1) / n_rows >= epsilon:
        needed -= 1
    elif needed / n_rows < epsilon:
        needed += 1
    return needed


@dataclass(frozen=True, eq=False)
class AccuracyProfile:
    """Radius of a space for every level of accuracy.

    Attributes
    ----------
    n_rows : int
        Rows the model was tried on.
    score : float
        Accuracy of the centre.
    radii : ndarray of shape (n_right,)
        Sorted. ``radii[j]`` is the smallest distance at which j + 1 of the rows that
        the centre has right may be lost.
    """

    n_rows: int
    score: float
    radii: np.ndarray

    def radius(self, epsilon: float, max_radius: float = np.inf) -> float:
        """Return the largest radius, up to `max_radius`, that keeps the accuracy.

        At every smaller distance at least ``ceil(epsilon * n_rows)`` rows are right.
        0 if the centre itself does not reach `epsilon`.
        """
        may_lose = len(self.radii) - rows_needed(epsilon, self.n_rows)
        if may_lose < 0:
            return 0.0
        if may_lose == len(self.radii):
            return float(max_radius)
        return float(min(self.radii[may_lose], max_radius))


@dataclass(frozen=True, eq=False)
class LossProfile:
    """Radius of a space for every level of the mean log-loss.

    The loss within a distance R is at most the smaller of two convex functions: the
    chords through (`knots`, `losses`), going on with slope `slope`, and the parabola
    ``score + gradient R + curvature R^2 / 2``.

    Attributes
    ----------
    n_rows : int
        Rows the model was tried on.
    score : float
        Mean log-loss of the centre.
    knots : ndarray of shape (n_knots,)
        Increasing distances, the first is 0.
    losses : ndarray of shape (n_knots,)
        Bounds of the loss there.
    slope : float
        Slope of the bound beyond the last knot.
    gradient, curvature : float
        The parabola's; infinite where there is none.
    """

    n_rows: int
    score: float
    knots: np.ndarray = field(repr=False)
    losses: np.ndarray = field(repr=False)
    slope: float
    gradient: float = np.inf
    curvature: float = np.inf

    def radius(self, epsilon: float, max_radius: float = np.inf) -> float:
        """Return the largest radius, up to `max_radius`, that keeps the loss.

        At every smaller distance the mean log-loss is at most `epsilon`. 0 if the
        centre's own loss is above it.
        """
        spare = epsilon - self.score
        if spare < 0:
            return 0.0
        return float(
            min(max(self._on_chords(epsilon), self._on_parabola(spare)), max_radius)
        )

    def _on_chords(self, epsilon: float) -> float:
        last = int(np.flatnonzero(self.losses <= epsilon)[-1])
        if last + 1 < len(self.knots):
            slope = np.diff(self.losses[last : last + 2])[0]
            slope /= np.diff(self.knots[last : last + 2])[0]
        else:
            slope = self.slope
        if slope <= 0:
            return np.inf
        return self.knots[last] + (epsilon - self.losses[last]) / slope

    def _on_parabola(self, spare: float) -> float:
        if not np.isfinite(self.curvature):
            return 0.0
        root = np.sqrt(self.gradient**2 + 2.0 * self.curvature * spare)
        return 2.0 * spare / (self.gradient + root) if root > 0 else np.inf


class _Margins:
    """The centre's logits on the rows, split into right and wrong ones."""

    def __init__(self, X, y, center, metric: Metric, outputs) -> None:
        center = np.asarray(center)
        n_rows, n_features = X.shape
        if n_rows == 0:
            raise ValueError("X has no rows.")
        if center.ndim != 2 or center.shape[0] != n_features + 1:
            raise ValueError(
                f"center must have shape ({n_features + 1}, n_outputs) for "
                f"{n_features} features, got {center.shape}."
            )
        if metric.n_params != center.shape[0] or (
            metric.n_outputs not in (None, center.shape[1])
        ):
            raise ValueError(
                f"The metric is for {metric.n_params} parameters and "
                f"{metric.n_outputs or 'any'} outputs, the center has {center.shape}."
            )
        y = np.asarray(y)
        if y.shape != (n_rows,) or y.dtype.kind not in "iu":
            raise ValueError(
                f"y must hold {n_rows} integers, the columns of the rows' labels; got "
                f"an array of {y.dtype} of shape {y.shape}."
            )
        if y.min() < 0 or y.max() >= center.shape[1]:
            raise ValueError(f"y must be between 0 and {center.shape[1] - 1}.")
        self.columns = output_columns(outputs, center.shape[1])
        positions = np.full(center.shape[1], -1)
        positions[self.columns] = np.arange(len(self.columns))
        self.X, self.metric, self.outputs = X, metric, outputs
        self.n_rows, self.n_outputs = n_rows, center.shape[1]
        self.known = positions[y] >= 0
        # The place of each row's label among the columns; of an unknown one, 0.
        self.label = np.where(self.known, positions[y], 0)
        typed = center[:, self.columns].astype(float_type(X), copy=False)
        logits = safe_sparse_dot(X, typed[:-1], dense_output=True)
        self.logits = logits.astype(np.float64, copy=False) + typed[-1]
        self.right = self.known & (self.logits.argmax(axis=1) == self.label)
        index = np.arange(n_rows)
        self.margins = self.logits[index, self.label][:, None] - self.logits

    def check_certifiable(self) -> None:
        free = self.metric.free_outputs(self.outputs)
        if len(free):
            raise ValueError(
                "construction='certified' cannot bound outputs whose parameters are "
                f"free: leave {free.tolist()} out of `outputs`."
            )

    def rays(self, n_directions: int, random_state) -> Rays:
        if n_directions < 1:
            raise ValueError(f"n_directions must be at least 1, got {n_directions}.")
        return Rays(
            self.X,
            self.metric,
            self.columns,
            self.n_outputs,
            n_directions,
            random_state,
        )

    def against_label(self, changes: np.ndarray, rows: slice) -> np.ndarray:
        """Turn changes of logits, in place, into changes against the label's logit."""
        own = changes[:, self.label[rows], np.arange(changes.shape[2])]
        changes -= own[:, None, :]
        return changes


def accuracy_profile(
    X,
    y: np.ndarray,
    center: np.ndarray,
    metric: Metric,
    *,
    outputs: np.ndarray | None = None,
    construction: str = "sampled",
    n_directions: int = 500,
    random_state=None,
) -> AccuracyProfile:
    r"""Find how far a model may move before it loses its rows, one after the other.

    The logits are linear in the parameters, so nothing is searched. On a ray from the
    centre, row i is right up to :math:`\min_c (z_{iy} - z_{ic}) / (\delta_{ic} -
    \delta_{iy})` over the outputs with :math:`\delta_{ic} > \delta_{iy}`, and the
    radius for any epsilon is an order statistic.

    - ``"sampled"``: the smallest over `n_directions` rays, uniform on the metric's
      unit surface. Rows that the centre has wrong never count as right.
    - ``"certified"``: the smallest over all directions, :math:`\min_c (z_{iy} -
      z_{ic}) / \sqrt{v_{iy} + v_{ic}}`, v being the squared `row_norms` of the metric.
      Every model strictly inside the radius has the promised accuracy on these rows,
      among the outputs compared.

    Parameters
    ----------
    X : {ndarray, csr_matrix} of shape (n_rows, n_features)
        Rows of the node, float32 or float64; products are done in their type.
    y : ndarray of int of shape (n_rows,)
        Output column of each row's label. One that is not compared is always wrong.
    center : ndarray of shape (n_features + 1, n_outputs)
        Parameters of the node's model, the intercepts in the last row.
    metric : DiagonalMetric or GramMetric
        Measures the distance.
    outputs : ndarray of bool of shape (n_outputs,), default=None
        Outputs that are compared. None: all.
    construction : {"sampled", "certified"}, default="sampled"
        See above.
    n_directions : int, default=500
        Rays drawn by "sampled".
    random_state : int, RandomState instance or None, default=None
        Source of the rays.

    Returns
    -------
    profile : AccuracyProfile

    Raises
    ------
    ValueError
        For shapes that do not fit, and where "certified" compares free outputs.

    References
    ----------
    Guha et al., "Model Aggregation via Good-Enough Model Spaces", 2019, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import accuracy_profile, ball_metric
    >>> X, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> center = np.array([[-1.0, 1.0], [0.0, 0.0]])
    >>> metric = ball_metric(2, np.array([True, True]))
    >>> profile = accuracy_profile(X, y, center, metric, construction="certified")
    >>> profile.score, profile.radii.round(3)
    (1.0, array([1.   , 1.   , 1.342, 1.342]))
    >>> round(profile.radius(0.5), 3)
    1.342
    """
    _check_construction(construction)
    node = _Margins(X, y, center, metric, outputs)
    if construction == "certified":
        node.check_certifiable()
        radii = np.sort(_certified_radii(node)[node.right])
    else:
        radii = _sampled_radii(node, node.rays(n_directions, random_state))
    return AccuracyProfile(node.n_rows, float(node.right.mean()), radii)


def _certified_radii(node: _Margins) -> np.ndarray:
    index = np.arange(node.n_rows)
    squared = node.metric.row_norms(node.X, node.outputs, squared=True)
    own = squared[index, node.label if squared.shape[1] > 1 else 0]
    # An output that cannot move against the label's gives 0 / 0 or x / 0.
    with np.errstate(divide="ignore", invalid="ignore"):
        radii = node.margins / np.sqrt(squared + own[:, None])
    radii[index, node.label] = np.inf
    return radii.min(axis=1)


def _sampled_radii(node: _Margins, rays: Rays) -> np.ndarray:
    dtype = float_type(node.X)
    n_right = int(node.right.sum())
    # A row fails at 1 / max_c (change / margin); 0 for rows that do not count.
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.minimum(1.0 / node.margins, _TIE**-2)
    inverse[np.arange(node.n_rows), node.label] = 0.0
    inverse[~node.right] = 0.0
    inverse = np.ascontiguousarray(inverse.T, dtype=dtype)
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
        radii = 1.0 / fastest[::-1]
    radii[radii < _TIE] = 0.0
    return radii


def loss_profile(
    X,
    y: np.ndarray,
    center: np.ndarray,
    metric: Metric,
    *,
    outputs: np.ndarray | None = None,
    construction: str = "sampled",
    n_directions: int = 500,
    logit_scale: float = 1.0,
    random_state=None,
) -> LossProfile:
    r"""Bound the mean log-loss of the models within a distance of the centre.

    - ``"sampled"``: the largest loss over `n_directions` rays. Along a ray the loss is
      convex in the distance, and so is the largest of them: it is computed at
      distances in geometric progression and followed on the chords between, which lie
      above it. So the radius is never too large for these rays; it falls short by at
      most about 2%. Beyond the last knot the bound is the steepest ray's final slope.
    - ``"certified"``: for every model within the distance R. The log-loss of a row is
      :math:`\sqrt 2`-Lipschitz in its logits and its second derivative is at most 1/2,
      so with the logits' change :math:`\Delta_i` (times `logit_scale`) both bounds hold

      .. math:: L(W) \le L(W^*) + \sqrt 2 \, \mathrm{mean}_i \|\Delta_i\|, \qquad
                L(W) \le L(W^*) + \langle \nabla L(W^*), W - W^* \rangle
                + \tfrac14 \mathrm{mean}_i \|\Delta_i\|^2 .

      Over the ball of radius R the mean norm is at most R times the mean of the rows'
      largest `row_norms`; for a gram metric also at most R times the root of the
      largest eigenvalue of :math:`A^{-1} X_1' X_1 / n` (at most 1 where A was made of
      the same rows). The smaller is used.

    Parameters
    ----------
    X, y, center, metric, outputs, n_directions, random_state
        See `accuracy_profile`; every label must be compared.
    construction : {"sampled", "certified"}, default="sampled"
        See above.
    logit_scale : float, default=1.0
        The loss is that of ``logit_scale * logits``.

    Returns
    -------
    profile : LossProfile

    Raises
    ------
    ValueError
        For shapes that do not fit, labels that are not compared, and where
        "certified" compares free outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import ball_metric, loss_profile
    >>> X, y = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> center = np.array([[-1.0, 1.0], [0.0, 0.0]])
    >>> metric = ball_metric(2, np.array([True, True]))
    >>> profile = loss_profile(X, y, center, metric, construction="certified")
    >>> round(profile.score, 3), round(profile.radius(0.2), 3)
    (0.065, 0.272)
    """
    _check_construction(construction)
    if not 0 < logit_scale < np.inf:
        raise ValueError(f"logit_scale must be finite and above 0, got {logit_scale}.")
    node = _Margins(X, y, center, metric, outputs)
    if not node.known.all():
        raise ValueError(
            "criterion='log_loss' needs rows whose labels are compared: "
            f"{int((~node.known).sum())} rows of {node.n_rows} have another label."
        )
    if construction == "certified":
        node.check_certifiable()
        return _certified_loss(node, logit_scale)
    return _sampled_loss(node, logit_scale, node.rays(n_directions, random_state))


def _certified_loss(node: _Margins, scale: float) -> LossProfile:
    index = np.arange(node.n_rows)
    loss = float(special.logsumexp(-scale * node.margins, axis=1).mean())
    norms = node.metric.row_norms(node.X, node.outputs, squared=True)
    mean_norm = float(np.sqrt(norms.max(axis=1)).mean())
    mean_square = float(norms.mean(axis=0).max())
    if node.metric.family == "gram":
        top = _largest_eigenvalue(node.X, node.metric)
        if node.metric.output_weights is not None:
            top /= node.metric.output_weights[node.columns].min()
        mean_norm, mean_square = min(mean_norm, np.sqrt(top)), min(mean_square, top)
    residuals = special.softmax(scale * node.logits, axis=1)
    residuals[index, node.label] -= 1.0
    typed = residuals.astype(float_type(node.X), copy=False)
    gradient = np.zeros((node.X.shape[1] + 1, node.n_outputs))
    gradient[:-1, node.columns] = safe_sparse_dot(node.X.T, typed, dense_output=True)
    gradient[-1, node.columns] = residuals.sum(axis=0)
    gradient *= scale / node.n_rows
    steepest = np.sqrt(max(np.vdot(gradient, node.metric.solve(gradient)), 0.0))
    return LossProfile(
        node.n_rows,
        loss,
        knots=np.zeros(1),
        losses=np.array([loss]),
        slope=float(np.sqrt(2.0) * scale * mean_norm),
        gradient=float(steepest),
        curvature=0.5 * scale**2 * mean_square,
    )


def _largest_eigenvalue(X, metric) -> float:
    """Largest eigenvalue of A^(-1) X1' X1 / n; infinite where rows are too many."""
    n_rows, n_params = X.shape[0], metric.n_params
    if 3 * 8 * n_rows * n_params > working_bytes():
        return np.inf
    white = metric.whiten_rows(X).astype(np.float64, copy=False)
    moments = white.T @ white if n_params <= n_rows else white @ white.T
    last = len(moments) - 1
    top = linalg.eigvalsh(moments, subset_by_index=[last, last])[0]
    return float(top / n_rows)


def _sampled_loss(node: _Margins, scale: float, rays: Rays) -> LossProfile:
    dtype = float_type(node.X)
    loss = float(special.logsumexp(-scale * node.margins, axis=1).mean())
    # A unit step changes a logit by about `step`; knots go from far below to far above.
    squared = node.metric.row_norms(node.X, node.outputs, squared=True)
    n_free = node.metric.n_constrained(node.n_outputs)
    step = scale * np.sqrt(squared.mean() / max(n_free, 1))
    if step == 0:
        return LossProfile(node.n_rows, loss, np.zeros(1), np.array([loss]), slope=0.0)
    size = max(1.0, scale * np.sqrt(np.mean(node.margins**2)))
    low, high = _KNOT_RANGE[0], _KNOT_RANGE[1] * size
    n_knots = 1 + int(np.ceil(np.log(high / low) / np.log(_KNOT_RATIO)))
    knots = low * _KNOT_RATIO ** np.arange(n_knots) / step

    start = np.ascontiguousarray(-scale * node.margins.T, dtype=dtype)
    losses, slope = np.full(n_knots, -np.inf), -np.inf
    for batch, unit, parts in rays.chunks():
        sums = np.zeros((n_knots, batch.stop - batch.start))
        slopes = np.zeros(batch.stop - batch.start)
        for rows, changes in parts:
            node.against_label(changes, rows)
            changes *= (scale * unit).astype(dtype)[:, None, None]
            # One direction of one block of rows at a time stays in cache.
            for j, ray in enumerate(changes):
                sums[:, j] += _losses_on_ray(start[:, rows], ray, knots)
            slopes += changes.max(axis=1).sum(axis=1, dtype=np.float64)
        np.maximum(losses, sums.max(axis=1) / node.n_rows, out=losses)
        slope = max(slope, slopes.max() / node.n_rows)
    return LossProfile(
        node.n_rows,
        loss,
        knots=np.concatenate([[0.0], knots]),
        losses=np.concatenate([[loss], losses]),
        slope=float(slope),
    )


def _losses_on_ray(start, ray, knots) -> np.ndarray:
    """Sum over rows of the log-losses at each knot of one ray, (n_columns, n_rows)."""
    sums = np.empty(len(knots))
    for k, knot in enumerate(knots):
        logits = ray * ray.dtype.type(knot)
        logits += start
        sums[k] = _log_sum_exp(logits).sum(dtype=np.float64)
    return sums


def _log_sum_exp(logits: np.ndarray) -> np.ndarray:
    """Log of the summed exponentials over the first axis; overwrites its argument."""
    top = logits.max(axis=0)
    logits -= top
    np.exp(logits, out=logits)
    total = logits.sum(axis=0)
    np.log(total, out=total)
    total += top
    return total


def _check_construction(construction: str) -> None:
    if construction not in ("sampled", "certified"):
        raise ValueError(
            f"construction must be 'sampled' or 'certified', got {construction!r}."
        )
