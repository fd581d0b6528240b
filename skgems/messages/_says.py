# SPDX-License-Identifier: BSD-3-Clause
"""What messages say about rows, in words that the table of tasks has."""

from collections.abc import Iterator, Mapping

from ._checks import pairs_in
from ._fields import Field, Table
from ._message import Message
from ._tasks import TASKS
from ._words import counting


def says(message: Message) -> dict[str, str]:
    """For each field of a reply a sentence: what it says about the node's rows."""
    fields = TASKS[message.task].reply
    if message.task != "join":
        return dict(_said(fields, message.content, message.content, message.task))
    found = {}
    for k, (_, reply) in enumerate(pairs_in(message.content)):
        for path, sentence in says(reply).items():
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
    """What a request asks for and brings, in sentences."""
    content = request.content
    found = {"request": f"Asks for {TASKS[request.task].asks}."}
    brought = sum(a.size for a in request.arrays.values() if a.dtype.kind == "f")
    if brought:
        found["arrays"] = f"Brings {brought:,} numbers of models, and nothing to run."
    if content.get("others") is not None:
        n = counting(len(content["others"]["counts"]), "cluster")
        found["others"] = (
            f"Among them counts, means and variances of {n} of other nodes' rows, from "
            "which rows are drawn to train on."
        )
    settings = []
    for name, value in content.items():
        if name in ("geometry", "criterion"):
            value = value["name"]
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            settings.append(f"{name}={value!r}")
    if settings:
        found["settings"] = f"With {', '.join(settings)}."
    return found
