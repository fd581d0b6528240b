"""A fitted classifier as plain arrays: its layers and classes, and those of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from ._layers import Coordinates, Layers


@dataclass(frozen=True, eq=False)
class Network(Layers):
    """A stack of dense layers with one output column per class."""

    # How the source model turned its logits into probabilities: "softmax", "logistic"
    # (one-vs-rest; of a binary model, of the difference of the two columns), or
    # "identity" where the logits are scores (SVM, ridge, perceptron).
    output: str
    classes: np.ndarray  # (n_outputs,), the label of each column
    seen: np.ndarray  # (n_outputs,), bool: the model was fitted on the class
    n_features_in: int
    feature_names_in: np.ndarray | None = field(default=None, repr=False)
    # In which the classifier after folded steps works; None: the features as they are.
    coordinates: Coordinates | None = field(default=None, repr=False)

    @property
    def is_constant(self) -> bool:
        """Whether it is a linear model without weights, as of a single class."""
        return self.is_linear and not self.coefs[0].any()

    def with_empty_layers(self, n_hidden_layers: int) -> Network:
        """A constant network with hidden layers, of no unit; any other as it is."""
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
        """Logits of each class, as classifiers call them; see :meth:`logits`."""
        return self.logits(X)

    def with_layers(self, layers: Layers) -> Network:
        """Other layers, the same outputs; feature names stay if their number does."""
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
        """All of it, as messages hold it: arrays, lists of arrays and what JSON has."""
        names = self.feature_names_in
        content = {
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
            content["center"] = self.coordinates.center
            content["scale"] = self.coordinates.scale
        return content

    @classmethod
    def from_content(cls, content: Mapping) -> Network:
        """The network of which :meth:`as_content` gave the content."""
        names, coordinates = content.get("feature_names"), None
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

    def aligned(self, classes: ArrayLike) -> Network:
        """The same for other labels; outputs that it lacks are zero and not seen."""
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
        return self._ending(coef, intercept, classes=classes, seen=seen)


def as_weights(values, *, name: str, what: str, copy: bool = True) -> np.ndarray:
    """A C-ordered dense copy of weights, float32 or else float64, checked to be finite.

    ``what`` is the attribute or layer they come from, for the message. Without ``copy``
    a float array is given back as it is, unchecked.
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
    """Raise ValueError for NaN or infinity; ``what`` says where they are."""
    values = np.asarray(values.data if issparse(values) else values)
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    raise ValueError(
        f"Node {name!r}: {what} has {np.sum(~np.isfinite(values))} values that are "
        "not finite (NaN or infinity); fit this model again."
    )


def union_of_classes(
    networks: Sequence[Network], *, names: Sequence[str] | None = None
) -> np.ndarray:
    """Sorted labels of the classes that at least one network has seen.

    ``names`` of the nodes are for the message; None numbers them. ValueError if labels
    cannot be sorted together, as text and numbers.
    """
    if names is None:
        names = [f"estimator {i}" for i in range(len(networks))]
    labels = [network.classes[network.seen] for network in networks]
    owner = {}
    for name, values in zip(names, labels, strict=True):
        for label in values.tolist():
            owner.setdefault(label, name)
    # Compared as Python objects: numpy would turn 1 into "1" and sort that.
    try:
        sorted(owner)
    except TypeError as exc:
        first, *others = owner
        text = isinstance(first, str)
        other = next((b for b in others if isinstance(b, str) != text), others[-1])
        raise ValueError(
            f"The classes of the nodes cannot be sorted together: node "
            f"{owner[first]!r} has the label {first!r} ({type(first).__name__}), node "
            f"{owner[other]!r} has {other!r} ({type(other).__name__}). Give all nodes "
            "labels of one type."
        ) from exc
    return np.unique(np.concatenate(labels))


def common_dtype(networks: Sequence[Network]) -> np.dtype:
    """That of all networks, where constant ones do not count beside others."""
    having = [network for network in networks if not network.is_constant]
    return np.result_type(*(network.dtype for network in having or networks))
