"""What summaries hold: requests, and the reply to each of them, in one message.

A first message, the task "join", has the node's model and counts, and replies to
requests that need nothing of other nodes. Other messages may hold several of them.
"""

from collections.abc import Iterator, Mapping

from ..disclosure import Disclosure
from ._checks import check_reply
from ._disclosed import check_disclosed, disclosure_in
from ._fields import Field, Json, Place, Text, check_fields
from ._message import Message
from ._tasks import TASKS, request_in


class _TaskOfSummary(Field):
    """The name of a task that may be asked for in a first message."""

    def check(self, value: object, place: Place) -> None:
        names = tuple(task.name for task in TASKS.values() if task.is_in_summaries)
        Text(among=names).check(value, place)


# Fields of a request within a first message, and of that with its reply.
REQUEST_WITHIN: Mapping[str, Field] = {"task": _TaskOfSummary(), "asked": Json()}
_ANSWER_WITHIN: Mapping[str, Field] = {**REQUEST_WITHIN, "reply": Json()}


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


def check_summary_of_request(content: Mapping, request: Mapping) -> None:
    """Raise ValueError unless a summary is right and is what the request asked for."""
    check_summary(content)
    for name in ("method", "settings"):
        if content[name] != request[name]:
            raise Place("summary").at(name).wrong("is not what was asked for")


def pairs_in(content: Mapping) -> Iterator[tuple[Message, Message]]:
    """Yield the requests within a first message with their replies, unchecked."""
    in_all = [task.name for task in TASKS.values() if task.is_in_all_summaries]
    for request in map(Message.of, in_all):
        yield request, _reply_within(content, request.task, content[request.task])
    for number, answer in content["answers"].items():
        check_fields(answer, _ANSWER_WITHIN, Place(f"summary.answers.{number}"))
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


def requests_in(content: Mapping) -> list[Message]:
    """Return the requests within a first request."""
    return [
        Message.of(request["task"], **request["asked"])
        for request in content["requests"].values()
    ]


def is_summary(message: Message) -> bool:
    """Report whether a message is a summary, or the request for one."""
    task = TASKS.get(message.task)
    return task is not None and task.is_summary


def joins_in(message: Message) -> list[Mapping]:
    """Return the contents of the summaries in a message, or of requests for them."""
    task = TASKS.get(message.task)
    if task is None or task.summaries is None:
        return []
    return task.summaries(message.content)


def contents_of(request: Message) -> list[Mapping]:
    """Return the contents of models or summaries in a request, or its own content."""
    models = list(models_in(request).values())
    return models or joins_in(request) or [request.content]


def models_in(request: Message) -> Mapping[str, Mapping]:
    """Return the contents of the models in a request, by number; in most are none."""
    task = TASKS[request.task]
    return {} if task.models is None else task.models(request_in(request))


def disclosures_in(reply: Message) -> list[Disclosure | None]:
    """Return the rules under which the parts of a reply were made; none if untold."""
    # Without a copy of the reply's tables, in which there may be many arrays.
    contents = [*joins_in(reply), {**reply.settings, **reply.arrays}]
    return [disclosure_in(content) for content in contents if "min_rows" in content]
