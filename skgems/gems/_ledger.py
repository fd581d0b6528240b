# SPDX-License-Identifier: BSD-3-Clause
"""What nodes have told, kept so that others can come and go without asking them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..federation import AskAgainError, InProcess
from ..messages import Message

# Tasks whose replies are of a node alone, whatever the others are.
_KEPT = ("describe", "moments", "space")


@dataclass(frozen=True, eq=False)
class Ledger:
    """Replies of nodes by what they were asked."""

    seed: int | None  # of the requests
    # By name of the node, by digest of the request.
    replies: Mapping[str, dict[str, Message]] = field(repr=False)
    public: tuple = field(repr=False)  # public rows, and their labels

    def without(self, names: Iterable[str]) -> Ledger:
        """The same without some nodes."""
        names = set(names)
        left = {k: dict(v) for k, v in self.replies.items() if k not in names}
        return replace(self, replies=left)


class KeepingChannel:
    """A channel that keeps replies, for nodes that cannot be asked again.

    Such a node has scored no rows if it was never asked to; other new requests are an
    AskAgainError. ``names`` are all nodes in order, ``channel`` reaches some.
    """

    def __init__(self, names: list[str], ledger: Ledger, channel: InProcess) -> None:
        self.names, self.ledger, self.channel = names, ledger, channel
        self.there = {member.name for member in channel.members}

    @property
    def members(self) -> list:
        """Nodes that can be asked."""
        return self.channel.members

    @property
    def history(self) -> list[dict]:
        """Messages to the nodes that can be asked."""
        return self.channel.history

    def __call__(self, request: Message | Mapping[str, Message]) -> Iterator:
        """Replies in the order of the nodes."""
        asked = {
            name: request if isinstance(request, Message) else request[name]
            for name in self.names
            if isinstance(request, Message) or name in request
        }
        there = {name: asked[name] for name in asked if name in self.there}
        replies = self.channel(there) if there else iter(())
        return self._in_order(asked, replies)

    def _in_order(self, asked, replies) -> Iterator[tuple[str, Message]]:
        for name, message in asked.items():
            if name not in self.there:
                yield name, self._kept(name, message)
                continue
            # Those who fail are missing from the replies, but no task here may fail.
            told, reply = next(replies)
            assert told == name
            if message.task in _KEPT:
                own = self.ledger.replies.setdefault(name, {})
                own[_digest(message)] = reply
            yield name, reply
        for _ in replies:  # so that the channel sees its end
            pass

    def _kept(self, name: str, message: Message) -> Message:
        reply = self.ledger.replies[name].get(_digest(message))
        if reply is not None:
            return reply
        if message.task == "score":
            return Message.of("score", score=np.array(np.nan), n_rows=0)
        raise AskAgainError(
            f"Node {name!r} would have to be asked anew ({message.task}): what it told "
            "is not enough for the nodes that are there now. Call fit with the rows of "
            "all nodes."
        )


def _digest(message: Message) -> str:
    return hashlib.sha1(message.to_bytes(), usedforsecurity=False).hexdigest()
