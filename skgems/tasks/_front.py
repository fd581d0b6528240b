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
    Array,
    ExposedGroups,
    Flag,
    FrontField,
    Labels,
    Place,
    Request,
    Table,
    Task,
    Text,
    Told,
    listed,
)
from ..moments import LARGEST
from ..steps import IDENTIFIES, NOT_USED, ROLES, numbers
from ._shared import N_ROWS, DisclosedReply, bound_on_rows, sums
from ._told import ToldParts, summed

# ---- what fields say in figures ----------------------------------------------------


def _parts_in_words(content: Mapping, reply: Mapping) -> str:
    parts = listed(
        f"{part['statistic']} (step {path})" for path, part in content["parts"].items()
    )
    return f"Here: {parts or 'nothing'}."


def _roles_in_words(columns: Mapping, reply: Mapping) -> str:
    labels = columns.get("names") or range(len(columns["roles"]))
    identifiers = [
        repr(label)
        for label, role in zip(labels, columns["roles"], strict=True)
        if role == IDENTIFIES
    ]
    words = "No column does."
    if identifiers:
        words = f"These columns do: {listed(identifiers)}."
    dropped = [
        repr(label)
        for label, role in zip(labels, columns["roles"], strict=True)
        if role == NOT_USED
    ]
    return f"{words} Dropped: {listed(dropped)}." if dropped else words


# ---- rules -------------------------------------------------------------------------


def roles_are_words(columns: Mapping, place: Place) -> None:
    """Roles of columns are those that there are."""
    unknown = sorted(set(columns.get("roles", ())) - set(ROLES), key=str)
    if unknown:
        raise place.at("roles").wrong(f"has {unknown[0]!r:.40}, none of {list(ROLES)}")


def _forget_number_of_labels(table: Mapping, place: Place) -> None:
    """Let the next table of categories have another length."""
    place.lengths.pop("l", None)


# ---- fields ------------------------------------------------------------------------


def _drops_identifiers(request: "FrontRequest") -> bool:
    """Report whether a request is the first of a front that drops columns."""
    front = request.front
    return bool(front.get("drop_identifiers")) and front.get("columns") is None


_SEEN = "Number of columns, their names, and which of them hold texts."
COLUMNS = {
    "names": Labels("c", default=None, says=_SEEN),
    "text": Labels("c", says=_SEEN),
    "dtype": Text(("float32", "float64"), says=_SEEN),
    "roles": Labels(
        "c",
        when=_drops_identifiers,
        says="For each column, whether it identifies rows: whether nearly every row "
        "has a value of its own there. Nothing else is said of columns that the node's "
        "classifier drops by name.",
        detail=_roles_in_words,
    ),
}
_COUNTS = Array("d", low=0.0)
_MEANS = Array("d")
_ABOUT_MEANS = {"counts": _COUNTS, "means": _MEANS, "squares": sums("d", low=0.0)}
# A power transform takes columns to the power of four at most.
_POWERS = {
    "counts": _COUNTS,
    "means": Array("p d", high=LARGEST**4),
    "squares": Array("p d", low=0.0, high=LARGEST**8),
    "slopes": _MEANS,
}
_PARTS = {"counts": _COUNTS, "logarithms": Array("p d")}
_CATEGORIES = {
    "labels": Labels("l"),
    "counts": Array("l", low=0.0),
    "withheld": N_ROWS,
    "none": N_ROWS,
    "nan": N_ROWS,
}
# Fields of what each kind of statistic is told by.
STATISTICS = {
    "columns": {"n_rows": N_ROWS, **_ABOUT_MEANS},
    "scatter": {"n_rows": N_ROWS, "mean": _MEANS, "triangle": sums("d(d+1)/2")},
    "categories": {
        "n_rows": N_ROWS,
        "each": Table(_CATEGORIES, rule=_forget_number_of_labels),
    },
    "histogram": {"n_rows": N_ROWS, "cumulative": Array("d *", low=0.0)},
    "powers": _POWERS,
    "box_powers": _POWERS,
    "parts": _PARTS,
    "box_parts": _PARTS,
}


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
    again: Annotated[bool | None, Flag(default=ABSENT, says=_SEEN)]
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
