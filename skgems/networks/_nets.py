"""The module of a skorch net, and the labels of its outputs."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    from torch import nn


def labels_of(
    net: object, *, n_outputs: int, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return labels of the output columns, and which of these the net was fitted on.

    A net that was not fitted in this process, but has its weights from a file, knows
    neither. With `classes` it counts as fitted on all of them.
    """
    classes = getattr(net, "classes", None)
    fitted_on = getattr(net, "classes_inferred_", None)
    if classes is None or not len(classes):
        labels = np.arange(n_outputs)
        if fitted_on is None:
            raise ValueError(
                f"Node {name!r}: the net does not know which classes it has seen, as "
                "it was initialized and not fitted; load_params and load_state_dict "
                "load weights alone. Set the label of each output, "
                "net.set_params(classes=[...]). If it has seen only some of them, set "
                "net.classes_inferred_ to the numbers of their outputs, too."
            )
    else:
        labels = np.array(classes)
        if labels.ndim != 1 or len(set(labels.tolist())) != n_outputs != 0:
            raise ValueError(
                f"Node {name!r}: the net has {n_outputs} outputs, but its classes are "
                f"{labels.tolist()}. Give it one label per output."
            )
    if fitted_on is None:
        return labels, np.ones(n_outputs, dtype=bool)
    fitted_on = np.asarray(fitted_on).tolist()
    # The criterion takes y as the index of a column. Where y cannot be that, as with
    # a data set that encodes its labels itself, it is a label.
    for columns in (range(n_outputs), labels.tolist()):
        if set(columns).issuperset(fitted_on):
            return labels, np.array([column in fitted_on for column in columns])
    raise ValueError(
        f"Node {name!r}: the net was fitted on the labels {fitted_on}, which are "
        f"neither columns of its {n_outputs} outputs (0 to {n_outputs - 1}) nor among "
        f"its classes {labels.tolist()}. Give the net the classes of its outputs, in "
        "their order, and fit it again."
    )


def module_of(net: object) -> "nn.Module":
    # torch.compile keeps the module that it compiled in _orig_mod.
    return getattr(net.module_, "_orig_mod", net.module_)


def evaluated(module: "nn.Module") -> AbstractContextManager[None]:
    """Have a module in evaluation mode for a while, and then as it was."""
    from . import _runs

    return _runs.evaluated(module)


def fingerprint(module: "nn.Module", last: "nn.Module | None") -> str:
    """Return hexadecimal digits of what enters the last layer, of made-up rows."""
    from . import _runs

    return _runs.fingerprint(module, last)


def layer_tensors(layer: "nn.Linear") -> "tuple[torch.Tensor, torch.Tensor | None]":
    """Return weight and bias as the next forward uses them, without their history."""
    from ._runs import layer_tensor

    with evaluated(layer):
        weight = layer_tensor(layer, "weight").detach()
        return weight, None if layer.bias is None else layer.bias.detach()


def row_dtype(module: "nn.Module", rows: np.ndarray) -> np.dtype:
    """Return the dtype in which a module takes rows: of its numbers, or of ids."""
    from . import _runs

    if _runs.takes_ids(module, rows):
        return np.dtype(np.int64)
    names = {str(p.dtype) for p in module.parameters() if p.is_floating_point()}
    for name in ("float64", "float32", "float16"):
        if f"torch.{name}" in names:
            return np.dtype(name)
    return np.dtype(np.float32)


def row_width(module: "nn.Module") -> int | None:
    """Return the number of columns of the only flat rows that a module takes."""
    from . import _runs

    return _runs.row_width(module)
