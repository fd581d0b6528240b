"""The task "counts": how many rows of each class a node may train on."""

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from ..local import Member
from ..messages import Labels, Place, Request, Task, labels_and_counts
from ._shared import DisclosedReply, described_counts, whole_numbers

_TO_TRAIN = "Number of rows of each class that the node may train on."


def _counts_in_words(content: Mapping, reply: Mapping) -> str:
    return f"{labels_and_counts(content['labels'], content['counts'])}."


class CountsReply(DisclosedReply):
    """The number of rows of each class that has any."""

    labels: Annotated[
        list, Labels("l", ordered=True, says=_TO_TRAIN, detail=_counts_in_words)
    ]
    counts: Annotated[np.ndarray, whole_numbers("l", says=_TO_TRAIN)]

    def check(self, request: Request, place: Place) -> None:
        """Raise ValueError for counts other than those that the node has described."""
        if place.described is None:
            return
        described = described_counts(place, "training", self.labels, unknown=-1)
        differ = not np.array_equal(described, self.counts)
        place.deny(differ, "counts", "are not those of describe.rows")


def counts(member: Member, request: Request) -> CountsReply:
    """Return the number of rows that may be trained on, of classes that have any."""
    labels, counts_by_role = member.row_counts()
    n_training = counts_by_role["training"]
    columns = np.flatnonzero(n_training)
    return CountsReply(labels=[labels[k] for k in columns], counts=n_training[columns])


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
    request=Request,
    reply=CountsReply,
    of_user=("labels",),
    answer=counts,
)
