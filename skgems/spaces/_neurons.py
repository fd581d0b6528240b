# SPDX-License-Identifier: BSD-3-Clause
"""Good-enough spaces of neurons: how far a hidden unit may move on a node's rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse
from sklearn import get_config
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.extmath import safe_sparse_dot

from ..networks._network import ACTIVATIONS
from ._metric import gram_metric

__all__ = ["NeuronSpaces", "build_neuron_spaces"]

# Largest slope of each activation.
LIPSCHITZ = {"identity": 1.0, "relu": 1.0, "tanh": 1.0, "logistic": 0.25}

# A block of this size stays near the processor while it is gone through.
_BLOCK_BYTES = 2**18
# Rays that are followed to their end first; the others only have to beat them.
_N_PILOTS = 4
# Relative accuracy of a sampled radius, on the safe side.
_TOLERANCE = 1e-4
# Largest matrix whose eigenvalues are computed; beyond, the trace bounds them.
_LARGEST_EIGENPROBLEM = 3000


@dataclass(frozen=True, eq=False)
class NeuronSpaces:
    """Spaces around the neurons of one layer of one node; all share one metric.

    Parameters
    ----------
    centers : ndarray of shape (n_params, n_neurons)
        Incoming weights of each neuron, the biases in the last row.
    precision : ndarray of shape (n_params, n_params) or (n_params,)
        Squared length of a change is ``delta' P delta``; one-dimensional where P is
        diagonal.
    radii : ndarray of shape (n_neurons,)
        In units of the metric; 0 for neurons that are never active.
    sizes : ndarray of shape (n_neurons,)
        Root mean square activation on the node's rows.
    """

    centers: np.ndarray
    precision: np.ndarray
    radii: np.ndarray
    sizes: np.ndarray

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


def build_neuron_spaces(
    X,
    W: np.ndarray,
    activation: str,
    *,
    epsilon: float,
    geometry: str = "gram",
    construction: str = "certified",
    ridge: float = 0.3,
    floor: float = 0.1,
    damping: float = 1.0,
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
      pre-activation bounds that of the activation. With ``"gram"`` the radius is
      :math:`\epsilon\,\mathrm{rms} / L`; with the others it is divided by the root of
      the largest eigenvalue of :math:`P^{-1/2} X_1'X_1 P^{-1/2} / n`.
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
    geometry : {"gram", "ellipsoid", "ball"}, default="gram"
        The second moments of the rows, their diagonal weighted by the squared slope
        of the activations (the Fisher information of the layer), or round.
    construction : {"certified", "sampled"}, default="certified"
        See above.
    ridge, floor, damping : float
        See `gram_metric` and `ellipsoid_metric`.
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
    >>> from skgems.spaces._neurons import build_neuron_spaces
    >>> X = np.array([[1.0], [-1.0]])
    >>> W = np.array([[1.0, -1.0], [0.0, -2.0]])
    >>> spaces = build_neuron_spaces(X, W, "relu", epsilon=0.5, ridge=0.0)
    >>> spaces.sizes.round(3), spaces.radii.round(3)
    (array([0.707, 0.   ]), array([0.354, 0.   ]))
    """
    if not epsilon > 0:
        raise ValueError(f"epsilon must be above 0, got {epsilon}.")
    pre = safe_sparse_dot(X, W[:-1].astype(X.dtype, copy=False), dense_output=True)
    pre += W[-1].astype(X.dtype, copy=False)
    active = ACTIVATIONS[activation](pre.copy())
    sizes = np.sqrt(np.mean(np.square(active, dtype=np.float64), axis=0))
    if geometry == "gram":
        precision = gram_metric(X, ridge=ridge).gram
    elif geometry == "ball":
        precision = np.ones(W.shape[0])
    else:
        slopes = _squared_slopes(pre, active, activation)
        precision = _fisher_precision(X, slopes, floor, damping)
    bounds = epsilon * sizes
    if construction == "certified":
        top = 1.0 if geometry == "gram" else _largest_eigenvalue(X, precision)
        slope = LIPSCHITZ[activation] * np.sqrt(top)
        radii = np.minimum(bounds / slope, max_radius)
    else:
        radii = _sampled_radii(
            X,
            pre,
            active,
            bounds,
            precision,
            activation,
            n_directions,
            max_radius,
            check_random_state(random_state),
        )
    return NeuronSpaces(np.asarray(W, dtype=np.float64), precision, radii, sizes)


def _squared_slopes(pre, active, activation) -> np.ndarray:
    """Mean over neurons of the squared derivative of each row's activation."""
    if activation == "relu":
        slopes = (pre > 0).astype(np.float64)
    elif activation == "tanh":
        slopes = 1.0 - np.square(active, dtype=np.float64)
    elif activation == "logistic":
        slopes = active * (1.0 - np.asarray(active, dtype=np.float64))
    else:
        return np.ones(pre.shape[0])
    return np.mean(slopes**2, axis=1)


def _fisher_precision(X, slopes, floor, damping) -> np.ndarray:
    squares = X.multiply(X) if sparse.issparse(X) else X * X
    fisher = np.append(np.asarray(squares.T @ slopes).ravel(), slopes.sum())
    fisher = fisher / X.shape[0]
    fisher += damping * fisher.mean()
    ratio = np.divide(
        fisher.min(), fisher, out=np.ones_like(fisher), where=fisher.min() > 0
    )
    return np.maximum(ratio, floor) ** -2.0


def _largest_eigenvalue(X, precision) -> float:
    """Largest eigenvalue of P^(-1/2) X1' X1 P^(-1/2) / n, or a bound, P diagonal."""
    axes = precision**-0.5
    n_rows = X.shape[0]
    if min(n_rows, len(axes)) > _LARGEST_EIGENPROBLEM:
        squares = X.multiply(X) if sparse.issparse(X) else X * X
        moments = np.append(np.asarray(squares.mean(axis=0)).ravel(), 1.0)
        return float(moments @ axes**2)
    dense = X.toarray() if sparse.issparse(X) else X
    rows = np.column_stack([dense, np.ones(n_rows)]) * axes
    moments = rows.T @ rows if n_rows >= len(axes) else rows @ rows.T
    last = len(moments) - 1
    top = linalg.eigvalsh(moments, subset_by_index=[last, last])[0] / n_rows
    # Rounding must not turn a bound into a little less than one.
    return float(top) * (1.0 + 1e-9)


# ---- sampled ----------------------------------------------------------------


def _sampled_radii(
    X, pre, active, bounds, precision, activation, n_directions, max_radius, rng
) -> np.ndarray:
    dtype = pre.dtype
    n_rows, n_neurons = pre.shape
    whiten = _whitening(precision, dtype)
    # One neuron's rows side by side in memory.
    pre, active = np.ascontiguousarray(pre.T), np.ascontiguousarray(active.T)
    live = bounds > 0
    radii = np.where(live, float(max_radius), 0.0)
    generator = np.random.Generator(np.random.SFC64(rng.randint(2**31 - 1)))
    limit = int(get_config()["working_memory"] * 2**20) // 4
    size = max(1, min(n_directions, limit // (4 * dtype.itemsize * n_rows)))
    for batch in gen_batches(n_directions, size):
        changes = _changes(X, whiten, generator, batch.stop - batch.start)
        if batch.start == 0:
            # A few rays are followed to their end; the others have to beat them.
            pilots = min(_N_PILOTS, len(changes))
            neurons = np.repeat(np.flatnonzero(live), pilots)
            rays = np.tile(np.arange(pilots), int(live.sum()))
            _shorten(pre, active, changes, bounds, activation, radii, neurons, rays)
        over = np.zeros((n_neurons, len(changes)))
        for neuron in np.flatnonzero(live):
            over[neuron] = _deviations(
                pre[neuron], active[neuron], changes, radii[neuron], activation
            )
        while True:
            over[over <= bounds[:, None]] = 0.0
            neurons = np.flatnonzero(over.any(axis=1))
            if not len(neurons):
                break
            # The ray that is worst at this radius shortens it for the others.
            rays = over[neurons].argmax(axis=1)
            _shorten(pre, active, changes, bounds, activation, radii, neurons, rays)
            over[neurons, rays] = 0.0
            pairs = np.nonzero(over)
            for part in gen_batches(len(pairs[0]), size) if len(pairs[0]) else ():
                i, j = pairs[0][part], pairs[1][part]
                over[i, j] = _deviations(
                    pre[i], active[i], changes[j], radii[i], activation
                )
    return radii


def _shorten(pre, active, changes, bounds, activation, radii, neurons, rays) -> None:
    """Shorten the radii of some neurons to where some rays end."""
    found = _first_crossing(
        pre[neurons],
        active[neurons],
        changes[rays],
        bounds[neurons],
        radii[neurons],
        activation,
    )
    np.minimum.at(radii, neurons, found)


def _whitening(precision, dtype):
    """Turn isotropic directions, one a row, into directions of the metric."""
    if precision.ndim == 1:
        axes = (precision**-0.5).astype(dtype)
        return lambda directions: directions * axes
    factor = linalg.cholesky(precision, lower=True).astype(dtype)
    return lambda directions: (
        linalg.solve_triangular(
            factor, directions.T, lower=True, trans="T", check_finite=False
        ).T
    )


def _changes(X, whiten, generator, n_directions) -> np.ndarray:
    """Change of the pre-activations along unit rays, (n_directions, n_rows)."""
    directions = generator.standard_normal(
        (n_directions, X.shape[1] + 1), dtype=np.float32
    )
    norms = np.sqrt(np.einsum("ij,ij->i", directions, directions))
    directions = whiten(directions.astype(X.dtype, copy=False) / norms[:, None])
    if sparse.issparse(X):
        changes = np.ascontiguousarray((X @ directions[:, :-1].T).T)
    else:
        changes = directions[:, :-1] @ X.T
    changes += directions[:, -1:]
    return np.ascontiguousarray(changes)


def _deviations(pre, active, changes, radius, activation) -> np.ndarray:
    """Root mean square change of activations at a radius of each ray.

    ``pre`` and ``active`` belong to one neuron, or have a row for each ray.
    """
    n_rays, n_rows = changes.shape
    radius = np.broadcast_to(np.asarray(radius, dtype=changes.dtype), n_rays)
    squared = np.empty(n_rays)
    size = max(1, _BLOCK_BYTES // (n_rows * changes.itemsize))
    for start in range(0, n_rays, size):
        rays = slice(start, start + size)
        own = rays if pre.ndim == 2 else slice(None)
        block = changes[rays] * radius[rays, None]
        block += pre[own]
        block = ACTIVATIONS[activation](block)
        block -= active[own]
        squared[rays] = np.einsum("ij,ij->i", block, block)
    return np.sqrt(squared / n_rows)


def _first_crossing(pre, active, changes, bound, max_radius, activation) -> np.ndarray:
    """Largest radius of each ray at which the bound still holds, to a tolerance."""
    lengths = np.sqrt(np.einsum("ij,ij->i", changes, changes) / changes.shape[1])
    with np.errstate(divide="ignore"):
        low = bound / (LIPSCHITZ[activation] * lengths)
    high = np.broadcast_to(np.asarray(max_radius, dtype=np.float64), len(low)).copy()
    low = np.minimum(low * (1.0 - _TOLERANCE), high)
    inside = _deviations(pre, active, changes, high, activation) <= bound
    low[inside] = high[inside]
    radius = low.copy()
    deviation = _deviations(pre, active, changes, radius, activation)
    for step in range(100):
        if np.all(high - low <= _TOLERANCE * high):
            break
        # Deviations grow about linearly: go where the line from 0 meets the bound,
        # a little to either side in turn so that the bracket closes.
        with np.errstate(divide="ignore", invalid="ignore"):
            guess = radius * (bound / deviation)
        side = np.where(deviation <= bound, 1.0 + _TOLERANCE / 3, 1.0 - _TOLERANCE / 3)
        guess = guess * side
        middle = np.where(high > 4 * low, 2 * low, 0.5 * (low + high))
        usable = np.isfinite(guess) & (guess > low) & (guess < high)
        # Every third step halves, so that no curve can stall it.
        radius = np.where(usable & (step % 3 < 2), guess, middle)
        deviation = _deviations(pre, active, changes, radius, activation)
        below = deviation <= bound
        low, high = np.where(below, radius, low), np.where(below, high, radius)
    return low
