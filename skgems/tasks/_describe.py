"""The task "describe": a node's model, and how many rows of which class it has."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..local import Member
from ..messages import (
    ABSENT,
    MOST_ROWS,
    Activations,
    Array,
    Arrays,
    Labels,
    Place,
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
    MIN_ROWS,
    MODEL_REVEALS,
    come_together,
    optional_array,
    whole_number,
    whole_numbers,
)

_ROLES = ("judging", "moments", "training")


# ---- what fields say in figures ----------------------------------------------------


def _network_in_words(network: Mapping, reply: Mapping) -> str:
    if network["output"] == "none":
        return "The node has no classifier: these numbers are zeros."
    numbers = numbers_in_words(network, reply).rstrip(".")
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


def network_fits(network: Mapping, place: Place) -> None:
    """Layers fit each other, and outputs and features have one of everything each."""
    layers_fit(network, place)
    coefs = network["coefs"]
    for i, (W, b) in enumerate(zip(coefs, network["intercepts"], strict=True)):
        if W.dtype not in (np.float32, np.float64) or b.dtype != W.dtype:
            raise place.at(f"coefs[{i}]").wrong(f"has the dtype {W.dtype}")
    # Outputs of a net may be in any order, each label once.
    Labels(ordered=True).check(sorted(network["labels"]), place.at("labels"))
    if len(network["labels"]) != coefs[-1].shape[1]:
        raise place.at("labels").wrong("are not one for each output")
    place.deny(not network["seen"].any(), "seen", "is true of no class")
    n_features = network["n_features"]
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


def classes_are_of_enough_rows(content: Mapping, place: Place) -> None:
    """No class is of fewer rows than the bound that a node says it answers under."""
    rows = content["rows"]
    min_rows = content["min_rows"]
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
    "coefs": Arrays(WEIGHTS, says=_THE_MODEL, detail=_network_in_words),
    "intercepts": Arrays(Array("*", least_bytes=4), says=_THE_MODEL),
    "activation": Activations(),
    "output": Text(("softmax", "logistic", "identity", "none")),
    "labels": Labels("o", says="Labels of the outputs.", detail=_labels_in_words),
    "seen": Array(
        "o", kinds="b", says="Which of these labels the classifier was trained on."
    ),
    "n_features": whole_number(high=2**31, says="Number of features."),
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


def describe(member: Member) -> dict:
    """The node's network, and the number of rows by role and class."""
    labels, counts_by_role = member.row_counts()
    rows = {"labels": labels, **counts_by_role}
    weights = member.weights_by_label()
    if weights is not None:
        rows["weights"] = weights
    return {"network": member.model.network.as_content(), "rows": rows}


DESCRIBE = Task(
    name="describe",
    bound="fields",
    accepted_by="anybody",
    asks="the node's model, and the number of rows of each class",
    reveals=MODEL_REVEALS,
    alone=True,
    takes_weights=True,
    request={},
    reply={
        "min_rows": MIN_ROWS,
        "network": Table(NETWORK, network_fits),
        "rows": Table(ROWS, rows_are_some),
    },
    rule=classes_are_of_enough_rows,
    answer=describe,
)
