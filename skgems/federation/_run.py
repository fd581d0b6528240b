"""Carry out plans over a channel: look up, ask, check, ask again, keep a history."""

from collections.abc import Generator, Iterable, Iterator, Mapping
from time import perf_counter
from typing import Any

import numpy as np

from ..base import warn_user
from ..local import Member, digest
from ..messages import (
    TASKS,
    Agreement,
    Message,
    Task,
    check_reply,
    check_signed,
    joins_in,
    least_rows_of,
    sealed,
)
from ..progress import say, tracked
from ._channel import as_channel
from ._record import Record, what_differs
from ._replying import answer

# Name and reply of each node that answered, in the order of the nodes.
Replies = Iterator[tuple[str, Message]]


class TooFewNodesError(RuntimeError):
    """Fewer nodes than needed came through a message.

    Attributes
    ----------
    parameters : list of ndarray or None
        What the nodes had come to before, where they train a shared model.
    """

    parameters: list | None = None


class RepliesMissingError(RuntimeError):
    """Replies have not come yet: a fit that is begun again finds those that have.

    Attributes
    ----------
    requests : dict
        Where the request of each node is that did not reply, by its name.
    """

    def __init__(self, requests: Mapping) -> None:
        super().__init__(f"Replies of nodes {list(requests)} are missing.")
        self.requests = dict(requests)


class LeftOutError(RuntimeError):
    """A channel's reply for a node left out on purpose: not asked again, no warning."""


class AskAgainError(ValueError):
    """A node would have to be asked again, and cannot be."""


class NodesLostError(RuntimeError):
    """Nodes gave no reply that a plan needs; `run` is over those that are left."""

    def __init__(self, names: Iterable[str], run: "Run") -> None:
        super().__init__(f"No reply came of nodes {list(names)}, which is needed.")
        self.run = run


def run(plan: Generator[Any, Any, Any], channel) -> Any:
    """Carry out a plan over a channel.

    Parameters
    ----------
    plan : generator
        Yields a :class:`Message` for all nodes, or a dict of them by name; is sent an
        iterator of (name, reply) of those that answered, in order; returns its result.
    channel : Channel
        As :class:`Nodes`.

    Returns
    -------
    result : object
        What the plan returns.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.federation import Message, Nodes, run
    >>> def plan():
    ...     replies = yield Message.of("counts")
    ...     return sum(reply.content["counts"].sum() for _, reply in replies)
    >>> def ask(requests):
    ...     told = {"labels": ["ill"], "counts": np.array([2]), "min_rows": 1}
    ...     reply = Message.of("counts", **told)
    ...     return dict.fromkeys(requests, reply)
    >>> int(run(plan(), Nodes(ask, ["lyon", "paris"])))
    4
    """
    return Run(as_channel(channel))(plan)


class Run:
    """Plans over one channel, one after the other, with one history."""

    def __init__(
        self,
        channel,
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
        self.reached = names_of(channel)
        # In the order in which replies are to come.
        self.names = self.reached if names is None else list(names)
        own = channel.records
        self.records = dict(records or {}) if own is None else own
        self.judges = dict(judges or {})  # rows that are here, of nodes that are not
        self.silent = list(silent)  # nodes that have no rows to reply with
        self.keeps = keeps or own is not None
        # Whether nodes are asked for what only reports.
        self.reports = channel.reports if reports is None else reports
        self.may_lose = may_lose  # a plan begins again without who is needed, and fails
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
        self.channel, self.reached = other.channel, other.reached
        self.judges |= other.judges  # of whom there may be rows
        self.silent = [name for name in self.silent if name not in other.names]
        return self

    def ask(self, request: Message | Mapping[str, Message]) -> Replies:
        """Replies to a request for all, or to one each, as they are taken."""
        if isinstance(request, Message):
            request = dict.fromkeys(self.names, request)
        asked = {name: request[name] for name in self.names if name in request}
        if not asked:
            return iter(())
        (name,) = {message.task for message in asked.values()}
        task = TASKS[name]
        without = [name for name in asked if name in self.silent]
        if without and not task.reports:
            raise ValueError(
                f"Nodes {without[:5]} are fitted classifiers, but there are no rows of "
                f"theirs to ask for {task.asks}: give fit X, y and nodes, or what the "
                "nodes' summarize made of them, or a channel to the nodes."
            )
        # Rows that are here score, if there are any, where nobody is asked.
        sent = {
            node: message
            for node, message in asked.items()
            if node in self.reached
            and (self.reports or not task.reports)
            and self._recorded(node, message) is None
        }
        out = self._sent(sent, task, len(asked)) if sent else iter(())
        return self._in_order(asked, sent, out)

    def _recorded(self, name: str, request: Message) -> Message | None:
        known = name in self.records and TASKS[request.task].alone
        if not known:
            return None
        if not self._common_fields:  # whatever has `get` is a record
            return self.records[name].get(request)
        return self.records[name].get(request, self._context)

    def _in_order(self, asked, sent, out) -> Replies:
        for name, message in asked.items():
            if name in sent:
                _, reply = next(out)
                if reply is not None:
                    yield name, reply
                del reply  # before the next one comes
            else:
                yield name, self._instead(name, message)
        for _ in out:  # so that it sees its end
            pass

    def _instead(self, name: str, request: Message) -> Message:
        """The reply of a node that cannot be asked, or of its rows that are here."""
        found, reports = self._recorded(name, request), TASKS[request.task].reports
        if found is not None:
            return found
        if name in self.judges:
            if reports:
                return answer(request, self.judges[name])
            if request.task == "evaluate" and request.content.get("of") != "learning":
                return answer(request, self.judges[name].without_rows())
        if reports:
            return _without_score(request)
        asked = self.records[name].requests if name in self.records else []
        raise AskAgainError(
            f"Node {name!r} would have to be asked again "
            f"({what_differs(request, asked)}): what it sent before is not enough. "
            "Summarize again with these settings, call fit with the rows of all nodes, "
            "or, for methods that ask more than once, use skgems.Exchange or another "
            "channel."
        )

    def _sent(self, sent: dict[str, Message], task: Task, n_asked: int) -> Iterator:
        """Name and reply of each, None if it is left out."""
        name = next(iter(sent.values())).task
        n_bytes = sum(message.n_bytes for message in sent.values())
        entry = {"task": name, "bytes_sent": n_bytes, "bytes_received": 0}
        entry |= {"seconds": 0.0, "left_out": [], "loss": {}, "min_rows": {}}
        self.history.append(entry)
        sent = self._sealed(sent)
        number, start = len(self.history), perf_counter()
        # A folder raises here, before anything else, if replies are missing.
        arriving = _in_order(self.channel.ask(dict(sent)), sent)
        arriving = tracked(arriving, f"message {number} ({name})", len(sent))
        return self._taken(sent, arriving, task, entry, number, start, n_asked)

    def _taken(self, sent, arriving, task, entry, number, start, n_asked) -> Iterator:
        failures: dict[str, Exception] = {}
        waiting: dict[str, Message | None] = {}
        again = None
        while again is None or again:
            for name, reply in arriving:
                reply = self._checked(name, sent[name], reply, entry, number)
                if isinstance(reply, Exception):
                    failures[name], reply = reply, None
                else:
                    failures.pop(name, None)
                if failures or again:  # until these are asked once more
                    waiting[name] = reply
                else:
                    yield name, reply
                del reply
            lost = [
                n for n, own in failures.items() if not isinstance(own, LeftOutError)
            ]
            again = {name: sent[name] for name in lost} if again is None else {}
            arriving = _in_order(self.channel.ask(dict(again)), again) if again else ()
        if task.reports:
            waiting |= {name: _without_score(sent[name]) for name in failures}
        lost = failures if task.is_needed else {}
        if not lost:
            yield from waiting.items()
        if task.leads_on:
            self.names = [name for name in self.names if name not in failures]
        entry["left_out"] = list(failures)
        entry["seconds"] = perf_counter() - start
        self._report_failures(failures, n_asked, task, entry["task"], number)
        if lost:
            self.names = [name for name in self.names if name not in lost]
            raise NodesLostError(lost, self)

    @property
    def _common_fields(self) -> dict:
        """What goes with every request beside what is asked."""
        fields = {} if self.front is None else {"front": self.front}
        return fields | ({"rows_alone": True} if self.rows_alone else {})

    @property
    def _context(self) -> str:
        """A digest of what goes with every request, by which replies are kept apart."""
        fields = self._common_fields
        return digest(fields) if fields else ""

    def _sealed(self, sent: dict[str, Message]) -> dict[str, Message]:
        """Requests with what says whose they are; equal ones stay one."""
        key, found = self.channel.private_key, {}
        for number, own in {id(request): request for request in sent.values()}.items():
            if own.task != "front":
                own = own.with_fields(**self._common_fields)
            agreed = self.agreement
            found[number] = own if agreed is None else sealed(own, agreed, key)
        return {name: found[id(request)] for name, request in sent.items()}

    def _check_sender(self, name: str, reply: Message) -> None:
        keys = self.channel.public_keys
        if keys:
            if name not in keys:
                raise ValueError("there is no public key of it.")
            check_signed(reply, keys[name])
        exchange = self.agreement and self.agreement.exchange
        for field, due in {"node": name, "exchange": exchange}.items():
            own = reply.envelope.get(field, due)
            if due is not None and own != due:
                raise ValueError(f"envelope.{field} is {own!r:.80}, not {due!r}.")

    def _checked(self, name, request, reply, entry, number) -> Message | Exception:
        """The reply if it fits its request, which is counted; else what is wrong."""
        task = TASKS[request.task]
        if not isinstance(reply, Exception):
            try:
                if not isinstance(reply, Message):
                    gave = f"the channel gave {type(reply).__name__} for its reply"
                    raise TypeError(f"{gave}, no Message.")
                self._check_sender(name, reply)
                known = self._recorded(name, Message.of("describe"))
                check_reply_of(name, request, reply, known and known.content)
                if self.agreement is not None:
                    self.agreement.check_bound(reply, name)
            except (ValueError, TypeError) as exc:
                reply = exc
        if isinstance(reply, Exception):
            if not task.reports:
                _raise_wrong_input(name, reply, task.is_needed and not self.may_lose)
            return reply
        entry["bytes_received"] += reply.n_bytes
        if "loss" in reply.settings:
            entry["loss"][name] = reply.settings["loss"]
        min_rows = least_rows_of(reply)
        if min_rows is not None:
            entry["min_rows"][name] = min_rows
        if self.keeps and task.alone:
            asked = request.with_fields(**dict.fromkeys(self._common_fields))
            record = self.records.setdefault(name, Record())
            record.keep(asked, reply, self._context)
        say(f"message {number} ({entry['task']}): node {name}")
        return reply

    def _report_failures(self, failures, n_asked, task, name, number) -> None:
        came = n_asked - len(failures)
        least = max(self.channel.min_nodes, 1)
        if failures and came < least and not task.reports:
            first, cause = next(iter(failures.items()))
            who = f"Only {came} of {n_asked} nodes came through"
            if not came:
                left = isinstance(cause, LeftOutError)
                who = f"Every node {'is left out of' if left else 'failed twice in'}"
            raise TooFewNodesError(
                f"{who} message {number} ({name}), {least} must come through. Node "
                f"{first!r}: {type(cause).__name__}: {cause}"
            ) from cause
        of = "from there on" if task.is_needed or task.leads_on else "of it"
        for node, failure in failures.items():
            if not isinstance(failure, LeftOutError):
                warn_user(
                    f"Node {node!r} failed twice in message {number} and is left out "
                    f"{of}: {type(failure).__name__}: {failure}"
                )


def check_reply_of(
    name: str, request: Message, reply: Message, described: Mapping | None = None
) -> None:
    check_reply(request, reply, described)
    for own in joins_in(reply):
        if own["name"] != name:
            raise ValueError(f"summary.name is {own['name']!r}, not {name!r}.")


def names_of(channel) -> list[str]:
    """Names of the nodes where a channel leads; ValueError if they are not usable."""
    names = channel.names
    names = list(names() if callable(names) else names)
    wrong = [name for name in names if not isinstance(name, str) or not name]
    if wrong or len(set(names)) < len(names):
        raise ValueError(f"names of a channel must be different texts, got {names!r}.")
    return list(map(str, names))  # without types of strings that are numpy's


def _in_order(replies, asked: Mapping[str, Message]) -> Iterator:
    """Names and replies in the order of those asked; an exception if none came."""
    pairs = iter(replies.items() if isinstance(replies, Mapping) else replies)
    early: dict[str, object] = {}
    for name in asked:
        while name not in early:
            other, reply = next(pairs, (None, None))
            if other is None:
                reply = early[name] = ConnectionError("no reply came")
            elif other in asked:
                early[other] = reply
        reply = early.pop(name)
        yield name, reply
        del reply


def _without_score(request: Message) -> Message:
    names = ["score"] if request.content.get("beside") is None else ["score", "beside"]
    return Message.of("score", **dict.fromkeys(names, np.array(np.nan)), n_rows=0)


def _raise_wrong_input(name: str, failure: Exception, is_needed: bool) -> None:
    """Raise what is wrong with a node's input, or anything if its reply is needed."""
    text = str(failure)
    if not text.lower().startswith(f"node {name!r}".lower()):
        text = f"node {name!r}: {text}"
    for kind in (AskAgainError, ValueError, TypeError):
        if isinstance(failure, kind):
            # One traceback, which leads to the place: a cause would repeat the text.
            renamed = kind(text).with_traceback(failure.__traceback__)
            raise renamed from failure.__cause__
    if is_needed:
        raise RuntimeError(text) from failure  # whose type says what the text does not
