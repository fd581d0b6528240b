"""Replies that are kept, found by their requests: by who asked, and by the node."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path

from ..messages import (
    FIRST,
    Agreement,
    Message,
    NotAgreedError,
    key_of,
    pairs_in,
    read_bytes,
    says,
    write_bytes,
)

_AGREEMENT, _LOG = "agreement.json", "log.jsonl"


class Record:
    """The replies of one node, in memory; a :class:`Summary` is that of a file.

    Whatever has `get` is a record.

    Examples
    --------
    >>> from skgems.federation import Message, Record
    >>> record, request = Record(), Message.of("counts")
    >>> record.keep(request, Message.of("counts", labels=["ill"], counts=[3]))
    >>> record.get(request).content["labels"]
    ['ill']
    >>> record.get(Message.of("describe")) is None
    True
    """

    def __init__(self) -> None:
        # By context and key; the context says what requests had in common, such as a
        # front, without which another fit over the same channel may ask for the same.
        self._kept: dict[tuple[str, str], tuple[Message, Message]] = {}

    @classmethod
    def of(cls, content: Mapping) -> "Record":
        """That of the replies within one to a first message."""
        record = cls()
        for request, reply in pairs_in(content):
            record.keep(request, reply)
        return record

    def get(self, request: Message, context: str = "") -> Message | None:
        """What the node replied to a request, whatever its envelope; or None."""
        return self._kept.get((context, key_of(request)), (None, None))[1]

    def keep(self, request: Message, reply: Message, context: str = "") -> None:
        """Keep a reply, and those within it if it is that to a first message."""
        self._kept[context, key_of(request)] = request, reply
        if request.task == "join":
            for inner_request, inner_reply in pairs_in(reply.content):
                self.keep(inner_request, inner_reply, context)

    @property
    def requests(self) -> list[Message]:
        """All that it has replies to."""
        return [request for request, _ in self._kept.values()]


def what_differs(request: Message, others: Iterable[Message]) -> str:
    asked, found = _plain(request.content), []
    for own in (_plain(own.content) for own in others if own.task == request.task):
        names = sorted(n for n in asked | own if asked.get(n) != own.get(n))
        found.append([f"{n}={own.get(n)!r}, now {n}={asked.get(n)!r}" for n in names])
    nearest = min(found, key=len, default=None)
    if not nearest:
        return f"{request.task}, {asked}" if asked else request.task
    return f"{request.task} was asked with {'; '.join(nearest)}"


def _plain(content: Mapping) -> dict:
    """What can be said in a few words: no arrays, no layers."""
    return {
        name: value
        for name, value in content.items()
        if isinstance(value, str | int | float) or name in ("geometry", "criterion")
    }


class Ledger:
    """A node's memory of one exchange, in a folder or in an object of the user's."""

    def __init__(self, state) -> None:
        self._state = state if isinstance(state, MutableMapping) else _Files(state)

    def agreed(self, request: Message, given: Agreement | None) -> Agreement:
        """The agreement that binds: given, kept, or made by the first request."""
        kept = self._state.get(_AGREEMENT)
        kept = None if kept is None else Agreement.from_json(kept.decode("utf-8"))
        found = given or kept
        if found is None:
            if request.task not in FIRST or "agreement" not in request.envelope:
                raise NotAgreedError(
                    f"nothing is agreed yet, and the request ({request.task!r}) offers "
                    "nothing: the first one of an exchange does, or give agreement=."
                )
            found = Agreement.from_json(request.envelope["agreement"])
            found.check_modest()
        if kept is None:
            self._state[_AGREEMENT] = found.to_json().encode("utf-8")
        elif kept != found:
            raise NotAgreedError(
                f"what is kept here (state) is of the exchange {kept.exchange!r}, or "
                "under another agreement: keep each exchange in a place of its own."
            )
        return found

    def reply(self, request: Message, name: str) -> Message | None:
        """What a node replied to a request, which costs nothing again."""
        kept = self._state.get(f"{request.digest}.safetensors")
        if kept is None:
            return None
        reply = Message.from_bytes(kept)
        if reply.envelope["node"] != name:
            raise NotAgreedError(
                f"what is kept here (state) is of node {reply.envelope['node']!r}, not "
                f"of {name!r}: each node keeps its own."
            )
        return reply

    @property
    def answered(self) -> Counter:
        lines = map(json.loads, (self._state.get(_LOG) or b"").splitlines())
        return Counter({own["request"]: own["task"] for own in lines}.values())

    def keep(self, request: Message, reply: Message) -> None:
        data = reply.to_bytes()
        self._state[f"{request.digest}.safetensors"] = data
        self.count(request, reply=reply.digest, bytes=len(data), says=says(reply))

    def count(self, request: Message, **more) -> None:
        line = {"task": request.task, "request": request.digest, **more}
        before = self._state.get(_LOG) or b""
        self._state[_LOG] = before + json.dumps(line).encode("utf-8") + b"\n"


class _Files:
    def __init__(self, folder) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, name: str) -> bytes | None:
        path = self.folder / name
        return read_bytes(path) if path.is_file() else None

    def __setitem__(self, name: str, data: bytes) -> None:
        write_bytes(self.folder / name, data)
