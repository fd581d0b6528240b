"""Good-enough spaces of neurons: how far each may move on rows, and how it matters."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import ArpackError, eigsh
from sklearn.utils import check_random_state, gen_batches

from ..moments import mean_squares, row_moments, working_bytes
from ..networks import activate, linear_logits, squared_slopes
from ._diagonal import logits_on_rows
from ._geometry import Ball, Ellipsoid, Gram, as_geometry
from ._gram import GramMetric

# A block of this size stays near the processor while all neurons go through it.
_BLOCK_BYTES = 2**18
# Rays that are followed to their end first; the others only have to beat them.
_N_PILOTS = 2
# Relative accuracy of a radius, on the safe side.
_TOLERANCE = 1e-4


def sampled_radii(X, pre, activation, bounds, precision, n_directions, max_radius, rng):
    """Radii, to 1e-4 on the safe side, where a ray leaves the neuron's bound; or 0."""
    # logistic(z) = (1 + tanh(z / 2)) / 2, and tanh is the faster one.
    slow = 0.5 if activation == "logistic" else 1.0
    live = bounds > 0
    own = slow * pre.T[live], bounds[live] / slow, slow * max_radius
    layer = _LAYERS[activation](*own)
    whiten = whitening(precision, pre.dtype)
    generator = np.random.Generator(np.random.SFC64(rng.randint(2**31 - 1)))
    n_rows, n_params = X.shape[0], X.shape[1] + 1
    ray_bytes = (4 * n_rows + 4 * n_params) * pre.itemsize + 16 * pre.shape[1]
    size = max(1, min(n_directions, working_bytes() // (4 * ray_bytes)))
    for rays in gen_batches(n_directions, size):
        n_rays = rays.stop - rays.start
        layer.shorten(changes_along_rays(X, whiten, generator, n_rays))
    radii = np.zeros(len(bounds))
    radii[live] = layer.radii / slow
    return radii


def whitening(precision, dtype):
    """Turn isotropic directions, one a row, into directions of the metric."""
    if precision.ndim == 1:
        axes = (precision**-0.5).astype(dtype)
        return lambda directions: directions * axes
    # The bias first: then the zero of inputs does not matter. Transposed, for LAPACK.
    factor, failed = linalg.lapack.dpotrf(precision[::-1, ::-1].T, lower=1, clean=0)
    # What is nothing but rounding is no pivot.
    noise = len(precision) * np.finfo(np.float64).eps * precision.diagonal()[::-1]
    if failed or np.any(factor.diagonal() ** 2 <= noise):
        raise ValueError("Moments are not positive definite: give a larger ridge.")
    factor = factor.astype(dtype)
    (trtrs,) = linalg.get_lapack_funcs(("trtrs",), (factor,))
    solve = partial(trtrs, factor, lower=1, trans=1, overwrite_b=1)
    return lambda directions: solve(directions.T)[0].T[:, ::-1]


def changes_along_rays(X, whiten, generator, n_rays) -> np.ndarray:
    """Change of the pre-activations along unit rays, (n_rays, n_rows)."""
    # Normal numbers in float32, ray after ray (Box-Muller: faster than numpy's own).
    half = X.shape[1] // 2 + 1
    uniform = generator.random((n_rays, 2, half), dtype=np.float32)
    length = np.sqrt(-2 * np.log1p(-uniform[:, 0]))
    angle = np.float32(2 * np.pi) * uniform[:, 1]
    normals = np.concatenate([length * np.cos(angle), length * np.sin(angle)], axis=1)
    directions = normals[:, : X.shape[1] + 1]
    norms = np.sqrt(np.einsum("ij,ij->i", directions, directions))
    directions = whiten((directions / norms[:, None]).astype(X.dtype, copy=False))
    return logits_on_rows(directions, X)


class _Layer:
    """Neurons of one layer and the radii found so far; a subclass an activation."""

    def __init__(self, pre, bounds, max_radius) -> None:
        # One neuron's rows side by side in memory.
        self.pre = np.ascontiguousarray(pre)
        self.bounds = bounds
        self.radii = np.full(len(bounds), float(max_radius))
        self._is_new = True

    def shorten(self, changes: np.ndarray) -> None:
        """Shorten the radii to where the first of some more rays leaves the bound."""
        lengths = _root_mean_square(changes).astype(np.float64)
        rises = np.square(np.maximum(changes, 0))
        falls = np.square(np.minimum(changes, 0))
        with np.errstate(divide="ignore"):
            safe = np.minimum(self.bounds / lengths.max(), self.radii)
        if self._is_new:
            # At a small radius the steepest rays are those that leave first, about.
            steepest = self._steepest(safe, rises, falls)
            count = min(_N_PILOTS, len(changes))
            rays = np.argpartition(-steepest, count - 1, axis=1)[:, :count]
            neurons = np.repeat(np.arange(len(rays)), count)
            with np.errstate(divide="ignore"):
                guess = self.bounds[neurons] / steepest[neurons, rays.ravel()]
            self._follow(changes, lengths, neurons, rays.ravel(), guess)
            self._is_new = False
        reach = self._steepest(self.radii, rises, falls) * self.radii[:, None]
        beyond = reach > self.bounds[:, None] * (1 - _TOLERANCE)
        del rises, falls, reach
        while True:
            change = self._changed_of(changes, beyond)
            beyond = change > self.bounds[:, None]
            neurons = np.flatnonzero(beyond.any(axis=1))
            if not len(neurons):
                return
            # The ray that is furthest out at this radius shortens it for the others.
            rays = change[neurons].argmax(axis=1)
            guess = self.radii[neurons] * self.bounds[neurons] / change[neurons, rays]
            self._follow(changes, lengths, neurons, rays, guess)
            beyond[neurons, rays] = False

    def _steepest(self, radii, rises, falls) -> np.ndarray:
        """Bound each activation's change along each ray, divided by the radius."""
        # Squared, it is at most these times the pre-activation's, and a constant.
        up, down, constant = self._squared_slopes(radii, rises, falls)
        total = up @ rises.T + down @ falls.T + constant[:, None]
        return np.sqrt(total / rises.shape[1])

    def _changed_of(self, changes, pairs) -> np.ndarray:
        found, size = np.zeros(pairs.shape), _block_size(changes)
        buffer = np.empty((min(size, len(changes)), changes.shape[1]), changes.dtype)
        for neuron in np.flatnonzero(pairs.any(axis=1)):
            rays = np.flatnonzero(pairs[neuron])
            for start in range(0, len(rays), size):
                part = rays[start : start + size]
                block = changes.take(part, 0, out=buffer[: len(part)], mode="clip")
                found[neuron, part] = self._move_to_radius(block, neuron)
        return found

    def _changed(self, changes, neurons, rays, radii) -> np.ndarray:
        """Root mean square change of neurons, each on a ray at a radius of its own."""
        found, size = np.empty(len(neurons)), _block_size(changes)
        for start in range(0, len(neurons), size):
            part = slice(start, start + size)
            found[part] = self._move(changes[rays[part]], radii[part], neurons[part])
        return found

    def _move_to_radius(self, changes, neuron) -> np.ndarray:
        return self._move(changes, self.radii[neuron], neuron)

    def _move(self, changes, radii, neurons) -> np.ndarray:
        changes *= np.asarray(radii, changes.dtype)[..., None]
        self._activate(changes, neurons)
        return _root_mean_square(changes)

    def _follow(self, changes, lengths, neurons, rays, guess) -> None:
        """Shorten the radii of some neurons to where some rays leave the bound."""
        bounds, high = self.bounds[neurons], self.radii[neurons].copy()
        with np.errstate(divide="ignore"):
            low = np.minimum(bounds / lengths[rays] * (1 - _TOLERANCE), high)
        radius = np.clip(guess, low, high)
        left = np.zeros(len(neurons), dtype=bool)  # whether it has left at `high`
        open_ = np.arange(len(neurons))
        for step in range(100):
            at = radius[open_]
            change = self._changed(changes, neurons[open_], rays[open_], at)
            inside = change <= bounds[open_]
            low[open_[inside]] = at[inside]
            high[open_[~inside]] = at[~inside]
            left[open_[~inside]] = True
            # About a line: go where it meets the bound, to either side in turn.
            with np.errstate(divide="ignore", invalid="ignore"):
                guess = at * (bounds[open_] / change)
            guess *= np.where(inside, 1 + _TOLERANCE / 3, 1 - _TOLERANCE / 3)
            below, above = low[open_], high[open_]
            guess = np.where(left[open_], guess, np.minimum(guess, above))
            middle = np.where(above > 4 * below, 2 * below, 0.5 * (below + above))
            # Every third step halves, so that no curve can stall it.
            usable = (guess > below) & ((guess < above) | ~left[open_])
            radius[open_] = np.where(usable & (step % 3 < 2), guess, middle)
            open_ = open_[above - below > _TOLERANCE * above]
            if not len(open_):
                break
        np.minimum.at(self.radii, neurons, low)


def _block_size(changes) -> int:
    return max(1, _BLOCK_BYTES // (changes.shape[1] * changes.itemsize))


def _root_mean_square(rows: np.ndarray) -> np.ndarray:
    # A stack of dot products is faster than einsum.
    dots = np.matmul(rows[:, None, :], rows[:, :, None])[:, 0, 0]
    return np.sqrt(dots / rows.shape[1])


class _Identity(_Layer):
    @np.errstate(divide="ignore")
    def shorten(self, changes):
        longest = np.float64(_root_mean_square(changes).max())
        self.radii = np.minimum(self.radii, self.bounds / longest * (1 - _TOLERANCE))


class _Relu(_Layer):
    def __init__(self, pre, bounds, max_radius):
        super().__init__(pre, bounds, max_radius)
        self.shift = np.minimum(self.pre, 0)
        self.least = -np.maximum(self.pre, 0)

    def _activate(self, changes, neurons):
        # relu(a + c) - relu(a) is max(c + min(a, 0), -max(a, 0)).
        changes += self.shift[neurons]
        np.maximum(changes, self.least[neurons], out=changes)

    def _move_to_radius(self, changes, neuron):
        # g(a x) = a g(x): dividing one neuron is cheaper than multiplying the rays.
        radius = float(self.radii[neuron])
        changes += self.shift[neuron] / radius
        np.maximum(changes, self.least[neuron] / radius, out=changes)
        return radius * _root_mean_square(changes)

    def _squared_slopes(self, radii, rises, falls):
        at = self.pre / radii.astype(self.pre.dtype)[:, None]
        active, squared = at > 0, at * at
        # What rises from below 0 does so by (c - |a|)^2 <= c^2 (1 - |a| / max c)^2.
        highest = np.sqrt(rises.max(axis=0))
        with np.errstate(divide="ignore", invalid="ignore"):
            up = np.maximum(np.where(active, 1, 1 + at / highest), 0) ** 2
        up[:, highest == 0] = 0
        # What falls from above 0 does so by c^2 and a^2 at most.
        by_less = active & (squared < falls.mean(axis=0))
        down = (active & ~by_less).astype(at.dtype)
        return up, down, np.sum(squared * by_less, axis=1)


class _Tanh(_Layer):
    def __init__(self, pre, bounds, max_radius):
        super().__init__(pre, bounds, max_radius)
        self.active = np.tanh(self.pre)

    def _activate(self, changes, neurons):
        changes += self.pre[neurons]
        np.tanh(changes, out=changes)
        changes -= self.active[neurons]

    def _squared_slopes(self, radii, rises, falls):
        # The steepest place between here and the farthest that a ray goes.
        radii = radii.astype(self.pre.dtype)[:, None]
        up = np.clip(0, self.pre, self.pre + radii * np.sqrt(rises.max(axis=0)))
        down = np.clip(0, self.pre - radii * np.sqrt(falls.max(axis=0)), self.pre)
        slopes = [(1 - np.tanh(place) ** 2) ** 2 for place in (up, down)]
        return *slopes, np.zeros(len(slopes[0]), slopes[0].dtype)


_LAYERS = {"identity": _Identity, "relu": _Relu, "tanh": _Tanh, "logistic": _Tanh}

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
        return self.sizes == 0


def times(precision: np.ndarray, delta: np.ndarray) -> np.ndarray:
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
    """Spaces where each activation changes by ``epsilon`` of its size (2019, Eq. 3)."""
    if not epsilon > 0:
        raise ValueError(f"epsilon must be above 0, got {epsilon}.")
    geometry = as_geometry(geometry, HIDDEN_GEOMETRIES)
    pre = linear_logits(X, W)
    active = activate(pre.copy(), activation)
    sizes = np.sqrt(np.mean(np.square(active, dtype=np.float64), axis=0))
    slopes = None
    if geometry.needs_slopes:  # of a layer without neurons: any
        some = squared_slopes(active, activation)
        slopes = some.mean(axis=1) if W.shape[1] else np.ones(len(some))
    moments = row_moments(X) if geometry.needs_moments else None
    rows = X if geometry.needs_rows else None
    precision = geometry.neuron_metric(moments, W, slopes, rows=rows)
    # The paper bounds the norm divided by n: by these over sqrt(n).
    bounds = epsilon * sizes
    if construction == "certified":
        # The change of an activation is at most its largest slope times that of the
        # pre-activation, of a unit step at most the root of `top`: 1 with "gram".
        top = 1.0 if geometry.bounds_logits else _largest_eigenvalue(X, precision)
        slope = LIPSCHITZ[activation] * np.sqrt(top)
        radii = np.minimum(bounds / slope, max_radius)
    else:
        rays = n_directions, max_radius, check_random_state(random_state)
        radii = sampled_radii(X, pre, activation, bounds, filled(precision), *rays)
    centers, hidden = W.astype(np.float64), np.flatnonzero(hidden_inputs(precision))
    if len(hidden):
        centers[-1] += precision[hidden, -1] / precision[-1, -1] @ centers[hidden]
        centers[hidden] = 0.0
    return NeuronSpaces(centers, precision, radii, sizes)


def _largest_eigenvalue(X, precision) -> float:
    """Largest eigenvalue of P^(-1/2) X1' X1 P^(-1/2) / n, or a bound."""
    if precision.ndim == 2:
        white = GramMetric.of(filled(precision)).whiten_rows(X)
        return _top_eigenvalue(white.astype(np.float64, copy=False)) / len(white)
    axes, n_rows = precision**-0.5, X.shape[0]
    if min(n_rows, len(axes)) > _LARGEST_EIGENPROBLEM:
        return float(mean_squares(X, np.ones((n_rows, 1)))[:, 0] @ axes**2)
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


def neuron_importances(spaces: NeuronSpaces, outgoing, *, homogeneous) -> np.ndarray:
    """How far outputs move, squared, by a unit of a neuron; centre them for softmax."""
    squares = np.einsum("ij,ij->i", outgoing, outgoing, dtype=np.float64)
    return squares * spaces.sizes**2 if homogeneous else squares
