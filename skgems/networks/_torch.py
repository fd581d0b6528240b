"""Read a torch module, or a skorch classifier around it, as a chain of layers."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from skorch import NeuralNetBinaryClassifier
from torch import fx, nn
from torch.nn import functional

from ._nets import labels_of, module_of
from ._network import N_ROWS, TOLERANCE, Layers, Network, as_weights, expand_binary
from ._probabilities import criterion_of, line_of_nonlinearity
from ._runs import (
    difference,
    evaluated,
    hook_of,
    layer_tensor,
    normal_rows,
    run,
)
from ._sklearn import network_of
from ._trace import describe, first_output, is_in_place, needed_nodes, trace


class UnsupportedError(Exception):
    """An operation that no chain of Linear layers and activations has."""


@dataclass(frozen=True, eq=False, kw_only=True)
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
    def width(self) -> int | None:
        """Columns of the value; None until the first layer says it."""
        for array in (self.coef, self.shift, *self.coefs[-1:]):
            if array.ndim:
                return array.shape[-1]
        return None

    def linear(self, weight: np.ndarray, bias: np.ndarray | float) -> "Chain":
        if weight.ndim != 2:
            raise UnsupportedError
        shift = np.broadcast_to(self.shift, weight.shape[:1])
        coef = self.coef @ weight if self.coef.ndim == 2 else (weight.T * self.coef).T
        return replace(self, coef=coef, shift=shift @ weight + bias)

    def scale(self, factor: np.ndarray | float) -> "Chain":
        factor = self._per_unit(factor)
        return replace(self, coef=self.coef * factor, shift=self.shift * factor)

    def move(self, offset: np.ndarray | float) -> "Chain":
        return replace(self, shift=self.shift + self._per_unit(offset))

    def activate(self, name: str) -> "Chain":
        if self.width is None:
            raise UnsupportedError
        coef = self.coef
        if coef.ndim < 2:
            coef = np.diag(np.broadcast_to(coef, (self.width,)))
        shift = np.broadcast_to(self.shift, (self.width,))
        return Chain(
            coefs=(*self.coefs, coef),
            intercepts=(*self.intercepts, shift),
            activation=(*self.activation, name),
        )

    def finish(self) -> "Chain":
        """Take a sigmoid at the very end for the link."""
        is_identity = self.coef.ndim == self.shift.ndim == 0 and self.coef == 1
        ends_with_sigmoid = is_identity and self.activation[-1:] == ("logistic",)
        if self.link or not ends_with_sigmoid:
            return self
        return Chain(
            coefs=self.coefs[:-1],
            intercepts=self.intercepts[:-1],
            activation=self.activation[:-1],
            coef=self.coefs[-1],
            shift=self.intercepts[-1],
            link="logistic",
        )

    def check_open(self) -> None:
        """Raise where the outputs have gone through a softmax or the like already."""
        if self.link:
            raise UnsupportedError(
                f"it comes after the {self.link.removeprefix('log_')} of the outputs"
            )

    def _per_unit(self, array: np.ndarray | float) -> np.ndarray:
        """Return a number, or one per unit; anything else is no part of a chain."""
        array = np.asarray(array)
        if array.size == 1:
            return array.reshape(())
        if array.ndim == 2 and array.shape[0] == 1:
            array = array[0]
        if array.ndim != 1 or self.width not in (None, array.size):
            raise UnsupportedError
        return array


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
# By the name of a method, and by the function itself.
_OPERATIONS = {
    operation: kind
    for kind, names in _NAMES.items()
    for name in names.split()
    for namespace in (torch, functional, torch.special, operator)
    for operation in (name, getattr(namespace, name, name))
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
# They stand for what tracing does not know: the shape of a chain's value, the number of
# its rows and of its columns, and its device or dtype.
_SHAPE = object()
_BATCH = object()
_WIDTH = object()
_PLACE = object()
_ATTRIBUTES = {"shape": _SHAPE, "device": _PLACE, "dtype": _PLACE}


# What a node of the graph gives: a Chain, a constant, or one of the marks above.
_Value = object


def read_module(module: nn.Module, *, name: str) -> Chain:
    """Layers of a module in evaluation mode; in float64, ``coef`` is of the last."""
    root, graph = trace(module, name)
    output = first_output(graph)
    if not isinstance(output, fx.Node):
        raise _no_chain_error(module, name)
    # In evaluation mode: a weight of spectral_norm changes when it is looked at while
    # training.
    with evaluated(module):
        chain = _evaluate_graph(graph, output=output, root=root, name=name)
    if not isinstance(chain, Chain):
        raise _no_chain_error(module, name)
    chain = chain.finish()
    if chain.coef.ndim == 2:
        _check_by_running(chain, module, name=name)
        return chain
    if not chain.coefs:
        raise TypeError(
            f"Node {name!r}: {type(module).__name__} has no Linear layer. Its last "
            "layer must be a Linear layer, at most followed by Softmax, LogSoftmax or "
            "Sigmoid."
        )
    raise TypeError(
        f"Node {name!r}: {type(module).__name__} ends with {chain.activation[-1]}. Its "
        "last layer must be a Linear layer, at most followed by Softmax, LogSoftmax or "
        "Sigmoid."
    )


# What ends a module, as tensors have it.
_ENDS = {
    None: lambda logits: logits,
    "softmax": lambda logits: logits.softmax(-1),
    "log_softmax": lambda logits: logits.log_softmax(-1),
    "logistic": torch.sigmoid,
    "log_logistic": functional.logsigmoid,
}


def _check_by_running(chain: Chain, module: nn.Module, *, name: str) -> None:
    """Raise TypeError where the module gives other outputs than what was read of it."""
    first_coef = chain.coefs[0] if chain.coefs else chain.coef
    rows = normal_rows(N_ROWS, (len(first_coef),))
    layers = Layers(
        (*chain.coefs, chain.coef),
        (*chain.intercepts, np.broadcast_to(chain.shift, chain.coef.shape[1:])),
        chain.activation,
    )
    logits = torch.as_tensor(layers.logits(rows.numpy()))
    expected = _ENDS[chain.link](logits)
    kind = type(module).__name__
    try:
        output = run(module, (rows,))
    except Exception as exc:
        raise TypeError(
            f"Node {name!r}: {kind} was read as a chain of layers, but cannot be run "
            f"on rows of {len(first_coef)} features ({type(exc).__name__}: "
            f"{exc!s:.200}). EnsembleAggregator and ModelAveragingAggregator run a "
            "module as it is."
        ) from None
    deviation = difference(output, expected)
    if deviation <= TOLERANCE:
        return
    raise TypeError(
        f"Node {name!r}: {kind} was read as a chain of layers, but run on rows it "
        f"gives outputs that differ from these layers by {deviation:.2g} of their "
        "size: "
        f"{_cause_of_difference(module, rows, expected=expected)}. Remove it; or give "
        "the net to EnsembleAggregator or ModelAveragingAggregator, which run a module "
        "as it is."
    )


def _cause_of_difference(
    module: nn.Module, rows: torch.Tensor, *, expected: torch.Tensor
) -> str:
    """Say in words what a module does that its layers do not show."""
    hook = hook_of(module)
    if hook is not None:
        return hook
    output = run(module, (rows,))
    of_rows_twice = run(module, (torch.cat([rows, rows]),))
    if difference(of_rows_twice[len(rows) :], output) > TOLERANCE:
        return "its outputs are random, as those of a dropout that is always on"
    if difference(run(module, (rows,), dtype=torch.float64), expected) <= TOLERANCE:
        return "its forward computes in a dtype of fewer digits"
    return "its forward has a branch, or another step that a trace does not show"


def _no_chain_error(module: nn.Module, name: str) -> TypeError:
    return TypeError(
        f"Node {name!r}: the output of {type(module).__name__} does not depend on its "
        "input through Linear layers. Return logits or probabilities from its forward."
    )


def _evaluate_graph(
    graph: fx.Graph, *, output: fx.Node, root: nn.Module, name: str
) -> _Value:
    """Return the value of `output`; TypeError for an operation that no chain has.

    Operations that the output does not need are checked too: they may change in place
    what it needs.
    """
    needed = needed_nodes(output)
    operations = list(graph.nodes)[:-1]  # the last one is the return of all outputs
    node_values: dict[fx.Node, _Value] = {}
    with torch.no_grad(), np.errstate(all="ignore"):
        for position, node in enumerate(operations):
            try:
                if is_in_place(node, root):
                    _check_not_used_later(node, operations[position + 1 :])
                if node in needed:
                    node_values[node] = _evaluate(
                        node, node_values, root=root, name=name
                    )
            except UnsupportedError as exc:
                reason = f" ({exc})" if exc.args else ""
                raise _unsupported_error(node, reason, root=root, name=name) from None
    return node_values[output]


def _check_not_used_later(node: fx.Node, later: list[fx.Node]) -> None:
    changed = node.all_input_nodes[0]
    if not changed.users.keys().isdisjoint(later):
        raise UnsupportedError("it changes a value in place that is used again later")


def _unsupported_error(
    node: fx.Node, reason: str, *, root: nn.Module, name: str
) -> TypeError:
    return TypeError(
        f"Node {name!r}: {describe(node, root)} cannot be part of a chain of Linear "
        f"layers and elementwise activations{reason}. Supported are Linear, "
        "BatchNorm1d, ReLU, Tanh, Sigmoid, Dropout, and a Softmax, LogSoftmax or "
        "Sigmoid at the end. Where all nodes have the same layers below the last, give "
        "front=Backbone(net). ModelAveragingAggregator averages nets of any module, in "
        "one process or of summaries."
    )


def _evaluate(
    node: fx.Node, node_values: dict[fx.Node, _Value], *, root: nn.Module, name: str
) -> _Value:
    """Return the value of a graph node, from those of the nodes that enter it."""
    if node.op == "placeholder":
        return Chain()
    if node.op == "get_attr":
        constant = operator.attrgetter(node.target)(root)
        if isinstance(constant, torch.Tensor):
            _numpy(constant, name=name, array_name=node.target)  # it must be finite
        return constant
    return _evaluate_call(node, node_values, root=root, name=name)


def _evaluate_call(
    node: fx.Node, node_values: dict[fx.Node, _Value], *, root: nn.Module, name: str
) -> _Value:
    args = fx.node.map_arg(node.args, node_values.__getitem__)
    kwargs = fx.node.map_arg(node.kwargs, node_values.__getitem__)
    inputs = [node_values[input_node] for input_node in node.all_input_nodes]
    chains = [value for value in inputs if isinstance(value, Chain)]
    if node.op == "call_module":
        if len(chains) != 1 or len(args) != 1 or kwargs:
            raise UnsupportedError
        layer = root.get_submodule(node.target)
        return _apply_module(layer, args[0], path=node.target, name=name)
    if not chains:
        return _evaluate_constant(node, args, kwargs=kwargs)
    if len(chains) > 1:
        raise UnsupportedError("it joins two branches, as a residual connection does")
    return _evaluate_function(node, args, kwargs=kwargs, chain=chains[0], name=name)


def _evaluate_function(
    node: fx.Node, args: Sequence, *, kwargs: Mapping, chain: Chain, name: str
) -> _Value:
    kind = _OPERATIONS.get(node.target)
    if kind not in _KEEPS_LINK:
        chain.check_open()
    if node.target is getattr and args[1] in _ATTRIBUTES:
        return _ATTRIBUTES[args[1]]
    return _apply(kind, args, kwargs=kwargs, name=name)


# What a function makes of the outputs.
_LINKS = {
    "softmax": "softmax",
    "log_softmax": "log_softmax",
    "logsigmoid": "log_logistic",
}
# Operations that may come after it.
_KEEPS_LINK = ("keep", "cast", "squeeze", "reshape", "flatten", "getitem", "size")


def _evaluate_constant(node: fx.Node, args: Sequence, *, kwargs: Mapping) -> _Value:
    if args and args[0] is _SHAPE and node.target is operator.getitem:
        return _dimension(args[1])
    try:
        if node.op == "call_method":
            return getattr(args[0], node.target)(*args[1:], **kwargs)
        return node.target(*args, **kwargs)
    except Exception as exc:  # as with a part of the shape among the arguments
        raise UnsupportedError from exc


def _dimension(index: object) -> object:
    """Return the mark of an entry of a shape (n_rows, width)."""
    if index not in (0, 1, -1):
        raise UnsupportedError
    return _WIDTH if index else _BATCH


def _apply_module(layer: nn.Module, chain: Chain, *, path: str, name: str) -> Chain:
    if not isinstance(layer, (nn.Identity, nn.Flatten)):
        chain.check_open()

    def parameter(attribute: str) -> np.ndarray:
        array = layer_tensor(layer, attribute)
        return _numpy(array, name=name, array_name=f"{path}.{attribute}")

    if isinstance(layer, nn.Linear):
        weight = parameter("weight").T
        return chain.linear(weight, 0.0 if layer.bias is None else parameter("bias"))
    if isinstance(layer, nn.BatchNorm1d) and layer.running_mean is not None:
        mean = parameter("running_mean")
        variance = parameter("running_var")
        chain = chain.move(-mean).scale(1 / np.sqrt(variance + layer.eps))
        if not layer.affine:
            return chain
        return chain.scale(parameter("weight")).move(parameter("bias"))
    return _apply(_module_kind(layer), (chain,), kwargs=_dims_of(layer), name=name)


def _module_kind(layer: nn.Module) -> str | None:
    for classes, kind in _MODULES.items():
        if isinstance(layer, classes):
            return kind
    return None


def _dims_of(layer: nn.Module) -> dict:
    """Return arguments of Softmax and Flatten, as their functions take them."""
    names = ("dim", "start_dim", "end_dim")
    return {name: getattr(layer, name) for name in names if hasattr(layer, name)}


def _apply(kind: str | None, args: Sequence, *, kwargs: Mapping, name: str) -> _Value:
    """Return a function or method of a chain; every other argument is a constant."""
    if kind in _ARITHMETIC or kind == "matmul":
        return _arithmetic(kind, args, kwargs=kwargs, name=name)
    # An input that is given by its name alone is in no place.
    if not args or not isinstance(args[0], Chain):
        raise UnsupportedError
    return _apply_to_chain(kind, args[0], args, kwargs=kwargs, name=name)


def _apply_to_chain(
    kind: str | None, chain: Chain, args: Sequence, *, kwargs: Mapping, name: str
) -> _Value:
    if kind in ("relu", "tanh", "logistic"):
        return chain.activate(kind)
    if kind in _LINKS:
        return _linked(chain, _LINKS[kind], args=args, kwargs=kwargs)
    if kind == "negative":
        return chain.scale(-1.0)
    if kind == "linear":
        return _linear(chain, args, kwargs=kwargs, name=name)
    if kind == "size":
        (dim,) = _bound(args, kwargs, "dim")
        return _SHAPE if dim is None else _dimension(dim)
    keeps_columns = _KEEPS_COLUMNS.get(kind)
    if keeps_columns is not None and keeps_columns(chain, args, kwargs):
        return chain
    raise UnsupportedError


def _linked(chain: Chain, link: str, *, args: Sequence, kwargs: Mapping) -> Chain:
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if dim not in (1, -1, None):
        raise UnsupportedError
    return replace(chain, link=link)


def _linear(chain: Chain, args: Sequence, *, kwargs: Mapping, name: str) -> Chain:
    weight, bias = _bound(args, kwargs, "weight", "bias")
    weight = _numpy(weight, name=name, array_name="a weight").T
    if bias is None:
        return chain.linear(weight, 0.0)
    return chain.linear(weight, _numpy(bias, name=name, array_name="a bias"))


def _arithmetic(kind: str, args: Sequence, *, kwargs: Mapping, name: str) -> Chain:
    """Return a chain and a constant, added, multiplied and the like."""
    if kwargs or len(args) != 2:
        raise UnsupportedError
    chain_is_first = isinstance(args[0], Chain)
    chain, constant = args if chain_is_first else reversed(args)
    constant = _numpy(constant, name=name, array_name="a constant")
    if kind == "add":
        return chain.move(constant)
    if kind == "multiply":
        return chain.scale(constant)
    if kind == "subtract":
        if chain_is_first:
            return chain.move(-constant)
        return chain.scale(-1.0).move(constant)
    if not chain_is_first:
        raise UnsupportedError
    if kind == "divide":
        return chain.scale(1 / constant)
    return chain.linear(constant, 0.0)


# Whether an operation leaves (n_rows, width), or (n_rows,) of one column, as it is.


def _always_keeps(chain: Chain, args: Sequence, kwargs: Mapping) -> bool:
    return True


def _cast_keeps(chain: Chain, args: Sequence, kwargs: Mapping) -> bool:
    dtypes = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.dtype)]
    return all(dtype in (torch.float32, torch.float64) for dtype in dtypes)


def _flatten_keeps(chain: Chain, args: Sequence, kwargs: Mapping) -> bool:
    start, end = _bound(args, kwargs, "start_dim", "end_dim")
    return end in (None, -1, 1) and (start == 1 or chain.width == 1)


def _squeeze_keeps(chain: Chain, args: Sequence, kwargs: Mapping) -> bool:
    (dim,) = _bound(args, kwargs, "dim")
    return chain.width is not None and dim in (None, 1, -1)


def _getitem_keeps(chain: Chain, args: Sequence, kwargs: Mapping) -> bool:
    """Report whether it is ``x[:, 0]`` of a single column."""
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    takes_all_rows = all(i in (Ellipsis, slice(None)) for i in index[:-1])
    is_column = len(index) == 2 and takes_all_rows and index[-1] in (0, -1)
    return chain.width == 1 and is_column


def _reshape_keeps(chain: Chain, args: Sequence, kwargs: Mapping) -> bool:
    shape = kwargs.get("shape", args[1:])
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = shape[0]
    if len(shape) == 1:
        return chain.width == 1 and (shape[0] is _BATCH or shape[0] == -1)
    return len(shape) == 2 and _is_shape_of(chain, n_rows=shape[0], width=shape[1])


def _is_shape_of(chain: Chain, *, n_rows: object, width: object) -> bool:
    if n_rows not in (_BATCH, -1) or width is _BATCH:
        return False
    if width in (_WIDTH, chain.width):
        return True
    if n_rows is _BATCH and width == -1:
        return True
    # The width of the input is not known yet: rows are given flat.
    return chain.width is None and isinstance(width, int)


_KEEPS_COLUMNS: dict[str, Callable[[Chain, Sequence, Mapping], bool]] = {
    "keep": _always_keeps,
    "cast": _cast_keeps,
    "flatten": _flatten_keeps,
    "squeeze": _squeeze_keeps,
    "getitem": _getitem_keeps,
    "reshape": _reshape_keeps,
}


def _bound(args: Sequence, kwargs: Mapping, *names: str) -> list:
    """Values of the arguments after the chain, by their names; None if not there."""
    if len(args) - 1 > len(names) or set(kwargs) - set(names):
        raise UnsupportedError
    arguments = dict(zip(names, args[1:])) | kwargs  # noqa: B905
    return [arguments.get(name) for name in names]


def _numpy(constant: object, *, name: str, array_name: str) -> np.ndarray:
    """Return a constant in float64; ValueError if it is not finite."""
    if isinstance(constant, torch.Tensor):
        constant = constant.detach().cpu().double().numpy()
    elif not isinstance(constant, (int, float)):
        raise UnsupportedError
    # The module is called as "module" by the root of the trace.
    path = array_name.removeprefix("module.")
    return as_weights(constant, name=name, array_name=f"{path} of the module")


def read_skorch(net: object, *, name: str) -> Network:
    """Read an initialized net, whose logits enter a Softmax or Sigmoid at its end."""
    module = module_of(net)
    chain = read_module(module, name=name)
    double = any(p.dtype == torch.float64 for p in module.parameters())
    dtype = np.float64 if double else np.float32
    coef, intercept, link = _last_layer_and_link(net, chain)
    n_outputs = coef.shape[1]
    if isinstance(net, NeuralNetBinaryClassifier):
        if n_outputs != 1:
            raise ValueError(
                f"Node {name!r}: the module of a NeuralNetBinaryClassifier must have "
                f"one output, it has {n_outputs}. Use NeuralNetClassifier."
            )
        coef, intercept = expand_binary(coef, intercept, n_classes=2)
        classes = np.arange(2)
        seen = np.ones(2, dtype=bool)
    elif n_outputs == 1:
        raise ValueError(
            f"Node {name!r}: the module of {type(net).__name__} has one output, but "
            "needs one per class. Use NeuralNetBinaryClassifier, or two outputs."
        )
    else:
        classes, seen = labels_of(net, n_outputs=n_outputs, name=name)
    return network_of(
        net,
        coefs=[
            as_weights(
                weights.astype(dtype), name=name, array_name=f"the weights of layer {i}"
            )
            for i, weights in enumerate((*chain.coefs, coef))
        ],
        intercepts=[
            as_weights(
                biases.astype(dtype), name=name, array_name=f"the biases of layer {i}"
            )
            for i, biases in enumerate((*chain.intercepts, intercept))
        ],
        output=link,
        classes=classes,
        seen=seen,
        activation=chain.activation,
    )


def _last_layer_and_link(
    net: object, chain: Chain
) -> tuple[np.ndarray, np.ndarray, str]:
    """Return weights and biases of the last layer, and what outputs go through.

    A temperature that the user has set is in the weights.
    """
    coef = chain.coef
    intercept = np.broadcast_to(chain.shift, coef.shape[1:])
    if chain.link:
        # Under CrossEntropyLoss skorch applies a second softmax in predict_proba, which
        # changes no label and makes all classes nearly alike: the module's own counts.
        return coef, intercept, chain.link.removeprefix("log_")
    line = line_of_nonlinearity(net, coef.shape[1])
    if line is None:
        return coef, intercept, _link(net)
    factor, offset = line
    link = "logistic" if coef.shape[1] == 1 else "softmax"
    return factor * coef, factor * intercept + offset, link


def _link(net: object) -> str:
    """Name the function of logits in predict_proba of skorch, see `Network.output`."""
    if getattr(net, "predict_nonlinearity", "auto") != "auto":
        return "identity"
    criterion = criterion_of(net)
    if isinstance(criterion, torch.nn.CrossEntropyLoss):
        return "softmax"
    binary = isinstance(criterion, torch.nn.BCEWithLogitsLoss)
    return "logistic" if binary else "identity"
