# SPDX-License-Identifier: BSD-3-Clause
"""Merged layers that a node's rows go through before anything else is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..networks import Layers, activate, linear_logits


@dataclass(frozen=True, eq=False)
class Below:
    """Hidden layers that rows go through before they meet what a message is about.

    Attributes
    ----------
    weights : sequence of ndarray of shape (n_in + 1, n_units)
        Of each layer, the biases in the last row.
    activation : sequence of str
        Of each layer.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.local import Below
    >>> below = Below([np.array([[1.0, -1.0], [0.0, 1.0]])], ["relu"])
    >>> below.rows(np.array([[2.0]]))
    array([[2., 0.]])
    >>> Below().rows(np.array([[2.0]]))
    array([[2.]])
    """

    weights: Sequence[np.ndarray] = ()
    activation: Sequence[str] = ()

    def rows(self, X):
        """What comes out of the layers on rows.

        Parameters
        ----------
        X : {ndarray, CSR matrix} of shape (n_samples, n_features)

        Returns
        -------
        Z : {ndarray, CSR matrix} of shape (n_samples, n_units)
            X, if there is no layer.
        """
        for W, name in zip(self.weights, self.activation, strict=True):
            X = activate(linear_logits(X, W), name)
        return X

    @classmethod
    def of(cls, layers: Layers) -> Below:
        """The hidden layers of a network.

        Parameters
        ----------
        layers : Layers

        Returns
        -------
        below : Below

        Examples
        --------
        >>> import numpy as np
        >>> from skgems.local import Below
        >>> from skgems.networks import Layers
        >>> coefs, intercepts = [np.eye(2), np.eye(2)], [np.zeros(2), np.ones(2)]
        >>> Below.of(Layers(coefs, intercepts, ("relu",))).rows(np.array([[1.0, -1.0]]))
        array([[1., 0.]])
        """
        hidden = zip(layers.coefs[:-1], layers.intercepts[:-1], strict=True)
        return cls([np.vstack(pair) for pair in hidden], layers.activation)

    def as_content(self) -> dict | None:
        """As messages tell it; None, if there is no layer.

        Returns
        -------
        content : dict or None
        """
        if not len(self.weights):
            return None
        return {"weights": list(self.weights), "activation": list(self.activation)}

    @classmethod
    def from_content(cls, content: Mapping | None) -> Below:
        """What :meth:`as_content` told.

        Parameters
        ----------
        content : mapping or None

        Returns
        -------
        below : Below

        Examples
        --------
        >>> import numpy as np
        >>> from skgems.local import Below
        >>> told = Below([np.zeros((3, 2))], ["tanh"]).as_content()
        >>> Below.from_content(told).activation
        ['tanh']
        """
        return cls() if content is None else cls(**content)
