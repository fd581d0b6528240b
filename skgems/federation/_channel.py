"""Channels: how requests reach nodes, in this process or by a function of the user."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from types import MappingProxyType

from joblib import effective_n_jobs
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import ThreadpoolController

from ..local import Member, cached_call, digest, recall, remember
from ..messages import TASKS, Agreement, Message, as_agreement
from ..spaces import Registered
from ._replying import MIN_ROWS, answer

# Nodes from which on processes answer sooner than threads, which wait for each other in
# all that is Python: 250 nodes of 60 to 500 rows took two cores 1.5 s by processes and
# 3.9 s by threads, more than one after the other; five of 10,000 rows 0.2 s by any.
_MANY = 32
_controller = cache(ThreadpoolController)


class Channel:
    """How requests reach nodes and replies come back: the base class of all channels.

    A subclass has a method ``ask`` and an attribute ``names``. `estimators` of an
    aggregator takes it in place of a list.

    Attributes
    ----------
    names : list of str or callable
        Who takes part; a callable returns the list, and is called once a fit.
    agreement : Agreement or None
        What all have accepted. None: one is made for the first fit, and set here.
    min_rows : int
        The bound in the agreement that is made where there is none (10).
    min_nodes : int
        How many nodes have to answer each message (1).
    private_key : str, os.PathLike or None
        The server's; it signs requests. None: they are not signed.
    public_keys : mapping of str to path or bytes
        Keys of nodes, by which their replies must be signed. Empty: they need not be.
    records : dict of str to Record, or None
        What nodes said of themselves, which is not asked again. None: nothing is kept
        from one fit to the next.
    reports : bool
        Whether a fit ends with asking how good the aggregate is on the nodes' rows.
    rows_alone : bool
        Whether nodes leave their classifiers aside.
    members : sequence of Member
        Nodes that are in this process; none elsewhere.

    Examples
    --------
    A channel to nodes on other machines is written in eight lines, of which ``send``
    is yours:

    >>> from skgems.federation import Channel, Message
    >>> class Wire(Channel):
    ...     def __init__(self, send, names):
    ...         self.send, self.names = send, names
    ...
    ...     def ask(self, requests):
    ...         for name, request in requests.items():
    ...             yield name, Message.from_bytes(self.send(name, request.to_bytes()))

    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.federation import reply_to
    >>> X = np.linspace(-1, 1, 60).reshape(-1, 1)
    >>> y = np.where(X[:, 0] > 0, "ill", "well")
    >>> clf = LogisticRegression().fit(X, y)
    >>> wire = Wire(lambda name, data: reply_to(data, clf, X, y, name=name), ["lyon"])
    >>> GEMSLogisticAggregator(wire, random_state=0).fit().predict([[0.9]]).tolist()
    ['ill']
    """

    names: Sequence[str] | Callable[[], Sequence[str]]
    agreement: Agreement | None = None
    min_rows: int = MIN_ROWS
    min_nodes: int = 1
    private_key: str | os.PathLike | None = None
    public_keys: Mapping = MappingProxyType({})
    records: dict | None = None
    reports: bool = True
    rows_alone: bool = False
    members: Sequence[Member] = ()

    def ask(self, requests: Mapping[str, Message]) -> Mapping | Iterable:
        """Send requests and return replies.

        Parameters
        ----------
        requests : dict of str to Message
            By name of the node, all of one task.

        Returns
        -------
        replies : dict or iterable of pairs
            Of each name the reply, a Message, or an exception in its place; pairs may
            come in any order. Nodes that are not among them did not reply. Those who
            failed are asked once more, all in one call.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no method ask(requests), which sends requests "
            "to nodes and returns their replies: write one."
        )


def as_channel(channel) -> Channel:
    """The channel, or TypeError for what has its methods and is none."""
    if not isinstance(channel, Channel):
        raise TypeError(
            f"{type(channel).__name__} is no channel. Let its class derive from "
            "skgems.federation.Channel, which has defaults for all but ask and names; "
            "or give Nodes(ask, names)."
        )
    return channel


class Nodes(Channel):
    """Nodes that a function of yours reaches: what `estimators` of an aggregator takes.

    Parameters
    ----------
    ask : callable
        ``ask(requests)`` takes a dict of :class:`Message` by name, and returns one of
        the replies (:func:`reply_to`), or of exceptions in their place; pairs, as they
        come, will do. Those who failed are asked once more, all in one call.
    names : list of str or callable
        Who takes part; a callable returns the list, and is called once a fit.
    min_nodes : int, default=1
        How many have to answer each message.
    agreement : Agreement, str or os.PathLike, default=None
        What all have accepted, or its file. None: made for the first fit, and offered
        to the nodes with its first request; a search needs one of more ``fits``.
    private_key : str or os.PathLike, default=None
        The server's, by :func:`signing_keys`; it signs requests.
    public_keys : dict of str to path or bytes, default=None
        Nodes' ed25519 keys, by which replies must be signed. None: they need not be.
    min_rows : int, default=10
        The bound in the agreement that is made where none is given: replies that nodes
        made under a smaller ``min_rows`` are refused.

    Attributes
    ----------
    records : dict of str to Record
        What nodes said of themselves, which a search, or the next fit, does not ask.
    reports : bool
        Whether a fit, and not only ``ask_scores``, asks how good it is on nodes' rows.

    Notes
    -----
    ``clone`` hands it over as it is. Pickling keeps names and records alone.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.federation import Message, Nodes, reply_to
    >>> X, y = load_iris(return_X_y=True)
    >>> rows = {"lyon": y < 2, "paris": y > 0}
    >>> def node(name, data):  # on another machine
    ...     own = X[rows[name]], y[rows[name]]
    ...     return reply_to(data, LogisticRegression().fit(*own), *own, name=name)
    >>> def ask(requests):
    ...     sent = {name: request.to_bytes() for name, request in requests.items()}
    ...     came = {name: node(name, data) for name, data in sent.items()}
    ...     return {name: Message.from_bytes(data) for name, data in came.items()}
    >>> agg = GEMSLogisticAggregator(Nodes(ask, ["lyon", "paris"]), random_state=0)
    >>> agg.fit().score(X, y) > 0.9
    True
    >>> [entry["task"] for entry in agg.history_]
    ['join']
    """

    reports = False

    def __init__(
        self,
        ask: Callable[[dict[str, Message]], Mapping | Iterable],
        names: Sequence[str] | Callable[[], Sequence[str]],
        *,
        min_nodes: int = 1,
        agreement=None,
        private_key=None,
        public_keys: Mapping | None = None,
        min_rows: int = MIN_ROWS,
    ) -> None:
        self.ask = ask
        self.names = names
        self.min_nodes = min_nodes
        self.agreement = None if agreement is None else as_agreement(agreement)
        self.private_key = private_key
        self.public_keys = dict(public_keys or {})
        self.min_rows = min_rows
        self.records: dict = {}

    def __getstate__(self) -> dict:
        state = dict(vars(self), ask=_not_here)
        if callable(self.names):
            state["names"] = list(self.records)
        return state

    def __repr__(self) -> str:
        return f"Nodes({self.names!r})"


def _not_here(requests):
    raise RuntimeError(
        "This channel was pickled, which keeps names and records and no transport: "
        f"nodes {list(requests)} cannot be asked. Give `estimators` a new one."
    )


class RowsAlone(Channel):
    """A channel to nodes that leave their classifiers aside, if they have any.

    `estimators` of an aggregator takes it in place of the channel. Nodes answer as if
    they had rows alone, so that it does not matter what their classifiers were fitted
    to, or whether these can be read at all. :func:`~skgems.combine` takes nodes so.

    Parameters
    ----------
    channel : Channel
        As :class:`Nodes`, or a :class:`~skgems.channels.Folder`.
    names : list of str, default=None
        Those of its nodes that are asked. None: all of them.

    Attributes
    ----------
    channel : Channel
        Whose other attributes it has, too.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.federation import Nodes, RowsAlone, reply_to
    >>> X, y = load_iris(return_X_y=True)
    >>> tree = DecisionTreeClassifier().fit(X, y)  # which is no linear model
    >>> def ask(requests):
    ...     return {k: reply_to(own, tree, X, y, name=k) for k, own in requests.items()}
    >>> agg = GEMSLogisticAggregator(RowsAlone(Nodes(ask, ["lyon"])), random_state=0)
    >>> agg.fit().score(X, y) > 0.9
    True
    """

    rows_alone = True

    def __init__(self, channel, *, names: list[str] | None = None) -> None:
        self.channel = as_channel(channel)
        self._names = None if names is None else list(names)

    @property
    def names(self):
        """Those who are asked."""
        return self.channel.names if self._names is None else self._names

    @property
    def agreement(self):
        """What all have accepted; that of the channel."""
        return self.channel.agreement

    @agreement.setter
    def agreement(self, agreement) -> None:
        self.channel.agreement = agreement

    @property
    def private_key(self):
        """That of the channel."""
        return self.channel.private_key

    @property
    def public_keys(self):
        """Those of the channel."""
        return self.channel.public_keys

    @property
    def min_nodes(self) -> int:
        """That of the channel."""
        return self.channel.min_nodes

    @property
    def min_rows(self) -> int:
        """That of the channel."""
        return self.channel.min_rows

    @property
    def records(self):
        """Those of the channel."""
        return self.channel.records

    @property
    def reports(self) -> bool:
        """That of the channel."""
        return self.channel.reports

    @property
    def members(self):
        """Those of the channel."""
        return self.channel.members

    def ask(self, requests):
        """Ask as the channel does; that classifiers stay aside is in the requests."""
        return self.channel.ask(requests)

    def __repr__(self) -> str:
        return f"RowsAlone({self.channel!r})"


class InProcess(Channel):
    """Members in this process: asked in a loop, or by workers of this machine."""

    def __init__(
        self, members: Sequence[Member], *, n_jobs=None, recalls=False, memory=None
    ) -> None:
        self.members = list(members)
        self.n_jobs = n_jobs
        self.recalls = recalls
        self.memory = memory
        self.names = [member.name for member in self.members]
        self._digests: dict[tuple[str, str], str | None] = {}

    def ask(self, requests: Mapping[str, Message]) -> Iterator[tuple]:
        """Names and replies to requests of one task, or what was raised."""
        asked = [(requests[m.name], m) for m in self.members if m.name in requests]
        found: dict[tuple, str] = {}
        jobs = ((*pair, self._digest(*pair, found), self.memory) for pair in asked)
        if effective_n_jobs(self.n_jobs) == 1:
            for job in jobs:  # with no name for a reply, which goes before the next
                yield job[1].name, _attempt(*job)
            return
        # What other processes reply is kept here, where the next fit finds it.
        jobs = list(jobs)
        here = self.memory is None
        kept = [_Asked(*own) if here and own[2] else None for *own, _ in jobs]
        known = [own and recall(_answer_to, asked=own) for own in kept]
        open_jobs = [job for job, own in zip(jobs, known, strict=True) if own is None]
        prefer = TASKS[next(iter(requests.values())).task].prefer
        prefer = "processes" if len(open_jobs) >= _MANY else prefer
        workers = Parallel(self.n_jobs, prefer=prefer, return_as="generator")
        if open_jobs:
            # Those that numerical libraries have in this process.
            pools = ThreadpoolController().info()
            asker = os.getpid(), {own["user_api"]: own["num_threads"] for own in pools}
            replies = workers(delayed(_attempt)(*job, asker) for job in open_jobs)
        for (_, member), own, reply in zip(asked, kept, known, strict=True):
            if reply is None:
                reply = next(replies)
                if own is not None and not isinstance(reply, Exception):
                    remember(reply, _answer_to, asked=own)
            yield member.name, reply
            del reply

    def _digest(self, request: Message, member: Member, found: dict) -> str | None:
        """That of all that a reply depends on; ``found``: those of arrays."""
        task = TASKS[request.task]
        if not self.recalls or task.reads is None:
            return None
        key = member.name, task.reads
        if key not in self._digests:
            self._digests[key] = member.digest(task.reads == "classifier")
        if self._digests[key] is None:
            return None
        arrays = {}
        for name, array in request.arrays.items():
            place = array.__array_interface__["data"], array.shape, array.dtype
            if place not in found:
                found[place] = digest(array)
            arrays[name] = found[place]
        # The last is there since requests have classes by their names.
        parts = request.version, request.task, request.settings, arrays
        return digest(self._digests[key], *parts, Registered.redefinitions)


class _Asked:
    """A request to a member, which is hashed as its digest."""

    def __init__(self, request: Message, member: Member, digest: str) -> None:
        self.pair, self.digest = (request, member), digest

    def __reduce__(self):
        return str, (self.digest,)


def _answer_to(asked: _Asked) -> Message:
    return answer(*asked.pair)


def _attempt(
    request, member, digest: str | None, memory, asked_in: tuple | None = None
) -> Message | Exception:
    """The reply, cached by the digest unless that is None, or what was raised."""
    # In another process there are to be as many threads: those decide the bits.
    elsewhere = asked_in is not None and asked_in[0] != os.getpid()
    try:
        with _controller().limit(limits=asked_in[1]) if elsewhere else nullcontext():
            if digest is None:
                return answer(request, member)
            asked = _Asked(request, member, digest)
            return cached_call(_answer_to, memory, asked=asked)
    except Exception as exc:
        return exc
