"""The task "grow_halves": histograms for trees of each half of a node's rows.

Either half of the rows (`halves_of`) has trees of its own, which grow as by the task
"grow". One message is about both, so that a level of them takes one message, too.
"""

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from ..local import Member, NodeShape, check_cost_of_content
from ..messages import Array, Place, Request, Table, Task
from ._grow import GROW, GrowRequest, grow
from ._members_of_halves import HALF_NAMES, members_of_halves
from ._shared import DisclosedReply

# Both halves have the same classes, and as many features are drawn for each leaf.
_LENGTHS_OF_BOTH = {"k", "j"}

# ---- rules -------------------------------------------------------------------------


def leaves_of_half_are_sound(content: Mapping, place: Place) -> None:
    """Trees of one half are sound; those of the other have lengths of their own."""
    GrowRequest.from_content(content).check(place)
    for letter in place.lengths.keys() - _LENGTHS_OF_BOTH:
        del place.lengths[letter]


# ---- fields ------------------------------------------------------------------------

_OF_HALF = Table(
    GrowRequest.fields, leaves_of_half_are_sound, of=GrowRequest, default=None
)


class GrowHalvesRequest(Request):
    """A request "grow" for each half whose trees have not grown up."""

    first: Annotated[GrowRequest | None, _OF_HALF]
    second: Annotated[GrowRequest | None, _OF_HALF]
    front: Mapping | None = None  # which all tasks have

    @property
    def by_half(self) -> dict[str, GrowRequest]:
        """The requests "grow", by the half that they are about."""
        asked = {half: getattr(self, half) for half in HALF_NAMES}
        return {half: of_half for half, of_half in asked.items() if of_half is not None}

    def check(self, place: Place) -> None:
        place.deny(not self.by_half, "asks about no half")


def _counts_of(half: str) -> Array:
    return Array(
        "*",
        kinds="u",
        when=lambda request: getattr(request, half) is not None,
        says=f"How many rows of the {half} half lie in each bin of features, "
        "by class, at leaves of trees. A leaf is a rule about several "
        "features. Where min_rows is above 1, counts up to each bin are "
        "rounded to multiples of it; else deep leaves speak of single rows.",
    )


class GrowHalvesReply(DisclosedReply):
    """The counts of a reply to "grow", of each half."""

    first: Annotated[np.ndarray | None, _counts_of("first")]
    second: Annotated[np.ndarray | None, _counts_of("second")]

    def check(self, request: GrowHalvesRequest, place: Place) -> None:
        for half, asked in request.by_half.items():
            counts = getattr(self, half)
            asked.check_counts(counts, place.at(half), min_rows=self.min_rows)


# ---- cost and answer ---------------------------------------------------------------


def _cost(rows: NodeShape, request: GrowHalvesRequest) -> None:
    for asked in request.by_half.values():
        check_cost_of_content(GROW.name, asked.as_content(), rows)


def grow_halves(member: Member, request: GrowHalvesRequest) -> GrowHalvesReply:
    """Count the rows of each half that was asked about, at leaves of its trees."""
    requests = request.by_half
    members = members_of_halves(member, request.front, may_lack_values=True)
    return GrowHalvesReply(
        **{
            half: grow(member_of_half, requests[half]).counts
            for half, member_of_half in members
            if half in requests
        }
    )


GROW_HALVES = Task(
    name="grow_halves",
    bound="terms",
    discloses="consent",
    most=GROW.most,
    without="the forest",
    accepted_by="person",
    asks="how many rows of each half of the node's rows lie in each bin of features at "
    "leaves of trees, by class",
    reveals=GROW.reveals,
    often=GROW.often,
    smaller_with_lower=GROW.smaller_with_lower,
    bytes_of_rows=GROW.bytes_of_rows,
    has_fronts_within=True,
    request=GrowHalvesRequest,
    reply=GrowHalvesReply,
    of_user=(),
    cost=_cost,
    answer=grow_halves,
)
