"""Spaces in messages: the request and the reply, with their words and rules."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated

import numpy as np

from ..messages import (
    ABSENT,
    MOST_ROWS,
    ROUNDING,
    Array,
    Flag,
    Named,
    Number,
    Place,
    Request,
    Text,
    check_definite,
    counting,
    rows_in_words,
)
from ..moments import LARGEST, SMALLEST
from ..networks import LayersBelow, Network
from ._layers import HIDDEN
from ._shared import (
    MODEL,
    SEED,
    DisclosedReply,
    check_one_model,
    number_asked,
    number_of_rows,
    optional_array,
    sums,
    whole_numbers,
)

# What metrics of geometries are, and whether radii of criteria are those of losses; of
# others than ours nothing is known.
_FAMILIES = {"gram": "gram", "ellipsoid": "diagonal", "ball": "diagonal"}


_IS_BY_LOSS = {"accuracy": False, "log_loss": True}


# Fields of a metric of each family; those of one are none of the other.
_OF_GRAM = ("metric_scatter", "metric_mean", "metric_size")


_OF_DIAGONAL = ("metric_precision",)


_ONLY_OF_GRAM = (*_OF_GRAM, "metric_output_weights")


# Fields of radii that are distances of rows, and of those that are losses.
_OF_ROWS = ("radii_radii", "radii_may_lose")


_OF_LOSSES = (
    "radii_knots",
    "radii_losses",
    "radii_slope",
    "radii_gradient",
    "radii_curvature",
)


def check_space(space: "SpaceReply", request: "SpaceRequest", place: Place) -> None:
    """Deny spaces of another model than the node's, or of another geometry."""
    n_classes = place.lengths.get("k")
    most_rows = MOST_ROWS
    W = request.W
    if place.described is not None:
        network = Network.from_content(place.described["network"])
        most_rows = int(place.described["rows"]["judging"].sum())
        if not network.n_hidden_layers:
            W = network.aligned(np.unique(network.classes[network.seen])).last
    n_outputs = space.center.shape[1]
    # One output stands for all other classes, unless nothing is said of them.
    n_others = min(1, request.n_others)
    if n_classes is not None and n_outputs not in (n_classes, n_classes + n_others):
        raise place.at("center").wrong(
            f"has {n_outputs} outputs for {n_classes} classes"
        )
    if space.outputs is not None and not space.outputs[: n_outputs - n_others].all():
        raise place.at("outputs").wrong("are without a class that the model knows")
    _check_metric(space, request.geometry["name"], place)
    _check_radii(space, request.criterion["name"], place, most_rows=most_rows)
    if W is not None:
        _check_center(space, W, place)


def _has_only(
    space: "SpaceReply", place: Place, *, needed: Iterable[str], refused: Iterable[str]
) -> None:
    """Raise ValueError unless all needed fields are there, and none of the refused."""
    for name in (*needed, *refused):
        if name in needed:
            place.deny(getattr(space, name) is None, name, "is missing")
        else:
            place.deny(getattr(space, name) is not None, name, "is not allowed")


def _check_metric(space: "SpaceReply", geometry: str, place: Place) -> None:
    family = space.family
    family_asked = _FAMILIES.get(geometry, family)
    if family_asked != family:
        raise place.at("family").wrong(
            f"is {family!r}, but {family_asked!r} was asked for"
        )
    if family == "gram":
        _has_only(space, place, needed=_OF_GRAM, refused=_OF_DIAGONAL)
        scatter = space.metric_scatter
        if not np.array_equal(scatter, scatter.T):
            raise place.at("metric_scatter").wrong("is not symmetric")
        check_definite(scatter, place.at("metric_scatter"))
        return
    _has_only(space, place, needed=_OF_DIAGONAL, refused=_ONLY_OF_GRAM)
    precision = space.metric_precision
    if ((precision > 0) & (precision < SMALLEST**2)).any():
        raise place.at("metric_precision").wrong("has values that are all but 0")


def _check_radii(
    space: "SpaceReply", criterion: str, place: Place, *, most_rows: int
) -> None:
    """Deny radii that the criterion does not make, or of another number of rows."""
    is_by_loss = space.radii_knots is not None
    if _IS_BY_LOSS.get(criterion, is_by_loss) != is_by_loss:
        name = "radii_knots" if is_by_loss else "radii_radii"
        raise place.at(name).wrong(f"is there, but {criterion} was asked for")
    n_rows = int(space.radii_n_rows)
    place.deny(n_rows > most_rows, "radii_n_rows", "is more than describe.rows has")
    if is_by_loss:
        _check_radii_by_loss(space, place)
    else:
        _check_radii_by_rows(space, place, n_rows)


def _check_radii_by_loss(space: "SpaceReply", place: Place) -> None:
    _has_only(space, place, needed=_OF_LOSSES, refused=_OF_ROWS)
    knots = space.radii_knots
    if not len(knots) or knots[0] != 0 or (np.diff(knots) < SMALLEST).any():
        raise place.at("radii_knots").wrong("do not rise from 0")


def _check_radii_by_rows(space: "SpaceReply", place: Place, n_rows: int) -> None:
    _has_only(space, place, needed=_OF_ROWS, refused=_OF_LOSSES)
    score = float(space.radii_score)
    place.deny(score > 1.0, "radii_score", f"is {score:g}, not between 0 and 1")
    radii = space.radii_radii
    place.deny((radii[1:] < radii[:-1]).any(), "radii_radii", "are not in their order")
    may_lose = space.radii_may_lose
    if may_lose[0] != 0 or (may_lose[1:] < may_lose[:-1]).any():
        raise place.at("radii_may_lose").wrong("does not rise from 0")
    n_right = int(may_lose[-1])
    if n_right > n_rows:
        raise place.at("radii_may_lose").wrong(f"is {n_right} of {n_rows} rows")


def _check_center(space: "SpaceReply", W: np.ndarray, place: Place) -> None:
    """Deny a center that is not the model, but for its scale and what outputs share."""
    center = space.center[:, : W.shape[1]]
    center = float(space.scale) * (center - center.mean(axis=1, keepdims=True))
    W = W.astype(np.float64)
    differences = center - (W - W.mean(axis=1, keepdims=True))
    # Rounding of float32, where that is what the model has.
    largest = max(np.abs(W).max(), np.abs(center).max())
    if np.abs(differences).max() > ROUNDING * largest:
        raise place.at("center").wrong("is not the model itself")


def _center_in_words(space: Mapping, reply: Mapping) -> str:
    n_params, n_outputs = space["center"].shape
    judging = rows_in_words(int(space["radii_n_rows"]))
    score = float(space["radii_score"])
    return f"{n_params} x {n_outputs} numbers; the score on {judging} is {score:.3g}."


def _radii_in_words(space: Mapping, reply: Mapping) -> str:
    return f"There are {counting(len(space['radii_radii']), 'distance')}."


def _knots_in_words(space: Mapping, reply: Mapping) -> str:
    return f"It is given at {counting(len(space['radii_knots']), 'distance')}."


_METRIC = (
    "Shape of the space: how far a change of the model moves the logits of all rows "
    "together. For 'gram' it is the mean and covariance of the features over all "
    "classes, for 'ellipsoid' a mean over rows for each weight. For 'ball' the space "
    "is round, which reveals nothing."
)


_RADII = (
    "Distances by which the model may change before it loses a row. Each belongs to "
    "one row; it is not said to which."
)


_LOSSES = (
    "How the mean log-loss grows with the change of the model. It reveals nothing "
    "about single rows."
)


_RADIUS = Number(infinite=True, default=ABSENT, says=_LOSSES)


class SpaceRequest(Request):
    """A model, and which space around it is built."""

    model: Annotated[str | None, MODEL["model"]]
    W: Annotated[np.ndarray | None, MODEL["W"]]
    n_others: Annotated[int, number_asked()]
    min_cluster_size: Annotated[int, number_of_rows()]
    criterion: Annotated[Mapping, Named()]
    construction: Annotated[str, Text(("sampled", "certified"))]
    scale_logits: Annotated[bool, Flag(("auto",))]
    seed: Annotated[int | None, SEED]
    geometry: Annotated[Mapping, Named()]
    n_directions: Annotated[int, number_asked(low=1)]
    hidden: Annotated[LayersBelow | None, HIDDEN]

    def check(self, place: Place) -> None:
        check_one_model(self.model, self.W, place)


class SpaceReply(DisclosedReply):
    """A good-enough space of a linear model."""

    center: Annotated[
        np.ndarray,
        Array(
            "d+1 o",
            says="The model, once more, and its score on the rows that judge.",
            detail=_center_in_words,
        ),
    ]
    scale: Annotated[
        float, Number(low=SMALLEST, high=LARGEST, says="Size of the model's logits.")
    ]
    outputs: Annotated[
        np.ndarray | None,
        Array("o", kinds="b", default=ABSENT, says="Which outputs are compared."),
    ]
    family: Annotated[str, Text(("gram", "diagonal"), says=_METRIC)]
    metric_scatter: Annotated[
        np.ndarray | None, sums("d d", says=_METRIC, default=ABSENT)
    ]
    metric_mean: Annotated[np.ndarray | None, Array("d", default=ABSENT, says=_METRIC)]
    metric_size: Annotated[
        float | None, Number(low=SMALLEST**2, default=ABSENT, says=_METRIC)
    ]
    metric_output_weights: Annotated[
        np.ndarray | None, Array("o", says=_METRIC, low=SMALLEST, default=ABSENT)
    ]
    metric_precision: Annotated[
        np.ndarray | None, sums("d+1 o", says=_METRIC, low=0.0, default=ABSENT)
    ]
    radii_n_rows: Annotated[
        int, number_of_rows(low=1, says="Number of rows that judge.")
    ]
    radii_score: Annotated[
        float, Number(high=LARGEST, says="Score of the model on these rows.")
    ]
    radii_radii: Annotated[
        np.ndarray | None,
        optional_array("r", says=_RADII, infinite=True, detail=_radii_in_words),
    ]
    radii_may_lose: Annotated[
        np.ndarray | None, whole_numbers("r+1", says=_RADII, default=ABSENT)
    ]
    radii_knots: Annotated[
        np.ndarray | None, optional_array("q", says=_LOSSES, detail=_knots_in_words)
    ]
    radii_losses: Annotated[np.ndarray | None, optional_array("q", says=_LOSSES)]
    radii_slope: Annotated[float | None, replace(_RADIUS, low=-LARGEST, high=LARGEST)]
    radii_gradient: Annotated[float | None, _RADIUS]
    radii_curvature: Annotated[float | None, _RADIUS]

    def check(self, request: SpaceRequest, place: Place) -> None:
        check_space(self, request, place)
