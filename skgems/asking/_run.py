"""Carry out plans over a channel: what is known is looked up, the rest is asked."""

from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from ..base import Records
from ..local import Member
from ..messages import TASKS, Message, Reply
from ._asked_nodes import AskedNodes, Context
from ._channel import Channel, as_channel
from ._lines import line_to
from ._sending import SentMessage

# Name and reply of each node that answered, in the order of the nodes.
Replies = Iterator[tuple[str, Reply]]


class RepliesMissingError(RuntimeError):
    """Some replies have not come yet; call ``fit`` again once they are there.

    The next call uses the replies that have come by then.

    Attributes
    ----------
    requests : dict
        For each node that has not replied, by its name, where its request is.
    """

    def __init__(self, requests: Mapping) -> None:
        super().__init__(
            f"Replies of nodes {list(requests)} are missing. Call fit again once they "
            "have arrived; it finds the replies that are there already."
        )
        self.requests = dict(requests)


class NodesLostError(RuntimeError):
    """Nodes gave no reply that a plan needs; `run` is over those that are left."""

    def __init__(self, names: Iterable[str], run: "Run") -> None:
        super().__init__(
            f"No reply came from nodes {list(names)}, and the fit cannot go on without "
            "one. Fit again without these nodes."
        )
        self.run = run


def run(plan: Generator[Any, Any, Any], channel: Channel) -> Any:
    """Carry out a plan over a channel.

    Use it to write an aggregator whose nodes may be elsewhere.

    Parameters
    ----------
    plan : generator
        It yields a :class:`Message` for all nodes, or a dict of messages by the name of
        the node. It is sent an iterator of pairs (name, reply) of the nodes that
        answered, in their order. A reply has an attribute for each field of the task's
        reply. The plan returns its result.
    channel : Channel
        The channel to the nodes, for example :class:`Nodes`.

    Returns
    -------
    result : object
        The return value of the plan.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.asking import Message, Nodes, run
    >>> def plan():
    ...     replies = yield Message.of("counts")
    ...     return sum(reply.counts.sum() for _, reply in replies)
    >>> def ask(requests):
    ...     counts = np.array([2])
    ...     reply = Message.of("counts", labels=["ill"], counts=counts, min_rows=1)
    ...     return dict.fromkeys(requests, reply)
    >>> int(run(plan(), Nodes(ask, ["lyon", "paris"])))
    4
    """
    return Run(as_channel(channel))(plan)


class Run:
    """Plans over one channel, one after the other, with one history.

    Parameters
    ----------
    channel : Channel
    nodes : AskedNodes or None
        The nodes that plans ask, and what is known of them. None: all of the channel,
        of which the channel's records are known.
    context : Context or None
        What goes with every request. None: what the channel says.
    may_lose : bool
        Whether a plan that loses a node which it needs begins again without it. The run
        raises NodesLostError then, and otherwise what went wrong at the node.

    Attributes
    ----------
    history : list of dict
        What became of each message, see `SentMessage.history_entry`.
    reports : bool
        Whether nodes are asked for what only reports.
    """

    def __init__(
        self,
        channel: Channel,
        nodes: AskedNodes | None = None,
        *,
        context: Context | None = None,
        may_lose: bool = False,
    ) -> None:
        self.channel = channel
        self.nodes = nodes or AskedNodes.from_channel(channel, keeps=False)
        self.context = context or Context.from_channel(channel)
        self.may_lose = may_lose
        self.reports = channel.reports
        self.history = Records()

    def __call__(self, plan: Generator[Any, Any, Any]) -> Any:
        try:
            request = next(plan)
            while True:
                request = plan.send(self.ask(request))
        except StopIteration as stop:
            return stop.value

    @property
    def members(self) -> list[Member]:
        return list(self.channel.members)

    def with_nodes_of(self, other: "Run") -> "Run":
        """Ask over the channel of another run, whose nodes come to those of this."""
        self.channel = other.channel
        self.nodes.reached = other.nodes.reached
        self.nodes.judges |= other.nodes.judges  # of nodes whose rows may be here
        silent = self.nodes.silent
        self.nodes.silent = [name for name in silent if name not in other.nodes.names]
        return self

    def ask(self, request: Message | Mapping[str, Message]) -> Replies:
        """Return replies to a request for all, or to one each, as they are taken.

        The requests are sent before this returns. What a node has replied before is
        found in its record, and the node is not asked.
        """
        names = self.nodes.names
        if isinstance(request, Message):
            requests = dict.fromkeys(names, request)
        else:
            requests = {name: request[name] for name in names if name in request}
        if not requests:
            return iter(())
        (task_name,) = {message.task for message in requests.values()}
        task = TASKS[task_name]
        self.nodes.check_have_rows(requests, task)
        context = self.context.digest
        sent = {
            name: message
            for name, message in requests.items()
            if name in self.nodes.reached
            # Where reports are not asked for, only rows that are here score.
            and (self.reports or not task.reports)
            and self.nodes.recorded(name, message, context) is None
        }
        if not sent:
            return self._replies(requests, sent={}, arriving=iter(()))
        message = SentMessage(
            line=line_to(self.channel, self.context, self.nodes),
            task=task,
            number=len(self.history) + 1,
            requests=sent,
            n_asked=len(requests),
            min_nodes=self.channel.min_nodes,
            may_lose=self.may_lose,
            nodes=self.nodes,
            lost_error=partial(NodesLostError, run=self),
        )
        self.history.append(message.history_entry)
        return self._replies(requests, sent=sent, arriving=message.send())

    def _replies(
        self,
        requests: Mapping[str, Message],
        *,
        sent: Mapping[str, Message],
        arriving: Iterator[tuple[str, Reply | None]],
    ) -> Replies:
        """Yield replies as they arrive, and in between those of nodes not asked."""
        for name, request in requests.items():
            if name in sent:
                _, reply = next(arriving)
                if reply is not None:
                    yield name, reply
                del reply  # before the next one comes
            else:
                yield (
                    name,
                    self.nodes.reply_without_asking(name, request, self.context.digest),
                )
        for _ in arriving:  # none is left, but what follows the last one has to run
            pass
