"""The task "join": the first message, a summary of a node's model and rows.

It holds what "describe" and "counts" reply, and replies to requests that need nothing
of other nodes.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

from ..compat import tracked
from ..local import Member, NodeShape, check_cost_of_content
from ..messages import (
    MOST_TEXT,
    TASKS,
    AnsweredWithin,
    AskedWithin,
    Each,
    Json,
    Message,
    Place,
    Request,
    Sentences,
    Task,
    Text,
    check_request,
    check_summary_of_request,
    fields_of_disclosure,
    sentences_of_fields,
)
from ._counts import CountsReply, counts
from ._describe import DescribeReply, describe
from ._shared import MODEL_REVEALS, DisclosedReply
from ._told import ToldParts


def sentences_of_summary(reply: "JoinReply") -> Iterator[tuple[str, Sentences]]:
    """Yield paths of the rule, the model, the counts and the numbered answers."""
    rule = {name: reply.fields[name] for name in ("min_rows", "rule")}
    yield from sentences_of_fields(rule, reply.as_content(), path="summary")
    for path, part in reply.parts().items():
        yield from sentences_of_fields(part.fields, part.as_content(), path=path)


def columns_described(reply: "JoinReply") -> int:
    """Return how many columns the model and the rows of a summary have."""
    return int(reply.describe.network.n_features_in)


class JoinRequest(Request):
    """A method with its settings, and the requests that they make."""

    method: Annotated[str, Text()]
    settings: Annotated[Mapping, Json()]
    requests: Annotated[
        Mapping[str, AskedWithin], Each(AskedWithin.fields, of=AskedWithin)
    ]

    @property
    def parts(self) -> list[Message]:
        """Return the requests as messages of their own."""
        return [asked.message for asked in self.requests.values()]

    def check(self, place: Place) -> None:
        """Raise ValueError for a request that brings a model, or fits no task."""
        place = Place("join.requests")
        for number, request in zip(self.requests, self.parts, strict=True):
            check_request(request)
            place_of_request = place.at(number)
            brings_model = "W" in request.content
            place_of_request.deny(brings_model, "does not ask for the node's own model")
            # Layers that a server makes up can be on for one row each, so that their
            # moments are the rows; those of merged units come later.
            brings_layers = request.content.get("hidden") is not None
            place_of_request.deny(
                brings_layers, "asks about hidden layers of the server's"
            )


class JoinReply(DisclosedReply):
    """A summary: the model, the counts, and the replies to the requests."""

    name: Annotated[str, Text(most=MOST_TEXT)]
    method: Annotated[str, Text()]
    settings: Annotated[Mapping, Json()]
    describe: Annotated[DescribeReply, Json(of=DescribeReply)]
    counts: Annotated[CountsReply, Json(of=CountsReply)]
    answers: Annotated[
        Mapping[str, AnsweredWithin],
        Each(AnsweredWithin.fields, some=True, of=AnsweredWithin),
    ]

    def parts(self) -> dict[str, DisclosedReply]:
        """Return the replies that it holds, by their paths."""
        answers = {
            f"answers.{number}": answer.reply for number, answer in self.answers.items()
        }
        return {"describe": self.describe, "counts": self.counts, **answers}


def _cost(rows: NodeShape, request: JoinRequest) -> None:
    for asked in request.requests.values():
        check_cost_of_content(asked.task, asked.asked, rows)


def join(member: Member, request: JoinRequest) -> JoinReply:
    """Reply to all that is asked at first."""
    answers = {}
    requests = request.requests
    for number, inner in tracked(requests.items(), "statistics", len(requests)):
        answers[number] = AnsweredWithin(
            task=inner.task,
            asked=inner.asked,
            reply=TASKS[inner.task].replied(member, inner.asked),
        )
    return JoinReply(
        name=member.name,
        method=request.method,
        settings=request.settings,
        **fields_of_disclosure(member.disclosure),
        describe=describe(member, Request()),
        counts=counts(member, Request()),
        answers=answers,
    )


def told_of_summary(reply: JoinReply) -> ToldParts:
    """Yield the numbers that the replies in a summary are, by class."""
    rows = reply.describe.rows
    sizes = dict(zip(rows.labels, map(float, rows.moments), strict=True))
    for answer in reply.answers.values():
        told = TASKS[answer.task].told
        for numbers in () if told is None else told(answer.reply):
            yield numbers.of_classes(sizes)


JOIN = Task(
    name="join",
    bound="derived",
    discloses="sums",
    most=1,
    without="nothing",
    accepted_by="anybody",
    asks="a summary: the node's model, the number of rows of each class, and "
    "statistics of its rows",
    reveals=MODEL_REVEALS,
    alone=True,
    takes_weights=True,
    request=JoinRequest,
    reply=JoinReply,
    reply_check=check_summary_of_request,
    begins_exchange=True,
    is_summary=True,
    summaries=lambda reply: [reply],
    first_requests=lambda request: [request],
    told=told_of_summary,
    n_columns=columns_described,
    sentences=sentences_of_summary,
    cost=_cost,
    answer=join,
)
