"""What is in a file of an exchange, in words, for whoever is to send it."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
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

_WIDTH = 88  # characters of a printed line
_END_OF_SENTENCE = re.compile(r"(?<=[.]) (?=\S)")


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """What a file of an exchange contains; ``str(inspected)`` is a page for people.

    Attributes
    ----------
    path : str
        Path of the file, or of the folder of a ledger.
    kind : {"agreement", "request", "reply", "summary", "ledger"}
        A summary is the reply to the first request, or a file that ``summarize`` made.
        A ledger is the record that a node keeps of all its answers.
    task : str
        What the request asks for, or what the reply answers.
    node : str or None
        Node that the file is for or comes from, if the file says so.
    method : str or None
        Name of the aggregator, if the file says so.
    settings : dict
        Settings of the aggregator if the file has them, otherwise those of the task.
        Arrays are not included.
    says : dict of str to str
        For each part of the file one or more sentences: what it says about the rows, or
        what it asks for.
    arrays : tuple of dict
        One dict per array, with the keys "path", "shape", "dtype" and "bytes".
    n_bytes : int
        Size of the file in bytes.
    checked : bool
        Whether every field was checked. A reply can be checked only if its request is
        at hand.
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
        """The page without settings and arrays."""
        lines = [self._title(), self._size()]
        if not self.checked:
            lines.append("Not checked in full: its request is not here.")
        for parts, text in _grouped(self.says):
            lines.append(
                fill(
                    f"{_listed_parts(parts)}: {text}",
                    width=_WIDTH,
                    initial_indent="  ",
                    subsequent_indent="      ",
                    break_long_words=False,
                    break_on_hyphens=False,
                )
            )
        return "\n".join(lines)

    def _title(self) -> str:
        """The file, what it is, for or of which node, and what for."""
        kinds = {"agreement": "an agreement", "ledger": "the ledger"}
        title = f"{printable(self.path)}: {kinds.get(self.kind, f'a {self.kind}')}"
        if self.node is not None:
            title += f" {'for' if self.kind == 'request' else 'of'} node {self.node!r}"
        if self.method is not None:
            title += f", for {printable(self.method)}"
        if self.kind not in kinds:
            title += f", task {self.task!r}"
        return title

    def _size(self) -> str:
        size = f"{self.n_bytes:,} bytes"
        if self.kind in ("agreement", "ledger"):
            return size
        n_arrays = len(self.arrays)
        return f"{size}: a header and {n_arrays} array{'s' * (n_arrays != 1)}"

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
        parts, texts = groups.setdefault(sentences[0], ([], []))
        parts.append(part)
        # After the first part only what is said of others alone.
        first = _END_OF_SENTENCE.split(texts[0]) if texts else []
        common = os.path.commonprefix([first, sentences])
        remaining = " ".join(sentences[len(common) :])
        if remaining and remaining not in texts:
            texts.append(remaining)
    for parts, texts in groups.values():
        yield parts, " ".join(texts)


def _listed_parts(parts: list[str]) -> str:
    """Names of parts, those of one table together: "rows.labels, .training"."""
    names = []
    table = None  # of the part before
    for part in parts:
        table_of_part, _, name = part.rpartition(".")
        is_of_same_table = table_of_part and table_of_part == table
        names.append(f".{name}" if is_of_same_table else part)
        table = table_of_part
    return ", ".join(names)


def inspect(path, *, request=None) -> Inspected:
    """Say in words what a file contains, before you accept, answer or send it.

    Parameters
    ----------
    path : str or os.PathLike
        Path of an agreement, a request, a reply or a summary. The file does not have to
        be trusted. It may also be the folder in which a node keeps its ledger (the
        parameter ``state`` of :func:`~skgems.federation.reply_to`); then all answers of
        the node are listed.
    request : str or os.PathLike, default=None
        Path of the request that a reply answers. If None, the request is looked for
        where :class:`Exchange` and :func:`answer` put it. Without its request a reply
        is not checked in full.

    Returns
    -------
    inspected : Inspected
        The content of the file; print it to read it.

    Raises
    ------
    ValueError
        If it is not a file of an exchange, or if a field is wrong. The text names the
        file and the field.

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
    if Path(path).is_dir():
        return _inspected_ledger(Path(path))
    if os.fspath(path).endswith(".json"):
        return _inspected_agreement(Path(path))
    return _inspected_message(path, request)


def _inspected_agreement(path: Path) -> Inspected:
    agreement = Agreement.load(path)
    return Inspected(
        path=os.fspath(path),
        kind="agreement",
        task="join",
        method=agreement.method,
        settings=dict(agreement.settings),
        says=agreement.says,
        n_bytes=path.stat().st_size,
    )


def _inspected_message(path, request) -> Inspected:
    """What is in a request, a reply or a summary; ``request`` as of `inspect`."""
    message = load_message(path)
    with naming(os.fspath(path)):
        try:
            kind, put_in_words, is_checked = _kind_of(message, Path(path), request)
            sentences = put_in_words(message)
        except (KeyError, IndexError, TypeError, AttributeError) as exc:
            raise ValueError(
                f"its fields are not those of the task {message.task!r:.40}: {exc!r}"
            ) from None
    content = message.content
    node = content["name"] if kind == "summary" else message.envelope.get("node")
    is_join = message.task == "join"
    return Inspected(
        path=os.fspath(path),
        kind=kind,
        task=message.task,
        node=node,
        method=content["method"] if is_join else None,
        settings=dict(content["settings"] if is_join else message.settings),
        says=sentences,
        arrays=tuple(
            {
                "path": name,
                "shape": list(array.shape),
                "dtype": str(array.dtype),
                "bytes": array.nbytes,
            }
            for name, array in sorted(message.arrays.items())
        ),
        n_bytes=Path(path).stat().st_size,
        checked=is_checked,
    )


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


def _kind_of(
    message: Message, path: Path, request
) -> tuple[str, Callable[[Message], dict[str, str]], bool]:
    """Kind, how to put it in words, and whether it is checked; raises if wrong."""
    if message.task == "join" and "requests" not in message.settings:
        Summary(message)
        return "summary", says, True
    if "to" not in message.envelope:
        check_request(message)
        return "request", _words_of_request, True
    if message.task not in TASKS:
        raise ValueError(f"{message.task!r:.40} is no task of an exchange.")
    check_names(message)
    request_message = _request_of(message, path, request)
    if request_message is not None:
        check_reply(request_message, message)
    return "reply", says, request_message is not None


def _request_of(reply: Message, path: Path, request) -> Message | None:
    """The request of a reply: where it is said to be, or beside it; None if nowhere."""
    if request is not None:
        places = [Path(request)]
    else:
        places = [
            path.resolve().parent.parent / "requests" / path.name,
            path.with_name(path.name.removeprefix("reply-")),
        ]
    for place in places:
        if place.is_file() and place != path:
            message = load_message(place)
            if message.digest == reply.envelope["to"]:
                return message
    if request is not None:
        raise ValueError(f"it is no reply to {os.fspath(request)}.")
    return None


def _words_of_request(message: Message) -> dict[str, str]:
    """What a request asks for; the first one has further requests within."""
    sentences = asks(message)
    if message.task == "join":
        content = message.content
        sentences["request"] = (
            f"{sentences['request'].rstrip('.')}, for {content['method']}."
        )
        for k, request in enumerate(requests_in(content)):
            sentences[f"requests.{k}"] = " ".join(asks(request).values())
    return sentences
