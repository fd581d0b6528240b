"""Steps down a sum of losses of which a likeness is known: quasi-Newton directions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ._likelihood import Likelihood, _Coordinates

# Steps that are kept.
_MOST_PAIRS = 20
# Second derivatives are differences of gradients this far apart, relative to the model.
_STEP = 1e-5
# The direction is sought to this part of the gradient.
_ACCURACY, _MOST_PRODUCTS = 0.05, 60


@dataclass(frozen=True, eq=False)
class Descent:
    """Directions that make a sum of losses smaller, from its gradients alone.

    L-BFGS (Nocedal and Wright 2006, algorithm 7.4). Its first guess of the second
    derivatives is those of the likelihood, which are right where rows are Gaussian.
    """

    likelihood: Likelihood  # whose penalty the sum includes
    steps: tuple[np.ndarray, ...] = field(default=(), repr=False)  # oldest first
    changes: tuple[np.ndarray, ...] = field(default=(), repr=False)  # of gradients

    def after(self, step: np.ndarray, change: np.ndarray) -> Descent:
        """The same with one more step, and the change of the sum's gradient over it.

        Both are (n_features + 1, n_classes). A step along which the sum is not convex
        is not kept.
        """
        if not np.vdot(step, change) > 1e-12 * np.sqrt(
            np.vdot(step, step) * np.vdot(change, change)
        ):
            return self
        return replace(
            self,
            steps=(*self.steps, step)[-_MOST_PAIRS:],
            changes=(*self.changes, change)[-_MOST_PAIRS:],
        )

    def direction(self, W: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Step from W towards the least value of the sum, as far as it is known.

        W is on rows less the origin of the moments, its outputs 0 in the mean. The step
        is 0 in classes without rows and in constant features.
        """
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
        """Approximate inverse of the likelihood's second derivatives times `rhs`.

        By conjugate gradients in coordinates in which it is about as steep in all
        directions.
        """
        likelihood = self.likelihood
        coordinates = _Coordinates.of(likelihood, W, 0.0)
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
