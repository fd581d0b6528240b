"""The factor on logits (1 / temperature) that makes labels most likely, in three ways.

All three minimize the mean log-loss of rows i with logits z and labels y under a factor
f on the logits (Guo et al. 2017),

    loss(f) = mean_i (log sum_c exp(f z_ic) - f z_i,y_i),

which is convex in f. Which of them finds it depends on what an evaluation costs:

- `TemperatureSearch`, where an evaluation is a message, or a pass over rows: many
  factors cost little more than one. It takes three grids of log(s f), where s is the
  root mean square of the logits, each between the neighbors of the best point of the
  grid before, and ends at the lowest point of a parabola. Rows can be separable, which
  would ask for infinite confidence, so that it adds s f / (10 n), as a row that is a
  coin toss would. `factor_by_grids` has the losses computed here, for
  `fit_inverse_temperature` of rows; over messages a plan asks for them
  (`ask_inverse_temperature` of the room federation).
- `factor_by_steps`, where several factors take as many times as long as one, as with
  the loss that `Likelihood` makes of moments. Brent's method takes 10 to 13 in place
  of 51, and is off by 1e-6 in log f, grids by 3e-5. Gaussians overlap, so that the
  minimum is finite by itself.
- the lowest of `LOGIT_FACTORS`, where there is one message for many models, as for
  candidates that nodes judge: the factors are the same for all models, so that nobody
  is asked again. Steps of the square root of two are enough to choose by; a parabola
  between them would give a factor whose loss no node has told.

The first two have the same range. Losses that nodes do not tell are NaN
(`told_losses`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from ._rows import LARGEST, block_bytes, row_blocks

# Factors among which the best is sought, on logits whose root mean square is 1: beyond
# these all classes are equally likely, or one of them is certain.
_LEAST_FACTOR = 1e-3
_LEAST_LOG_FACTOR = float(np.log(_LEAST_FACTOR))
# Three grids of 17 factors: of a range of 1e6, the last one's steps are 1.4 %, and the
# parabola finds the lowest point between them.
N_GRIDS = 3
# Messages that the search for a factor takes, at most.
MOST_GRIDS = 1 + N_GRIDS
_N_FACTORS = 17  # of each grid
# On logits of models whose probabilities are too sure, or not sure enough: from 1 / 32
# to 4 in steps of the square root of two.
LOGIT_FACTORS = np.logspace(-5.0, 2.0, 15, base=2.0)
INDEX_OF_FACTOR_ONE = int(np.flatnonzero(LOGIT_FACTORS == 1.0)[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class TemperatureSearch:
    """A search by grids, whose mean losses nodes or rows tell between its steps."""

    size: float  # root mean square of the logits, centered over classes; above 0
    n_rows: float
    # Ends of the present grid: logarithms of factors in units of 1 / size.
    low: float = _LEAST_LOG_FACTOR
    high: float = -_LEAST_LOG_FACTOR
    n_grids: int = N_GRIDS  # that are left
    lowest: float = np.nan  # the best point so far, in the units of low and high

    @property
    def done(self) -> bool:
        """Report whether no grid is left."""
        return self.n_grids == 0

    @property
    def best(self) -> float:
        """The best factor so far."""
        return float(self._in_units_of_logits(self.lowest))

    @property
    def _grid(self) -> np.ndarray:
        return np.linspace(self.low, self.high, _N_FACTORS)

    @property
    def factors(self) -> np.ndarray:
        """Factors at which the mean log-loss is needed, shape (n_factors,)."""
        return self._in_units_of_logits(self._grid)

    def _in_units_of_logits(self, logarithms: np.ndarray | float) -> np.ndarray:
        """Factors of these logarithms, none above what a message may hold."""
        # Logits that are squares of features, as those of NearestCentroid, become as
        # small as the squares of features in very large units.
        return np.minimum(np.exp(logarithms) / self.size, LARGEST**2)

    def narrow(self, losses: np.ndarray) -> "TemperatureSearch":
        """Return the search after a grid of mean losses; NaN: some node did not say."""
        grid = self._grid
        # The prior of one row that is a coin toss, see the top of this file.
        objective = told_losses(losses) + np.exp(grid) / self.n_rows / 10
        best = int(np.argmin(objective))
        around = slice(max(best - 1, 0), best + 2)
        grid = grid[around]
        return replace(
            self,
            low=float(grid[0]),
            high=float(grid[-1]),
            n_grids=self.n_grids - 1,
            lowest=_lowest_point(grid, objective[around]),
        )


def told_losses(losses: np.ndarray) -> np.ndarray:
    """Losses with infinity for those that some node did not tell, which are NaN."""
    return np.where(np.isnan(losses), np.inf, losses)


def _lowest_point(points: np.ndarray, values: np.ndarray) -> float:
    """Return the vertex of a parabola through three points; of fewer the lower point.

    For points -h, 0, h and values v_0, v_1, v_2, with a = v_0 - v_1 and b = v_2 - v_1,
    it is at h (a - b) / (2 (a + b)).
    """
    if len(points) == 3:
        rise_left = values[0] - values[1]
        rise_right = values[2] - values[1]
        if 0 < rise_left + rise_right < np.inf:
            half_step = (points[2] - points[0]) / 4
            shift = half_step * (rise_left - rise_right) / (rise_left + rise_right)
            return float(points[1] + shift)
    return float(points[np.argmin(values)])


def factor_by_grids(
    losses_at: Callable[[np.ndarray], np.ndarray], *, size: float, n_rows: float
) -> float:
    """The factor by three grids: ``losses_at`` an array of factors, all in one call.

    ``size`` is the root mean square of the logits, centered over classes.
    """
    search = TemperatureSearch(size=size, n_rows=n_rows)
    while not search.done:
        search = search.narrow(losses_at(search.factors))
    return search.best


def factor_by_steps(loss_at: Callable[[float], float], *, size: float) -> float:
    """The factor by Brent's method: ``loss_at`` one factor a call.

    ``size`` is the root mean square of the logits.
    """
    search = minimize_scalar(
        lambda log_factor: loss_at(np.exp(log_factor) / size),
        bounds=(_LEAST_LOG_FACTOR, -_LEAST_LOG_FACTOR),
    )
    return float(np.exp(search.x) / size)


def fit_inverse_temperature(
    logits: np.ndarray, y: np.ndarray, *, weights: np.ndarray | None = None
) -> float:
    """The factor on logits that makes labels `y`, columns of them, most likely.

    Each row counts once, or with its weight, (n_rows,).
    """
    logits = np.asarray(logits, dtype=np.float64)
    if weights is None:
        weights = np.ones(len(y))
    total_weight = float(weights.sum())
    largest = np.abs(logits).max(initial=0.0)
    logits = logits - logits.mean(axis=1, keepdims=True)
    size = np.sqrt(weights @ np.mean(logits**2, axis=1) / total_weight)
    # Logits that differ by the rounding of their means alone are those of a constant
    # model, which no factor makes better.
    if size <= np.finfo(np.float64).eps * largest or logits.shape[1] < 2:
        return 1.0
    # From the largest, so that no exponential is above 1.
    logits = logits - logits.max(axis=1, keepdims=True)
    mean_of_labels = weights @ logits[np.arange(len(y)), y] / total_weight

    def losses_at(factors: np.ndarray) -> np.ndarray:
        losses = -mean_of_labels * factors
        row_bytes = logits.itemsize * logits.shape[1] * len(factors)
        for block in row_blocks(logits, row_bytes, block_bytes()):
            scaled = np.multiply.outer(factors, logits[block])
            totals = np.exp(scaled, out=scaled).sum(axis=2)
            losses += np.log(totals) @ weights[block] / total_weight
        return losses

    return factor_by_grids(losses_at, size=size, n_rows=total_weight)
