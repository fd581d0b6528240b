"""Trace a torch module without changing it, and describe its operations."""

import threading
from collections.abc import Callable
from operator import iadd, imatmul, imul, isub, itruediv

import torch
from torch import fx, nn
from torch.nn import functional

from ._runs import evaluated

_IN_PLACE = (iadd, isub, imul, itruediv, imatmul)


class _Root(nn.Module):
    """Calls the module as a user does, and stores constants that the tracer stores."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> object:
        return self.module(x)


class _Rows(fx.Proxy):
    """A traced value that knows it is a matrix: "if x.dim() > 2" is decided."""

    ndim = 2

    def dim(self) -> int:
        return 2


def _traced_in_place(
    function: Callable[[object, object], object],
) -> Callable[[fx.Proxy, object], fx.Proxy]:
    # fx itself takes "x += 1" for "x = x + 1", though others may hold x.
    def method(self: fx.Proxy, other: object) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", function, (self, other), {})

    return method


for _function in _IN_PLACE:
    setattr(_Rows, f"__{_function.__name__}__", _traced_in_place(_function))


class _Tracer(fx.Tracer):
    """Traces what its own thread calls; modules that others run meanwhile just run."""

    def __init__(self) -> None:
        super().__init__(param_shapes_constant=True)
        self.thread = threading.get_ident()

    def call_module(
        self, m: nn.Module, forward: Callable, args: tuple, kwargs: dict
    ) -> object:
        if threading.get_ident() != self.thread:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(
        self, attr: str, attr_val: object, parameter_proxy_cache: dict
    ) -> object:
        if threading.get_ident() != self.thread:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def proxy(self, node: fx.Node) -> _Rows:
        return _Rows(node, self)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        # A parametrized Linear (weight_norm) has a class of its own.
        return super().is_leaf_module(m, module_qualified_name) or (
            isinstance(m, nn.Linear) and type(m).forward is nn.Linear.forward
        )


def trace(module: nn.Module, name: str) -> tuple[nn.Module, fx.Graph]:
    """Graph of a module in evaluation mode, and the root that its paths start at."""
    root = _Root(module)
    root.training = False
    try:
        # fx patches nn.Module for the whole process: two that traced at once would put
        # back each other's patches, but `evaluated` lets threads take turns.
        with evaluated(module):
            graph = _Tracer().trace(root)
    except Exception as exc:
        raise TypeError(
            f"Node {name!r}: forward of {type(module).__name__} cannot be traced by "
            f"torch.fx ({type(exc).__name__}: {exc}). It must not depend on the values "
            "of its input."
        ) from exc
    return root, graph


def first_output(graph: fx.Graph) -> object:
    """Return the output of the module; the first of several, as skorch takes it."""
    output = list(graph.nodes)[-1].args[0]
    if isinstance(output, (tuple, list)):
        return output[0] if output else None
    return output


def is_in_place(node: fx.Node, root: nn.Module) -> bool:
    if not node.all_input_nodes:
        return False
    if node.op == "call_module":
        return getattr(root.get_submodule(node.target), "inplace", False)
    target = node.target
    called = target if isinstance(target, str) else target.__name__
    return (
        node.kwargs.get("inplace", False)
        or (target is functional.relu and node.args[1:] == (True,))
        or (called.endswith("_") and not called.endswith("__"))
        or target in _IN_PLACE
    )


def needed_nodes(output: fx.Node) -> set[fx.Node]:
    """Return the node, and all from which its value is computed."""
    needed = set()
    waiting = [output]
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting += node.all_input_nodes
    return needed


def describe(node: fx.Node, root: nn.Module) -> str:
    """An operation, and the module that does it, as a user finds it in their code."""
    # "@1" marks the second call of the same module.
    path = _module_path(node).partition("@")[0]
    operation = _operation_name(node, kind=type(root.get_submodule(path)).__name__)
    path = path.removeprefix("module").removeprefix(".")
    return f"{operation} (module {path!r})" if path else operation


def _module_path(node: fx.Node) -> str:
    if node.op == "call_module":
        return node.target
    return list(node.meta["nn_module_stack"])[-1]


def _operation_name(node: fx.Node, *, kind: str) -> str:
    if node.op == "call_module":
        return kind
    if node.op == "call_method":
        return f"method {node.target!r} in {kind}.forward"
    if node.target is getattr:
        return f"attribute {node.args[1]!r} in {kind}.forward"
    function_name = getattr(node.target, "__name__", node.target)
    return f"operation {function_name!r} in {kind}.forward"
