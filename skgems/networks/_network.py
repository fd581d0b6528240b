# SPDX-License-Identifier: BSD-3-Clause
"""A fitted classifier as plain arrays: layers, activations and output classes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import issparse
from scipy.special import expit
from sklearn.utils.extmath import safe_sparse_dot

# Each one works in place on a float array.
ACTIVATIONS = {
    "identity": lambda Z: Z,
    "relu": lambda Z: np.maximum(Z, 0, out=Z),
    "tanh": lambda Z: np.tanh(Z, out=Z),
    "logistic": lambda Z: expit(Z, out=Z),
}


@dataclass(frozen=True, eq=False)
class Network:
    """A chain of dense layers with one output column per class.

    Parameters
    ----------
    coefs : tuple of ndarray, layer i of shape (n_in_i, n_out_i)
        Weights, float32 or float64. A linear classifier is one layer of shape
        (n_features_in, n_outputs).
    intercepts : tuple of ndarray, layer i of shape (n_out_i,)
        Biases.
    activation : tuple of {"identity", "relu", "tanh", "logistic"}
        One name per hidden layer.
    output : {"softmax", "logistic", "identity"}
        How the source model turned its logits into probabilities: "softmax";
        "logistic" for one-vs-rest sigmoids, and for the sigmoid of a binary model,
        whose argument is the difference of the two columns; "identity" where the
        logits are scores without probabilities (SVM, ridge, perceptron).
    classes : ndarray of shape (n_outputs,)
        The label of each output column.
    seen : ndarray of shape (n_outputs,), dtype bool
        Which of these classes the model was fitted on.
    n_features_in : int
        Number of features.
    feature_names_in : ndarray of shape (n_features_in,) or None, default=None
        Names of the features, where the model was fitted with names.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.networks import Network
    >>> network = Network(
    ...     coefs=(np.eye(2),), intercepts=(np.zeros(2),), activation=(),
    ...     output="softmax", classes=np.array(["no", "yes"]),
    ...     seen=np.array([True, True]), n_features_in=2,
    ... )
    >>> network.decision_function(np.array([[1.0, 3.0]]))
    array([[1., 3.]])
    """

    coefs: tuple[np.ndarray, ...] = field(repr=False)
    intercepts: tuple[np.ndarray, ...] = field(repr=False)
    activation: tuple[str, ...]
    output: str
    classes: np.ndarray
    seen: np.ndarray
    n_features_in: int
    feature_names_in: np.ndarray | None = field(default=None, repr=False)

    @property
    def n_hidden_layers(self) -> int:
        """Number of hidden layers."""
        return len(self.coefs) - 1

    @property
    def is_linear(self) -> bool:
        """Whether there is no hidden layer."""
        return self.n_hidden_layers == 0

    @property
    def is_constant(self) -> bool:
        """Whether it is a linear model without weights, as of a single class."""
        return self.is_linear and not self.coefs[0].any()

    def with_empty_layers(self, n_hidden_layers: int) -> Network:
        """A constant network with hidden layers, of no unit; any other as it is.

        Parameters
        ----------
        n_hidden_layers : int
            Number of hidden layers.

        Returns
        -------
        network : Network
        """
        if not n_hidden_layers or not self.is_constant:
            return self
        dtype, n_outputs = self.coefs[0].dtype, self.coefs[0].shape[1]
        widths = [self.n_features_in] + [0] * n_hidden_layers + [n_outputs]
        shapes = zip(widths[:-1], widths[1:], strict=True)
        empty = (np.zeros(0, dtype),) * n_hidden_layers
        return replace(
            self,
            coefs=tuple(np.zeros(shape, dtype) for shape in shapes),
            intercepts=(*empty, self.intercepts[0]),
            activation=("identity",) * n_hidden_layers,
        )

    def hidden(self, X, layer: int | None = None):
        """Activations that enter a layer.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features_in)
            Rows. Sparse rows are never made dense.
        layer : int, default=None
            The layer that the activations enter, 0 <= layer <= n_hidden_layers;
            0 gives back the input. None is the last one.

        Returns
        -------
        Z : {ndarray, sparse matrix} of shape (n_samples, n_in_layer)
            The output of hidden layer ``layer - 1``, or X for layer 0.

        Raises
        ------
        ValueError
            If X has not n_features_in columns, or there is no such layer.
        """
        if layer is None:
            layer = self.n_hidden_layers
        if not 0 <= layer <= self.n_hidden_layers:
            raise ValueError(
                f"layer must be between 0 and {self.n_hidden_layers}, got {layer}."
            )
        Z = X if issparse(X) else np.asarray(X)
        if Z.ndim != 2 or Z.shape[1] != self.n_features_in:
            raise ValueError(
                f"X has shape {Z.shape}, but the network takes rows of "
                f"{self.n_features_in} features."
            )
        for i in range(layer):
            Z = ACTIVATIONS[self.activation[i]](self._affine(Z, i))
        return Z

    def decision_function(self, X) -> np.ndarray:
        """Logits of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features_in)
            Rows. Sparse rows are never made dense.

        Returns
        -------
        logits : ndarray of shape (n_samples, n_outputs)
            One column per entry of ``classes``.
        """
        return self._affine(self.hidden(X), self.n_hidden_layers)

    def _affine(self, Z, layer):
        return (
            safe_sparse_dot(Z, self.coefs[layer], dense_output=True)
            + self.intercepts[layer]
        )


def as_weights(values, *, name: str, what: str, copy: bool = True) -> np.ndarray:
    """Copy weights to a C-ordered float array and check that they are finite.

    Parameters
    ----------
    values : {array-like, sparse matrix}
        Weights. float32 is kept, every other dtype becomes float64.
    name : str
        Name of the node, for the message.
    what : str
        Attribute or layer that the weights come from, for the message.
    copy : bool, default=True
        False gives back a float array as it is, unchecked.

    Returns
    -------
    weights : ndarray of the same shape
    """
    if issparse(values):
        values = values.toarray()
    weights = np.asarray(values)
    dtype = np.float32 if weights.dtype == np.float32 else np.float64
    if not copy:
        return weights.astype(dtype, copy=False)
    weights = np.array(weights, dtype=dtype, order="C")
    if not np.isfinite(weights).all():
        raise ValueError(
            f"Node {name!r}: {what} has {np.sum(~np.isfinite(weights))} values that "
            "are not finite (NaN or infinity); fit this model again."
        )
    return weights
