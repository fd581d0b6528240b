r"""Gram metrics: second moments of the rows about their mean, shared by the outputs.

A change of the weights w and of the intercept b of one output has the squared length

    w' G w + s (b + m' w)^2,

which for a covariance G and a mean m of rows, and s = 1, is the mean squared change of
the output's logit on these rows. As one matrix of all parameters it is

    P    = [[G + s m m',  s m], [s m',  s]],
    P^-1 = [[G^-1,  -G^-1 m], [-m' G^-1,  1/s + m' G^-1 m]].

P is never stored: G and m are, so that features far from zero do not cost digits. A
feature that does not vary on the rows has zeros in G; its weight is *free*.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse
from sklearn.utils.extmath import safe_sparse_dot

from ..moments import ROUNDING_OF_SUMS, float_type, row_blocks, working_bytes
from ._metric import (
    Metric,
    apply_to_params,
    diagonal,
    mean_matrix,
    ray_map,
    row_norms,
    select_outputs,
    weighted_sum,
)
from ._outputs import Rows, dense_rows, logits_on_rows, output_columns

# By how much a row may differ from the mean of a feature that does not vary, relative
# to that mean: what rounding of the row and of the mean leaves in its type.
_ROUNDING_OF_CONSTANTS = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-12}
# Means of two nodes, relative to their common mean, and relative weights of metrics,
# output by output, that differ by less are the same but for rounding.
_SAME = 1e-12


@dataclass(frozen=True, eq=False, kw_only=True)
class GramMetric(Metric):
    r"""Squared length of changes of logits, as one matrix of the features about a mean.

    A change of the weights :math:`w` and intercept :math:`b` of an output has the
    squared length :math:`w' G w + s (b + m' w)^2`. The lengths of the outputs are
    summed with weights :math:`B`. With G the covariance of a node's rows, m their mean
    and :math:`s = 1` it is the mean squared change of the logits on these rows. It does
    not depend on where the zero of a feature is. If the diagonal of G is 0 for a
    feature, its weight costs nothing except through m, and is left as it is.

    Parameters
    ----------
    scatter : ndarray of shape (n_features, n_features)
        The matrix G. It is symmetric and positive definite, except for rows and columns
        of zeros. It is not copied, so that thousands of spaces may share one metric and
        its Cholesky factor.
    mean : ndarray of shape (n_features,)
        The mean m.
    output_weights : ndarray of shape (n_outputs,), default=None
        Diagonal of B, above 0: how much a change of the logit of each output counts.
        With None all outputs count alike, and there may be any number of them.
    size : float, default=1.0
        The factor s, above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import GramMetric, squared_norm
    >>> metric = GramMetric(scatter=np.array([[2.0]]), mean=np.array([3.0]))
    >>> metric.gram
    array([[11.,  3.],
           [ 3.,  1.]])
    >>> float(squared_norm(metric, np.array([[1.0], [-3.0]])))
    2.0
    """

    scatter: np.ndarray = field(repr=False)
    mean: np.ndarray = field(repr=False)
    output_weights: np.ndarray | None = field(default=None, repr=False)
    size: float = 1.0

    family: ClassVar[str] = "gram"

    def __post_init__(self) -> None:
        scatter = np.ascontiguousarray(self.scatter, dtype=np.float64)
        mean = np.asarray(self.mean, dtype=np.float64)
        if scatter.ndim != 2 or scatter.shape[0] != scatter.shape[1]:
            raise ValueError(
                "scatter must be a square array of shape (n_features, n_features), got "
                f"shape {scatter.shape}."
            )
        if mean.shape != scatter.shape[:1]:
            raise ValueError(
                f"mean must have shape {scatter.shape[:1]}, one number for each row of "
                f"scatter, got shape {mean.shape}."
            )
        if not 0 < self.size < np.inf:
            raise ValueError(f"size must be finite and above 0, got {self.size}.")
        # The class is frozen: what is checked is stored past its __setattr__.
        vars(self).update(scatter=scatter, mean=mean)
        if self.output_weights is None:
            return
        output_weights = np.asarray(self.output_weights, dtype=np.float64)
        is_usable = np.isfinite(output_weights) & (output_weights > 0)
        if output_weights.ndim != 1 or not is_usable.all():
            raise ValueError(
                "output_weights must be an array of one dimension, finite and above 0, "
                f"got {output_weights}."
            )
        vars(self).update(output_weights=output_weights)

    @classmethod
    def from_matrix(
        cls, gram: np.ndarray, output_weights: ArrayLike | None = None
    ) -> "GramMetric":
        """Return the metric of one matrix of all parameters.

        With the matrix A the squared length of a change is ``tr(delta' A delta B)``.
        """
        matrix = np.asarray(gram, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
            raise ValueError(
                "gram must be a square array of shape (n_params, n_params), got shape "
                f"{matrix.shape}."
            )
        size = float(matrix[-1, -1])
        if not size > 0:
            raise ValueError(
                "gram must be positive at the intercept, its last diagonal entry, got "
                f"{size}."
            )
        mean = matrix[:-1, -1] / size
        scatter = matrix[:-1, :-1] - size * np.outer(mean, mean)
        return cls(scatter=scatter, mean=mean, output_weights=output_weights, size=size)

    @property
    def shape(self) -> tuple[int, int | None]:
        """Return (n_features + 1, n_outputs), or None for any number of outputs."""
        n_outputs = None if self.output_weights is None else len(self.output_weights)
        return len(self.mean) + 1, n_outputs

    @property
    def free(self) -> np.ndarray | None:
        """Mask (n_params, 1) of weights of features that do not vary, or None."""
        if self._varies.all():
            return None
        return np.append(~self._varies, False)[:, None]

    @property
    def gram(self) -> np.ndarray:
        """The matrix of all parameters, shape (n_params, n_params)."""
        extended = np.append(self.mean, 1.0)
        gram = self.size * np.outer(extended, extended)
        gram[:-1, :-1] += self.scatter
        return gram

    @cached_property
    def _varies(self) -> np.ndarray:
        """Mask (n_features,) of the features that vary on the rows."""
        return self.scatter.diagonal() > 0

    @cached_property
    def _factor(self) -> np.ndarray:
        """Lower Cholesky factor of G, of the features that vary."""
        scatter = self.scatter
        if not self._varies.all():
            scatter = scatter[np.ix_(self._varies, self._varies)]
        try:
            # Transposed it is in the order that LAPACK reads.
            return linalg.cholesky(scatter.T, lower=True, check_finite=False)
        except linalg.LinAlgError:
            raise ValueError(
                "The gram matrix is not positive definite, so some change of the "
                "parameters moves no logit. Give the geometry a larger ridge."
            ) from None

    @cached_property
    def _inverse_factor(self) -> np.ndarray:
        """Inverse of the factor, (n_features, n_features); 0 where free."""
        inverse = self._divide_by_factor(np.eye(len(self._factor)))
        if self._varies.all():
            return inverse
        inverse_of_all = np.zeros_like(self.scatter)
        inverse_of_all[np.ix_(self._varies, self._varies)] = inverse
        return inverse_of_all

    def _divide_by_factor(self, rhs: np.ndarray) -> np.ndarray:
        """Return L^-1 times `rhs`, whose rows are the features that vary."""
        return linalg.solve_triangular(
            self._factor, rhs, lower=True, check_finite=False
        )

    def _divide_by_transposed_factor(self, rhs: np.ndarray) -> np.ndarray:
        """Return L^-T times `rhs`, whose rows are the features that vary."""
        return linalg.solve_triangular(
            self._factor, rhs, lower=True, trans="T", check_finite=False
        )

    def _divide_by_scatter(self, rhs: np.ndarray) -> np.ndarray:
        """Return G^-1 times `rhs`, whose rows are the features that vary."""
        return linalg.cho_solve((self._factor, True), rhs, check_finite=False)

    def _divide_varying(
        self, divide: Callable[[np.ndarray], np.ndarray], rhs: np.ndarray
    ) -> np.ndarray:
        """Divide `rhs` (n_features, m); 0 in the rows of features that do not vary."""
        if self._varies.all():
            return divide(rhs)
        quotient = np.zeros(rhs.shape)
        quotient[self._varies] = divide(rhs[self._varies])
        return quotient

    @cached_property
    def _output_roots(self) -> np.ndarray | float:
        """Square roots of the outputs' weights, (n_outputs,); 1 where all are alike."""
        return 1.0 if self.output_weights is None else np.sqrt(self.output_weights)

    def mv(self, W: np.ndarray) -> np.ndarray:
        """Multiply the column of each output by P, see :meth:`Metric.mv`."""
        weights = W[..., :-1, :]
        mean_logit = self.size * (W[..., -1:, :] + self._logit_of_mean(weights))
        product = np.empty_like(W, dtype=np.float64)
        np.matmul(self.scatter, weights, out=product[..., :-1, :])
        product[..., :-1, :] += self.mean[:, None] * mean_logit
        product[..., -1:, :] = mean_logit
        product *= self._output_roots**2
        return product

    def _logit_of_mean(self, weights: np.ndarray) -> np.ndarray:
        """Return m' w of weights (..., n_features, n_outputs): (..., 1, n_outputs)."""
        return np.matmul(self.mean, weights)[..., None, :]

    def solve(self, B: np.ndarray) -> np.ndarray:
        """Multiply by the inverse of P, see :meth:`Metric.solve`."""
        last = B[..., -1:, :]
        weights = apply_to_params(
            partial(self._divide_varying, self._divide_by_scatter),
            B[..., :-1, :] - self.mean[:, None] * last,
        )
        intercept = last / self.size - self._logit_of_mean(weights)
        return np.concatenate([weights, intercept], axis=-2) / self._output_roots**2

    def unwhiten(self, Z: np.ndarray) -> np.ndarray:
        """Multiply by the inverse of R, see :meth:`Metric.unwhiten`.

        In R the weights have the transposed Cholesky factor L' of G.
        """
        weights = apply_to_params(
            partial(self._divide_varying, self._divide_by_transposed_factor),
            Z[..., :-1, :],
        )
        intercept = Z[..., -1:, :] / np.sqrt(self.size)
        intercept = intercept - self._logit_of_mean(weights)
        return np.concatenate([weights, intercept], axis=-2) / self._output_roots


# ---- shorter ways for gram metrics ---------------------------------------------------


@select_outputs.register(GramMetric)
def _gram_select_outputs(metric: GramMetric, places: np.ndarray) -> GramMetric:
    """Return the metric, of the same matrix, of the outputs at some places."""
    if metric.output_weights is None:
        return metric
    return replace(metric, output_weights=metric.output_weights[places])


@diagonal.register(GramMetric)
def _gram_diagonal(metric: GramMetric, origin: np.ndarray | None = None) -> np.ndarray:
    mean = metric.mean if origin is None else metric.mean - origin
    squares = metric.scatter.diagonal() + metric.size * mean**2
    output_weights = np.atleast_1d(metric._output_roots) ** 2
    return np.append(squares, metric.size)[:, None] * output_weights


@mean_matrix.register(GramMetric)
def _gram_mean_matrix(
    metric: GramMetric, origin: np.ndarray | None = None
) -> np.ndarray:
    if origin is not None:
        metric = replace(metric, mean=metric.mean - origin)
    return np.mean(metric._output_roots**2) * metric.gram


def white_rows(metric: GramMetric, X: Rows) -> np.ndarray:
    """Return ``L^-1 [x_i - m; 1]``, of length ``|R^-T [x_i; 1]|``, for each row.

    The shape is (n_rows, n_params). Weights of outputs are ignored.
    """
    n_rows = X.shape[0]
    dtype = float_type(X)
    white = np.empty((n_rows, metric.shape[0]), dtype=dtype)
    white[:, -1] = 1.0 / np.sqrt(metric.size)
    if n_rows < len(metric.mean):
        # Fewer rows than features: an inverse of the factor would take longer.
        deviations = np.subtract(dense_rows(X), metric.mean, dtype=np.float64)
        white[:, :-1] = metric._divide_varying(metric._divide_by_factor, deviations.T).T
        return white
    inverse = metric._inverse_factor.T.astype(dtype, copy=False)
    if sparse.issparse(X):
        white[:, :-1] = safe_sparse_dot(X, inverse, dense_output=True)
        white[:, :-1] -= (metric.mean @ metric._inverse_factor.T).astype(dtype)
    else:
        # Deviations first: with the mean goes what would take their digits.
        deviations = np.subtract(X, metric.mean, dtype=np.float64).astype(dtype)
        np.matmul(deviations, inverse, out=white[:, :-1])
    return white


@row_norms.register(GramMetric)
def _gram_row_norms(
    metric: GramMetric,
    X: Rows,
    outputs: np.ndarray | None = None,
    *,
    squared: bool = False,
) -> np.ndarray:
    """Return lengths of white rows, whatever the number of outputs.

    A norm is infinite for a row with a value that the metric's rows never had in a
    feature that does not vary: its weight is free, so nothing bounds the change.
    """
    n_params, n_outputs = metric.shape
    squares = np.empty((X.shape[0], 1))
    # The white rows, and deviations of as many numbers on the way to them.
    row_bytes = 2 * n_params * float_type(X).itemsize
    for rows in row_blocks(X, bytes_per_row=row_bytes, limit=working_bytes()):
        white = white_rows(metric, X[rows])
        squares[rows, 0] = np.einsum("ij,ij->i", white, white, dtype=np.float64)
    constant = np.flatnonzero(~metric._varies)
    if len(constant):
        mean = metric.mean[constant]
        deviations = np.abs(dense_rows(X[:, constant]) - mean)
        rounding = _ROUNDING_OF_CONSTANTS[float_type(X)]
        differs = deviations > rounding * np.abs(mean)
        squares[np.any(differs, axis=1)] = np.inf
    if metric.output_weights is not None:
        squares = squares / metric.output_weights[output_columns(outputs, n_outputs)]
    return squares if squared else np.sqrt(squares)


@ray_map.register(GramMetric)
def _gram_ray_map(
    metric: GramMetric, X: Rows, columns: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    # Whitening the rows once is cheaper than unwhitening every direction. It takes the
    # white rows, the deviations in float64 and copies: four times their size.
    white_bytes = X.shape[0] * metric.shape[0] * float_type(X).itemsize
    if 4 * white_bytes <= working_bytes():
        changes = _changes_by_white_rows(metric, X)
    else:
        changes = _changes_by_directions(metric, X)
    if metric.output_weights is None:
        return changes
    # In float32, as the directions are drawn.
    roots = metric._output_roots[columns].astype(np.float32)[:, None]
    return lambda directions: changes(directions / roots)


def _changes_by_white_rows(
    metric: GramMetric, X: Rows
) -> Callable[[np.ndarray], np.ndarray]:
    white = white_rows(metric, X)

    def changes(directions: np.ndarray) -> np.ndarray:
        flat = directions.reshape(-1, white.shape[1])
        product = flat.astype(white.dtype, copy=False) @ white.T
        return product.reshape(*directions.shape[:-1], -1)

    return changes


def _changes_by_directions(
    metric: GramMetric, X: Rows
) -> Callable[[np.ndarray], np.ndarray]:
    inverse = metric._inverse_factor
    dtype = float_type(X)

    def changes(directions: np.ndarray) -> np.ndarray:
        weights = directions[..., :-1] @ inverse
        intercept = directions[..., -1:] / np.sqrt(metric.size)
        intercept = intercept - (weights @ metric.mean)[..., None]
        steps = np.concatenate([weights, intercept], axis=-1, dtype=dtype)
        return logits_on_rows(steps, X)

    return changes


# ---- sums ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class GramSum(Metric):
    """Weighted sum of gram metrics that weigh the outputs differently.

    For output j it is ``sum_k weights_k b_kj P_k``, with b the metrics' output weights.
    Outputs in which the metrics have equal shares of this sum are a *group*: their sums
    differ by a factor, the output's size, and have one Cholesky factor together.
    """

    grams: list[GramMetric] = field(repr=False)  # one a group
    groups: np.ndarray = field(repr=False)  # (n_outputs,): each output's group
    sizes: np.ndarray = field(repr=False)  # (n_outputs,)

    family: ClassVar[str] = "gram"

    @property
    def shape(self) -> tuple[int, int | None]:
        """Return (n_features + 1, n_outputs)."""
        return self.grams[0].shape[0], len(self.sizes)

    @property
    def free(self) -> np.ndarray | None:
        """Mask (n_params, 1) of weights that are free for all metrics, or None."""
        # Which is so in all groups.
        return self.grams[0].free

    @property
    def mean(self) -> np.ndarray:
        """A mean of the means of the outputs, (n_features,)."""
        group_sizes = np.bincount(
            self.groups, weights=self.sizes, minlength=len(self.grams)
        )
        means = np.stack([gram.mean for gram in self.grams])
        return group_sizes @ means / group_sizes.sum()

    def mv(self, W: np.ndarray) -> np.ndarray:
        """Multiply by the sum of each output."""
        return self.sizes * self._apply_by_group(GramMetric.mv, W)

    def solve(self, B: np.ndarray) -> np.ndarray:
        """Divide by the sum of each output; free weights come back as 0."""
        return self._apply_by_group(GramMetric.solve, B) / self.sizes

    def unwhiten(self, Z: np.ndarray) -> np.ndarray:
        """Multiply by R^-1 of the sum of each output; free weights are 0."""
        return self._apply_by_group(GramMetric.unwhiten, Z) / np.sqrt(self.sizes)

    def _apply_by_group(
        self,
        method: Callable[[GramMetric, np.ndarray], np.ndarray],
        array: np.ndarray,
    ) -> np.ndarray:
        """Return a method of each group's metric on its outputs of (..., n_outputs)."""
        products = np.empty_like(array, dtype=np.float64)
        for group, gram in enumerate(self.grams):
            columns = self.groups == group
            if columns.any():
                products[..., columns] = method(gram, array[..., columns])
        return products


@diagonal.register(GramSum)
def _gram_sum_diagonal(metric: GramSum, origin: np.ndarray | None = None) -> np.ndarray:
    diagonals = [diagonal(gram, origin) for gram in metric.grams]
    return np.hstack(diagonals)[:, metric.groups] * metric.sizes


@select_outputs.register(GramSum)
def _gram_sum_select_outputs(metric: GramSum, places: np.ndarray) -> GramSum:
    return replace(metric, groups=metric.groups[places], sizes=metric.sizes[places])


@weighted_sum.register(GramMetric)
def _gram_weighted_sum(
    first: GramMetric, metrics: Sequence[GramMetric], weights: ArrayLike
) -> GramMetric | GramSum:
    weights = np.asarray(weights, dtype=np.float64)
    if all(metric.output_weights is None for metric in metrics):
        return _sum_of_grams(metrics, weights)
    n_outputs = max(metric.shape[1] or 1 for metric in metrics)
    output_weights = np.stack(
        [
            np.broadcast_to(np.atleast_1d(metric._output_roots) ** 2, n_outputs)
            for metric in metrics
        ]
    )
    contributions = output_weights * weights[:, None]  # (n_metrics, n_outputs)
    sizes = contributions.sum(axis=0)
    shares = contributions / sizes
    # Rounding errors must not split outputs that are weighed alike.
    _, first_outputs, groups = np.unique(
        np.round(shares / _SAME),
        axis=1,
        return_index=True,
        return_inverse=True,
    )
    return GramSum(
        grams=[_sum_of_grams(metrics, shares[:, output]) for output in first_outputs],
        groups=groups.ravel(),
        sizes=sizes,
    )


def _sum_of_grams(metrics: Sequence[GramMetric], weights: np.ndarray) -> GramMetric:
    """Return the weighted sum of metrics, whose output weights are ignored.

    Scatters add up about the common mean: with sizes ``s_k = weights_k size_k``, their
    sum s and ``m = sum_k s_k m_k / s``, the scatter of the sum is
    ``sum_k weights_k G_k + sum_k s_k (m_k - m) (m_k - m)'``.
    """
    sizes = np.array([metric.size for metric in metrics]) * weights
    size = float(sizes.sum())
    means = np.stack([metric.mean for metric in metrics])
    mean = sizes @ means / size
    # Thousands of spaces may share one scatter, which is then added once.
    scatters = {id(metric.scatter): metric.scatter for metric in metrics}
    scatter_weights = dict.fromkeys(scatters, 0.0)
    for metric, weight in zip(metrics, weights, strict=True):
        scatter_weights[id(metric.scatter)] += float(weight)
    deviations = means - mean
    deviations[np.abs(deviations) <= _SAME * np.abs(mean)] = 0.0
    deviations *= np.sqrt(sizes)[:, None]
    scatter = deviations.T @ deviations
    varies_within = np.any([G.diagonal() > 0 for G in scatters.values()], axis=0)
    varies_between = np.flatnonzero(~varies_within)
    # K means span K - 1 directions at most: without a ridge more of these features have
    # no Cholesky factor.
    scatter[varies_between, varies_between] *= 1 + ROUNDING_OF_SUMS
    for key, weight in scatter_weights.items():
        # In place, without a copy of any scatter.
        linalg.blas.daxpy(scatters[key].ravel(), scatter.ravel(), a=weight)
    return GramMetric(scatter=scatter, mean=mean, size=size)
