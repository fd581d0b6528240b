# SPDX-License-Identifier: BSD-3-Clause
"""Steps down a sum of losses of which a likeness is known: quasi-Newton directions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ._likelihood import Likelihood, _Coordinates

# Steps that are remembered.
_MOST_PAIRS = 20
# Second derivatives are differences of gradients this far apart, relative to the model.
_STEP = 1e-5
# The direction is sought to this part of the gradient.
_ACCURACY, _MOST_PRODUCTS = 0.05, 60


@dataclass(frozen=True, eq=False)
class Descent:
    """Directions that make a sum of losses smaller, from its gradients alone.

    L-BFGS, whose first guess of the second derivatives is those of the likelihood of
    the moments: right where rows are Gaussian, and corrected by what gradients at
    earlier steps have shown.

    Attributes
    ----------
    likelihood : Likelihood
        Whose penalty the sum includes.
    steps, changes : tuple of ndarray
        Steps that were looked at, the first one first, and the changes of the sum's
        gradient over them.

    References
    ----------
    J. Nocedal, S. Wright: Numerical Optimization, 2006, algorithm 7.4.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.moments import Descent, Likelihood, NodeLoss, class_moments
    >>> X, y = np.array([[-1.0], [-3.0], [2.0], [4.0]]), np.array([0, 0, 1, 1])
    >>> likelihood = Likelihood.of([NodeLoss(class_moments(X, y), np.arange(2))], 2)
    >>> W = np.zeros((2, 2))
    >>> value, gradient = likelihood.value_and_gradient(W)
    >>> direction = Descent(likelihood).direction(W, gradient)
    >>> bool(likelihood.value_and_gradient(W + direction)[0] < value)
    True
    """

    likelihood: Likelihood
    steps: tuple[np.ndarray, ...] = field(default=(), repr=False)
    changes: tuple[np.ndarray, ...] = field(default=(), repr=False)

    def after(self, step: np.ndarray, change: np.ndarray) -> Descent:
        """The same with what one more step has shown.

        Parameters
        ----------
        step : ndarray of shape (n_features + 1, n_classes)
        change : ndarray of shape (n_features + 1, n_classes)
            Of the gradient of the sum; one that is not convex is not remembered.

        Returns
        -------
        descent : Descent
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
        """Where to go from a model.

        Parameters
        ----------
        W : ndarray of shape (n_features + 1, n_classes)
            A linear model on rows less the origin of the likelihood's moments, its
            outputs 0 in the mean.
        gradient : ndarray of shape (n_features + 1, n_classes)
            Of the sum there.

        Returns
        -------
        direction : ndarray of shape (n_features + 1, n_classes)
            To the least value of the sum, as far as it is known; 0 in the classes that
            nothing is told of and in constant features.
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
        told = self.likelihood.told
        return np.where(told, W - W[:, told].mean(axis=1, keepdims=True), W)

    def _solve(self, W: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """What the likelihood's second derivatives make `rhs` of, about.

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
