# SPDX-License-Identifier: BSD-3-Clause
"""Good-enough spaces of neurons: how far each may move on rows, and how it matters."""

from dataclasses import dataclass, field

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import ArpackError, eigsh
from sklearn.utils import check_random_state

from ..moments import row_moments
from ..networks import activate, linear_logits, squared_slopes
from ..spaces import Ball, Ellipsoid, Gram, GramMetric, as_geometry
from ._rays import sampled_radii

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
    """Spaces around the neurons of one layer of one node; all share one metric."""

    # (n_params, n_neurons), biases in the last row. Weights of inputs that are constant
    # on the rows are 0, and in the bias.
    centers: np.ndarray = field(repr=False)
    # P of squared lengths d' P d, (n_params, n_params), or (n_params,) if diagonal.
    precision: np.ndarray = field(repr=False)
    radii: np.ndarray = field(repr=False)  # in that metric; 0 where never active
    sizes: np.ndarray = field(repr=False)  # root mean square activation on the rows

    @property
    def dead(self) -> np.ndarray:
        """Mask of the neurons that are 0 on all rows."""
        return self.sizes == 0


def times(precision: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """Multiply columns by a precision, full or diagonal."""
    return precision @ delta if precision.ndim == 2 else precision[:, None] * delta


def hidden_inputs(precision: np.ndarray) -> np.ndarray:
    """Which inputs a precision says nothing of, since they are constant on the rows."""
    if precision.ndim == 1:
        return np.zeros(len(precision) - 1, dtype=bool)
    return scatter_diagonal(precision) <= 1e-14 * precision.diagonal()[:-1]


def scatter_diagonal(precision: np.ndarray, level: int = -1) -> np.ndarray:
    """What each number but the bias, at `level`, costs apart from its mean."""
    own = np.delete(np.arange(len(precision)), level)
    row = precision[level]
    return precision.diagonal()[own] - row[own] ** 2 / row[level]


def filled(precision: np.ndarray, values: np.ndarray | float = 1.0) -> np.ndarray:
    """The same with something for each input that it says nothing of."""
    hidden = np.flatnonzero(hidden_inputs(precision))
    if len(hidden):
        precision = precision.copy()
        precision[hidden, hidden] += np.broadcast_to(values, len(precision) - 1)[hidden]
    return precision


def _without_hidden(W: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """Weights that are 0 for inputs that are constant on the rows, biases instead."""
    W = np.asarray(W, dtype=np.float64)
    hidden = np.flatnonzero(hidden_inputs(precision))
    if len(hidden):
        W = W.copy()
        W[-1] += precision[hidden, -1] / precision[-1, -1] @ W[hidden]
        W[hidden] = 0.0
    return W


def build_neuron_spaces(
    X,  # what enters the layer, array or CSR
    W: np.ndarray,  # (n_inputs + 1, n_neurons), the biases in the last row
    activation: str,
    *,
    epsilon: float,
    geometry="gram",  # one, or a name in HIDDEN_GEOMETRIES
    construction: str = "certified",
    n_directions: int = 500,  # rays, the same for all neurons
    max_radius: float = 1e4,
    random_state=None,
) -> NeuronSpaces:
    """Build the good-enough space of every neuron of a layer (Guha, Smith 2019, Eq. 3).

    Root mean square changes of an activation are at most ``epsilon`` times its own.
    """
    if not epsilon > 0:
        raise ValueError(f"epsilon must be above 0, got {epsilon}.")
    geometry = as_geometry(geometry, HIDDEN_GEOMETRIES)
    pre = linear_logits(X, W)
    active = activate(pre.copy(), activation)
    sizes = np.sqrt(np.mean(np.square(active, dtype=np.float64), axis=0))
    slopes = None
    if geometry.needs_slopes:  # of a layer without neurons: any
        slopes = np.ones(X.shape[0])
        if W.shape[1]:
            slopes = squared_slopes(active, activation).mean(axis=1)
    precision = geometry.neuron_metric(
        row_moments(X) if geometry.needs_moments else None,
        W,
        slopes,
        rows=X if geometry.needs_rows else None,
    )
    # The paper bounds the norm divided by n: by these over sqrt(n).
    bounds = epsilon * sizes
    if construction == "certified":
        # The change of an activation is at most its largest slope times that of the
        # pre-activation, of a unit step at most the root of `top`: 1 with "gram".
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


def _largest_eigenvalue(X, precision) -> float:
    """Largest eigenvalue of P^(-1/2) X1' X1 P^(-1/2) / n, or a bound."""
    if precision.ndim == 2:
        metric = GramMetric.of(filled(precision))
        white = metric.whiten_rows(X).astype(np.float64, copy=False)
        return _top_eigenvalue(white) / len(white)
    axes = precision**-0.5
    n_rows = X.shape[0]
    if min(n_rows, len(axes)) > _LARGEST_EIGENPROBLEM:
        squares = X.multiply(X) if sparse.issparse(X) else X * X
        moments = np.append(np.asarray(squares.mean(axis=0)).ravel(), 1.0)
        return float(moments @ axes**2)
    dense = X.toarray() if sparse.issparse(X) else X
    rows = np.column_stack([dense, np.ones(n_rows)]) * axes
    return _top_eigenvalue(rows) / n_rows


def _top_eigenvalue(rows) -> float:
    """Upper bound on the eigenvalues of rows' rows, met to a millionth."""
    matrix = rows.T @ rows if len(rows) >= rows.shape[1] else rows @ rows.T
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


def neuron_importances(
    spaces: NeuronSpaces, outgoing: np.ndarray, *, homogeneous: bool
) -> np.ndarray:
    """How far a node's outputs move, squared, as a neuron moves by a unit of itself.

    A unit is the activation's size if ``homogeneous``, else the pre-activation's.
    Before softmax give ``outgoing`` (n_neurons, n_outputs) less the mean over outputs.
    """
    squares = np.einsum("ij,ij->i", outgoing, outgoing, dtype=np.float64)
    return squares * spaces.sizes**2 if homogeneous else squares
