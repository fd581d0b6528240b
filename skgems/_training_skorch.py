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


def get(net) -> list[np.ndarray]:
    """Parameters and buffers of the module."""
    return [
        tensor.detach().cpu().numpy().copy()
        for tensor in net.module_.state_dict().values()
    ]


def set(net, parameters) -> None:  # noqa: A001
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


def start(net, X, y, classes, rng):
    """Initialise the module with random weights."""
    with seeded(rng, net):
        return net.initialize()


def widen(net, classes):
    """A net's outputs are its module's: as it is."""
    return net


def class_axes(net) -> dict[int, int]:
    """The last weights and biases of the module that have one row an output."""
    order = list(net.module_.state_dict())
    outputs = n_outputs(net)
    last = list(net.module_.named_parameters())[-2:]
    return {
        order.index(name): 0
        for name, value in last
        if value.ndim and value.shape[0] == outputs
    }


def n_outputs(net) -> int:
    """Number of outputs, which are the rows of the module's last parameter."""
    shapes = [tuple(p.shape) for p in net.module_.parameters()]
    return shapes[-1][0] if shapes and shapes[-1] else 1
