# SPDX-License-Identifier: BSD-3-Clause
"""Good-enough spaces of neurons: how far a hidden unit may move on a node's rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import ArpackError, eigsh
from sklearn.utils import check_random_state

from ..moments import row_moments
from ..networks import activate, linear_logits
from ..spaces import Ball, Ellipsoid, Gram, GramMetric, as_geometry
from ._rays import sampled_radii

__all__ = ["HIDDEN_GEOMETRIES", "NeuronSpaces", "build_neuron_spaces"]

# What the words for a geometry stand for in hidden layers.
HIDDEN_GEOMETRIES = {"gram": Gram(ridge=0.3), "ellipsoid": Ellipsoid(), "ball": Ball()}

# Largest slope of each activation.
LIPSCHITZ = {"identity": 1.0, "relu": 1.0, "tanh": 1.0, "logistic": 0.25}

# Largest matrix whose eigenvalues are computed; beyond, the trace bounds them.
_LARGEST_EIGENPROBLEM = 3000
# Smaller ones are as fast without iterating.
_SMALLEST_LANCZOS = 100


@dataclass(frozen=True, eq=False)
class NeuronSpaces:
    """Spaces around the neurons of one layer of one node; all share one metric.

    Parameters
    ----------
    centers : ndarray of shape (n_params, n_neurons)
        Incoming weights of each neuron, the biases in the last row; weights of inputs
        that are constant on the node's rows are 0, and in the bias.
    precision : ndarray of shape (n_params, n_params) or (n_params,)
        Squared length of a change is ``delta' P delta``; one-dimensional where P is
        diagonal.
    radii : ndarray of shape (n_neurons,)
        In units of the metric; 0 for neurons that are never active.
    sizes : ndarray of shape (n_neurons,)
        Root mean square activation on the node's rows.
    """

    centers: np.ndarray = field(repr=False)
    precision: np.ndarray = field(repr=False)
    radii: np.ndarray = field(repr=False)
    sizes: np.ndarray = field(repr=False)

    @property
    def dead(self) -> np.ndarray:
        """Mask of the neurons that are 0 on all rows."""
        return self.sizes == 0

    def distances(self, w: np.ndarray) -> np.ndarray:
        """Distance of one weight vector from every centre."""
        delta = w[:, None] - self.centers
        squared = np.einsum("ij,ij->j", delta, times(self.precision, delta))
        return np.sqrt(np.maximum(squared, 0.0))


def times(precision: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """Multiply columns by a precision, full or diagonal."""
    return precision @ delta if precision.ndim == 2 else precision[:, None] * delta


def hidden_inputs(precision: np.ndarray) -> np.ndarray:
    """Which inputs a precision says nothing of, since they are constant on the rows."""
    if precision.ndim == 1:
        return np.zeros(len(precision) - 1, dtype=bool)
    return scatter_diagonal(precision) <= 1e-14 * precision.diagonal()[:-1]


def scatter_diagonal(precision: np.ndarray, level: int = -1) -> np.ndarray:
    """What each number but the bias costs apart from what it adds to the mean.

    `level` is the place of the bias.
    """
    own = np.delete(np.arange(len(precision)), level)
    row = precision[level]
    return precision.diagonal()[own] - row[own] ** 2 / row[level]


def filled(precision: np.ndarray, values: np.ndarray | float = 1.0) -> np.ndarray:
    """The same with something for each input that it says nothing of.

    Rays along such an input change nothing on the rows, whatever it is given.
    """
    hidden = np.flatnonzero(hidden_inputs(precision))
    if not len(hidden):
        return precision
    precision = precision.copy()
    precision[hidden, hidden] += np.broadcast_to(values, len(precision) - 1)[hidden]
    return precision


def _without_hidden(W: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """Weights that are 0 for inputs that are constant on the rows, biases instead.

    What training left there is where it began, in units of nothing.
    """
    W = np.asarray(W, dtype=np.float64)
    hidden = np.flatnonzero(hidden_inputs(precision))
    if len(hidden):
        W = W.copy()
        W[-1] += precision[hidden, -1] / precision[-1, -1] @ W[hidden]
        W[hidden] = 0.0
    return W


def build_neuron_spaces(
    X,
    W: np.ndarray,
    activation: str,
    *,
    epsilon: float,
    geometry="gram",
    construction: str = "certified",
    n_directions: int = 500,
    max_radius: float = 1e4,
    random_state=None,
) -> NeuronSpaces:
    r"""Build the good-enough space of every neuron of a layer.

    A neuron :math:`w'` is good enough in place of :math:`w` while its activation
    stays close on the node's rows, relative to the size of the activation:

    .. math:: \sqrt{\tfrac1n \sum_i (g(z_i'w') - g(z_i'w))^2} \le
              \epsilon \sqrt{\tfrac1n \sum_i g(z_i'w)^2} .

    (The paper's bound is on the norm divided by n: it is this :math:`\epsilon` times
    the neuron's root mean square activation, divided by :math:`\sqrt n`.)

    - ``"certified"``: g has a largest slope L, so a bound on the change of the
      pre-activation bounds that of the activation. The radius is
      :math:`\epsilon\,\mathrm{rms} / L`, divided by the root of the largest eigenvalue
      of :math:`P^{-1/2} X_1'X_1 P^{-1/2} / n`, which is at most 1 with ``"gram"``.
    - ``"sampled"``: the smallest radius at which one of `n_directions` rays passes the
      bound. The same rays serve all neurons of the node. The change of an activation
      never falls along a ray, so each ray passes once.

    Parameters
    ----------
    X : {ndarray, csr_matrix} of shape (n_rows, n_inputs)
        What enters the layer on the node's rows.
    W : ndarray of shape (n_inputs + 1, n_neurons)
        Incoming weights, the biases in the last row.
    activation : {"identity", "relu", "tanh", "logistic"}
        g.
    epsilon : float
        Above 0.
    geometry : Geometry or {"gram", "ellipsoid", "ball"}, default="gram"
        The second moments of the rows (with a ridge of 0.3), their diagonal weighted
        by the squared slope of the activations (the Fisher information of the layer),
        or round.
    construction : {"certified", "sampled"}, default="certified"
        See above.
    n_directions : int, default=500
        Rays of "sampled".
    max_radius : float, default=1e4
        Bound on the radii.
    random_state : int, RandomState instance or None, default=None
        Source of the rays.

    Returns
    -------
    spaces : NeuronSpaces

    References
    ----------
    Guha and Smith, "Model Aggregation via Good-Enough Model Spaces", 2019, Eq. 3.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.neurons import build_neuron_spaces
    >>> from skgems.spaces import Gram
    >>> X = np.array([[1.0], [-1.0]])
    >>> W = np.array([[1.0, -1.0], [0.0, -2.0]])
    >>> spaces = build_neuron_spaces(X, W, "relu", epsilon=0.5, geometry=Gram(ridge=0))
    >>> spaces.sizes.round(3), spaces.radii.round(3)
    (array([0.707, 0.   ]), array([0.354, 0.   ]))
    """
    if not epsilon > 0:
        raise ValueError(f"epsilon must be above 0, got {epsilon}.")
    geometry = as_geometry(geometry, HIDDEN_GEOMETRIES)
    pre = linear_logits(X, W)
    active = activate(pre.copy(), activation)
    sizes = np.sqrt(np.mean(np.square(active, dtype=np.float64), axis=0))
    moments = row_moments(X) if geometry.needs_moments else None
    precision = geometry.neuron_metric(
        moments,
        W,
        _squared_slopes(pre, active, activation) if geometry.needs_slopes else None,
        rows=X if geometry.needs_rows else None,
    )
    bounds = epsilon * sizes
    if construction == "certified":
        top = 1.0 if geometry.bounds_logits else _largest_eigenvalue(X, precision)
        slope = LIPSCHITZ[activation] * np.sqrt(top)
        radii = np.minimum(bounds / slope, max_radius)
    else:
        radii = sampled_radii(
            X,
            pre,
            activation,
            bounds,
            filled(precision),
            n_directions=n_directions,
            max_radius=max_radius,
            rng=check_random_state(random_state),
        )
    return NeuronSpaces(_without_hidden(W, precision), precision, radii, sizes)


def _squared_slopes(pre, active, activation) -> np.ndarray:
    """Mean over neurons of the squared derivative of each row's activation."""
    if activation == "identity" or not pre.shape[1]:
        return np.ones(pre.shape[0])
    if activation == "relu":
        slopes = (pre > 0).astype(np.float64)
    elif activation == "tanh":
        slopes = 1.0 - np.square(active, dtype=np.float64)
    else:
        slopes = active * (1.0 - np.asarray(active, dtype=np.float64))
    return np.mean(slopes**2, axis=1)


def _largest_eigenvalue(X, precision) -> float:
    """Largest eigenvalue of P^(-1/2) X1' X1 P^(-1/2) / n, or a bound."""
    if precision.ndim == 2:
        metric = GramMetric.of(filled(precision))
        white = metric.whiten_rows(X).astype(np.float64, copy=False)
        return _top_eigenvalue(_smaller_product(white)) / len(white)
    axes = precision**-0.5
    n_rows = X.shape[0]
    if min(n_rows, len(axes)) > _LARGEST_EIGENPROBLEM:
        squares = X.multiply(X) if sparse.issparse(X) else X * X
        moments = np.append(np.asarray(squares.mean(axis=0)).ravel(), 1.0)
        return float(moments @ axes**2)
    dense = X.toarray() if sparse.issparse(X) else X
    rows = np.column_stack([dense, np.ones(n_rows)]) * axes
    return _top_eigenvalue(_smaller_product(rows)) / n_rows


def _smaller_product(rows) -> np.ndarray:
    """The smaller of two products with the same eigenvalues but zeros."""
    return rows.T @ rows if len(rows) >= rows.shape[1] else rows @ rows.T


def _top_eigenvalue(matrix) -> float:
    """Upper bound on the eigenvalues of a matrix, met to a millionth."""
    last = len(matrix) - 1
    if last > _SMALLEST_LANCZOS:
        # The Lanczos iteration comes to the largest eigenvalue from below; that none
        # is above a little more is proved by a Cholesky factor, which then exists.
        try:
            start = matrix.diagonal()
            (top,) = eigsh(matrix, 1, v0=start, tol=1e-7, return_eigenvectors=False)
            gap = -matrix
            gap[np.diag_indices_from(gap)] += top * (1.0 + 1e-6)
            # Transposed it is in the order that LAPACK reads.
            if linalg.lapack.dpotrf(gap.T, lower=1, clean=0, overwrite_a=1)[1] == 0:
                return float(top) * (1.0 + 1e-6)
        except ArpackError:
            pass
    top = linalg.eigvalsh(matrix, subset_by_index=[last, last])[0]
    # Rounding must not turn a bound into a little less than one.
    return float(top) * (1.0 + 1e-9)
