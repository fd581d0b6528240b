"""Common units: hidden units drawn from a seed, for the inputs that all nodes have.

With m and S the mean and covariance of the inputs over the rows of all nodes, a unit
has the weights and the bias

    w = c L z,    b = beta - m' w,    L L' = S,    z normal, beta normal,

so that w is normal with a covariance proportional to S: units look along directions in
which rows differ much, more often than along others. On average over units, c makes the
variance of ``w' x`` 1. Where inputs have scales, S and m are those of ``x / scale``.
"""

from collections.abc import Sequence

import numpy as np
from scipy import linalg
from sklearn.utils import check_random_state

from ..networks import LayersBelow
from ._neuron_metrics import RIDGE
from ._space import RandomSource

# Deviation of the biases beta, in that of w' x. On MNIST 0.3 to 0.6 are alike, and 1.0
# costs half a point of accuracy.
_DEVIATION_OF_BIASES = 0.3
# Weight and bias with which a unit of the next layer passes on the output of a unit. A
# relu does so exactly, tanh and logistic with slope 1 in the middle of their range.
_PASSING_ON = {
    "identity": (1.0, 0.0),
    "relu": (1.0, 0.0),
    "tanh": (1.0, 0.0),
    "logistic": (4.0, -2.0),
}


def pooled_input_moments(
    precisions: Sequence[np.ndarray], *, ridge: float, n_rows: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of a layer's inputs over the rows of all nodes.

    Parameters
    ----------
    precisions : sequence of ndarray of shape (n_inputs + 1, n_inputs + 1)
        Of each node, what `build_neuron_spaces` makes of the geometry `Gram`: second
        moments of the inputs and a 1, with variances times ``1 + ridge``.
    ridge : float
        That of the geometry.
    n_rows : sequence of int of shape (n_nodes,)

    Returns
    -------
    mean : ndarray of shape (n_inputs,)
    covariance : ndarray of shape (n_inputs, n_inputs)
    """
    shares = np.asarray(n_rows) / np.sum(n_rows)
    means = [precision[-1, :-1] / precision[-1, -1] for precision in precisions]
    mean = shares @ np.array(means)
    covariance = np.zeros((len(mean), len(mean)))
    for share, mean_of_node, precision in zip(shares, means, precisions, strict=True):
        of_node = precision[:-1, :-1] / precision[-1, -1]
        of_node -= np.outer(mean_of_node, mean_of_node)
        of_node[np.diag_indices_from(of_node)] /= 1.0 + ridge
        deviation = mean_of_node - mean
        covariance += share * (of_node + np.outer(deviation, deviation))
    return mean, covariance


def draw_common_units(
    mean: np.ndarray,
    covariance: np.ndarray,
    n_units: int,
    *,
    scale: np.ndarray | None = None,
    random_state: RandomSource = None,
) -> np.ndarray:
    """Return weights (n_inputs + 1, n_units) for inputs, biases in the last row.

    Parameters
    ----------
    mean : ndarray of shape (n_inputs,)
    covariance : ndarray of shape (n_inputs, n_inputs)
    n_units : int
    scale : ndarray of shape (n_inputs,), default=None
        The unit of each input. None: inputs count as they are.
    random_state : int, RandomState or None, default=None
    """
    rng = check_random_state(random_state)
    scale = np.ones(len(mean)) if scale is None else scale
    scaled = covariance / np.outer(scale, scale)
    variances = np.maximum(scaled.diagonal(), 0.0)
    directions = rng.normal(size=(len(mean), n_units))
    W = np.zeros((len(mean) + 1, n_units))
    W[-1] = _DEVIATION_OF_BIASES * rng.normal(size=n_units)
    # A variance is what is left of a mean square, and rounded as that is.
    mean_squares = np.square(mean / scale) + variances
    noise = len(mean) * np.finfo(np.float64).eps * mean_squares
    is_constant = variances <= noise
    if is_constant.all():
        return W
    ridged = scaled.copy()
    ridged[np.diag_indices_from(ridged)] += max(RIDGE * variances.mean(), noise.max())
    weights = linalg.cholesky(ridged, lower=True) @ directions
    # What an input that never varies has is a weight from the ridge alone.
    weights[is_constant] = 0.0
    # The variance of w' x is on average the trace of S S, whatever the draws.
    weights /= np.linalg.norm(scaled) * scale[:, None]
    W[:-1] = weights
    W[-1] -= mean @ weights
    return W


def with_common_units(hidden: LayersBelow, units: np.ndarray) -> LayersBelow:
    """Return hidden layers with common units beside those of the first layer.

    Layers above pass them on: each common unit has a unit of its own there, which reads
    no other, and no other reads it. The outputs of all common units come last.
    """
    n_common = units.shape[1]
    weights = [np.hstack([hidden.weights[0], units])]
    for W, activation in zip(hidden.weights[1:], hidden.activation[1:], strict=True):
        weight, bias = _PASSING_ON[activation]
        n_inputs = len(W) - 1
        n_units = W.shape[1]
        wider = np.zeros((n_inputs + n_common + 1, n_units + n_common))
        wider[:n_inputs, :n_units] = W[:-1]
        wider[n_inputs:-1, n_units:] = weight * np.eye(n_common)
        wider[-1] = np.append(W[-1], np.full(n_common, bias))
        weights.append(wider)
    return LayersBelow(weights=weights, activation=hidden.activation)
