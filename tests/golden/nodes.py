# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that are reached by messages: by bytes, by files, by chunks of rows."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path

from golden.data import NAMES, Rows
from golden.records import plain
from helpers.accepting import nodes_that_accept_everything

from skgems.asking import Message, Nodes
from skgems.guard import reply_to

# Golden rows have few of a class at a node. A bound of 1 keeps all of them.
MIN_ROWS = 5


def rows_of(rows: Rows, k: int):
    """The rows and labels of the k-th node."""
    is_own = rows.nodes == k
    return rows.X[is_own], rows.y[is_own]


@contextmanager
def temporary_folder():
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def message_record(message: Message) -> dict:
    """The task and all fields of a message, numbers as fingerprints.

    A digest would say as much, but every bit of rounding would change it.
    """
    return {"task": message.task, **_without_digests(plain(message.content))}


def _without_digests(content):
    """The same without the digests of fitted fronts, which are of all bits."""
    if isinstance(content, list):
        return [_without_digests(part) for part in content]
    if not isinstance(content, dict):
        return content
    return {
        name: isinstance(part, str) if name == "fitted" else _without_digests(part)
        for name, part in content.items()
    }


class Wire:
    """A channel to the nodes of golden rows, over which bytes travel.

    ``sent`` has each request and each reply in order, ``kept`` the bytes of both by
    name, for the next commit to read.
    """

    def __init__(
        self, rows: Rows, members=None, *, down=(), ledgers=None, **reply_options
    ) -> None:
        """Nodes in ``down`` never answer; ``ledgers`` is a folder of nodes' ledgers.

        Other options are those of reply_to.
        """
        self.rows = rows
        self.names = NAMES[: len(rows.local)]
        members = members or [None] * len(self.names)
        self.members = dict(zip(self.names, members, strict=True))
        self.down = down
        self.ledgers = ledgers
        self.reply_options = {"disclosure": None, **reply_options}
        self.sent: list[dict] = []
        self.kept: dict[str, bytes] = {}

    def channel(self, **options) -> Nodes:
        return Nodes(self.ask, self.names, **{"disclosure": None, **options})

    def ask(self, requests):
        return {name: self._reply(name, request) for name, request in requests.items()}

    def _reply(self, name: str, request: Message):
        if name in self.down:
            return ConnectionError("nobody is there")
        request_bytes = request.to_bytes()
        X, y = rows_of(self.rows, NAMES.index(name))
        with nodes_that_accept_everything():
            reply = reply_to(
                request_bytes,
                self.members[name],
                X,
                y,
                name=name,
                state=None if self.ledgers is None else self.ledgers / name,
                **self.reply_options,
            )
        number = f"{len(self.sent):03d} {name}"
        self.kept |= {f"{number} request": request_bytes, f"{number} reply": reply}
        message = Message.from_bytes(reply)
        self.sent.append(
            {
                "node": name,
                "request": message_record(request),
                "reply": message_record(message),
            }
        )
        return message

    def record(self) -> dict:
        """What travelled, for a case to return."""
        return {"sent": self.sent, "kept": self.kept}


def summaries_of(aggregate, rows: Rows, members=None, **options) -> list:
    """What each node sends as one file, by an aggregator with the agreed settings."""
    members = members or [None] * len(rows.local)
    return [
        aggregate.summarize(
            member,
            *rows_of(rows, k),
            name=NAMES[k],
            **{"disclosure": None, **options},
        )
        for k, member in enumerate(members)
    ]


def summary_record(summaries: list) -> dict:
    """Records of summaries, and their bytes for the next commit to read."""
    return {
        "summaries": {
            summary.name: {
                "n_rows": summary.n_rows,
                "requests": [message_record(request) for request in summary.requests],
                **message_record(summary.message),
            }
            for summary in summaries
        },
        "kept": {
            f"summary {summary.name}": summary.message.to_bytes()
            for summary in summaries
        },
    }


def in_chunks(X, y, size: int = 20):
    """A function that gives rows chunk by chunk, as ``chunks=`` takes it."""

    def chunks():
        for start in range(0, len(y), size):
            yield X[start : start + size], y[start : start + size]

    return chunks
