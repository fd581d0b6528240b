# SPDX-License-Identifier: BSD-3-Clause
"""Go on training skorch nets of any torch module; needs torch."""

from __future__ import annotations

from contextlib import contextmanager
from copy import deepcopy
from threading import RLock

import numpy as np
import torch
from skorch import NeuralNetBinaryClassifier
from skorch.callbacks import Callback
from torch import nn

from ..networks._kinds import final_step
from ..networks._trace import trace

layout = "module"

# torch has one generator a process: threads take turns, so that results repeat.
_generator = RLock()


class SetRates(Callback):
    """Give the optimizer one learning rate an epoch.

    Parameters
    ----------
    rates : sequence of float
    """

    def __init__(self, rates):
        self.rates = rates

    def on_train_begin(self, net, **kwargs):
        """Start with the first rate."""
        self.remaining_ = iter(self.rates)

    def on_epoch_begin(self, net, **kwargs):
        """Set the rate of all parameters."""
        rate = float(next(self.remaining_))
        for group in net.optimizer_.param_groups:
            group["lr"] = rate


@contextmanager
def seeded(rng, net):
    """Give torch a seed, and its generators back as they were."""
    on_gpu = str(net.device).startswith("cuda")
    devices = range(torch.cuda.device_count()) if on_gpu else []
    with _generator, torch.random.fork_rng(devices=devices):
        torch.manual_seed(rng.randint(2**31 - 1))
        yield


def float_dtype(net) -> np.dtype:
    """Numpy dtype of a net's weights, in which it takes its rows."""
    double = any(p.dtype == torch.float64 for p in net.module_.parameters())
    return np.dtype(np.float64 if double else np.float32)


def as_input(net, X, y=None):
    """Rows and targets in the dtypes that the module and its loss take."""
    X = X.toarray() if hasattr(X, "toarray") else X
    X = np.ascontiguousarray(X, dtype=float_dtype(net))
    if y is None:
        return X
    binary = isinstance(net, NeuralNetBinaryClassifier)
    return X, np.asarray(y).astype(float_dtype(net) if binary else np.int64)


def copy(net):
    """A copy on the same device, with a fresh optimizer and no history."""
    fresh = object.__new__(type(net))
    # Around skorch's own pickling, which cannot copy modules of local classes.
    kept = {k: v for k, v in vars(net).items() if k not in ("optimizer_", "history_")}
    vars(fresh).update(deepcopy(kept), history_=None)
    fresh.initialize_optimizer()
    fresh.initialize_history()
    return fresh


def read(net) -> list[np.ndarray]:
    """Parameters and buffers of the module."""
    return [
        tensor.detach().cpu().numpy().copy()
        for tensor in net.module_.state_dict().values()
    ]


def write(net, parameters) -> None:
    """Load parameters and buffers into the module."""
    state = net.module_.state_dict()
    with torch.no_grad():
        for tensor, array in zip(state.values(), parameters, strict=True):
            tensor.copy_(torch.as_tensor(np.asarray(array)))


def train(net, X, y, epochs, rates, rng) -> None:
    """Train by the net's own loop."""
    X, y = as_input(net, X, y)
    own_epochs, own_callbacks = net.max_epochs, net.callbacks_
    if rates is not None:
        net.callbacks_ = [*own_callbacks, ("learning rates", SetRates(rates))]
    net.max_epochs = epochs
    try:
        with seeded(rng, net):
            net.partial_fit(X, y)
    finally:
        net.max_epochs, net.callbacks_ = own_epochs, own_callbacks


def fit(estimator, X, y, classes, rng):
    """Fit a net, or a pipeline that ends with one, on labels of any kind."""
    net = final_step(estimator)
    with seeded(rng, net):
        # Twice, since a net is fitted from new weights: the first tell of its outputs.
        _initialise(net, X)
        columns = _columns_of(net, classes)[np.searchsorted(classes, y)]
        return estimator.fit(*as_input(net, X, columns))


def start(net, X, y, classes, rng):
    """Initialise the module with random weights."""
    with seeded(rng, net):
        _initialise(net, X)
    columns = _columns_of(net, classes)
    if not isinstance(net, NeuralNetBinaryClassifier):
        net.classes_inferred_ = np.sort(columns)  # as its fit would
    return net


def _initialise(net, X):
    net.initialize()
    if any(map(nn.parameter.is_lazy, net.module_.parameters())):
        net.forward(as_input(net, X[:1]))  # lazy layers learn their shapes


def _columns_of(net, classes):
    """Output of each label; names the outputs where labels are no numbers of them."""
    labels = np.asarray(classes).tolist()
    if isinstance(net, NeuralNetBinaryClassifier):
        if not {0, 1}.issuperset(labels):
            raise ValueError(
                f"NeuralNetBinaryClassifier knows the labels 0 and 1 only, got {labels}"
                ". Encode the labels, or use NeuralNetClassifier with two outputs."
            )
        return np.array(labels, dtype=np.int64)
    n, names = n_outputs(net), getattr(net, "classes", None)
    if names is None or not len(names):
        if set(range(n)).issuperset(labels):
            return np.array(labels, dtype=np.int64)
        if len(labels) != n:
            raise ValueError(
                f"The module of {type(net).__name__} has {n} outputs, which cannot "
                f"stand for the {len(labels)} labels {labels}. Give it one output per "
                "label, or say what its outputs stand for: classes=[...]."
            )
        names = net.classes = labels
    column = {label: c for c, label in enumerate(np.asarray(names).tolist())}
    missing = [label for label in labels if label not in column]
    if missing:
        raise ValueError(
            f"The classes of {type(net).__name__}, {list(column)}, do not hold the "
            f"labels {missing}."
        )
    return np.array([column[label] for label in labels])


def widen(net, classes):
    """A net's outputs are its module's: as it is."""
    return net


def class_axes(net) -> dict[int, int]:
    """The weights and biases of the module that have one row an output."""
    ends = {id(parameter) for parameter in output_parameters(net)}
    state = net.module_.state_dict(keep_vars=True).values()
    return {i: 0 for i, tensor in enumerate(state) if id(tensor) in ends}


def n_outputs(net) -> int:
    """Number of outputs of the module."""
    last = output_parameters(net)
    return last[0].shape[0] if last else 1


def output_parameters(net) -> list[nn.Parameter]:
    """Weights and biases of the layer that the outputs come from, a row for each.

    Where the module's forward cannot be traced: of the module's last parameters.
    """
    module = getattr(net.module_, "_orig_mod", net.module_)  # of torch.compile
    found = list(_output_layer(module).parameters())
    if not found:
        found = [p for p in module.parameters() if p.ndim][:-3:-1]
    return [p for p in found if p.shape[0] == found[0].shape[0]]


def _output_layer(module):
    """The layer with weights that every output has come through, if it can be told."""
    unknown = nn.Identity()
    try:
        root, graph = trace(module, "estimator")
    except TypeError:
        return unknown
    value = list(graph.nodes)[-1].args[0]
    while True:
        if isinstance(value, (tuple, list)):  # skorch takes the first output
            value = value[0] if value else None
        if getattr(value, "op", None) not in _STEPS:
            return unknown
        if value.op == "call_module":
            layer = root.get_submodule(value.target)
            if next(layer.parameters(), None) is not None:
                return layer if isinstance(layer, _LAYERS) else unknown
        inputs = value.all_input_nodes
        value = inputs[0] if len(inputs) == 1 else None


_STEPS = ("call_module", "call_method", "call_function")
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Bilinear)
