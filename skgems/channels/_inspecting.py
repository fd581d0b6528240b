"""What is in a file of an exchange, in words, for whoever is to send it."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill

from ..federation import (
    LEDGER_FILE,
    Summary,
    load_message,
    printable,
    read_entries,
)
from ..messages import (
    TASKS,
    Agreement,
    Message,
    asks,
    check_names,
    check_reply,
    check_request,
    naming,
    requests_in,
    says,
)

_LAYOUT = {"width": 88, "initial_indent": "  ", "subsequent_indent": "      "}
_LAYOUT |= {"break_long_words": False, "break_on_hyphens": False}
_END_OF_SENTENCE = re.compile(r"(?<=[.]) (?=\S)")


@dataclass(frozen=True)
class Inspected:
    """What is in a file; ``str`` of it is a page for people.

    Attributes
    ----------
    path : str
    kind : {"agreement", "request", "reply", "summary", "ledger"}
        A summary replies to the first request, or is what ``summarize`` saved. A ledger
        is what a node keeps of all that it answered.
    task : str
        What is asked for, or was answered.
    node, method : str or None
        Node that it is for, or comes from, and aggregator, if the file says so.
    settings : dict
        Of the method, if it says so; else of the task. No arrays.
    says : dict of str to str
        For each part of it a sentence: what it says about the rows, or asks for.
    arrays : tuple of dict
        Each with "path", "shape", "dtype" and "bytes"; ``n_bytes``: of the whole file.
    checked : bool
        Whether every field was checked. A reply can be only where its request is.
    """

    path: str
    kind: str
    task: str
    node: str | None = None
    method: str | None = None
    settings: dict = field(default_factory=dict)
    says: dict = field(default_factory=dict)
    arrays: tuple = ()
    n_bytes: int = 0
    checked: bool = True

    @property
    def words(self) -> str:
        """All but settings and arrays."""
        who = ""
        if self.node is not None:
            who = f" {'for' if self.kind == 'request' else 'of'} node {self.node!r}"
        method = "" if self.method is None else f", for {printable(self.method)}"
        n_arrays, kind, more, task = len(self.arrays), "an agreement", "", ""
        if self.kind == "ledger":
            kind = "the ledger"
        elif self.kind != "agreement":
            kind, task = f"a {self.kind}", f", task {self.task!r}"
            more = f": a header and {n_arrays} array{'s' * (n_arrays != 1)}"
        lines = [f"{printable(self.path)}: {kind}{who}{method}{task}"]
        lines.append(f"{self.n_bytes:,} bytes{more}")
        if not self.checked:
            lines.append("Not checked in full: its request is not here.")
        for parts, text in _grouped(self.says):
            lines.append(fill(f"{_listed_parts(parts)}: {text}", **_LAYOUT))
        return "\n".join(lines)

    def __str__(self) -> str:
        lines = [self.words]
        if self.settings:
            lines.append("Settings:")
            lines += [f"  {printable(k)} = {v!r}" for k, v in self.settings.items()]
        if self.arrays:
            lines.append("Arrays:")
        paths = [printable(array["path"]) for array in self.arrays]
        width = max(map(len, paths), default=0)
        for path, array in zip(paths, self.arrays, strict=True):
            shape = " x ".join(map(str, array["shape"])) or "number"
            size = f"{shape:>12}  {array['dtype']:>7}  {array['bytes']:>10,} bytes"
            lines.append(f"  {path:{width}}  {size}")
        return "\n".join(lines)


def _grouped(says: Mapping[str, str]) -> Iterator[tuple[list[str], str]]:
    """Parts that begin with the same sentence, and once each what is said of them."""
    groups: dict[str, tuple[list[str], list[str]]] = {}
    for part, text in says.items():
        sentences = _END_OF_SENTENCE.split(text)
        parts, known = groups.setdefault(sentences[0], ([], []))
        parts.append(part)
        # Of the parts after the first only what is said of them alone.
        first = _END_OF_SENTENCE.split(known[0]) if known else []
        common = os.path.commonprefix([first, sentences])
        rest = " ".join(sentences[len(common) :])
        if rest and rest not in known:
            known.append(rest)
    for parts, known in groups.values():
        yield parts, " ".join(known)


def _listed_parts(parts: list[str]) -> str:
    """Names of parts, those of one table together: "rows.labels, .training"."""
    shown, table = [], None
    for part in parts:
        above, _, name = part.rpartition(".")
        shown.append(f".{name}" if above and above == table else part)
        table = above
    return ", ".join(shown)


def inspect(path, *, request=None) -> Inspected:
    """Say what is in a file, before it is accepted, answered or sent.

    Parameters
    ----------
    path : str or os.PathLike
        Of an agreement, a request, a reply or a summary; nobody need trust it. Or the
        folder in which a node keeps its ledger (``state``): then it says what the node
        has answered.
    request : str or os.PathLike, default=None
        What a reply replies to. None: where :class:`Exchange` or :func:`answer` has it.

    Returns
    -------
    inspected : Inspected

    Raises
    ------
    ValueError
        If it is no file of an exchange, or a field is wrong; it names file and field.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from skgems.channels import inspect
    >>> from skgems.federation import Message
    >>> path = f"{mkdtemp()}/001-lyon.safetensors"
    >>> Message.of("counts").save(path)
    >>> inspect(path).says["request"]
    'Asks for how many rows of each class the node may train on.'
    """
    text = os.fspath(path)
    if Path(path).is_dir():
        return _inspected_ledger(Path(path))
    if text.endswith(".json"):
        own = Agreement.load(path)
        more = own.method, dict(own.settings), own.says, (), Path(path).stat().st_size
        return Inspected(text, "agreement", "join", None, *more)
    message = load_message(path)
    with naming(text):
        try:
            kind, said, checked = _kind_of(message, Path(path), request)
            found = said(message)
        except (KeyError, IndexError, TypeError, AttributeError) as exc:
            wrong = f"its fields are not those of the task {message.task!r:.40}"
            raise ValueError(f"{wrong}: {exc!r}") from None
    content, settings, method = message.content, message.settings, None
    node = content["name"] if kind == "summary" else message.envelope.get("node")
    if message.task == "join":
        settings, method = content["settings"], content["method"]
    arrays = tuple(
        {"path": name, "shape": list(a.shape), "dtype": str(a.dtype), "bytes": a.nbytes}
        for name, a in sorted(message.arrays.items())
    )
    more = dict(settings), found, arrays, Path(path).stat().st_size, checked
    return Inspected(text, kind, message.task, node, method, *more)


def _inspected_ledger(folder: Path) -> Inspected:
    """What a node has answered, for its owner; a number stands before each request."""
    if not (folder / LEDGER_FILE).is_file():
        raise ValueError(f"{folder}: it is a folder without a ledger ({LEDGER_FILE}).")
    says: dict[str, str] = {}
    node = None
    for number, entry in enumerate(read_entries(folder), 1):
        node = entry.get("node", node)
        part = f"{number} {entry['task']}".strip()
        if entry["event"] == "opened":
            agreement = Agreement.from_json(entry["agreement"])
            says[part] = (
                f"At {entry['at']} the exchange {entry['exchange']} began, for "
                f"{agreement.method}, about {entry['n_rows']} rows."
            )
        elif entry["event"] == "ended":
            says[part] = (
                f"At {entry['at']} {entry['bytes']:,} bytes were told, "
                f"{entry['numbers']:,} numbers."
            )
            for name, sentence in entry["says"].items():
                says[f"{number} {name}"] = sentence
        elif entry["event"] == "failed":
            says[part] = f"At {entry['at']} it failed: {printable(entry['error'])}"
        elif entry["event"] == "accepted":
            says[part] = f"At {entry['at']} again=True: {printable(entry['error'])}"
    size = (folder / LEDGER_FILE).stat().st_size
    return Inspected(
        path=str(folder), kind="ledger", task="", node=node, says=says, n_bytes=size
    )


def _kind_of(message: Message, path: Path, request) -> tuple:
    """Kind, how to put it in words, and whether it is checked; raises if wrong."""
    if message.task == "join" and "requests" not in message.settings:
        Summary(message)
        return "summary", says, True
    if "to" not in message.envelope:
        check_request(message)
        return "request", _of_request, True
    if message.task not in TASKS:
        raise ValueError(f"{message.task!r:.40} is no task of an exchange.")
    check_names(message)
    asked = _request_of(message, path, request)
    if asked is not None:
        check_reply(asked, message)
    return "reply", says, asked is not None


def _request_of(reply: Message, path: Path, request) -> Message | None:
    places = [path.resolve().parent.parent / "requests" / path.name]
    places.append(path.with_name(path.name.removeprefix("reply-")))
    for place in places if request is None else [Path(request)]:
        if place.is_file() and place != path:
            asked = load_message(place)
            if asked.digest == reply.envelope["to"]:
                return asked
    if request is not None:
        raise ValueError(f"it is no reply to {os.fspath(request)}.")
    return None


def _of_request(message: Message) -> dict[str, str]:
    found, content = asks(message), message.content
    if message.task == "join":
        found["request"] = f"{found['request'].rstrip('.')}, for {content['method']}."
        for k, request in enumerate(requests_in(content)):
            found[f"requests.{k}"] = " ".join(asks(request).values())
    return found
