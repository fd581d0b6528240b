# SPDX-License-Identifier: BSD-3-Clause
"""A fitted classifier as plain arrays: its layers and output classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import issparse

from ._coordinates import Coordinates
from ._layers import Layers


@dataclass(frozen=True, eq=False)
class Network(Layers):
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
        How the source model turned its logits into probabilities: "softmax" (that of
        the module, where one ends with it and skorch applies a second);
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
    coordinates : Coordinates or None, default=None
        Where affine steps of a pipeline were folded into the first layer, those of
        the features in which the classifier after the steps works. None: the features
        as they are.

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

    output: str
    classes: np.ndarray
    seen: np.ndarray
    n_features_in: int
    feature_names_in: np.ndarray | None = field(default=None, repr=False)
    coordinates: Coordinates | None = field(default=None, repr=False)

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

    def decision_function(self, X) -> np.ndarray:
        """Logits of each class, as classifiers call them; see :meth:`logits`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features_in)
            Rows. Sparse rows are never made dense.

        Returns
        -------
        logits : ndarray of shape (n_samples, n_outputs)
            One column per entry of ``classes``.
        """
        return self.logits(X)

    def with_layers(self, layers: Layers) -> Network:
        """Other layers with the same outputs.

        Parameters
        ----------
        layers : Layers
            With one output per entry of ``classes``.

        Returns
        -------
        network : Network
            Names of the features are kept where their number is.
        """
        n_features_in = len(layers.coefs[0])
        same = n_features_in == self.n_features_in
        return replace(
            self,
            coefs=layers.coefs,
            intercepts=layers.intercepts,
            activation=layers.activation,
            n_features_in=n_features_in,
            feature_names_in=self.feature_names_in if same else None,
            coordinates=self.coordinates if same else None,
        )

    # ---- in messages ------------------------------------------------------

    def as_content(self) -> dict:
        """All of it, as messages tell it.

        Returns
        -------
        content : dict
            Of lists of ndarray, ndarray, and what JSON has.
        """
        names = self.feature_names_in
        told = {
            "coefs": list(self.coefs),
            "intercepts": list(self.intercepts),
            "activation": list(self.activation),
            "output": self.output,
            "labels": self.classes.tolist(),
            "seen": self.seen,
            "n_features": self.n_features_in,
            "feature_names": None if names is None else names.tolist(),
        }
        if self.coordinates is not None:
            told["center"] = self.coordinates.center
            told["scale"] = self.coordinates.scale
        return told

    @classmethod
    def from_content(cls, content: Mapping) -> Network:
        """The network that :meth:`as_content` told.

        Parameters
        ----------
        content : mapping

        Returns
        -------
        network : Network

        Examples
        --------
        >>> from sklearn.linear_model import LogisticRegression
        >>> from skgems.networks import Network, read_network
        >>> clf = LogisticRegression().fit([[0.0], [1.0]], ["cat", "dog"])
        >>> told = read_network(clf).as_content()
        >>> Network.from_content(told).classes.tolist()
        ['cat', 'dog']
        """
        names, coordinates = content["feature_names"], None
        if "center" in content:
            coordinates = Coordinates(content["center"], content["scale"])
        return cls(
            coefs=tuple(content["coefs"]),
            intercepts=tuple(content["intercepts"]),
            activation=tuple(content["activation"]),
            output=content["output"],
            classes=np.asarray(content["labels"]),
            seen=content["seen"],
            n_features_in=content["n_features"],
            feature_names_in=None if names is None else np.array(names, dtype=object),
            coordinates=coordinates,
        )

    # ---- classes ----------------------------------------------------------

    def aligned(self, classes: Sequence) -> Network:
        """The same with its outputs in the order of other labels.

        Parameters
        ----------
        classes : array-like of shape (n_classes,)
            Labels, for instance from :func:`union_of_classes`. Outputs that are not
            among them are left out; labels without an output get one of zero weights
            that counts as not seen.

        Returns
        -------
        network : Network

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> from skgems.networks import read_network
        >>> clf = LogisticRegression().fit([[0.0], [1.0]], ["cat", "dog"])
        >>> read_network(clf).aligned(["bird", "cat", "dog"]).seen.tolist()
        [False, True, True]
        """
        classes = np.asarray(classes)
        column = {label: c for c, label in enumerate(classes.tolist())}
        target = np.array([column.get(label, -1) for label in self.classes.tolist()])
        kept = target >= 0
        target = target[kept]
        last, bias = self.coefs[-1], self.intercepts[-1]
        coef = np.zeros((last.shape[0], len(column)), dtype=last.dtype)
        intercept = np.zeros(len(column), dtype=bias.dtype)
        seen = np.zeros(len(column), dtype=bool)
        coef[:, target] = last[:, kept]
        intercept[target] = bias[kept]
        seen[target] = self.seen[kept]
        return replace(
            self,
            coefs=(*self.coefs[:-1], coef),
            intercepts=(*self.intercepts[:-1], intercept),
            classes=classes,
            seen=seen,
        )

    def rows_with_output(self, classes, codes) -> tuple[np.ndarray, np.ndarray]:
        """Which rows have a label that the network has an output for, and the column.

        Parameters
        ----------
        classes : ndarray of shape (n_classes,)
            Labels that the codes count in.
        codes : ndarray of shape (n_samples,), int
            Labels of the rows, as indices of ``classes``.

        Returns
        -------
        known : ndarray of shape (n_samples,), dtype bool
        columns : ndarray of shape (n_known,), int
            For the rows that are known.
        """
        column = {label: c for c, label in enumerate(self.classes.tolist())}
        own = np.array([column.get(label, -1) for label in classes.tolist()])
        columns = own[codes]
        return columns >= 0, columns[columns >= 0]


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
    check_finite(weights, name=name, what=what)
    return weights


def check_finite(values, *, name: str, what: str) -> None:
    """Raise ValueError, which names the node, for numbers that are not finite.

    Parameters
    ----------
    values : {array-like, sparse matrix}
        Numbers; of anything else nothing is said.
    name : str
        Name of the node.
    what : str
        What holds them.

    Examples
    --------
    >>> from skgems.networks import check_finite
    >>> check_finite([0.0, float("nan")], name="north", what="coef_")
    Traceback (most recent call last):
    ...
    ValueError: Node 'north': coef_ has 1 values that are not finite (NaN or ...
    """
    values = np.asarray(values.data if issparse(values) else values)
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    raise ValueError(
        f"Node {name!r}: {what} has {np.sum(~np.isfinite(values))} values that are "
        "not finite (NaN or infinity); fit this model again."
    )
