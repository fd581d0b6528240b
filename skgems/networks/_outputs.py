# SPDX-License-Identifier: BSD-3-Clause
"""The outputs of a skorch net of any module; torch is imported once there is one."""

import numpy as np


def output_labels(net, *, name: str = "estimator") -> tuple[np.ndarray, np.ndarray]:
    """Labels of the outputs of a skorch net of any module, and a mask of those seen.

    0 and 1 for a single output. All are seen if the net does not know what it was
    fitted on. ValueError if its classes do not fit its outputs.
    """
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


def output_link(net, *, name: str = "estimator") -> str:
    """What the outputs of a skorch net's module go through at its very end.

    As :func:`to_module` takes it; what skorch adds for probabilities is no part of the
    module. TypeError if the module is no chain of Linear layers and activations.
    """
    from ._torch import read_module

    module = getattr(net.module_, "_orig_mod", net.module_)  # of torch.compile
    return read_module(module, name=name).link or "identity"


def output_parameters(net) -> list:
    """Weights and biases, a row per output, of the last layer of a skorch net."""
    module = getattr(net.module_, "_orig_mod", net.module_)  # of torch.compile
    found = _of_last_layer(module)
    if not found:
        found = [p for p in module.parameters() if p.ndim][:-3:-1]
    return [p for p in found if p.shape[0] == found[0].shape[0]]


def _of_last_layer(module) -> list:
    """Parameters of the layer that every output has come through, if it is found."""
    from torch import nn

    from ._trace import trace

    try:
        root, graph = trace(module, "estimator")
    except TypeError:
        return []
    value = list(graph.nodes)[-1].args[0]
    while True:
        if isinstance(value, (tuple, list)):  # skorch takes the first output
            value = value[0] if value else None
        if getattr(value, "op", None) not in _STEPS:
            return []
        if value.op == "call_module":
            layer = root.get_submodule(value.target)
            found = list(layer.parameters())
            if found:
                kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Bilinear)
                return found if isinstance(layer, kinds) else []
        inputs = value.all_input_nodes
        value = inputs[0] if len(inputs) == 1 else None


_STEPS = ("call_module", "call_method", "call_function")
