"""Steps down a sum of losses of which a likeness is known: quasi-Newton directions."""

from dataclasses import dataclass, replace

import numpy as np

from ._likelihood import Likelihood, _Coordinates

# Steps that are kept.
_MOST_PAIRS = 20
# Second derivatives are differences of gradients this far apart, relative to the model.
_STEP = 1e-5
# The direction is sought to this part of the gradient.
_ACCURACY, _MOST_PRODUCTS = 0.05, 60


@dataclass(frozen=True, eq=False, repr=False)
class Descent:
    """L-BFGS of gradients alone (Nocedal, Wright 2006, 7.4), begun by a likelihood."""

    likelihood: Likelihood  # whose penalty the sum includes
    steps: tuple[np.ndarray, ...] = ()  # oldest first
    changes: tuple[np.ndarray, ...] = ()  # of gradients

    def after(self, step: np.ndarray, change: np.ndarray) -> "Descent":
        size = np.sqrt(np.vdot(step, step) * np.vdot(change, change))
        if not np.vdot(step, change) > 1e-12 * size:
            return self
        steps, changes = (*self.steps, step), (*self.changes, change)
        return replace(self, steps=steps[-_MOST_PAIRS:], changes=changes[-_MOST_PAIRS:])

    def direction(self, W: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Step from W, on rows less the origin, towards the least value of the sum."""
        left, shares = self._apart(gradient), []
        for step, change in zip(self.steps[::-1], self.changes[::-1], strict=True):
            share = np.vdot(step, left) / np.vdot(step, change)
            left -= share * change
            shares.append(share)
        found = self._solve(W, left)
        pairs = zip(self.steps, self.changes, shares[::-1], strict=True)
        for step, change, share in pairs:
            found += (share - np.vdot(change, found) / np.vdot(step, change)) * step
        return -self._apart(found)

    def _apart(self, W: np.ndarray) -> np.ndarray:
        """Without what outputs have in common, which only adds to the penalty."""
        seen = self.likelihood.seen
        return np.where(seen, W - W[:, seen].mean(axis=1, keepdims=True), W)

    def _solve(self, W: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """By conjugate gradients: about `rhs` over the likelihood's curvature."""
        likelihood = self.likelihood
        coordinates = _Coordinates(likelihood, W, 0.0)
        _, here = likelihood.value_and_gradient(W)
        size = max(np.linalg.norm(W), 1e-2)

        def times(place):
            step = coordinates.weights(place)
            length = _STEP * size / max(np.linalg.norm(step), np.finfo(float).tiny)
            _, there = likelihood.value_and_gradient(W + length * step)
            return coordinates.gradient((there - here) / length)

        left = coordinates.gradient(rhs)
        found, along = np.zeros_like(left), left
        square = first = left @ left
        for _ in range(_MOST_PRODUCTS):
            if square <= _ACCURACY**2 * first:
                break
            product = times(along)
            curvature = along @ product
            if curvature <= 0:
                break
            found = found + square / curvature * along
            left = left - square / curvature * product
            along = left + left @ left / square * along
            square = left @ left
        return coordinates.weights(found)
