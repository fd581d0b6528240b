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
POWERS, STEP = np.linspace(-2.0, 4.0, 25, retstep=True)
# Neighboring powers that a polynomial goes through, of degree 4; and fewer of them, of
# degree 2: how far the two polynomials are apart shows how exact they are.
_N_NEIGHBOURS = 5
_N_FEWER_NEIGHBOURS = 3  # odd, as the other: the best power is in the middle
# A step on either side of the best power is looked through at so many powers.
_N_CANDIDATES = 33
# How far the two polynomials may be apart, in deviations of y and in logarithms of
# these: means and deviations of a column that is next to scaled are of no harm.
_CLOSE = 0.01
# The same at the power in the middle, of the polynomial through the others, which is
# farther off than those that know the middle. In 3,000 columns of normal and
# heavy-tailed values around 0, squares are 2 % off at most, with 0.1 they are 7 %, and
# without this check they may be a third of what they should be.
_CLOSE_WITHOUT_MIDDLE = 0.05
# How many times the rounding of transformed values their deviation has to be: after
# other powers a column of large numbers has next to no digits, or is constant.
_LEAST_DEVIATION = 1e3
# By how much log-likelihoods of two powers differ where rows tell which is likelier:
# half the 0.95 quantile of the chi-squared distribution, as in confidence intervals of
# the power (Box and Cox, 1964).
_CERTAIN = 1.92


def logarithms(X: np.ndarray, *, box: bool) -> np.ndarray:
    """The s of values, of Box and Cox if ``box``, else of Yeo and Johnson."""
    return np.log(X) if box else np.sign(X) * np.log1p(np.abs(X))


def transformed(s: np.ndarray, powers: float | np.ndarray, *, box: bool) -> np.ndarray:
    """Values after powers, y, of their logarithms s."""
    if box:
        return _bent(s, powers)
    return _bent(np.maximum(s, 0.0), powers) - _bent(-np.minimum(s, 0.0), 2.0 - powers)


def _bent(s: np.ndarray, powers: float | np.ndarray) -> np.ndarray:
    """``(exp(p s) - 1) / p``, or s where p = 0."""
    if np.ndim(powers) == 0 and powers != 0:  # in place, as s may be large
        bent = np.multiply(s, powers)
        np.expm1(bent, out=bent)
        return np.divide(bent, powers, out=bent)
    divisors = np.where(powers == 0, 1.0, powers)
    return np.where(powers == 0, s, np.expm1(powers * s) / divisors)


def _unbent(y: np.ndarray, powers: float | np.ndarray) -> np.ndarray:
    """``log(1 + p y) / p``, or y where p = 0: the inverse of `_bent`."""
    divisors = np.where(powers == 0, 1.0, powers)
    return np.where(powers == 0, y, np.log1p(powers * y) / divisors)


def _logarithms_before(
    y: np.ndarray, powers: float | np.ndarray, *, box: bool
) -> np.ndarray:
    """The inverse of :func:`transformed`."""
    if box:
        return _unbent(y, powers)
    return _unbent(np.maximum(y, 0.0), powers) - _unbent(
        -np.minimum(y, 0.0), 2.0 - powers
    )


@dataclass(frozen=True, kw_only=True)
class LikeliestPowers:
    """A power for each column, and what its values come to after it, all (n_columns,).

    No power is so near to 0, nor to 2 with Yeo and Johnson, that float32 could not tell
    it from that. There the formula divides by 0, which converters to ONNX do.
    """

    powers: np.ndarray
    means: np.ndarray
    squares: np.ndarray  # about the means, summed
    # How far the likeliest powers may be; infinite where they are certainly beyond the
    # powers at which nodes told sums that have digits.
    errors: np.ndarray

    @classmethod
    def from_sums(
        cls,
        *,
        counts: np.ndarray,
        means: np.ndarray,
        squares: np.ndarray,
        slopes: np.ndarray,
        box: bool,
        precision: float,
    ) -> Self:
        """Find the powers by sums of all nodes; ``precision`` is the rows' next to 1.

        Counts and slopes, sums of logarithms, are (n_columns,); means of transformed
        values and squares about these are (n_powers, n_columns).
        """
        curves = _Curves.from_sums(
            counts=counts,
            means=means,
            squares=squares,
            slopes=slopes,
            box=box,
            precision=precision,
        )
        best = curves.best
        powers = curves.likeliest(_N_NEIGHBOURS)
        powers_by_fewer = curves.likeliest(_N_FEWER_NEIGHBOURS)
        # Where polynomials cannot be trusted the grid's best power has to do.
        is_refined = curves.are_close(powers) & curves.are_close(powers_by_fewer)
        powers = np.where(is_refined, powers, POWERS[best])
        errors = np.where(is_refined, np.abs(powers - powers_by_fewer), STEP)
        distances = curves.distances_beyond(counts)
        errors = np.where(curves.are_at_edge(powers, is_refined), distances, errors)
        # A column without a likelihood is constant or empty: no power is its likeliest.
        errors = np.where(curves.is_sound.any(axis=0), errors, 0.0)
        allowed = curves.off_poles(powers)
        errors = np.maximum(errors, np.abs(allowed - powers))
        interpolated_means, variances = curves.moments_at(allowed, is_refined)
        # What nodes told is more exact than what is interpolated.
        is_on_grid = allowed == POWERS[best]
        columns = np.arange(len(counts))
        interpolated_squares = np.maximum(counts, 1.0) * variances
        return cls(
            powers=allowed,
            means=np.where(is_on_grid, means[best, columns], interpolated_means),
            squares=np.where(is_on_grid, squares[best, columns], interpolated_squares),
            errors=errors,
        )


@dataclass(frozen=True, kw_only=True)
class _Curves:
    """The curves t and r of columns at POWERS, each (n_powers, n_columns)."""

    t: np.ndarray
    r: np.ndarray
    mean_logarithms: np.ndarray  # (n_columns,)
    deviations: np.ndarray  # of y
    is_sound: np.ndarray  # where transformed values have digits
    best: np.ndarray  # (n_columns,), places of the likeliest of POWERS
    box: bool

    @classmethod
    def from_sums(
        cls,
        *,
        counts: np.ndarray,
        means: np.ndarray,
        squares: np.ndarray,
        slopes: np.ndarray,
        box: bool,
        precision: float,
    ) -> Self:
        """Compute the curves of the sums that `LikeliestPowers.from_sums` takes."""
        n_rows = np.maximum(counts, 1.0)
        powers = POWERS[:, None]
        deviations = np.sqrt(squares / n_rows)
        is_sound = deviations > _LEAST_DEVIATION * precision * np.abs(means)
        # What is not sound is in no curve, nor are means that no values have.
        with np.errstate(divide="ignore", invalid="ignore"):
            t = _logarithms_before(means, powers, box=box)
            r = np.log(deviations) - (powers - 1.0) * t
        is_sound &= np.isfinite(t) & np.isfinite(r)
        t = np.where(is_sound, t, 0.0)
        r = np.where(is_sound, r, 0.0)
        gains = _gains(powers, mean_logarithms=slopes / n_rows, t=t, r=r)
        best = np.argmax(np.where(is_sound, gains, -np.inf), axis=0)
        # The power 1, which leaves the column as it is.
        best[~is_sound.any(axis=0)] = np.argmin(np.abs(POWERS - 1.0))
        return cls(
            t=t,
            r=r,
            mean_logarithms=slopes / n_rows,
            deviations=deviations,
            is_sound=is_sound,
            best=best,
            box=box,
        )

    def _first_neighbours(self, n_neighbours: int) -> np.ndarray:
        """Place of the first of so many powers around the best, (n_columns,)."""
        first = self.best - n_neighbours // 2
        return np.clip(first, 0, len(POWERS) - n_neighbours)

    def _interpolated(
        self, powers: np.ndarray, n_neighbours: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """t and r at powers (n_columns,) or (n, n_columns) next to the grid's best."""
        first = self._first_neighbours(n_neighbours)
        steps = (powers - POWERS[first]) / STEP
        columns = np.arange(len(first))
        t = np.zeros_like(powers)
        r = np.zeros_like(powers)
        for i in range(n_neighbours):
            others = [j for j in range(n_neighbours) if j != i]
            # Lagrange's polynomial, which is 1 at its power and 0 at the others.
            share = np.prod([(steps - j) / (i - j) for j in others], axis=0)
            t += share * self.t[first + i, columns]
            r += share * self.r[first + i, columns]
        return t, r

    def likeliest(self, n_neighbours: int) -> np.ndarray:
        """The likeliest powers (n_columns,) between neighbors of the grid's best."""
        around = np.linspace(-STEP, STEP, _N_CANDIDATES)[:, None]
        candidates = np.clip(POWERS[self.best] + around, POWERS[0], POWERS[-1])
        t, r = self._interpolated(candidates, n_neighbours)
        gains = _gains(candidates, mean_logarithms=self.mean_logarithms, t=t, r=r)
        # The vertex of the parabola through the best candidate and those beside it.
        columns = np.arange(len(self.best))
        place = np.argmax(gains, axis=0)
        middle = np.clip(place, 1, _N_CANDIDATES - 2)
        gain_before = gains[middle - 1, columns]
        gain = gains[middle, columns]
        gain_after = gains[middle + 1, columns]
        bend = gain_before - 2.0 * gain + gain_after
        # A straight line has no vertex: the likelihood of a constant column, or that at
        # the first power, where candidates below it are clipped to it.
        has_vertex = bend < 0
        steps_to_vertex = np.zeros_like(bend)
        np.divide(
            0.5 * (gain_before - gain_after),
            bend,
            out=steps_to_vertex,
            where=has_vertex,
        )
        step = 2 * STEP / (_N_CANDIDATES - 1)
        return np.clip(
            candidates[place, columns] + step * np.clip(steps_to_vertex, -0.5, 0.5),
            POWERS[0],
            POWERS[-1],
        )

    def are_close(self, powers: np.ndarray) -> np.ndarray:
        """Report where polynomials have means and deviations at these powers exactly.

        Those through more and through fewer neighbors agree at the powers. Both miss a
        turn between two powers, as wide columns with values on both sides of 0 have:
        then what nodes told at the power in the middle is not what its neighbors say.
        """
        first = self._first_neighbours(_N_NEIGHBOURS)
        columns = np.arange(len(first))
        are_neighbours_sound = np.all(
            [self.is_sound[first + i, columns] for i in range(_N_NEIGHBOURS)], axis=0
        )
        are_close = self._agree(
            powers,
            self._interpolated(powers, _N_NEIGHBOURS),
            self._interpolated(powers, _N_FEWER_NEIGHBOURS),
            within=_CLOSE,
        )
        middle = first + _N_NEIGHBOURS // 2
        are_close &= self._agree(
            POWERS[middle],
            (self.t[middle, columns], self.r[middle, columns]),
            self._interpolated_without_middle(),
            within=_CLOSE_WITHOUT_MIDDLE,
        )
        return are_close & are_neighbours_sound

    def _interpolated_without_middle(self) -> tuple[np.ndarray, np.ndarray]:
        """Return t and r at the power in the middle by the four neighbors of it."""
        first = self._first_neighbours(_N_NEIGHBOURS)
        columns = np.arange(len(first))
        t = np.zeros(len(first))
        r = np.zeros(len(first))
        # Lagrange's cubic through the places -2, -1, 1 and 2, at 0.
        for i, share in ((0, -1 / 6), (1, 4 / 6), (3, 4 / 6), (4, -1 / 6)):
            t += share * self.t[first + i, columns]
            r += share * self.r[first + i, columns]
        return t, r

    def _agree(
        self,
        powers: np.ndarray,
        curves: tuple[np.ndarray, np.ndarray],  # t and r at the powers
        others: tuple[np.ndarray, np.ndarray],
        *,
        within: float,
    ) -> np.ndarray:
        """Report where means, in deviations, and logarithms of deviations are near."""
        t, r = curves
        other_t, other_r = others
        logarithms = r + (powers - 1.0) * t
        other_logarithms = other_r + (powers - 1.0) * other_t
        # Polynomials far off may foretell what no float holds; these are not near.
        with np.errstate(over="ignore", invalid="ignore"):
            means = transformed(t, powers, box=self.box)
            other_means = transformed(other_t, powers, box=self.box)
            are_near = np.abs(means - other_means) <= within * np.exp(logarithms)
        return are_near & (np.abs(logarithms - other_logarithms) <= within)

    def are_at_edge(self, powers: np.ndarray, is_refined: np.ndarray) -> np.ndarray:
        """Report where the likelihood still rises at the last power that has digits."""
        below, above = self._are_neighbours_sound
        # Polynomials may have found a maximum between the last two powers.
        is_maximum = is_refined & (powers > POWERS[0]) & (powers < POWERS[-1])
        return ~(below & above) & ~is_maximum

    @property
    def _are_neighbours_sound(self) -> tuple[np.ndarray, np.ndarray]:
        """Report where the powers beside the best are sound; two of (n_columns,)."""
        is_sound = np.pad(self.is_sound, ((1, 1), (0, 0)))  # no power beyond the ends
        columns = np.arange(len(self.best))
        return is_sound[self.best, columns], is_sound[self.best + 2, columns]

    def distances_beyond(self, counts: np.ndarray) -> np.ndarray:
        """Return how far beyond the best power, the last one, the likeliest may be.

        A parabola through the gains of that power and of the two within says where it
        is. Infinite where rows tell that the last power is not the likeliest, or where
        the parabola has no vertex.
        """
        below, _ = self._are_neighbours_sound
        inward = np.where(below, -1, 1)
        columns = np.arange(len(self.best))
        places = self.best + inward * np.arange(3)[:, None]
        places = np.clip(places, 0, len(POWERS) - 1)
        is_sound = self.is_sound[places, columns].all(axis=0)
        gains = _gains(
            POWERS[places],
            mean_logarithms=self.mean_logarithms,
            t=self.t[places, columns],
            r=self.r[places, columns],
        )
        # gains[0] + slope j + bend j^2 after j steps inwards
        bend = (gains[0] - 2.0 * gains[1] + gains[2]) / 2.0
        slope = gains[1] - gains[0] - bend
        has_vertex = is_sound & (bend < 0)
        bend = np.where(has_vertex, bend, -1.0)
        is_certain = counts * slope**2 / (-4.0 * bend) > _CERTAIN
        steps_beyond = np.maximum(slope / (2.0 * bend), 0.0)
        return np.where(has_vertex & ~is_certain, STEP * steps_beyond, np.inf)

    def off_poles(self, powers: np.ndarray) -> np.ndarray:
        """The powers, moved away from those at which the formula divides by 0."""
        # With numbers of a precision e, a power q changes y by q s^2 / 2, and has it
        # off by e / q: in units of the deviation both are least, and equal, at a q of
        # sqrt(2 e) over the deviation of s.
        precision = np.sqrt(2.0 * np.finfo(np.float32).eps)
        for pole in (0.0,) if self.box else (0.0, 2.0):
            deviations = self.deviations[np.searchsorted(POWERS, pole)]
            least_distances = np.full(len(powers), STEP / 2)
            np.divide(precision, deviations, out=least_distances, where=deviations > 0)
            least_distances = np.minimum(least_distances, STEP / 2)
            distances = powers - pole
            nearest_allowed = pole + np.where(
                distances < 0, -least_distances, least_distances
            )
            is_too_near = np.abs(distances) < least_distances
            powers = np.where(is_too_near, nearest_allowed, powers)
        return powers

    def moments_at(
        self, powers: np.ndarray, is_refined: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of y; as of the grid's best where that is not refined."""
        columns = np.arange(len(powers))
        t, r = self._interpolated(powers, _N_NEIGHBOURS)
        t = np.where(is_refined, t, self.t[self.best, columns])
        r = np.where(is_refined, r, self.r[self.best, columns])
        variances = np.exp(2.0 * (r + (powers - 1.0) * t))
        return transformed(t, powers, box=self.box), variances


def _gains(
    powers: np.ndarray, *, mean_logarithms: np.ndarray, t: np.ndarray, r: np.ndarray
) -> np.ndarray:
    """Log-likelihood of powers, a row."""
    return (powers - 1.0) * (mean_logarithms - t) - r
