"""The task "grow_halves": histograms for trees of each half of a node's rows.

Either half of the rows (`halves_of`) has trees of its own, which grow as by the task
"grow". One message is about both, so that a level of them takes one message, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..local import Member, NodeShape, check_cost_of_content
from ..messages import Array, Place, Table, Task
from ._grow import FIELDS_OF_GROWTH, GROW, counts_are_of_leaves, drawn_are_sound, grow
from ._halves import HALF_NAMES, members_of_halves
from ._shared import MIN_ROWS, RULE

# Both halves have the same classes, and as many features are drawn for each leaf.
_LENGTHS_OF_BOTH = {"k", "j"}

# ---- rules -------------------------------------------------------------------------


def leaves_of_half_are_sound(content: Mapping, place: Place) -> None:
    """Trees of one half are sound; those of the other have lengths of their own."""
    drawn_are_sound(content, place)
    for letter in place.lengths.keys() - _LENGTHS_OF_BOTH:
        del place.lengths[letter]


def any_half_is_asked(request: Mapping, place: Place) -> None:
    """The trees of one half may have grown up before those of the other."""
    place.deny(not asked_halves(request), "asks about no half")


def asked_halves(request: Mapping) -> dict[str, Mapping]:
    """The contents of the requests "grow", by the half that they are about."""
    return {half: request[half] for half in HALF_NAMES if request.get(half) is not None}


def counts_are_of_halves(content: Mapping, place: Place) -> None:
    """Counts are those that were asked for, of each half."""
    for half, asked in asked_halves(place.asked).items():
        reply = {"counts": content[half], "min_rows": content["min_rows"]}
        counts_are_of_leaves(reply, replace(place.at(half), asked=asked))


def _is_asked(half: str) -> Callable[[Mapping], bool]:
    return lambda request: half in asked_halves(request)


# ---- cost and answer ---------------------------------------------------------------


def _cost(rows: NodeShape, content: Mapping) -> None:
    for asked in asked_halves(content).values():
        check_cost_of_content("grow", asked, rows)


def grow_halves(
    member: Member, *, front: Mapping | None = None, **asked: Mapping
) -> dict:
    """Counts of the rows of each half that was asked about, at leaves of its trees."""
    contents = asked_halves(asked)
    members = members_of_halves(member, front, may_lack_values=True)
    return {
        half: grow(member_of_half, **contents[half])["counts"]
        for half, member_of_half in members
        if half in contents
    }


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
    request={
        half: Table(FIELDS_OF_GROWTH, leaves_of_half_are_sound, default=None)
        for half in HALF_NAMES
    },
    request_rule=any_half_is_asked,
    reply={
        "min_rows": MIN_ROWS,
        "rule": RULE,
        **{
            half: Array(
                "*",
                kinds="u",
                when=_is_asked(half),
                says=f"How many rows of the {half} half lie in each bin of features, "
                "by class, at leaves of trees. A leaf is a rule about several "
                "features. Where min_rows is above 1, counts up to each bin are "
                "rounded to multiples of it; else deep leaves speak of single rows.",
            )
            for half in HALF_NAMES
        },
    },
    rule=counts_are_of_halves,
    cost=_cost,
    answer=grow_halves,
)
