"""The task "counts": how many rows of each class a node may train on."""

from collections.abc import Mapping

import numpy as np

from ..local import Member
from ..messages import Labels, Place, Task, labels_and_counts
from ._shared import MIN_ROWS, RULE, described_counts, whole_numbers

_TO_TRAIN = "Number of rows of each class that the node may train on."


def _counts_in_words(content: Mapping, reply: Mapping) -> str:
    return f"{labels_and_counts(content['labels'], content['counts'])}."


def counts_are_described(content: Mapping, place: Place) -> None:
    """Counts are those that the node has described, where it has."""
    if place.described is None:
        return
    described = described_counts(place, "training", content["labels"], unknown=-1)
    differ = not np.array_equal(described, content["counts"])
    place.deny(differ, "counts", "are not those of describe.rows")


def counts(member: Member) -> dict:
    """The number of rows that may be trained on, of classes that have any."""
    labels, counts_by_role = member.row_counts()
    n_training = counts_by_role["training"]
    columns = np.flatnonzero(n_training)
    return {"labels": [labels[k] for k in columns], "counts": n_training[columns]}


COUNTS = Task(
    name="counts",
    bound="fields",
    discloses="counts",
    most=1,
    without="needed",
    accepted_by="anybody",
    asks="the number of rows of each class that the node may train on",
    reveals="The number of rows of each class, and nothing about single rows.",
    alone=True,
    is_in_all_summaries=True,
    takes_weights=True,
    request={},
    reply={
        "min_rows": MIN_ROWS,
        "rule": RULE,
        "labels": Labels("l", ordered=True, says=_TO_TRAIN, detail=_counts_in_words),
        "counts": whole_numbers("l", says=_TO_TRAIN),
    },
    rule=counts_are_described,
    answer=counts,
)
