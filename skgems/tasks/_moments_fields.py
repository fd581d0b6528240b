"""Moments in messages: the request and the reply, with their words and rules."""

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from ..messages import (
    ABSENT,
    ROUNDING,
    Flag,
    Number,
    Place,
    Request,
    Table,
    Text,
    Weights,
    check_definite,
)
from ..moments import LARGEST, ClassMoments, moments_kind
from ..networks import LayersBelow
from ._classifier_fields import FORM, PENALTY
from ._layers import HIDDEN
from ._shared import (
    CLASSES,
    GRADIENT,
    MODEL,
    ROWS_OF_CLASSES,
    DisclosedReply,
    described_sizes,
    number_asked,
    number_of_rows,
    rows_are_described,
    sums,
    sums_are_of_enough_rows,
)
from ._sums import FIELDS_OF_SUMS, sums_fit

# What nodes tell of their models' gradients: one of these, if any.
_CORRECTIONS = ("gradient", "gradients", "slope", "slopes")


def _effective_rows_in_words(content: Mapping, reply: Mapping) -> str:
    return f"Here it is {content['effective_rows']:.3g}."


def _kurtosis_in_words(content: Mapping, reply: Mapping) -> str:
    return f"Here it is about {content['kurtosis']}."


def check_moments(
    reply: "MomentsReply", request: "MomentsRequest", place: Place
) -> None:
    """Raise ValueError for sums of other rows than described, or of another kind."""
    class_moments = reply.moments
    sums_are_of_enough_rows(reply.min_rows, class_moments.counts, place)
    rows_are_described(reply.n_rows, reply.labels, place)
    _check_kind(class_moments, request, place, n_labels=len(reply.labels))
    _check_scatter(class_moments, place)
    _check_kurtosis(reply, place)
    correction = _check_corrections(reply, request, place)
    if place.described is None:
        return
    if reply.penalty is not None and place.described["network"]["output"] == "none":
        raise place.at("penalty").wrong("is there, but the node has no classifier")
    _check_counts(reply, class_moments, place)
    if correction is not None:
        _check_size_of_correction(
            getattr(reply, correction),
            class_moments,
            place.at(correction),
            class_weight=request.class_weight,
        )


def _check_kurtosis(reply: "MomentsReply", place: Place) -> None:
    """Raise ValueError for digits, which could be a message."""
    kurtosis = reply.kurtosis or 1
    place.deny(kurtosis & (kurtosis - 1) != 0, "kurtosis", "is not a power of two")


def _check_corrections(
    reply: "MomentsReply", request: "MomentsRequest", place: Place
) -> str | None:
    """The name of the correction, if any; ValueError for what was not asked for."""
    corrections = [name for name in _CORRECTIONS if getattr(reply, name) is not None]
    for name in corrections[1:]:
        raise place.at(name).wrong(f"is not allowed beside {corrections[0]}")
    correction = corrections[0] if corrections else None
    if (reply.factor is not None) != (correction in ("gradient", "gradients")):
        raise place.at("gradient").wrong("is missing, or factor is")
    class_weight = request.class_weight
    if correction is not None:
        if request.model is None:
            raise place.at(correction).wrong("was not asked for")
        is_by_class = correction.endswith("s")
        if is_by_class and not isinstance(class_weight, str):
            raise place.at(correction).wrong("was not asked for")
    if reply.class_weight is not None and class_weight != "members":
        raise place.at("class_weight").wrong("was not asked for")
    return correction


def _check_counts(
    reply: "MomentsReply", class_moments: ClassMoments, place: Place
) -> None:
    """Raise ValueError for counts that are not those of the rows described."""
    labels = reply.labels
    counts = class_moments.class_counts(len(labels))
    described = described_sizes(place, labels)
    # A class of too few rows has no mean; of several nodes not all need have too few.
    fits = np.abs(counts - described) <= ROUNDING * described
    if reply.slope is not None or reply.slopes is not None:
        fits = counts <= described * (1.0 + ROUNDING)
    if not np.all((counts == 0) | fits):
        raise place.at("counts").wrong("are not those of describe.rows")
    # Of a few rows of small classes there is not even the scatter.
    n_rows = class_moments.group_counts.sum()
    rounding = ROUNDING * described.sum()
    if not counts.sum() - rounding <= n_rows <= described.sum() + rounding:
        raise place.at("group_counts").wrong("are not those of describe.rows")


def _check_size_of_correction(
    correction: np.ndarray,
    class_moments: ClassMoments,
    place: Place,
    *,
    class_weight: str | list | None,
) -> None:
    """A gradient is no larger than these rows allow (by Cauchy and Schwarz).

    Of n rows x with residuals of 1 at most it is |sum x r| <= (n sum x^2)^(1/2).
    """
    n_rows = class_moments.n_rows
    squares = _squares(class_moments)
    squares = squares + class_moments.counts @ class_moments.means**2
    limit = (1.0 + ROUNDING) * np.sqrt(n_rows * np.append(squares, n_rows))
    if isinstance(class_weight, list):
        limit *= max([1.0, *(weight for _, weight in class_weight)])
    # A slope is a gradient less another.
    is_slope = place.path.rpartition(".")[2].startswith("slope")
    times = 2.0 if is_slope else 1.0
    if np.any(np.abs(correction) > times * limit[:, None]):
        raise place.wrong("is larger than these moments allow")
    # What a row adds to one output it takes from others.
    if not is_slope and np.any(np.abs(correction.sum(axis=-1)) > limit * ROUNDING):
        raise place.wrong("does not sum to 0 over the outputs")


def _check_kind(
    class_moments: ClassMoments,
    request: "MomentsRequest",
    place: Place,
    *,
    n_labels: int,
) -> None:
    """Raise ValueError for moments of another kind than was asked for."""
    n_features = class_moments.n_features
    if class_moments.roots is not None:
        kind_of_one_row = moments_kind("auto", n_features, n_labels, 1)
        is_wrong = request.kind != "auto" or kind_of_one_row != "roots"
        place.deny(is_wrong, "roots", "were not asked for")
        return
    if request.kind == "auto" and request.hidden is not None:
        return  # a node decides by the numbers that its rows hold
    kind = moments_kind(request.kind, n_features, n_labels)
    if class_moments.is_diagonal != (kind == "diagonal"):
        name = "scatter" if class_moments.is_diagonal else "triangles"
        raise place.at(name).wrong(f"is there, but {kind!r} was asked for")
    if kind == "shared" and class_moments.groups.tolist() != [-1]:
        raise place.at("groups").wrong("are of classes, but 'shared' was asked for")


def _squares(class_moments: ClassMoments) -> np.ndarray:
    """Squares of features about the means, summed over all groups: (n_features,)."""
    total = class_moments.scatter.sum(axis=0)
    return total if class_moments.is_diagonal else total.diagonal()


def _check_scatter(class_moments: ClassMoments, place: Place) -> None:
    """Raise ValueError for matrices that are not definite, or squares sent twice."""
    if class_moments.is_diagonal and class_moments.squares is not None:
        raise place.at("squares").wrong("are there, though scatter has them")
    if not class_moments.is_diagonal:
        groups = class_moments.groups.tolist()
        for group, matrix in zip(groups, class_moments.scatter, strict=True):
            check_definite(matrix, place.at(f"triangles of group {group}"))


_BY_CLASS = f"{GRADIENT} Here there is one for the rows of each class."


class MomentsRequest(Request):
    """Which sums a node tells, and of which model the gradient is."""

    kind: Annotated[str, Text(("auto", "class", "shared", "diagonal"))]
    n_components: Annotated[int, number_asked(low=1)]
    min_cluster_size: Annotated[int, number_of_rows()]
    model: Annotated[str | None, MODEL["model"]]
    hidden: Annotated[LayersBelow | None, HIDDEN]
    class_weight: Annotated[
        list | str | None, Weights(("members", "balanced"), default=None)
    ]
    penalty: Annotated[bool, Flag(default=False)]


class MomentsReply(DisclosedReply):
    """Sums over the rows, and what the classifier is."""

    labels: Annotated[list, CLASSES]
    n_rows: Annotated[np.ndarray | None, ROWS_OF_CLASSES]
    moments: Annotated[
        ClassMoments, Table(FIELDS_OF_SUMS, sums_fit, inline=True, of=ClassMoments)
    ]
    form: Annotated[Mapping, FORM]
    scaled: Annotated[bool, Flag(says="Whether the model scales features.")]
    factor: Annotated[
        float | None, Number(default=ABSENT, says="Factor on the model's logits.")
    ]
    effective_rows: Annotated[
        float | None,
        Number(
            high=LARGEST,
            default=ABSENT,
            says="Number of rows that the gradient is made from in effect.",
            detail=_effective_rows_in_words,
        ),
    ]
    kurtosis: Annotated[
        int | None,
        # That of n rows is at most n.
        number_of_rows(
            low=1,
            default=ABSENT,
            says="Kurtosis within classes, a power of two, of the model's logits or of "
            "combinations of the features. It is sent if it is far above that of "
            "Gaussian rows. It says that a few rows lie far outside of their class, "
            "and roughly how far.",
            detail=_kurtosis_in_words,
        ),
    ]
    class_weight: Annotated[
        list | str | None,
        Weights(
            ("balanced",),
            default=ABSENT,
            says="Class weights that the classifier was fitted with.",
        ),
    ]
    penalty: Annotated[Mapping | None, PENALTY]
    gradient: Annotated[np.ndarray | None, sums("d+1 k", says=GRADIENT, default=ABSENT)]
    gradients: Annotated[
        np.ndarray | None, sums("l d+1 k", says=_BY_CLASS, default=ABSENT)
    ]
    slope: Annotated[np.ndarray | None, sums("d+1 l", says=GRADIENT, default=ABSENT)]
    slopes: Annotated[
        np.ndarray | None, sums("l d+1 l", says=_BY_CLASS, default=ABSENT)
    ]

    def check(self, request: MomentsRequest, place: Place) -> None:
        check_moments(self, request, place)
