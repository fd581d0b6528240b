"""Power transforms of Box and Cox (1964) and of Yeo and Johnson (2000), of sums alone.

A value x has the logarithm s, which is log(x), or sign(x) log(1 + |x|) with Yeo and
Johnson. Under the power p it becomes

    y = (exp(p s) - 1) / p,    or s where p = 0,

and where s < 0, with Yeo and Johnson, the negative of that of -s under 2 - p. The
log-likelihood of p is (p - 1) sum(s) - n / 2 log(variance of y).

Nodes tell mean and squares of y at each power of a grid. Between these powers both are
interpolated, in coordinates that change slowly with p whatever the units of the column:

    t, the logarithm of the value that becomes the mean of y, and
    r = log(deviation of y) - (p - 1) t, where (p - 1) t is the logarithm of the slope
        of the transform at that value.

In these the log-likelihood of p, a row, is (p - 1) (mean(s) - t) - r.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

# Powers at which nodes tell sums. Those of real columns lie between these ends.
POWERS = np.linspace(-2.0, 4.0, 25)
STEP = POWERS[1] - POWERS[0]
# Neighbouring powers that a polynomial goes through, and fewer, which show how exact
# it is.
_N_NEIGHBOURS, _FEWER = 5, 3
# A step on either side of the best power is looked through at so many powers.
_N_CANDIDATES = 33
# How far the two polynomials may be apart, in deviations of y and in logarithms of
# these: means and deviations of a column that is next to scaled are of no harm.
_CLOSE = 0.01
# How many times the rounding of transformed values their deviation has to be: after
# other powers a column of large numbers has next to no digits, or is constant.
_LEAST_DEVIATION = 1e3


def logarithms(X: np.ndarray, *, box: bool) -> np.ndarray:
    return np.log(X) if box else np.sign(X) * np.log1p(np.abs(X))


def transformed(s: np.ndarray, powers, *, box: bool) -> np.ndarray:
    """Values after powers, of their logarithms."""
    if box:
        return _bent(s, powers)
    return _bent(np.maximum(s, 0.0), powers) - _bent(-np.minimum(s, 0.0), 2.0 - powers)


def _bent(s: np.ndarray, powers) -> np.ndarray:
    """``(exp(p s) - 1) / p``."""
    divisors = np.where(powers == 0, 1.0, powers)
    return np.where(powers == 0, s, np.expm1(powers * s) / divisors)


def _unbent(y: np.ndarray, powers) -> np.ndarray:
    divisors = np.where(powers == 0, 1.0, powers)
    return np.where(powers == 0, y, np.log1p(powers * y) / divisors)


def _logarithms_before(y: np.ndarray, powers, *, box: bool) -> np.ndarray:
    """The inverse of :func:`transformed`."""
    if box:
        return _unbent(y, powers)
    up, down = np.maximum(y, 0.0), -np.minimum(y, 0.0)
    return _unbent(up, powers) - _unbent(down, 2.0 - powers)


@dataclass(frozen=True, kw_only=True)
class LikeliestPowers:
    """A power for each column, and what its values come to after it, all (n_columns,).

    No power is so near to 0, nor to 2 with Yeo and Johnson, that float32 could not tell
    it from that: there the formula divides by 0, which converters to ONNX do.
    """

    powers: np.ndarray
    means: np.ndarray
    squares: np.ndarray  # about the means, summed
    errors: np.ndarray  # how far the likeliest powers may be, between the grid's ends

    @classmethod
    def of_sums(
        cls, *, counts, means, squares, slopes, box: bool, precision: float
    ) -> Self:
        """Of the sums of all nodes; ``precision`` is that of the rows next to 1.

        Counts and slopes, sums of logarithms, are (n_columns,); means of transformed
        values and squares about these are (n_powers, n_columns).
        """
        curves = _Curves.of_sums(
            counts=counts,
            means=means,
            squares=squares,
            slopes=slopes,
            box=box,
            precision=precision,
        )
        best, columns = curves.best, np.arange(len(counts))
        powers, fewer = curves.likeliest(_N_NEIGHBOURS), curves.likeliest(_FEWER)
        refined = curves.are_close(powers) & curves.are_close(fewer)
        powers = np.where(refined, powers, POWERS[best])
        errors = np.where(refined, np.abs(powers - fewer), STEP)
        # A column without a likelihood is constant or empty: no power is its likeliest.
        errors = np.where(curves.sound.any(axis=0), errors, 0.0)
        allowed = curves.held_off(powers)
        errors = np.maximum(errors, np.abs(allowed - powers))
        n_rows = np.maximum(counts, 1.0)
        between = curves.moments_at(allowed, refined)
        on_grid = allowed == POWERS[best]
        return cls(
            powers=allowed,
            means=np.where(on_grid, means[best, columns], between[0]),
            squares=np.where(on_grid, squares[best, columns], n_rows * between[1]),
            errors=errors,
        )


@dataclass(frozen=True, kw_only=True)
class _Curves:
    """The curves t and r of columns at POWERS, each (n_powers, n_columns)."""

    t: np.ndarray
    r: np.ndarray
    mean_logarithms: np.ndarray  # (n_columns,)
    deviations: np.ndarray
    sound: np.ndarray  # where transformed values have digits
    best: np.ndarray  # (n_columns,), places of the likeliest of POWERS
    box: bool

    @classmethod
    def of_sums(
        cls, *, counts, means, squares, slopes, box: bool, precision: float
    ) -> Self:
        n_rows, powers = np.maximum(counts, 1.0), POWERS[:, None]
        deviations = np.sqrt(squares / n_rows)
        sound = deviations > _LEAST_DEVIATION * precision * np.abs(means)
        # What is not sound is in no curve, nor are means that no values have.
        with np.errstate(divide="ignore", invalid="ignore"):
            t = _logarithms_before(means, powers, box=box)
            r = np.log(deviations) - (powers - 1.0) * t
        sound &= np.isfinite(t) & np.isfinite(r)
        t, r = (np.where(sound, curve, 0.0) for curve in (t, r))
        gains = _gains(powers, slopes / n_rows, t, r)
        best = np.argmax(np.where(sound, gains, -np.inf), axis=0)
        best[~sound.any(axis=0)] = np.argmin(np.abs(POWERS - 1.0))
        return cls(
            t=t,
            r=r,
            mean_logarithms=slopes / n_rows,
            deviations=deviations,
            sound=sound,
            best=best,
            box=box,
        )

    def _between(self, powers: np.ndarray, n_neighbours: int) -> tuple:
        """Both curves at powers (n_columns,) or (n, n_columns) next to the best."""
        first = self.best - n_neighbours // 2
        first = np.clip(first, 0, len(POWERS) - n_neighbours)
        steps = (powers - POWERS[first]) / STEP
        columns = np.arange(len(first))
        t, r = np.zeros_like(powers), np.zeros_like(powers)
        for i in range(n_neighbours):
            others = [j for j in range(n_neighbours) if j != i]
            # Lagrange's polynomial, which is 1 at its power and 0 at the others.
            share = np.prod([(steps - j) / (i - j) for j in others], axis=0)
            t += share * self.t[first + i, columns]
            r += share * self.r[first + i, columns]
        return t, r

    def likeliest(self, n_neighbours: int) -> np.ndarray:
        """The likeliest powers (n_columns,) between neighbours of the grid's best."""
        step = 2 * STEP / (_N_CANDIDATES - 1)
        around = np.linspace(-STEP, STEP, _N_CANDIDATES)[:, None]
        powers = np.clip(POWERS[self.best] + around, POWERS[0], POWERS[-1])
        t, r = self._between(powers, n_neighbours)
        gains = _gains(powers, self.mean_logarithms, t, r)
        columns = np.arange(len(self.best))
        at = np.argmax(gains, axis=0)
        middle = np.clip(at, 1, _N_CANDIDATES - 2)
        left, highest, right = (gains[middle + k, columns] for k in (-1, 0, 1))
        # The vertex of the parabola through three of them, where these have one.
        bend = left - 2.0 * highest + right
        inside = (at == middle) & (bend < 0)
        moves = np.zeros_like(bend)
        np.divide(0.5 * (left - right), bend, out=moves, where=inside)
        return np.clip(
            powers[at, columns] + step * np.clip(moves, -0.5, 0.5),
            POWERS[0],
            POWERS[-1],
        )

    def are_close(self, powers: np.ndarray) -> np.ndarray:
        """Where polynomials through more and through fewer neighbours agree."""
        first = np.clip(self.best - _N_NEIGHBOURS // 2, 0, len(POWERS) - _N_NEIGHBOURS)
        columns = np.arange(len(first))
        sound = [self.sound[first + i, columns] for i in range(_N_NEIGHBOURS)]
        t, r = self._between(powers, _N_NEIGHBOURS)
        other_t, other_r = self._between(powers, _FEWER)
        # The deviation of y in units of t: exp(r) is in units of the column.
        spreads = np.exp(r - (t if self.box else np.abs(t)))
        close = np.abs(t - other_t) <= _CLOSE * spreads
        close &= np.abs(r - other_r) <= _CLOSE
        return close & np.all(sound, axis=0)

    def held_off(self, powers: np.ndarray) -> np.ndarray:
        """The powers, moved away from those at which the formula divides by 0."""
        # With numbers of a precision e, a power q changes y by q s^2 / 2, and has it
        # off by e / q: in units of the deviation both are least, and equal, at a q of
        # sqrt(2 e) over the deviation of s.
        precision = np.sqrt(2.0 * np.finfo(np.float32).eps)
        for pole in (0.0,) if self.box else (0.0, 2.0):
            deviations = self.deviations[np.searchsorted(POWERS, pole)]
            room = np.full(len(powers), STEP / 2)
            np.divide(precision, deviations, out=room, where=deviations > 0)
            room = np.minimum(room, STEP / 2)
            away = powers - pole
            moved = pole + np.where(away < 0, -room, room)
            powers = np.where(np.abs(away) < room, moved, powers)
        return powers

    def moments_at(self, powers: np.ndarray, refined: np.ndarray) -> tuple:
        """Mean and variance of y; as of the grid's best where that is not refined."""
        columns = np.arange(len(powers))
        between = self._between(powers, _N_NEIGHBOURS)
        t = np.where(refined, between[0], self.t[self.best, columns])
        r = np.where(refined, between[1], self.r[self.best, columns])
        variances = np.exp(2.0 * (r + (powers - 1.0) * t))
        return transformed(t, powers, box=self.box), variances


def _gains(powers, mean_logarithms, t, r) -> np.ndarray:
    """Log-likelihood of powers, a row."""
    return (powers - 1.0) * (mean_logarithms - t) - r
