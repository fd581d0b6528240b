# SPDX-License-Identifier: BSD-3-Clause
"""Metrics: how far two linear models are apart, seen from one node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..moments import Moments, mean_squares, row_moments
from ._diagonal import DiagonalMetric
from ._gram import GramMetric
from ._outputs import output_columns

__all__ = [
    "DiagonalMetric",
    "GramMetric",
    "Metric",
    "ball_metric",
    "combine_metrics",
    "ellipsoid_metric",
    "fisher_precision",
    "gram_metric",
    "ridged_covariance",
]

Metric = DiagonalMetric | GramMetric
METRICS = {kind.family: kind for kind in (DiagonalMetric, GramMetric)}


def combine_metrics(metrics: Sequence[Metric], weights: np.ndarray) -> Metric:
    """Return the weighted sum of metrics, which must be of one family.

    Raises
    ------
    TypeError
        If diagonal and gram metrics are mixed; the message names each.
    """
    return type(metrics[0]).combine(metrics, weights)


def ball_metric(n_params: int, outputs: np.ndarray) -> DiagonalMetric:
    """Metric of a ball, ``||delta||_F`` over the known outputs.

    Parameters
    ----------
    n_params : int
        Number of features and one for the intercept.
    outputs : ndarray of bool of shape (n_outputs,)
        Outputs the node knows; the parameters of the others are free.

    Returns
    -------
    metric : DiagonalMetric

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import ball_metric
    >>> ball_metric(2, np.array([True, False])).precision
    array([[1., 0.],
           [1., 0.]])
    """
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
    r"""Metric of an ellipsoid along the axes, from the diagonal Fisher information.

    The half axes of the unit ellipsoid are :math:`a_{jc} = \max((\min F + \delta) /
    (F_{jc} + \delta), floor)`, with :math:`F_{jc} = \frac1n \sum_i x_{ij}^2 p_{ic}
    (1 - p_{ic})` (for the intercepts x = 1): the Fisher information of a softmax
    model, its expectation taken exactly over the model's own predictive distribution.
    :math:`\delta = damping \cdot \mathrm{mean}(F)`.

    Parameters
    ----------
    X : {ndarray, csr_matrix} of shape (n_rows, n_features)
        Rows of the node, float32 or float64.
    probabilities : ndarray of shape (n_rows, n_outputs)
        Probabilities the model gives to the outputs.
    floor : float in [0, 1], default=0.1
        Smallest half axis, as a part of the largest.
    damping : float, default=1.0
        Part of the mean of F that is added to every entry, since entries may be 0.
    outputs : ndarray of bool of shape (n_outputs,), default=None
        Outputs the node knows; the parameters of the others are free. None: all.

    Returns
    -------
    metric : DiagonalMetric

    References
    ----------
    Guha et al., "Model Aggregation via Good-Enough Model Spaces", 2019, appendix A,
    Eq. 4-5.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import ellipsoid_metric
    >>> X = np.array([[1.0, 0.0], [2.0, 1.0]])
    >>> p = np.full((2, 2), 0.5)
    >>> metric = ellipsoid_metric(X, p, floor=0.1, damping=0.0)
    >>> metric.axes.round(2)
    array([[0.2, 0.2],
           [1. , 1. ],
           [0.5, 0.5]])
    """
    probabilities = np.asarray(probabilities)
    n_rows, n_outputs = probabilities.shape
    if n_rows != X.shape[0] or n_rows == 0:
        raise ValueError(
            f"probabilities has {n_rows} rows, X has {X.shape[0]}: they must be equal "
            "and not 0."
        )
    columns = output_columns(outputs, n_outputs)
    variance = probabilities[:, columns] * (1.0 - probabilities[:, columns])
    fisher = mean_squares(X, variance)
    precision = np.zeros((X.shape[1] + 1, n_outputs))
    precision[:, columns] = fisher_precision(fisher, floor=floor, damping=damping)
    return DiagonalMetric(precision)


def fisher_precision(fisher: np.ndarray, *, floor: float, damping: float) -> np.ndarray:
    """Precision of an ellipsoid along the axes, of any parameters.

    Parameters
    ----------
    fisher : ndarray
        Fisher information of each parameter, at least 0.
    floor : float in [0, 1]
        Smallest half axis, as a part of the largest.
    damping : float
        Part of the mean of the information that is added to every entry.

    Returns
    -------
    precision : ndarray of the same shape
        One over the squares of the half axes, see `ellipsoid_metric`.

    Raises
    ------
    ValueError
        For arguments out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import fisher_precision
    >>> fisher_precision(np.array([1.0, 2.0, 0.0]), floor=0.5, damping=1.0)
    array([4., 4., 1.])
    """
    if not 0 <= floor <= 1:
        raise ValueError(f"floor must be in [0, 1], got {floor}.")
    if not 0 <= damping < np.inf:
        raise ValueError(f"damping must be finite and at least 0, got {damping}.")
    if floor == 0 and damping == 0:
        raise ValueError("floor and damping must not both be 0: axes would be 0.")
    damped = fisher + damping * fisher.mean()
    smallest = damped.min()
    # 0 / 0: no information anywhere, then all axes are equal.
    ratio = np.divide(smallest, damped, out=np.ones_like(damped), where=damped > 0)
    return np.maximum(ratio, floor) ** -2.0


def ridged_covariance(moments: Moments, *, ridge: float) -> np.ndarray:
    """Covariance with a ridge relative to each feature's own variance.

    Parameters
    ----------
    moments : Moments
        Of the node's rows.
    ridge : float
        At least 0; 0 needs rows that span all features that vary.

    Returns
    -------
    scatter : ndarray of shape (n_features, n_features)
        0 in features that are constant on all rows.

    Raises
    ------
    ValueError
        If the ridge is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.moments import row_moments
    >>> from skgems.spaces import ridged_covariance
    >>> ridged_covariance(row_moments(np.array([[1.0], [3.0]])), ridge=0.1)
    array([[1.1]])
    """
    if not 0 <= ridge < np.inf:
        raise ValueError(f"ridge must be finite and at least 0, got {ridge}.")
    scatter = moments.covariance.copy()
    index = np.arange(len(scatter))
    scatter[index, index] *= 1.0 + ridge
    return scatter


def gram_metric(
    X, *, ridge: float = 0.2, output_weights: np.ndarray | None = None
) -> GramMetric:
    r"""Metric of the root mean square change of the logits on a node's rows.

    With m the mean of the rows and S their covariance, a change of the weights
    :math:`w` and intercept :math:`b` of a logit has the squared length
    :math:`w'(S + \rho\,\mathrm{diag}\,S)w + (b + m'w)^2`, :math:`\rho` being the
    `ridge`: without it, the mean square change of the logit. Neither the unit nor the
    zero of a feature matters. A feature that is constant on all rows costs nothing but
    through its mean.

    Parameters
    ----------
    X : {ndarray, csr_matrix} of shape (n_rows, n_features)
        Rows of the node. The matrix is computed in float64 whatever their type.
    ridge : float, default=0.2
        At least 0; 0 needs rows that span all features that vary.
    output_weights : ndarray of shape (n_outputs,), default=None
        How much the logit of each output counts. None: all alike.

    Returns
    -------
    metric : GramMetric

    Raises
    ------
    ValueError
        If the matrix does not fit scikit-learn's ``working_memory``.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.spaces import gram_metric
    >>> gram_metric(np.array([[1.0], [3.0]]), ridge=0.1).gram
    array([[5.1, 2. ],
           [2. , 1. ]])
    """
    moments = row_moments(X)
    return GramMetric(
        ridged_covariance(moments, ridge=ridge), moments.mean, output_weights
    )
