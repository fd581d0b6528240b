"""A fitted classifier as plain arrays: layers, coordinates of what enters, classes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix, issparse
from scipy.special import expit
from sklearn.utils.extmath import safe_sparse_dot

# Each one works in place on a float array; and its slopes, of what comes out.
_ACTIVATIONS = {
    "identity": (lambda Z: Z, lambda Z: 1),
    "relu": (lambda Z: np.maximum(Z, 0, out=Z), lambda Z: Z > 0),
    "tanh": (lambda Z: np.tanh(Z, out=Z), lambda Z: 1 - Z * Z),
    "logistic": (lambda Z: expit(Z, out=Z), lambda Z: Z * (1 - Z)),
}
ACTIVATIONS = tuple(_ACTIVATIONS)  # names of those that a hidden layer may have


def squared_slopes(Z: np.ndarray, activation: str) -> np.ndarray:
    """Squares of an activation's derivatives, in float64, where it gives Z."""
    slopes = _ACTIVATIONS[activation][1](Z.astype(np.float64))
    return np.broadcast_to(np.square(slopes, dtype=np.float64), Z.shape)


def activate(Z: np.ndarray, activation: str) -> np.ndarray:
    """Apply an elementwise activation, one of ACTIVATIONS; Z may be overwritten."""
    return _ACTIVATIONS[activation][0](Z)


def linear_logits(X, W: np.ndarray) -> np.ndarray:
    """Logits of weights (n_features + 1, n_outputs), intercepts last, in X's dtype."""
    W = W.astype(X.dtype, copy=False)
    return _affine(X, W[:-1], W[-1])


def _affine(X, coef, intercept):
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
        names, n_hidden = self.activation, self.n_hidden_layers
        names = (names,) * n_hidden if isinstance(names, str) else tuple(names)
        if len(names) != n_hidden:
            each = f"one name per hidden layer ({n_hidden})"
            raise ValueError(f"activation must have {each}, got {names}.")
        if len(self.intercepts) != len(self.coefs):
            own = f"{len(self.coefs)} weight matrices and {len(self.intercepts)}"
            raise ValueError(f"There are {own} bias vectors; give one per layer.")
        object.__setattr__(self, "coefs", tuple(self.coefs))
        object.__setattr__(self, "intercepts", tuple(self.intercepts))
        object.__setattr__(self, "activation", names)

    @classmethod
    def of(cls, weights: Sequence[np.ndarray], activation: Sequence[str] = ()):
        """Of each layer's weights (n_in + 1, n_out), the biases in the last row."""
        return cls([W[:-1] for W in weights], [W[-1] for W in weights], activation)

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
        return np.result_type(*(array.dtype for array in self.coefs + self.intercepts))

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(len(intercept) for intercept in self.intercepts[:-1])

    def hidden(self, X, layer: int | None = None):
        """What enters a layer: 0, which is the rows, to n_hidden_layers (None)."""
        Z = X if issparse(X) else np.asarray(X)
        n = len(self.coefs[0])
        if Z.ndim != 2 or Z.shape[1] != n:
            raise ValueError(f"X has shape {Z.shape}, the network takes {n} features.")
        for i in range(self.n_hidden_layers if layer is None else layer):
            Z = activate(_affine(Z, *self._layer(i)), self.activation[i])
        return Z

    def _layer(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        return self.coefs[i], self.intercepts[i]

    def inputs(self, X) -> list:
        found = [self.hidden(X, 0)]
        for i, name in enumerate(self.activation):
            found.append(activate(_affine(found[-1], *self._layer(i)), name))
        return found

    def gradients(self, inputs: list, residuals: np.ndarray) -> list[np.ndarray]:
        found = []
        for i in range(self.n_hidden_layers, -1, -1):
            found.append(np.vstack([inputs[i].T @ residuals, residuals.sum(axis=0)]))
            if i:
                slopes = _ACTIVATIONS[self.activation[i - 1]][1](inputs[i])
                residuals = residuals @ self.coefs[i].T * slopes
        return found[::-1]

    def logits(self, X) -> np.ndarray:
        return _affine(self.hidden(X), *self._layer(-1))

    @property
    def weights(self) -> list[np.ndarray]:
        pairs = zip(self.coefs, self.intercepts, strict=True)
        return [np.vstack(pair) for pair in pairs]

    @property
    def last(self) -> np.ndarray:
        return np.vstack(self._layer(-1))

    def with_last(self, W: np.ndarray) -> "Layers":
        return self._ending(W[:-1], W[-1])

    def _ending(self, coef: np.ndarray, intercept: np.ndarray, **more) -> "Layers":
        coefs, biases = (*self.coefs[:-1], coef), (*self.intercepts[:-1], intercept)
        return replace(self, coefs=coefs, intercepts=biases, **more)

    def scaled(self, factor: float) -> "Layers":
        return self._ending(self.coefs[-1] * factor, self.intercepts[-1] * factor)

    def above(self, layer: int) -> "Layers":
        own = self.coefs, self.intercepts, self.activation
        return Layers(*(part[layer:] for part in own))

    def astype(self, dtype) -> "Layers":
        coefs = [array.astype(dtype, copy=False) for array in self.coefs]
        intercepts = [array.astype(dtype, copy=False) for array in self.intercepts]
        return replace(self, coefs=coefs, intercepts=intercepts)

    def contracted(self) -> "Layers":
        return self.with_last(np.diff(self.last)) if self.n_outputs == 2 else self

    def expanded(self, n_classes: int) -> "Layers":
        """One output per class: ``(-z / 2, z / 2)`` for a single logit z, or zero."""
        if self.n_outputs != 1 or n_classes > 2:
            return self
        return self._ending(*expand_binary(*self._layer(-1), n_classes))


@dataclass(frozen=True, eq=False)
class HiddenLayers:
    weights: Sequence[np.ndarray] = ()  # each (n_in + 1, n_units), biases last
    activation: Sequence[str] = ()

    def outputs(self, X):
        for W, name in zip(self.weights, self.activation, strict=True):
            X = activate(linear_logits(X, W), name)
        return X

    @classmethod
    def of(cls, layers: Layers) -> "HiddenLayers":
        return cls(layers.weights[:-1], layers.activation)

    def as_content(self) -> dict | None:
        if not len(self.weights):
            return None
        return {"weights": list(self.weights), "activation": list(self.activation)}

    @classmethod
    def from_content(cls, content: Mapping | None) -> "HiddenLayers":
        return cls() if content is None else cls(**content)


def expand_binary(coef, intercept, n_classes):
    """A last layer of one column, for two classes or one, with a column per class."""
    if n_classes == 1:
        return np.zeros_like(coef), np.zeros_like(intercept)
    signs = np.array([-0.5, 0.5], dtype=coef.dtype)
    return coef * signs, intercept * signs


def one_per_layer(name: str, value, depth: int, *words) -> list:
    """Value for each hidden layer of one or a sequence; positive, or one of words."""
    if value is None or isinstance(value, str | Real):
        values = [value] * depth
    else:
        values = [v.item() if isinstance(v, np.generic) else v for v in value]
    fits = [v in words or (isinstance(v, Real) and 0 < v < np.inf) for v in values]
    if len(values) != depth or not all(fits):
        allowed = " or ".join(["positive", *map(repr, words)])
        each = f"one value, or one per hidden layer ({depth}), each {allowed}"
        raise ValueError(f"{name} must be {each}; got {value!r}.")
    return values


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Row x is ``(x - center) / scale``; NaN, used as 0 and 1, is what was not seen."""

    center: np.ndarray  # (n_features,)
    scale: np.ndarray  # (n_features,), positive

    @classmethod
    def common(cls, several: "Sequence[Coordinates | None]") -> "Coordinates | None":
        """Mean centre and median scale of nodes that know them, or None if none has."""
        having = [own for own in several if own is not None]
        if not having:
            return None
        center = np.ma.masked_invalid([own.center for own in having]).mean(axis=0)
        scales = np.ma.masked_invalid([own.scale for own in having])
        pair = center, np.ma.median(scales, axis=0)
        found = cls(*(np.ma.filled(own, np.nan) for own in pair))
        return found if len(having) == len(several) else found.filled()

    def filled(self, other: "Coordinates | None" = None) -> "Coordinates":
        """The same, with what others say, or features as they are, where not known."""
        center, scale = (0.0, 1.0) if other is None else (other.center, other.scale)
        pairs = (self.center, center), (self.scale, scale)
        return Coordinates(*(np.where(np.isnan(own), new, own) for own, new in pairs))

    def take_in(self, layers: Layers) -> Layers:
        """Layers over features as over these, less a Network's untrained weights."""
        first, bias = layers.coefs[0], layers.intercepts[0]
        own = getattr(layers, "coordinates", None)
        if own is not None:
            constant = np.isnan(own.scale) & np.isfinite(own.center)
            bias = bias + own.center[constant] @ first[constant]
            first = np.where(constant[:, None], 0.0, first)
        known = self.filled()
        bias = bias + known.center @ first
        return with_first(layers, first * known.scale[:, None], bias)

    def give_back(self, layers: Layers) -> Layers:
        known = self.filled()
        first = layers.coefs[0] / known.scale[:, None]
        return with_first(layers, first, layers.intercepts[0] - known.center @ first)

    def rows(self, X):
        """Rows in these coordinates; sparse ones are scaled only, see `left_out`."""
        known = self.filled()
        if issparse(X):
            return csr_matrix(X.multiply(1.0 / known.scale))
        return ((X - known.center) / known.scale).astype(X.dtype, copy=False)

    def left_out(self) -> "Coordinates":
        """What `rows` does not do to sparse rows: the centre, in units of the scale."""
        known = self.filled()
        return Coordinates(known.center / known.scale, np.ones_like(known.scale))


def with_first(layers: Layers, coef, bias) -> Layers:
    coef = coef.astype(layers.coefs[0].dtype, copy=False)
    biases = bias.astype(layers.intercepts[0].dtype, copy=False), *layers.intercepts[1:]
    return replace(layers, coefs=(coef, *layers.coefs[1:]), intercepts=biases)


_LAYERS = ("coefs", "intercepts", "activation")


@dataclass(frozen=True, eq=False)
class Network(Layers):
    """A stack of dense layers with one output column per class."""

    # How the source model turned its logits into probabilities: "softmax", "logistic"
    # (one-vs-rest; of a binary model, of the difference of the two columns), or
    # "identity" where the logits are scores (SVM, ridge, perceptron); "none" of a node
    # without a classifier, whose classes are those of its rows.
    output: str
    classes: np.ndarray  # (n_outputs,), the label of each column
    seen: np.ndarray  # (n_outputs,), bool: the model was fitted on the class
    n_features_in: int
    feature_names_in: np.ndarray | None = field(default=None, repr=False)
    # In which the classifier after folded steps works; None: the features as they are.
    coordinates: Coordinates | None = field(default=None, repr=False)

    @classmethod
    def of_rows(cls, labels, X, feature_names_in=None) -> "Network":
        """What stands for the classifier of a node that has none, but rows."""
        labels, dtype = np.unique(labels), np.result_type(X.dtype, np.float32)
        n, n_labels = X.shape[1], len(labels)
        layers = [np.zeros((n, n_labels), dtype)], [np.zeros(n_labels, dtype)], ()
        seen = np.ones(n_labels, dtype=bool)
        return cls(*layers, "none", labels, seen, n, feature_names_in)

    @property
    def has_classifier(self) -> bool:
        return self.output != "none"

    @property
    def is_constant(self) -> bool:
        return self.is_linear and not self.coefs[0].any()

    def with_empty_layers(self, n_hidden_layers: int) -> "Network":
        """A constant network with hidden layers, of no unit; any other as it is."""
        if not n_hidden_layers or not self.is_constant:
            return self
        dtype, none = self.coefs[0].dtype, [0] * n_hidden_layers
        widths = [self.n_features_in, *none, self.n_outputs]
        coefs = [np.zeros(shape, dtype) for shape in pairwise(widths)]
        intercepts = [*(np.zeros(n, dtype) for n in none), self.intercepts[0]]
        activation = ["identity" for _ in none]
        return replace(self, coefs=coefs, intercepts=intercepts, activation=activation)

    def decision_function(self, X) -> np.ndarray:
        return self.logits(X)

    def with_layers(self, layers: Layers) -> "Network":
        """Other layers, the same outputs; feature names stay if their number does."""
        own, n = {key: getattr(layers, key) for key in _LAYERS}, len(layers.coefs[0])
        if n != self.n_features_in:
            own |= {"n_features_in": n, "feature_names_in": None, "coordinates": None}
        return replace(self, **own)

    def as_content(self) -> dict:
        names, own = self.feature_names_in, self.coordinates
        names = None if names is None else names.tolist()
        content = {key: list(getattr(self, key)) for key in _LAYERS}
        content |= {"output": self.output, "labels": self.classes.tolist()}
        content |= {"seen": self.seen, "n_features": self.n_features_in}
        content["feature_names"] = names
        known = {} if own is None else {"center": own.center, "scale": own.scale}
        return content | known

    @classmethod
    def from_content(cls, content: Mapping) -> "Network":
        names, coordinates = content.get("feature_names"), None
        if "center" in content:
            coordinates = Coordinates(content["center"], content["scale"])
        names = None if names is None else np.array(names, dtype=object)
        own = [content[key] for key in (*_LAYERS, "output")]
        own += [np.asarray(content["labels"]), content["seen"], content["n_features"]]
        return cls(*own, names, coordinates)

    def aligned(self, classes: ArrayLike) -> "Network":
        """The same for other labels; outputs that it lacks are zero and not seen."""
        classes = np.asarray(classes)
        column = {label: c for c, label in enumerate(classes.tolist())}
        target = np.array([column.get(label, -1) for label in self.classes.tolist()])
        kept = target >= 0

        def placed(values):
            found = np.zeros((*values.shape[:-1], len(column)), dtype=values.dtype)
            found[..., target[kept]] = values[..., kept]
            return found

        last, seen = map(placed, self._layer(-1)), placed(self.seen)
        return self._ending(*last, classes=classes, seen=seen)


def as_weights(values, *, name: str, what: str, copy: bool = True) -> np.ndarray:
    """Weights in C order, float32 or else 64, finite copies; without ``copy`` as is."""
    weights = np.asarray(values.toarray() if issparse(values) else values)
    dtype = np.float32 if weights.dtype == np.float32 else np.float64
    if not copy:
        return weights.astype(dtype, copy=False)
    weights = np.array(weights, dtype=dtype, order="C")
    check_finite(weights, name=name, what=what)
    return weights


def check_finite(values, *, name: str, what: str) -> None:
    values = np.asarray(values.data if issparse(values) else values)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(
            f"Node {name!r}: {what} has {np.sum(~np.isfinite(values))} values that are "
            "not finite (NaN or infinity); fit this model again."
        )


def union_of_classes(networks: Sequence[Network], *, names=None) -> np.ndarray:
    """Sorted labels that some network has seen; ValueError if they have no order."""
    names = names or [f"estimator {i}" for i in range(len(networks))]
    labels = [network.classes[network.seen] for network in networks]
    owner = {}
    for name, values in zip(names, labels, strict=True):
        for label in values.tolist():
            owner.setdefault(label, name)
    # Compared as Python objects: numpy would turn 1 into "1" and sort that.
    try:
        sorted(owner)
    except TypeError:
        first, *others = owner
        text = isinstance(first, str)
        other = next((b for b in others if isinstance(b, str) != text), others[-1])
        raise ValueError(
            f"The classes of the nodes cannot be sorted together: node "
            f"{owner[first]!r} has the label {first!r} ({type(first).__name__}), node "
            f"{owner[other]!r} has {other!r} ({type(other).__name__}). Use one type."
        ) from None
    return np.unique(np.concatenate(labels))


def common_dtype(networks: Sequence[Network]) -> np.dtype:
    having = [network for network in networks if not network.is_constant]
    return np.result_type(*(network.dtype for network in having or networks))
