"""A fitted classifier as plain arrays: layers, coordinates of what enters, classes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix, issparse
from scipy.special import expit
from sklearn.utils.extmath import safe_sparse_dot

# Two outputs are equal if they differ by less than this part of their largest value:
# float32 has seven digits, and layers sum in various orders.
TOLERANCE = 1e-4
# What several steps or layers in float32, one after the other, may be off by, relative
# to the size of what they give.
FOLD_TOLERANCE = 1e-3
# Rows that readings and modules are checked on: enough to have every unit fire at some
# of them, and not to have sums of 1 by chance. Views of rows as images or as steps in
# time divide by it, and few layers of images need more memory for so many rows than for
# their weights.
N_ROWS = 16


@dataclass(frozen=True, kw_only=True)
class _Activation:
    # Overwrites Z where it can: else outputs of a wide layer would be in memory twice.
    apply: Callable[[np.ndarray], np.ndarray]
    # Derivatives, as a function of the outputs.
    slopes: Callable[[np.ndarray], np.ndarray | int]


_ACTIVATIONS = {
    "identity": _Activation(apply=lambda Z: Z, slopes=lambda Z: 1),
    "relu": _Activation(
        apply=lambda Z: np.maximum(Z, 0, out=Z), slopes=lambda Z: Z > 0
    ),
    "tanh": _Activation(apply=lambda Z: np.tanh(Z, out=Z), slopes=lambda Z: 1 - Z * Z),
    "logistic": _Activation(
        apply=lambda Z: expit(Z, out=Z), slopes=lambda Z: Z * (1 - Z)
    ),
}
ACTIVATIONS = tuple(_ACTIVATIONS)  # names of those that a hidden layer may have


def squared_slopes(Z: np.ndarray, activation: str) -> np.ndarray:
    """Return squares of an activation's derivatives, in float64, where it gives Z."""
    slopes = _ACTIVATIONS[activation].slopes(Z.astype(np.float64))
    return np.broadcast_to(np.square(slopes, dtype=np.float64), Z.shape)


def activate(Z: np.ndarray, activation: str) -> np.ndarray:
    """Apply an elementwise activation, one of ACTIVATIONS; Z may be overwritten."""
    return _ACTIVATIONS[activation].apply(Z)


def linear_logits(X: np.ndarray | csr_matrix, W: np.ndarray) -> np.ndarray:
    """Logits of weights (n_features + 1, n_outputs), intercepts last, in X's dtype."""
    W = W.astype(X.dtype, copy=False)
    return _affine(X, W[:-1], W[-1])


def _affine(
    X: np.ndarray | csr_matrix, coef: np.ndarray, intercept: np.ndarray
) -> np.ndarray:
    logits = safe_sparse_dot(X, coef, dense_output=True)
    if np.result_type(logits, intercept) != logits.dtype:
        return logits + intercept
    # In place: outputs of a wide layer would be in memory twice.
    logits += intercept
    return logits


@dataclass(frozen=True, eq=False)
class Layers:
    """A stack of dense layers; one activation for all, or one for each hidden layer."""

    coefs: tuple[np.ndarray, ...] = field(repr=False)  # (n_in_i, n_out_i) each
    intercepts: tuple[np.ndarray, ...] = field(repr=False)  # (n_out_i,) each
    activation: tuple[str, ...]

    def __post_init__(self) -> None:
        n_hidden = len(self.coefs) - 1
        if isinstance(self.activation, str):
            names = (self.activation,) * n_hidden
        else:
            names = tuple(self.activation)
        if len(names) != n_hidden:
            raise ValueError(
                f"activation must have one name per hidden layer ({n_hidden}), got "
                f"{names}."
            )
        if len(self.intercepts) != len(self.coefs):
            raise ValueError(
                f"There are {len(self.coefs)} weight matrices and "
                f"{len(self.intercepts)} bias vectors. Give one of each per layer."
            )
        object.__setattr__(self, "coefs", tuple(self.coefs))
        object.__setattr__(self, "intercepts", tuple(self.intercepts))
        object.__setattr__(self, "activation", names)

    @classmethod
    def from_weights(
        cls, weights: Sequence[np.ndarray], activation: Sequence[str] = ()
    ) -> "Layers":
        """Make layers of weights (n_in + 1, n_out), with biases in the last row."""
        return cls(
            coefs=[W[:-1] for W in weights],
            intercepts=[W[-1] for W in weights],
            activation=activation,
        )

    @property
    def n_hidden_layers(self) -> int:
        return len(self.coefs) - 1

    @property
    def is_linear(self) -> bool:
        return self.n_hidden_layers == 0

    @property
    def n_outputs(self) -> int:
        return self.coefs[-1].shape[1]

    @property
    def dtype(self) -> np.dtype:
        return _result_dtype(array.dtype for array in self.coefs + self.intercepts)

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(len(intercept) for intercept in self.intercepts[:-1])

    def hidden(
        self, X: np.ndarray | csr_matrix, layer: int | None = None
    ) -> np.ndarray | csr_matrix:
        """Return the inputs of a layer: 0, the rows, to n_hidden_layers (None)."""
        Z = X if issparse(X) else np.asarray(X)
        n = len(self.coefs[0])
        if Z.ndim != 2 or Z.shape[1] != n:
            raise ValueError(
                f"X has shape {Z.shape}, but the network takes {n} features. Give rows "
                "with the columns that it was fitted on."
            )
        for i in range(self.n_hidden_layers if layer is None else layer):
            Z = activate(self._pre_activation(Z, i), self.activation[i])
        return Z

    def _pre_activation(self, Z: np.ndarray | csr_matrix, layer: int) -> np.ndarray:
        return _affine(Z, self.coefs[layer], self.intercepts[layer])

    def inputs(self, X: np.ndarray | csr_matrix) -> list:
        """Return what enters each layer, the rows first."""
        inputs = [self.hidden(X, 0)]
        for i, name in enumerate(self.activation):
            inputs.append(activate(self._pre_activation(inputs[-1], i), name))
        return inputs

    def gradients(self, inputs: list, residuals: np.ndarray) -> list[np.ndarray]:
        """Derivatives by `weights` of a loss, `residuals` being those by the logits."""
        gradients = []
        for i in range(self.n_hidden_layers, -1, -1):
            by_coef = inputs[i].T @ residuals
            gradients.append(np.vstack([by_coef, residuals.sum(axis=0)]))
            if i:
                slopes = _ACTIVATIONS[self.activation[i - 1]].slopes(inputs[i])
                residuals = residuals @ self.coefs[i].T * slopes
        return gradients[::-1]

    def logits(self, X: np.ndarray | csr_matrix) -> np.ndarray:
        return self._pre_activation(self.hidden(X), -1)

    @property
    def weights(self) -> list[np.ndarray]:
        pairs = zip(self.coefs, self.intercepts, strict=True)
        return [np.vstack(pair) for pair in pairs]

    @property
    def last(self) -> np.ndarray:
        return np.vstack([self.coefs[-1], self.intercepts[-1]])

    def with_last(self, W: np.ndarray) -> "Layers":
        return self._with_last_layer(W[:-1], W[-1])

    def _with_last_layer(
        self, coef: np.ndarray, intercept: np.ndarray, **changes: object
    ) -> "Layers":
        return replace(
            self,
            coefs=(*self.coefs[:-1], coef),
            intercepts=(*self.intercepts[:-1], intercept),
            **changes,
        )

    def scaled(self, factor: float) -> "Layers":
        return self._with_last_layer(
            self.coefs[-1] * factor, self.intercepts[-1] * factor
        )

    def above(self, layer: int) -> "Layers":
        return Layers(
            coefs=self.coefs[layer:],
            intercepts=self.intercepts[layer:],
            activation=self.activation[layer:],
        )

    def astype(self, dtype: np.dtype) -> "Layers":
        coefs = [array.astype(dtype, copy=False) for array in self.coefs]
        intercepts = [array.astype(dtype, copy=False) for array in self.intercepts]
        return replace(self, coefs=coefs, intercepts=intercepts)

    def contracted(self) -> "Layers":
        return self.with_last(np.diff(self.last)) if self.n_outputs == 2 else self

    def expanded(self, n_classes: int) -> "Layers":
        """Return an output per class: two of one logit, zeros of a constant model."""
        if self.n_outputs != 1 or n_classes > 2:
            return self
        coef, intercept = expand_binary(
            self.coefs[-1], self.intercepts[-1], n_classes=n_classes
        )
        return self._with_last_layer(coef, intercept)


@dataclass(frozen=True, eq=False)
class LayersBelow:
    """Layers below the last, as messages hold them."""

    weights: Sequence[np.ndarray] = ()  # each (n_in + 1, n_units), biases last
    activation: Sequence[str] = ()

    def outputs(self, X: np.ndarray | csr_matrix) -> np.ndarray | csr_matrix:
        for W, name in zip(self.weights, self.activation, strict=True):
            X = activate(linear_logits(X, W), name)
        return X

    @classmethod
    def from_layers(cls, layers: Layers) -> "LayersBelow":
        """Return all layers but the last."""
        return cls(layers.weights[:-1], layers.activation)

    def as_content(self) -> dict | None:
        if not len(self.weights):
            return None
        return {"weights": list(self.weights), "activation": list(self.activation)}

    @classmethod
    def from_content(cls, content: Mapping | None) -> "LayersBelow":
        return cls() if content is None else cls(**content)


def expand_binary(
    coef: np.ndarray, intercept: np.ndarray, *, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """A last layer of one column, for two classes or one, with a column per class."""
    if n_classes == 1:
        return np.zeros_like(coef), np.zeros_like(intercept)
    return as_two_logits(coef), as_two_logits(intercept)


def as_two_logits(difference: np.ndarray) -> np.ndarray:
    """Return two logits that differ by z and sum to zero: columns -z / 2 and z / 2.

    What z is made of, one column of weights or one intercept, becomes two the same way.
    """
    return difference * np.array([-0.5, 0.5], dtype=difference.dtype)


def one_per_layer(name: str, value: object, depth: int, *words: str) -> list:
    """Return a parameter's value for each hidden layer.

    Each must be a positive number or one of `words`.
    """
    if value is None or isinstance(value, str | Real):
        per_layer = [value] * depth
    else:
        per_layer = [v.item() if isinstance(v, np.generic) else v for v in value]
    is_valid = [v in words or _is_positive(v) for v in per_layer]
    if len(per_layer) != depth or not all(is_valid):
        raise ValueError(
            f"{name} must be one value, or one per hidden layer ({depth}), each "
            f"{' or '.join(['positive', *map(repr, words)])}; got {value!r}."
        )
    return per_layer


def _is_positive(value: object) -> bool:
    return isinstance(value, Real) and 0 < value < np.inf


@dataclass(frozen=True, eq=False, kw_only=True)
class Coordinates:
    """Row x is ``(x - center) / scale`` in them.

    A scale of NaN marks a feature that the node has not seen vary; its center is the
    value that the feature had, where that is known, else NaN. Where rows or layers are
    brought into the coordinates NaN is used as a center of 0 and a scale of 1.
    """

    center: np.ndarray  # (n_features,)
    scale: np.ndarray  # (n_features,), positive or NaN

    @classmethod
    def common(cls, several: "Sequence[Coordinates | None]") -> "Coordinates | None":
        """Mean center and median scale of nodes that know them, or None if none has."""
        having = [coordinates for coordinates in several if coordinates is not None]
        if not having:
            return None
        centers = np.ma.masked_invalid([coordinates.center for coordinates in having])
        scales = np.ma.masked_invalid([coordinates.scale for coordinates in having])
        common = cls(
            center=np.ma.filled(centers.mean(axis=0), np.nan),
            scale=np.ma.filled(np.ma.median(scales, axis=0), np.nan),
        )
        # A node without coordinates works on features as they are.
        return common if len(having) == len(several) else common.filled()

    def filled(self, other: "Coordinates | None" = None) -> "Coordinates":
        """Return these with NaN replaced by `other`, or by a center 0 and scale 1."""
        center = 0.0 if other is None else other.center
        scale = 1.0 if other is None else other.scale
        return Coordinates(
            center=np.where(np.isnan(self.center), center, self.center),
            scale=np.where(np.isnan(self.scale), scale, self.scale),
        )

    def take_in(self, layers: Layers) -> Layers:
        """Layers of features as layers of rows in these coordinates: the inverse.

        ``x w + b = z (s w) + (b + c w)`` for ``x = s z + c``. Weights of features that
        were constant where a Network was fitted are not trained; they enter its biases
        at the value that the feature had, and become zero.
        """
        first = layers.coefs[0]
        bias = layers.intercepts[0]
        fitted_in = getattr(layers, "coordinates", None)
        if fitted_in is not None:
            constant = np.isnan(fitted_in.scale) & np.isfinite(fitted_in.center)
            bias = bias + fitted_in.center[constant] @ first[constant]
            first = np.where(constant[:, None], 0.0, first)
        filled = self.filled()
        bias = bias + filled.center @ first
        return with_first(layers, coef=first * filled.scale[:, None], bias=bias)

    def give_back(self, layers: Layers) -> Layers:
        """Return layers of rows in these coordinates as layers of the features."""
        filled = self.filled()
        first = layers.coefs[0] / filled.scale[:, None]
        bias = layers.intercepts[0] - filled.center @ first
        return with_first(layers, coef=first, bias=bias)

    def rows(self, X: np.ndarray | csr_matrix) -> np.ndarray | csr_matrix:
        """Rows in these coordinates; sparse ones are scaled only, see `left_out`."""
        filled = self.filled()
        if issparse(X):
            return csr_matrix(X.multiply(1.0 / filled.scale))
        return ((X - filled.center) / filled.scale).astype(X.dtype, copy=False)

    def left_out(self) -> "Coordinates":
        """Return the part that `rows` leaves out of sparse rows: the scaled center."""
        filled = self.filled()
        return Coordinates(
            center=filled.center / filled.scale, scale=np.ones_like(filled.scale)
        )


def with_first(layers: Layers, *, coef: np.ndarray, bias: np.ndarray) -> Layers:
    """Layers with another first one, in the dtype of the one that it replaces."""
    coef = coef.astype(layers.coefs[0].dtype, copy=False)
    bias = bias.astype(layers.intercepts[0].dtype, copy=False)
    return replace(
        layers,
        coefs=(coef, *layers.coefs[1:]),
        intercepts=(bias, *layers.intercepts[1:]),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Network(Layers):
    """A stack of dense layers with one output column per class."""

    # How the source model turned its logits into probabilities: "softmax", "logistic"
    # (one-vs-rest; for a binary model, the sigmoid of the difference of the two
    # columns), or "identity" where the logits are scores (SVM, ridge, perceptron);
    # "none" for a node without a classifier, whose classes are those of its rows.
    output: str
    classes: np.ndarray  # (n_outputs,), the label of each column
    seen: np.ndarray  # (n_outputs,), bool: the model was fitted on the class
    n_features_in: int
    feature_names_in: np.ndarray | None = field(default=None, repr=False)
    # Those that the classifier after folded steps works in; None: the features as they
    # are.
    coordinates: Coordinates | None = field(default=None, repr=False)
    # (n_features,), bool: features that the steps drop by name, whose values never
    # leave the node; None: none.
    dropped: np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def from_rows(
        cls,
        labels: ArrayLike,
        X: np.ndarray | csr_matrix,
        feature_names_in: np.ndarray | None = None,
        *,
        dropped: np.ndarray | None = None,
    ) -> "Network":
        """Return what stands for the classifier of a node that has none, but rows."""
        classes = np.unique(as_labels(labels))
        n_features = X.shape[1]
        dtype = np.result_type(X.dtype, np.float32)
        return cls(
            coefs=(np.zeros((n_features, len(classes)), dtype),),
            intercepts=(np.zeros(len(classes), dtype),),
            activation=(),
            output="none",
            classes=classes,
            seen=np.ones(len(classes), dtype=bool),
            n_features_in=n_features,
            feature_names_in=feature_names_in,
            dropped=dropped,
        )

    @property
    def has_classifier(self) -> bool:
        return self.output != "none"

    @property
    def is_one_vs_rest(self) -> bool:
        """Report whether each of several classes has a probability of its own."""
        return self.output == "logistic" and self.seen.sum() > 2

    @property
    def is_constant(self) -> bool:
        return self.is_linear and not self.coefs[0].any()

    def with_empty_layers(self, n_hidden_layers: int) -> "Network":
        """A constant network with hidden layers, of no unit; any other as it is."""
        if not n_hidden_layers or not self.is_constant:
            return self
        dtype = self.coefs[0].dtype
        widths = [self.n_features_in, *[0] * n_hidden_layers, self.n_outputs]
        no_biases = [np.zeros(0, dtype) for _ in range(n_hidden_layers)]
        return replace(
            self,
            coefs=[np.zeros(shape, dtype) for shape in pairwise(widths)],
            intercepts=[*no_biases, self.intercepts[0]],
            activation=["identity"] * n_hidden_layers,
        )

    def decision_function(self, X: np.ndarray | csr_matrix) -> np.ndarray:
        return self.logits(X)

    def with_layers(self, layers: Layers) -> "Network":
        """Other layers, the same outputs; feature names stay if their number does."""
        network = replace(
            self,
            coefs=layers.coefs,
            intercepts=layers.intercepts,
            activation=layers.activation,
        )
        n_features = len(layers.coefs[0])
        if n_features == self.n_features_in:
            return network
        return replace(
            network,
            n_features_in=n_features,
            feature_names_in=None,
            coordinates=None,
            dropped=None,
        )

    def drop_features(self, dropped: np.ndarray) -> "Network":
        """Return the network of a classifier that drops some features by name.

        Folded steps leave weights of rounding errors there.
        """
        first = np.where(dropped[:, None], 0, self.coefs[0])
        network = with_first(self, coef=first, bias=self.intercepts[0])
        return replace(network, dropped=dropped)

    def as_content(self) -> dict:
        """Return fields of a message."""
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
        if self.dropped is not None:
            content["dropped"] = self.dropped
        return content

    @classmethod
    def from_content(cls, content: Mapping) -> "Network":
        names = content.get("feature_names")
        coordinates = None
        if "center" in content:
            coordinates = Coordinates(center=content["center"], scale=content["scale"])
        return cls(
            coefs=content["coefs"],
            intercepts=content["intercepts"],
            activation=content["activation"],
            output=content["output"],
            classes=as_labels(content["labels"]),
            seen=content["seen"],
            n_features_in=content["n_features"],
            feature_names_in=None if names is None else np.array(names, dtype=object),
            coordinates=coordinates,
            dropped=content.get("dropped"),
        )

    def aligned(self, classes: ArrayLike) -> "Network":
        """Return the network for other labels; outputs it lacks are zero, not seen."""
        classes = as_labels(classes)
        column_of = {label: c for c, label in enumerate(classes.tolist())}
        columns = np.array(
            [column_of.get(label, -1) for label in self.classes.tolist()]
        )
        return self._with_last_layer(
            _placed(self.coefs[-1], columns=columns, n_columns=len(column_of)),
            _placed(self.intercepts[-1], columns=columns, n_columns=len(column_of)),
            classes=classes,
            seen=_placed(self.seen, columns=columns, n_columns=len(column_of)),
        )


def _placed(array: np.ndarray, *, columns: np.ndarray, n_columns: int) -> np.ndarray:
    """Zeros with the last axis of an array put at `columns`; -1 leaves an entry out."""
    is_placed = columns >= 0
    placed = np.zeros((*array.shape[:-1], n_columns), dtype=array.dtype)
    placed[..., columns[is_placed]] = array[..., is_placed]
    return placed


def as_weights(
    array: ArrayLike | csr_matrix, *, name: str, array_name: str, copy: bool = True
) -> np.ndarray:
    """Weights in C order, float32 or else 64, finite copies; without ``copy`` as is."""
    weights = np.asarray(array.toarray() if issparse(array) else array)
    dtype = np.float32 if weights.dtype == np.float32 else np.float64
    if not copy:
        return weights.astype(dtype, copy=False)
    weights = np.array(weights, dtype=dtype, order="C")
    check_finite(weights, name=name, array_name=array_name)
    return weights


def check_finite(array: ArrayLike | csr_matrix, *, name: str, array_name: str) -> None:
    numbers = np.asarray(array.data if issparse(array) else array)
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        raise ValueError(
            f"Node {name!r}: {array_name} has {np.sum(~np.isfinite(numbers))} values "
            "that are not finite (NaN or infinity). Fit this model again."
        )


def as_labels(labels: ArrayLike) -> np.ndarray:
    """Return an array of labels, in which whole numbers above 2**63 are no floats."""
    if isinstance(labels, np.ndarray):
        return labels
    labels = list(labels)
    are_whole_numbers = {type(label) for label in labels} == {int}
    if are_whole_numbers and min(labels) >= 0 and max(labels) >= 2**63:
        return np.array(labels, dtype=np.uint64)
    return np.asarray(labels)


def union_of_classes(
    networks: Sequence[Network], *, names: Sequence[str] | None = None
) -> np.ndarray:
    """Sorted labels that some network has seen; ValueError if they have no order."""
    names = names or [f"estimator {i}" for i in range(len(networks))]
    seen_classes = [network.classes[network.seen] for network in networks]
    first_node = {}  # of each label
    for name, classes in zip(names, seen_classes, strict=True):
        for label in classes.tolist():
            first_node.setdefault(label, name)
    # Compared as Python objects: numpy would turn 1 into "1" and sort that.
    try:
        sorted(first_node)
    except TypeError:
        raise _no_order_error(first_node) from None
    kinds = {classes.dtype.kind for classes in seen_classes}
    if kinds == {"i", "u"}:  # of which numpy would make floats of fewer digits
        return _as_whole_numbers(first_node)
    return np.unique(np.concatenate(seen_classes))


def _no_order_error(first_node: Mapping[object, str]) -> ValueError:
    """Return the error of labels without an order, which names nodes of two of them."""
    first, *others = first_node
    is_text = isinstance(first, str)
    other = next((b for b in others if isinstance(b, str) != is_text), others[-1])
    return ValueError(
        f"The classes of the nodes cannot be sorted together: node "
        f"{first_node[first]!r} has the label {first!r} ({type(first).__name__}), "
        f"node {first_node[other]!r} has {other!r} ({type(other).__name__}). Use "
        "labels of one type at all nodes."
    )


def _as_whole_numbers(first_node: Mapping[int, str]) -> np.ndarray:
    """Sorted labels, each with the first node that has it; ValueError if too large."""
    least = min(first_node)
    largest = max(first_node)
    if least < 0 and largest >= 2**63:
        raise ValueError(
            f"The classes of the nodes are whole numbers that no one type holds: node "
            f"{first_node[least]!r} has {least}, node {first_node[largest]!r} has "
            f"{largest}. Write the labels as texts at all nodes: y.astype(str)."
        )
    return np.array(sorted(first_node), dtype=np.uint64 if least >= 0 else np.int64)


def common_dtype(networks: Sequence[Network]) -> np.dtype:
    """The dtype of all networks but constant ones, whose zeros could have any."""
    having = [network for network in networks if not network.is_constant]
    return _result_dtype(network.dtype for network in having or networks)


def _result_dtype(dtypes: Iterable[np.dtype]) -> np.dtype:
    return np.result_type(*dtypes)
