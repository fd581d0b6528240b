# SPDX-License-Identifier: BSD-3-Clause
"""Bring logits back to probabilities that can be believed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..moments import block_bytes, row_blocks

# Grids of so many factors, each between the neighbours of the last one's best.
_N_FACTORS, _N_GRIDS = 17, 3


@dataclass(frozen=True, eq=False)
class TemperatureSearch:
    """Search for the factor on logits under which labels are most likely, by grids.

    The log-loss is convex in that factor. Each grid lies between the neighbours of the
    best factor of the last one; a parabola through the best three of the last ends the
    search. So whoever has the rows is asked a few times, not once a factor.

    Parameters
    ----------
    size : float
        Root mean square of the logits, centred over classes; above 0.
    n_rows : float
        How many rows there are.
    low, high : float, default=log(1e-3), log(1e3)
        Where the present grid begins and ends: logarithms of factors in units of
        ``1 / size``.
    n_grids : int, default=3
        Grids that are left.
    found : float, default=nan
        Logarithm of the best factor, in the same units.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger: On calibration of modern neural networks, 2017
    (temperature scaling).

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.tuning import TemperatureSearch
    >>> search = TemperatureSearch(size=1.0, n_rows=1e9)
    >>> while not search.done:
    ...     search = search.after((np.log(search.factors) - 0.5) ** 2)
    >>> round(float(np.log(search.best)), 6)
    0.5
    """

    size: float
    n_rows: float
    low: float = float(np.log(1e-3))
    high: float = float(np.log(1e3))
    n_grids: int = _N_GRIDS
    found: float = np.nan

    @property
    def done(self) -> bool:
        """Whether there is no more to ask."""
        return self.n_grids == 0

    @property
    def best(self) -> float:
        """The factor that was found."""
        return float(np.exp(self.found) / self.size)

    @cached_property
    def _grid(self) -> np.ndarray:
        return np.linspace(self.low, self.high, _N_FACTORS)

    @property
    def factors(self) -> np.ndarray:
        """Factors whose mean log-loss is to be told, shape (n_factors,)."""
        return np.exp(self._grid) / self.size

    def after(self, losses: np.ndarray) -> TemperatureSearch:
        """The search once the losses are known.

        Parameters
        ----------
        losses : ndarray of shape (n_factors,)
            Mean log-loss at each of `factors`.

        Returns
        -------
        search : TemperatureSearch
        """
        grid = self._grid
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
        if left + right > 0:
            step = (places[2] - places[0]) / 4
            return float(places[1] + step * (left - right) / (left + right))
    return float(places[np.argmin(values)])


def fit_inverse_temperature(logits: np.ndarray, y: np.ndarray) -> float:
    """The factor on the logits under which the labels are most likely.

    Parameters
    ----------
    logits : ndarray of shape (n_samples, n_classes)
    y : ndarray of shape (n_samples,), int
        Column of each row's label.

    Returns
    -------
    factor : float
        Between 1e-3 and 1e3 over the root mean square of the logits.

    See Also
    --------
    TemperatureSearch : How it is found.
    """
    logits = np.asarray(logits, dtype=np.float64)
    logits = logits - logits.mean(axis=1, keepdims=True)
    size = np.sqrt(np.mean(logits**2))
    if size == 0 or logits.shape[1] < 2:
        return 1.0
    search = TemperatureSearch(size, y.shape[0])
    rows = np.arange(len(y))
    # From the largest, so that no exponential is above 1.
    logits = logits - logits.max(axis=1, keepdims=True)
    own = logits[rows, y].mean()
    while not search.done:
        factors, losses = search.factors, -own * search.factors
        row_bytes = logits.itemsize * logits.shape[1] * len(factors)
        for block in row_blocks(logits, row_bytes, block_bytes()):
            scaled = np.multiply.outer(factors, logits[block])
            totals = np.exp(scaled, out=scaled).sum(axis=2)
            losses += np.log(totals).sum(axis=1) / len(y)
        search = search.after(losses)
    return search.best
