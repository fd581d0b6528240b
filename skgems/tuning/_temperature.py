"""Calibration: the factor f on logits that makes labels most likely (Guo et al. 2017).

The objective at n rows with logits z and labels y is

    mean_i (log sum_c exp(f z_ic) - f z_i,y_i)  +  s f / (10 n),

where s is the root mean square of the logits. It is evaluated on grids of log(s f),
each between the neighbours of the best point of the grid before; the last point is the
lowest point of a parabola.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..moments import LARGEST_SQUARE, block_bytes, row_blocks

# Three grids of 17 factors: of a range of 1e6, the last one's steps are 1.4 %, and the
# parabola finds the lowest point between them.
N_GRIDS = 3
_N_FACTORS = 17  # of each grid
_LEAST_FACTOR = 1e-3  # in units of 1 / size, as the largest
_LARGEST_FACTOR = 1e3


@dataclass(frozen=True, eq=False, kw_only=True)
class TemperatureSearch:
    """A search by grids, whose mean losses nodes or rows tell between its steps."""

    size: float  # root mean square of the logits, centred over classes; above 0
    n_rows: float
    # Ends of the present grid: logarithms of factors in units of 1 / size.
    low: float = float(np.log(_LEAST_FACTOR))
    high: float = float(np.log(_LARGEST_FACTOR))
    n_grids: int = N_GRIDS  # that are left
    lowest: float = np.nan  # the best point so far, in the units of low and high

    @property
    def done(self) -> bool:
        """Whether no grid is left."""
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
        return np.minimum(np.exp(logarithms) / self.size, LARGEST_SQUARE)

    def after(self, losses: np.ndarray) -> "TemperatureSearch":
        """The search after a grid of mean losses; NaN where some node did not say."""
        grid = self._grid
        losses = np.where(np.isnan(losses), np.inf, losses)
        # Separable rows would ask for infinite confidence: a bound, and a prior of
        # one row that is a coin toss, keep it finite.
        objective = losses + np.exp(grid) / self.n_rows / 10
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


def _lowest_point(points: np.ndarray, values: np.ndarray) -> float:
    """Where the parabola through three points is lowest; of fewer the lower point.

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


def fit_inverse_temperature(logits: np.ndarray, y: np.ndarray) -> float:
    """The factor on logits that makes labels `y`, columns of them, most likely."""
    logits = np.asarray(logits, dtype=np.float64)
    largest = np.abs(logits).max(initial=0.0)
    logits = logits - logits.mean(axis=1, keepdims=True)
    size = np.sqrt(np.mean(logits**2))
    # Logits that differ by the rounding of their means alone are those of a constant
    # model, which no factor makes better.
    if size <= np.finfo(np.float64).eps * largest or logits.shape[1] < 2:
        return 1.0
    search = TemperatureSearch(size=size, n_rows=y.shape[0])
    # From the largest, so that no exponential is above 1.
    logits = logits - logits.max(axis=1, keepdims=True)
    mean_of_labels = logits[np.arange(len(y)), y].mean()
    while not search.done:
        factors = search.factors
        losses = -mean_of_labels * factors
        row_bytes = logits.itemsize * logits.shape[1] * len(factors)
        for block in row_blocks(logits, row_bytes, block_bytes()):
            scaled = np.multiply.outer(factors, logits[block])
            totals = np.exp(scaled, out=scaled).sum(axis=2)
            losses += np.log(totals).sum(axis=1) / len(y)
        search = search.after(losses)
    return search.best
