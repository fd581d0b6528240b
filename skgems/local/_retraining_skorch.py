# SPDX-License-Identifier: BSD-3-Clause
"""Put the upper layers of a network into a skorch net; needs torch."""

from __future__ import annotations

import torch
from skorch import NeuralNetBinaryClassifier
from skorch.callbacks import Checkpoint, LoadInitState, TrainEndCheckpoint

from ..networks import to_module
from ..networks._classes import contract_binary
from ._training_skorch import copy, float_dtype

# Callbacks that read or write the whole module's weights in the node's own files.
_OF_FILES = (Checkpoint, LoadInitState, TrainEndCheckpoint)


def upper_net(net, coefs, intercepts, activation):
    """A copy of a skorch net whose module is only the given layers.

    Parameters
    ----------
    net : fitted NeuralNetClassifier or NeuralNetBinaryClassifier
        Not altered.
    coefs, intercepts : sequence of ndarray
        Layers, one output column per class at the end.
    activation : sequence of str
        Activations of the hidden ones.

    Returns
    -------
    net : fitted skorch net
        On the same device, with the same loss, a fresh optimizer and its callbacks
        but those that keep checkpoints.
    """
    dtype = float_dtype(net)
    coefs, intercepts = list(coefs), list(intercepts)
    criterion = getattr(net.criterion_, "_orig_mod", net.criterion_)
    if isinstance(net, NeuralNetBinaryClassifier):
        coefs[-1], intercepts[-1] = contract_binary(coefs[-1], intercepts[-1])
    # The losses that skorch feeds with probabilities need the link in the module.
    link = "identity"
    if isinstance(criterion, torch.nn.NLLLoss):
        link = "softmax"
    elif isinstance(criterion, torch.nn.BCELoss):
        link = "logistic"
    module = to_module(
        [coef.astype(dtype) for coef in coefs],
        [intercept.astype(dtype) for intercept in intercepts],
        activation,
        output=link,
    )
    fresh = copy(net)
    fresh.callbacks_ = [
        (name, callback)
        for name, callback in fresh.callbacks_
        if not isinstance(callback, _OF_FILES)
    ]
    fresh.module_ = module.to(net.device)
    fresh.initialize_optimizer()
    return fresh
