"""Calibration slope and intercept: logistic regressions of a class on its log-odds.

With scores s and n_i rows of score s_i, the slope b solves, together with some a,

    sum_i n_i expit(a + b s_i) [1, s_i] = t,        t = sum over positive rows [1, s],

and the intercept a solves the first equation where b is 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

# Steps of Newton's method: it takes about ten from calibrated probabilities.
_MOST_STEPS = 100
# Where a step moves the log-odds of no row by more than this, nothing is left to find.
_STOPS = 1e-9
# No intercept that is looked for is farther from 0: slopes and scores are bounded.
_FARTHEST = 1000.0


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Slope and intercept of scores, and how much single rows decide them."""

    slope: float = np.nan
    intercept: float = np.nan
    # The largest part that one unit, such as a patient, has in either of the two.
    leverage: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoredRows:
    """Numbers of rows by score, at one node; and what it has told of them."""

    scores: np.ndarray  # (n_scores,), log-odds
    n_positive: np.ndarray  # (n_scores,)
    n_negative: np.ndarray  # (n_scores,)
    told: Calibration = Calibration()

    @property
    def n_rows(self) -> np.ndarray:
        return self.n_positive + self.n_negative

    @property
    def sums(self) -> np.ndarray:
        """Return the sums t over positive rows, (2,).

        They are those with which slope and intercept become what was told, since
        numbers of rows in bins are known less well.
        """
        if np.isnan(self.told.slope):
            return np.array([self.n_positive.sum(), self.n_positive @ self.scores])
        n_expected = float(self.n_rows @ expit(self.told.intercept + self.scores))
        sloped = self.told.slope * self.scores
        intercept = _intercept(sloped, self.n_rows, n_positive=n_expected)
        expected = self.n_rows * expit(intercept + sloped)
        return np.array([n_expected, expected @ self.scores])


def calibration(
    rows: ScoredRows,
    *,
    units: np.ndarray | None = None,  # (n_scores,), whole numbers; None: each is one
) -> Calibration:
    """Fit slope and intercept to the rows of one node; NaN where classes part.

    Where a score parts the classes there is no largest likelihood, and no slope.
    """
    if _are_apart(rows):
        return Calibration()
    fitted = _fitted(rows.scores, rows.n_rows, rows.sums)
    if np.isnan(fitted.slope):
        return fitted
    return Calibration(
        slope=fitted.slope,
        intercept=fitted.intercept,
        leverage=_largest_leverage(rows, fitted, units=units),
    )


def pooled_calibration(parts: Sequence[ScoredRows]) -> Calibration:
    """Fit slope and intercept to the rows of all nodes, which have the same scores.

    They are NaN where nodes with less than half of the rows have told theirs.
    """
    n_told = sum(part.n_rows.sum() for part in parts if not np.isnan(part.told.slope))
    n_rows = np.sum([part.n_rows for part in parts], axis=0)
    if 2.0 * n_told < n_rows.sum() or not n_told:
        return Calibration()
    sums = np.sum([part.sums for part in parts], axis=0)
    return _fitted(parts[0].scores, n_rows, sums)


def _fitted(scores: np.ndarray, n_rows: np.ndarray, sums: np.ndarray) -> Calibration:
    intercept = _intercept(scores, n_rows, n_positive=float(sums[0]))
    Z = np.column_stack([np.ones(len(scores)), scores])
    slope = _slope(Z, n_rows, sums, start=np.array([intercept, 1.0]))
    return Calibration(slope=slope, intercept=intercept)


def _are_apart(rows: ScoredRows) -> bool:
    """Report whether a score parts the classes, or one class has no row."""
    positive = rows.scores[rows.n_positive > 0]
    negative = rows.scores[rows.n_negative > 0]
    if not len(positive) or not len(negative):
        return True
    return bool(positive.min() >= negative.max() or negative.min() >= positive.max())


def _intercept(scores: np.ndarray, n_rows: np.ndarray, *, n_positive: float) -> float:
    """Return the a with which so many rows are expected to be positive."""
    return brentq(
        lambda a: float(n_rows @ expit(a + scores)) - n_positive, -_FARTHEST, _FARTHEST
    )


def _slope(
    Z: np.ndarray, n_rows: np.ndarray, sums: np.ndarray, *, start: np.ndarray
) -> float:
    """Return the slope by Newton's method with halved steps; NaN if there is none."""

    def loss(coef: np.ndarray) -> float:
        return float(n_rows @ np.logaddexp(0.0, Z @ coef) - sums @ coef)

    coef = start
    for _ in range(_MOST_STEPS):
        proba = expit(Z @ coef)
        information = (Z * (n_rows * proba * (1.0 - proba))[:, None]).T @ Z
        try:
            step = np.linalg.solve(information, sums - Z.T @ (n_rows * proba))
        except np.linalg.LinAlgError:
            return np.nan
        while np.abs(Z @ step).max() > _STOPS and loss(coef + step) > loss(coef):
            step = step / 2.0
        if np.abs(Z @ step).max() <= _STOPS:
            return float(coef[1])
        coef = coef + step
    return np.nan


def _largest_leverage(
    rows: ScoredRows, fitted: Calibration, *, units: np.ndarray | None
) -> float:
    """Return the largest part of either regression's information that a unit is."""
    sloped = fitted.slope * rows.scores
    n_positive = float(rows.n_positive.sum())
    intercept = _intercept(sloped, rows.n_rows, n_positive=n_positive)
    Z = np.column_stack([np.ones(len(sloped)), rows.scores])
    return max(
        _leverage(Z, rows.n_rows, intercept + sloped, units=units),
        _leverage(Z[:, :1], rows.n_rows, fitted.intercept + rows.scores, units=units),
    )


def _leverage(
    Z: np.ndarray, n_rows: np.ndarray, logits: np.ndarray, *, units: np.ndarray | None
) -> float:
    proba = expit(logits)
    weights = n_rows * proba * (1.0 - proba)
    information = (Z * weights[:, None]).T @ Z
    try:
        leverages = weights * np.sum(Z * np.linalg.solve(information, Z.T).T, axis=1)
    except np.linalg.LinAlgError:
        return 1.0
    if units is not None:
        leverages = np.bincount(units, leverages)
    return float(leverages.max())
