"""Layers of networks in messages: their fields, costs, and how they fit together."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..local import NodeShape
from ..messages import Activations, Array, Arrays, Place, Table
from ..networks import LayersBelow

WEIGHTS = Array("* *", least_bytes=4, empty=False)
_FLOATS = Array("* *", least_bytes=2)
_FLOATS_OF_OUTPUTS = Array("*", least_bytes=2)
# Weights of a network, which may be of few digits.
LAYERS = {"coefs": Arrays(_FLOATS), "intercepts": Arrays(_FLOATS_OF_OUTPUTS)}


def hidden_layers_fit(content: Mapping, place: Place) -> None:
    """Hidden layers fit each other, and the model above them."""
    layers = content["weights"]
    if len(content["activation"]) != len(layers) or not layers:
        raise place.at("activation").wrong("is not one for each layer")
    for W, W_above in zip(layers, layers[1:], strict=False):
        # The last row of each is its intercepts.
        if W.shape[1] + 1 != len(W_above):
            raise place.at("weights").wrong("do not fit each other")
    # What enters the model of the message is what the last layer gives.
    n_units = layers[-1].shape[1]
    if place.lengths.setdefault("d", n_units) != n_units:
        raise place.at("weights").wrong("do not fit the model")


def _hidden_layers_of_other_model_fit(content: Mapping, place: Place) -> None:
    """Check a second model, whose lengths are not those of the message."""
    hidden_layers_fit(content, replace(place, lengths={}))


# Layers before the model of a message.
HIDDEN = Table(
    {"weights": Arrays(WEIGHTS), "activation": Activations()},
    hidden_layers_fit,
    of=LayersBelow,
    default=None,
)
# Those of a node's own network, which may have no units where it knows one class.
HIDDEN_OF_OTHER_MODEL = Table(
    {"weights": Arrays(replace(WEIGHTS, empty=True)), "activation": Activations()},
    _hidden_layers_of_other_model_fit,
    of=LayersBelow,
    default=None,
)


def layers_fit(
    coefs: Sequence[np.ndarray],
    intercepts: Sequence[np.ndarray],
    activation: Sequence[str],
    place: Place,
) -> None:
    """Weights and intercepts are one for each layer, and layers fit each other."""
    if not len(coefs) == len(intercepts) == len(activation) + 1:
        raise place.at("coefs").wrong("are not one for each layer")
    for i, (W, b) in enumerate(zip(coefs, intercepts, strict=True)):
        fits_below = i == 0 or len(W) == coefs[i - 1].shape[1]
        if W.shape[1] != len(b) or not fits_below:
            raise place.at(f"coefs[{i}]").wrong("does not fit the layers beside it")


def transform_by_layers(
    rows: NodeShape, hidden: LayersBelow | None, request: str, *, n_more_units: int = 0
) -> NodeShape:
    """The shape of what hidden layers make of rows; ``n_more_units`` come after."""
    widths = [] if hidden is None else [W.shape[1] for W in hidden.weights]
    rows.check("hidden_numbers", (sum(widths) + n_more_units) * rows.n_rows, request)
    if not widths:
        return rows
    return replace(rows, n_columns=widths[-1], is_sparse=False)


def check_classes(rows: NodeShape, n_classes: int, request: str) -> None:
    """Raise LimitError for a model of too many classes, on so many rows."""
    rows.check("classes", n_classes, request)
    rows.check("row_outputs", n_classes * rows.n_rows, request)


def numbers_in_words(content: Mapping, reply: Mapping) -> str:
    """Say how many numbers the arrays of a model hold."""
    names = ("parameters", "arrays", "coefs", "intercepts")
    lists = (content.get(name, ()) for name in names)
    return f"{sum(array.size for arrays in lists for array in arrays):,} numbers."
