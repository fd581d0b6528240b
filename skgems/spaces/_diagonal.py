"""Diagonal metrics (balls and ellipsoids), and the outputs that models are compared in.

A diagonal metric with the precisions p, one for each weight of each output, measures a
change D of a model by

    ||D||_P^2 = sum_ij p_ij D_ij^2.

It is a ball where all p are equal. A parameter with p = 0 is *free*: to change it costs
nothing, so spaces of this metric say nothing about it. The metrics that are not
diagonal are in `_gram`; both have the same methods, so that callers need not tell them
apart.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..moments import float_type, square_blocks
from ..networks import linear_logits

Rows = np.ndarray | sparse.csr_matrix


def output_columns(outputs: ArrayLike | None, n_outputs: int) -> np.ndarray:
    """Indices of the outputs that are compared; None means all of them."""
    if outputs is None:
        return np.arange(n_outputs)
    mask = np.asarray(outputs)
    if mask.dtype != bool or mask.shape != (n_outputs,):
        raise ValueError(
            f"outputs must be a boolean mask of shape ({n_outputs},), got an array of "
            f"{mask.dtype} of shape {mask.shape}."
        )
    if not mask.any():
        raise ValueError(
            "outputs is False everywhere, but models must be compared in at least one "
            "output. Set it to True for each class that the model knows."
        )
    return np.flatnonzero(mask)


def logits_on_rows(directions: np.ndarray, X: Rows) -> np.ndarray:
    """Logits (..., n_rows) on X of models of one output, shape (..., n_params)."""
    flat = directions.reshape(-1, directions.shape[-1])
    if sparse.issparse(X):
        logits = np.ascontiguousarray((X @ np.ascontiguousarray(flat[:, :-1].T)).T)
    else:
        logits = flat[:, :-1] @ X.T
    logits += flat[:, -1:]
    return logits.reshape(*directions.shape[:-1], -1)


def check_family(metrics: Sequence, names: Sequence | None = None) -> None:
    """Raise a TypeError, which names the spaces, if the metrics' classes differ."""
    if all(type(metric) is type(metrics[0]) for metric in metrics):
        return
    names = names or range(len(metrics))
    families = [
        f"{name}: {metric.family}" for name, metric in zip(names, metrics, strict=True)
    ]
    raise TypeError(
        f"Spaces of different geometries cannot be combined ({', '.join(families)}). "
        "Build all with geometry='gram', or all with 'ball' or 'ellipsoid'."
    )


def on_one_scale(W: np.ndarray, known: np.ndarray, X: Rows) -> tuple[np.ndarray, float]:
    """A model whose logits have a root mean square of 1 on X, and its scale before.

    Logits of the known classes are centred, which changes no probability; those of
    other classes are 0. W has the shape (n_features + 1, n_classes).
    """
    centred = np.zeros_like(W, dtype=np.float64)
    centred[:, known] = W[:, known] - W[:, known].mean(axis=1, keepdims=True)
    logits = linear_logits(X, centred[:, known])
    scale = float(np.sqrt(np.mean(np.square(logits, dtype=np.float64))))
    # Logits that are nothing but rounding, as those of one class: dividing by their
    # size would make a model of the noise.
    if scale <= np.finfo(np.float64).eps * max(1.0, float(np.abs(W).max())):
        return centred, 1.0
    return centred / scale, scale


def fill_unseen(
    W: np.ndarray, known_classes: np.ndarray, *, margin: float
) -> np.ndarray:
    """Give unknown classes the logit ``-margin``; the logits are then centred over all.

    Where `on_one_scale` has made W, the known logits have mean 0, so that unknown ones
    are below that mean, by `margin` times the root mean square of the known ones.
    """
    filled = W.copy()
    filled[:, ~known_classes] = 0.0
    filled[-1, ~known_classes] = -margin
    return filled - filled.mean(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class DiagonalMetric:
    """Squared length ``sum(precision * delta ** 2)``: a ball or an ellipsoid."""

    precision: np.ndarray = field(repr=False)  # (n_params, n_outputs); 0 where free

    family: ClassVar[str] = "diagonal"

    def __post_init__(self) -> None:
        precision = np.asarray(self.precision, dtype=np.float64)
        if precision.ndim != 2 or not np.isfinite(precision).all():
            raise ValueError(
                "precision must be a finite array with 2 dimensions, of shape "
                f"(n_params, n_outputs). It has the shape {precision.shape}."
            )
        if precision.size and precision.min() < 0:
            raise ValueError(
                "precision must not be negative, since it is the cost of a squared "
                f"change. Its smallest value is {precision.min()}."
            )
        object.__setattr__(self, "precision", precision)

    @property
    def n_params(self) -> int:
        return self.precision.shape[0]

    @property
    def n_outputs(self) -> int | None:
        return self.precision.shape[1]

    @cached_property
    def axes(self) -> np.ndarray:
        """Half axes of the unit ball, 1 / sqrt(precision); 0 where free."""
        with np.errstate(divide="ignore"):
            return np.where(self.precision > 0, self.precision**-0.5, 0.0)

    def of_outputs(self, places: np.ndarray) -> "DiagonalMetric":
        """The metric of other outputs: for each, its place in this one, or -1.

        An output at the place -1 is free.
        """
        return DiagonalMetric(np.where(places < 0, 0.0, self.precision[:, places]))

    def n_constrained(self, n_outputs: int | None = None) -> int:
        """The number of parameters that are not free, whatever `n_outputs`."""
        return int(np.count_nonzero(self.precision))

    def squared_norm(self, delta: np.ndarray) -> np.ndarray:
        """Squared length of `delta` of shape (..., n_params, n_outputs)."""
        return np.einsum("...ij,...ij,ij->...", delta, delta, self.precision)

    def apply(self, delta: np.ndarray) -> np.ndarray:
        """Multiply `delta` by P."""
        return self.precision * delta

    def whiten(self, directions: np.ndarray) -> np.ndarray:
        """Carry isotropic directions to this metric; free parameters are not moved."""
        return self.axes * directions

    def diagonal(self) -> np.ndarray:
        """Diagonal of P, of shape (n_params, n_outputs)."""
        return self.precision

    def curvature(self, origin: np.ndarray, *, diagonal: bool) -> np.ndarray:
        """P of models on rows less an origin, as :meth:`GramMetric.curvature`."""
        # On rows x - origin the same model has the weights w and the intercept
        # b' = b + w' origin, so that b = (-origin, 1)' (w, b').
        if diagonal:
            squares = np.append(origin**2, 0.0)[:, None]
            return self.precision + squares * self.precision[-1]
        intercept = np.append(-origin, 1.0)
        mean = self.precision.mean(axis=1)
        return mean[-1] * np.outer(intercept, intercept) + np.diag(
            np.append(mean[:-1], 0.0)
        )

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """Multiply `rhs` by P^(-1); free parameters come back as 0."""
        return self.axes**2 * rhs

    def row_norms(
        self, X: Rows, outputs: np.ndarray | None = None, *, squared: bool = False
    ) -> np.ndarray:
        """As :meth:`GramMetric.row_norms`, for each output; 0 for free ones."""
        columns = output_columns(outputs, self.n_outputs)
        squared_axes = self.axes[:, columns] ** 2
        weights = np.ascontiguousarray(squared_axes[:-1], dtype=float_type(X))
        norms = np.empty((X.shape[0], len(columns)), dtype=weights.dtype)
        for rows, _, squares in square_blocks(X):
            norms[rows] = squares @ weights
        norms = norms + squared_axes[-1]
        return norms if squared else np.sqrt(norms)

    def free_mask(self) -> np.ndarray | None:
        """Mask (n_params, n_outputs) of free parameters, or None where none is."""
        mask = self.precision == 0
        return mask if mask.any() else None

    def with_free(self, step: np.ndarray, free_values: np.ndarray) -> np.ndarray:
        """A step with other values in free parameters."""
        return np.where(self.free_mask(), free_values, step)

    def ray_map(
        self, X: Rows, columns: np.ndarray
    ) -> Callable[[np.ndarray], np.ndarray]:
        """The map from isotropic directions to the logits' changes on X.

        From shape (n_directions, n_columns, n_params) to (..., n_rows).
        """
        axes = np.ascontiguousarray(self.axes[:, columns].T, dtype=float_type(X))
        return lambda rays: logits_on_rows(np.multiply(rays, axes, dtype=axes.dtype), X)

    @classmethod
    def combine(
        cls, metrics: Sequence["DiagonalMetric"], weights: np.ndarray
    ) -> "DiagonalMetric":
        """Return the weighted sum of diagonal metrics."""
        pairs = zip(metrics, weights, strict=True)
        return cls(sum(weight * metric.precision for metric, weight in pairs))
