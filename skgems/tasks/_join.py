"""The task "join": the first message, a summary of a node's model and rows.

It holds what "describe" and "counts" reply, and replies to requests that need nothing
of other nodes.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

from ..local import Member, NodeShape, check_cost_of_content
from ..messages import (
    MOST_TEXT,
    REQUEST_WITHIN,
    TASKS,
    Each,
    Json,
    Message,
    Place,
    Request,
    Sentences,
    Task,
    Text,
    ToldNumbers,
    check_request,
    check_summary_of_request,
    fields_of_disclosure,
    pairs_in,
    requests_in,
    sentences_in,
    sentences_of_fields,
    told_numbers,
)
from ..progress import tracked
from ._counts import counts
from ._describe import describe
from ._shared import MODEL_REVEALS, DisclosedReply


def check_requests_within(content: Mapping, place: Place | None = None) -> None:
    """Raise ValueError for a request that brings a model, or fits no task."""
    place = Place("join.requests")
    for number, request in zip(content["requests"], requests_in(content), strict=True):
        check_request(request)
        place_of_request = place.at(number)
        brings_model = "W" in request.content
        place_of_request.deny(brings_model, "does not ask for the node's own model")
        # Layers that a server makes up can be on for one row each, so that their
        # moments are the rows; those of merged units come later.
        brings_layers = request.content.get("hidden") is not None
        place_of_request.deny(brings_layers, "asks about hidden layers of the server's")


def _check_joined(request: Message, reply: Message) -> None:
    check_summary_of_request(reply.content, request.content)


def sentences_of_summary(reply: "JoinReply") -> Iterator[tuple[str, Sentences]]:
    """Yield paths of the rule, the model, the counts and the numbered answers."""
    rule = {name: reply.fields[name] for name in ("min_rows", "rule")}
    content = reply.as_content()
    yield from sentences_of_fields(rule, content, path="summary")
    for k, (_, message) in enumerate(pairs_in(content)):
        for path, sentences in sentences_in(message):
            # All of them have the rule in common.
            if path.endswith((".min_rows", ".rule")):
                continue
            if k >= 2:  # before are model and counts
                _, _, path_within = path.partition(".")
                path = f"answers.{k - 2}.{path_within}"
            yield path, sentences


def columns_described(reply: "JoinReply") -> int:
    """Return how many columns the model and the rows of a summary have."""
    return int(reply.describe["network"]["n_features"])


class JoinRequest(Request):
    """A method with its settings, and the requests that they make."""

    method: Annotated[str, Text()]
    settings: Annotated[Mapping, Json()]
    requests: Annotated[Mapping, Each(REQUEST_WITHIN)]

    def check(self, place: Place) -> None:
        check_requests_within(self.as_content())


class JoinReply(DisclosedReply):
    """A summary: the model, the counts, and the replies to the requests."""

    name: Annotated[str, Text(most=MOST_TEXT)]
    method: Annotated[str, Text()]
    settings: Annotated[Mapping, Json()]
    describe: Annotated[Mapping, Json()]
    counts: Annotated[Mapping, Json()]
    answers: Annotated[Mapping, Json()]


def _cost(rows: NodeShape, request: JoinRequest) -> None:
    for request_within in requests_in(request.as_content()):
        check_cost_of_content(request_within.task, request_within.content, rows)


def join(member: Member, request: JoinRequest) -> JoinReply:
    """Reply to all that is asked at first."""
    answers = {}
    requests = request.requests
    for number, inner in tracked(requests.items(), "statistics", len(requests)):
        reply = TASKS[inner["task"]].answered(member, inner["asked"])
        answers[number] = {**inner, "reply": reply}
    return JoinReply(
        name=member.name,
        method=request.method,
        settings=request.settings,
        **fields_of_disclosure(member.disclosure),
        describe=describe(member, Request()).as_content(),
        counts=counts(member, Request()).as_content(),
        answers=answers,
    )


def told_of_summary(reply: JoinReply) -> Iterator[ToldNumbers]:
    """Yield the numbers that the replies in a summary are, by class."""
    counted = reply.describe["rows"]
    labels = list(counted["labels"])
    sizes = dict(zip(labels, map(float, counted["moments"]), strict=True))
    for _, message in pairs_in(reply.as_content()):
        for numbers in told_numbers(message):
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
    reply_check=_check_joined,
    begins_exchange=True,
    is_summary=True,
    summaries=lambda content: [content],
    told=told_of_summary,
    n_columns=columns_described,
    sentences=sentences_of_summary,
    cost=_cost,
    answer=join,
)
