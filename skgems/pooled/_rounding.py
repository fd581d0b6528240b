"""How far rounding may move what scikit-learn makes of rows from what sums make."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

_EPS = np.finfo(np.float64).eps
# What "equal but for rounding" promises: of the size of decision values.
PROMISE = 1e-8
# Deviations within which rows are taken to lie.
_REACH = 8.0
# Rounding errors are summed as if they were independent; this many times that.
_SAFETY = 4.0
# Share of the smallest eigenvalue up to which errors are added up by first order.
_SMALL = 1e-2


@dataclass(frozen=True)
class Rounding:
    """By how much rounding may move decision values, absolute; what amplifies it."""

    error: float
    condition: float = 1.0
    level: float = 0.0
    otherwise: str = ""

    def reason(self, size: float) -> str:
        """Why decision values of a size are not what is promised; or nothing."""
        if self.otherwise or self.error <= PROMISE * size:
            return self.otherwise
        amount = f"more than {PROMISE:.0e}"
        if self.error < size:
            amount = f"up to {self.error / size:.0e}"
        return (
            "rounding may move the decision values of scikit-learn's fit on all rows "
            f"by {amount} of their size: condition number {self.condition:.0e}, means "
            f"of up to {self.level:.0e} deviations."
        )


TWO_DISTANCES = Rounding(
    0.0,
    otherwise="the labels are those of NearestCentroid on all rows, but where priors "
    "are equal its decision values are of other distances than its labels.",
)


@dataclass(frozen=True)
class Sums:
    """Precision of sums over rows, of features with given means and deviations."""

    n_rows: float
    means: np.ndarray  # in size, the largest over the classes
    deviations: np.ndarray
    uneven: float = 1.0  # root of the mean weight of classes over the smallest

    @property
    def noise(self) -> float:
        """Norm of the errors of a scatter matrix whose diagonal was made 1."""
        d = len(self.means)
        products = _SAFETY * np.sqrt(d) * (np.sqrt(self.n_rows) + np.sqrt(d)) * _EPS
        return products + float(np.sum(self.drifts**2))

    @property
    def drifts(self) -> np.ndarray:
        """Errors of means, in deviations: scikit-learn sums row after row."""
        return self._step * self.ratios

    @property
    def ratios(self) -> np.ndarray:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            return np.where(self.means > 0, self.means / self.deviations, 0.0)

    @property
    def reach(self) -> float:
        """How far rows lie from their means, at most by their root mean square."""
        return min(_REACH, np.sqrt(self.n_rows)) * self.uneven

    @property
    def _step(self) -> float:
        # Equal values round alike, others as a random walk.
        return _EPS * (_SAFETY + self.n_rows / 16)

    def evaluated(self, W: np.ndarray) -> float:
        sizes = self.means + _REACH * self.deviations
        return 2 * _SAFETY * _EPS * float((sizes @ np.abs(W)).max(initial=0.0))

    def moved(self, W: np.ndarray) -> float:
        return self._step * float((self.means @ np.abs(W)).max(initial=0.0))

    def sizes(self, W: np.ndarray) -> float:
        return _largest(self.deviations[:, None] * W)

    def rounding(self, error: float, condition: float) -> Rounding:
        return Rounding(error, condition, float(self.ratios.max(initial=0.0)))


def _largest(columns: np.ndarray) -> float:
    return float(np.linalg.norm(columns, axis=0).max(initial=0.0))


def _inverted(matrix: np.ndarray) -> tuple[np.ndarray, float]:
    """Inverse with a diagonal made 1 before, infinite if it has none; the condition."""
    diagonal = np.maximum(matrix.diagonal(), 0.0)
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    unit = matrix / scale[:, None] / scale
    inverse, failed = dpotrf(unit, lower=True)
    if not failed:
        inverse, failed = dpotri(inverse, lower=True)
    if failed:
        return np.full_like(unit, np.inf), np.inf
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    return inverse, np.linalg.norm(unit, 1) * np.linalg.norm(inverse, 1)


def sums_are_exact(origin, means, n_rows: float) -> bool:
    """Whether so many rows, each equal to a mean, are summed without rounding."""
    values = origin + means
    steps = np.spacing(n_rows * np.abs(values))
    kept = np.all(values - origin == means)
    return bool(kept and np.all(np.remainder(values, steps) == 0))


# Each term bounds what an error of one size somewhere does to decision values: with
# (A + E) instead of A, x' inv(A) b is off by x' inv(A) E inv(A) b.


def ridge_rounding(shifted, alpha: float, W, sums: Sums) -> Rounding:
    """Of ``(rows' rows + alpha) W = rows' targets``, by Cholesky of either side."""
    inverse, condition = _inverted(shifted)
    if sums.noise * np.trace(inverse) > _SMALL:
        return sums.rounding(np.inf, condition)
    # Rows do not vary where it is the penalty alone that bounds the weights.
    penalty = alpha / np.maximum(shifted.diagonal(), alpha)
    total = np.trace(inverse) - np.sum(penalty * inverse**2)
    far = sums.reach * np.sqrt(max(total, 1.0))
    error = far * sums.noise * (sums.sizes(W) + 1.0)
    error += sums.evaluated(W) + sums.moved(W)
    if len(W) > sums.n_rows:  # scikit-learn solves for rows, whose sizes count
        kernel = np.trace(shifted) / alpha if alpha > 0 else np.inf
        error += np.sqrt(sums.n_rows) * sums.noise * kernel
        condition = max(condition, kernel)
    return sums.rounding(error, condition)


def least_squares_rounding(covariance, W, whole, sums: Sums) -> Rounding:
    """Of ``covariance whole = means``, by singular values; W is about their mean."""
    inverse, condition = _inverted(covariance)
    if sums.noise * np.trace(inverse) > _SMALL:
        return sums.rounding(np.inf, condition)
    far = sums.reach * np.sqrt(np.trace(inverse)) + 2 * sums.sizes(W)
    error = far * (sums.noise * sums.sizes(W) + np.linalg.norm(sums.drifts))
    # That solver's own errors are those of the largest variance.
    inverse /= np.multiply.outer(sums.deviations, sums.deviations)
    far = sums.reach * np.sqrt(np.trace(inverse)) + 2 * _largest(W)
    far += _largest(whole) / 2
    norm = np.linalg.norm(covariance, 1)
    own = _SAFETY * np.sqrt(len(W)) * _EPS * norm
    error += own * far * _largest(whole) + sums.evaluated(whole)
    return sums.rounding(error, norm * np.linalg.norm(inverse, 1))


def discriminant_rounding(squares, kept, sizes, left, tol, W, sums) -> Rounding:
    """Of directions kept by singular values; squares ascend to the last `kept`."""
    gap = squares[-kept] - squares[:-kept].max(initial=0.0)
    distances = np.append(np.abs(squares - tol**2), gap)
    nearest = max(distances.min(), _EPS)
    # Rounding says whether directions count whose squares are near the cut.
    undecided = sums.rounding(np.inf, squares[-1] / nearest)
    if nearest <= 4 * sums.noise:
        return undecided
    inverse, drift = 1.0 / gap, np.linalg.norm(sums.drifts)
    between = sums.noise * inverse * sizes[0] + drift * np.sqrt(inverse)
    if (np.abs(sizes - tol * sizes[0]) <= 4 * between).any():
        return undecided
    far = sums.reach * np.sqrt(np.sum(1.0 / squares[-kept:])) + 2 * sums.sizes(W)
    # Rounding turns directions, towards those that are left out too.
    turned = sums.sizes(W) + inverse * left
    error = far * (sums.noise * turned + drift)
    error += sums.evaluated(W) + sums.moved(W)
    return sums.rounding(error, squares[-1] * inverse)


def distance_rounding(scores, moves, sums: Sums) -> Rounding:
    """Of squared distances of ``scores``, in deviations, that shrank by ``moves``."""
    length = float(np.linalg.norm(scores, axis=1).max())
    far = sums.reach + length
    noise = _SAFETY * np.sqrt(sums.n_rows) * _EPS + float(np.max(sums.drifts) ** 2)
    squares = _REACH**2 * len(sums.means) + float(np.sum(sums.ratios**2))
    error = 4 * _SAFETY * _EPS * squares
    error += 2 * far * (np.linalg.norm(sums.drifts) + noise * (length + moves))
    return sums.rounding(error, 1.0 + sums.ratios.max(initial=0.0) ** 2)


def quadratic_rounding(covariance: np.ndarray, sums: Sums) -> Rounding:
    """Of squared distances in a class's own covariance, or variances: relative."""
    if covariance.ndim == 1:
        total, condition = 1.0, 1.0
    else:
        inverse, condition = _inverted(covariance)
        if np.isinf(condition):
            return sums.rounding(np.inf, condition)
        total = np.linalg.norm(inverse, 2)
    error = sums.noise * total + 2.0 * np.linalg.norm(sums.drifts) * np.sqrt(total)
    return sums.rounding(error, condition)
