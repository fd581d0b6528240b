# SPDX-License-Identifier: BSD-3-Clause
"""One basis in which the metrics of all nodes are all but diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from ._spaces import scatter_diagonal, times


@dataclass(frozen=True, eq=False)
class JointBasis:
    """Coordinates of weights in which every node's metric is nearly a diagonal one.

    They whiten the mean and diagonalise the difference between nodes that inputs show
    most: exact for two nodes, and where metrics are diagonal or the same.
    """

    # (n_params, n_params): weights are axes @ coordinates; None: the same.
    axes: np.ndarray | None
    mean: np.ndarray  # of the metrics, (n_params, n_params) or (n_params,)
    diagonals: np.ndarray  # (n_nodes, n_params), of each node's metric in these

    @classmethod
    def of(cls, precisions: Sequence[np.ndarray], level: int) -> JointBasis:
        """Of the metrics of all nodes, alike in shape; ``level`` is the bias's index.

        ValueError if not even all nodes together say something of every direction.
        """
        n_nodes = len(precisions)
        mean = precisions[0] / n_nodes
        for P in precisions[1:]:
            mean += P / n_nodes
        if mean.ndim == 1:
            return cls(None, mean, np.stack(precisions))
        # Transposed it is in the order that LAPACK reads.
        factor, failed = linalg.lapack.dpotrf(mean.T, lower=1)
        if failed:
            raise ValueError(
                "The second moments of what enters a hidden layer are not positive "
                "definite, not even those of all nodes together: give geometry_hidden "
                "a larger ridge."
            )
        axes = np.eye(len(mean))
        if n_nodes > 1:
            contrast = _largest_contrast(precisions, mean, level)
            half = _lower(factor, contrast)
            white = _lower(factor, half.T)
            _, axes = linalg.eigh(white + white.T, overwrite_a=True, check_finite=False)
        axes = _lower(factor, axes, transposed=True)
        diagonals = np.stack(
            [np.einsum("ij,ij->j", axes, P @ axes) for P in precisions]
        )
        tiny = np.finfo(np.float64).tiny
        return cls(axes, mean, np.maximum(diagonals, tiny))

    def coordinates(self, weights: np.ndarray) -> np.ndarray:
        """Coordinates of columns of weights, shape (n_params, n_columns)."""
        if self.axes is None:
            return weights
        return self.axes.T @ times(self.mean, weights)


def _lower(factor, right, transposed=False) -> np.ndarray:
    """Solve with a lower triangular factor."""
    return linalg.solve_triangular(
        factor, right, lower=True, trans=int(transposed), check_finite=False
    )


def _largest_contrast(precisions, mean, level) -> np.ndarray:
    """The sum of the metrics in which inputs differ most between nodes."""
    shown = np.stack([scatter_diagonal(P, level) for P in precisions])
    typical = scatter_diagonal(mean, level)
    shown = np.divide(shown, typical, out=np.zeros_like(shown), where=typical > 0)
    left, _, _ = linalg.svd(shown - shown.mean(axis=0), full_matrices=False)
    return sum(share * P for share, P in zip(left[:, 0], precisions, strict=True))
