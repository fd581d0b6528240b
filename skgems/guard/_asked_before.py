"""Tell which exchanges were about the same rows, and what another one would add."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

from ..messages import NotAgreedError
from ._account import NoiseSpentError
from ._row_digests import RowComparison

# Parts of an agreement that change nothing of what replies say about rows: an exchange
# that differs in these alone has the same terms.
_PARTS_NOT_ABOUT_ROWS = ("exchange", "nodes", "classes", "feature_names", "public_key")


class RowsAskedAgainError(NotAgreedError):
    """An earlier exchange has already asked about the same rows, or nearly the same.

    The terms are other ones, or the rows differ in fewer than ``min_rows`` rows of a
    class, or sums of several exchanges can be subtracted to one of fewer rows.

    The owner of the node may accept this with ``again=True``; see :func:`reply_to`.
    """


@dataclass(kw_only=True)
class OpenedExchange:
    """What an exchange is of, and under which account its answers are counted."""

    exchange: str
    # The exchange with which the answers are counted: its own, or an earlier one of the
    # same rows, classifier and terms.
    account: str
    node: str
    agreement: str  # as JSON
    rows: str  # this and the two that follow are digests, those of a Fingerprint
    labels: str | None
    classifier: str
    n_rows: int
    # SHA-256 of the digests of single rows: equal rows are kept once for all exchanges.
    row_digests: str
    again: bool  # whether the owner has accepted that the same rows are asked about
    by_person: bool  # whether a person has accepted the agreement

    @classmethod
    def from_entry(cls, entry: Mapping) -> Self:
        """Return the exchange of an entry, which has other fields, too."""
        return cls(**{field.name: entry[field.name] for field in fields(cls)})

    @property
    def terms(self) -> dict:
        """Return all of the agreement that decides what replies say about rows."""
        terms = json.loads(self.agreement)
        return {
            name: part
            for name, part in terms.items()
            if name not in _PARTS_NOT_ABOUT_ROWS
        }


@dataclass(frozen=True, kw_only=True)
class EarlierExchange:
    """An exchange that was about the same rows as a new one, or nearly the same."""

    opened: OpenedExchange
    answered: Counter  # how often each task was answered
    rows: RowComparison  # of the rows of the two
    min_rows: int
    # Whether sums of several such exchanges and the new one tell of too few rows.
    is_combined: bool = False
    is_noisy: bool = False  # whether all that was answered has noise

    @property
    def is_about_rows(self) -> bool:
        """Report whether its rows are those of the new one, or nearly the same."""
        return self.rows.is_of_same_rows or self.is_nearly_about_rows

    @property
    def is_nearly_about_rows(self) -> bool:
        """Report whether the tables differ, but in fewer rows than ``min_rows``."""
        n_rows_apart = self.rows.n_rows_apart
        return n_rows_apart is not None and n_rows_apart < self.min_rows

    def differences(self, new: OpenedExchange) -> list[str]:
        """Return the names of what differs in a new exchange."""
        names = _differences(new, self.opened)
        if not self.rows.is_equal:
            return ["rows or labels", *names]
        return names if self.rows.has_equal_marks else ["weights or groups", *names]


def shared_account(new: OpenedExchange, earlier: list[EarlierExchange]) -> str:
    """Return the account of an exchange to which the new one adds nothing.

    RowsAskedAgainError if it adds something to each.
    """
    account = account_of_equal(new, earlier)
    if account != new.account:
        return account
    raise RowsAskedAgainError(
        f"{what_is_added(new, earlier)} If the node's owner accepts that, answer with "
        "again=True (--again); if not, do not answer."
    )


def account_of_equal(new: OpenedExchange, earlier: list[EarlierExchange]) -> str:
    """Return the account of an exchange of equal rows and terms, else that of it."""
    for exchange in earlier:
        if not exchange.differences(new):
            return exchange.opened.account
    return new.account


def check_unmixed(
    new: OpenedExchange, earlier: list[EarlierExchange], *, is_noisy: bool
) -> None:
    """Raise NoiseSpentError where rows would be told of both with and without noise."""
    mixed = [exchange for exchange in earlier if exchange.is_noisy != is_noisy]
    if not mixed:
        return
    exchange = mixed[0].opened.exchange
    if is_noisy:
        raise NoiseSpentError(
            f"The rows of node {new.node!r} were told of without noise, in the "
            f"exchange {exchange}: the number epsilon would be untrue. Take part with "
            "rows that no reply without noise was of, or in an exchange without "
            "privacy."
        )
    raise NoiseSpentError(
        f"The rows of node {new.node!r} were told of with noise, in the exchange "
        f"{exchange}. A reply without noise would make the number epsilon untrue. Do "
        "not answer, or have the server start an exchange with privacy."
    )


def what_is_added(new: OpenedExchange, earlier: list[EarlierExchange]) -> str:
    """Return sentences on what a server learns that has the replies of both."""
    nearest = min(earlier, key=lambda exchange: len(exchange.differences(new)))
    differences = nearest.differences(new)
    may_ask = json.loads(new.agreement)["tasks"]
    times = f"{len(earlier)} time{'s' * (len(earlier) > 1)}"
    begin = f"The rows of node {new.node!r} have been asked about before ({times})."
    if nearest.is_nearly_about_rows:
        begin = (
            f"Nearly the same rows of node {new.node!r} have been asked about before "
            f"({times}): those of all rows or of one class differ in "
            f"{nearest.rows.n_rows_apart}, which is fewer than "
            f"min_rows={nearest.min_rows}."
        )
    elif nearest.is_combined:
        begin = (
            f"Other rows of node {new.node!r} have been asked about before ({times}). "
            "Sums of these and of the rows here can be added and subtracted to sums "
            f"of fewer rows than min_rows={nearest.min_rows}."
        )
    return (
        f"{begin} The exchange {nearest.opened.exchange} was answered "
        f"{_listed_counts(nearest.answered)}; {new.exchange} may ask "
        f"{_listed_counts(may_ask)}, {_with_other(differences)}. Whoever has the "
        "replies to both learns more about single rows than either agreement allows, "
        "since sums of the same rows can be subtracted from each other."
    )


def _listed_counts(tasks: Mapping[str, int]) -> str:
    """List counts in words, as "join once, evaluate 2 times"."""
    return ", ".join(
        f"{task} once" if n == 1 else f"{task} {n} times" for task, n in tasks.items()
    )


def _differences(new: OpenedExchange, earlier: OpenedExchange) -> list[str]:
    """Names of what differs between two exchanges; not what it was in the earlier."""
    terms = new.terms
    earlier_terms = earlier.terms
    settings = terms.pop("settings")
    earlier_settings = earlier_terms.pop("settings")
    names = [name for name in terms if terms[name] != earlier_terms.get(name)]
    names += [
        f"settings.{name}"
        for name in sorted(settings.keys() | earlier_settings.keys())
        if settings.get(name) != earlier_settings.get(name)
    ]
    if new.classifier != earlier.classifier:
        names.append("classifier")
    return names


def _with_other(differences: list[str]) -> str:
    """The end of a sentence: "with other tasks, classifier"."""
    if not differences:
        return "on the same terms"
    return f"with other {', '.join(differences)}"


class RowsAskedAgainWarning(UserWarning):
    """A node answers again about rows that it was asked about before (``again=True``).

    Sums of the same rows can be subtracted from each other. Replies under two
    agreements may therefore say more about single rows than each agreement alone. The
    warning is also raised if ``again=True`` accepts a ledger that is a copy or lacks
    entries.
    """
