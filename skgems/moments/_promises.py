"""How far rounding may move what scikit-learn makes of rows from what sums make.

Both solve equations ``A W = b`` whose A and b are sums over rows, and both round these
sums, in different orders. Where A is off by E, the decision value ``x' inv(A) b`` of a
row x is off, to first order, by

    x' inv(A) E inv(A) b = (inv(A) x)' E W.

Each function below bounds this for one classifier: ``|inv(A) x|``, how far a row may
lie; ``|E|``, what sums lose; and ``|W|``. Features are brought to unit deviation
before, so that their units do not count.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

_EPS = np.finfo(np.float64).eps
# What "equal but for rounding" promises, as a share of the size of decision values.
PROMISE = 1e-8
# Deviations within which rows are taken to lie: of normal ones 1e-15 lie beyond.
_REACH = 8.0
# Rounding errors are summed as if they were independent; this many times that, so that
# sums of errors that happen to agree are still below the bound.
_SAFETY = 4.0
# Share of the smallest eigenvalue up to which the first order describes errors: what it
# leaves out is the square of this share.
_FIRST_ORDER_SHARE = 1e-2


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """By how much rounding may move decision values, and what amplifies it."""

    error: float  # of decision values, absolute
    condition: float = 1.0  # condition number of the equations
    largest_mean: float = 0.0  # largest mean of a feature, in its deviations
    # Why decision values differ whatever rounding does; "": they do not.
    other_reason: str = ""

    def reason(self, size: float) -> str:
        """Say why decision values of a size are not as promised; "" if they are."""
        if self.other_reason or self.error <= PROMISE * size:
            return self.other_reason
        amount = f"more than {PROMISE:.0e}"
        if self.error < size:
            amount = f"up to {self.error / size:.0e}"
        return (
            "rounding may change the decision values, compared to scikit-learn's fit "
            f"on all rows, by {amount} of their size: the condition number is "
            f"{self.condition:.0e}, and means are up to {self.largest_mean:.0e} "
            "standard deviations."
        )


TWO_DISTANCES = Rounding(
    error=0.0,
    other_reason=(
        "the labels are those of NearestCentroid on all rows, but for equal priors its "
        "decision values come from other distances than its labels."
    ),
)


@dataclass(frozen=True, kw_only=True)
class SumPrecision:
    """How precise sums over rows are, from the means and deviations of features."""

    n_rows: float
    means: np.ndarray  # (n_features,), absolute, the largest over the classes
    deviations: np.ndarray  # (n_features,)
    weight_imbalance: float = 1.0  # root of the mean weight of classes over the least

    @property
    def scatter_error(self) -> float:
        """Norm of the errors of a scatter matrix whose diagonal was made 1.

        Products of n rows round as n independent errors, in a random d x d matrix. Rows
        that are taken about a mean which is off add the square of that error.
        """
        d = len(self.means)
        products = _SAFETY * np.sqrt(d) * (np.sqrt(self.n_rows) + np.sqrt(d)) * _EPS
        return products + float(np.sum(self.mean_errors**2))

    @property
    def mean_errors(self) -> np.ndarray:
        """Errors of means, in deviations: scikit-learn sums row after row."""
        return self._relative_mean_error * self.mean_ratios

    @property
    def mean_ratios(self) -> np.ndarray:
        """Means in deviations, infinite for a constant that is not 0."""
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            return np.where(self.means > 0, self.means / self.deviations, 0.0)

    @property
    def reach(self) -> float:
        """Bound the distance of rows from means, in root mean square distances.

        No one of n rows can lie further than root n of these.
        """
        return min(_REACH, np.sqrt(self.n_rows)) * self.weight_imbalance

    @property
    def _relative_mean_error(self) -> float:
        # Equal values all round to the same side, so that errors grow with the rows;
        # others do so as a random walk, which is less.
        return _EPS * (_SAFETY + self.n_rows / 16)

    def evaluation_error(self, W: np.ndarray) -> float:
        """Bound the rounding of a row times weights (n_features, n_outputs)."""
        sizes = self.means + _REACH * self.deviations
        return 2 * _SAFETY * _EPS * float((sizes @ np.abs(W)).max(initial=0.0))

    def intercept_error(self, W: np.ndarray) -> float:
        """Bound how far errors of means move the intercepts of weights."""
        sizes = self.means @ np.abs(W)
        return self._relative_mean_error * float(sizes.max(initial=0.0))

    def weight_norm(self, W: np.ndarray) -> float:
        """Largest norm of the weights of an output, on features in deviations."""
        return _largest_norm(self.deviations[:, None] * W)

    def rounding(self, *, error: float, condition: float) -> Rounding:
        return Rounding(
            error=error,
            condition=condition,
            largest_mean=float(self.mean_ratios.max(initial=0.0)),
        )


def _largest_norm(columns: np.ndarray) -> float:
    return float(np.linalg.norm(columns, axis=0).max(initial=0.0))


def _inverse_at_unit_diagonal(matrix: np.ndarray) -> tuple[np.ndarray, float]:
    """Inverse of a matrix whose diagonal was made 1, and its condition number.

    Both are infinite where it has none.
    """
    diagonal = np.maximum(matrix.diagonal(), 0.0)
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    unit = matrix / scale[:, None] / scale
    inverse, failed = dpotrf(unit, lower=True)
    if not failed:
        inverse, failed = dpotri(inverse, lower=True)
    if failed:
        return np.full_like(unit, np.inf), np.inf
    # What is above the diagonal is 0.
    inverse = inverse + inverse.T
    inverse[np.diag_indices_from(inverse)] /= 2.0
    return inverse, np.linalg.norm(unit, 1) * np.linalg.norm(inverse, 1)


def sums_are_exact(origin: np.ndarray, means: np.ndarray, *, n_rows: float) -> bool:
    """Report whether rows that each equal a mean are summed without rounding.

    ``means`` are (n_classes, n_features), less ``origin`` (n_features,).
    """
    class_means = origin + means
    # Distance of doubles at the size of the largest sum, of which all others are
    # multiples.
    steps = np.spacing(n_rows * np.abs(class_means))
    origin_is_exact = np.all(class_means - origin == means)
    return bool(origin_is_exact and np.all(np.remainder(class_means, steps) == 0))


def ridge_rounding(
    shifted: np.ndarray, W: np.ndarray, *, alpha: float, precision: SumPrecision
) -> Rounding:
    """Rounding of ``(rows' rows + alpha) W = rows' targets``, by Cholesky.

    ``shifted``, (n_features, n_features), is the matrix with alpha; scikit-learn solves
    for features or, where these are more, for rows.
    """
    inverse, condition = _inverse_at_unit_diagonal(shifted)
    if precision.scatter_error * np.trace(inverse) > _FIRST_ORDER_SHARE:
        return precision.rounding(error=np.inf, condition=condition)
    # Rows x have the second moments A - P, for A = `shifted` and its penalty P. So the
    # mean of |inv(A) x|^2 is tr(inv(A) (A - P) inv(A)). Rows do not vary where it is
    # the penalty alone that bounds the weights: without P the bound would be infinite
    # for alpha towards 0.
    penalty = alpha / np.maximum(shifted.diagonal(), alpha)
    mean_square = np.trace(inverse) - np.sum(penalty * inverse**2)
    distance = precision.reach * np.sqrt(max(mean_square, 1.0))
    # The 1 is for errors of the right-hand side, whose targets are -1 and 1.
    error = distance * precision.scatter_error * (precision.weight_norm(W) + 1.0)
    error += precision.evaluation_error(W) + precision.intercept_error(W)
    if len(W) > precision.n_rows:
        # scikit-learn solves for rows here, whose products are as large as all features
        # together, over the penalty.
        kernel = np.trace(shifted) / alpha if alpha > 0 else np.inf
        error += np.sqrt(precision.n_rows) * precision.scatter_error * kernel
        condition = max(condition, kernel)
    return precision.rounding(error=error, condition=condition)


def least_squares_rounding(
    covariance: np.ndarray,
    W: np.ndarray,
    *,
    uncentered_W: np.ndarray,
    precision: SumPrecision,
) -> Rounding:
    """Rounding of ``covariance uncentered_W = means``, by singular values.

    ``W`` has the same columns, one a class, less what all classes have in common: it
    is of means about their mean.
    """
    inverse, condition = _inverse_at_unit_diagonal(covariance)
    if precision.scatter_error * np.trace(inverse) > _FIRST_ORDER_SHARE:
        return precision.rounding(error=np.inf, condition=condition)
    weight_norm = precision.weight_norm(W)
    distance = precision.reach * np.sqrt(np.trace(inverse)) + 2 * weight_norm
    mean_error = np.linalg.norm(precision.mean_errors)
    error = distance * (precision.scatter_error * weight_norm + mean_error)
    # That solver works in the units of features: its own errors are those of the
    # largest variance.
    inverse /= np.multiply.outer(precision.deviations, precision.deviations)
    distance = precision.reach * np.sqrt(np.trace(inverse)) + 2 * _largest_norm(W)
    uncentered_norm = _largest_norm(uncentered_W)
    distance += uncentered_norm / 2
    covariance_norm = np.linalg.norm(covariance, 1)
    solver_error = _SAFETY * np.sqrt(len(W)) * _EPS * covariance_norm
    error += solver_error * distance * uncentered_norm + precision.evaluation_error(
        uncentered_W
    )
    condition = covariance_norm * np.linalg.norm(inverse, 1)
    return precision.rounding(error=error, condition=condition)


def discriminant_rounding(
    W: np.ndarray,
    *,
    squares: np.ndarray,  # squared deviations along all directions, ascending
    n_directions: int,  # how many of these, the last, are above tol squared
    between_sizes: np.ndarray,  # singular values of class means along these, descending
    distance_outside: float,  # largest of class means from the span of these
    tol: float,
    precision: SumPrecision,
) -> Rounding:
    """Rounding of LDA's solver "svd", which keeps directions by their size.

    A direction is kept where its deviation is above `tol`, and between classes where
    its singular value is above `tol` times the largest.
    """
    smallest_kept = squares[-n_directions]
    gap = smallest_kept - squares[:-n_directions].max(initial=0.0)
    distances = np.append(np.abs(squares - tol**2), gap)
    nearest = max(distances.min(), _EPS)
    # Where squares are near the cut, rounding decides which directions count, and one
    # more or less changes labels.
    undecided = precision.rounding(error=np.inf, condition=squares[-1] / nearest)
    if nearest <= 4 * precision.scatter_error:
        return undecided
    inverse_gap = 1.0 / gap
    mean_error = np.linalg.norm(precision.mean_errors)
    between_error = precision.scatter_error * inverse_gap * between_sizes[
        0
    ] + mean_error * np.sqrt(inverse_gap)
    cut = tol * between_sizes[0]
    if (np.abs(between_sizes - cut) <= 4 * between_error).any():
        return undecided
    weight_norm = precision.weight_norm(W)
    inverse_trace = np.sum(1.0 / squares[-n_directions:])
    distance = precision.reach * np.sqrt(inverse_trace) + 2 * weight_norm
    # Rounding turns directions, towards those that are left out too, by its size over
    # the gap.
    turned_norm = weight_norm + inverse_gap * distance_outside
    error = distance * (precision.scatter_error * turned_norm + mean_error)
    error += precision.evaluation_error(W) + precision.intercept_error(W)
    return precision.rounding(error=error, condition=squares[-1] * inverse_gap)


def distance_rounding(
    scores: np.ndarray, *, largest_shrinkage: float, precision: SumPrecision
) -> Rounding:
    """Rounding of squared distances to centroids.

    ``scores``, (n_classes, n_features), are centroids about their mean, in deviations;
    ``largest_shrinkage`` is by how much a coordinate of these was shrunk at most.
    """
    length = float(np.linalg.norm(scores, axis=1).max())
    distance = precision.reach + length
    deviation_error = _SAFETY * np.sqrt(precision.n_rows) * _EPS
    deviation_error += float(np.max(precision.mean_errors) ** 2)
    # Squared distances of rows from 0, which are summed and subtracted.
    squares = _REACH**2 * len(precision.means) + float(np.sum(precision.mean_ratios**2))
    error = 4 * _SAFETY * _EPS * squares
    error += (
        2
        * distance
        * (
            np.linalg.norm(precision.mean_errors)
            + deviation_error * (length + largest_shrinkage)
        )
    )
    condition = 1.0 + precision.mean_ratios.max(initial=0.0) ** 2
    return precision.rounding(error=error, condition=condition)


def quadratic_rounding(covariance: np.ndarray, *, precision: SumPrecision) -> Rounding:
    """Rounding of squared distances by a class's own covariance, as a share of them.

    ``covariance`` is (n_features, n_features), or variances (n_features,).
    """
    if covariance.ndim == 1:
        inverse_norm = 1.0
        condition = 1.0
    else:
        inverse, condition = _inverse_at_unit_diagonal(covariance)
        if np.isinf(condition):
            return precision.rounding(error=np.inf, condition=condition)
        inverse_norm = np.linalg.norm(inverse, 2)
    mean_error = np.linalg.norm(precision.mean_errors)
    error = precision.scatter_error * inverse_norm
    error += 2.0 * mean_error * np.sqrt(inverse_norm)
    return precision.rounding(error=error, condition=condition)
