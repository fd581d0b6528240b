"""Outputs that models are compared in; diagonal metrics: balls and ellipsoids."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import sparse

from ..moments import float_type, square_blocks
from ..networks import linear_logits


def output_columns(outputs: np.ndarray | None, n_outputs: int) -> np.ndarray:
    """Indices of the outputs that are compared; None means all of them."""
    if outputs is None:
        return np.arange(n_outputs)
    outputs = np.asarray(outputs)
    if outputs.dtype != bool or outputs.shape != (n_outputs,):
        raise ValueError(
            f"outputs must be a boolean mask of shape ({n_outputs},), got an array of "
            f"{outputs.dtype} of shape {outputs.shape}."
        )
    if not outputs.any():
        raise ValueError("outputs selects no output at all.")
    return np.flatnonzero(outputs)


def logits_on_rows(directions: np.ndarray, X) -> np.ndarray:
    """Logits of models of shape (..., n_params) on X: (..., n_rows)."""
    flat = directions.reshape(-1, directions.shape[-1])
    if sparse.issparse(X):
        logits = np.ascontiguousarray((X @ np.ascontiguousarray(flat[:, :-1].T)).T)
    else:
        logits = flat[:, :-1] @ X.T
    logits += flat[:, -1:]
    return logits.reshape(*directions.shape[:-1], -1)


def check_family(cls: type, metrics: Sequence, names: Sequence | None = None) -> None:
    if any(type(metric) is not cls for metric in metrics):
        pairs = zip(names or range(len(metrics)), metrics, strict=True)
        names = ", ".join(f"{name}: {metric.family}" for name, metric in pairs)
        raise TypeError(
            f"Spaces of different geometries cannot be combined ({names}). Build all "
            "with geometry='gram', or all with 'ball' or 'ellipsoid'."
        )


def on_one_scale(W: np.ndarray, known: np.ndarray, X) -> tuple[np.ndarray, float]:
    """Known logits, centred and divided by their root mean square on X, and that."""
    scaled = np.zeros_like(W, dtype=np.float64)
    scaled[:, known] = W[:, known] - W[:, known].mean(axis=1, keepdims=True)
    logits = linear_logits(X, scaled[:, known])
    scale = float(np.sqrt(np.mean(np.square(logits, dtype=np.float64))))
    if scale <= np.finfo(np.float64).eps * max(1.0, float(np.abs(W).max())):
        return scaled, 1.0
    return scaled / scale, scale


def fill_unseen(W: np.ndarray, known: np.ndarray, margin: float) -> np.ndarray:
    """Score unknown classes ``margin`` below the mean known logit; centred over all."""
    filled = W.copy()
    filled[:, ~known] = 0.0
    filled[-1, ~known] = -margin
    return filled - filled.mean(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class DiagonalMetric:
    """Squared length ``sum(precision * delta ** 2)``: a ball or an ellipsoid."""

    precision: np.ndarray = field(repr=False)

    family: ClassVar[str] = "diagonal"

    def __post_init__(self) -> None:
        precision = np.asarray(self.precision, dtype=np.float64)
        if precision.ndim != 2 or not np.isfinite(precision).all():
            raise ValueError("precision must be a finite array with 2 dimensions.")
        if precision.size and precision.min() < 0:
            raise ValueError("precision must not be negative.")
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
        return DiagonalMetric(np.where(places < 0, 0.0, self.precision[:, places]))

    def n_constrained(self, n_outputs: int | None = None) -> int:
        return int(np.count_nonzero(self.precision))

    def squared_norm(self, delta: np.ndarray) -> np.ndarray:
        return np.einsum("...ij,...ij,ij->...", delta, delta, self.precision)

    def apply(self, delta: np.ndarray) -> np.ndarray:
        return self.precision * delta

    def whiten(self, directions: np.ndarray) -> np.ndarray:
        return self.axes * directions

    def diagonal(self) -> np.ndarray:
        return self.precision

    def curvature(self, origin: np.ndarray, *, diagonal: bool) -> np.ndarray:
        """P of models on rows less an origin, as :meth:`GramMetric.curvature`."""
        if diagonal:
            squares = np.append(origin**2, 0.0)[:, None]
            return self.precision + squares * self.precision[-1]
        move = np.append(-origin, 1.0)
        mean = self.precision.mean(axis=1)
        return mean[-1] * np.outer(move, move) + np.diag(np.append(mean[:-1], 0.0))

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        return self.axes**2 * rhs

    def row_norms(self, X, outputs=None, *, squared: bool = False) -> np.ndarray:
        """As :meth:`GramMetric.row_norms`, for each output; 0 for free ones."""
        columns = output_columns(outputs, self.n_outputs)
        axes = self.axes[:, columns] ** 2
        weights = np.ascontiguousarray(axes[:-1], dtype=float_type(X))
        norms = np.empty((X.shape[0], len(columns)), dtype=weights.dtype)
        for rows, _, squares in square_blocks(X):
            norms[rows] = squares @ weights
        norms = norms + axes[-1]
        return norms if squared else np.sqrt(norms)

    def free_mask(self) -> np.ndarray | None:
        mask = self.precision == 0
        return mask if mask.any() else None

    def with_free(self, step: np.ndarray, values: np.ndarray) -> np.ndarray:
        return np.where(self.free_mask(), values, step)

    def ray_map(self, X, columns: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        axes = np.ascontiguousarray(self.axes[:, columns].T, dtype=float_type(X))
        return lambda rays: logits_on_rows(np.multiply(rays, axes, dtype=axes.dtype), X)

    @classmethod
    def combine(cls, metrics: Sequence, weights) -> "DiagonalMetric":
        pairs = zip(metrics, weights, strict=True)
        return cls(sum(weight * metric.precision for metric, weight in pairs))
