"""Bring logits back to probabilities that can be believed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..moments import block_bytes, row_blocks

# Grids of so many factors, each between the neighbours of the last one's best.
_N_FACTORS, N_GRIDS = 17, 3


@dataclass(frozen=True, eq=False)
class TemperatureSearch:
    """Search by grids for the factor on logits that makes labels most likely.

    The log-loss is convex in it, so that a few rounds of losses are enough. Temperature
    scaling: Guo, Pleiss, Sun, Weinberger 2017.
    """

    size: float  # root mean square of the logits, centred over classes; above 0
    n_rows: float
    # Ends of the present grid: logarithms of factors in units of 1 / size.
    low: float = float(np.log(1e-3))
    high: float = float(np.log(1e3))
    n_grids: int = N_GRIDS  # that are left
    found: float = np.nan  # the best so far, as low and high

    @property
    def done(self) -> bool:
        return self.n_grids == 0

    @property
    def best(self) -> float:
        return float(np.exp(self.found) / self.size)

    @property
    def _grid(self) -> np.ndarray:
        return np.linspace(self.low, self.high, _N_FACTORS)

    @property
    def factors(self) -> np.ndarray:
        """Factors at which the mean log-loss is needed, shape (n_factors,)."""
        return np.exp(self._grid) / self.size

    def after(self, losses: np.ndarray) -> TemperatureSearch:
        """The search after a grid, given the mean log-loss at each of `factors`.

        NaN: some node did not say, since logits would be too steep there.
        """
        grid, losses = self._grid, np.where(np.isnan(losses), np.inf, losses)
        # Separable rows would ask for infinite confidence: a bound, and a prior of
        # one row that is a coin toss, keep it finite.
        objective = losses + np.exp(grid) / self.n_rows / 10
        at = int(np.argmin(objective))
        around = slice(max(at - 1, 0), at + 2)
        return replace(
            self,
            low=float(grid[around][0]),
            high=float(grid[around][-1]),
            n_grids=self.n_grids - 1,
            found=_lowest(grid[around], objective[around]),
        )


def _lowest(places: np.ndarray, values: np.ndarray) -> float:
    """Where a parabola through three points is lowest; the lowest of fewer."""
    if len(places) == 3:
        left, right = values[0] - values[1], values[2] - values[1]
        if 0 < left + right < np.inf:
            step = (places[2] - places[0]) / 4
            return float(places[1] + step * (left - right) / (left + right))
    return float(places[np.argmin(values)])


def fit_inverse_temperature(logits: np.ndarray, y: np.ndarray) -> float:
    """The factor on logits that makes labels `y`, columns of them, most likely."""
    logits = np.asarray(logits, dtype=np.float64)
    logits = logits - logits.mean(axis=1, keepdims=True)
    size = np.sqrt(np.mean(logits**2))
    if size == 0 or logits.shape[1] < 2:
        return 1.0
    search = TemperatureSearch(size, y.shape[0])
    # From the largest, so that no exponential is above 1.
    logits = logits - logits.max(axis=1, keepdims=True)
    own = logits[np.arange(len(y)), y].mean()
    while not search.done:
        factors, losses = search.factors, -own * search.factors
        row_bytes = logits.itemsize * logits.shape[1] * len(factors)
        for block in row_blocks(logits, row_bytes, block_bytes()):
            scaled = np.multiply.outer(factors, logits[block])
            totals = np.exp(scaled, out=scaled).sum(axis=2)
            losses += np.log(totals).sum(axis=1) / len(y)
        search = search.after(losses)
    return search.best
