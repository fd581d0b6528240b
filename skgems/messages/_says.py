"""What messages say about rows, in words that the table of tasks has."""

from collections.abc import Iterator, Mapping

from ._checks import pairs_in
from ._fields import REQUIRED, Field, Table
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


def table_of_tasks() -> str:
    """The table of tasks as reStructuredText: for each what goes out and comes back."""
    lines = []
    for name, task in TASKS.items():
        lines += [f"``{name}``", f"  Asks for {task.asks}; {task.often}."]
        lines += ["", f"  *Goes out*: {_listed(task.request)}.", ""]
        lines += ["  *Comes back*:", ""]
        parts: dict[str, list[str]] = {}
        for path, field in _leaves(task.reply):
            parts.setdefault(field.says, []).append(f"``{path}``{_shape(field)}")
        for sentence, paths in parts.items():
            lines.append(
                f"  - {', '.join(paths)}" + (f": {sentence}" if sentence else "")
            )
        lines.append("")
    return "\n".join(lines)


def _leaves(fields: Mapping[str, Field], path="") -> Iterator[tuple[str, Field]]:
    for name, field in fields.items():
        if isinstance(field, Table) and not field.says:
            yield from _leaves(field.fields, path if field.inline else f"{path}{name}.")
        else:
            yield path + name, field


def _listed(fields: Mapping[str, Field]) -> str:
    named = [
        f"``{name}``{_shape(field)}"
        + ("" if field.default is REQUIRED else " (optional)")
        for name, field in fields.items()
    ]
    return ", ".join(named) or "nothing"


def _shape(field: Field) -> str:
    shape = getattr(field, "shape", "")
    if not shape.strip(" *."):
        return ""
    shape = " or ".join(" x ".join(part.split()) for part in shape.split("|"))
    return f" ({shape.replace('*', 'any')})"
