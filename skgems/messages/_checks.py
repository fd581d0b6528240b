"""Checks of requests and replies by the table of tasks, and what these say in words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from ..moments import LARGEST, LARGEST_FLOAT32
from ._fields import ABSENT, REQUIRED, Each, Field, Place, Table
from ._message import Message
from ._questions import Reply
from ._tasks import reply_in, task_named
from ._words import counting

# The places of requests that were checked, with what is asked and the lengths of the
# letters in its shapes: one request goes to many nodes.
_CHECKED: WeakKeyDictionary[Message, Place] = WeakKeyDictionary()


def check_request(request: Message) -> None:
    """Raise ValueError, which names the field, unless a request fits its task."""
    _place_of_checked(request)


def _place_of_checked(request: Message) -> Place:
    """Return what a request asks, and the lengths in it; the request is checked."""
    if request not in _CHECKED:
        place = Place(request.task)
        asked = task_named(request.task).check_request(request.content, place)
        # Labels of a request are not those of its reply.
        lengths = {letter: n for letter, n in place.lengths.items() if letter != "l"}
        _CHECKED[request] = replace(place, lengths=lengths, asked=asked)
    checked = _CHECKED[request]
    return replace(checked, lengths=dict(checked.lengths))


def check_reply(
    request: Message, reply: Message, described: Mapping | None = None
) -> None:
    """Raise ValueError, which names the field, unless a reply fits its request.

    ``described`` is what the node replied to "describe", where it is known.
    """
    if reply.task != request.task:
        raise ValueError(f"task is {reply.task!r:.40}, not {request.task!r}.")
    task = task_named(request.task)
    if task.reply_check is not None:
        task.reply_check(request, reply)
        return
    place = replace(_place_of_checked(request), described=described)
    if described is not None:
        # Lengths of the node's own model, where no other came along.
        network = described["network"]
        if network.get("n_features") is not None:
            place.lengths.setdefault("d", network["n_features"])
        place.lengths.setdefault("k", int(np.sum(network["seen"])))
    task.check_reply(reply.content, place)


def has_usable_numbers(reply: Reply) -> bool:
    """Return whether all arrays have numbers that a field may contain, and no NaN."""
    for array in reply.arrays():
        if array.dtype.kind != "f":  # no whole number is so large
            continue
        largest = LARGEST_FLOAT32 if array.itemsize == 4 else LARGEST
        # Of NaN this is false. The bound itself is too large for half precision.
        if not float(np.abs(array).max(initial=0)) <= largest:
            return False
    return True


def check_names(reply: Message) -> None:
    """Raise ValueError for wrong names of fields, in a reply without its request."""
    fields = task_named(reply.task).reply.fields
    content = reply.content
    place = Place(reply.task)
    for name in sorted(set(content) - set(fields)):
        raise place.at(name).wrong("is an unknown field")
    for name, field in fields.items():
        if field.default is REQUIRED and field.when is None and name not in content:
            raise place.at(name).wrong("is missing")


def key_of(request: Message) -> str:
    """Return a digest of what a request asks.

    Defaults are filled in and the order of fields does not matter, so requests that ask
    for the same have the same digest.
    """
    content = request.content
    defaults = {
        name: field.default
        for name, field in task_named(request.task).request.fields.items()
        if field.default not in (REQUIRED, ABSENT) and name not in content
    }
    return Message.of(request.task, **content, **defaults).digest


@dataclass(frozen=True, kw_only=True)
class Sentences:
    """What a field of a reply says about rows, and how much of it is there."""

    meaning: str
    figures: str = ""

    def __str__(self) -> str:
        return f"{self.meaning} {self.figures}".rstrip()


def says(message: Message) -> dict[str, str]:
    """Return a sentence for each field of a reply, on what it says about rows."""
    return {path: str(sentences) for path, sentences in sentences_in(message)}


def sentences_in(message: Message) -> Iterator[tuple[str, Sentences]]:
    """Yield the path of each field of a reply, and its sentences."""
    task = task_named(message.task)
    if task.sentences is not None:
        yield from task.sentences(reply_in(message))
    else:
        yield from sentences_of_fields(
            task.reply.fields, message.content, path=task.name
        )


def sentences_of_fields(
    fields: Mapping[str, Field],
    content: Mapping,
    *,
    path: str,
    reply: Mapping | None = None,
) -> Iterator[tuple[str, Sentences]]:
    """Yield paths of fields that are there, and the sentences of each.

    ``reply`` is the content of the whole reply, None where ``content`` is that.
    """
    reply = content if reply is None else reply
    for name, field in fields.items():
        if content.get(name) is None:
            continue
        path_of_field = f"{path}.{name}"
        if field.says:
            table = content[name] if isinstance(field, Table) else content
            figures = field.figures(content[name], table, reply)
            yield path_of_field, Sentences(meaning=field.says, figures=figures)
        elif isinstance(field, Each):
            if content[name]:
                yield from _sentences_of_each(field, path=path_of_field)
        elif isinstance(field, Table):
            yield from sentences_of_fields(
                field.fields,
                content[name],
                path=path if field.inline else path_of_field,
                reply=reply,
            )


def _sentences_of_each(field: Each, *, path: str) -> Iterator[tuple[str, Sentences]]:
    """Yield paths and sentences of fields that are alike in numbered tables."""
    for name, field_of_table in field.fields.items():
        if field_of_table.says:
            yield f"{path}.{name}", Sentences(meaning=field_of_table.says)


def asks(request: Message) -> dict[str, str]:
    """Say in words what a request asks for, what it brings, and its settings."""
    content = request.content
    sentences = {"request": f"Asks for {task_named(request.task).asks}."}
    n_numbers = sum(
        array.size for array in request.arrays.values() if array.dtype.kind == "f"
    )
    if n_numbers:
        sentences["arrays"] = (
            f"The request holds {n_numbers:,} numbers of models, and no code."
        )
    if content.get("others") is not None:
        clusters = counting(len(content["others"]["counts"]), "cluster")
        sentences["others"] = (
            f"Among them are counts, means and variances of {clusters} of other "
            "nodes' rows. Rows drawn from them are used for training too."
        )
    if content.get("rows_alone"):
        sentences["rows_alone"] = "Only the node's rows are used, not its classifier."
    settings = _settings_in_words(content)
    if settings:
        sentences["settings"] = f"Settings: {settings}."
    return sentences


def _settings_in_words(content: Mapping) -> str:
    """Return numbers and texts of a request, and names of what it is to use."""
    names = {
        name: content[name]["name"]
        for name in ("geometry", "criterion")
        if name in content
    }
    return ", ".join(
        f"{name}={value!r}"
        for name, value in {**content, **names}.items()
        if isinstance(value, int | float | str) and not isinstance(value, bool)
    )
