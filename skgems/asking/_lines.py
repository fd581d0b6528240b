"""Lines to nodes: a channel, and around it what strangers make necessary.

A line takes requests and gives, in their order, the name of each node with its reply,
or what went wrong. A channel within this process is such a line. From elsewhere come
messages, in which a stranger may send anything: requests are sealed, every reply is
checked, and then opened.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..messages import (
    TASKS,
    Message,
    Reply,
    check_reply,
    check_signed,
    reply_in,
    sealed,
    summaries_in,
)
from ._asked_nodes import AskedNodes, Context
from ._channel import Channel

# Name of each node, in the order of the requests, with its reply or what went wrong.
Answers = Iterator[tuple[str, Reply | Exception]]


class Line(Protocol):
    """A way to nodes and back."""

    def ask(self, requests: Mapping[str, Message]) -> Answers:
        """Send all requests, then return an iterator of what comes back."""


def line_to(channel: Channel, context: Context, nodes: AskedNodes) -> Line:
    """Return the line through a channel.

    Parameters
    ----------
    channel : Channel
    context : Context
        What goes with every request.
    nodes : AskedNodes
        What is known of the nodes that are asked, and where replies are kept.
    """
    line: Line = channel
    if not channel.is_in_process:
        line = _CheckedElsewhere(_InOrder(channel), channel, context, nodes)
    if context.fields or context.agreement is not None:
        line = _Sealed(line, context, channel.private_key)
    if nodes.keeps:
        line = _Kept(line, context, nodes)
    return line if channel.is_in_process else _Opened(line)


@dataclass(frozen=True, eq=False)
class _InOrder:
    """A channel whose replies come in the order of the requests."""

    channel: Channel

    def ask(self, requests: Mapping[str, Message]) -> Answers:
        # Here, and not in the generator: a folder raises in `ask`, before anything else
        # happens, if replies are missing.
        return _in_order(requests, self.channel.ask(dict(requests)))


@dataclass(frozen=True, eq=False)
class _Changed:
    """A line whose replies are taken one by one, and may become what went wrong."""

    line: Line

    def ask(self, requests: Mapping[str, Message]) -> Answers:
        return self._taken_all(requests, self.line.ask(requests))

    def _taken_all(self, requests: Mapping[str, Message], answers: Answers) -> Answers:
        for name, reply in answers:
            taken = reply
            if not isinstance(reply, Exception):
                try:
                    taken = self.taken(name, requests[name], reply)
                except (ValueError, TypeError) as error:
                    taken = error
            yield name, taken
            del reply, taken  # before the next one comes

    def taken(self, name: str, request: Message, reply: Reply | Message) -> object:
        """Return the reply as it goes on; raise ValueError or TypeError if wrong."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class _Kept(_Changed):
    """A line whose replies are kept, by the requests as plans ask them."""

    context: Context
    nodes: AskedNodes

    def taken(self, name: str, request: Message, reply: Reply | Message) -> object:
        """Return a reply, which the record of the node has now."""
        message = reply
        if isinstance(reply, Reply):
            message = reply.as_message(request.task)
        self.nodes.keep(name, request, message, self.context.digest)
        return reply


@dataclass(frozen=True, eq=False)
class _Opened(_Changed):
    """A line whose messages are opened: plans take replies."""

    def taken(self, name: str, request: Message, reply: Message) -> Reply:
        """Return the reply that a message is."""
        return reply_in(reply)


@dataclass(frozen=True, eq=False)
class _CheckedElsewhere(_Changed):
    """A line out of this process: replies are of whom they should be, and fit."""

    channel: Channel
    context: Context
    nodes: AskedNodes

    def taken(self, name: str, request: Message, reply: object) -> Message:
        """Return a message, unless it is a reply that no honest node sends."""
        if not isinstance(reply, Message):
            raise TypeError(
                f"the channel gave a {type(reply).__name__} as its reply, not a "
                "Message."
            )
        self._check_sender(name, reply)
        description = self.nodes.recorded(
            name, Message.of("describe"), self.context.digest
        )
        described = None if description is None else description.content
        check_reply_of(name, request=request, reply=reply, described=described)
        if self.context.agreement is not None:
            self.context.agreement.check_bound(reply, name)
        return reply

    def _check_sender(self, name: str, reply: Message) -> None:
        """Raise ValueError unless a reply is of this node and of this exchange."""
        public_keys = self.channel.public_keys
        if public_keys:
            if name not in public_keys:
                raise ValueError(
                    "there is no public key for it. Add one to public_keys of the "
                    "channel."
                )
            check_signed(reply, public_keys[name])
        expected = {"node": name}
        if self.context.agreement is not None:
            expected["exchange"] = self.context.agreement.exchange
        for field_name, expected_value in expected.items():
            # A channel may leave the field out: it knows whom it asked.
            value = reply.envelope.get(field_name, expected_value)
            if value != expected_value:
                raise ValueError(
                    f"envelope.{field_name} is {value!r:.80}, not {expected_value!r}."
                )


@dataclass(frozen=True, eq=False)
class _Sealed:
    """A line on which requests say what they have in common, and whose they are."""

    line: Line
    context: Context
    private_key: object  # a file; None: requests are not signed

    def ask(self, requests: Mapping[str, Message]) -> Answers:
        # One request for many nodes stays one object, which is signed once.
        sealed_by_id: dict[int, Message] = {}
        for request in requests.values():
            if id(request) not in sealed_by_id:
                sealed_by_id[id(request)] = self._sealed(request)
        return self.line.ask(
            {name: sealed_by_id[id(request)] for name, request in requests.items()}
        )

    def _sealed(self, request: Message) -> Message:
        fields = self.context.fields
        # The front that is to be fitted stands in its request already.
        if fields and not TASKS[request.task].fits_front:
            request = request.with_fields(**fields)
        if self.context.agreement is None:
            return request
        return sealed(
            request, agreement=self.context.agreement, private_key=self.private_key
        )


def check_reply_of(
    name: str, request: Message, reply: Message, described: Mapping | None = None
) -> None:
    """Raise ValueError unless a reply fits its request, and is of this node."""
    check_reply(request, reply, described=described)
    for summary in summaries_in(reply):
        if summary.name != name:
            raise ValueError(f"summary.name is {summary.name!r}, not {name!r}.")


def _in_order(
    requests: Mapping[str, Message], replies: Mapping | Iterable
) -> Iterator[tuple[str, object]]:
    """Yield name and reply of each node that was asked, in the order of the requests.

    Replies that a channel has before it is their turn wait. Where none came there is an
    exception in its place.
    """
    arriving = iter(replies.items() if isinstance(replies, Mapping) else replies)
    early: dict[str, object] = {}
    for name in requests:
        while name not in early:
            sender, reply = next(arriving, (None, None))
            if sender is None:
                early[name] = ConnectionError("no reply came")
            elif sender in requests:
                early[sender] = reply
        reply = early.pop(name)
        yield name, reply
        del reply  # before the next one comes
