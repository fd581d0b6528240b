"""What Gaussian noise on sums spends: epsilon and delta of one message, and of several.

A message is a sum of rows, which one row moves by at most 1, plus noise of standard
deviation sigma. With Phi of the standard normal distribution, the chance that epsilon
does not hold is (Balle and Wang, 2018)

    delta = Phi(1 / (2 sigma) - epsilon sigma)
            - exp(epsilon) Phi(-1 / (2 sigma) - epsilon sigma).

Several messages spend as much as a single one of (sum sigma_i^-2)^-1/2, whatever was
in the messages before (Dong, Roth and Su, 2022). A person who has m rows in a message
moves it by at most m, which is as if its sigma were sigma / m.

The noise is of whole numbers, the discrete Gaussian. It satisfies concentrated
differential privacy with rho = 1 / (2 sigma^2) (Canonne, Kamath and Steinke, 2020),
from which a larger epsilon follows. `whole_number_epsilon` proves that the formula
above is right for whole numbers, too, but for a tiny difference.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from scipy.optimize import brentq, minimize_scalar
from scipy.special import erfcx, log_ndtr, ndtr

# Logarithm of a delta that is too small for a float: where that of a sigma is sought.
_LOG_OF_NOTHING = -1e5
# Logarithms of the smallest and the largest sigma that are sought. They are enough for
# all epsilons of 1e-6 to 1e6 and all deltas of 1e-15 or more.
_LOG_SIGMAS = (math.log(1e-5), math.log(1e17))
# Two numbers nearer to each other than this lose digits in a difference; a slope has an
# error of the cube of it.
_NEARLY_EQUAL = 1e-5
# Standard deviation, in whole units, of the rounding that would make whole numbers of
# continuous noise: the smaller it is, the closer is sigma to that of the noise; the
# larger it is, the closer are the distributions, here to a factor of 1 + 2e-19.
_ROUNDING = 1.5
# The largest delta at which messages are added up, which is the default of `Privacy`:
# for one person among more than 10,000 a promise may fail at this rate.
_MOST_DELTA = 1e-5


def gaussian_delta(epsilon: float, sigma: float) -> float:
    """Return the delta at which noise of sigma satisfies epsilon."""
    return math.exp(_log_delta(epsilon, sigma))


def gaussian_epsilon(sigma: float, delta: float) -> float:
    """Return the smallest epsilon that noise of sigma satisfies at delta."""
    if gaussian_delta(0.0, sigma) <= delta:
        return 0.0
    # The logarithm of the odds has mean 1 / (2 sigma^2) and deviation 1 / sigma: by
    # the bound of Chernoff it exceeds this epsilon with a chance of at most delta.
    most = 0.5 / sigma**2 + math.sqrt(2.0 * math.log(1.0 / delta)) / sigma
    return brentq(
        lambda epsilon: _log_delta(epsilon, sigma) - math.log(delta),
        0.0,
        most,
        xtol=1e-13 * most,
    )


def gaussian_sigma(epsilon: float, delta: float) -> float:
    """Return the smallest sigma of noise that satisfies epsilon at delta."""

    def excess(log_sigma: float) -> float:
        return _log_delta(epsilon, math.exp(log_sigma)) - math.log(delta)

    least, most = _LOG_SIGMAS
    if excess(least) <= 0.0:  # an epsilon of millions, which hides nothing
        return math.exp(least)
    if excess(most) > 0.0:
        raise ValueError(
            f"No noise is large enough for epsilon={epsilon:g} at delta={delta:g}. "
            "Raise epsilon or delta."
        )
    return math.exp(brentq(excess, least, most, xtol=1e-14))


def combined_sigma(sigmas: Iterable[float]) -> float:
    """Return the sigma of one message that spends as much as several together."""
    return sum(sigma**-2 for sigma in sigmas) ** -0.5


def zcdp_rho(sigma: float) -> float:
    """Return rho of concentrated differential privacy, also for whole numbers."""
    return 0.5 / sigma**2


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the smallest epsilon that follows from rho alone at delta.

    It is the least over all orders a > 1 of the Renyi divergence, which is at most
    rho a (Canonne, Kamath and Steinke, 2020, Proposition 12).
    """

    def epsilon_of_order(log_excess: float) -> float:
        excess = math.exp(log_excess)  # a - 1
        order = 1.0 + excess
        correction = -math.log(order) - math.log(delta)
        return rho * order + correction / excess + math.log(excess / order)

    # About the order that is best without the correction, sqrt(log(1 / delta) / rho).
    center = 0.5 * (math.log(math.log(1.0 / delta)) - math.log(rho))
    best = minimize_scalar(
        epsilon_of_order,
        bounds=(center - 5.0, center + 5.0),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return max(0.0, float(best.fun))


@dataclass(frozen=True, kw_only=True)
class NoisyPart:
    """A part of the vector of a message, whose numbers have one whole unit."""

    share: float  # of the squared length by which a row moves the vector; they sum to 1
    deviation: float  # of the noise on each number, in whole units
    n_numbers: int


def whole_number_epsilon(
    parts: Iterable[NoisyPart], *, sigma: float, delta: float
) -> float:
    """Return an epsilon that noise of whole numbers is proved to satisfy at delta.

    Take continuous noise of variance s^2 - r^2 on each number, and round the result y
    at random. The chance of k is in proportion to f(k - y), with f the density of the
    normal distribution of variance r^2. What is done after noise spends nothing more.
    The sum of f(k - y) over whole numbers k is within 1 - t and 1 + t for every y. By
    Poisson's formula t is the sum of 2 exp(-2 pi^2 r^2 m^2) over m = 1, 2, and so on.
    So rounded numbers have the chances of the discrete Gaussian of variance s^2, but
    for a factor within (1 + t) / (1 - t).
    """
    parts = list(parts)
    least = min(part.deviation for part in parts)
    if least <= 2.0 * _ROUNDING:
        raise ValueError(
            f"The noise has a standard deviation of {least:.3g} whole units, which is "
            f"too coarse for the bound. It needs more than {2.0 * _ROUNDING:g} units."
        )
    raised = sum(
        part.share / (1.0 - (_ROUNDING / part.deviation) ** 2) for part in parts
    )
    n_numbers = sum(part.n_numbers for part in parts)
    ripple = 2.0 * math.exp(-2.0 * math.pi**2 * _ROUNDING**2)
    slack = n_numbers * 2.0 * ripple * (1.0 + 1e-6)  # log((1 + t) / (1 - t)) of each
    epsilon = gaussian_epsilon(sigma / math.sqrt(raised), delta * math.exp(-slack))
    return epsilon + 2.0 * slack


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What one noisy message spends: one draw of noise."""

    sigma: float  # of the noise, where a row moves the vector by at most 1
    delta: float  # at which its epsilon was agreed
    rows_of_one: int = 1  # rows that one person has in it, at most

    @classmethod
    def from_epsilon(
        cls, epsilon: float, delta: float, *, rows_of_one: int = 1
    ) -> Self:
        """Return the charge of noise that keeps epsilon for a person's rows."""
        sigma = rows_of_one * gaussian_sigma(epsilon, delta)
        return cls(sigma=sigma, delta=delta, rows_of_one=rows_of_one)

    @property
    def sigma_of_person(self) -> float:
        """Return sigma, in units of what all rows of one person move."""
        return self.sigma / self.rows_of_one


class Spent:
    """What several noisy messages about one person spend together.

    They may be those of one node, or of several nodes that have rows of the person:
    without sealed sums each node's message has noise of its own.
    """

    def __init__(
        self, charges: Iterable[Charge], *, delta: float | None = None
    ) -> None:
        self.charges = tuple(charges)
        # The smallest delta of all, so that a message of a larger one hides nothing.
        smallest = min([_MOST_DELTA, *(charge.delta for charge in self.charges)])
        self.delta = smallest if delta is None else delta

    @cached_property
    def sigma(self) -> float:
        """Return sigma of a single message that spends as much; infinity for none."""
        if not self.charges:
            return math.inf
        return combined_sigma(charge.sigma_of_person for charge in self.charges)

    @cached_property
    def epsilon(self) -> float:
        """Return the epsilon of all messages together, at `delta`."""
        return gaussian_epsilon(self.sigma, self.delta) if self.charges else 0.0

    def epsilon_left(self, most_epsilon: float) -> float:
        """Return the largest epsilon of one more message, at `delta`."""
        inverse = gaussian_sigma(most_epsilon, self.delta) ** -2 - self.sigma**-2
        return gaussian_epsilon(inverse**-0.5, self.delta) if inverse > 0.0 else 0.0

    @property
    def rho(self) -> float:
        """Return rho of all messages together, which adds up."""
        return zcdp_rho(self.sigma) if self.charges else 0.0

    @cached_property
    def epsilon_of_rho(self) -> float:
        """Return the larger epsilon that follows from rho alone."""
        return zcdp_epsilon(self.rho, self.delta) if self.charges else 0.0


def _log_delta(epsilon: float, sigma: float) -> float:
    """Return the logarithm of delta, which may be far too small for a float."""
    above = 0.5 / sigma - epsilon * sigma
    below = -0.5 / sigma - epsilon * sigma
    if above > 0.0:
        return math.log(ndtr(above) - math.exp(epsilon + log_ndtr(below)))
    # The densities at both are equal but for exp(epsilon): Mills' ratios differ.
    far = -above / math.sqrt(2.0)
    apart = 1.0 / (sigma * math.sqrt(2.0))
    if apart < _NEARLY_EQUAL:  # whose difference would be rounding: the slope times it
        middle = far + 0.5 * apart
        slope = 2.0 / math.sqrt(math.pi) - 2.0 * middle * erfcx(middle)
        ratios = apart * slope
    else:
        ratios = erfcx(far) - erfcx(far + apart)
    if ratios <= 0.0:  # rounding, where delta is below all that is sought
        return _LOG_OF_NOTHING
    return max(-0.5 * above**2 + math.log(0.5 * ratios), _LOG_OF_NOTHING)
