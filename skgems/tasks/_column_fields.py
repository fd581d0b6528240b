"""What nodes tell of columns for the steps of a front: fields, words and rules."""

from collections.abc import Mapping
from typing import Any

from ..messages import Array, Labels, Place, Table, Text, listed
from ..moments import LARGEST
from ..steps import IDENTIFIES, NOT_USED, ROLES
from ._shared import N_ROWS, sums


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


def roles_are_words(columns: Mapping, place: Place) -> None:
    """Roles of columns are those that there are."""
    unknown = sorted(set(columns.get("roles", ())) - set(ROLES), key=str)
    if unknown:
        raise place.at("roles").wrong(f"has {unknown[0]!r:.40}, none of {list(ROLES)}")


def _forget_number_of_labels(table: Mapping, place: Place) -> None:
    """Let the next table of categories have another length."""
    place.lengths.pop("l", None)


def _drops_identifiers(request: Any) -> bool:
    """Report whether a request is the first of a front that drops columns."""
    front = request.front
    return bool(front.get("drop_identifiers")) and front.get("columns") is None


SEEN = "Number of columns, their names, and which of them hold texts."


COLUMNS = {
    "names": Labels("c", default=None, says=SEEN),
    "text": Labels("c", says=SEEN),
    "dtype": Text(("float32", "float64"), says=SEEN),
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
