"""Replies that are kept, found by their requests: by who asked, and by the node."""

from collections.abc import Iterable, Mapping

from ..messages import Message, is_summary, key_of, pairs_in


class Record:
    """The replies of one node in memory; a :class:`Summary` holds those of a file.

    A channel keeps one per node, so that the node is not asked for the same again. Any
    object with the method `get` can take its place.

    Examples
    --------
    >>> from skgems.asking import Message
    >>> from skgems.parties import Record
    >>> record = Record()
    >>> request = Message.of("counts")
    >>> record.keep(request, Message.of("counts", labels=["ill"], counts=[3]))
    >>> record.get(request).content["labels"]
    ['ill']
    >>> record.get(Message.of("describe")) is None
    True
    """

    def __init__(self) -> None:
        # Request and reply by context and key. The context says what the requests of a
        # fit have in common, such as a front: another fit over the same channel may
        # ask for the same without it, and must not find these replies. Pickles of
        # aggregators have the name of this attribute.
        self._kept: dict[tuple[str, str], tuple[Message, Message]] = {}

    @classmethod
    def of(cls, content: Mapping) -> "Record":
        """Make a record of all replies that the reply to a first request contains."""
        return cls.of_pairs(pairs_in(content))

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[Message, Message]]) -> "Record":
        """Make a record of requests and the replies to them."""
        record = cls()
        for request, reply in pairs:
            record.keep(request, reply)
        return record

    def get(self, request: Message, context: str = "") -> Message | None:
        """Return the node's reply to a request, or None if there is none.

        The envelope of the request does not matter.
        """
        pair = self._kept.get((context, key_of(request)))
        return None if pair is None else pair[1]

    def keep(self, request: Message, reply: Message, context: str = "") -> None:
        """Keep a reply, and the replies within it if it answers a first request."""
        self._kept[context, key_of(request)] = (request, reply)
        if is_summary(request):
            for inner_request, inner_reply in pairs_in(reply.content):
                self.keep(inner_request, inner_reply, context)

    def keys(self, context: str = "") -> set[str]:
        """Return the keys of all requests for which there is a reply."""
        return {key for kept_context, key in self._kept if kept_context == context}

    @property
    def requests(self) -> list[Message]:
        """Return all requests for which there is a reply."""
        return [request for request, _ in self._kept.values()]


def difference_in_words(request: Message, others: Iterable[Message]) -> str:
    """Describe how a request differs from the nearest of its task, for an error.

    Where none is of its task, or none differs in what words can say: the request.
    """
    fields = _fields_for_words(request.content)
    differences = []
    for other in others:
        if other.task == request.task:
            earlier = _fields_for_words(other.content)
            differences.append(
                [
                    f"{name}={earlier.get(name)!r}, now {name}={fields.get(name)!r}"
                    for name in sorted(fields.keys() | earlier.keys())
                    if fields.get(name) != earlier.get(name)
                ]
            )
    nearest = min(differences, key=len, default=None)
    if nearest:
        return f"{request.task} was asked with {'; '.join(nearest)}"
    return f"{request.task}, {fields}" if fields else request.task


def _fields_for_words(content: Mapping) -> dict[str, object]:
    """Return the fields that a few words can say: no arrays, no layers."""
    return {
        name: value
        for name, value in content.items()
        if isinstance(value, str | int | float) or name in ("geometry", "criterion")
    }
