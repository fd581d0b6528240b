# SPDX-License-Identifier: BSD-3-Clause
"""Metrics: how far two linear models are apart, seen from one node."""

from collections.abc import Sequence

import numpy as np

from ..moments import Moments, mean_squares, ratio, row_moments
from ._diagonal import DiagonalMetric
from ._gram import GramMetric
from ._outputs import output_columns

Metric = DiagonalMetric | GramMetric
METRICS = {kind.family: kind for kind in (DiagonalMetric, GramMetric)}


def combine_metrics(metrics: Sequence[Metric], weights: np.ndarray) -> Metric:
    """Weighted sum of metrics; a TypeError if diagonal and gram metrics are mixed."""
    return type(metrics[0]).combine(metrics, weights)


def ball_metric(n_params: int, outputs: np.ndarray) -> DiagonalMetric:
    """Metric ``||delta||_F``; parameters of outputs not in the mask are free."""
    outputs = np.asarray(outputs)
    output_columns(outputs, len(outputs))
    return DiagonalMetric(np.tile(outputs.astype(np.float64), (n_params, 1)))


def ellipsoid_metric(
    X,
    probabilities: np.ndarray,
    *,
    floor: float = 0.1,
    damping: float = 1.0,
    outputs: np.ndarray | None = None,
) -> DiagonalMetric:
    """Metric of the diagonal Fisher information of a softmax model (2019, Eq. 4-5)."""
    probabilities = np.asarray(probabilities)
    n_rows, n_outputs = probabilities.shape
    if n_rows != X.shape[0] or n_rows == 0:
        raise ValueError(
            f"probabilities has {n_rows} rows, X has {X.shape[0]}: they must be equal "
            "and not 0."
        )
    columns = output_columns(outputs, n_outputs)
    # The expectation is exact, over the predictions of the model.
    variance = probabilities[:, columns] * (1.0 - probabilities[:, columns])
    fisher = mean_squares(X, variance)
    precision = np.zeros((X.shape[1] + 1, n_outputs))
    precision[:, columns] = fisher_precision(fisher, floor=floor, damping=damping)
    return DiagonalMetric(precision)


def fisher_precision(fisher: np.ndarray, *, floor: float, damping: float) -> np.ndarray:
    """Of half axes ``max((min(F) + d) / (F + d), floor)``, d = damping * mean(F)."""
    if not 0 <= floor <= 1:
        raise ValueError(f"floor must be in [0, 1], got {floor}.")
    if not 0 <= damping < np.inf:
        raise ValueError(f"damping must be finite and at least 0, got {damping}.")
    if floor == 0 and damping == 0:
        raise ValueError("floor and damping must not both be 0: axes would be 0.")
    damped = fisher + damping * fisher.mean()
    smallest = damped.min()
    # 0 / 0: no information anywhere, then all axes are equal.
    return np.maximum(ratio(smallest, damped, 1.0), floor) ** -2.0


def ridged(moments: Moments, ridge: float, output_weights=None) -> GramMetric:
    """Metric of a node's mean and covariance, variances times ``1 + ridge``."""
    if not 0 <= ridge < np.inf:
        raise ValueError(f"ridge must be finite and at least 0, got {ridge}.")
    scatter = moments.covariance.copy()
    scatter[np.diag_indices_from(scatter)] *= 1.0 + ridge
    return GramMetric(scatter, moments.mean, output_weights)


def gram_metric(
    X, *, ridge: float = 0.2, output_weights: np.ndarray | None = None
) -> GramMetric:
    """Metric of the root mean square change of the logits on a node's rows."""
    return ridged(row_moments(X), ridge, output_weights)
