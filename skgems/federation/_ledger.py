# SPDX-License-Identifier: BSD-3-Clause
"""What a node keeps of an exchange: the agreement, its replies, and what it said."""

import json
from collections import Counter
from collections.abc import MutableMapping
from pathlib import Path

from ..messages import (
    FIRST,
    Agreement,
    Message,
    NotAgreedError,
    read_bytes,
    says,
    write_bytes,
)

_AGREEMENT, _LOG = "agreement.json", "log.jsonl"


class Ledger:
    """A node's memory of one exchange, in a folder or in an object of the user's."""

    def __init__(self, state) -> None:
        self._state = state if isinstance(state, MutableMapping) else _Files(state)

    def agreed(self, request: Message, given: Agreement | None) -> Agreement:
        """The agreement that binds: given, kept, or made by the first request."""
        kept = self._state.get(_AGREEMENT)
        kept = None if kept is None else Agreement.from_json(kept.decode("utf-8"))
        found = given or kept or self._offered(request)
        if kept is None:
            self._state[_AGREEMENT] = found.to_json().encode("utf-8")
        elif kept != found:
            raise NotAgreedError(
                f"what is kept here (state) is of the exchange {kept.exchange!r}, or "
                "under another agreement: keep each exchange in a place of its own."
            )
        return found

    @staticmethod
    def _offered(request: Message) -> Agreement:
        if request.task not in FIRST or "agreement" not in request.envelope:
            raise NotAgreedError(
                f"nothing is agreed yet, and the request ({request.task!r}) offers "
                "nothing: the first one of an exchange does, or give agreement=."
            )
        found = Agreement.from_json(request.envelope["agreement"])
        found.check_modest()
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
        """How many different requests of each task were begun."""
        log = (self._state.get(_LOG) or b"").decode("utf-8")
        lines = map(json.loads, log.splitlines())
        return Counter({own["request"]: own["task"] for own in lines}.values())

    def begin(self, request: Message) -> None:
        """Count a request, before anything is computed for it."""
        self._write(request)

    def keep(self, request: Message, reply: Message) -> None:
        """Keep a reply, and what it says about the rows."""
        data = reply.to_bytes()
        self._state[f"{request.digest}.safetensors"] = data
        more = {"reply": reply.digest, "bytes": len(data), "says": says(reply)}
        self._write(request, **more)

    def _write(self, request: Message, **more) -> None:
        line = {"task": request.task, "request": request.digest, **more}
        before = self._state.get(_LOG) or b""
        self._state[_LOG] = before + json.dumps(line).encode("utf-8") + b"\n"


class _Files:
    """A folder as a mapping of names to bytes."""

    def __init__(self, folder) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, name: str) -> bytes | None:
        path = self.folder / name
        return read_bytes(path) if path.is_file() else None

    def __setitem__(self, name: str, data: bytes) -> None:
        write_bytes(self.folder / name, data)
