"""The task "halves": summaries of each half of a node's rows, for several methods.

Each node deals its rows of each class into two halves (`halves_of`). Models are made of
the summaries of one half of all nodes, and judged by the rows of the other, so that no
model is judged by rows that it was made of. Rows of one group, such as those of a
patient, are in the same half. No message tells of groups.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated

from ..local import (
    Member,
    NodeShape,
    TooFewRowsError,
    check_cost_of_content,
    n_told_before,
)
from ..messages import (
    MOST_TEXT,
    Each,
    Json,
    Part,
    Place,
    Request,
    Sentences,
    SummaryField,
    Task,
    Text,
    check_is_of_request,
)
from ..parties import (
    allows_missing,
)
from ..steps import ColumnsError
from ._join import (
    JOIN,
    JoinReply,
    columns_described,
    join,
    sentences_of_summary,
    told_of_summary,
)
from ._members_of_halves import HALF_NAMES, members_of_halves
from ._shared import DisclosedReply
from ._sums_beside_others import JoinBehindFront, reasons_beside_others
from ._told import ToldParts


def check_halves(reply: "HalvesReply", request: "HalvesRequest", place: Place) -> None:
    """Raise ValueError unless each method has two summaries that it asked for."""
    asked = request.asked
    for number, reason in reply.refused.items():
        place_of_reason = place.at("refused").at(number)
        place_of_reason.deny(number not in asked, "was not asked for")
        place_of_reason.deny(number in reply.joins, "is there, though joins has sums")
        Text(most=MOST_TEXT).check(reason, place_of_reason)
    for number, pair in reply.joins.items():
        place_of_pair = place.at("joins").at(number)
        place_of_pair.deny(number not in asked, "was not asked for")
        for summary in pair.by_half.values():
            check_is_of_request(summary, asked[number])


class HalvesRequest(Request):
    """The first message of each method, by number."""

    asked: Annotated[
        Mapping[str, JoinBehindFront], Each(JoinBehindFront.fields, of=JoinBehindFront)
    ]

    def check(self, place: Place) -> None:
        for first in self.asked.values():
            first.check(place)


class JoinsOfHalves(Part):
    """The summary of each half of the rows."""

    first: Annotated[JoinReply, SummaryField(of=JoinReply)]
    second: Annotated[JoinReply, SummaryField(of=JoinReply)]

    @property
    def by_half(self) -> dict[str, JoinReply]:
        """The summaries by the names of the halves."""
        return {name: getattr(self, name) for name in HALF_NAMES}


class HalvesReply(DisclosedReply):
    """Two summaries for each method, or the reason why there are none."""

    joins: Annotated[
        Mapping[str, JoinsOfHalves],
        Each(JoinsOfHalves.fields, some=True, of=JoinsOfHalves),
    ]
    refused: Annotated[
        Mapping, Json(says="Reasons why there are no summaries for some methods.")
    ]

    def check(self, request: HalvesRequest, place: Place) -> None:
        check_halves(self, request, place)

    def summaries(self) -> Iterator[tuple[str, str, JoinReply]]:
        """Yield the number of a method, the name of a half, and the summary of it."""
        for number, pair in self.joins.items():
            for half, summary in pair.by_half.items():
                yield number, half, summary


def _cost(rows: NodeShape, request: HalvesRequest) -> None:
    for first in request.asked.values():
        check_cost_of_content(JOIN.name, first.as_content(), rows)


def _cost_of_methods(rows: NodeShape, request: HalvesRequest) -> None:
    rows.check("methods", len(request.asked), "the request 'halves'")


def _fewest_columns(reply: HalvesReply) -> int:
    """Return how many columns the rows have behind the narrowest front."""
    return min(columns_described(summary) for _, _, summary in reply.summaries())


def _told(reply: HalvesReply) -> ToldParts:
    """Yield the numbers that the summaries of each half of the rows are."""
    for _, half, summary in reply.summaries():
        for numbers in told_of_summary(summary):
            yield numbers.of_half(half)


def _sentences(reply: HalvesReply) -> Iterator[tuple[str, Sentences]]:
    for number, half, summary in reply.summaries():
        for path, sentences in sentences_of_summary(summary):
            yield f"{number}.{half}.{path}", sentences
    for number, reason in reply.refused.items():
        refusal = f"No summaries are sent: {reason}."
        yield f"{number}.refused", Sentences(meaning=refusal)


def halves(member: Member, request: HalvesRequest) -> HalvesReply:
    """Summarize the first half of the rows and of the second, by number.

    "refused" has, by number, why there are none, in words that tell no value of a row.
    """
    asked = request.asked
    joins: dict[str, JoinsOfHalves] = {}
    refused: dict[str, str] = {}
    members: dict[str, dict[str, Member]] = {}
    for number, first in asked.items():
        try:
            members[number] = _members_of_halves(member, first)
        # An error of one method, of whatever type, costs the others nothing.
        except Exception as error:
            refused[number] = _reason_for_refusal(error, min_rows=member.min_rows)
    # Numbers about all rows are told of both halves.
    n_before = n_told_before(member) / len(HALF_NAMES)
    reasons = reasons_beside_others(members, asked=asked, n_before=n_before)
    for number, reason in reasons.items():
        del members[number]
        refused[number] = reason
    for number, members_of_method in members.items():
        try:
            joins[number] = JoinsOfHalves(
                **{
                    name: join(member_of_half, asked[number])
                    for name, member_of_half in members_of_method.items()
                }
            )
        # An error of one method, of whatever type, costs the others nothing.
        except Exception as error:
            refused[number] = _reason_for_refusal(error, min_rows=member.min_rows)
    return HalvesReply(joins=joins, refused=refused)


def _members_of_halves(member: Member, first: JoinBehindFront) -> dict[str, Member]:
    """Return the members that answer for the halves, by name, under one method."""
    may_lack_values = allows_missing(replace(first, front=None).as_message(JOIN.name))
    return dict(members_of_halves(member, first.front, may_lack_values=may_lack_values))


def _reason_for_refusal(failure: Exception, *, min_rows: int) -> str:
    """Why a node sends no sums: the text of an error may have values or counts."""
    if isinstance(failure, TooFewRowsError):
        return (
            f"one half of the node's rows has fewer than min_rows={min_rows} rows of "
            "every class"
        )
    if isinstance(failure, ColumnsError):
        return str(failure).rstrip(".")
    if isinstance(failure, ValueError | TypeError):
        return "the method does not take rows of this kind"
    return f"the method failed at the node with {type(failure).__name__}"


HALVES = Task(
    name="halves",
    bound="derived",
    discloses="sums",
    most=1,
    without="nothing",
    accepted_by="ledger",
    asks="summaries of each half of the node's rows, for several methods",
    reveals="Statistics of one half of the rows reveal more about each of them than "
    "statistics of all rows.",
    has_fronts_within=True,
    request=HalvesRequest,
    reply=HalvesReply,
    summaries=lambda reply: [summary for _, _, summary in reply.summaries()],
    first_requests=lambda request: list(request.asked.values()),
    halves_rows=True,
    told=_told,
    n_columns=_fewest_columns,
    early_cost=_cost_of_methods,
    sentences=_sentences,
    cost=_cost,
    answer=halves,
)
