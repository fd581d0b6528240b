"""The task "front": what a step of transformers, on which all agree, is fitted to."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated

import numpy as np

from ..disclosure import products_hold
from ..local import (
    Member,
    TooFewRowsError,
    learning_columns,
    opened_front,
)
from ..messages import (
    ABSENT,
    ExposedGroups,
    Flag,
    FrontField,
    Request,
    Table,
    Task,
    Told,
    listed,
)
from ..steps import numbers
from ._column_fields import COLUMNS, SEEN, STATISTICS, roles_are_words
from ._shared import DisclosedReply, bound_on_rows
from ._told import ToldParts, summed

# ---- what fields say in figures ----------------------------------------------------


def _parts_in_words(content: Mapping, reply: Mapping) -> str:
    parts = listed(
        f"{part['statistic']} (step {path})" for path, part in content["parts"].items()
    )
    return f"Here: {parts or 'nothing'}."


# ---- fields ------------------------------------------------------------------------


class FrontRequest(Request):
    """A front, of which one step waits."""

    front: Annotated[Mapping, FrontField()]


class FrontReply(DisclosedReply):
    """What the step that waits is fitted to."""

    min_rows: Annotated[
        int | None,
        bound_on_rows(
            "The bound min_rows of the node. It has at least this many rows, and so "
            "does each category that it sends."
        ),
    ] = None
    columns: Annotated[Mapping, Table(COLUMNS, roles_are_words)]
    again: Annotated[bool | None, Flag(default=ABSENT, says=SEEN)]
    parts: Annotated[
        Mapping,
        Told(
            STATISTICS,
            says="Statistics of the columns that enter each step, over all rows "
            "together: means and squares about them, products for PCA, or sums after "
            "power transforms (under a rule of disclosure means of logarithms over "
            "parts of a tenth of the sorted values). Categories that at least min_rows "
            "rows have, and the number of rows that have others. Counts on a grid, in "
            "multiples of min_rows.",
            detail=_parts_in_words,
        ),
    ]


def front(member: Member, request: FrontRequest) -> FrontReply:
    """Tell what the step of a front that waits is fitted to."""
    X = learning_columns(member)
    if X.shape[0] < member.min_rows:
        raise TooFewRowsError(
            f"Node {member.name!r} has fewer than min_rows={member.min_rows} rows, so "
            "it sends no statistics of their columns. Pass a Disclosure with a smaller "
            "min_rows if these rows may be known."
        )
    content = opened_front(request.front).tell(
        X,
        min_rows=member.min_rows,
        memo=member.memo,
        dropped=member.dropped,
        weights=member.row_weights("learning"),
        check_products=partial(_check_products, member),
    )
    return FrontReply(**content)


def _check_products(member: Member, table: object) -> None:
    """Raise TooFewRowsError where the rule lets no products of all columns be told."""
    if member.disclosure is None:
        return
    X = numbers(table)
    row_weights = member.row_weights("learning")
    holds = products_hold(
        X,
        member.disclosure,
        units=member.units("learning"),
        weights=np.ones(len(X)) if row_weights is None else row_weights,
        n_unknowns=member.n_raw_columns or X.shape[1],
    )
    if not holds:
        raise TooFewRowsError(
            f"Node {member.name!r} has {len(X)} rows, too few to send products of "
            f"{X.shape[1]} columns under its rule of disclosure. Leave out the step "
            "that needs them, such as PCA, or have it select fewer columns before; or "
            "pass disclosure=None if single rows may be known."
        )


def _columns_told(reply: FrontReply) -> int:
    """Return how many columns the reply to a front tells of."""
    return len(reply.columns["text"])


def exposed_columns(reply: FrontReply) -> ExposedGroups:
    """Return whether a step needs covariances of more columns than there are rows."""
    for part in reply.parts.values():
        if "triangle" in part and part["n_rows"] <= len(part["mean"]):
            n_rows = {"all": int(part["n_rows"])}
            return ExposedGroups(n_columns=len(part["mean"]), n_rows=n_rows)
    return ExposedGroups()


def _told(reply: FrontReply) -> ToldParts:
    """Yield the numbers that statistics of columns over all rows are.

    How many rows have a value is not counted: it is about gaps, not about values.
    """
    for told in reply.parts.values():
        not_numbers = ("counts", "cumulative")
        arrays = [np.asarray(told[name]) for name in told if name not in not_numbers]
        n_numbers = sum(array.size for array in arrays if array.dtype.kind == "f")
        # Histograms count in steps of several rows, and tell where each step is.
        for cumulative in told.get("cumulative", ()):
            n_numbers += len(np.unique(cumulative[cumulative > 0]))
        if "n_rows" in told:
            n_rows = float(told["n_rows"])
            n_numbers -= 1  # n_rows is one of them
        else:  # power transforms count the rows of each column
            n_rows = float(np.max(told.get("counts", 0.0), initial=0.0))
        if n_rows > 0:
            yield summed({None: n_rows}, n_numbers)


FRONT = Task(
    name="front",
    bound="fields",
    discloses="sums",
    most=6,
    # A node checks what comes back by its own part in it.
    without="what follows",
    accepted_by="anybody",
    asks="the statistics that the agreed transformers are fitted to",
    takes_weights=True,  # steps are fitted to rows, whatever a user says they weigh
    reveals="Statistics of columns over the rows that the node sums. The smallest and "
    "the largest value of a column are values of single rows and are not sent.",
    begins_exchange=True,
    fits_front=True,
    told=_told,
    n_columns=_columns_told,
    exposed=exposed_columns,
    often="once for each step that needs rows",
    request=FrontRequest,
    reply=FrontReply,
    answer=front,
)
