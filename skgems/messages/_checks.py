"""Checks of requests and replies by the table of tasks, and what these say in words."""

from collections.abc import Iterator, Mapping
from weakref import WeakKeyDictionary

import numpy as np

from ._fields import ABSENT, REQUIRED, Field, Json, Place, Table, Text, check_fields
from ._limits import MOST_REASON
from ._message import Message
from ._tasks import ASKED, COMMON, TASKS, Task
from ._words import counting

_ANSWER = {**ASKED, "reply": Json()}
_HALVES = {"first": Json(), "second": Json()}


def task_of(message: Message) -> Task:
    if message.task not in TASKS:
        raise ValueError(f"task is {message.task!r:.40}, none of {sorted(TASKS)}.")
    return TASKS[message.task]


def check_request(request: Message) -> None:
    _checked_request(request)
    for content in joins_in(request):
        place = Place("join.requests")
        for number, own in zip(content["requests"], requests_in(content), strict=True):
            check_request(own)
            brought = "W" in own.content
            place.at(number).deny(brought, "does not ask for the node's own model")
            # Layers that a server makes up can be on for one row each, so that their
            # moments are the rows; those of merged units come later.
            brought = own.content.get("hidden") is not None
            place.at(number).deny(brought, "asks about hidden layers of the server's")


def joins_in(message: Message) -> list[Mapping]:
    """Contents of the summaries that a message is or holds, or of requests for them."""
    content = message.content
    if message.task == "halves" and "joins" in content:
        return [own for pair in content["joins"].values() for own in pair.values()]
    if message.task == "halves":
        return list(content["asked"].values())
    return [content] if message.task == "join" else []


def contents_of(request: Message) -> list[Mapping]:
    """Contents of the models or summaries in a request, or the one of the request."""
    models = list(request.content.get("models", {}).values())
    return models or joins_in(request) or [request.content]


def check_reply(request: Message, reply: Message, described: Mapping | None = None):
    """ValueError that names the field unless a reply, to "describe" too, fits."""
    if reply.task != request.task:
        raise ValueError(f"task is {reply.task!r:.40}, not {request.task!r}.")
    if reply.task == "join":
        return _check_joined(reply.content, request.content)
    task = task_of(request)
    place = Place(request.task, _checked_request(request), request.content, described)
    if described is not None:
        # Lengths of the node's own model, where no other came along.
        network = described["network"]
        place.lengths.setdefault("d", network["n_features"])
        place.lengths.setdefault("k", int(np.sum(network["seen"])))
    content = reply.content
    check_fields(content, task.reply, place)
    if reply.task == "halves":
        for number, reason in content["refused"].items():
            here = place.at("refused").at(number)
            here.deny(number not in request.content["asked"], "was not asked for")
            here.deny(number in content["joins"], "is there, though joins has sums")
            Text(most=MOST_REASON).check(reason, here)
        for number, own in content["joins"].items():
            here = place.at("joins").at(number)
            here.deny(number not in request.content["asked"], "was not asked for")
            check_fields(own, _HALVES, here)
            for half in own.values():
                _check_joined(half, request.content["asked"][number])
    if task.rule is not None:
        task.rule(content, place)


def _check_joined(content: Mapping, asked: Mapping) -> None:
    check_summary(content)
    for name in ("method", "settings"):
        if content[name] != asked[name]:
            raise Place("summary").at(name).wrong("is not what was asked for")


def check_names(reply: Message) -> None:
    place, fields, content = Place(reply.task), task_of(reply).reply, reply.content
    for name in sorted(set(content) - set(fields)):
        raise place.at(name).wrong("is no field of it")
    for name, own in fields.items():
        if own.default is REQUIRED and own.when is None and name not in content:
            raise place.at(name).wrong("is missing")


def key_of(request: Message) -> str:
    """What a request asks, as a digest: defaults filled in, in whatever order."""
    fields, content = task_of(request).request, request.content
    filled = {
        name: own.default
        for name, own in fields.items()
        if own.default not in (REQUIRED, ABSENT) and name not in content
    }
    return Message.of(request.task, **content, **filled).digest


_KNOWN: WeakKeyDictionary = WeakKeyDictionary()  # one request goes to many nodes


def _checked_request(request: Message) -> dict:
    """Lengths of the letters in the shapes of a request."""
    if request not in _KNOWN:
        task, place = task_of(request), Place(request.task, {}, request.content)
        check_fields(request.content, {**COMMON, **task.request}, place)
        if task.request_rule is not None:
            task.request_rule(request.content, place)
        # Labels of a request are not those of its reply.
        _KNOWN[request] = {name: n for name, n in place.lengths.items() if name != "l"}
    return dict(_KNOWN[request])


def check_summary(content: Mapping) -> None:
    place = Place("summary")
    check_fields(content, TASKS["join"].reply, place)
    place.deny(not content["name"], "name", "is empty")
    described = None
    for request, reply in pairs_in(content):
        check_reply(request, reply, described)
        if request.task == "describe":
            described = content["describe"]


def pairs_in(content: Mapping) -> Iterator[tuple[Message, Message]]:
    """Requests within the first message, each with its reply, which is not checked."""
    for name in ("describe", "counts"):
        yield Message.of(name), _reply_within(content, name, content[name])
    for number in content["answers"]:
        own = content["answers"][number]
        check_fields(own, _ANSWER, Place(f"summary.answers.{number}"))
        asked = Message.of(own["task"], **own["asked"])
        yield asked, _reply_within(content, own["task"], own["reply"])


def _reply_within(content: Mapping, task: str, reply: Mapping) -> Message:
    """A reply within that to a first message, which has the bound of all of them."""
    Place(task).deny("min_rows" in reply, "min_rows", "is that of the whole summary")
    return Message.of(task, min_rows=content["min_rows"], **reply)


def least_rows_of(reply: Message) -> int | None:
    """The smallest bound min_rows in a reply; None of a task that it does not bound."""
    contents = [*joins_in(reply), reply.content]
    bounds = [int(own["min_rows"]) for own in contents if "min_rows" in own]
    return min(bounds, default=None)


def requests_in(content: Mapping) -> list[Message]:
    asked = content["requests"].values()
    return [Message.of(own["task"], **own["asked"]) for own in asked]


def says(message: Message) -> dict[str, str]:
    """For each field of a reply a sentence: what it says about the node's rows."""
    content = message.content
    if message.task == "halves":
        found = {
            f"{number}.{half}.{path}": sentence
            for number, pair in content["joins"].items()
            for half, own in pair.items()
            for path, sentence in says(Message.of("join", **own)).items()
        }
        for number, reason in content["refused"].items():
            found[f"{number}.refused"] = f"No summaries are sent: {reason}."
        return found
    if message.task != "join":
        return dict(_said(TASKS[message.task].reply, content, content, message.task))
    bound = {"min_rows": TASKS["join"].reply["min_rows"]}
    found = dict(_said(bound, content, content, "summary"))
    for k, (_, reply) in enumerate(pairs_in(content)):
        for path, sentence in says(reply).items():
            if path.endswith(".min_rows"):  # which all of them have in common
                continue
            # Beside model and counts there are numbered answers.
            inner = path if k < 2 else f"answers.{k - 2}.{path.partition('.')[2]}"
            found[inner] = sentence
    return found


def _said(fields: Mapping[str, Field], own, reply, path) -> Iterator[tuple[str, str]]:
    for name, field in fields.items():
        if own.get(name) is None:
            continue
        here = f"{path}.{name}"
        if field.says:
            table = own[name] if isinstance(field, Table) else own
            more = "" if field.detail is None else field.detail(table, reply)
            yield here, f"{field.says} {more}".rstrip()
        if isinstance(field, Table) and not field.says:
            inner = path if field.inline else here
            yield from _said(field.fields, own[name], reply, inner)


def asks(request: Message) -> dict[str, str]:
    content = request.content
    found = {"request": f"Asks for {TASKS[request.task].asks}."}
    brought = sum(a.size for a in request.arrays.values() if a.dtype.kind == "f")
    if brought:
        found["arrays"] = f"Brings {brought:,} numbers of models, and nothing to run."
    if content.get("others") is not None:
        n = counting(len(content["others"]["counts"]), "cluster")
        what = f"counts, means and variances of {n} of other nodes' rows"
        found["others"] = f"Among them {what}, from which rows are drawn to train on."
    parts = {k: content[k]["name"] for k in ("geometry", "criterion") if k in content}
    if content.get("rows_alone"):
        found["rows_alone"] = "The node's classifier is left aside: of its rows alone."
    settings = [
        f"{name}={value!r}"
        for name, value in (content | parts).items()
        if isinstance(value, int | float | str) and not isinstance(value, bool)
    ]
    if settings:
        found["settings"] = f"With {', '.join(settings)}."
    return found
