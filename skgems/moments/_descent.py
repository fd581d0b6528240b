"""Steps down a sum of losses that a likelihood is similar to: quasi-Newton directions.

The sum is known by its gradients g at a few models alone. The direction is -H g, where
H stands for the inverse of its second derivatives: the two loops of L-BFGS (Nocedal,
Wright 2006, 7.4) over steps s_i between models and the changes t_i of gradients there,

    H = V^T H' V + s s^T / (s^T t),    V = I - t s^T / (s^T t),

from the last step to the first. At the beginning H' is not a multiple of the identity:
it is the inverse of the likelihood's second derivatives, times which a vector is found
by conjugate gradients.
"""

from dataclasses import dataclass, replace

import numpy as np

from ._likelihood import Likelihood
from ._likelihood_search import REMEMBERED_STEPS, Coordinates
from ._rows import ROUNDING_OF_SUMS

# The direction is sought to this part of the gradient: the likelihood is only similar.
_ACCURACY = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class Descent:
    """L-BFGS of gradients alone, begun by a likelihood."""

    likelihood: Likelihood  # whose penalty the sum includes
    steps: tuple[np.ndarray, ...] = ()  # oldest first
    changes: tuple[np.ndarray, ...] = ()  # of gradients

    def add_step(self, step: np.ndarray, change: np.ndarray) -> "Descent":
        """Return the descent with one step more, if it tells of the curvature."""
        size = np.sqrt(np.vdot(step, step) * np.vdot(change, change))
        # A smaller cosine is rounding. A negative one says that the sum is not convex
        # there, so that H would not be positive definite.
        if not np.vdot(step, change) > ROUNDING_OF_SUMS * size:
            return self
        steps = (*self.steps, step)
        changes = (*self.changes, change)
        return replace(
            self, steps=steps[-REMEMBERED_STEPS:], changes=changes[-REMEMBERED_STEPS:]
        )

    def direction(self, W: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Step from W, on rows less the origin, towards the least value of the sum."""
        remainder = self._subtract_mean_of_outputs(gradient)
        shares = []
        for step, change in zip(self.steps[::-1], self.changes[::-1], strict=True):
            share = np.vdot(step, remainder) / np.vdot(step, change)
            remainder -= share * change
            shares.append(share)
        ascent = self._solve(W, remainder)
        pairs = zip(self.steps, self.changes, shares[::-1], strict=True)
        for step, change, share in pairs:
            ascent += (share - np.vdot(change, ascent) / np.vdot(step, change)) * step
        return -self._subtract_mean_of_outputs(ascent)

    def _subtract_mean_of_outputs(self, W: np.ndarray) -> np.ndarray:
        """Return W less the mean over outputs, which only adds to the penalty."""
        seen = self.likelihood.seen
        return np.where(seen, W - W[:, seen].mean(axis=1, keepdims=True), W)

    def _solve(self, W: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """Divide `rhs` by the curvature at W, about, by conjugate gradients.

        They run in the coordinates of the likelihood's search, where the curvature is
        nearly the identity. Both arrays are (n_features + 1, n_classes).
        """
        coordinates = Coordinates(self.likelihood, W, curvature=0.0)
        _, gradient_at_W = self.likelihood.value_and_gradient(W)
        # Second derivatives are differences of gradients this far apart: rounding then
        # errs by 1e-11 and the third derivatives by 1e-5, both far below _ACCURACY.
        distance = np.cbrt(np.finfo(float).eps) * max(np.linalg.norm(W), 1.0)

        def curvature_times(z: np.ndarray) -> np.ndarray:
            step = coordinates.weights(z)
            tiny = np.finfo(float).tiny
            length = distance / max(np.linalg.norm(step), tiny)
            _, gradient = self.likelihood.value_and_gradient(W + length * step)
            return coordinates.gradient((gradient - gradient_at_W) / length)

        residual = coordinates.gradient(rhs)
        solution = np.zeros_like(residual)
        conjugate = residual
        first_square = residual @ residual
        square = first_square
        for _ in range(residual.size):  # by then they are there but for rounding
            if square <= _ACCURACY**2 * first_square:
                break
            product = curvature_times(conjugate)
            curvature = conjugate @ product
            if curvature <= 0:  # rounding: the likelihood is convex
                break
            solution = solution + square / curvature * conjugate
            residual = residual - square / curvature * product
            conjugate = residual + residual @ residual / square * conjugate
            square = residual @ residual
        return coordinates.weights(solution)
