"""A node's ledger: what it has answered, and what it may still be asked.

It has entries, which are only ever added:

- *opened*: an exchange begins, with its agreement, and with digests of the rows and the
  classifier that it is of;
- *ended*: the reply, which was kept, may leave;
- *failed*: an error came up after the rows were looked at;
- *accepted*: the owner goes on with a ledger that may lack entries.

A request counts once it has ended or failed. Its entries are added together, when all
is done: of a process that was killed nothing is left, as nothing has left the node. A
request that failed counts, because the error is of the rows: a server that might try as
often as it likes would learn one bit of them each time. A request that equals one that
counts, defaults filled in, never counts again: it gets the reply that was kept, and
after an error the node tries anew, since its owner may have mended what was wrong.

Exchanges of the same rows, the same classifier and the same terms share one account:
the replies of the first count for all of them, and are sent again. Which rows are the
same, or nearly the same, is told by keyed digests of single rows.
"""

import hashlib
import io
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cached_property

import numpy as np

from ..base import warn_user
from ..messages import (
    MOST_TEXT,
    TASKS,
    Agreement,
    Message,
    NotAgreedError,
    ToldNumbers,
    key_of,
    says,
)
from ..private import Charge, charges_of
from ._account import Account, NoiseSpentError, charges_as_json, has_noise
from ._asked_before import (
    EarlierExchange,
    OpenedExchange,
    RowsAskedAgainWarning,
    account_of_equal,
    check_unmixed,
    shared_account,
    what_is_added,
)
from ._earlier_ledger import earlier_entries, take_over
from ._fingerprint import Fingerprint
from ._front_states import fitted_fronts, statistics_told
from ._layer_numbers import numbers_about_layers
from ._ledger_store import (
    KEY_OF_ROWS,
    LedgerCopiedError,
    LedgerDamagedError,
    LedgerError,
    LedgerOlderError,
    LedgerStore,
    name_of_digests,
    name_of_reply,
    name_of_residuals,
    open_store,
)
from ._row_digests import RowComparison, RowDigests, tells_fewer_rows


class RowsChangedError(LedgerError):
    """The rows or labels differ from those of earlier messages of the same exchange.

    Answer with the rows of the first message, or begin a new exchange.
    """


@contextmanager
def open_ledger(
    state: str | os.PathLike | MutableMapping, *, again: bool = False
) -> Iterator["Ledger"]:
    """Open a node's ledger and lock it until the block is left.

    Count, answer and keep are one step: nobody else reads or writes a ledger in a
    folder meanwhile, which a mapping of the user's cannot promise.
    """
    with open_store(state) as store:
        doubt = None
        try:
            store.check_is_newest()
        except (LedgerCopiedError, LedgerOlderError) as error:
            if not again:
                raise
            doubt = error
        take_over(store, state)
        ledger = Ledger(store)
        if doubt is not None:
            ledger.accept(doubt)
        yield ledger


def read_entries(state: str | os.PathLike | MutableMapping) -> list[dict]:
    """Return all entries of a ledger, for its owner to look at."""
    with open_store(state) as store:
        entries = earlier_entries(store, state)
        return store.entries() if entries is None else entries


def account_in(state: str | os.PathLike | MutableMapping) -> Account:
    """Return what the replies in a ledger have spent, for its owner to look at."""
    return Account.from_entries(read_entries(state))


class Ledger:
    """What a node has answered so far; made by `open_ledger`."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self._entries = store.entries()
        # By exchange, the latest: rows may change until something was answered.
        self._opened: dict[str, OpenedExchange] = {}
        for entry in self._entries:
            if entry["event"] == "opened":
                self._opened[entry["exchange"]] = OpenedExchange.from_entry(entry)
        self._current: OpenedExchange | None = None  # that of the request
        # Digests of what requests ask. A request may be large, and is hashed once.
        self._keys: dict[Message, str] = {}
        self._new_digests = b""  # of the rows of an exchange that begins

    def agreement_for(self, request: Message, accepted: Agreement | None) -> Agreement:
        """The agreement that binds: accepted, kept, or offered by a first request."""
        if accepted is None:
            exchange = request.envelope.get("exchange")
        else:
            exchange = accepted.exchange
        opened = self._opened.get(exchange)
        if opened is None:
            return _offered_agreement(request) if accepted is None else accepted
        earlier_agreement = Agreement.from_json(opened.agreement)
        if accepted is not None and accepted != earlier_agreement:
            raise NotAgreedError(
                f"the ledger (state) has the exchange {exchange!r} under another "
                "agreement. Pass the agreement that was accepted first. If the server "
                "asks for something else, it has to start a new exchange."
            )
        return earlier_agreement if accepted is None else accepted

    def enter(
        self,
        agreement: Agreement,
        *,
        node: str,
        fingerprint: Callable[[], Fingerprint],
        min_rows: int,
        again: bool,
        by_person: bool,
        is_noisy: bool = False,
    ) -> None:
        """Go on with an exchange, or begin it; RowsAskedAgainError if that says more.

        The rows are looked at only where no reply can have been kept. They must differ
        from those of an earlier exchange in none of them, or in ``min_rows`` or more.
        Replies with noise (``is_noisy``) may be of any rows, as their account bounds
        what all of them say, unless replies without noise were of the same rows.
        """
        self._check_node(node)
        opened = self._opened.get(agreement.exchange)
        if opened is None or not self._counted(opened.account, "ended"):
            opened = self._newly_opened(
                fingerprint(),
                agreement=agreement,
                node=node,
                min_rows=min_rows,
                again=again,
                by_person=by_person,
                is_noisy=is_noisy,
            )
        self._current = opened

    def kept_reply(self, request: Message) -> Message | None:
        """The reply that an equal request got, or None if there was none."""
        key = self._key(request)
        ended = self._counted(self._current.account, "ended")
        digests = [entry["reply"] for entry in ended if entry["key"] == key]
        if not digests:
            return None
        content = self._store.content(name_of_reply(self._current.account, key))
        reply = None
        with suppress(ValueError):
            reply = Message.from_bytes(content or b"")
        if reply is None or reply.digest != digests[0]:
            raise LedgerDamagedError(
                f"{self._store.place}: the reply that this request got is missing or "
                "damaged. Put a backup of the ledger in its place. If there is none, "
                "the server has to start a new exchange, which the node's owner "
                "accepts with again=True (--again)."
            )
        # The exchange is entered, which may be a new one that asks the same.
        self._open(request)
        return reply

    @property
    def is_accepted_by_person(self) -> bool:
        """Report whether a person accepted the agreement of the exchange."""
        return self._current.by_person

    def answered(self, request: Message) -> Counter:
        """Count the answers of each task so far, less requests equal to this one."""
        counted = self._counted(self._current.account, "ended", "failed")
        tasks = {entry["key"]: entry["task"] for entry in counted}
        tasks.pop(self._key(request), None)
        return Counter(tasks.values())

    @property
    def statistics_told(self) -> set[str]:
        """Hashes of the statistics for fronts that were told of the current rows.

        Those of earlier exchanges are among them, in which the rows were the same.
        """
        accounts = {
            opened.account
            for opened in self._opened.values()
            if opened.rows == self._current.rows
        }
        ended = [
            entry
            for account in accounts | {self._current.account}
            for entry in self._counted(account, "ended")
        ]
        # Entries that were taken over from a version before may have none.
        return {
            statistic for entry in ended for statistic in entry.get("statistics", ())
        }

    @property
    def fitted_fronts(self) -> dict[str, str]:
        """Digests of the fitted fronts of requests so far, by those of their trees."""
        fronts = {}
        for entry in self._counted(self._current.account, "ended", "failed"):
            fronts |= entry["fronts"]
        return fronts

    @contextmanager
    def naming_the_account(self) -> Iterator[None]:
        """Say in a refusal that another exchange is counted with this one."""
        try:
            yield
        except NotAgreedError as refusal:
            current = self._current
            if current.account == current.exchange:
                raise
            raise NotAgreedError(
                f"{refusal} The exchange {current.account!r} had the same terms and "
                "the same rows, and is counted with this one. If the node's owner "
                "accepts more, the server has to start a new exchange. Answer its "
                "first request with its agreement and again=True."
            ) from None

    def check_rows(self, fingerprint: Fingerprint) -> None:
        """Raise RowsChangedError for other rows than those of the exchange."""
        current = self._current
        if not fingerprint.has_rows_of(current.rows, current.labels):
            raise RowsChangedError(
                f"The rows of node {current.node!r} (X, y, held_out or groups) are not "
                "those of the earlier messages of this exchange. The replies would not "
                "fit together, and their differences would reveal which rows changed. "
                "Answer with the earlier rows. If these were wrong, the server has to "
                "start a new exchange."
            )

    @property
    def n_layer_numbers(self) -> int:
        """Return how many numbers about hidden layers were told by consent so far."""
        # Entries of earlier versions count numbers under the rule, too.
        ended = self._counted(self._current.account, "ended")
        return sum(entry.get("layer_numbers", 0) for entry in ended)

    @property
    def residuals(self) -> np.ndarray | None:
        """Residuals that weigh the rows in gradients told so far, (n_rows, n_columns).

        None: no gradient was told that the rule bounds.
        """
        account = self._current.account
        names = [
            name_of_residuals(account, entry["key"])
            for entry in self._counted(account, "ended")
            if entry.get("has_residuals")
        ]
        if not names:
            return None
        contents = [self._store.content(name) for name in names]
        return np.hstack([np.load(io.BytesIO(content)) for content in contents])

    @property
    def told(self) -> list[ToldNumbers]:
        """The numbers that were told of sums of the rows so far."""
        return [
            ToldNumbers.of_json(lists)
            for entry in self._counted(self._current.account, "ended")
            for lists in entry.get("told", ())
        ]

    @property
    def n_tree_bytes(self) -> int:
        """Return how many bytes about trees were sent so far."""
        about_trees = {name for name, task in TASKS.items() if task.limits_bytes}
        ended = self._counted(self._current.account, "ended")
        return sum(entry["bytes"] for entry in ended if entry["task"] in about_trees)

    @property
    def account(self) -> Account:
        """Return what all replies with noise have spent, whatever rows they were of."""
        return Account.from_entries(self._entries)

    def check_unmixed(self, *, is_noisy: bool) -> None:
        """Raise NoiseSpentError where the exchange told of its rows otherwise."""
        answered = self._counted(self._current.account, "ended")
        if any(has_noise(entry) != is_noisy for entry in answered):
            raise NoiseSpentError(
                f"The exchange {self._current.exchange} tells of the rows of node "
                f"{self._current.node!r} both with noise and without, so the number "
                "epsilon would be untrue. Do not answer, and have the server start an "
                "exchange that asks for either."
            )

    def check_layer_numbers(
        self, request: Message, reply: Message, *, most: float
    ) -> None:
        """Raise where more than ``most`` numbers about hidden layers would be told."""
        n_numbers = numbers_about_layers(request, reply)
        n_before = self.n_layer_numbers
        if n_numbers and n_before + n_numbers > most:
            raise NotAgreedError(
                f"with this reply {n_numbers} numbers about hidden layers would be "
                f"sent, after {n_before} before. For the rows here at most {most:.0f} "
                "are sent (rows times columns times unknowns of the rule of "
                "disclosure), since so many numbers can reveal single rows. Let the "
                "server merge fewer units (max_units of hidden_layers), or answer with "
                "disclosure=None under an agreement of disclosure=None, if single rows "
                "may be revealed."
            )

    def end(
        self,
        request: Message,
        reply: Message,
        *,
        told: Iterable[ToldNumbers],
        residuals: np.ndarray | None = None,
        charges: Iterable[Charge] = (),
        most_epsilon: float | None = None,
    ) -> None:
        """Keep a reply and count it; it may leave once the ledger is closed.

        ``told`` are the numbers that the reply tells. ``residuals`` (n_rows, n_columns)
        weigh rows in gradients of this reply and of those before; the last columns are
        new. ``charges`` are what its noise spends of ``most_epsilon``. A reply with
        noise is on the disk when this returns: nobody chooses among several draws.
        """
        content = reply.to_bytes()
        self._open(request)
        name = name_of_reply(self._current.account, self._key(request))
        self._store.keep(name, content)
        entry = self._entry("ended", request) | {
            "reply": reply.digest,
            "bytes": len(content),
            "numbers": sum(array.size for array in reply.arrays.values()),
            "layer_numbers": numbers_about_layers(request, reply),
            "statistics": statistics_told(request, reply),
            "told": [numbers.as_json() for numbers in told],
            "says": says(reply),
        }
        before = self.residuals
        n_before = 0 if before is None else before.shape[1]
        if residuals is not None and residuals.shape[1] > n_before:
            stream = io.BytesIO()
            np.save(stream, residuals[:, n_before:])
            name = name_of_residuals(self._current.account, self._key(request))
            self._store.keep(name, stream.getvalue())
            entry["has_residuals"] = True
        if charges:
            entry["charges"] = charges_as_json(charges)
            entry["most_epsilon"] = most_epsilon
        self._store.add(entry)
        if charges:
            self._store.commit()

    def fail(self, request: Message, error: Exception) -> None:
        """Count a request at whose rows an error came up, which the server may see."""
        text = f"{type(error).__name__}: {error}"[:MOST_TEXT]
        self._open(request)
        self._store.add(self._entry("failed", request) | {"error": text})
        self._store.commit()

    def accept(self, doubt: LedgerError) -> None:
        """Record that the owner goes on with a ledger that may lack entries."""
        warn_user(
            f"The ledger is used nevertheless, because of again=True: {doubt}",
            RowsAskedAgainWarning,
        )
        entry = {"event": "accepted", "at": _now(), "task": "", "error": str(doubt)}
        self._store.add(entry)
        self._store.commit()

    def _check_node(self, node: str) -> None:
        """Raise NotAgreedError where the ledger is another node's."""
        others = {opened.node for opened in self._opened.values()} - {node}
        if others:
            raise NotAgreedError(
                f"the ledger (state) belongs to node {min(others)!r}, not to {node!r}. "
                "Give each node a folder of its own."
            )

    def _newly_opened(
        self,
        fingerprint: Fingerprint,
        *,
        agreement: Agreement,
        node: str,
        min_rows: int,
        again: bool,
        by_person: bool,
        is_noisy: bool,
    ) -> OpenedExchange:
        """Return the opening of an exchange in which nothing has been answered yet."""
        previous = self._opened.get(agreement.exchange)
        digests = fingerprint.row_digests(self._key_of_rows)
        self._new_digests = digests.to_bytes()
        new = OpenedExchange(
            exchange=agreement.exchange,
            account=agreement.exchange,
            node=node,
            agreement=agreement.to_json(),
            again=again,
            by_person=by_person or (previous is not None and previous.by_person),
            rows=fingerprint.rows,
            labels=fingerprint.labels,
            classifier=fingerprint.classifier,
            n_rows=fingerprint.n_rows,
            row_digests=hashlib.sha256(self._new_digests).hexdigest(),
        )
        earlier = self._earlier_exchanges(new, digests, min_rows=min_rows)
        check_unmixed(new, earlier, is_noisy=is_noisy)
        if (
            previous is not None
            and previous.again
            and replace(previous, again=again) == new
        ):
            return previous  # accepted, but that attempt failed
        new = replace(new, account=_account_for(new, earlier, is_noisy=is_noisy))
        return previous if previous == new else new

    def _earlier_exchanges(
        self, new: OpenedExchange, digests: RowDigests, *, min_rows: int
    ) -> list[EarlierExchange]:
        """Return other exchanges about the same rows, or nearly the same."""
        exchanges = []
        others = []
        comparisons: dict[str, RowComparison] = {}  # of tables, by their digests
        kept: dict[str, RowDigests] = {}
        for opened in self._opened.values():
            counted = self._counted(opened.account, "ended", "failed")
            if opened.exchange == new.exchange or not counted:
                continue
            if opened.row_digests not in comparisons:
                table = self._kept_digests(opened)
                comparisons[opened.row_digests] = digests.compared_with(table)
                kept[opened.row_digests] = replace(table, values=None)
            answered = {entry["key"]: entry["task"] for entry in counted}
            exchange = EarlierExchange(
                opened=opened,
                answered=Counter(answered.values()),
                rows=comparisons[opened.row_digests],
                min_rows=min_rows,
                is_noisy=all(map(has_noise, counted)),
            )
            (exchanges if exchange.is_about_rows else others).append(exchange)
        if len(kept) > 1 and tells_fewer_rows(
            digests, list(kept.values()), min_rows=min_rows
        ):
            exchanges += [replace(other, is_combined=True) for other in others]
        return exchanges

    @cached_property
    def _key_of_rows(self) -> bytes:
        """The node's key, which is kept once its first exchange has begun."""
        key = self._store.content(KEY_OF_ROWS)
        return secrets.token_bytes() if key is None else key

    def _kept_digests(self, opened: OpenedExchange) -> RowDigests:
        """Return the digests of the rows of an earlier exchange."""
        content = self._store.content(name_of_digests(opened.row_digests))
        if content is None:
            raise LedgerDamagedError(
                f"{self._store.place}: the digests of the rows of the exchange "
                f"{opened.exchange} are missing, so it cannot be known whether its "
                "rows are asked about again. Put a backup in its place."
            )
        return RowDigests.from_bytes(content)

    def _counted(self, account: str, *events: str) -> list[dict]:
        """Entries of these events, "ended" or "failed", of one account."""
        return [
            entry
            for entry in self._entries
            if entry["event"] in events and entry["account"] == account
        ]

    def _key(self, request: Message) -> str:
        """Return the digest of a request that no default or envelope changes."""
        if request not in self._keys:
            self._keys[request] = key_of(request)
        return self._keys[request]

    def _open(self, request: Message) -> None:
        """Add the entry with which the exchange begins, if it has none yet."""
        current = self._current
        if current is self._opened.get(current.exchange):
            return
        self._opened[current.exchange] = current
        self._store.keep(KEY_OF_ROWS, self._key_of_rows)
        self._store.keep(name_of_digests(current.row_digests), self._new_digests)
        self._store.add(self._entry("opened", request) | asdict(current))

    def _entry(self, event: str, request: Message) -> dict:
        """Return the fields that entries of all events have."""
        return {
            "event": event,
            "at": _now(),
            "exchange": self._current.exchange,
            "account": self._current.account,
            "task": request.task,
            "request": request.digest,
            "key": self._key(request),
            "fronts": fitted_fronts(request),
            "has_noise": bool(charges_of(request)),
        }


def _account_for(
    new: OpenedExchange, earlier: list[EarlierExchange], *, is_noisy: bool
) -> str:
    """Return the account of an exchange; RowsAskedAgainError if it needs its owner."""
    if is_noisy:
        return account_of_equal(new, earlier)
    if earlier and new.again:
        warn_user(what_is_added(new, earlier), RowsAskedAgainWarning)
        return new.account
    return shared_account(new, earlier) if earlier else new.account


def _offered_agreement(request: Message) -> Agreement:
    """The agreement that comes with a first request, if its bounds are modest."""
    begins_exchange = TASKS[request.task].begins_exchange
    if not begins_exchange or "agreement" not in request.envelope:
        raise NotAgreedError(
            f"nothing is agreed yet, and the request ({request.task!r}) brings no "
            "agreement. The first request of an exchange brings one; or pass "
            "agreement=."
        )
    offered = Agreement.from_json(request.envelope["agreement"])
    offered.check_modest()
    return offered


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
