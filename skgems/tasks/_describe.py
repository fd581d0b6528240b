"""The task "describe": a node's model, and how many rows of which class it has."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import numpy as np

from ..local import Member, has_linear_model
from ..messages import (
    ABSENT,
    MOST_DIMENSIONS,
    MOST_ROWS,
    Activations,
    Array,
    Arrays,
    Labels,
    Place,
    Request,
    Table,
    Task,
    Text,
    counting,
    labels_and_counts,
    labels_of_features,
    listed,
    rows_in_words,
)
from ..moments import SMALLEST
from ._layers import WEIGHTS, layers_fit, numbers_in_words
from ._shared import (
    AS_A_MODEL,
    MODEL_REVEALS,
    DisclosedReply,
    come_together,
    optional_array,
    whole_number,
    whole_numbers,
)

_ROLES = ("judging", "moments", "training")
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


def _rows_in_words(rows: Mapping, reply: Mapping) -> str:
    labels = rows["labels"]
    counts = rows["moments"]
    least = int(np.argmin(counts))
    words = (
        f"{labels_and_counts(labels, counts)}. The smallest class is "
        f"{labels[least]!r}, with {rows_in_words(counts[least])}."
    )
    if not np.array_equal(rows["judging"], rows["training"]):
        words += (
            f" {rows_in_words(rows['judging'].sum())} judge models, "
            f"{rows_in_words(rows['training'].sum())} train."
        )
    return words


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


def rows_are_some(rows: Mapping, place: Place) -> None:
    """There are rows of each role, and no more than can be counted."""
    for role in _ROLES:
        if rows[role].sum(dtype=np.float64) > MOST_ROWS:
            raise place.at(role).wrong(f"are more than {MOST_ROWS} rows")
        place.deny(not rows[role].any(), role, "are no rows at all")
    if "weights" in rows:
        has_weight = rows["weights"] > 0
        if not np.array_equal(has_weight, rows["moments"] > 0):
            raise place.at("weights").wrong("are not above 0 where there are rows")


def check_sizes_of_classes(rows: Mapping, min_rows: int, place: Place) -> None:
    """Raise ValueError for a class of fewer rows than the node's own bound."""
    learning = np.maximum(rows["moments"], rows["training"])
    # Of classes whose rows are all held out, these are counted.
    sizes = np.where(learning > 0, learning, rows["judging"])
    too_small = np.flatnonzero(sizes < min_rows)
    if len(too_small):
        first = too_small[0]
        raise place.at("min_rows").wrong(
            f"is {min_rows}, but there are {sizes[first]} rows of the class "
            f"{rows['labels'][first]!r:.40}"
        )


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
_COUNTED = (
    "Number of rows of each class that judge models, that enter moments, and that may "
    "be trained on."
)
ROWS = {
    "labels": Labels("l", ordered=True, says=_COUNTED, detail=_rows_in_words),
    **{role: whole_numbers("l", says=_COUNTED) for role in _ROLES},
    "weights": optional_array(
        "l",
        high=float(MOST_ROWS),
        says="Sum of the weights of the rows of each class that enter moments, if the "
        "node has given its rows weights. With a bound min_rows of 1 it may be the "
        "weight of a single row.",
    ),
}


class DescribeReply(DisclosedReply):
    """The network of the node, and its rows by role and class."""

    network: Annotated[Mapping, Table(NETWORK, model_fits)]
    rows: Annotated[Mapping, Table(ROWS, rows_are_some)]

    def check(self, request: Request, place: Place) -> None:
        check_sizes_of_classes(self.rows, self.min_rows, place)


def describe(member: Member, request: Request) -> DescribeReply:
    """Return the node's network, and the number of rows by role and class."""
    labels, counts_by_role = member.row_counts()
    rows = {"labels": labels, **counts_by_role}
    weights = member.weights_by_label()
    if weights is not None:
        rows["weights"] = weights
    network = member.model.described.as_content()
    if member.disclosure is not None and has_linear_model(member):
        # Means and deviations of all rows, whatever these weigh under the rule.
        for name in ("center", "scale"):
            network.pop(name, None)
    return DescribeReply(network=network, rows=rows)


DESCRIBE = Task(
    name="describe",
    bound="fields",
    discloses="model",
    most=1,
    without="needed",
    accepted_by="anybody",
    asks="the node's model, and the number of rows of each class",
    reveals=MODEL_REVEALS,
    alone=True,
    is_in_all_summaries=True,
    describes=True,
    takes_weights=True,
    request=Request,
    reply=DescribeReply,
    answer=describe,
)
