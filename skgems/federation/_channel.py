# SPDX-License-Identifier: BSD-3-Clause
"""The channel within a process: nodes answer here, or in workers of this machine."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from time import perf_counter

from joblib import effective_n_jobs
from sklearn.utils.parallel import Parallel, delayed

from ..local import Member, digest, recall
from ..messages import TASKS, Message, Task
from ..spaces import Registered
from ._plan import Replies, answer
from ._summary import AskAgainError, SummarizedMember

__all__ = ["InProcess", "TooFewNodes"]


class TooFewNodes(RuntimeError):
    """Fewer nodes than needed came through a message.

    Attributes
    ----------
    parameters : list of ndarray or None
        What the nodes had come to before, where they train a shared model.

    Examples
    --------
    >>> from skgems.federation import TooFewNodes
    >>> issubclass(TooFewNodes, RuntimeError)
    True
    """

    parameters: list | None = None


class InProcess:
    """Hand requests to members in this process, and their replies back.

    A node that fails is asked once more. What is wrong with its input, a ValueError or
    a TypeError, is raised; after anything else it is left out of the message with a
    warning, unless the task needs every node.

    Parameters
    ----------
    members : sequence of Member or SummarizedMember
        In the order in which replies are to come.
    min_nodes : int, default=1
        How many have to answer each message.
    n_jobs : int, default=None
        Nodes that work in parallel.
    log : callable, default=None
        Called with a line about each reply.
    recalls : bool, default=False
        Whether tasks that may be recalled are looked up, by request and member, before
        they are done: worth it where the same requests will come again.
    memory : None, str or object with the joblib.Memory interface, default=None
        Where they are kept, see :func:`~skgems.local.recall`.

    Attributes
    ----------
    history : list of dict
        For each message: its "task", the "bytes_sent" to all nodes and the
        "bytes_received" from them, the "seconds" until the last reply was taken, the
        names of the nodes "left_out", and the "loss" of each node by name, if it told
        one.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import SGDClassifier
    >>> from skgems.federation import InProcess, Message
    >>> from skgems.local import Member
    >>> X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    >>> local = SGDClassifier(loss="log_loss").fit(X, y)
    >>> channel = InProcess([Member.of(name, local, X, y) for name in "ab"])
    >>> request = Message.of(
    ...     "train", parameters=[np.zeros((1, 1)), np.zeros(1)], classes=[0, 1],
    ...     epochs=1, rates=np.array([0.1]), seed=0,
    ... )
    >>> [name for name, reply in channel(request)]
    ['a', 'b']
    >>> channel.history[0]["left_out"], sorted(channel.history[0]["loss"])
    ([], ['a', 'b'])
    """

    def __init__(
        self,
        members: Sequence[Member],
        *,
        min_nodes: int = 1,
        n_jobs: int | None = None,
        log: Callable[[str], None] | None = None,
        recalls: bool = False,
        memory=None,
    ) -> None:
        self.members = list(members)
        self.min_nodes = min_nodes
        self.n_jobs = n_jobs
        self.log = log
        self.recalls = recalls
        self.memory = memory
        self._digests: dict[tuple[str, str], str | None] = {}
        self.history: list[dict] = []

    def __call__(self, request: Message | Mapping[str, Message]) -> Replies:
        """Replies to a request for all, or to one each, as they are taken."""
        asked = [
            (member, request if isinstance(request, Message) else request[member.name])
            for member in self.members
            if isinstance(request, Message) or member.name in request
        ]
        (name,) = {message.task for _, message in asked}
        entry = {
            "task": name,
            "bytes_sent": sum(message.n_bytes for _, message in asked),
            "bytes_received": 0,
            "seconds": 0.0,
            "left_out": [],
            "loss": {},
        }
        self.history.append(entry)
        for member, message in asked:
            if isinstance(member, SummarizedMember):
                member.post(message, len(self.history))
        return self._replies(asked, TASKS[name], entry)

    def _replies(self, asked, task, entry) -> Replies:
        start, failures = perf_counter(), {}
        told: dict[tuple, str] = {}
        jobs = (
            (message, member, self._digest(message, member, task, told), self.memory)
            for member, message in asked
        )
        if effective_n_jobs(self.n_jobs) == 1:
            answers = starmap(_attempt, jobs)
        else:
            workers = Parallel(self.n_jobs, prefer=task.prefer, return_as="generator")
            answers = workers(delayed(_attempt)(*job) for job in jobs)
        number = len(self.history)
        for (member, _), reply in zip(asked, answers, strict=True):
            if isinstance(reply, Exception):
                _raise_wrong_input(member.name, reply, task)
                failures[member.name] = reply
                entry["left_out"].append(member.name)
                continue
            entry["bytes_received"] += reply.n_bytes
            if "loss" in reply.settings:
                entry["loss"][member.name] = reply.settings["loss"]
            if self.log is not None:
                self.log(f"message {number} ({entry['task']}): node {member.name}")
            yield member.name, reply
            del reply  # before the next one comes
        entry["seconds"] = perf_counter() - start
        came = len(asked) - len(failures)
        if failures and came < max(self.min_nodes, 1):
            name, cause = next(iter(failures.items()))
            who = f"Only {came} of {len(asked)} nodes came through"
            if not came:
                who = "Every node failed twice in"
            raise TooFewNodes(
                f"{who} message {number} ({entry['task']}), {max(self.min_nodes, 1)} "
                f"must come through. Node {name!r}: {type(cause).__name__}: {cause}"
            ) from cause
        for name, failure in failures.items():
            warnings.warn(
                f"Node {name!r} failed twice in message {number} and is left out of "
                f"it: {type(failure).__name__}: {failure}",
                UserWarning,
                stacklevel=2,
            )

    def _digest(
        self, request: Message, member: Member, task: Task, told: dict[tuple, str]
    ) -> str | None:
        """That of all that a reply depends on, if replies are looked up.

        ``told`` are digests of arrays of requests that are out at the same time.
        """
        if not self.recalls or task.reads is None:
            return None
        key = member.name, task.reads
        if key not in self._digests:
            self._digests[key] = member.digest(task.reads == "classifier")
        own = self._digests[key]
        if own is None:
            return None
        arrays = {}
        for name, array in request.arrays.items():
            place = array.__array_interface__["data"], array.shape, array.dtype
            if place not in told:
                told[place] = digest(array)
            arrays[name] = told[place]
        # The last is there since requests tell classes by their names.
        parts = request.version, request.task, request.settings, arrays
        return digest(own, *parts, Registered.redefinitions)


def _raise_wrong_input(name: str, failure: Exception, task: Task) -> None:
    """Raise what is wrong with a node's input, or anything if all nodes are needed."""
    wrong = (AskAgainError, ValueError, TypeError)
    kind = next((kind for kind in wrong if isinstance(failure, kind)), None)
    if kind is None and task.is_needed:
        kind = RuntimeError
    if kind is not None:
        told = str(failure)
        if not told.lower().startswith(f"node {name!r}".lower()):
            told = f"node {name!r}: {told}"
        raise kind(told) from failure


class _Asked:
    """A request to a member, which is hashed as its digest."""

    def __init__(self, request: Message, member: Member, digest: str) -> None:
        self.request, self.member, self.digest = request, member, digest

    def __reduce__(self):
        return str, (self.digest,)


def _answer_to(asked: _Asked) -> Message:
    return answer(asked.request, asked.member)


def _ask(request: Message, member: Member | SummarizedMember) -> Message:
    if isinstance(member, SummarizedMember):
        return member.reply(request)
    return answer(request, member)


def _attempt(
    request: Message, member: Member, digest: str | None, memory
) -> Message | Exception:
    """The reply, or the last exception; input that is wrong is not tried again.

    It is looked up by the digest, unless that is None.
    """
    failure = None
    for _ in range(2):
        try:
            if digest is None:
                return _ask(request, member)
            return recall(_answer_to, memory, asked=_Asked(request, member, digest))
        except (ValueError, TypeError) as exc:
            return exc
        except Exception as exc:
            failure = exc
    return failure
