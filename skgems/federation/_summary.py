# SPDX-License-Identifier: BSD-3-Clause
"""Summaries: all that a node sends, as an object and as a file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ..local import Member
from ..messages import (
    Message,
    answered,
    check_reply,
    check_signature,
    check_start,
    check_summary,
    key_of,
    read_bytes,
    write_bytes,
)
from ..networks import Network
from ._plan import answer

__all__ = ["AskAgainError", "Summary", "SummaryFile", "is_path"]


class AskAgainError(ValueError):
    """A node would have to be asked again, and cannot be."""


class Told:
    """What a node sent, in memory or on disk: its base, for whoever takes either."""

    # Whether the node answers more than this.
    can_be_asked = False

    def member(self, rows: Member) -> SummarizedMember:
        """The node's side; `rows` are those of it that are here."""
        return SummarizedMember(self.name, self, rows)

    def __repr__(self) -> str:
        classes = self.network.classes[self.network.seen].tolist()
        more = f" and {len(classes) - 8} more" if len(classes) > 8 else ""
        return (
            f"{type(self).__name__}({self.name!r} for {self.method}: {self.n_rows} "
            f"rows, classes {classes[:8]}{more})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Summary(Told):
    """All that a node sends: its model as arrays, counts, moments, space; no rows.

    Made at a node by the ``summarize`` of an aggregator with the settings that all
    agreed on; a list of ``estimators`` takes it, or the path of its file, wherever it
    takes a fitted classifier. ``clone`` hands it over as it is.

    Parameters
    ----------
    message : Message
        What was replied to the task "summarize". Every field of it is checked.

    Attributes
    ----------
    name : str
        Of the node.
    method : str
        Name of the aggregator that it is made for.
    settings : dict
        Parameters of the aggregator that were decided at the node.
    network : Network
        The node's classifier as arrays.

    Raises
    ------
    ValueError
        If a field is not what a node may tell; the message names it.

    See Also
    --------
    GEMSLogisticAggregator.summarize : Makes one of a linear model.
    PFNMAggregator.summarize : Makes one of a network.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems import GEMSLogisticAggregator
    >>> X = np.linspace(-1, 1, 40).reshape(-1, 1)
    >>> y = np.where(X[:, 0] > 0.1, "ill", "well")
    >>> agg = GEMSLogisticAggregator(random_state=0)
    >>> summary = agg.summarize(LogisticRegression().fit(X, y), X, y, name="lyon")
    >>> summary
    Summary('lyon' for GEMSLogisticAggregator: 40 rows, classes ['ill', 'well'])
    >>> agg.set_params(estimators=[summary]).fit().predict([[-1.0], [1.0]])
    array(['well', 'ill'], dtype='<U4')
    """

    message: Message

    def __post_init__(self) -> None:
        if self.message.task != "summarize":
            raise ValueError(f"task is {self.message.task!r:.40}, not 'summarize'.")
        check_summary(self._content)

    @cached_property
    def _content(self) -> dict:
        return self.message.content

    @property
    def name(self) -> str:
        return self._content["name"]

    @property
    def method(self) -> str:
        return self._content["method"]

    @property
    def settings(self) -> dict:
        return self._content["settings"]

    @cached_property
    def network(self) -> Network:
        return Network.from_content(self._content["describe"]["network"])

    @property
    def n_rows(self) -> int:
        """Rows that it is made of."""
        return int(self._content["describe"]["rows"]["moments"].sum())

    @property
    def row_labels(self) -> list:
        """Labels of these rows."""
        return self._content["describe"]["rows"]["labels"]

    @property
    def tasks(self) -> set[str]:
        """What it can reply to."""
        told = {answer["task"] for answer in self._content["answers"].values()}
        return told | {"describe", "counts"}

    def reply(self, request: Message) -> Message | None:
        """What the node replied to a request, None if it was not asked that.

        Parameters
        ----------
        request : Message
            Weights and labels in it are the node's own.

        Returns
        -------
        reply : Message or None
        """
        told = _told(self._content, request)
        return None if told is None else Message.of(request.task, **told)

    # ---- as a file --------------------------------------------------------

    def save(self, path) -> None:
        """Write it to a file, as safetensors with a header in JSON; no pickle.

        Parameters
        ----------
        path : str or os.PathLike
            ``"lyon.safetensors"``, say. What is there is replaced, at once.
        """
        write_bytes(path, self.message.to_bytes())

    @classmethod
    def load(cls, path, *, public_key=None) -> Summary:
        """Read the file of a summary, which nobody need trust.

        Parameters
        ----------
        path : str or os.PathLike
        public_key : bytes or path, default=None
            The node's ed25519 key, by which a signature beside the file, of the same
            name and ``.sig``, must be; see :func:`~skgems.federation.sign`. None: no
            signature is asked for.

        Returns
        -------
        summary : Summary

        Raises
        ------
        ValueError
            If it is none, or a field of it is not what a node may tell; the message
            names file and field. Nothing in the file is executed.
        OSError
            If it cannot be read.
        """
        message = load_message(path, public_key=public_key)
        with _naming(path):
            return cls(message)

    def __sklearn_clone__(self) -> Summary:
        return self


@dataclass(frozen=True, eq=False, repr=False)
class SummaryFile(Told):
    """A summary that stays on disk and is read at each request; see `Summary`."""

    path: object

    def __post_init__(self) -> None:
        content = self._read()
        with _naming(self.path):
            # The rest is checked when it is asked for.
            check_summary({**content, "answers": {}})
            answers = [answered(content, number)[0] for number in content["answers"]]
            network = Network.from_content(content["describe"]["network"])
        rows = int(content["describe"]["rows"]["moments"].sum())
        found = {name: content[name] for name in ("name", "method", "settings")}
        tasks = {request.task for request in answers}
        vars(self).update(
            **found,
            network=network,
            n_rows=rows,
            row_labels=content["describe"]["rows"]["labels"],
            tasks=tasks | {"describe", "counts"},
        )

    def _read(self) -> dict:
        data = _message_bytes(self.path)
        digest = hashlib.sha256(data).digest()
        with _naming(self.path):
            # What was checked then is not checked again.
            if vars(self).setdefault("_digest", digest) != digest:
                raise ValueError("the file has changed since it was first read.")
            message = Message.from_bytes(data)
            if message.task != "summarize":
                raise ValueError(f"task is {message.task!r:.40}, not 'summarize'.")
            return message.content

    def reply(self, request: Message) -> Message | None:
        """See :meth:`Summary.reply`."""
        content = self._read()
        with _naming(self.path):
            told = _told(content, request)
            if told is None:
                return None
            reply = Message.of(request.task, **told)
            if request.task not in ("describe", "counts"):
                check_reply(request, reply, content["describe"])
        return reply


class _naming:
    """Put the name of a file before what is wrong with it."""

    def __init__(self, path) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind, failure, trace) -> None:
        if isinstance(failure, ValueError):
            raise ValueError(f"{os.fspath(self.path)}: {failure}") from failure


def load_message(path, *, public_key=None) -> Message:
    """Read a message from an untrusted file, checking its signature if a key is given.

    Raises ValueError, which names the file, if it is no message.
    """
    data = _message_bytes(path)
    if public_key is not None:
        check_signature(path, data, public_key)
    with _naming(path):
        return Message.from_bytes(data)


def _message_bytes(path) -> bytes:
    """The bytes of a file that begins as one of a message."""
    return read_bytes(path, look=check_start)


def is_path(member) -> bool:
    """Whether a member of a list of estimators is the path of a summary."""
    return isinstance(member, str | Path | os.PathLike)


def _told(content: Mapping, request: Message) -> dict | None:
    if request.task in ("describe", "counts"):
        return content[request.task]
    key = key_of(request)
    for own in content["answers"].values():
        if own["task"] == request.task:
            asked = Message.of(own["task"], **own["asked"])
            if key_of(asked) == key:
                return own["reply"]
    return None


@dataclass(frozen=True, eq=False)
class SummarizedMember:
    """A node that is not here: its summary replies, and rows here only score."""

    name: str
    summary: Summary | SummaryFile = field(repr=False)
    rows: Member = field(repr=False)  # its network, and its rows that are here, if any

    def digest(self, classifier: bool) -> None:
        """None: what it replies is there already."""
        return None

    def post(self, request: Message, number: int) -> None:
        """Hear of a request before any is replied to; its number is the message's."""

    def reply(self, request: Message) -> Message:
        """The summary's reply, or what the rows that are here score.

        Raises AskAgainError if only the node itself could reply.
        """
        told = self.summary.reply(request)
        if told is not None:
            return told
        content = request.content
        if request.task == "score":
            return answer(request, self.rows)
        if request.task == "evaluate" and content.get("of") != "learning":
            none = replace(self.rows, X=self.rows.X[:0], y=self.rows.y[:0])
            return answer(request, replace(none, judging=slice(None)))
        asked = {
            key: value
            for key, value in content.items()
            if key != "below" and not isinstance(value, np.ndarray | Mapping)
        }
        raise AskAgainError(
            f"its summary does not tell what is asked for now ({request.task}, "
            f"{asked}). Summarize again with these settings, or, for methods that ask "
            "more than once, use skgems.Exchange."
        )
