# SPDX-License-Identifier: BSD-3-Clause
"""Build a chain of layers from the operations that a value goes through."""

from dataclasses import dataclass, field, replace

import numpy as np


class Unsupported(Exception):
    """An operation that no chain of Linear layers and activations has."""


@dataclass(frozen=True, eq=False)
class Chain:
    """Layers up to the last activation, and the affine map since then."""

    coefs: tuple = ()  # (n_in, n_out) each, of layers that an activation follows
    intercepts: tuple = ()
    activation: tuple = ()
    # (), (width,) or (n_in, width): a factor, one per unit, or a matrix.
    coef: np.ndarray = field(default_factory=lambda: np.ones(()))
    shift: np.ndarray = field(default_factory=lambda: np.zeros(()))  # () or (width,)
    link: str | None = None  # what the outputs went through at the end

    @property
    def width(self):
        """Number of units, None as long as it is not known."""
        if self.coef.ndim:
            return self.coef.shape[-1]
        if self.shift.ndim:
            return self.shift.shape[0]
        return self.coefs[-1].shape[1] if self.coefs else None

    def linear(self, weight, bias):
        """Go through a matrix of shape (width, n_out) and a bias."""
        if weight.ndim != 2:
            raise Unsupported
        shift = np.broadcast_to(self.shift, weight.shape[:1])
        coef = self.coef @ weight if self.coef.ndim == 2 else (weight.T * self.coef).T
        return replace(self, coef=coef, shift=shift @ weight + bias)

    def scale(self, factor):
        """Multiply by a number, or by one per unit."""
        factor = self._per_unit(factor)
        return replace(self, coef=self.coef * factor, shift=self.shift * factor)

    def move(self, offset):
        """Add a number, or one per unit."""
        return replace(self, shift=self.shift + self._per_unit(offset))

    def activate(self, name):
        """Go through an elementwise activation."""
        if self.width is None:
            raise Unsupported
        coef, shift = self.coef, np.broadcast_to(self.shift, (self.width,))
        if coef.ndim < 2:
            coef = np.diag(np.broadcast_to(coef, (self.width,)))
        layers = (*self.coefs, coef), (*self.intercepts, shift)
        return Chain(*layers, (*self.activation, name))

    def finish(self):
        """Take a sigmoid at the very end for the link."""
        untouched = self.coef.ndim == self.shift.ndim == 0 and self.coef == 1
        if self.link or not untouched or self.activation[-1:] != ("logistic",):
            return self
        *coefs, coef = self.coefs
        *intercepts, shift = self.intercepts
        activation = self.activation[:-1]
        return Chain(coefs, intercepts, activation, coef, shift, link="logistic")

    def _per_unit(self, values):
        values = np.asarray(values)
        if values.size == 1:
            return values.reshape(())
        if values.ndim == 2 and values.shape[0] == 1:
            values = values[0]
        if values.ndim != 1 or self.width not in (None, values.size):
            raise Unsupported
        return values
