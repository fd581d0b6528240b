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

from ..moments import float_type, row_blocks, working_bytes
from ._diagonal import Rows, logits_on_rows, output_columns

# By how much a row may differ from the mean of a feature that does not vary, relative
# to that mean: what rounding of the row and of the mean leaves in its type.
_ROUNDING_OF_CONSTANTS = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-12}
# Means of two nodes that differ by less, relative to their common mean, are equal but
# for rounding.
_ROUNDING_OF_MEANS = 1e-12
# Relative ridge on features that vary between nodes but within none: K means span K - 1
# directions at most, and without a ridge more such features have no Cholesky factor.
_RIDGE_BETWEEN_NODES = 1e-9
# Decimals to which the relative weights of metrics are compared, output by output:
# rounding errors must not split outputs that are weighed alike.
_DECIMALS_OF_SHARES = 12


@dataclass(frozen=True, eq=False, kw_only=True)
class GramMetric:
    r"""Squared length of changes of logits: one matrix of the features, about a mean.

    A change of the weights :math:`w` and intercept :math:`b` of an output has the
    squared length :math:`w' G w + s (b + m' w)^2`, summed over the outputs with weights
    :math:`B`. With G the covariance of a node's rows, m their mean and :math:`s = 1` it
    is the mean squared change of the logits on these rows, whatever the features' zero.
    Where the diagonal of G is zero, a weight costs nothing but through m, and stays.

    Parameters
    ----------
    scatter : ndarray of shape (n_features, n_features)
        G, symmetric, positive definite but for rows and columns of zeros. Kept by
        reference: thousands of spaces may share one metric and its Cholesky factor.
    mean : ndarray of shape (n_features,)
        m.
    output_weights : ndarray of shape (n_outputs,), default=None
        Diagonal of B, above 0: how much a change of each output's logit counts.
        None: all alike, for any number of outputs.
    size : float, default=1.0
        s, above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import GramMetric
    >>> metric = GramMetric(scatter=np.array([[2.0]]), mean=np.array([3.0]))
    >>> metric.gram
    array([[11.,  3.],
           [ 3.,  1.]])
    >>> float(metric.squared_norm(np.array([[1.0], [-3.0]])))
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
    def of(
        cls, gram: np.ndarray, output_weights: ArrayLike | None = None
    ) -> "GramMetric":
        """The metric of one matrix of all parameters, ``tr(delta' A delta B)``."""
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

    def of_outputs(self, places: np.ndarray) -> "GramMetric":
        """The metric, of the same matrix, of the outputs at some places."""
        if self.output_weights is None:
            return self
        return replace(self, output_weights=self.output_weights[places])

    @property
    def n_params(self) -> int:
        """Rows of a parameter array: features and the intercept."""
        return len(self.mean) + 1

    @property
    def n_outputs(self) -> int | None:
        """Columns of a parameter array; None: any number."""
        return None if self.output_weights is None else len(self.output_weights)

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
        """L^-1 times `rhs`, whose rows are the features that vary."""
        return linalg.solve_triangular(
            self._factor, rhs, lower=True, check_finite=False
        )

    def _divide_by_transposed_factor(self, rhs: np.ndarray) -> np.ndarray:
        """L^-T times `rhs`, whose rows are the features that vary."""
        return linalg.solve_triangular(
            self._factor, rhs, lower=True, trans="T", check_finite=False
        )

    def _divide_by_scatter(self, rhs: np.ndarray) -> np.ndarray:
        """G^-1 times `rhs`, whose rows are the features that vary."""
        return linalg.cho_solve((self._factor, True), rhs, check_finite=False)

    def _on_varying(
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

    def n_constrained(self, n_outputs: int | None = None) -> int:
        """Count the parameters that are not free, for `n_outputs` outputs."""
        n_params = int(self._varies.sum()) + 1
        return n_params * (1 if n_outputs is None else n_outputs)

    def squared_norm(self, delta: np.ndarray) -> np.ndarray:
        """Squared length of `delta` of shape (..., n_params, n_outputs)."""
        return np.einsum("...ij,...ij->...", delta, self.apply(delta))

    def apply(self, delta: np.ndarray) -> np.ndarray:
        """Multiply `delta` by P."""
        weights = delta[..., :-1, :]
        mean_logit = self.size * (delta[..., -1:, :] + self._at_mean(weights))
        product = np.empty_like(delta, dtype=np.float64)
        np.matmul(self.scatter, weights, out=product[..., :-1, :])
        product[..., :-1, :] += self.mean[:, None] * mean_logit
        product[..., -1:, :] = mean_logit
        product *= self._output_roots**2
        return product

    def _at_mean(self, weights: np.ndarray) -> np.ndarray:
        """m' w of weights (..., n_features, n_outputs): (..., 1, n_outputs)."""
        return np.matmul(self.mean, weights)[..., None, :]

    def diagonal(self) -> np.ndarray:
        """Diagonal of P, of shape (n_params, n_outputs), or (n_params, 1) for any."""
        squares = self.scatter.diagonal() + self.size * self.mean**2
        output_weights = np.atleast_1d(self._output_roots) ** 2
        return np.append(squares, self.size)[:, None] * output_weights

    def curvature(self, origin: np.ndarray, *, diagonal: bool) -> np.ndarray:
        """P of models on rows less an origin of shape (n_features,).

        The matrix (n_params, n_params) of the mean output, or with `diagonal` the
        diagonal for each output as of :meth:`diagonal`.
        """
        about_origin = replace(self, mean=self.mean - origin)
        if diagonal:
            return about_origin.diagonal()
        return np.mean(self._output_roots**2) * about_origin.gram

    def centred(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean m, and the diagonal of P where rows have it for their zero."""
        return self.mean, self.curvature(self.mean, diagonal=True)

    def whiten(self, directions: np.ndarray) -> np.ndarray:
        """Carry isotropic directions to this metric; free weights are not moved."""
        weights = _on_params(
            partial(self._on_varying, self._divide_by_transposed_factor),
            directions[..., :-1, :],
        )
        intercept = directions[..., -1:, :] / np.sqrt(self.size)
        intercept = intercept - self._at_mean(weights)
        return np.concatenate([weights, intercept], axis=-2) / self._output_roots

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """Multiply `rhs` by P^(-1); free weights come back as 0."""
        last = rhs[..., -1:, :]
        weights = _on_params(
            partial(self._on_varying, self._divide_by_scatter),
            rhs[..., :-1, :] - self.mean[:, None] * last,
        )
        intercept = last / self.size - self._at_mean(weights)
        return np.concatenate([weights, intercept], axis=-2) / self._output_roots**2

    def whiten_rows(self, X: Rows) -> np.ndarray:
        """Return ``P^(-1/2) [x_i; 1]`` for each row, shape (n_rows, n_params)."""
        dtype = float_type(X)
        white = np.empty((X.shape[0], self.n_params), dtype=dtype)
        white[:, -1] = 1.0 / np.sqrt(self.size)
        if X.shape[0] < len(self.mean):
            # Fewer rows than features: an inverse of the factor would take longer.
            dense = X.toarray() if sparse.issparse(X) else X
            deviations = np.subtract(dense, self.mean, dtype=np.float64)
            white[:, :-1] = self._on_varying(self._divide_by_factor, deviations.T).T
            return white
        inverse = self._inverse_factor.T.astype(dtype, copy=False)
        if sparse.issparse(X):
            white[:, :-1] = safe_sparse_dot(X, inverse, dense_output=True)
            white[:, :-1] -= (self.mean @ self._inverse_factor.T).astype(dtype)
        else:
            # Deviations first: with the mean goes what would take their digits.
            deviations = np.subtract(X, self.mean, dtype=np.float64).astype(dtype)
            np.matmul(deviations, inverse, out=white[:, :-1])
        return white

    def row_norms(
        self, X: Rows, outputs: np.ndarray | None = None, *, squared: bool = False
    ) -> np.ndarray:
        """Largest change of each logit over the unit ball, ``|P^(-1/2) [x_i; 1]|``.

        Of shape (n_rows, 1), or (n_rows, n_compared) where outputs have weights. It is
        infinite for a row with a value that the metric's rows never had in a feature
        that does not vary: its weight is free, so nothing bounds the change.
        """
        squares = np.empty((X.shape[0], 1))
        # The whitened rows, and deviations of as many numbers on the way to them.
        row_bytes = 2 * self.n_params * float_type(X).itemsize
        for rows in row_blocks(X, bytes_per_row=row_bytes, limit=working_bytes()):
            white = self.whiten_rows(X[rows])
            squares[rows, 0] = np.einsum("ij,ij->i", white, white, dtype=np.float64)
        constant = np.flatnonzero(~self._varies)
        if len(constant):
            columns = X[:, constant]
            columns = columns.toarray() if sparse.issparse(columns) else columns
            deviations = np.abs(columns - self.mean[constant])
            rounding = _ROUNDING_OF_CONSTANTS[float_type(X)]
            differs = deviations > rounding * np.abs(self.mean[constant])
            squares[np.any(differs, axis=1)] = np.inf
        if self.output_weights is not None:
            squares = (
                squares / self.output_weights[output_columns(outputs, self.n_outputs)]
            )
        return squares if squared else np.sqrt(squares)

    def free_mask(self) -> np.ndarray | None:
        """Mask (n_params, 1) of parameters that cost nothing by themselves, or None."""
        if self._varies.all():
            return None
        return np.append(~self._varies, False)[:, None]

    def with_free(self, step: np.ndarray, free_values: np.ndarray) -> np.ndarray:
        """A step, whose logits stay, with other values in free parameters."""
        changed = np.where(self.free_mask(), free_values, step)
        # A free weight moves the logits by its feature's mean: the intercept takes it.
        changed[-1] -= self.mean @ (changed[:-1] - step[:-1])
        return changed

    def ray_map(
        self, X: Rows, columns: np.ndarray
    ) -> Callable[[np.ndarray], np.ndarray]:
        """The map from isotropic directions to the logits' changes on X.

        From shape (n_directions, n_columns, n_params) to (..., n_rows).
        """
        # Whitening the rows once is cheaper than whitening every direction. It takes
        # the white rows, the deviations in float64 and copies: four times their size.
        white_bytes = X.shape[0] * self.n_params * float_type(X).itemsize
        if 4 * white_bytes <= working_bytes():
            changes = self._changes_by_white_rows(X)
        else:
            changes = self._changes_by_white_directions(X)
        if self.output_weights is None:
            return changes
        # In float32, as the directions are drawn.
        roots = self._output_roots[columns].astype(np.float32)[:, None]
        return lambda directions: changes(directions / roots)

    def _changes_by_white_rows(self, X: Rows) -> Callable[[np.ndarray], np.ndarray]:
        white_rows = self.whiten_rows(X)

        def changes(directions: np.ndarray) -> np.ndarray:
            flat = directions.reshape(-1, self.n_params)
            product = flat.astype(white_rows.dtype, copy=False) @ white_rows.T
            return product.reshape(*directions.shape[:-1], -1)

        return changes

    def _changes_by_white_directions(
        self, X: Rows
    ) -> Callable[[np.ndarray], np.ndarray]:
        inverse = self._inverse_factor
        dtype = float_type(X)

        def changes(directions: np.ndarray) -> np.ndarray:
            weights = directions[..., :-1] @ inverse
            intercept = directions[..., -1:] / np.sqrt(self.size)
            intercept = intercept - (weights @ self.mean)[..., None]
            white = np.concatenate([weights, intercept], axis=-1, dtype=dtype)
            return logits_on_rows(white, X)

        return changes

    @classmethod
    def combine(
        cls, metrics: Sequence["GramMetric"], weights: ArrayLike
    ) -> "GramMetric | GramSum":
        """Return the weighted sum of gram metrics."""
        weights = np.asarray(weights, dtype=np.float64)
        if any(metric.output_weights is not None for metric in metrics):
            return GramSum(metrics, weights)
        return _sum_of_grams(metrics, weights)


class GramSum:
    """Weighted sum of gram metrics that weigh the outputs differently.

    For output j it is ``sum_k weights_k b_kj P_k``, with b the metrics' output weights.
    Outputs in which the metrics have equal shares of this sum are a *group*: their sums
    differ by a factor, the output's size, and have one Cholesky factor together.
    """

    family = "gram"

    def __init__(self, metrics: Sequence[GramMetric], weights: np.ndarray) -> None:
        n_outputs = max(metric.n_outputs or 1 for metric in metrics)
        output_weights = np.stack(
            [
                np.broadcast_to(np.atleast_1d(metric._output_roots) ** 2, n_outputs)
                for metric in metrics
            ]
        )
        contributions = output_weights * weights[:, None]  # (n_metrics, n_outputs)
        sizes = contributions.sum(axis=0)
        shares = contributions / sizes
        _, first_outputs, groups = np.unique(
            shares.round(_DECIMALS_OF_SHARES),
            axis=1,
            return_index=True,
            return_inverse=True,
        )
        self._sizes = sizes  # (n_outputs,)
        self._groups = groups.ravel()  # (n_outputs,): each output's group
        # One metric a group.
        self._grams = [
            _sum_of_grams(metrics, shares[:, output]) for output in first_outputs
        ]

    def _on_groups(
        self,
        method: Callable[[GramMetric, np.ndarray], np.ndarray],
        array: np.ndarray,
    ) -> np.ndarray:
        """A method of each group's metric on its outputs of (..., n_outputs)."""
        products = np.empty_like(array, dtype=np.float64)
        for group, metric in enumerate(self._grams):
            columns = self._groups == group
            products[..., columns] = method(metric, array[..., columns])
        return products

    def apply(self, delta: np.ndarray) -> np.ndarray:
        return self._sizes * self._on_groups(GramMetric.apply, delta)

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        return self._on_groups(GramMetric.solve, rhs) / self._sizes

    def free_mask(self) -> np.ndarray | None:
        # A weight is free where it is for all metrics, which is so in all groups.
        return self._grams[0].free_mask()

    def with_free(self, step: np.ndarray, free_values: np.ndarray) -> np.ndarray:
        """As of :meth:`GramMetric.with_free`."""
        # A feature whose weight is free has the same mean in all metrics: if it had
        # not, it would vary between them and its weight would cost something.
        return self._grams[0].with_free(step, free_values)

    def diagonal(self) -> np.ndarray:
        return self._by_output([metric.diagonal() for metric in self._grams])

    def centred(self) -> tuple[np.ndarray, np.ndarray]:
        """A mean of the means, and the diagonal of P where rows have it for zero."""
        group_sizes = np.bincount(self._groups, weights=self._sizes)
        means = np.stack([metric.mean for metric in self._grams])
        mean = group_sizes @ means / group_sizes.sum()
        diagonals = [metric.curvature(mean, diagonal=True) for metric in self._grams]
        return mean, self._by_output(diagonals)

    def _by_output(self, diagonals: Sequence[np.ndarray]) -> np.ndarray:
        """Diagonals (n_params, n_outputs) of the sum, of those of the groups."""
        return np.hstack(diagonals)[:, self._groups] * self._sizes


def _sum_of_grams(metrics: Sequence[GramMetric], weights: np.ndarray) -> GramMetric:
    """The weighted sum of metrics, whose output weights are ignored.

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
    deviations[np.abs(deviations) <= _ROUNDING_OF_MEANS * np.abs(mean)] = 0.0
    deviations *= np.sqrt(sizes)[:, None]
    scatter = deviations.T @ deviations
    varies_within = np.any([G.diagonal() > 0 for G in scatters.values()], axis=0)
    varies_between = np.flatnonzero(~varies_within)
    scatter[varies_between, varies_between] *= 1 + _RIDGE_BETWEEN_NODES
    for key, weight in scatter_weights.items():
        # In place, without a copy of any scatter.
        linalg.blas.daxpy(scatters[key].ravel(), scatter.ravel(), a=weight)
    return GramMetric(scatter=scatter, mean=mean, size=size)


def _on_params(
    function: Callable[[np.ndarray], np.ndarray], array: np.ndarray
) -> np.ndarray:
    """Apply a function of (n_params, m) arrays to one of (..., n_params, n_outputs)."""
    params_first = np.moveaxis(array, -2, 0)
    flat = function(params_first.reshape(params_first.shape[0], -1))
    return np.moveaxis(flat.reshape(params_first.shape), 0, -2)
