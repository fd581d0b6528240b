"""A message on its way to nodes, and back: who failed, who is asked once more."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter

from ..base import warn_user
from ..compat import say, tracked
from ..messages import Message, Reply, Task
from ._asked_nodes import AskAgainError, AskedNodes, reply_without_score
from ._lines import Line


class TooFewNodesError(RuntimeError):
    """Fewer nodes than ``min_nodes`` answered a message of a fit.

    Attributes
    ----------
    parameters : list of ndarray or None
        The last parameters of the shared model, if the nodes train one together.
    """

    parameters: list | None = None


class LeftOutError(RuntimeError):
    """A channel returns it in place of the reply of a node that is left out on purpose.

    Such a node is not asked again, and no warning is raised.
    """


@dataclass(eq=False, kw_only=True)
class SentMessage:
    """A message to nodes: its replies are taken in order, and noted in the history."""

    line: Line
    task: Task
    number: int  # in the history, from 1
    requests: dict[str, Message]  # by name of the node
    n_asked: int  # nodes that the plan asks, those with a recorded reply too
    min_nodes: int  # that have to answer, of those that are asked
    # Whether a plan that loses a node which it needs begins again without it.
    may_lose: bool
    nodes: AskedNodes
    lost_error: Callable[[Iterable[str]], Exception]  # of nodes that the plan needs
    failures: dict[str, Exception] = field(default_factory=dict)  # by name of the node

    def __post_init__(self) -> None:
        # As the history of a fit has it: "bytes_sent", "bytes_received", "seconds"
        # until the last reply was taken, names "left_out", and by name of the node the
        # "loss" and the bound "min_rows" under which it replied.
        self.history_entry: dict = {
            "task": self.task.name,
            "bytes_sent": sum(message.n_bytes for message in self.requests.values()),
            "bytes_received": 0,
            "seconds": 0.0,
            "left_out": [],
            "loss": {},
            "min_rows": {},
        }

    def send(self) -> Iterator[tuple[str, Reply | None]]:
        """Ask all nodes, then return an iterator of replies; None of one left out."""
        start = perf_counter()
        arriving = self.line.ask(self.requests)
        described = f"message {self.number} ({self.task.name})"
        return self._replies(tracked(arriving, described, len(self.requests)), start)

    def _replies(
        self, arriving: Iterable[tuple[str, Reply | Exception]], start: float
    ) -> Iterator[tuple[str, Reply | None]]:
        """Yield replies in order; nodes that fail are asked once more, all at once.

        From the first node that fails on replies wait, so that all stay in order. A
        wrong reply (ValueError, TypeError) is raised at once and never asked for again,
        unless the task only reports.
        """
        waiting: dict[str, Reply | None] = {}
        for name, reply in arriving:
            if isinstance(reply, Exception):
                self._note_or_raise(name, reply)
                waiting[name] = None
            else:
                self._count(name, reply)
                if self.failures:
                    waiting[name] = reply
                else:
                    yield name, reply
            del reply  # before the next one comes
        self._ask_once_more(waiting)
        if self.task.reports:
            for name in self.failures:
                waiting[name] = reply_without_score(self.requests[name])
        is_lost = bool(self.failures) and self.task.is_needed
        if not is_lost:
            yield from waiting.items()
        if is_lost or self.task.leads_on:
            self.nodes.drop(self.failures)
        self.history_entry["left_out"] = list(self.failures)
        self.history_entry["seconds"] = perf_counter() - start
        if self.failures:
            self._check_enough_came()
            self._warn_of_failures()
        if is_lost:
            raise self.lost_error(self.failures)

    def _ask_once_more(self, waiting: dict[str, Reply | None]) -> None:
        """Ask the nodes that failed, but for those left out on purpose, a second time.

        Replies that come now take their place among those ``waiting``.
        """
        requests = {
            name: self.requests[name]
            for name, failure in self.failures.items()
            if not isinstance(failure, LeftOutError)
        }
        if not requests:
            return
        for name, reply in self.line.ask(requests):
            if isinstance(reply, Exception):
                self._note_or_raise(name, reply)
            else:
                self._count(name, reply)
                del self.failures[name]
                waiting[name] = reply

    def _count(self, name: str, reply: Reply) -> None:
        """Enter a reply into the history."""
        entry = self.history_entry
        entry["bytes_received"] += reply.n_bytes
        loss = getattr(reply, "loss", None)
        if loss is not None:
            entry["loss"][name] = loss
        min_rows = getattr(reply, "min_rows", None)
        if min_rows is not None:
            entry["min_rows"][name] = min_rows
        say(f"message {self.number} ({self.task.name}): node {name}")

    def _note_or_raise(self, name: str, failure: Exception) -> None:
        """Note what went wrong at a node, or raise it.

        Input that is wrong at a node is raised, unless the task only reports: nobody is
        left out of a model for it unnoticed. So is anything where the reply is needed.
        """
        self.failures[name] = failure
        if self.task.reports:
            return
        text = str(failure)
        if not text.lower().startswith(f"node {name!r}".lower()):
            text = f"node {name!r}: {text}"
        for error_class in (AskAgainError, ValueError, TypeError):
            if isinstance(failure, error_class):
                # One traceback, which leads to the place: a cause repeats the text.
                renamed = error_class(text).with_traceback(failure.__traceback__)
                raise renamed from failure.__cause__
        if self.task.is_needed and not self.may_lose:
            raise RuntimeError(
                text
            ) from failure  # its type says what the text does not

    def _check_enough_came(self) -> None:
        """Raise TooFewNodesError if a model would be of too few nodes."""
        n_came = self.n_asked - len(self.failures)
        n_needed = max(self.min_nodes, 1)
        if n_came >= n_needed or self.task.reports:
            return
        name, cause = next(iter(self.failures.items()))
        message = f"message {self.number} ({self.task.name})"
        first_failure = f"Node {name!r}: {type(cause).__name__}: {cause}"
        if n_came:
            raise TooFewNodesError(
                f"Only {n_came} of {self.n_asked} nodes answered {message}, but "
                f"{n_needed} must answer. {first_failure}"
            ) from cause
        if isinstance(cause, LeftOutError):
            raise TooFewNodesError(
                f"Every node is left out of {message}, but {n_needed} must answer. "
                f"{first_failure}"
            ) from cause
        raise TooFewNodesError(
            f"Every node failed twice in {message}, but {n_needed} must answer. "
            f"{first_failure}"
        ) from cause

    def _warn_of_failures(self) -> None:
        """Name the nodes that failed twice; not those left out on purpose."""
        has_consequences = self.task.is_needed or self.task.leads_on
        for name, failure in self.failures.items():
            if isinstance(failure, LeftOutError):
                continue
            if has_consequences:
                warn_user(
                    f"Node {name!r} failed twice in message {self.number} and is left "
                    f"out from then on: {type(failure).__name__}: {failure}"
                )
            else:
                warn_user(
                    f"Node {name!r} failed twice in message {self.number} and is left "
                    f"out of it: {type(failure).__name__}: {failure}"
                )
