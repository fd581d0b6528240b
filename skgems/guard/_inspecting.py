"""What is in a file of an exchange, in words, for whoever is to send it."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import fill

from ..base import WIDTH, Page, ResultMixin, Table, printable
from ..messages import (
    TASKS,
    Agreement,
    Message,
    asks,
    check_names,
    check_reply,
    check_request,
    is_summary,
    naming,
    requests_in,
    says,
)
from ..parties import Summary, load_message
from ._ledger import account_in, read_entries
from ._ledger_store import LEDGER_FILE
from ._overview import BESIDE_NOISE, KINDS, overview_of_reply, overview_of_request

_MORE = "All fields, settings and arrays: add --verbose (in Python, verbose)."


@dataclass(frozen=True, kw_only=True, repr=False)
class Inspected(ResultMixin):
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
    overview : dict of str to str
        The lines that are printed first. They say what the file is, from whom and for
        which exchange, what it holds, and the figures of its fields, such as numbers of
        rows. They also say what it reveals about the rows, and whether it is signed and
        agreed.
    verbose : bool
        Whether all fields, settings and arrays are printed too.
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
    overview: dict = field(default_factory=dict)
    verbose: bool = False

    @property
    def words(self) -> str:
        """The path of the file, and the overview."""
        lines = [f"{printable(self.path)} ({self.n_bytes:,} bytes)"]
        overview = dict(self.overview)
        if not self.checked:
            overview["checks"] = (
                "Not checked in full: its request is not here. Give request=, or "
                "--request on the command line."
            )
        width = max(map(len, overview), default=0) + 1
        for name, text in overview.items():
            lines.append(_filled(f"{name + ':':{width}} {text}", indent=width + 3))
        return "\n".join(lines)

    @property
    def details(self) -> str:
        """Describe every field, the settings and the arrays."""
        lines = []
        if self.says and self.kind != "agreement":  # whose sentences are the overview
            lines += ["Fields:", *self._lines_of_fields()]
        if self.settings:
            lines.append("Settings:")
            lines += [f"  {printable(k)} = {v!r}" for k, v in self.settings.items()]
        if self.arrays:
            lines += ["Arrays:", *self._lines_of_arrays()]
        return "\n".join(lines)

    def _lines_of_fields(self) -> Iterator[str]:
        """Yield each sentence once, after all fields that it is about."""
        parts_by_text: dict[str, list[str]] = {}
        for part, text in self.says.items():
            parts_by_text.setdefault(text, []).append(part)
        for text, parts in parts_by_text.items():
            yield _filled(f"{_listed_parts(parts)}: {text}", indent=6)

    def _lines_of_arrays(self) -> Iterator[str]:
        """Yield the path, shape, dtype and bytes of each array, below each other."""
        paths = [printable(array["path"]) for array in self.arrays]
        width = max(map(len, paths))
        for path, array in zip(paths, self.arrays, strict=True):
            shape = " x ".join(map(str, array["shape"])) or "number"
            size = f"{shape:>12}  {array['dtype']:>7}  {array['bytes']:>10,} bytes"
            yield f"  {path:{width}}  {size}"

    def _page(self) -> Page:
        overview = Table(heads=["part", "content"], rows=list(self.overview.items()))
        parts = [overview]
        if self.says and self.kind != "agreement":  # whose sentences are the overview
            says = list(self.says.items())
            parts.append(Table(heads=["field", "what it says"], rows=says))
        if self.arrays:
            parts.append(Table.from_records(self.arrays, caption="Arrays"))
        return Page(title=f"{self.path} ({self.n_bytes:,} bytes)", parts=parts)

    def __str__(self) -> str:
        if self.verbose:
            return f"{self.words}\n{self.details}"
        return f"{self.words}\n{_MORE}"


def _filled(text: str, *, indent: int) -> str:
    """A line of a page, broken between words; further lines are indented."""
    return fill(
        printable(text),
        width=WIDTH,
        initial_indent="  ",
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


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


def inspect(path, *, request=None, verbose=False) -> Inspected:
    """Say in words what a file contains, before you accept, answer or send it.

    The printed result says what the file is, from whom and for which exchange. It has a
    line for each field that has figures, such as numbers of rows. It also says what can
    be worked out about the rows, and whether the file is signed and agreed.

    Parameters
    ----------
    path : str or os.PathLike
        Path of an agreement, a request, a reply or a summary. The file does not have to
        be trusted. It may also be the folder in which a node keeps its ledger (the
        parameter ``state`` of :func:`~skgems.guard.reply_to`); then all answers of
        the node are listed.
    request : str or os.PathLike, default=None
        Path of the request that a reply answers. If None, the request is looked for
        where :class:`Exchange` and :func:`answer` put it. Without its request a reply
        is not checked in full.
    verbose : bool, default=False
        Whether the printed result also says what every field reveals about the rows,
        and lists all settings and arrays.

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
    >>> from skgems.guard import inspect
    >>> from skgems.asking import Message
    >>> path = f"{mkdtemp()}/001-lyon.safetensors"
    >>> Message.of("counts").save(path)
    >>> inspect(path).says["request"]
    'Asks for the number of rows of each class that the node may train on.'
    """
    if Path(path).is_dir():
        inspected = _inspected_ledger(Path(path))
    elif os.fspath(path).endswith(".json"):
        inspected = _inspected_agreement(Path(path))
    else:
        inspected = _inspected_message(path, request)
    return replace(inspected, verbose=bool(verbose))


def _inspected_agreement(path: Path) -> Inspected:
    agreement = Agreement.load(path)
    sentences = agreement.says
    return Inspected(
        path=os.fspath(path),
        kind="agreement",
        task="join",
        method=agreement.method,
        settings=dict(agreement.settings),
        says=sentences,
        n_bytes=path.stat().st_size,
        overview={
            "file": KINDS["agreement"],
            "method": agreement.method,
            **sentences,
        },
    )


def _inspected_message(path, request) -> Inspected:
    """Inspect a request, a reply or a summary; ``request`` is that of `inspect`."""
    message = load_message(path)
    with naming(os.fspath(path)):
        try:
            read = _read_message(message, Path(path), request)
        except (KeyError, IndexError, TypeError, AttributeError) as exc:
            raise ValueError(
                f"its fields are not those of the task {message.task!r:.40}: {exc!r}"
            ) from None
    return Inspected(
        path=os.fspath(path),
        task=message.task,
        method=_method_of(message),
        settings=_settings_of(message),
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
        **read,
    )


def _inspected_ledger(folder: Path) -> Inspected:
    """Inspect a node's ledger for its owner; a number stands before each request."""
    if not (folder / LEDGER_FILE).is_file():
        raise ValueError(f"{folder}: this folder has no ledger ({LEDGER_FILE}).")
    says: dict[str, str] = {}
    events: dict[str, str] = {}
    node = None
    for number, entry in enumerate(read_entries(folder), 1):
        node = entry.get("node", node)
        sentence = _sentence_of_event(entry)
        if sentence:
            words = [entry["task"], sentence] if entry["task"] else [sentence]
            events[f"entry {number}"] = ", ".join(words)
        for name, sentence_of_field in entry.get("says", {}).items():
            says[f"{number} {name}"] = sentence_of_field
    return Inspected(
        path=str(folder),
        kind="ledger",
        task="",
        node=node,
        says=says,
        n_bytes=(folder / LEDGER_FILE).stat().st_size,
        overview={
            "file": KINDS["ledger"],
            "node": "not named" if node is None else repr(node),
            "noise": account_in(folder).says(),
            **events,
        },
    )


def _sentence_of_event(entry: Mapping) -> str:
    """Describe an event in a sentence; "" if it tells the owner nothing."""
    at = entry["at"]
    match entry["event"]:
        case "opened":
            agreement = Agreement.from_json(entry["agreement"])
            return (
                f"{at}: the exchange {entry['exchange']} began, for "
                f"{agreement.method}, about {entry['n_rows']} rows."
            )
        case "ended":
            return (
                f"{at}: the reply was made; it holds {entry['numbers']:,} numbers in "
                f"{entry['bytes']:,} bytes."
            )
        case "failed":
            return f"{at}: the answer failed: {printable(entry['error'])}"
        case "accepted":
            return f"{at}: accepted with again=True: {printable(entry['error'])}"
    return ""


def _read_message(message: Message, path: Path, request) -> dict:
    """Kind, node, words, overview and whether it is checked; raises if it is wrong."""
    if is_summary(message) and "requests" not in message.settings:
        Summary(message)
        return _read_reply(message, path, request, kind="summary")
    if "to" not in message.envelope:
        check_request(message)
        method = _method_of(message)
        return {
            "kind": "request",
            "node": message.envelope.get("node"),
            "says": _words_of_request(message),
            "overview": overview_of_request(message, path=path, method=method),
        }
    if message.task not in TASKS:
        raise ValueError(f"{message.task!r:.40} is not a task of an exchange.")
    check_names(message)
    return _read_reply(message, path, request, kind="reply")


def _method_of(message: Message) -> str | None:
    return message.content["method"] if is_summary(message) else None


def _settings_of(message: Message) -> dict:
    """Return the settings of the method that a message is about, else its own."""
    if is_summary(message):
        return dict(message.content["settings"])
    return dict(message.settings)


def _read_reply(message: Message, path: Path, request, *, kind: str) -> dict:
    """Return what is said of a reply, which is checked if its request is here.

    A summary has been checked by itself.
    """
    is_summary = kind == "summary"
    request_message, request_path = _request_of(message, path, request)
    if request_message is not None and not is_summary:
        check_reply(request_message, message)
    node = message.content["name"] if is_summary else message.envelope.get("node")
    overview = overview_of_reply(
        message,
        path=path,
        kind=kind,
        node=node,
        method=_method_of(message),
        request=request_message,
        request_path=request_path,
    )
    sentences = says(message)
    if "noise" in overview:
        sentences = {
            path_of_field: sentence
            for path_of_field, sentence in sentences.items()
            if path_of_field.endswith("vector")
        }
        sentences["other fields"] = BESIDE_NOISE
    return {
        "kind": kind,
        "node": node,
        "says": sentences,
        "checked": is_summary or request_message is not None,
        "overview": overview,
    }


def _request_of(
    reply: Message, path: Path, request
) -> tuple[Message | None, Path | None]:
    """The request of a reply and its path: where it is said to be, or beside it.

    None where there is none; ValueError if what was given is not its request.
    """
    if "to" not in reply.envelope:  # a summary that no request asked for
        return None, None
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
                return message, place
    if reply.envelope["to"] == Message.of(reply.task).digest:
        return Message.of(reply.task), None  # a request without fields is known
    if request is not None and not is_summary(reply):
        raise ValueError(f"it is not a reply to {os.fspath(request)}.")
    return None, None


def _words_of_request(message: Message) -> dict[str, str]:
    """Describe a request part by part; the first one has further requests within."""
    sentences = asks(message)
    if is_summary(message):
        content = message.content
        sentences["request"] = (
            f"{sentences['request'].rstrip('.')}, for {content['method']}."
        )
        for k, request in enumerate(requests_in(message)):
            sentences[f"requests.{k}"] = " ".join(asks(request).values())
    return sentences
