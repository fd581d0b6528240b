"""What a skorch net says of itself: its module, and labels of its outputs."""

import numpy as np


def labels_of(net, n_outputs, name):
    """Labels of the output columns, and which the net was fitted on: all if unknown."""
    given = getattr(net, "classes", None)
    labels = np.arange(n_outputs)
    if given is not None and len(given):
        labels = np.array(given)
        if labels.ndim != 1 or len(set(labels.tolist())) != n_outputs != 0:
            raise ValueError(
                f"Node {name!r}: the net has {n_outputs} outputs, but its classes are "
                f"{labels.tolist()}; give one label per output."
            )
    fitted_on = getattr(net, "classes_inferred_", None)
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
        f"its classes {labels.tolist()}."
    )


def module_of(net):
    return getattr(net.module_, "_orig_mod", net.module_)  # of torch.compile
