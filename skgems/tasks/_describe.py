"""The task "describe": a node's model, and how many rows of which class it has."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import numpy as np

from ..local import Member, has_linear_model
from ..messages import (
    MOST_ROWS,
    Labels,
    Part,
    Place,
    Request,
    Task,
    labels_and_counts,
    rows_in_words,
)
from ..networks import ModuleState, Network
from ._described_network import NETWORK, NetworkTable, model_fits
from ._shared import (
    MODEL_REVEALS,
    DisclosedReply,
    optional_array,
    whole_numbers,
)

# ---- what fields say in figures ----------------------------------------------------


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


def check_sizes_of_classes(rows: "RowCounts", min_rows: int, place: Place) -> None:
    """Raise ValueError for a class of fewer rows than the node's own bound."""
    learning = np.maximum(rows.moments, rows.training)
    # Of classes whose rows are all held out, these are counted.
    sizes = np.where(learning > 0, learning, rows.judging)
    too_small = np.flatnonzero(sizes < min_rows)
    if len(too_small):
        first = too_small[0]
        raise place.at("min_rows").wrong(
            f"is {min_rows}, but there are {sizes[first]} rows of the class "
            f"{rows.labels[first]!r:.40}"
        )


# ---- fields ------------------------------------------------------------------------

_COUNTED = (
    "Number of rows of each class that judge models, that enter moments, and that may "
    "be trained on."
)
_OF_ROLE = whole_numbers("l", says=_COUNTED)


class RowCounts(Part):
    """How many rows of each class have which role."""

    labels: Annotated[
        list, Labels("l", ordered=True, says=_COUNTED, detail=_rows_in_words)
    ]
    judging: Annotated[np.ndarray, _OF_ROLE]
    moments: Annotated[np.ndarray, _OF_ROLE]
    training: Annotated[np.ndarray, _OF_ROLE]
    weights: Annotated[
        np.ndarray | None,
        optional_array(
            "l",
            high=float(MOST_ROWS),
            says="Sum of the weights of the rows of each class that enter moments, if "
            "the node has given its rows weights. With a bound min_rows of 1 it may be "
            "the weight of a single row.",
        ),
    ]

    def check(self, place: Place) -> None:
        """Raise ValueError for no rows of a role, or more than can be counted."""
        for role in ("judging", "moments", "training"):
            counts = getattr(self, role)
            if counts.sum(dtype=np.float64) > MOST_ROWS:
                raise place.at(role).wrong(f"are more than {MOST_ROWS} rows")
            place.deny(not counts.any(), role, "are no rows at all")
        if self.weights is not None:
            if not np.array_equal(self.weights > 0, self.moments > 0):
                raise place.at("weights").wrong("are not above 0 where there are rows")


class DescribeReply(DisclosedReply):
    """The network of the node, and its rows by role and class."""

    network: Annotated[Network | ModuleState, NetworkTable(NETWORK, model_fits)]
    rows: Annotated[RowCounts, RowCounts.table()]

    def check(self, request: Request, place: Place) -> None:
        check_sizes_of_classes(self.rows, self.min_rows, place)


def describe(member: Member, request: Request) -> DescribeReply:
    """Return the node's network, and the number of rows by role and class."""
    labels, counts_by_role = member.row_counts()
    network = member.model.described
    if member.disclosure is not None and has_linear_model(member):
        # Means and deviations of all rows, whatever these weigh under the rule.
        network = replace(network, coordinates=None)
    return DescribeReply(
        network=network,
        rows=RowCounts(
            labels=labels, **counts_by_role, weights=member.weights_by_label()
        ),
    )


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
