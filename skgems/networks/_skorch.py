# SPDX-License-Identifier: BSD-3-Clause
"""Read skorch classifiers: the module's layers and what its outputs stand for."""

import numpy as np
import torch
from skorch import NeuralNetBinaryClassifier

from ._layers import expand_binary
from ._network import Network, as_weights
from ._outputs import labels_of
from ._sklearn import network_of
from ._torch import read_module


def read_skorch(net, *, name: str) -> Network:
    """Read an initialized net, whose logits enter a Softmax or Sigmoid at its end."""
    module = getattr(net.module_, "_orig_mod", net.module_)  # of torch.compile
    chain = read_module(module, name=name)
    double = any(p.dtype == torch.float64 for p in module.parameters())
    dtype = np.float64 if double else np.float32
    coef, intercept, n_outputs = chain.coef, chain.shift, chain.coef.shape[1]
    if isinstance(net, NeuralNetBinaryClassifier):
        if n_outputs != 1:
            raise ValueError(
                f"Node {name!r}: the module of a NeuralNetBinaryClassifier must have "
                f"one output, it has {n_outputs}."
            )
        coef, intercept = expand_binary(coef, intercept, 2)
        classes, seen = np.arange(2), np.ones(2, dtype=bool)
    elif n_outputs == 1:
        raise ValueError(
            f"Node {name!r}: the module of {type(net).__name__} has one output, but "
            "needs one per class. Use NeuralNetBinaryClassifier, or two outputs."
        )
    else:
        classes, seen = labels_of(net, n_outputs, name)
    coefs = _as_layers((*chain.coefs, coef), dtype, name, "weights")
    intercepts = _as_layers((*chain.intercepts, intercept), dtype, name, "biases")
    # Under CrossEntropyLoss skorch applies a second softmax in predict_proba, which
    # changes no label and makes all classes nearly alike: the module's own counts.
    link = chain.link.removeprefix("log_") if chain.link else _link(net)
    return network_of(
        net, coefs, intercepts, link, classes, seen=seen, activation=chain.activation
    )


def _as_layers(layers, dtype, name, what):
    return tuple(
        as_weights(values.astype(dtype), name=name, what=f"the {what} of layer {i}")
        for i, values in enumerate(layers)
    )


def _link(net):
    """The nonlinearity that skorch adds to the outputs for probabilities."""
    if getattr(net, "predict_nonlinearity", "auto") != "auto":
        return "identity"
    criterion = getattr(net.criterion_, "_orig_mod", net.criterion_)
    if isinstance(criterion, torch.nn.CrossEntropyLoss):
        return "softmax"
    binary = isinstance(criterion, torch.nn.BCEWithLogitsLoss)
    return "logistic" if binary else "identity"
