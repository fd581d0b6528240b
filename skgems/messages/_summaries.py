"""What summaries hold: requests, and the reply to each of them, in one message.

A first message, the task "join", has the node's model and counts, and replies to
requests that need nothing of other nodes. Other messages may hold several of them.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from ..disclosure import Disclosure
from ._checks import check_reply
from ._disclosed import check_disclosed, disclosure_in
from ._fields import Field, Json, Place, Text, check_fields
from ._message import Message
from ._questions import Part, Reply
from ._tasks import TASKS, reply_in, request_in, task_named


class _TaskOfSummary(Field):
    """The name of a task that may be asked for in a first message."""

    def check(self, value: object, place: Place) -> None:
        names = tuple(task.name for task in TASKS.values() if task.is_in_summaries)
        Text(among=names).check(value, place)


class AskedWithin(Part):
    """A request within a first message."""

    task: Annotated[str, _TaskOfSummary()]
    asked: Annotated[Mapping, Json()]

    @property
    def message(self) -> Message:
        """Return the request as a message of its own."""
        return Message.of(self.task, **self.asked)


class AnsweredWithin(AskedWithin):
    """A request within a first message, and the reply to it."""

    reply: Annotated[Reply, Json()]

    @classmethod
    def opened(cls, content: Mapping) -> Self:
        reply = task_named(content["task"]).reply.from_content(content["reply"])
        return super().opened({**content, "reply": reply})

    def as_content(self) -> dict:
        return {**super().as_content(), "reply": self.reply.as_content()}


class SummaryField(Json):
    """A summary within a message, which holds many."""

    def check(self, value: Any, place: Place) -> None:
        super().check(value, place)
        check_summary(value)


def check_summary(content: Mapping) -> list[tuple[Message, Message]]:
    """Raise ValueError, which names the field, unless a summary is right.

    Returns
    -------
    pairs : list of (Message, Message)
        Those of `pairs_in`.
    """
    place = Place("summary")
    check_fields(content, TASKS["join"].reply.fields, place)
    check_disclosed(content, place)
    place.deny(not content["name"], "name", "is empty")
    described = None
    pairs = []
    for request, reply in pairs_in(content):
        check_reply(request, reply, described)
        if TASKS[request.task].describes:
            described = content[request.task]
        pairs.append((request, reply))
    return pairs


def check_summary_of_request(request: Message, reply: Message) -> None:
    """Raise ValueError unless a reply is a summary, and is what was asked for."""
    check_summary(reply.content)
    check_is_of_request(reply_in(reply), request_in(request))


def check_is_of_request(summary: Any, request: Any) -> None:
    """Raise ValueError for a summary of another method than was asked for."""
    for name in ("method", "settings"):
        if getattr(summary, name) != getattr(request, name):
            raise Place("summary").at(name).wrong("is not what was asked for")


def pairs_in(content: Mapping) -> Iterator[tuple[Message, Message]]:
    """Yield the requests within a first message with their replies, unchecked."""
    in_all = [task.name for task in TASKS.values() if task.is_in_all_summaries]
    for request in map(Message.of, in_all):
        yield request, _reply_within(content, request.task, content[request.task])
    for number, answer in content["answers"].items():
        check_fields(answer, AnsweredWithin.fields, Place(f"summary.answers.{number}"))
        request = Message.of(answer["task"], **answer["asked"])
        yield request, _reply_within(content, answer["task"], answer["reply"])


def _reply_within(content: Mapping, task: str, reply: Mapping) -> Message:
    """A reply within that to a first message, which has the rule of all of them."""
    fields = TASKS[task].reply.fields  # sums with noise have no rule
    names = [name for name in ("min_rows", "rule") if name in fields]
    rule = {name: content[name] for name in names if name in content}
    for name in ("min_rows", "rule"):
        Place(task).deny(name in reply, name, "is that of the whole summary")
    return Message.of(task, **rule, **reply)


def is_summary(message: Message) -> bool:
    """Report whether a message is a summary, or the request for one."""
    task = TASKS.get(message.task)
    return task is not None and task.is_summary


def first_requests_in(request: Message) -> list:
    """Return the requests for summaries in a request; it may be one itself."""
    task = TASKS.get(request.task)
    if task is None or task.first_requests is None:
        return []
    return task.first_requests(request_in(request))


def requests_in(request: Message) -> list[Message]:
    """Return the requests within all first requests in a request; else none."""
    return [part for first in first_requests_in(request) for part in first.parts]


def summaries_in(reply: Message) -> list:
    """Return the summaries in a reply, which may be one itself."""
    task = TASKS.get(reply.task)
    if task is None or task.summaries is None:
        return []
    return task.summaries(reply_in(reply))


def contents_of(request: Message) -> list[Mapping]:
    """Return the contents of models or summaries in a request, or its own content."""
    parts = list(models_in(request).values())
    if not parts and not is_summary(request):  # which has a front beside its fields
        parts = first_requests_in(request)
    return [part.as_content() for part in parts] or [request.content]


def models_in(request: Message) -> Mapping[str, Any]:
    """Return the models in a request, by number; in most requests are none."""
    task = TASKS[request.task]
    return {} if task.models is None else task.models(request_in(request))


def disclosures_in(reply: Message) -> list[Disclosure | None]:
    """Return the rules under which the parts of a reply were made; none if untold."""
    # Without a copy of the reply's tables, in which there may be many arrays.
    content = {**reply.settings, **reply.arrays}
    if "min_rows" not in content:  # also of requests
        return []
    contents = [vars(summary) for summary in summaries_in(reply)]
    return list(map(disclosure_in, [*contents, content]))
