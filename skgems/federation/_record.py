"""Replies that are kept, found by their requests: by who asked, and by the node."""

from collections.abc import Iterable, Mapping

from ..messages import Message, key_of, pairs_in


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
