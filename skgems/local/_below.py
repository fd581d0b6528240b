# SPDX-License-Identifier: BSD-3-Clause
"""Merged layers that a node's rows go through before anything else is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..networks import Layers, activate, linear_logits


@dataclass(frozen=True, eq=False)
class Below:
    """Hidden layers that rows go through before the layers that a message is about."""

    weights: Sequence[np.ndarray] = ()  # each (n_in + 1, n_units), biases last
    activation: Sequence[str] = ()

    def rows(self, X):
        """Outputs of the layers, (n_samples, n_units); X itself if there is none."""
        for W, name in zip(self.weights, self.activation, strict=True):
            X = activate(linear_logits(X, W), name)
        return X

    @classmethod
    def of(cls, layers: Layers) -> Below:
        """The hidden layers of a network."""
        hidden = zip(layers.coefs[:-1], layers.intercepts[:-1], strict=True)
        return cls([np.vstack(pair) for pair in hidden], layers.activation)

    def as_content(self) -> dict | None:
        """The layers as messages have them; None, if there is none."""
        if not len(self.weights):
            return None
        return {"weights": list(self.weights), "activation": list(self.activation)}

    @classmethod
    def from_content(cls, content: Mapping | None) -> Below:
        """Inverse of `as_content`."""
        return cls() if content is None else cls(**content)
