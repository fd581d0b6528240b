"""Carry out plans over a channel: look up, ask, check, ask again, keep a history."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from ..base import MOST_LISTED, PUBLIC_NAME, warn_user
from ..local import Member, digest
from ..messages import (
    TASKS,
    Agreement,
    Message,
    Task,
    check_fields_of_user,
    check_reply,
    check_signed,
    has_usable_numbers,
    joins_in,
    least_rows_of,
    sealed,
)
from ..progress import say, tracked
from ._channel import Channel, as_channel
from ._record import Record, difference_in_words
from ._replying import answer

# Name and reply of each node that answered, in the order of the nodes.
Replies = Iterator[tuple[str, Message]]


class TooFewNodesError(RuntimeError):
    """Fewer nodes than ``min_nodes`` answered a message of a fit.

    Attributes
    ----------
    parameters : list of ndarray or None
        The last parameters of the shared model, if the nodes train one together.
    """

    parameters: list | None = None


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


class LeftOutError(RuntimeError):
    """A channel returns it in place of the reply of a node that is left out on purpose.

    Such a node is not asked again, and no warning is raised.
    """


class AskAgainError(ValueError):
    """A node would have to be asked again, which is not possible.

    This happens if a summary lacks a reply that the fit needs. Let the node make its
    summary again with the settings of this fit, or use a channel.
    """


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
        answered, in their order. It returns its result.
    channel : Channel
        The channel to the nodes, for example :class:`Nodes`.

    Returns
    -------
    result : object
        The return value of the plan.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.federation import Message, Nodes, run
    >>> def plan():
    ...     replies = yield Message.of("counts")
    ...     return sum(reply.content["counts"].sum() for _, reply in replies)
    >>> def ask(requests):
    ...     counts = np.array([2])
    ...     reply = Message.of("counts", labels=["ill"], counts=counts, min_rows=1)
    ...     return dict.fromkeys(requests, reply)
    >>> int(run(plan(), Nodes(ask, ["lyon", "paris"])))
    4
    """
    return Run(as_channel(channel))(plan)


@dataclass(kw_only=True, eq=False)
class _SentMessage:
    """A message that was sent to nodes, and which of them failed so far."""

    task_name: str
    task: Task
    number: int  # in the history, from 1
    requests: dict[str, Message]  # by name of the node, sealed
    n_asked: int  # nodes that the plan asks, those with a recorded reply too
    history_entry: dict
    start: float  # seconds, of perf_counter
    failures: dict[str, Exception] = field(default_factory=dict)  # by name of the node


class Run:
    """Plans over one channel, one after the other, with one history."""

    def __init__(
        self,
        channel: Channel,
        *,
        names: Iterable[str] | None = None,
        records: Mapping | None = None,
        judges: Mapping[str, Member] | None = None,
        silent: Iterable[str] = (),
        keeps: bool = False,
        reports: bool | None = None,
        may_lose: bool = False,
        agreement: Agreement | None = None,
        front: Mapping | None = None,
        rows_alone: bool = False,
    ) -> None:
        self.channel = channel
        self.agreement = agreement or channel.agreement
        self.reached = _names_of_channel(channel)
        # In the order in which replies are to come.
        self.names = self.reached if names is None else list(names)
        if not self.names:
            raise ValueError(
                "The channel has no nodes, so nobody can be asked: its names are "
                "empty. Give it the names of the nodes that take part, as in "
                "Nodes(ask, ['lyon', 'paris']). If nodes connect one after the other, "
                "fit once they are there."
            )
        if channel.records is None:
            self.records = dict(records or {})
        else:  # the channel's own dict, in which later fits find what comes now
            self.records = channel.records
        self.judges = dict(judges or {})  # rows that are here, of nodes that are not
        self.silent = list(silent)  # nodes that have no rows to reply with
        self.keeps = keeps or channel.records is not None  # records of what comes
        # Whether nodes are asked for what only reports.
        self.reports = channel.reports if reports is None else reports
        # Whether a plan that loses a node which it needs begins again without it; the
        # run raises NodesLostError then, and otherwise what went wrong at the node.
        self.may_lose = may_lose
        self.front = front  # through which nodes take their rows, as a message has it
        # Whether nodes leave their classifiers aside.
        self.rows_alone = rows_alone or channel.rows_alone
        # For each message its "task", "bytes_sent", "bytes_received", "seconds" until
        # the last reply was taken, names "left_out", and by name of the node the "loss"
        # and the bound "min_rows" under which it replied.
        self.history: list[dict] = []

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
        self.channel = other.channel
        self.reached = other.reached
        self.judges |= other.judges  # of nodes whose rows may be here
        self.silent = [name for name in self.silent if name not in other.names]
        return self

    def ask(self, request: Message | Mapping[str, Message]) -> Replies:
        """Replies to a request for all, or to one each, as they are taken.

        The requests are sent before this returns. What a node has replied before is
        found in its record, and the node is not asked.
        """
        if isinstance(request, Message):
            requests = dict.fromkeys(self.names, request)
        else:
            requests = {name: request[name] for name in self.names if name in request}
        if not requests:
            return iter(())
        (task_name,) = {message.task for message in requests.values()}
        self._check_nodes_have_rows(requests, TASKS[task_name])
        requests_to_send = {
            name: message
            for name, message in requests.items()
            if self._is_sent(name, message)
        }
        arriving: Iterator[tuple[str, Message | None]] = iter(())
        if requests_to_send:
            arriving = self._send(requests_to_send, task_name, n_asked=len(requests))
        return self._with_replies_of_others(
            arriving, requests=requests, sent_to=requests_to_send.keys()
        )

    def _check_nodes_have_rows(self, names: Iterable[str], task: Task) -> None:
        """Raise ValueError for nodes without rows, unless the task only reports."""
        without_rows = [name for name in names if name in self.silent]
        if without_rows and not task.reports:
            raise ValueError(
                f"Nodes {without_rows[:MOST_LISTED]} are given as fitted "
                f"classifiers without rows, but the fit needs {task.asks}. Pass the "
                "rows of all nodes to fit (X, y and nodes), or give summaries of the "
                "nodes or a channel to them in place of the classifiers."
            )

    def _is_sent(self, name: str, request: Message) -> bool:
        """Whether the node is asked, since its reply is not known without that.

        Where the channel does not ask for reports, only rows that are here score.
        """
        return (
            name in self.reached
            and (self.reports or not TASKS[request.task].reports)
            and self._recorded(name, request) is None
        )

    def _recorded(self, name: str, request: Message) -> Message | None:
        """What the node has replied to an equal request before, if that was kept."""
        if name not in self.records or not TASKS[request.task].alone:
            return None
        if not self._common_fields:  # whatever has `get` is a record
            return self.records[name].get(request)
        return self.records[name].get(request, self._context)

    def _with_replies_of_others(
        self,
        arriving: Iterator[tuple[str, Message | None]],
        *,
        requests: Mapping[str, Message],
        sent_to: Set[str],
    ) -> Replies:
        """Replies that arrive, and those of nodes that were not asked, in order."""
        for name, request in requests.items():
            if name in sent_to:
                _, reply = next(arriving)
                if reply is not None:
                    yield name, reply
                del reply  # before the next one comes
            else:
                yield name, self._reply_without_asking(name, request)
        for _ in arriving:  # none is left, but what follows the last one has to run
            pass

    def _reply_without_asking(self, name: str, request: Message) -> Message:
        """The recorded reply of a node, or one of its rows that are here."""
        recorded = self._recorded(name, request)
        if recorded is not None:
            return recorded
        task = TASKS[request.task]
        only_reports = task.reports
        if name in self.judges:
            if only_reports:
                return answer(request, self.judges[name])
            if task.is_of_judging is not None and task.is_of_judging(request.content):
                return answer(request, self.judges[name].drop_rows())
        if only_reports:
            return _reply_without_score(request)
        earlier_requests = self.records[name].requests if name in self.records else []
        raise AskAgainError(
            f"Node {name!r} would have to be asked again "
            f"({difference_in_words(request, earlier_requests)}): what it sent before "
            "is not enough. Summarize again with these settings, call fit with the "
            "rows of all nodes, or, for methods that ask more than once, use "
            "skgems.Exchange or another channel."
        )

    def _send(
        self, requests: dict[str, Message], task_name: str, *, n_asked: int
    ) -> Iterator[tuple[str, Message | None]]:
        """Send requests; name and reply of each node, None for one that is left out."""
        history_entry = {
            "task": task_name,
            "bytes_sent": sum(message.n_bytes for message in requests.values()),
            "bytes_received": 0,
            "seconds": 0.0,
            "left_out": [],
            "loss": {},
            "min_rows": {},
        }
        self.history.append(history_entry)
        message = _SentMessage(
            task_name=task_name,
            task=TASKS[task_name],
            number=len(self.history),
            requests=self._sealed(requests),
            n_asked=n_asked,
            history_entry=history_entry,
            start=perf_counter(),
        )
        # Here, and not in the generator below: a folder raises in `ask`, before
        # anything else happens, if replies are missing.
        arriving = _in_order_of_requests(
            message.requests, self.channel.ask(dict(message.requests))
        )
        described = f"message {message.number} ({task_name})"
        return self._take(message, tracked(arriving, described, len(requests)))

    def _take(
        self, message: _SentMessage, arriving: Iterable[tuple[str, object]]
    ) -> Iterator[tuple[str, Message | None]]:
        """Hand on replies in order; nodes that fail are asked once more, all at once.

        From the first node that fails on replies wait, so that all stay in order.
        """
        waiting: dict[str, Message | None] = {}
        for name, reply in arriving:
            checked = self._checked_reply(message, name=name, reply=reply)
            del reply
            if isinstance(checked, Exception):
                message.failures[name] = checked
                waiting[name] = None
            elif message.failures:
                waiting[name] = checked
            else:
                yield name, checked
            del checked  # before the next one comes
        self._ask_once_more(message, waiting)
        if message.task.reports:
            for name in message.failures:
                waiting[name] = _reply_without_score(message.requests[name])
        is_lost = bool(message.failures) and message.task.is_needed
        if not is_lost:
            yield from waiting.items()
        self._end(message)
        if is_lost:
            self._drop(message.failures)
            raise NodesLostError(message.failures, self)

    def _ask_once_more(
        self, message: _SentMessage, waiting: dict[str, Message | None]
    ) -> None:
        """Ask the nodes that failed, but for those left out on purpose, a second time.

        Replies that come now take their place among those ``waiting``.
        """
        requests = {
            name: message.requests[name]
            for name, failure in message.failures.items()
            if not isinstance(failure, LeftOutError)
        }
        if not requests:
            return
        replies = self.channel.ask(dict(requests))
        for name, reply in _in_order_of_requests(requests, replies):
            checked = self._checked_reply(message, name=name, reply=reply)
            if isinstance(checked, Exception):
                message.failures[name] = checked
            else:
                del message.failures[name]
                waiting[name] = checked

    def _end(self, message: _SentMessage) -> None:
        """Note in the history what became of a message; raise if too few came."""
        if message.task.leads_on:
            self._drop(message.failures)
        message.history_entry["left_out"] = list(message.failures)
        message.history_entry["seconds"] = perf_counter() - message.start
        if message.failures:
            self._check_enough_came(message)
            _warn_of_failures(message)

    def _drop(self, names: Iterable[str]) -> None:
        """Ask these nodes for nothing more."""
        self.names = [name for name in self.names if name not in names]

    @property
    def _common_fields(self) -> dict:
        """What goes with every request beside what is asked."""
        fields: dict[str, object] = {}
        if self.front is not None:
            fields["front"] = self.front
        if self.rows_alone:
            fields["rows_alone"] = True
        return fields

    @property
    def _context(self) -> str:
        """A digest of what goes with every request, by which replies are kept apart."""
        fields = self._common_fields
        return digest(fields) if fields else ""

    def _sealed(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Requests with what says whose they are.

        One request for many nodes stays one object, which is signed once.
        """
        sealed_by_id: dict[int, Message] = {}
        for request in requests.values():
            if id(request) not in sealed_by_id:
                sealed_by_id[id(request)] = self._sealed_request(request)
        return {name: sealed_by_id[id(request)] for name, request in requests.items()}

    def _sealed_request(self, request: Message) -> Message:
        common_fields = self._common_fields
        # The front that is to be fitted stands in its request already.
        if common_fields and not TASKS[request.task].fits_front:
            request = request.with_fields(**common_fields)
        if self.agreement is None:
            return request
        return sealed(
            request, agreement=self.agreement, private_key=self.channel.private_key
        )

    def _checked_reply(
        self, message: _SentMessage, *, name: str, reply: object
    ) -> Message | Exception:
        """The reply if it fits its request, which is counted; else what is wrong.

        Input that is wrong at a node is raised, unless the task only reports: nobody
        is left out of a model for it unnoticed.
        """
        request = message.requests[name]
        failure = self._failure_of(name, request=request, reply=reply)
        if failure is None:
            self._count(message, name=name, reply=reply)
            return reply
        if not message.task.reports:
            _raise_wrong_input(
                name,
                failure=failure,
                is_needed=message.task.is_needed and not self.may_lose,
            )
        return failure

    def _failure_of(
        self, name: str, *, request: Message, reply: object
    ) -> Exception | None:
        """What a channel returned in place of a reply, or what is wrong with it."""
        if isinstance(reply, Exception):
            return reply
        try:
            if not isinstance(reply, Message):
                raise TypeError(
                    f"the channel gave a {type(reply).__name__} as its reply, not a "
                    "Message."
                )
            if self._is_computed_here(reply):
                check_fields_of_user(request, reply)
                return None
            self._check_sender(name, reply)
            description = self._recorded(name, Message.of("describe"))
            check_reply_of(
                name,
                request=request,
                reply=reply,
                described=None if description is None else description.content,
            )
            if self.agreement is not None:
                self.agreement.check_bound(reply, name)
        except (ValueError, TypeError) as error:
            return error
        return None

    def _is_computed_here(self, reply: Message) -> bool:
        """Whether a reply has its shapes and keeps its rules by construction.

        A stranger may send what no rows have as sums. The library does not, of rows
        that were validated in this process: but for what a user gave (`Task.of_user`),
        all that can be wrong is that numbers are too large, or none. All fields are
        checked of such a reply, since some may have them, and an error names the field.
        """
        if not self.channel.is_in_process or TASKS[reply.task].of_user is None:
            return False
        return has_usable_numbers(reply)

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
        if self.agreement is not None:
            expected["exchange"] = self.agreement.exchange
        for field_name, expected_value in expected.items():
            # A channel may leave the field out: it knows whom it asked.
            value = reply.envelope.get(field_name, expected_value)
            if value != expected_value:
                raise ValueError(
                    f"envelope.{field_name} is {value!r:.80}, not {expected_value!r}."
                )

    def _count(self, message: _SentMessage, *, name: str, reply: Message) -> None:
        """Enter a reply that fits into the history, and into the node's record."""
        history_entry = message.history_entry
        history_entry["bytes_received"] += reply.n_bytes
        if "loss" in reply.settings:
            history_entry["loss"][name] = reply.settings["loss"]
        min_rows = least_rows_of(reply)
        if min_rows is not None:
            history_entry["min_rows"][name] = min_rows
        if self.keeps and message.task.alone:
            # The context says what requests have in common: one without it is found
            # by plans, which ask without it.
            without_common_fields = message.requests[name].with_fields(
                **dict.fromkeys(self._common_fields)
            )
            record = self.records.setdefault(name, Record())
            record.keep(without_common_fields, reply, self._context)
        say(f"message {message.number} ({message.task_name}): node {name}")

    def _check_enough_came(self, message: _SentMessage) -> None:
        """Raise TooFewNodesError if a model would be of too few nodes."""
        n_came = message.n_asked - len(message.failures)
        n_needed = max(self.channel.min_nodes, 1)
        if n_came >= n_needed or message.task.reports:
            return
        number = message.number
        task_name = message.task_name
        name, cause = next(iter(message.failures.items()))
        if n_came:
            raise TooFewNodesError(
                f"Only {n_came} of {message.n_asked} nodes answered message {number} "
                f"({task_name}), but {n_needed} must answer. Node {name!r}: "
                f"{type(cause).__name__}: {cause}"
            ) from cause
        if isinstance(cause, LeftOutError):
            raise TooFewNodesError(
                f"Every node is left out of message {number} ({task_name}), but "
                f"{n_needed} must answer. Node {name!r}: {type(cause).__name__}: "
                f"{cause}"
            ) from cause
        raise TooFewNodesError(
            f"Every node failed twice in message {number} ({task_name}), but "
            f"{n_needed} must answer. Node {name!r}: {type(cause).__name__}: {cause}"
        ) from cause


def _warn_of_failures(message: _SentMessage) -> None:
    """Name the nodes that failed twice; not those left out on purpose."""
    has_consequences = message.task.is_needed or message.task.leads_on
    for name, failure in message.failures.items():
        if isinstance(failure, LeftOutError):
            continue
        if has_consequences:
            warn_user(
                f"Node {name!r} failed twice in message {message.number} and is left "
                f"out from then on: {type(failure).__name__}: {failure}"
            )
        else:
            warn_user(
                f"Node {name!r} failed twice in message {message.number} and is left "
                f"out of it: {type(failure).__name__}: {failure}"
            )


def check_reply_of(
    name: str, request: Message, reply: Message, described: Mapping | None = None
) -> None:
    """Raise ValueError unless a reply fits its request, and is of this node."""
    check_reply(request, reply, described=described)
    for content in joins_in(reply):
        if content["name"] != name:
            raise ValueError(f"summary.name is {content['name']!r}, not {name!r}.")


def _names_of_channel(channel: Channel) -> list[str]:
    """Names of the nodes where a channel leads; ValueError if they are not usable."""
    names_or_function = channel.names  # read once: it may be a property
    if callable(names_or_function):
        names = list(names_or_function())
    else:
        names = list(names_or_function)
    are_texts = all(isinstance(name, str) and name for name in names)
    if not are_texts or len(set(names)) < len(names):
        raise ValueError(f"names of a channel must be different texts, got {names!r}.")
    if PUBLIC_NAME in names:
        raise ValueError(
            f"A channel leads to a node {PUBLIC_NAME!r}, which marks public rows. Give "
            "the node another name."
        )
    return list(map(str, names))  # without types of strings that are numpy's


def _in_order_of_requests(
    requests: Mapping[str, Message], replies: Mapping | Iterable
) -> Iterator[tuple[str, object]]:
    """Name and reply of each node that was asked, in the order of the requests.

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


def _reply_without_score(request: Message) -> Message:
    """The reply of a node that scores nothing: no rows, and NaN for each model."""
    score = np.array(np.nan)
    if request.content.get("beside") is None:
        return Message.of("score", score=score, n_rows=0)
    return Message.of("score", score=score, beside=score, n_rows=0)


def _raise_wrong_input(name: str, *, failure: Exception, is_needed: bool) -> None:
    """Raise what is wrong with a node's input, or anything if its reply is needed."""
    text = str(failure)
    if not text.lower().startswith(f"node {name!r}".lower()):
        text = f"node {name!r}: {text}"
    for error_class in (AskAgainError, ValueError, TypeError):
        if isinstance(failure, error_class):
            # One traceback, which leads to the place: a cause would repeat the text.
            renamed = error_class(text).with_traceback(failure.__traceback__)
            raise renamed from failure.__cause__
    if is_needed:
        raise RuntimeError(text) from failure  # whose type says what the text does not
