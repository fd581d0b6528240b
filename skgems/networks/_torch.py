"""Read a torch module, or a skorch classifier around it, as a chain of layers."""

import operator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from skorch import NeuralNetBinaryClassifier
from torch import fx, nn
from torch.nn import functional

from ._nets import labels_of, module_of
from ._network import Network, as_weights, expand_binary
from ._sklearn import network_of
from ._trace import describe, first_output, is_in_place, needed_nodes, trace


class UnsupportedError(Exception):
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
        own = (self.coef, self.shift, *self.coefs[-1:])
        return next((array.shape[-1] for array in own if array.ndim), None)

    def linear(self, weight, bias):
        if weight.ndim != 2:
            raise UnsupportedError
        shift = np.broadcast_to(self.shift, weight.shape[:1])
        coef = self.coef @ weight if self.coef.ndim == 2 else (weight.T * self.coef).T
        return replace(self, coef=coef, shift=shift @ weight + bias)

    def scale(self, factor):
        factor = self._per_unit(factor)
        return replace(self, coef=self.coef * factor, shift=self.shift * factor)

    def move(self, offset):
        return replace(self, shift=self.shift + self._per_unit(offset))

    def activate(self, name):
        if self.width is None:
            raise UnsupportedError
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
        (*coefs, coef), (*intercepts, shift) = self.coefs, self.intercepts
        return Chain(coefs, intercepts, self.activation[:-1], coef, shift, "logistic")

    def check_open(self):
        if self.link:
            link = self.link.removeprefix("log_")
            raise UnsupportedError(f"it comes after the {link} of the outputs")

    def _per_unit(self, values):
        values = np.asarray(values)
        if values.size == 1:
            return values.reshape(())
        if values.ndim == 2 and values.shape[0] == 1:
            values = values[0]
        if values.ndim != 1 or self.width not in (None, values.size):
            raise UnsupportedError
        return values


# Operations by what they do to a chain; functions and tensor methods share names.
_NAMES = {
    "relu": "relu relu_",
    "tanh": "tanh tanh_",
    "logistic": "sigmoid sigmoid_ expit",
    "keep": "dropout alpha_dropout feature_alpha_dropout contiguous clone float double",
    "cast": "to type",
    "reshape": "view reshape",
    "matmul": "matmul mm imatmul",
    "add": "add iadd add_",
    "subtract": "sub isub sub_ subtract",
    "multiply": "mul imul mul_ multiply",
    "divide": "div truediv itruediv div_ divide true_divide",
    "negative": "neg negative",
    **{name: name for name in ("softmax", "log_softmax", "logsigmoid", "linear")},
    **{name: name for name in ("flatten", "squeeze", "getitem", "size")},
}
_OPERATIONS = {
    own: kind
    for kind, names in _NAMES.items()
    for name in names.split()
    for space in (torch, functional, torch.special, operator)
    for own in (name, getattr(space, name, name))
}
_ARITHMETIC = ("add", "subtract", "multiply", "divide")
_MODULES = {
    nn.ReLU: "relu",
    nn.Tanh: "tanh",
    nn.Sigmoid: "logistic",
    nn.Softmax: "softmax",
    nn.LogSoftmax: "log_softmax",
    nn.LogSigmoid: "logsigmoid",
    nn.Flatten: "flatten",
    (nn.Identity, nn.Dropout, nn.AlphaDropout, nn.FeatureAlphaDropout): "keep",
}
# What the shape of a chain's value is made of.
_SHAPE, _BATCH, _WIDTH, _PLACE = object(), object(), object(), object()
_ATTRIBUTES = {"shape": _SHAPE, "device": _PLACE, "dtype": _PLACE}


def read_module(module: nn.Module, *, name: str) -> Chain:
    """Layers of a module in evaluation mode; in float64, ``coef`` is of the last."""
    root, graph = trace(module, name)
    nodes, result = list(graph.nodes)[:-1], first_output(graph)
    needed = needed_nodes(result) if isinstance(result, fx.Node) else set()
    values = {}
    with torch.no_grad(), np.errstate(all="ignore"):
        for position, node in enumerate(nodes):
            try:
                later = nodes[position + 1 :] if is_in_place(node, root) else []
                if later and not node.all_input_nodes[0].users.keys().isdisjoint(later):
                    raise UnsupportedError(
                        "it changes a value in place that is used again"
                    )
                if node in needed:
                    values[node] = _evaluate(node, values, root, name)
            except UnsupportedError as exc:
                reason = f" ({exc})" if exc.args else ""
                raise TypeError(
                    f"Node {name!r}: {describe(node, root)} cannot be part of a chain "
                    f"of Linear layers and elementwise activations{reason}. Supported "
                    "are Linear, BatchNorm1d, ReLU, Tanh, Sigmoid, Dropout, and a "
                    "Softmax, LogSoftmax or Sigmoid at the end. Where all nodes have "
                    "the same layers below the last, give front=Backbone(net)."
                ) from None
    chain = values.get(result) if needed else None
    if not isinstance(chain, Chain):
        raise TypeError(
            f"Node {name!r}: the output of {type(module).__name__} does not depend on "
            "its input through Linear layers; return logits or probabilities."
        )
    chain = chain.finish()
    if chain.coef.ndim < 2:
        last = f"ends with {chain.activation[-1]}" if chain.coefs else "has no Linear"
        raise TypeError(
            f"Node {name!r}: {type(module).__name__} {last}; its last layer must be "
            "a Linear layer, at most followed by Softmax, LogSoftmax or Sigmoid."
        )
    return chain


def _evaluate(node, values, root, name):
    """Value of a graph node: a Chain, a constant, or an opaque part of a shape."""
    if node.op == "placeholder":
        return Chain()
    if node.op == "get_attr":
        value = operator.attrgetter(node.target)(root)
        if isinstance(value, torch.Tensor):
            _numpy(value, name, node.target)
        return value
    args = fx.node.map_arg(node.args, values.__getitem__)
    kwargs = fx.node.map_arg(node.kwargs, values.__getitem__)
    inputs = (values[n] for n in node.all_input_nodes)
    chains = [value for value in inputs if isinstance(value, Chain)]
    if node.op == "call_module":
        if len(chains) != 1 or len(args) != 1 or kwargs:
            raise UnsupportedError
        layer = root.get_submodule(node.target)
        return _apply_module(layer, args[0], node.target, name)
    if not chains:
        return _evaluate_constant(node, args, kwargs)
    if len(chains) > 1:
        raise UnsupportedError("it joins two branches, as a residual connection does")
    if _OPERATIONS.get(node.target) not in _KEEPS_LINK:
        chains[0].check_open()
    if node.target is getattr and args[1] in _ATTRIBUTES:
        return _ATTRIBUTES[args[1]]
    return _apply(_OPERATIONS.get(node.target), args, kwargs, name)


# What a function makes of the outputs.
_LINKS = {name: name for name in ("softmax", "log_softmax")}
_LINKS["logsigmoid"] = "log_logistic"
_KEEPS_LINK = ("keep", "cast", "squeeze", "reshape", "flatten", "getitem", "size")


def _evaluate_constant(node, args, kwargs):
    if args and args[0] is _SHAPE and node.target is operator.getitem:
        return _dimension(args[1])
    try:
        if node.op == "call_method":
            return getattr(args[0], node.target)(*args[1:], **kwargs)
        return node.target(*args, **kwargs)
    except Exception as exc:  # as with a part of the shape among the arguments
        raise UnsupportedError from exc


def _dimension(index):
    if index not in (0, 1, -1):
        raise UnsupportedError
    return _WIDTH if index else _BATCH


def _apply_module(layer, chain, path, name):
    if not isinstance(layer, (nn.Identity, nn.Flatten)):
        chain.check_open()

    def own(key):
        return _numpy(getattr(layer, key), name, f"{path}.{key}")

    if isinstance(layer, nn.Linear):
        return chain.linear(own("weight").T, 0.0 if layer.bias is None else own("bias"))
    if isinstance(layer, nn.BatchNorm1d) and layer.running_mean is not None:
        mean, variance = own("running_mean"), own("running_var")
        chain = chain.move(-mean).scale(1 / np.sqrt(variance + layer.eps))
        return chain.scale(own("weight")).move(own("bias")) if layer.affine else chain
    kind = next((k for c, k in _MODULES.items() if isinstance(layer, c)), None)
    more = ("dim", "start_dim", "end_dim")  # of Softmax and Flatten
    kwargs = {key: getattr(layer, key) for key in more if hasattr(layer, key)}
    return _apply(kind, (chain,), kwargs, name)


def _apply(kind, args, kwargs, name):
    """A function or method of a chain; every other argument is a constant."""
    chain = args[0]
    if kind in _ARITHMETIC or kind == "matmul":
        return _arithmetic(kind, args, kwargs, name)
    if not isinstance(chain, Chain):
        raise UnsupportedError
    if kind in ("relu", "tanh", "logistic"):
        return chain.activate(kind)
    if kind in _LINKS:
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if dim not in (1, -1, None):
            raise UnsupportedError
        return replace(chain, link=_LINKS[kind])
    if kind == "negative":
        return chain.scale(-1.0)
    if kind == "linear":
        weight, bias = _bound(args, kwargs, "weight", "bias")
        weight = _numpy(weight, name, "a weight")
        bias = 0.0 if bias is None else _numpy(bias, name, "a bias")
        return chain.linear(weight.T, bias)
    if kind == "size":
        (dim,) = _bound(args, kwargs, "dim")
        return _SHAPE if dim is None else _dimension(dim)
    if _keeps_columns(kind, chain, args, kwargs):
        return chain
    raise UnsupportedError


def _arithmetic(kind, args, kwargs, name):
    if kwargs or len(args) != 2:
        raise UnsupportedError
    left, right = args
    chain, constant = (left, right) if isinstance(left, Chain) else (right, left)
    constant = _numpy(constant, name, "a constant")
    if kind == "add":
        return chain.move(constant)
    if kind == "multiply":
        return chain.scale(constant)
    if kind == "subtract":
        on_left = chain is left
        return chain.move(-constant) if on_left else chain.scale(-1.0).move(constant)
    if chain is not left:
        raise UnsupportedError
    divided = kind == "divide"
    return chain.scale(1 / constant) if divided else chain.linear(constant, 0.0)


def _keeps_columns(kind, chain, args, kwargs):
    """Whether it leaves (n_rows, width), or (n_rows,) of one column, as it is."""
    if kind == "keep":
        return True
    if kind == "cast":
        dtypes = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.dtype)]
        return all(dtype in (torch.float32, torch.float64) for dtype in dtypes)
    single = chain.width == 1
    if kind == "flatten":
        start, end = _bound(args, kwargs, "start_dim", "end_dim")
        return end in (None, -1, 1) and (start == 1 or single)
    if kind == "squeeze":
        (dim,) = _bound(args, kwargs, "dim")
        return chain.width is not None and dim in (None, 1, -1)
    if kind == "getitem":
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        whole = all(i in (Ellipsis, slice(None)) for i in index[:-1])
        return single and len(index) == 2 and whole and index[-1] in (0, -1)
    if kind == "reshape":
        shape = kwargs.get("shape", args[1:])
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            shape = shape[0]
        if len(shape) == 1:
            return single and (shape[0] is _BATCH or shape[0] == -1)
        if len(shape) != 2 or shape[0] not in (_BATCH, -1) or shape[1] is _BATCH:
            return False
        known = shape[1] in (_WIDTH, chain.width)
        flat = shape[0] is _BATCH and shape[1] == -1
        # Of the input the width is not known yet: rows are given flat.
        return known or flat or (chain.width is None and isinstance(shape[1], int))
    return False


def _bound(args, kwargs, *names):
    if len(args) - 1 > len(names) or set(kwargs) - set(names):
        raise UnsupportedError
    given = dict(zip(names, args[1:])) | kwargs  # noqa: B905
    return [given.get(name) for name in names]


def _numpy(value, name, what):
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().double().numpy()
    elif not isinstance(value, (int, float)):
        raise UnsupportedError
    what = str(what).removeprefix("module.")
    return as_weights(value, name=name, array_name=f"{what} of the module")


def read_skorch(net, *, name: str) -> Network:
    """Read an initialized net, whose logits enter a Softmax or Sigmoid at its end."""
    module = module_of(net)
    chain = read_module(module, name=name)
    double = any(p.dtype == torch.float64 for p in module.parameters())
    dtype = np.float64 if double else np.float32
    coef, intercept, n_outputs = chain.coef, chain.shift, chain.coef.shape[1]
    if isinstance(net, NeuralNetBinaryClassifier):
        if n_outputs != 1:
            needed = "the module of a NeuralNetBinaryClassifier must have one output"
            raise ValueError(f"Node {name!r}: {needed}, it has {n_outputs}.")
        coef, intercept = expand_binary(coef, intercept, n_classes=2)
        classes, seen = np.arange(2), np.ones(2, dtype=bool)
    elif n_outputs == 1:
        raise ValueError(
            f"Node {name!r}: the module of {type(net).__name__} has one output, but "
            "needs one per class. Use NeuralNetBinaryClassifier, or two outputs."
        )
    else:
        classes, seen = labels_of(net, n_outputs=n_outputs, name=name)
    coefs = _as_layers((*chain.coefs, coef), dtype, name, "weights")
    intercepts = _as_layers((*chain.intercepts, intercept), dtype, name, "biases")
    # Under CrossEntropyLoss skorch applies a second softmax in predict_proba, which
    # changes no label and makes all classes nearly alike: the module's own counts.
    link = chain.link.removeprefix("log_") if chain.link else _link(net)
    return network_of(
        net,
        coefs=coefs,
        intercepts=intercepts,
        output=link,
        classes=classes,
        seen=seen,
        activation=chain.activation,
    )


def _as_layers(layers, dtype, name, what):
    return tuple(
        as_weights(
            values.astype(dtype), name=name, array_name=f"the {what} of layer {i}"
        )
        for i, values in enumerate(layers)
    )


def _link(net):
    if getattr(net, "predict_nonlinearity", "auto") != "auto":
        return "identity"
    criterion = getattr(net.criterion_, "_orig_mod", net.criterion_)
    if isinstance(criterion, torch.nn.CrossEntropyLoss):
        return "softmax"
    binary = isinstance(criterion, torch.nn.BCEWithLogitsLoss)
    return "logistic" if binary else "identity"
