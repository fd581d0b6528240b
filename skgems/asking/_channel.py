"""Channels: how requests reach nodes, in this process or by a function of the user."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import NoReturn

from joblib import Memory, effective_n_jobs
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import ThreadpoolController

from ..disclosure import Disclosure, disclosure_of
from ..local import Member, cached_call, digest, recall, remember
from ..messages import TASKS, Agreement, Message, Reply, as_agreement
from ..parties import reply_of, told_if_not_pickled
from ..spaces import Registered
from ._checked_here import check_here

# Nodes from which on processes answer sooner than threads, which wait for each other in
# all that is Python: 250 nodes of 60 to 500 rows took two cores 1.5 s by processes and
# 3.9 s by threads, more than one after the other; five of 10,000 rows 0.2 s by any.
_N_NODES_FOR_PROCESSES = 32
# Made once a process: it looks for all numerical libraries that are loaded.
_threadpool_controller = cache(ThreadpoolController)


class Channel:
    """Base class of all channels, which bring requests to nodes and replies back.

    A subclass has a method ``ask`` and an attribute ``names``. Give it to an aggregator
    as `estimators`, in place of a list of classifiers.

    Attributes
    ----------
    names : list of str or callable
        Names of the nodes that take part. A callable returns the list, and is called
        once per fit.
    agreement : Agreement or None
        The agreement of all parties. If None, one is made for the first fit and stored
        here.
    disclosure : Disclosure, "auto" or None
        Rule of the agreement that is made if there is none yet; "auto" by default.
    min_nodes : int
        Number of nodes that have to answer each message; 1 by default.
    private_key : str, os.PathLike or None
        File of the server's private key, which signs requests. If None, requests are
        not signed.
    public_keys : mapping of str to path or bytes
        Public key of each node, by which its replies must be signed. If empty, replies
        need no signature.
    records : dict of str to Record, or None
        Replies in which nodes described themselves; these are not asked for again. If
        None, nothing is kept from one fit to the next.
    reports : bool
        Whether a fit ends with one more message, which asks the nodes how well the
        aggregate does on their rows; False by default. Nodes answer it with a ledger.
    rows_alone : bool
        Whether nodes answer from their rows only and leave their classifiers aside.
    members : sequence of Member
        Nodes that live in this process; empty if all nodes are elsewhere.

    See Also
    --------
    Nodes : A channel made of a function.

    Examples
    --------
    A channel to nodes on other machines needs only a few lines. You write the function
    ``send``, which carries bytes to a node and returns the bytes of the reply:

    >>> from skgems.asking import Channel, Message
    >>> class Wire(Channel):
    ...     def __init__(self, send, names):
    ...         self.send = send
    ...         self.names = names
    ...
    ...     def ask(self, requests):
    ...         for name, request in requests.items():
    ...             yield name, Message.from_bytes(self.send(name, request.to_bytes()))

    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.guard import reply_to
    >>> X = np.linspace(-1, 1, 60).reshape(-1, 1)
    >>> y = np.where(X[:, 0] > 0, "ill", "well")
    >>> clf = LogisticRegression().fit(X, y)
    >>> wire = Wire(lambda name, data: reply_to(data, clf, X, y, name=name), ["lyon"])
    >>> GEMSLogisticAggregator(wire, random_state=0).fit().predict([[0.9]]).tolist()
    ['ill']
    """

    names: Sequence[str] | Callable[[], Sequence[str]]
    agreement: Agreement | None = None
    disclosure: Disclosure | str | None = "auto"
    min_nodes: int = 1
    private_key: str | os.PathLike | None = None
    public_keys: Mapping = MappingProxyType({})
    records: dict | None = None
    reports: bool = False
    rows_alone: bool = False
    members: Sequence[Member] = ()
    # Whether replies are computed in this process, where no stranger can send any.
    is_in_process: bool = False

    def ask(self, requests: Mapping[str, Message]) -> Mapping | Iterable:
        """Send requests to nodes and return their replies.

        Parameters
        ----------
        requests : dict of str to Message
            The request for each node, by its name. All requests have the same task.

        Returns
        -------
        replies : dict or iterable of pairs
            For each name the reply, a Message, or an exception in its place. Pairs may
            come in any order. A missing name means that the node did not reply. All
            nodes that failed are asked once more, in one further call.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no method ask(requests), which sends requests "
            "to nodes and returns their replies: write one."
        )


def as_channel(channel: object) -> Channel:
    """The channel itself; TypeError where its class does not derive from Channel."""
    if not isinstance(channel, Channel):
        raise TypeError(
            f"{type(channel).__name__} is no channel. Let its class derive from "
            "skgems.asking.Channel, which has defaults for all but ask and names, "
            "or give Nodes(ask, names) in its place."
        )
    return channel


class Nodes(Channel):
    """Channel to nodes that a function of yours reaches.

    Give it to an aggregator as `estimators`.

    Parameters
    ----------
    ask : callable
        ``ask(requests)`` takes a dict of :class:`Message` by the name of the node. It
        returns a dict of the replies that the nodes made with :func:`reply_to`, with an
        exception in place of a reply that failed. It may also yield pairs of name and
        reply as they come. All nodes that failed are asked once more, in one further
        call.
    names : list of str or callable
        Names of the nodes that take part. A callable returns the list, and is called
        once per fit; use one if nodes come and go.
    min_nodes : int, default=1
        Number of nodes that have to answer each message. Increase it if a model of few
        nodes would be of no use.
    agreement : Agreement, str or os.PathLike, default=None
        The agreement of all parties, or its file. If None, one is made for the first
        fit and sent to the nodes with its first request. A parameter search needs one
        that allows several ``fits``.
    private_key : str or os.PathLike, default=None
        File of the server's private key, made by :func:`signing_keys`. If given,
        requests are signed.
    public_keys : dict of str to path or bytes, default=None
        Public ed25519 key of each node, by which its replies must be signed. If None,
        replies need no signature.
    disclosure : Disclosure, "auto" or None, default="auto"
        Rule of the agreement that is made if none is given: the server refuses replies
        that were made under a laxer one.

    Attributes
    ----------
    records : dict of str to Record
        Replies in which nodes described themselves. They are not asked for again in a
        parameter search or in the next fit.
    reports : bool
        Whether each fit, and not only ``ask_scores``, asks the nodes how well the
        aggregate does on their rows; False by default.

    Notes
    -----
    ``clone`` of an aggregator passes this object on unchanged. A pickle keeps the names
    and records, but not the function ``ask``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.asking import Message, Nodes
    >>> from skgems.guard import reply_to
    >>> X, y = load_iris(return_X_y=True)
    >>> rows = {"lyon": y < 2, "paris": y > 0}
    >>> def node(name, data):  # on another machine
    ...     X_node = X[rows[name]]
    ...     y_node = y[rows[name]]
    ...     clf = LogisticRegression().fit(X_node, y_node)
    ...     return reply_to(data, clf, X_node, y_node, name=name)
    >>> def ask(requests):
    ...     for name, request in requests.items():
    ...         yield name, Message.from_bytes(node(name, request.to_bytes()))
    >>> agg = GEMSLogisticAggregator(Nodes(ask, ["lyon", "paris"]), random_state=0)
    >>> agg.fit().score(X, y) > 0.9
    True
    >>> [message["task"] for message in agg.history_]
    ['join']
    """

    reports = False

    def __init__(
        self,
        ask: Callable[[dict[str, Message]], Mapping | Iterable],
        names: Sequence[str] | Callable[[], Sequence[str]],
        *,
        min_nodes: int = 1,
        agreement: Agreement | str | os.PathLike | None = None,
        private_key: str | os.PathLike | None = None,
        public_keys: Mapping | None = None,
        disclosure: Disclosure | str | None = "auto",
    ) -> None:
        self.ask = ask
        self.names = names
        self.min_nodes = min_nodes
        self.agreement = None if agreement is None else as_agreement(agreement)
        self.private_key = private_key
        self.public_keys = dict(public_keys or {})
        disclosure_of(disclosure)  # raises for other values
        self.disclosure = disclosure
        self.records: dict = {}

    def __getstate__(self) -> dict:
        state = dict(vars(self), ask=_not_here)
        if callable(self.names):
            state["names"] = list(self.records)
        return state

    def __repr__(self) -> str:
        return f"Nodes({self.names!r})"


def _not_here(requests: Mapping[str, Message]) -> NoReturn:
    """Raise RuntimeError: an unpickled channel cannot reach the nodes."""
    raise RuntimeError(
        "This channel was pickled, which keeps names and records but not the function "
        f"that reaches the nodes, so nodes {list(requests)} cannot be asked. Give "
        "`estimators` a new channel."
    )


class RowsAlone(Channel):
    """Channel to nodes that answer from their rows only, without their classifiers.

    Give it to an aggregator as `estimators`, in place of the channel that it wraps. It
    does not matter what the classifiers of the nodes were fitted on, or whether they
    are of a kind that can be read. :func:`~skgems.combine` uses it.

    Parameters
    ----------
    channel : Channel
        The channel to wrap, for example :class:`Nodes` or a
        :class:`~skgems.channels.Folder`.
    names : list of str, default=None
        Names of the nodes to ask. If None, all nodes of the channel are asked.

    Attributes
    ----------
    channel : Channel
        The wrapped channel. Its other attributes are attributes of this object, too.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.asking import Nodes, RowsAlone
    >>> from skgems.guard import reply_to
    >>> X, y = load_iris(return_X_y=True)
    >>> tree = DecisionTreeClassifier().fit(X, y)  # which is no linear model
    >>> def ask(requests):
    ...     for name, request in requests.items():
    ...         yield name, reply_to(request, tree, X, y, name=name)
    >>> agg = GEMSLogisticAggregator(RowsAlone(Nodes(ask, ["lyon"])), random_state=0)
    >>> agg.fit().score(X, y) > 0.9
    True
    """

    rows_alone = True

    def __init__(self, channel: Channel, *, names: list[str] | None = None) -> None:
        self.channel = as_channel(channel)
        self._names = None if names is None else list(names)

    @property
    def names(self) -> Sequence[str] | Callable[[], Sequence[str]]:
        """Names of the nodes that are asked."""
        return self.channel.names if self._names is None else self._names

    @property
    def agreement(self) -> Agreement | None:
        """The agreement of the wrapped channel."""
        return self.channel.agreement

    @agreement.setter
    def agreement(self, agreement: Agreement | None) -> None:
        self.channel.agreement = agreement

    @property
    def private_key(self) -> str | os.PathLike | None:
        """The private key of the wrapped channel."""
        return self.channel.private_key

    @property
    def public_keys(self) -> Mapping:
        """The public keys of the wrapped channel."""
        return self.channel.public_keys

    @property
    def min_nodes(self) -> int:
        """The number of nodes that have to answer, of the wrapped channel."""
        return self.channel.min_nodes

    @property
    def disclosure(self) -> Disclosure | str | None:
        """The rule of the wrapped channel."""
        return self.channel.disclosure

    @property
    def records(self) -> dict | None:
        """The records of the wrapped channel."""
        return self.channel.records

    @property
    def reports(self) -> bool:
        """Report whether the wrapped channel asks how well the aggregate does."""
        return self.channel.reports

    @property
    def members(self) -> Sequence[Member]:
        """The nodes of the wrapped channel that are in this process."""
        return self.channel.members

    def ask(self, requests: Mapping[str, Message]) -> Mapping | Iterable:
        """Ask as the wrapped channel does.

        The requests themselves tell the nodes to leave their classifiers aside.
        """
        return self.channel.ask(requests)

    def __repr__(self) -> str:
        return f"RowsAlone({self.channel!r})"


class InProcess(Channel):
    """Members in this process: asked in a loop, or by workers of this machine.

    Replies are objects, which no message carries. With ``recalls`` they are cached, and
    found again by a digest of all that they depend on: in ``memory`` (joblib's) if it
    is given, else in this process.
    """

    is_in_process = True
    reports = True

    def __init__(
        self,
        members: Sequence[Member],
        *,
        n_jobs: int | None = None,
        recalls: bool = False,
        memory: Memory | str | None = None,
    ) -> None:
        self.members = list(members)
        self.n_jobs = n_jobs
        self.recalls = recalls
        self.memory = memory
        self.names = [member.name for member in self.members]
        # By name of the member, and what a reply depends on (`Task.reads`).
        self._digests_of_members: dict[tuple[str, str], str | None] = {}

    def ask(
        self, requests: Mapping[str, Message]
    ) -> Iterator[tuple[str, Reply | Exception]]:
        """Return names and replies to requests of one task, or what was raised."""
        jobs = self._jobs(requests)
        if effective_n_jobs(self.n_jobs) == 1:
            # No name is bound to a reply: it is gone before the next one is made.
            for job in jobs:
                yield job.member.name, _attempt(job)
        else:
            task = TASKS[next(iter(requests.values())).task]
            yield from self._ask_workers(list(jobs), prefer=task.prefer)

    def _jobs(self, requests: Mapping[str, Message]) -> Iterator["_Job"]:
        """Yield the job of each member that is asked, in the order of the requests."""
        digests_of_arrays: dict[tuple, str] = {}  # of arrays that requests share
        members = {member.name: member for member in self.members}
        for name, request in requests.items():
            member = members[name]
            digest_of_reply = self._digest_of_reply(
                request, member=member, digests_of_arrays=digests_of_arrays
            )
            yield _Job(
                request=request,
                member=member,
                digest_of_reply=digest_of_reply,
                memory=self.memory,
            )

    def _ask_workers(
        self, jobs: list["_Job"], *, prefer: str
    ) -> Iterator[tuple[str, Reply | Exception]]:
        """Yield replies of threads or processes, in the order of the jobs.

        A cache in another process is gone with it. So replies of workers are kept in
        the cache of this one, where the next fit finds them.
        """
        recalled_replies = [job.recalled_reply() for job in jobs]
        open_jobs = [
            job
            for job, reply in zip(jobs, recalled_replies, strict=True)
            if reply is None
        ]
        new_replies: Iterator[Reply | Exception] = iter(())
        if open_jobs:
            new_replies = self._replies_of_workers(open_jobs, prefer=prefer)
        for job, reply in zip(jobs, recalled_replies, strict=True):
            if reply is None:
                reply = next(new_replies)
                job.keep(reply)
            yield job.member.name, reply
            del reply  # before the next one comes

    def _replies_of_workers(
        self, jobs: list["_Job"], *, prefer: str
    ) -> Iterator[Reply | Exception]:
        # Under a rule members remember what they told, which other processes cannot.
        remembers = any(job.member.disclosure is not None for job in jobs)
        if len(jobs) >= _N_NODES_FOR_PROCESSES and not remembers:
            prefer = "processes"
        pools = ThreadpoolController().info()
        asking_process = _AskingProcess(
            process_id=os.getpid(),
            n_threads={pool["user_api"]: pool["num_threads"] for pool in pools},
        )
        workers = Parallel(self.n_jobs, prefer=prefer, return_as="generator")
        classifiers = {job.member.name: job.member.model for job in jobs}
        with told_if_not_pickled(self.n_jobs, classifiers):
            yield from workers(delayed(_attempt)(job, asking_process) for job in jobs)

    def _digest_of_reply(
        self, request: Message, *, member: Member, digests_of_arrays: dict[tuple, str]
    ) -> str | None:
        """A digest of all that a reply depends on; None where it is not cached.

        Parameters
        ----------
        digests_of_arrays : dict
            Those of arrays of earlier requests, by their place in memory; extended.
            Requests to all nodes have the same arrays, which are hashed once.
        """
        task = TASKS[request.task]
        if not self.recalls or task.reads is None:
            return None
        if member.disclosure is not None:  # it depends on what was told before
            return None
        member_key = (member.name, task.reads)
        if member_key not in self._digests_of_members:
            self._digests_of_members[member_key] = member.digest(
                task.reads == "classifier"
            )
        digest_of_member = self._digests_of_members[member_key]
        if digest_of_member is None:
            return None
        arrays = {}
        for name, array in request.arrays.items():
            place = (array.__array_interface__["data"], array.shape, array.dtype)
            if place not in digests_of_arrays:
                digests_of_arrays[place] = digest(array)
            arrays[name] = digests_of_arrays[place]
        return digest(
            digest_of_member,
            request.version,
            request.task,
            request.settings,
            arrays,
            # Requests name the classes of spaces, and a name may be given to another
            # class later.
            Registered.redefinitions,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Job:
    """A request to a member, and where its reply is cached."""

    request: Message
    member: Member
    digest_of_reply: str | None  # None: the reply is not cached
    memory: Memory | str | None

    @property
    def hashed(self) -> "_HashedJob":
        return _HashedJob(job=self, digest=self.digest_of_reply)

    @property
    def _is_kept(self) -> bool:
        """Report whether the reply is cached in this process, not in a folder."""
        return self.memory is None and self.digest_of_reply is not None

    def answer(self) -> Reply:
        reply = reply_of(self.request, self.member)
        check_here(self.request, reply)
        return reply

    def recalled_reply(self) -> Reply | None:
        """Return the reply that is in the cache of this process, if there is one."""
        if not self._is_kept:
            return None
        return recall(_answer_hashed_job, hashed_job=self.hashed)

    def keep(self, reply: Reply | Exception) -> None:
        """Put what a worker replied into the cache of this process."""
        if self._is_kept and not isinstance(reply, Exception):
            remember(reply, _answer_hashed_job, hashed_job=self.hashed)


@dataclass(frozen=True, kw_only=True, eq=False)
class _HashedJob:
    """A job that caches know by a digest: they hash its pickle."""

    job: _Job
    digest: str

    def __reduce__(self) -> tuple:
        return str, (self.digest,)


@dataclass(frozen=True, kw_only=True)
class _AskingProcess:
    """The process in which a plan runs."""

    process_id: int
    n_threads: Mapping[str, int]  # of numerical libraries, by threadpoolctl's user_api


def _answer_hashed_job(hashed_job: _HashedJob) -> Reply:
    return hashed_job.job.answer()


def _attempt(
    job: _Job, asking_process: _AskingProcess | None = None
) -> Reply | Exception:
    """Return the reply, which is cached if the job says so, or what was raised.

    In another process numerical libraries get as many threads as they have in the one
    that asks: sums in other parts have other bits.
    """
    limited_threads: AbstractContextManager = nullcontext()
    try:
        if asking_process is not None and asking_process.process_id != os.getpid():
            limited_threads = _threadpool_controller().limit(
                limits=asking_process.n_threads
            )
        with limited_threads:
            if job.digest_of_reply is None:
                return job.answer()
            return cached_call(_answer_hashed_job, job.memory, hashed_job=job.hashed)
    except Exception as error:
        return error
