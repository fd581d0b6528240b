"""The task "survey": what the columns of a node's table hold, before any model."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import numpy as np

from ..local import Member, TooFewRowsError
from ..messages import (
    ABSENT,
    Each,
    Labels,
    Place,
    Request,
    Table,
    Task,
    counting,
    listed,
    rows_in_words,
)
from ..steps import (
    names_of_columns,
    survey_of_column,
    survey_of_table,
)
from ._shared import (
    DisclosedReply,
    bound_on_rows,
    number_of_rows,
)
from ._surveyed_columns import (
    FIELDS_OF_COLUMN,
    OF_COLUMNS,
    check_sizes,
    column_is_of_enough_rows,
)

# ---- what fields say in figures ----------------------------------------------------


def _columns_in_words(content: Mapping, reply: Mapping) -> str:
    return f"The columns are {listed(map(repr, content['names']))}."


def _rows_told(content: Mapping, reply: Mapping) -> str:
    return f"Here {rows_in_words(content['n_rows'])}."


def _kinds_in_words(content: Mapping, reply: Mapping) -> str:
    categories = listed(
        f"{name!r} ({counting(len(told['labels']), 'category', 'categories')})"
        for name, told in zip(
            content["names"], content["columns"].values(), strict=True
        )
        if told.get("labels")
    )
    return f"Categories are told of: {categories or 'no column'}."


# ---- rules -------------------------------------------------------------------------


def check_columns(reply: "SurveyReply", place: Place) -> None:
    """Raise ValueError for columns without a name, or that tell of too few rows."""
    names = reply.names
    columns = reply.columns
    are_texts = all(isinstance(name, str) for name in names)
    place.deny(not are_texts, "names", "has names that are no texts")
    place.deny(len(set(names)) < len(names), "names", "has a name twice")
    if len(columns) != len(names):
        raise place.at("columns").wrong(f"are {len(columns)}, not {len(names)}")
    n_rows = reply.n_rows
    min_rows = reply.min_rows
    check_sizes([n_rows], place.at("n_rows"), min_rows=min_rows)
    tables = {f"columns.{number}": told for number, told in columns.items()}
    if reply.classes is not None:
        tables["classes"] = reply.classes
    for path, told in tables.items():
        column_is_of_enough_rows(told, place.at(path), n_rows=n_rows, min_rows=min_rows)


# ---- fields ------------------------------------------------------------------------

_OF_CLASSES = (
    "The same about the labels: the number of rows of each class that at least "
    "min_rows rows have."
)


class SurveyReply(DisclosedReply):
    """What each column holds, and how many rows each class has."""

    min_rows: Annotated[
        int | None,
        bound_on_rows(
            "The bound min_rows of the node. Every number is about at least this many "
            "rows, and so is what remains after the numbers that are told."
        ),
    ] = None
    n_rows: Annotated[int, number_of_rows(says="Number of rows.", detail=_rows_told)]
    names: Annotated[
        list, Labels(says="Names of the columns.", detail=_columns_in_words)
    ]
    columns: Annotated[
        Mapping, Each(FIELDS_OF_COLUMN, says=OF_COLUMNS, detail=_kinds_in_words)
    ]
    classes: Annotated[
        Mapping | None,
        Table(
            {
                name: replace(field, says=_OF_CLASSES)
                for name, field in FIELDS_OF_COLUMN.items()
            },
            default=ABSENT,
        ),
    ]

    def check(self, request: Request, place: Place) -> None:
        check_columns(self, place)


def survey(member: Member, request: Request) -> SurveyReply:
    """Say what each column holds, over all rows, and how many rows each class has.

    A row that the rule lowers counts less in means, of which it may be most. One of a
    class that is left out is in none: later messages tell sums of the others. Counts
    are of rows: where weights are lowered those of all rows are drawn, so that a
    weighted count less that of rows tells of none.
    """
    n_rows = member.X.shape[0]
    if n_rows < member.min_rows:
        raise TooFewRowsError(
            f"Node {member.name!r} has fewer than min_rows={member.min_rows} rows, so "
            "it tells nothing about its columns. Pass a Disclosure with a smaller "
            "min_rows if these rows may be known."
        )
    weights = member.weights
    if member.disclosure is not None:
        is_learning = np.zeros(n_rows)
        is_learning[member.learning] = 1.0
        weights = is_learning if weights is None else is_learning * weights
    classes = None
    if member.y is not None:
        classes = survey_of_column(member.y, min_rows=member.min_rows, are_labels=True)
    return SurveyReply(
        n_rows=n_rows,
        names=names_of_columns(member.X),
        columns=survey_of_table(
            member.X,
            min_rows=member.min_rows,
            weights=weights,
            is_ruled=member.disclosure is not None,
        ),
        classes=classes,
    )


SURVEY = Task(
    name="survey",
    bound="fields",
    discloses="counts",
    most=1,
    without="nothing",
    accepted_by="anybody",
    asks="what each column holds: gaps, means, spread and quantiles, or categories",
    reveals="Numbers of rows, and sums over at least min_rows rows each. Whoever gets "
    "two surveys of nearly the same rows can compare them, and may learn about the "
    "rows that are in one of them only.",
    begins_exchange=True,
    is_of_tables=True,
    request=Request,
    reply=SurveyReply,
    answer=survey,
)
