# SPDX-License-Identifier: BSD-3-Clause
"""The outputs of a skorch net of any module: what they stand for, where they are."""

from __future__ import annotations

import numpy as np
from torch import nn

from ._torch import read_module
from ._trace import trace


def output_labels(net, name) -> tuple[np.ndarray, np.ndarray]:
    """See :func:`skgems.networks.output_labels`."""
    last = output_parameters(net)
    n_outputs = last[0].shape[0] if last else 1
    if n_outputs == 1:
        return np.arange(2), np.ones(2, dtype=bool)
    return labels_of(net, n_outputs, name)


def labels_of(net, n_outputs, name):
    """Labels of the output columns, and which of them the net was fitted on."""
    given = getattr(net, "classes", None)
    labels = np.arange(n_outputs)
    if given is not None and len(given):
        labels = np.array(given)
        if labels.ndim != 1 or len(set(labels.tolist())) != n_outputs != 0:
            raise ValueError(
                f"Node {name!r}: the net has {n_outputs} outputs, but its classes "
                f"are {labels.tolist()}; give one label per output."
            )
    fitted_on = getattr(net, "classes_inferred_", None)
    if fitted_on is None:
        return labels, np.ones(n_outputs, dtype=bool)
    fitted_on = np.asarray(fitted_on).tolist()
    # The criterion takes y as the index of a column. Where y cannot be that, as with
    # a data set that encodes its labels itself, it is a label.
    columns = set(range(n_outputs))
    if columns.issuperset(fitted_on):
        return labels, np.isin(np.arange(n_outputs), fitted_on)
    if set(labels.tolist()).issuperset(fitted_on):
        return labels, np.array([label in fitted_on for label in labels.tolist()])
    raise ValueError(
        f"Node {name!r}: the net was fitted on the labels {fitted_on}, which are "
        f"neither columns of its {n_outputs} outputs (0 to {n_outputs - 1}) nor among "
        f"its classes {labels.tolist()}."
    )


def output_link(net, name) -> str:
    """See :func:`skgems.networks.output_link`."""
    module = getattr(net.module_, "_orig_mod", net.module_)  # of torch.compile
    return read_module(module, name=name).link or "identity"


def output_parameters(net) -> list[nn.Parameter]:
    """See :func:`skgems.networks.output_parameters`."""
    module = getattr(net.module_, "_orig_mod", net.module_)  # of torch.compile
    found = list(_output_layer(module).parameters())
    if not found:
        found = [p for p in module.parameters() if p.ndim][:-3:-1]
    return [p for p in found if p.shape[0] == found[0].shape[0]]


def _output_layer(module):
    """The layer with weights that every output has come through, if it is found."""
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
