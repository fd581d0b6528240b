"""The task "class_sums": sums of features by class, or rows with each category."""

from collections.abc import Iterable, Mapping
from typing import Annotated

import numpy as np

from ..local import ChunkedMember, Member, Rows, check_room_for_means, naming_node
from ..messages import (
    ABSENT,
    MOST_ROWS,
    ROUNDING,
    Array,
    Flag,
    Number,
    Place,
    Request,
    Task,
    Text,
    labels_and_counts,
)
from ..moments import LARGEST, MOST_CATEGORIES, ClassSums
from ._shared import (
    CLASSES,
    ROWS_OF_CLASSES,
    DisclosedReply,
    described_sizes,
    rows_are_described,
    sums,
    sums_are_of_enough_rows,
    whole_numbers,
)
from ._told import ToldParts, summed


def _rows_in_words(content: Mapping, reply: Mapping) -> str:
    counts = content.get("n_rows", content["counts"])  # which may be sums of weights
    return f"{labels_and_counts(content['labels'], counts)}."


def check_class_sums(
    reply: "ClassSumsReply", request: "ClassSumsRequest", place: Place
) -> None:
    """Raise ValueError for sums of other rows than described, or of another kind."""
    kind = request.of
    counts = reply.counts
    sums_of_classes = reply.sums
    sums_are_of_enough_rows(reply.min_rows, counts, place)
    rows_are_described(reply.n_rows, reply.labels, place)
    _check_number_of_columns(reply, place, kind)
    if kind != "values" and np.any(
        sums_of_classes > counts[:, None] * (1.0 + ROUNDING)
    ):
        raise place.at("sums").wrong("are more than the rows")
    if kind == "categories":
        _check_one_category_a_row(reply, place)
    if place.described is None:
        return
    described = described_sizes(place, reply.labels)
    if np.any(np.abs(counts - described) > ROUNDING * described):
        raise place.at("counts").wrong("are not those of describe.rows")


def _check_number_of_columns(reply: "ClassSumsReply", place: Place, kind: str) -> None:
    if (reply.sizes is not None) != (kind == "categories"):
        raise place.at("sizes").wrong(f"is missing, or {kind!r} was asked for")
    n_sums = reply.sums.shape[1]
    n_columns = place.lengths.get("d", n_sums)
    if kind == "categories":
        n_columns = reply.sizes.sum(dtype=np.float64)
        if n_columns > MOST_CATEGORIES:
            raise place.at("sizes").wrong(f"are more than {MOST_CATEGORIES}")
    if n_sums != n_columns:
        raise place.at("sums").wrong(f"are {n_sums} of a class, not {n_columns}")


def _check_one_category_a_row(reply: "ClassSumsReply", place: Place) -> None:
    """For each feature the counts of its categories sum to the rows of the class."""
    counts = reply.counts
    sizes = reply.sizes
    starts = np.append(0.0, np.cumsum(sizes))[:-1].astype(int)
    totals = 0.0
    if sizes.all():
        totals = np.add.reduceat(reply.sums, starts, axis=1)
    if np.any(np.abs(totals - counts[:, None]) > ROUNDING * counts[:, None]):
        raise place.at("sums").wrong("are not one category for each row")


class ClassSumsRequest(Request):
    """Of which sums a node tells."""

    of: Annotated[str, Text(("values", "above", "categories"))]
    threshold: Annotated[float | None, Number(low=-LARGEST, high=LARGEST, default=None)]


class ClassSumsReply(DisclosedReply):
    """Sums of the features of the rows of each class."""

    labels: Annotated[list, CLASSES]
    n_rows: Annotated[np.ndarray | None, ROWS_OF_CLASSES]
    counts: Annotated[
        np.ndarray,
        Array(
            "l",
            low=0.0,
            high=float(MOST_ROWS),
            says="Number of rows of each class.",
            detail=_rows_in_words,
        ),
    ]
    sums: Annotated[
        np.ndarray,
        sums(
            "l n",
            low=0.0,
            says="Sums of each feature by class, or the number of rows of the class "
            "that are above a threshold or have each category. A sum over a single row "
            "is that row, and a sum over a few rows is near them. A category that only "
            "one row of a class has reveals that row.",
        ),
    ]
    sizes: Annotated[
        np.ndarray | None,
        whole_numbers(
            "d",
            default=ABSENT,
            says="For each feature, the highest category that a row has, plus 1.",
        ),
    ]
    left_out: Annotated[
        bool,
        Flag(
            says="Whether the rule of disclosure leaves classes out, lets rows weigh "
            "less or replaces values."
        ),
    ]

    def check(self, request: ClassSumsRequest, place: Place) -> None:
        check_class_sums(self, request, place)


def class_sums(member: Member, request: ClassSumsRequest) -> ClassSumsReply:
    """Reply with `ClassSums.from_rows` of the rows, and whether these are fewer."""
    # A row has one category of each column; chunks were checked before.
    if request.of != "categories" and not isinstance(member, ChunkedMember):
        X, y = member.rows("learning")
        n_rows, n_columns = X.shape
        check_room_for_means(
            member, n_rows=n_rows, n_columns=n_columns, n_classes=len(np.unique(y))
        )
    with naming_node(member.name, "its rows cannot be summed"):
        merged = ClassSums.merged(
            ClassSums.from_rows(
                X,
                y,
                of=request.of,
                threshold=request.threshold,
                weights=row_weights,
            )
            for X, y, row_weights in _learning_chunks(member)
        )
    return ClassSumsReply(
        **vars(merged),
        left_out=member.left_out is not None or _are_rows_changed(member),
        n_rows=member.n_rows_if_weighted(merged.labels),
    )


def _are_rows_changed(member: Member) -> bool:
    """Report whether rows weigh less under the rule, or have other values."""
    if isinstance(member, ChunkedMember):
        return member.rule is not None and member.rule.is_changed
    return member.is_changed


def _learning_chunks(
    member: Member,
) -> Iterable[tuple[Rows, np.ndarray, np.ndarray | None]]:
    """Rows that learn, their labels and weights, in one chunk where all are here."""
    if isinstance(member, ChunkedMember):
        return member.learning_rows()
    return [(*member.rows("learning"), member.row_weights("learning"))]


def _told(reply: ClassSumsReply) -> ToldParts:
    """Yield the numbers that sums of features by class are."""
    n_rows = reply.counts
    if reply.n_rows is not None:
        n_rows = np.minimum(n_rows, reply.n_rows)
    n_numbers = reply.sums.shape[1]
    if reply.sizes is not None:  # each row has one category of a feature
        n_numbers -= int((reply.sizes > 0).sum())
    for label, size in zip(reply.labels, n_rows.tolist(), strict=True):
        if size > 0:
            yield summed({label: size}, n_numbers)


CLASS_SUMS = Task(
    name="class_sums",
    bound="derived",
    discloses="sums",
    most=3,
    without="needed",
    accepted_by="anybody",
    asks="sums of features by class, or the number of rows that have each category",
    reveals="The fewer rows a sum is made from, the more it reveals about each of "
    "them. A category that only one row of a class has reveals that row.",
    alone=True,
    is_in_summaries=True,
    takes_chunks=True,
    takes_weights=True,
    reads="rows",
    request=ClassSumsRequest,
    reply=ClassSumsReply,
    of_user=("labels",),
    told=_told,
    answer=class_sums,
)
