"""The table of a node's model in messages: its fields, and how they fit together."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..messages import (
    ABSENT,
    MOST_DIMENSIONS,
    Activations,
    Array,
    Arrays,
    Labels,
    Place,
    Table,
    Text,
    counting,
    labels_of_features,
    listed,
)
from ..moments import SMALLEST
from ..networks import ModuleState, Network
from ._layers import WEIGHTS, layers_fit, numbers_in_words
from ._shared import AS_A_MODEL, come_together, whole_number

# Fields of a chain of dense layers, and of any other module.
_OF_LAYERS = {"coefs", "intercepts", "activation"}
_OF_MODULES = {"names", "arrays", "outputs"}


# ---- what fields say in figures ----------------------------------------------------


def _network_in_words(network: Mapping, reply: Mapping) -> str:
    if network["output"] == "none":
        return "The node has no classifier: these numbers are zeros."
    numbers = numbers_in_words(network, reply).rstrip(".")
    if network["output"] == "module":
        arrays = counting(len(network["arrays"]), "array")
        return f"{numbers} in {arrays} of a module."
    layers = counting(len(network["coefs"]), "layer")
    return f"{numbers} in {layers}, for {network['n_features']} features."


def _labels_in_words(network: Mapping, reply: Mapping) -> str:
    pairs = zip(network["labels"], network["seen"], strict=True)
    trained = listed(repr(label) for label, seen in pairs if seen)
    return f"The classifier was trained on {trained}."


def _feature_names_in_words(network: Mapping, reply: Mapping) -> str:
    return f"{listed(map(repr, network['feature_names']))}."


def _dropped_in_words(network: Mapping, reply: Mapping) -> str:
    labels = labels_of_features(network)
    names = [repr(labels[j]) for j in np.flatnonzero(network["dropped"])]
    return f"Here: {listed(names)}."


# ---- rules -------------------------------------------------------------------------


def model_fits(network: Mapping, place: Place) -> None:
    """There are layers or the numbers of a module, which fit the labels."""
    is_module = network["output"] == "module"
    for name in sorted(_OF_LAYERS | _OF_MODULES):
        place.deny(
            name in network and (name in _OF_MODULES) != is_module,
            name,
            f"is not there where output is {network['output']!r}",
        )
        is_needed = name in (_OF_MODULES - {"outputs"} if is_module else _OF_LAYERS)
        place.deny(is_needed and name not in network, name, "is missing")
    if is_module:
        _module_fits(network, place)
    else:
        network_fits(network, place)


def _labels_fit(network: Mapping, place: Place) -> None:
    """Each label is there once, in any order, and the classifier has seen one."""
    Labels(ordered=True).check(sorted(network["labels"]), place.at("labels"))
    place.deny(not network["seen"].any(), "seen", "is true of no class")


def _module_fits(network: Mapping, place: Place) -> None:
    """Each array has a name of its own, and nothing is said of features."""
    names = network["names"]
    are_texts = all(isinstance(name, str) for name in names)
    if not are_texts or len(set(names)) != len(names) or not names:
        raise place.at("names").wrong("are not a name of its own for each array")
    if len(names) != len(network["arrays"]):
        raise place.at("arrays").wrong("are not one for each name")
    for name, array in zip(names, network["arrays"], strict=True):
        if array.ndim > MOST_DIMENSIONS:  # more are refused in files
            raise place.at("arrays").wrong(
                f"have {name!r:.80}, of {array.ndim} dimensions; {MOST_DIMENSIONS} are "
                "the most"
            )
    for name in ("n_features", "feature_names", "center", "scale"):
        is_said = network.get(name) is not None
        place.deny(is_said, name, "is not there where output is 'module'")
    _labels_fit(network, place)


def network_fits(network: Mapping, place: Place) -> None:
    """Layers fit each other, and outputs and features have one of everything each."""
    coefs = network["coefs"]
    intercepts = network["intercepts"]
    layers_fit(coefs, intercepts, network["activation"], place)
    for i, (W, b) in enumerate(zip(coefs, intercepts, strict=True)):
        if W.dtype not in (np.float32, np.float64) or b.dtype != W.dtype:
            raise place.at(f"coefs[{i}]").wrong(f"has the dtype {W.dtype}")
    _labels_fit(network, place)
    if len(network["labels"]) != coefs[-1].shape[1]:
        raise place.at("labels").wrong("are not one for each output")
    n_features = network.get("n_features")
    if n_features != len(coefs[0]):
        raise place.at("n_features").wrong("is not that of the first layer")
    for name in ("feature_names", "center", "scale", "dropped"):
        if network.get(name) is not None and len(network[name]) != n_features:
            raise place.at(name).wrong("are not one for each feature")
    come_together(network, "center", "scale", place)
    if "dropped" in network and coefs[0][network["dropped"]].any():
        raise place.at("dropped").wrong("has features that the model uses")


# ---- fields ------------------------------------------------------------------------

_THE_MODEL = f"The weights of the model. {AS_A_MODEL}"
_COORDINATE = Array(
    "*",
    nan=True,
    default=ABSENT,
    says="Center and scale of each feature in the steps before the classifier. For a "
    "StandardScaler they are the mean and the standard deviation of the rows that it "
    "was fitted on.",
)
NETWORK = {
    "coefs": Arrays(WEIGHTS, default=ABSENT, says=_THE_MODEL, detail=_network_in_words),
    "intercepts": Arrays(Array("*", least_bytes=4), default=ABSENT, says=_THE_MODEL),
    "activation": Activations(default=ABSENT),
    # Infinite is what masks are.
    "arrays": Arrays(
        Array("...", kinds="fiub", least_bytes=2, infinite=True),
        default=ABSENT,
        says=f"The parameters and buffers of a module. {AS_A_MODEL} Buffers of batch "
        "normalization are means and variances over rows.",
        detail=_network_in_words,
    ),
    "names": Labels(default=ABSENT, says="Names of the parameters and buffers."),
    "outputs": Array(
        "...",
        least_bytes=2,
        default=ABSENT,
        says="Outputs of the module for rows that are made up by all in the same way. "
        "They follow from its numbers.",
    ),
    "output": Text(("softmax", "logistic", "identity", "none", "module")),
    "labels": Labels("o", says="Labels of the outputs.", detail=_labels_in_words),
    "seen": Array(
        "o", kinds="b", says="Which of these labels the classifier was trained on."
    ),
    "n_features": whole_number(
        high=2**31, default=None, says="Number of features. A module does not say it."
    ),
    "feature_names": Labels(
        default=None, says="Names of the features.", detail=_feature_names_in_words
    ),
    "center": _COORDINATE,
    "scale": replace(_COORDINATE, low=SMALLEST),
    "dropped": Array(
        "*",
        kinds="b",
        default=ABSENT,
        says="Which features the steps before the classifier drop by name. Their "
        "values are 0 in all sums, so nothing is said about them.",
        detail=_dropped_in_words,
    ),
}


@dataclass(frozen=True)
class NetworkTable(Table):
    """The table of a network: of layers, or of the numbers of a module."""

    is_opened = True

    def opened(self, value: Mapping) -> Network | ModuleState:
        is_module = value["output"] == ModuleState.output
        return (ModuleState if is_module else Network).from_content(value)

    def closed(self, value: Network | ModuleState) -> dict:
        return value.as_content()
