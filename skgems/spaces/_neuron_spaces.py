"""Good-enough spaces of neurons: how far each may move on rows, and how it matters.

A neuron with the weights w, the bias last, has the activations ``g(x_i' w)`` on a
node's n rows x of what enters its layer, extended by 1. Its good-enough weights v are
those with (GEMS 2019, Eq. 3)

    rms_i (g(x_i' v) - g(x_i' w)) <= epsilon * rms_i g(x_i' w),

where rms is the root mean square over the rows (the paper divides norms by n, these are
divided by sqrt(n)). The space is the part of them within ``(v - w)' P (v - w) <= R^2``,
with a metric P that all neurons of the layer share, and a radius R for each: the
smallest r at which ``v = w + r u`` leaves the bound, over random rays u of unit length.

A dead neuron, whose activation is 0 on all rows, has the radius 0.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state, gen_batches

from ..moments import CACHE_BYTES, row_moments, working_bytes
from ..networks import activate, linear_logits, squared_slopes
from ._geometry import Ball, Ellipsoid, Geometry, Gram, as_geometry
from ._metric import MOST_STEPS, N_PILOTS, TOLERANCE, Metric
from ._neuron_metrics import (
    as_precision,
    constant_inputs,
    metric_of_neurons,
    with_costs_of_constant_inputs,
)
from ._outputs import Rows, logits_on_rows
from ._space import RandomSource

# What the words for a geometry stand for in hidden layers.
HIDDEN_GEOMETRIES = {"gram": Gram(ridge=0.3), "ellipsoid": Ellipsoid(), "ball": Ball()}


@dataclass(frozen=True, eq=False, kw_only=True)
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


# ---- building the spaces of a layer --------------------------------------------------


def build_neuron_spaces(
    X: Rows,  # what enters the layer, array or CSR
    W: np.ndarray,  # (n_inputs + 1, n_neurons), the biases in the last row
    activation: str,
    *,
    epsilon: float,
    geometry: Geometry | str = "gram",  # one, or a name in HIDDEN_GEOMETRIES
    n_directions: int = 100,  # rays, the same for all neurons
    max_radius: float = 1e4,
    random_state: RandomSource = None,
) -> NeuronSpaces:
    """Return spaces where activations change by ``epsilon`` of their size (Eq. 3)."""
    if not epsilon > 0:
        raise ValueError(f"epsilon must be above 0, got {epsilon}.")
    geometry = as_geometry(geometry, HIDDEN_GEOMETRIES)
    pre = linear_logits(X, W)
    activations = activate(pre.copy(), activation)
    sizes = np.sqrt(np.mean(np.square(activations, dtype=np.float64), axis=0))
    slopes = None
    if geometry.needs_slopes:
        slopes = _mean_squared_slopes(activations, activation)
    precision = _layer_precision(geometry, X, W=W, slopes=slopes)
    radii = sampled_radii(
        X,
        pre,
        activation=activation,
        bounds=epsilon * sizes,
        metric=metric_of_neurons(with_costs_of_constant_inputs(precision)),
        n_directions=n_directions,
        max_radius=max_radius,
        rng=check_random_state(random_state),
    )
    return NeuronSpaces(
        centers=_with_constants_in_bias(W.astype(np.float64), precision),
        precision=precision,
        radii=radii,
        sizes=sizes,
    )


def _layer_precision(
    geometry: Geometry, X: Rows, *, W: np.ndarray, slopes: np.ndarray | None
) -> np.ndarray:
    """Return the precision of the geometry's metric of what enters the layer."""
    metric = geometry.neuron_metric(
        row_moments(X) if geometry.needs_moments else None,
        W,
        slopes,
        rows=X if geometry.needs_rows else None,
    )
    if not isinstance(metric, Metric):
        raise TypeError(
            f"{type(geometry).__name__}.neuron_metric must return a Metric, got "
            f"{type(metric).__name__}. In place of a matrix, return "
            "GramMetric.from_matrix(matrix)."
        )
    return as_precision(metric)


def _mean_squared_slopes(activations: np.ndarray, activation: str) -> np.ndarray:
    """Mean over the neurons of g' squared, (n_rows,); 1 in a layer without neurons."""
    slopes = squared_slopes(activations, activation)
    return slopes.mean(axis=1) if slopes.shape[1] else np.ones(len(slopes))


def _with_constants_in_bias(W: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """Move weights of constant inputs into the biases, in place, and return W."""
    constant = np.flatnonzero(constant_inputs(precision))
    if len(constant):
        means = precision[constant, -1] / precision[-1, -1]
        W[-1] += means @ W[constant]
        W[constant] = 0.0
    return W


# ---- radii along random rays ---------------------------------------------------------


def sampled_radii(
    X: Rows,
    pre: np.ndarray,  # pre-activations, (n_rows, n_neurons)
    *,
    activation: str,
    bounds: np.ndarray,  # (n_neurons,), on the root mean square changes
    metric: Metric,
    n_directions: int,
    max_radius: float,
    rng: np.random.RandomState,
) -> np.ndarray:
    """Return radii where a ray leaves the neuron's bound, to 1e-4 on the safe side."""
    # logistic(z) = (1 + tanh(z / 2)) / 2, and tanh is the faster one: half the
    # pre-activations and radii, and twice the bounds, make the same of it.
    input_scale = 0.5 if activation == "logistic" else 1.0
    is_live = bounds > 0
    layer = _LAYERS[activation](
        input_scale * pre.T[is_live],
        bounds=bounds[is_live] / input_scale,
        max_radius=input_scale * max_radius,
    )
    generator = np.random.Generator(np.random.SFC64(rng.randint(2**31 - 1)))
    n_rows = X.shape[0]
    n_params = X.shape[1] + 1
    # Of a ray: its changes, rises, falls and a copy, directions on the way, and a few
    # numbers for each neuron. A quarter of the memory, as blocks come on top.
    ray_bytes = (4 * n_rows + 4 * n_params) * pre.itemsize + 16 * pre.shape[1]
    size = max(1, min(n_directions, working_bytes() // (4 * ray_bytes)))
    for rays in gen_batches(n_directions, size):
        n_rays = rays.stop - rays.start
        layer.shorten(changes_along_rays(X, metric, generator, n_rays=n_rays))
    radii = np.zeros(len(bounds))
    radii[is_live] = layer.radii / input_scale
    return radii


def changes_along_rays(
    X: Rows,
    metric: Metric,
    generator: np.random.Generator,
    *,
    n_rays: int,
) -> np.ndarray:
    """Return the change of pre-activations along unit rays, (n_rays, n_rows)."""
    # Normal numbers in float32, ray after ray (Box-Muller: faster than numpy's own).
    half = X.shape[1] // 2 + 1
    uniform = generator.random((n_rays, 2, half), dtype=np.float32)
    length = np.sqrt(-2 * np.log1p(-uniform[:, 0]))
    angle = np.float32(2 * np.pi) * uniform[:, 1]
    normals = np.concatenate([length * np.cos(angle), length * np.sin(angle)], axis=1)
    directions = normals[:, : X.shape[1] + 1]
    norms = np.sqrt(np.einsum("ij,ij->i", directions, directions))
    directions = (directions / norms[:, None]).astype(X.dtype, copy=False)
    return logits_on_rows(metric.unwhiten(directions.T).T, X)


def _root_mean_square(rows: np.ndarray) -> np.ndarray:
    """Return the root mean square of each row."""
    # A stack of dot products is faster than einsum.
    dots = np.matmul(rows[:, None, :], rows[:, :, None])[:, 0, 0]
    return np.sqrt(dots / rows.shape[1])


def _block_size(changes: np.ndarray) -> int:
    """Return how many rays' changes (n_rays, n_rows) stay near the processor."""
    return max(1, CACHE_BYTES // (changes.shape[1] * changes.itemsize))


class _SlopeBounds(NamedTuple):
    """Bounds on squared changes of activations, by those of pre-activations.

    Both divided by the squared radius: the squared change of neuron j on row i is at
    most ``rising_ji`` times the squared rise of the pre-activation, or ``falling_ji``
    times its squared fall, and summed over the rows at most ``constant_j`` more.
    """

    rising: np.ndarray  # (n_neurons, n_rows)
    falling: np.ndarray  # (n_neurons, n_rows)
    constant: np.ndarray  # (n_neurons,)


class _Layer(ABC):
    """Neurons of one layer and their radii so far; a subclass an activation."""

    def __init__(
        self, pre: np.ndarray, *, bounds: np.ndarray, max_radius: float
    ) -> None:
        # (n_neurons, n_rows): one neuron's rows side by side in memory.
        self.pre = np.ascontiguousarray(pre)
        self.bounds = bounds
        self.radii = np.full(len(bounds), float(max_radius))

    @abstractmethod
    def shorten(self, changes: np.ndarray) -> None:
        """Shorten the radii to where the first of some more rays leaves the bound.

        The changes (n_rays, n_rows) are of pre-activations, by a unit step.
        """


class _Identity(_Layer):
    """g(z) = z: a ray leaves where its length times the radius is the bound."""

    @np.errstate(divide="ignore")
    def shorten(self, changes: np.ndarray) -> None:
        longest = np.float64(_root_mean_square(changes).max())
        self.radii = np.minimum(self.radii, self.bounds / longest * (1 - TOLERANCE))


class _CurvedLayer(_Layer):
    """Neurons whose rays are followed, as their activation is no line."""

    # Whether no ray has shortened the radii yet.
    _is_new = True

    @abstractmethod
    def _activate(self, changes: np.ndarray, neurons: np.ndarray | int) -> None:
        """Turn changes of pre-activations into those of activations, in place.

        Of shape (n_rays, n_rows), all of one neuron or each ray of another one.
        """

    @abstractmethod
    def _squared_slopes(
        self, radii: np.ndarray, rises: np.ndarray, falls: np.ndarray
    ) -> _SlopeBounds:
        """Return bounds within radii, for rays of these squared rises and falls.

        Radii are (n_neurons,), rises and falls (n_rays, n_rows), for unit steps.
        """

    def shorten(self, changes: np.ndarray) -> None:
        """Follow rays that may be the first, until no other leaves the bound."""
        lengths = _root_mean_square(changes).astype(np.float64)
        rises = np.square(np.maximum(changes, 0))
        falls = np.square(np.minimum(changes, 0))
        if self._is_new:
            self._follow_pilots(changes, lengths=lengths, rises=rises, falls=falls)
            self._is_new = False
        reach = self._steepness(self.radii, rises, falls) * self.radii[:, None]
        # Pairs (neuron, ray) that may leave the bound within the neuron's radius.
        may_leave = reach > self.bounds[:, None] * (1 - TOLERANCE)
        del rises, falls, reach  # as large as the changes
        while True:
            activation_changes = self._changes_at_radii(changes, pairs=may_leave)
            may_leave = activation_changes > self.bounds[:, None]
            neurons = np.flatnonzero(may_leave.any(axis=1))
            if not len(neurons):
                return
            # The ray that is furthest out at this radius shortens it for the others.
            rays = activation_changes[neurons].argmax(axis=1)
            furthest = activation_changes[neurons, rays]
            self._follow(
                changes,
                lengths=lengths,
                neurons=neurons,
                rays=rays,
                guess=self.radii[neurons] * self.bounds[neurons] / furthest,
            )
            may_leave[neurons, rays] = False

    def _follow_pilots(
        self,
        changes: np.ndarray,
        *,
        lengths: np.ndarray,
        rises: np.ndarray,
        falls: np.ndarray,
    ) -> None:
        """Follow the rays that are likely to leave a neuron's bound first."""
        with np.errstate(divide="ignore"):
            safe_radii = np.minimum(self.bounds / lengths.max(), self.radii)
        # At a small radius the steepest rays are those that leave first, about.
        steepness = self._steepness(safe_radii, rises, falls)
        n_pilots = min(N_PILOTS, len(changes))
        pilots = np.argpartition(-steepness, n_pilots - 1, axis=1)[:, :n_pilots]
        neurons = np.repeat(np.arange(len(pilots)), n_pilots)
        rays = pilots.ravel()
        with np.errstate(divide="ignore"):
            guess = self.bounds[neurons] / steepness[neurons, rays]
        self._follow(changes, lengths=lengths, neurons=neurons, rays=rays, guess=guess)

    def _steepness(
        self, radii: np.ndarray, rises: np.ndarray, falls: np.ndarray
    ) -> np.ndarray:
        """Bound each activation's change along each ray, divided by the radius."""
        bounds = self._squared_slopes(radii, rises, falls)
        total = bounds.rising @ rises.T + bounds.falling @ falls.T
        total = total + bounds.constant[:, None]
        return np.sqrt(total / rises.shape[1])

    def _changes_at_radii(
        self, changes: np.ndarray, *, pairs: np.ndarray
    ) -> np.ndarray:
        """Return the rms change (n_neurons, n_rays) of some pairs; 0 of others."""
        activation_changes = np.zeros(pairs.shape)
        size = _block_size(changes)
        buffer = np.empty((min(size, len(changes)), changes.shape[1]), changes.dtype)
        for neuron in np.flatnonzero(pairs.any(axis=1)):
            rays = np.flatnonzero(pairs[neuron])
            for start in range(0, len(rays), size):
                part = rays[start : start + size]
                block = changes.take(part, 0, out=buffer[: len(part)], mode="clip")
                activation_changes[neuron, part] = self._change_at_radius(block, neuron)
        return activation_changes

    def _changes_at(
        self,
        changes: np.ndarray,
        *,
        neurons: np.ndarray,
        rays: np.ndarray,
        radii: np.ndarray,
    ) -> np.ndarray:
        """Return the rms change of neurons, each on a ray at a radius of its own."""
        activation_changes = np.empty(len(neurons))
        size = _block_size(changes)
        for start in range(0, len(neurons), size):
            part = slice(start, start + size)
            activation_changes[part] = self._change(
                changes[rays[part]], radii=radii[part], neurons=neurons[part]
            )
        return activation_changes

    def _change_at_radius(self, changes: np.ndarray, neuron: int) -> np.ndarray:
        """Return the rms change of one neuron on rays; overwrites their changes."""
        return self._change(changes, radii=self.radii[neuron], neurons=neuron)

    def _change(
        self,
        changes: np.ndarray,
        *,
        radii: np.ndarray | float,
        neurons: np.ndarray | int,
    ) -> np.ndarray:
        changes *= np.asarray(radii, changes.dtype)[..., None]
        self._activate(changes, neurons)
        return _root_mean_square(changes)

    def _follow(
        self,
        changes: np.ndarray,
        *,
        lengths: np.ndarray,
        neurons: np.ndarray,
        rays: np.ndarray,
        guess: np.ndarray,
    ) -> None:
        """Shorten the radii of some neurons to where some rays leave the bound.

        Ray ``rays[p]`` is followed for ``neurons[p]``, first at the radius
        ``guess[p]``. All pairs at once; those whose interval [low, high] is narrow
        enough leave.
        """
        bounds = self.bounds[neurons]
        high = self.radii[neurons].copy()
        # No activation changes by more than its pre-activation.
        with np.errstate(divide="ignore"):
            low = np.minimum(bounds / lengths[rays] * (1 - TOLERANCE), high)
        radius = np.clip(guess, low, high)
        is_outside_at_high = np.zeros(len(neurons), dtype=bool)
        waiting = np.arange(len(neurons))
        for step in range(MOST_STEPS):
            tried = radius[waiting]
            activation_changes = self._changes_at(
                changes, neurons=neurons[waiting], rays=rays[waiting], radii=tried
            )
            is_inside = activation_changes <= bounds[waiting]
            low[waiting[is_inside]] = tried[is_inside]
            high[waiting[~is_inside]] = tried[~is_inside]
            is_outside_at_high[waiting[~is_inside]] = True
            # About a line: go where it meets the bound, to either side in turn.
            with np.errstate(divide="ignore", invalid="ignore"):
                crossing = tried * (bounds[waiting] / activation_changes)
            crossing *= np.where(is_inside, 1 + TOLERANCE / 3, 1 - TOLERANCE / 3)
            below = low[waiting]
            above = high[waiting]
            leaves = is_outside_at_high[waiting]
            # Where it is not known to leave, the end itself is tried.
            crossing = np.where(leaves, crossing, np.minimum(crossing, above))
            is_between = (crossing > below) & ((crossing < above) | ~leaves)
            middle = np.where(above > 4 * below, 2 * below, 0.5 * (below + above))
            # Every third step halves, so that no curve can stall it.
            radius[waiting] = np.where(is_between & (step % 3 < 2), crossing, middle)
            waiting = waiting[above - below > TOLERANCE * above]
            if not len(waiting):
                break
        # Several rays may be of one neuron.
        np.minimum.at(self.radii, neurons, low)


class _Relu(_CurvedLayer):
    """g(z) = max(z, 0)."""

    def __init__(
        self, pre: np.ndarray, *, bounds: np.ndarray, max_radius: float
    ) -> None:
        super().__init__(pre, bounds=bounds, max_radius=max_radius)
        self.shift = np.minimum(self.pre, 0)
        self.least = -np.maximum(self.pre, 0)

    def _activate(self, changes: np.ndarray, neurons: np.ndarray | int) -> None:
        # relu(a + c) - relu(a) is max(c + min(a, 0), -max(a, 0)).
        changes += self.shift[neurons]
        np.maximum(changes, self.least[neurons], out=changes)

    def _change_at_radius(self, changes: np.ndarray, neuron: int) -> np.ndarray:
        # g(a x) = a g(x): dividing one neuron is cheaper than multiplying the rays.
        radius = float(self.radii[neuron])
        changes += self.shift[neuron] / radius
        np.maximum(changes, self.least[neuron] / radius, out=changes)
        return radius * _root_mean_square(changes)

    def _squared_slopes(
        self, radii: np.ndarray, rises: np.ndarray, falls: np.ndarray
    ) -> _SlopeBounds:
        # With a the pre-activation and c its change, both divided by the radius.
        a = self.pre / radii.astype(self.pre.dtype)[:, None]
        is_active = a > 0
        squares = a * a
        # What rises from below 0 does so by (c - |a|)^2 <= c^2 (1 - |a| / max c)^2.
        highest = np.sqrt(rises.max(axis=0))
        with np.errstate(divide="ignore", invalid="ignore"):
            rising = np.maximum(np.where(is_active, 1, 1 + a / highest), 0) ** 2
        rising[:, highest == 0] = 0
        # What falls from above 0 does so by c^2 and a^2 at most: on each row by that
        # which is less on average over the rays.
        by_squares = is_active & (squares < falls.mean(axis=0))
        return _SlopeBounds(
            rising=rising,
            falling=(is_active & ~by_squares).astype(a.dtype),
            constant=np.sum(squares * by_squares, axis=1),
        )


class _Tanh(_CurvedLayer):
    """g(z) = tanh(z)."""

    def __init__(
        self, pre: np.ndarray, *, bounds: np.ndarray, max_radius: float
    ) -> None:
        super().__init__(pre, bounds=bounds, max_radius=max_radius)
        self.activations = np.tanh(self.pre)

    def _activate(self, changes: np.ndarray, neurons: np.ndarray | int) -> None:
        changes += self.pre[neurons]
        np.tanh(changes, out=changes)
        changes -= self.activations[neurons]

    def _squared_slopes(
        self, radii: np.ndarray, rises: np.ndarray, falls: np.ndarray
    ) -> _SlopeBounds:
        # The slope 1 - tanh^2 is steepest at the place next to 0 between here and the
        # farthest that a ray goes.
        radii = radii.astype(self.pre.dtype)[:, None]
        highest = self.pre + radii * np.sqrt(rises.max(axis=0))
        lowest = self.pre - radii * np.sqrt(falls.max(axis=0))
        rising = (1 - np.tanh(np.clip(0, self.pre, highest)) ** 2) ** 2
        falling = (1 - np.tanh(np.clip(0, lowest, self.pre)) ** 2) ** 2
        return _SlopeBounds(
            rising=rising,
            falling=falling,
            constant=np.zeros(len(rising), rising.dtype),
        )


# The logistic function is a tanh of half the pre-activation, see `sampled_radii`.
_LAYERS = {"identity": _Identity, "relu": _Relu, "tanh": _Tanh, "logistic": _Tanh}


# ---- how much neurons matter ---------------------------------------------------------


def neuron_importances(
    spaces: NeuronSpaces, outgoing: np.ndarray, *, homogeneous: bool
) -> np.ndarray:
    """Return how far outputs move, squared, by a unit of a neuron.

    `outgoing` are the weights (n_neurons, n_outputs) out of the neurons. The unit is
    the neuron's own size where its activation is homogeneous, and else 1.
    """
    squares = np.einsum("ij,ij->i", outgoing, outgoing, dtype=np.float64)
    return squares * spaces.sizes**2 if homogeneous else squares
