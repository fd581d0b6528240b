"""Gram metrics: second moments of the rows about their mean, shared by the outputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from scipy import linalg, sparse
from sklearn.utils.extmath import safe_sparse_dot

from ..moments import float_type, row_blocks, working_bytes
from ._diagonal import logits_on_rows, output_columns


@dataclass(frozen=True, eq=False)
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
    >>> metric = GramMetric(np.array([[2.0]]), mean=np.array([3.0]))
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
            raise ValueError(f"scatter must be a square array, got {scatter.shape}.")
        own = scatter.shape[:1]
        if mean.shape != own:
            raise ValueError(f"mean must have shape {own}, got {mean.shape}.")
        if not 0 < self.size < np.inf:
            raise ValueError(f"size must be finite and above 0, got {self.size}.")
        vars(self).update(scatter=scatter, mean=mean)
        if self.output_weights is None:
            return
        weights = np.asarray(self.output_weights, dtype=np.float64)
        if weights.ndim != 1 or not (np.isfinite(weights) & (weights > 0)).all():
            raise ValueError(f"output_weights must be finite, above 0, got {weights}.")
        vars(self).update(output_weights=weights)

    @classmethod
    def of(cls, gram: np.ndarray, output_weights=None) -> "GramMetric":
        """The metric of one matrix of all parameters, ``tr(delta' A delta B)``."""
        gram = np.asarray(gram, dtype=np.float64)
        if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not len(gram):
            raise ValueError(f"gram must be a square array, got shape {gram.shape}.")
        size = float(gram[-1, -1])
        if not size > 0:
            raise ValueError("gram must be positive at the intercept, its last entry.")
        mean = gram[:-1, -1] / size
        scatter = gram[:-1, :-1] - size * np.outer(mean, mean)
        return cls(scatter, mean, output_weights, size)

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
    def _shown(self) -> np.ndarray:
        return self.scatter.diagonal() > 0

    @cached_property
    def _factor(self) -> np.ndarray:
        """Lower Cholesky factor of the part that is shown."""
        part = self.scatter
        if not self._shown.all():
            part = part[np.ix_(self._shown, self._shown)]
        try:
            # Transposed it is in the order that LAPACK reads.
            return linalg.cholesky(part.T, lower=True, check_finite=False)
        except linalg.LinAlgError:
            raise ValueError(
                "The gram matrix is not positive definite: some change of parameters "
                "moves no logit. Give a larger ridge."
            ) from None

    @cached_property
    def _inverse_factor(self) -> np.ndarray:
        """Its inverse, 0 in the rows and columns of what is not shown."""
        inverse = self._divide(np.eye(len(self._factor)))
        if self._shown.all():
            return inverse
        whole = np.zeros_like(self.scatter)
        whole[np.ix_(self._shown, self._shown)] = inverse
        return whole

    def _divide(self, part: np.ndarray, trans="N") -> np.ndarray:
        options = {"lower": True, "trans": trans, "check_finite": False}
        return linalg.solve_triangular(self._factor, part, **options)

    def _on_shown(self, function: Callable, columns: np.ndarray) -> np.ndarray:
        if self._shown.all():
            return function(columns)
        out = np.zeros(columns.shape)
        out[self._shown] = function(columns[self._shown])
        return out

    @cached_property
    def _roots(self) -> np.ndarray | float:
        return 1.0 if self.output_weights is None else np.sqrt(self.output_weights)

    def n_constrained(self, n_outputs: int | None = None) -> int:
        """Count the parameters that are not free, for `n_outputs` outputs."""
        count = int(self._shown.sum()) + 1
        return count * (1 if n_outputs is None else n_outputs)

    def squared_norm(self, delta: np.ndarray) -> np.ndarray:
        """Squared length of `delta` of shape (..., n_params, n_outputs)."""
        return np.einsum("...ij,...ij->...", delta, self.apply(delta))

    def apply(self, delta: np.ndarray) -> np.ndarray:
        """Multiply `delta` by P."""
        weights = delta[..., :-1, :]
        level = self.size * (delta[..., -1:, :] + self._level(weights))
        out = np.empty_like(delta, dtype=np.float64)
        np.matmul(self.scatter, weights, out=out[..., :-1, :])
        out[..., :-1, :] += self.mean[:, None] * level
        out[..., -1:, :] = level
        out *= self._roots**2
        return out

    def _level(self, weights: np.ndarray) -> np.ndarray:
        return np.matmul(self.mean, weights)[..., None, :]

    def diagonal(self) -> np.ndarray:
        """Diagonal of P, of shape (n_params, n_outputs), or (n_params, 1) for any."""
        squares = self.scatter.diagonal() + self.size * self.mean**2
        weights = np.atleast_1d(self._roots) ** 2
        return np.append(squares, self.size)[:, None] * weights

    def curvature(self, origin: np.ndarray, *, diagonal: bool) -> np.ndarray:
        """P of models on rows less an origin of shape (n_features,)."""
        moved = replace(self, mean=self.mean - origin)
        return moved.diagonal() if diagonal else np.mean(self._roots**2) * moved.gram

    def centred(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean m, and the diagonal of P where rows have it for their zero."""
        return self.mean, self.curvature(self.mean, diagonal=True)

    def whiten(self, directions: np.ndarray) -> np.ndarray:
        """Carry isotropic directions to this metric; free weights are not moved."""
        divide = partial(self._on_shown, partial(self._divide, trans="T"))
        features = _on_params(divide, directions[..., :-1, :])
        level = directions[..., -1:, :] / np.sqrt(self.size) - self._level(features)
        return np.concatenate([features, level], axis=-2) / self._roots

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """Multiply `rhs` by P^(-1); free weights come back as 0."""
        last = rhs[..., -1:, :]
        rest = rhs[..., :-1, :] - self.mean[:, None] * last
        solve = partial(linalg.cho_solve, (self._factor, True), check_finite=False)
        features = _on_params(partial(self._on_shown, solve), rest)
        level = last / self.size - self._level(features)
        return np.concatenate([features, level], axis=-2) / self._roots**2

    def whiten_rows(self, X) -> np.ndarray:
        """Return ``P^(-1/2) [x_i; 1]`` for each row, shape (n_rows, n_params)."""
        dtype = float_type(X)
        white = np.empty((X.shape[0], self.n_params), dtype=dtype)
        white[:, -1] = 1.0 / np.sqrt(self.size)
        if X.shape[0] < len(self.mean):
            # Fewer than features: an inverse would take longer.
            dense = X.toarray() if sparse.issparse(X) else X
            deviations = np.subtract(dense, self.mean, dtype=np.float64)
            white[:, :-1] = self._on_shown(self._divide, deviations.T).T
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

    def row_norms(self, X, outputs=None, *, squared: bool = False) -> np.ndarray:
        """Largest change of each logit over the unit ball."""
        norms = np.empty((X.shape[0], 1))
        row_bytes = 2 * self.n_params * float_type(X).itemsize
        for rows in row_blocks(X, row_bytes, working_bytes()):
            white = self.whiten_rows(X[rows])
            norms[rows, 0] = np.einsum("ij,ij->i", white, white, dtype=np.float64)
        hidden = np.flatnonzero(~self._shown)
        if len(hidden):
            own = X[:, hidden]
            own = own.toarray() if sparse.issparse(own) else own
            away = np.abs(own - self.mean[hidden])
            noise = 1e-6 if float_type(X) == np.float32 else 1e-12
            norms[np.any(away > noise * np.abs(self.mean[hidden]), axis=1)] = np.inf
        if self.output_weights is not None:
            norms = norms / self.output_weights[output_columns(outputs, self.n_outputs)]
        return norms if squared else np.sqrt(norms)

    def free_mask(self) -> np.ndarray | None:
        """Mask (n_params, 1) of parameters that cost nothing by themselves, or None."""
        if self._shown.all():
            return None
        return np.append(~self._shown, False)[:, None]

    def with_free(self, step: np.ndarray, values: np.ndarray) -> np.ndarray:
        """A step, whose logits stay, with other values in free parameters."""
        moved = np.where(self.free_mask(), values, step)
        moved[-1] -= self.mean @ (moved[:-1] - step[:-1])
        return moved

    def ray_map(self, X, columns: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """The map from isotropic directions to the logits' changes on X.

        From shape (n_directions, n_columns, n_params) to (..., n_rows).
        """
        dtype = float_type(X)
        # Whitening the rows once is cheaper than whitening every direction.
        if 4 * X.shape[0] * self.n_params * dtype.itemsize <= working_bytes():
            rows = self.whiten_rows(X)

            def changes(directions: np.ndarray) -> np.ndarray:
                flat = directions.reshape(-1, self.n_params)
                product = flat.astype(dtype, copy=False) @ rows.T
                return product.reshape(*directions.shape[:-1], -1)

        else:
            inverse = self._inverse_factor

            def changes(directions: np.ndarray) -> np.ndarray:
                white = directions[..., :-1] @ inverse
                level = directions[..., -1:] / np.sqrt(self.size)
                level = level - (white @ self.mean)[..., None]
                white = np.concatenate([white, level], axis=-1, dtype=dtype)
                return logits_on_rows(white, X)

        if self.output_weights is None:
            return changes
        roots = self._roots[columns].astype(np.float32)[:, None]
        return lambda directions: changes(directions / roots)

    @classmethod
    def combine(cls, metrics: Sequence, weights) -> "GramMetric | GramSum":
        """Return the weighted sum of gram metrics."""
        weights = np.asarray(weights, dtype=np.float64)
        if any(metric.output_weights is not None for metric in metrics):
            return GramSum(list(metrics), weights)
        return _sum_of_grams(metrics, weights)


class GramSum:
    """Weighted sum of gram metrics that weigh the outputs differently."""

    family = "gram"

    def __init__(self, metrics: list[GramMetric], weights: np.ndarray) -> None:
        per_output = [np.atleast_1d(metric._roots) ** 2 for metric in metrics]
        shares = np.stack(np.broadcast_arrays(*per_output)) * weights[:, None]
        sizes = shares.sum(axis=0)
        patterns = shares / sizes
        # Rounded, so that rounding errors do not split a group.
        _, first, group = np.unique(
            patterns.round(12), axis=1, return_index=True, return_inverse=True
        )
        self._sizes, self._group = sizes, group.ravel()
        self._grams = [_sum_of_grams(metrics, patterns[:, at]) for at in first]

    def _on_groups(self, function: Callable, array: np.ndarray) -> np.ndarray:
        out = np.empty_like(array, dtype=np.float64)
        for index, metric in enumerate(self._grams):
            columns = self._group == index
            out[..., columns] = function(metric, array[..., columns])
        return out

    def apply(self, delta: np.ndarray) -> np.ndarray:
        return self._sizes * self._on_groups(GramMetric.apply, delta)

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        return self._on_groups(GramMetric.solve, rhs) / self._sizes

    def free_mask(self) -> np.ndarray | None:
        return self._grams[0].free_mask()

    def with_free(self, step: np.ndarray, values: np.ndarray) -> np.ndarray:
        """What is free for all has one mean."""
        return self._grams[0].with_free(step, values)

    def diagonal(self) -> np.ndarray:
        return self._spread([metric.diagonal() for metric in self._grams])

    def centred(self) -> tuple[np.ndarray, np.ndarray]:
        """A mean of the means, and the diagonal of P where rows have it for zero."""
        counts = np.bincount(self._group, weights=self._sizes)
        means = np.stack([metric.mean for metric in self._grams])
        mean = counts @ means / counts.sum()
        diagonals = [metric.curvature(mean, diagonal=True) for metric in self._grams]
        return mean, self._spread(diagonals)

    def _spread(self, diagonals) -> np.ndarray:
        return np.hstack(diagonals)[:, self._group] * self._sizes


def _sum_of_grams(metrics: Sequence[GramMetric], weights: np.ndarray) -> GramMetric:
    """The sum, outputs counted alike: scatters about their common mean add up."""
    sizes = np.array([metric.size for metric in metrics]) * weights
    size = float(sizes.sum())
    means = np.stack([metric.mean for metric in metrics])
    mean = sizes @ means / size
    by_id = {id(metric.scatter): metric.scatter for metric in metrics}
    shared = dict.fromkeys(by_id, 0.0)
    for metric, weight in zip(metrics, weights, strict=True):
        shared[id(metric.scatter)] += float(weight)
    off = means - mean
    off[np.abs(off) <= 1e-12 * np.abs(mean)] = 0.0  # equal, but for rounding
    off *= np.sqrt(sizes)[:, None]
    total = off.T @ off
    # What varies between nodes alone has too few means for a factor of its own.
    varies = np.any([scatter.diagonal() > 0 for scatter in by_id.values()], axis=0)
    between = np.flatnonzero(~varies)
    total[between, between] *= 1 + 1e-9
    for key, weight in shared.items():
        linalg.blas.daxpy(by_id[key].ravel(), total.ravel(), a=weight)
    return GramMetric(total, mean, None, size)


def _on_params(function: Callable, array: np.ndarray) -> np.ndarray:
    """Apply a function of (n_params, m) arrays to one of (..., n_params, n_outputs)."""
    moved = np.moveaxis(array, -2, 0)
    flat = function(moved.reshape(moved.shape[0], -1))
    return np.moveaxis(flat.reshape(moved.shape), 0, -2)
