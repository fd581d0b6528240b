"""The nodes that a run asks, and what the server has of them already."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ..base import MOST_LISTED, PUBLIC_NAME
from ..local import Member, digest
from ..messages import TASKS, Agreement, Message, Reply, Task, reply_in, request_in
from ..parties import Record, difference_in_words, reply_of
from ._channel import Channel


class AskAgainError(ValueError):
    """A node would have to be asked again, which is not possible.

    This happens if a summary lacks a reply that the fit needs. Let the node make its
    summary again with the settings of this fit, or use a channel.
    """


@dataclass(frozen=True, eq=False, kw_only=True)
class Context:
    """What goes with every request of a run, beside what is asked."""

    agreement: Agreement | None = None
    front: Mapping | None = None  # through which nodes take their rows
    rows_alone: bool = False  # whether nodes leave their classifiers aside

    @classmethod
    def from_channel(
        cls,
        channel: Channel,
        *,
        agreement: Agreement | None = None,
        rows_alone: bool = False,
    ) -> Self:
        """Return what a channel says of all requests, unless it is given."""
        return cls(
            agreement=agreement or channel.agreement,
            rows_alone=rows_alone or channel.rows_alone,
        )

    @property
    def fields(self) -> dict:
        """Fields of a request; none where nodes have neither front nor restriction."""
        fields: dict[str, object] = {}
        if self.front is not None:
            fields["front"] = self.front
        if self.rows_alone:
            fields["rows_alone"] = True
        return fields

    @property
    def digest(self) -> str:
        """A digest of the fields, by which kept replies are told apart."""
        fields = self.fields
        return digest(fields) if fields else ""


@dataclass(eq=False, kw_only=True)
class AskedNodes:
    """The nodes that a run asks, and what the server has of them already."""

    names: list[str]  # in the order in which replies are to come
    reached: list[str]  # those that the channel leads to
    records: dict[str, Record] = field(default_factory=dict)  # what they replied before
    judges: dict[str, Member] = field(default_factory=dict)  # their rows that are here
    silent: list[str] = field(default_factory=list)  # those without rows to reply with
    keeps: bool = False  # whether replies are kept in the records

    @classmethod
    def from_channel(cls, channel: Channel, *, keeps: bool) -> Self:
        """Return the nodes that a channel leads to, with its own records if it has any.

        A later fit over the channel finds in these records what comes now.
        """
        names = _names_of_channel(channel)
        if channel.records is None:
            return cls(names=names, reached=names, keeps=keeps)
        return cls(names=names, reached=names, records=channel.records, keeps=True)

    def __post_init__(self) -> None:
        if not self.names:
            raise ValueError(
                "The channel has no nodes, so nobody can be asked: its names are "
                "empty. Give it the names of the nodes that take part, as in "
                "Nodes(ask, ['lyon', 'paris']). If nodes connect one after the other, "
                "fit once they are there."
            )

    def drop(self, names: Iterable[str]) -> None:
        """Ask these nodes for nothing more."""
        self.names = [name for name in self.names if name not in names]

    def check_have_rows(self, names: Iterable[str], task: Task) -> None:
        """Raise ValueError for nodes without rows, unless the task only reports."""
        without_rows = [name for name in names if name in self.silent]
        if without_rows and not task.reports:
            raise ValueError(
                f"Nodes {without_rows[:MOST_LISTED]} are given as fitted "
                f"classifiers without rows, but the fit needs {task.asks}. Pass the "
                "rows of all nodes to fit (X, y and nodes), or give summaries of the "
                "nodes or a channel to them in place of the classifiers."
            )

    def recorded(self, name: str, request: Message, context: str) -> Message | None:
        """Return what a node replied to an equal request before, if that was kept."""
        if name not in self.records or not TASKS[request.task].alone:
            return None
        if not context:  # whatever has `get` is a record
            return self.records[name].get(request)
        return self.records[name].get(request, context)

    def keep(self, name: str, request: Message, reply: Message, context: str) -> None:
        """Keep a reply in the record of the node, if it depends on no other node.

        The request is as a plan asks it, without what all requests have in common.
        """
        if self.keeps and TASKS[request.task].alone:
            self.records.setdefault(name, Record()).keep(request, reply, context)

    def reply_without_asking(self, name: str, request: Message, context: str) -> Reply:
        """Return the recorded reply of a node, or one of its rows that are here."""
        recorded = self.recorded(name, request, context)
        if recorded is not None:
            return reply_in(recorded)
        task = TASKS[request.task]
        only_reports = task.reports
        if name in self.judges:
            if only_reports:
                return reply_of(request, self.judges[name])
            is_of_judging = task.is_of_judging
            if is_of_judging is not None and is_of_judging(request_in(request)):
                return reply_of(request, self.judges[name].drop_rows())
        if only_reports:
            return reply_without_score(request)
        earlier_requests = self.records[name].requests if name in self.records else []
        raise AskAgainError(
            f"Node {name!r} would have to be asked again "
            f"({difference_in_words(request, earlier_requests)}): what it sent before "
            "is not enough. Summarize again with these settings, call fit with the "
            "rows of all nodes, or, for methods that ask more than once, use "
            "skgems.Exchange or another channel."
        )


def _names_of_channel(channel: Channel) -> list[str]:
    """Return the names of a channel's nodes; ValueError if they are not usable."""
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


def reply_without_score(request: Message) -> Reply:
    """Return the reply of a node that scores nothing: no rows, NaN for each model."""
    score = np.array(np.nan)
    has_two_models = request.content.get("beside") is not None
    return TASKS[request.task].reply(
        score=score, n_rows=0, beside=score if has_two_models else None
    )
