"""How strong the penalty of a linear model is to be, chosen by sums over rows.

Least squares of the indicators of classes have closed forms of the same sums that the
likelihood is made of. With the scatter S of the rows about their mean, the products B
of rows and indicators, and n rows, the weights (S + l R)^-1 B have

    p(l) = 1 + trace(S (S + l R)^-1)

effective parameters, and generalized cross-validation (Golub, Heath and Wahba, 1979)
estimates the mean square on other rows as

    g(l) = squares(l) / n / (1 - 1.4 p(l) / n)^2 .

The factor of 1.4 is from Kim and Gu (2004): with a factor of 1 the penalty now and then
follows chance and is far too weak.

R is diagonal: the variances of features where weights are penalized whatever the units,
and ones elsewhere. The second derivative of a log-loss is p (1 - p) a row where that of
half the squares is 1, and the mean of p (1 - p) is the mean square of p about the
indicator. So the penalty l R of the least squares shrinks a direction as much as
R / C does with

    C = 1 / (l g(l)) .
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import linalg

from ._class_moments import ClassMoments, deviations
from ._rows import ROUNDING_OF_SUMS, ratio

# Strengths that are tried, as multiples of the mean eigenvalue of the scatter: a
# stronger one leaves nothing of the weights, rounding hides what a weaker one would do,
# and a factor of 1.8 between two a model hardly shows.
_STRENGTHS = np.logspace(1, -8, 37)
# How often each effective parameter counts.
_GAMMA = 1.4
# The largest C for features of unit variance: larger ones fit separable rows alike, and
# the search for the model takes long.
_LARGEST_C = 100.0


@dataclass(frozen=True, kw_only=True, eq=False)
class _LeastSquares:
    """Least squares of indicators of classes, by strength of their penalty."""

    n_rows: float
    n_classes: int
    eigenvalues: np.ndarray  # of the scatter, (n_features,)
    explained: np.ndarray  # squares of the products along each direction, (n_features,)
    squares: float  # of all indicators about their means

    @classmethod
    def from_moments(
        cls, moments: ClassMoments, n_classes: int, *, scaled: bool
    ) -> Self:
        total = moments.total()
        scatter = total.n_rows * total.covariance
        by_class = moments.by_class()
        class_deviations = deviations(by_class.means, moments.mean())
        products = by_class.counts * class_deviations.T
        if scaled:
            scales = ratio(1.0, np.sqrt(total.covariance.diagonal()))
            scatter *= scales[:, None] * scales
            products = scales[:, None] * products
        eigenvalues, directions = linalg.eigh(scatter, overwrite_a=True, driver="evd")
        shares = by_class.counts / total.n_rows
        return cls(
            n_rows=total.n_rows,
            n_classes=n_classes,
            eigenvalues=np.maximum(eigenvalues, 0.0),
            explained=np.sum((directions.T @ products) ** 2, axis=1),
            squares=total.n_rows * np.sum(shares * (1.0 - shares)),
        )

    def mean_square(self, strength: float) -> float:
        """g(l), the mean square of a class on other rows; inf for too few rows."""
        penalized = self.eigenvalues + strength
        kept = self.eigenvalues / penalized
        n_left = self.n_rows - _GAMMA * (1.0 + kept.sum())
        if n_left <= 0:
            return np.inf
        residual = self.squares - np.sum(self.explained * (2.0 - kept) / penalized)
        return max(residual, 0.0) * self.n_rows / n_left**2 / self.n_classes

    def best_strength(self) -> float:
        """The strongest penalty whose mean square is no larger than any other's."""
        # From the strongest on: rounding mostly leaves the same one.
        strengths = _STRENGTHS * self.eigenvalues.mean()
        squares = np.array([self.mean_square(strength) for strength in strengths])
        is_least = squares <= (1.0 + ROUNDING_OF_SUMS) * squares.min()
        return strengths[np.argmax(is_least)]


def cross_validated_C(moments: ClassMoments, n_classes: int, *, scaled: bool) -> float:
    """Choose the C of a penalized log-loss by generalized cross-validation.

    Parameters
    ----------
    moments : ClassMoments
        Sums of all rows, with covariances of features.
    n_classes : int
        Number of classes, of which some may have no rows.
    scaled : bool
        Whether the penalty is on weights of features of unit variance.

    Returns
    -------
    C : float
        At most 100 for features of unit variance.

    Raises
    ------
    ValueError
        If the moments have variances alone.
    """
    least_squares = _LeastSquares.from_moments(moments, n_classes, scaled=scaled)
    mean_variance = least_squares.eigenvalues.mean() / least_squares.n_rows
    if mean_variance == 0:
        return 1.0  # constant features have no weights
    strength = least_squares.best_strength()
    inverse_C = strength * least_squares.mean_square(strength)
    return float(1.0 / max(inverse_C, mean_variance / _LARGEST_C))
