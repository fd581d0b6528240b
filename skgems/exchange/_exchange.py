# SPDX-License-Identifier: BSD-3-Clause
"""The server's side: a folder of requests and replies, from which it goes on."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from pathlib import Path

import numpy as np

from ..base import PUBLIC_NAME, BaseAggregator
from ..federation import SummarizedMember, Summary, TooFewNodes, load_message
from ..local import Member
from ..messages import Message, check_reply, write_bytes
from ._answering import JOIN
from ._methods import as_json, from_json

_STATE = "exchange.json"
_VERSION = 1


class _Waiting(BaseException):
    """Replies are missing; the plan cannot go on now. No error of a node."""


class _LeftOut(RuntimeError):
    """The server goes on without a node."""


class Exchange:
    """Fit an aggregator with nodes that are reached by files alone.

    The server calls :meth:`step`, which writes a file for each node into the folder
    "requests"; however these get there, each node calls :func:`answer`, which writes a
    reply; once the replies are in the folder "replies" the next step goes on. All that
    the server knows is in the folder: started anew, on the same machine, it goes on
    from there. The model is that of a fit in one process, to the bit.

    Parameters
    ----------
    folder : str or os.PathLike
        Made if it is not there.
    aggregator : GEMSLogisticAggregator, GEMSMLPAggregator, PFNMAggregator or \
ModelAveragingAggregator, default=None
        Unfitted; its ``estimators`` are not looked at. None: that of the folder.
    nodes : list of str, default=None
        Names of the nodes. None: those of the folder.
    public_keys : dict of str to path, default=None
        The ed25519 key of each node, by which its replies must be signed. None: no
        signature is asked for.

    Attributes
    ----------
    aggregator : BaseAggregator
        Unfitted.
    nodes : list of str
    waiting_for : dict of str to Path
        After a step: the request of each node whose reply is missing.
    notes : list of str
        After a step: what was wrong with replies that are asked for again.

    See Also
    --------
    answer : The node's side.
    GEMSLogisticAggregator.summarize : All in one message, without a folder.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> import skgems
    >>> X = np.linspace(-1, 1, 80).reshape(-1, 1)
    >>> y = np.where(X[:, 0] > 0.1, "ill", "well")
    >>> rows = {"lyon": slice(0, None, 2), "paris": slice(1, None, 2)}
    >>> folder = tempfile.mkdtemp()
    >>> agg = skgems.GEMSLogisticAggregator(n_rounds=3, random_state=0)
    >>> exchange = skgems.Exchange(folder, agg, nodes=list(rows))
    >>> while (fitted := exchange.step()) is None:
    ...     for name, request in exchange.waiting_for.items():  # at each node
    ...         own = X[rows[name]], y[rows[name]]
    ...         clf = LogisticRegression().fit(*own)
    ...         _ = skgems.answer(request, clf, *own, name=name)
    >>> fitted.score(X, y) > 0.9
    True
    """

    def __init__(
        self, folder, aggregator=None, *, nodes=None, public_keys=None
    ) -> None:
        self.folder = Path(folder)
        self.public_keys = dict(public_keys or {})
        self.waiting_for: dict[str, Path] = {}
        self.notes: list[str] = []
        place = self.folder / _STATE
        if place.exists():
            state = self._read_state()
            if aggregator is not None:
                _check_same(state, aggregator, nodes, place)
        else:
            state = _new_state(aggregator, nodes, place)
            self.folder.mkdir(parents=True, exist_ok=True)
        self._state = state
        self.aggregator = from_json(state)
        self.nodes = list(state["nodes"])
        missing = set(self.nodes) - set(self.public_keys)
        if self.public_keys and missing:
            raise ValueError(f"public_keys has none of the nodes {sorted(missing)}.")
        for name in ("requests", "replies"):
            (self.folder / name).mkdir(exist_ok=True)
        self._write_state()

    def step(self, *, leave_out: Iterable[str] = ()) -> BaseAggregator | None:
        """Go on as far as replies allow.

        Parameters
        ----------
        leave_out : iterable of str, default=()
            Nodes that the message which waits goes on without, for good. In the first
            message they take no part at all; later only where the method can do
            without a node's reply.

        Returns
        -------
        fitted : aggregator or None
            None: replies are missing, see ``waiting_for``.

        Raises
        ------
        ValueError
            If a reply is not what its node may tell, which names file and field; or a
            node cannot be left out.
        TooFewNodes
            If none is left.
        """
        self.notes = []
        self._state = self._read_state()  # another server may have left nodes out
        mail = _Mail(self)
        leave_out = set(leave_out)
        unknown = leave_out - set(self.nodes)
        if unknown:
            raise ValueError(f"{sorted(unknown)} are no nodes; nodes are {self.nodes}.")
        try:
            summaries = self._joined(mail)
            aggregator = from_json(self._state)
            aggregator.set_params(estimators=summaries)
            fitted = aggregator.fit()
        except _Waiting:
            self.waiting_for = mail.missing()
            waiting = leave_out & set(self.waiting_for)
            if waiting:
                number = str(mail.number)
                left = self._state["left_out"].setdefault(number, [])
                left.extend(sorted(waiting - set(left)))
                self._write_state()
                return self.step(leave_out=leave_out - waiting)
            return None
        self.waiting_for = {}
        return fitted

    # ---- the first message ------------------------------------------------

    def _joined(self, mail: _Mail) -> list[_Remote]:
        """The nodes' summaries, which can be asked more."""
        tasks = self.aggregator._first_tasks()
        request = Message.of(
            JOIN,
            method=self._state["method"],
            settings=self.aggregator._node_settings() or {},
            tasks=tasks,
        )
        left_out = mail.left_out(1)
        here = [name for name in self.nodes if name not in left_out]
        if not here:
            raise TooFewNodes("Every node is left out; there is nobody to ask.")
        for name in here:
            mail.post(name, request, 0)
        told = [mail.reply(name, request) for name in here]
        return [
            self._summary(name, message, mail, request)
            for name, message in zip(here, told, strict=True)
        ]

    def _summary(self, name, message, mail, request) -> _Remote:
        path = mail.reply_path(name)
        try:
            summary = _Remote(message, mail)
            asked = request.content
            if summary.name != name:
                raise ValueError(f"summary.name is {summary.name!r}, not {name!r}.")
            for key in ("method", "settings"):
                if getattr(summary, key) != asked[key]:
                    raise ValueError(f"summary.{key} is not what was asked for.")
        except ValueError as exc:
            raise ValueError(f"{path}: {exc}") from exc
        return summary

    # ---- what the folder keeps --------------------------------------------

    def _read_state(self) -> dict:
        place = self.folder / _STATE
        try:
            state = json.loads(place.read_text(encoding="utf-8"))
            version = state["version"]
        except (ValueError, KeyError, TypeError) as exc:
            raise ValueError(f"{place}: it is no exchange of skgems: {exc!r}.") from exc
        if version != _VERSION:
            raise ValueError(
                f"{place}: it is of version {version}, this is version {_VERSION}."
            )
        try:
            from_json(state)
            _check_names(state["nodes"])
            _ = state["left_out"].items()
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise ValueError(f"{place}: it is no exchange of skgems: {exc!r}.") from exc
        return state

    def _write_state(self) -> None:
        text = json.dumps(self._state, indent=1)
        write_bytes(self.folder / _STATE, text.encode("utf-8"))

    def __repr__(self) -> str:
        kind = type(self.aggregator).__name__
        return f"Exchange({os.fspath(self.folder)!r}, {kind}, nodes={self.nodes})"


def _new_state(aggregator, nodes, place: Path) -> dict:
    if aggregator is None or nodes is None:
        raise ValueError(
            f"{place} is not there: a new exchange needs an aggregator and the names "
            "of the nodes."
        )
    nodes = list(nodes)
    _check_names(nodes)
    state = as_json(aggregator)
    seed = aggregator.random_state
    if seed is None:
        # What is computed anew in each step must be the same.
        seed = np.random.default_rng().integers(2**31 - 1)
    elif not isinstance(seed, Integral):
        raise ValueError(f"random_state must be a number or None, got {seed!r}.")
    state["params"]["random_state"] = int(seed)
    return {"version": _VERSION, **state, "nodes": nodes, "left_out": {}}


def _check_names(nodes: list) -> None:
    wrong = [n for n in nodes if not isinstance(n, str) or not n or n == PUBLIC_NAME]
    if type(nodes) is not list or not nodes or wrong or len(set(nodes)) < len(nodes):
        raise ValueError(f"nodes must be different names, got {nodes!r}.")


def _check_same(state: Mapping, aggregator, nodes, place: Path) -> None:
    given = as_json(aggregator)
    if given["params"]["random_state"] is None:
        given["params"]["random_state"] = state["params"]["random_state"]
    for name in ("method", "params"):
        if given[name] != state[name]:
            raise ValueError(
                f"{place}: this exchange has begun with another {name}: "
                f"{state[name]!r}, not {given[name]!r}. Take another folder."
            )
    if nodes is not None and list(nodes) != state["nodes"]:
        raise ValueError(
            f"{place}: this exchange has begun with the nodes {state['nodes']}, not "
            f"{list(nodes)}. Take another folder."
        )


class _Mail:
    """Requests that are written, and replies that are there."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.number = 0
        self._numbers: dict[int, int] = {}
        self._posted: dict[str, tuple[Message, str]] = {}

    def left_out(self, number: int) -> set[str]:
        """Nodes that a message goes on without."""
        return set(self.exchange._state["left_out"].get(str(number), ()))

    def post(self, name: str, request: Message, number: int) -> None:
        """Write a request, unless it is there; `number` is its message's in the fit."""
        if number not in self._numbers:
            self._numbers[number] = len(self._numbers) + 1
            self._posted = {}
        self.number = self._numbers[number]
        envelope = {"node": name, "number": str(self.number)}
        self._posted[name] = request, request.digest
        if name in self.left_out(self.number):
            return
        data = replace(request, envelope=envelope).to_bytes()
        path = self._path("requests", name)
        if not path.exists() or path.read_bytes() != data:
            write_bytes(path, data)

    def reply(self, name: str, request: Message) -> Message:
        """The reply of a node to the request that was posted last."""
        if name in self.left_out(self.number):
            raise _LeftOut("the server goes on without it")
        found = self._found(name)
        if found is None:
            raise _Waiting
        return found

    def missing(self) -> dict[str, Path]:
        """Requests without a reply."""
        return {
            name: self._path("requests", name)
            for name in self._posted
            if name not in self.left_out(self.number) and self._found(name) is None
        }

    def reply_path(self, name: str) -> Path:
        """Where the reply of a node is expected."""
        return self._path("replies", name)

    def _found(self, name: str) -> Message | None:
        path, (request, digest) = self.reply_path(name), self._posted[name]
        if not os.path.lexists(path):
            return None
        reply = load_message(path, public_key=self.exchange.public_keys.get(name))
        sender = reply.envelope.get("node")
        if sender != name:
            raise ValueError(f"{path}: envelope.node is {sender!r}, not {name!r}.")
        if reply.envelope.get("to") != digest:
            note = f"{path} replies to another request and is not used."
            if note not in self.exchange.notes:
                self.exchange.notes.append(note)
            return None
        if request.task != JOIN:
            try:
                check_reply(request, reply)
            except ValueError as exc:
                raise ValueError(f"{path}: {exc}") from exc
        return reply

    def _path(self, folder: str, name: str) -> Path:
        slug = re.sub(r"[^\w.-]", "_", name)[:60]
        if slug != name:  # two names must not meet in one file
            slug += "-" + hashlib.sha256(name.encode()).hexdigest()[:8]
        return self.exchange.folder / folder / f"{self.number:03d}-{slug}.safetensors"


@dataclass(frozen=True, eq=False, repr=False)
class _Remote(Summary):
    """A summary of a node that can be asked more, by mail."""

    mail: _Mail = field(default=None)

    can_be_asked = True

    def member(self, rows: Member) -> SummarizedMember:
        """See :meth:`Summary.member`."""
        return _RemoteMember(self.name, self, rows)


@dataclass(frozen=True, eq=False)
class _RemoteMember(SummarizedMember):
    """A node that replies by mail."""

    def post(self, request: Message, number: int) -> None:
        """Write the request down, where its summary does not reply to it."""
        if self.summary.reply(request) is None:
            self.summary.mail.post(self.name, request, number)

    def reply(self, request: Message) -> Message:
        """The reply in the summary, or the one that came by mail."""
        told = self.summary.reply(request)
        if told is not None:
            return told
        return self.summary.mail.reply(self.name, request)
