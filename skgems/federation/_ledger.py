"""A node's ledger: what it has answered, and what it may still be asked.

It has entries, which are only ever added:

- *opened*: an exchange begins, with its agreement, and with digests of the rows and the
  classifier that it is of;
- *begun*: the node is about to look at its rows for a request;
- *ended*: the reply, which was kept, may leave;
- *failed*: an error came up after the rows were looked at.

A request counts once it has ended or failed. One that was begun and did not come to an
end was in a process that was killed: nothing left, so that it does not count. One that
failed counts, because the error is of the rows: a server that might try as often as it
likes would learn one bit of them each time. A request that equals one that counts,
defaults filled in, never counts again: it gets the reply that was kept, and after an
error the node tries anew, since its owner may have mended what was wrong.

Exchanges of the same rows, the same classifier and the same terms share one account:
the replies of the first count for all of them, and are sent again. Which rows are the
same, or nearly the same, is told by keyed digests of single rows, which are kept beside
the entries of each exchange.

Each entry has a digest of itself and of all before it, so that none can be changed, or
be missing in the middle, unnoticed.
"""

import hashlib
import json
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

from ..base import warn_user
from ..local import numbers_about_layers
from ..messages import (
    FIRST,
    TASKS,
    Agreement,
    Message,
    NotAgreedError,
    key_of,
    says,
)
from ._fingerprint import Fingerprint
from ._front_states import fitted_fronts, statistics_told
from ._ledger_store import (
    FolderStore,
    LedgerDamagedError,
    LedgerError,
    MappingStore,
)
from ._row_digests import RowDigests
from ._warnings import RowsAskedAgainWarning

_Store = MappingStore | FolderStore
# Parts of an agreement that change nothing of what replies say about rows: an exchange
# that differs in these alone has the same terms.
_PARTS_NOT_ABOUT_ROWS = ("exchange", "nodes", "classes", "feature_names", "public_key")
# The node's key of the digests of rows, and the end of the names of their files.
_KEY_FILE = "ledger.key"
_DIGESTS = "-rows.npz"
_KEY_SIZE = 32  # bytes, of a strong key
# Characters of an error that an entry repeats: as many as say what was wrong. Errors of
# libraries may have whole arrays in them.
_MOST_ERROR_CHARACTERS = 2000


class RowsChangedError(LedgerError):
    """The rows or labels differ from those of earlier messages of the same exchange.

    Answer with the rows of the first message, or begin a new exchange.
    """


class RowsAskedAgainError(NotAgreedError):
    """An earlier exchange has already asked about the same rows, or nearly the same.

    The terms are other ones, or the rows differ in fewer than ``min_rows`` rows of a
    class.

    The owner of the node may accept this with ``again=True``; see :func:`reply_to`.
    """


@contextmanager
def open_ledger(
    state: str | os.PathLike | MutableMapping, *, again: bool = False
) -> Iterator["Ledger"]:
    """Open a node's ledger and lock it until the block is left.

    Count, answer and keep are one step: nobody else reads or writes a ledger in a
    folder meanwhile, which a mapping of the user's cannot promise.
    """
    is_mapping = isinstance(state, MutableMapping)
    store = MappingStore(state) if is_mapping else FolderStore(state)
    with store.locked():
        entries, chain = _checked_entries(store)
        ledger = Ledger(store, entries=entries, chain=chain)
        try:
            store.check_head(chain)
        except LedgerError as error:
            # With again=True the owner goes on with a copy or an older ledger, but
            # what is damaged cannot be read.
            if not again or isinstance(error, LedgerDamagedError):
                raise
            store.accept_head(chain)
            ledger.accept(error)
        yield ledger


def read_entries(folder: str | os.PathLike) -> list[dict]:
    """All entries of the ledger in a folder, for its owner to look at."""
    store = FolderStore(folder)
    with store.locked():
        entries, _ = _checked_entries(store)
        return entries


@dataclass(kw_only=True)
class _OpenedExchange:
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
    # SHA-256 of the file of the digests of single rows, which is its name, too: so a
    # killed process leaves no file of other rows in the place of one that counts.
    row_digests: str
    row_key: str  # SHA-256 of the node's key, with which these digests were made
    again: bool  # whether the owner has accepted that the same rows are asked about
    by_person: bool  # whether a person has accepted the agreement

    @classmethod
    def of_entry(cls, entry: Mapping) -> "_OpenedExchange":
        return cls(
            exchange=entry["exchange"],
            account=entry["account"],
            node=entry["node"],
            agreement=entry["agreement"],
            rows=entry["rows"],
            labels=entry["labels"],
            classifier=entry["classifier"],
            n_rows=entry["n_rows"],
            row_digests=entry["row_digests"],
            row_key=entry["row_key"],
            again=entry["again"],
            by_person=entry["by_person"],
        )

    @property
    def terms(self) -> dict:
        """All of the agreement that decides what replies say about the rows."""
        terms = json.loads(self.agreement)
        return {
            name: part
            for name, part in terms.items()
            if name not in _PARTS_NOT_ABOUT_ROWS
        }


@dataclass(frozen=True, kw_only=True)
class _EarlierExchange:
    """An exchange that was about the same rows as a new one, or nearly the same."""

    opened: _OpenedExchange
    answered: Counter  # how often each task was answered
    is_of_equal_rows: bool  # with equal labels, in any order
    # In how many rows the tables differ, if these are fewer than min_rows.
    n_rows_apart: int | None
    min_rows: int

    def differences(self, new: _OpenedExchange) -> list[str]:
        """Return the names of what differs in a new exchange."""
        names = _differences(new, self.opened)
        return names if self.is_of_equal_rows else ["rows or labels", *names]


class Ledger:
    """What a node has answered so far; made by `open_ledger`."""

    def __init__(self, store: _Store, *, entries: list[dict], chain: list[str]) -> None:
        self._store = store
        self._entries = entries
        self._chain = chain  # the digest of each entry with all before it
        # By exchange, the latest: rows may change until something was answered.
        self._opened: dict[str, _OpenedExchange] = {}
        for entry in entries:
            if entry["event"] == "opened":
                self._opened[entry["exchange"]] = _OpenedExchange.of_entry(entry)
        self._current: _OpenedExchange | None = None  # that of the request
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
    ) -> None:
        """Go on with an exchange, or begin it; RowsAskedAgainError if that says more.

        The rows are looked at only where no reply can have been kept. They must differ
        from those of an earlier exchange in none of them, or in ``min_rows`` or more.
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
            )
        self._current = opened

    def kept_reply(self, request: Message) -> Message | None:
        """The reply that an equal request got, or None where none is kept."""
        ended = self._ended(request)
        if ended is None:
            return None
        name = self._file_of(request)
        reply_bytes = self._store.read(name)
        if reply_bytes is None:  # it is computed anew, and has to be the same
            return None
        reply = None
        with suppress(ValueError):
            reply = Message.from_bytes(reply_bytes)
        if reply is None or reply.digest != ended["reply"]:
            raise LedgerDamagedError(
                f"{self._store.where(name)}: the reply that is kept there is damaged. "
                "Remove it, and answer again: it is then computed anew, sent only if "
                "it is the same, and not counted."
            )
        # The exchange is entered, which may be a new one that asks the same.
        self._add(self._opening(request))
        return reply

    @property
    def is_accepted_by_person(self) -> bool:
        """Whether the exchange began under an agreement that a person has accepted."""
        return self._current.by_person

    def answered(self, request: Message) -> Counter:
        """How often each task counts so far, without requests that equal this one."""
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
        return {statistic for entry in ended for statistic in entry["statistics"]}

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

    def begin(self, request: Message, fingerprint: Fingerprint) -> None:
        """Record that rows are about to be looked at; RowsChangedError if others."""
        current = self._current
        if not fingerprint.has_rows_of(current.rows, current.labels):
            raise RowsChangedError(
                f"The rows of node {current.node!r} (X, y, held_out or groups) are not "
                "those of the earlier messages of this exchange. The replies would not "
                "fit together, and their differences would reveal which rows changed. "
                "Answer with the earlier rows. If these were wrong, the server has to "
                "start a new exchange."
            )
        self._add([*self._opening(request), self._entry("begun", request)])

    def layer_numbers_before(self, request: Message) -> int:
        """How many numbers about hidden layers were told before a request came first.

        A reply whose file is lost is computed anew, and must be the same as before. It
        depends on how many numbers were left then, and not on those told later.
        """
        n_numbers = 0
        for entry in self._counted(self._current.account, "ended"):
            if entry["key"] == self._key(request):
                break
            n_numbers += entry["layer_numbers"]
        return n_numbers

    def tree_bytes_before(self, request: Message) -> int:
        """How many bytes about trees were sent before a request came first."""
        about_trees = {name for name, task in TASKS.items() if task.limits_bytes}
        n_bytes = 0
        for entry in self._counted(self._current.account, "ended"):
            if entry["key"] == self._key(request):
                break
            if entry["task"] in about_trees:
                n_bytes += entry["bytes"]
        return n_bytes

    def check_layer_numbers(
        self, request: Message, reply: Message, *, most: int
    ) -> None:
        """Raise if replies about hidden layers have more numbers than the rows hold.

        Parameters
        ----------
        most : int
            Rows times features of the node.
        """
        n_numbers = numbers_about_layers(request, reply)
        n_before = self.layer_numbers_before(request)
        if n_numbers and n_before + n_numbers > most:
            raise NotAgreedError(
                f"with this reply {n_numbers} numbers about hidden layers would be "
                f"sent, after {n_before} before. The rows here hold {most} numbers "
                "(rows times features), and that many numbers about hidden layers can "
                "reveal single rows. Let the server merge fewer units (max_units of "
                "hidden_layers) or draw fewer (n_common_units), set moments='auto' of "
                "last_layer, or answer with disclosure=None under an agreement of "
                "disclosure=None, if single rows may be revealed."
            )

    def end(self, request: Message, reply: Message) -> None:
        """Keep a reply and count it; only then may it leave."""
        ended = self._ended(request)
        if ended is not None and ended["reply"] != reply.digest:
            raise LedgerDamagedError(
                f"{self._store.where(self._file_of(request))}: the reply that was kept "
                "there is gone, and the one that was computed anew is not the same: "
                "rows, classifier or options have changed. It is not sent. Put the "
                "file back."
            )
        reply_bytes = reply.to_bytes()
        # The file first: a reply that is counted can be given again.
        self._store.write(self._file_of(request), reply_bytes)
        if ended is None:
            entry = self._entry("ended", request) | {
                "reply": reply.digest,
                "bytes": len(reply_bytes),
                "numbers": sum(array.size for array in reply.arrays.values()),
                "layer_numbers": numbers_about_layers(request, reply),
                "statistics": statistics_told(request, reply),
                "says": says(reply),
            }
            self._add([entry])

    def fail(self, request: Message, error: Exception) -> None:
        """Count a request at whose rows an error came up, which the server may see."""
        text = f"{type(error).__name__}: {error}"[:_MOST_ERROR_CHARACTERS]
        self._add([self._entry("failed", request) | {"error": text}])

    def accept(self, error: LedgerError) -> None:
        """Record that the owner goes on with a ledger that may lack entries."""
        warn_user(
            f"The ledger is used nevertheless, because of again=True: {error}",
            RowsAskedAgainWarning,
        )
        entry = {"event": "accepted", "at": _now(), "task": "", "error": str(error)}
        self._add([entry])

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
    ) -> _OpenedExchange:
        """Return the opening of an exchange in which nothing has been answered yet."""
        previous = self._opened.get(agreement.exchange)
        digests = fingerprint.row_digests(self._key_of_rows)
        self._new_digests = digests.to_bytes()
        new = _OpenedExchange(
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
            row_digests=_sha256(self._new_digests),
            row_key=_sha256(self._key_of_rows),
        )
        if (
            previous is not None
            and previous.again
            and replace(previous, again=again) == new
        ):
            return previous  # accepted, but that attempt was killed, or failed
        earlier = self._earlier_exchanges(new, digests, min_rows=min_rows)
        if earlier and again:
            warn_user(_what_is_added(new, earlier), RowsAskedAgainWarning)
        elif earlier:
            new = replace(new, account=_shared_account(new, earlier))
        return previous if previous == new else new

    def _earlier_exchanges(
        self, new: _OpenedExchange, digests: RowDigests, *, min_rows: int
    ) -> list["_EarlierExchange"]:
        """Return other exchanges about the same rows, or nearly the same."""
        exchanges = []
        for opened in self._opened.values():
            counted = self._counted(opened.account, "ended", "failed")
            if opened.exchange == new.exchange or not counted:
                continue
            earlier_digests = self._kept_digests(opened)
            n_rows_apart = digests.n_rows_apart(earlier_digests)
            is_nearly_the_same = n_rows_apart is not None and n_rows_apart < min_rows
            if digests.has_rows_of(earlier_digests) or is_nearly_the_same:
                answered = {entry["key"]: entry["task"] for entry in counted}
                exchange = _EarlierExchange(
                    opened=opened,
                    answered=Counter(answered.values()),
                    is_of_equal_rows=digests.is_equal_to(earlier_digests),
                    n_rows_apart=n_rows_apart if is_nearly_the_same else None,
                    min_rows=min_rows,
                )
                exchanges.append(exchange)
        return exchanges

    @cached_property
    def _key_of_rows(self) -> bytes:
        """The node's key, which is kept once its first exchange has begun."""
        key = self._store.read(_KEY_FILE)
        expected = {opened.row_key for opened in self._opened.values()}
        if not expected:
            return secrets.token_bytes(_KEY_SIZE) if key is None else key
        if key is None or expected != {_sha256(key)}:
            raise LedgerDamagedError(
                f"{self._store.where(_KEY_FILE)}: the key of the digests of rows is "
                "missing or another one, so it cannot be known which rows were asked "
                "about. Put the file back."
            )
        return key

    def _kept_digests(self, opened: _OpenedExchange) -> RowDigests:
        """Return the digests of the rows of an earlier exchange."""
        name = f"{opened.row_digests}{_DIGESTS}"
        content = self._store.read(name)
        if content is None or _sha256(content) != opened.row_digests:
            raise LedgerDamagedError(
                f"{self._store.where(name)}: the digests of the rows of the exchange "
                f"{opened.exchange} are missing or damaged, so it cannot be known "
                "whether its rows are asked about again. Put the file back."
            )
        return RowDigests.from_bytes(content)

    def _counted(self, account: str, *events: str) -> list[dict]:
        """Entries of these events, "ended" or "failed", of one account."""
        return [
            entry
            for entry in self._entries
            if entry["event"] in events and entry["account"] == account
        ]

    def _ended(self, request: Message) -> dict | None:
        """The entry of an equal request that got a reply, if there is one."""
        key = self._key(request)
        for entry in self._counted(self._current.account, "ended"):
            if entry["key"] == key:
                return entry
        return None

    def _key(self, request: Message) -> str:
        """What the request asks, as a digest that no default or envelope changes."""
        if request not in self._keys:
            self._keys[request] = key_of(request)
        return self._keys[request]

    def _file_of(self, request: Message) -> str:
        """The name of the file of the reply."""
        return f"{self._current.account}-{self._key(request)}.safetensors"

    def _opening(self, request: Message) -> list[dict]:
        """The entry with which the exchange begins, if it has none yet."""
        current = self._current
        if current is self._opened.get(current.exchange):
            return []
        self._opened[current.exchange] = current
        # The files first, as those of replies.
        self._store.write(_KEY_FILE, self._key_of_rows)
        self._store.write(f"{current.row_digests}{_DIGESTS}", self._new_digests)
        return [self._entry("opened", request) | asdict(current)]

    def _entry(self, event: str, request: Message) -> dict:
        """What entries of all events have."""
        return {
            "event": event,
            "at": _now(),
            "exchange": self._current.exchange,
            "account": self._current.account,
            "task": request.task,
            "request": request.digest,
            "key": self._key(request),
            "fronts": fitted_fronts(request),
        }

    def _add(self, entries: list[dict]) -> None:
        """Append entries, all or none, each with the digest of all up to it."""
        if not entries:
            return
        lines = []
        for entry in entries:
            previous = self._chain[-1] if self._chain else ""
            link = _link(previous, entry)
            self._chain.append(link)
            lines.append(json.dumps({**entry, "chain": link}))
        self._store.append(lines)
        self._entries.extend(entries)


def _offered_agreement(request: Message) -> Agreement:
    """The agreement that comes with a first request, if its bounds are modest."""
    if request.task not in FIRST or "agreement" not in request.envelope:
        raise NotAgreedError(
            f"nothing is agreed yet, and the request ({request.task!r}) brings no "
            "agreement. The first request of an exchange brings one; or pass "
            "agreement=."
        )
    offered = Agreement.from_json(request.envelope["agreement"])
    offered.check_modest()
    return offered


def _checked_entries(store: _Store) -> tuple[list[dict], list[str]]:
    """Entries and the digest of each with all before it; raises where one is wrong."""
    entries: list[dict] = []
    chain: list[str] = []
    for number, line in enumerate(store.lines(), 1):
        previous = chain[-1] if chain else ""
        try:
            entry = json.loads(line)
            link = entry.pop("chain")
            is_whole = link == _link(previous, entry)
        # Whatever lines hold that no node wrote: other JSON, or none, or too deep.
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            is_whole = False
        if not is_whole:
            raise LedgerDamagedError(
                f"{store.where()}: entry {number} is not what this node wrote: it was "
                "changed, or one before it is missing. So it cannot be known what the "
                "node has answered: put the ledger back as it was."
            )
        entries.append(entry)
        chain.append(link)
    return entries, chain


def _link(previous: str, entry: dict) -> str:
    """SHA-256 of the link of the entry before, and of this entry as sorted JSON."""
    text = previous + json.dumps(entry, sort_keys=True)
    return _sha256(text.encode("utf-8"))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _shared_account(new: _OpenedExchange, earlier: list[_EarlierExchange]) -> str:
    """Return the account of an exchange to which the new one adds nothing.

    RowsAskedAgainError if it adds something to each.
    """
    for exchange in earlier:
        if not exchange.differences(new):
            return exchange.opened.account
    raise RowsAskedAgainError(
        f"{_what_is_added(new, earlier)} If the node's owner accepts that, answer with "
        "again=True (--again); if not, do not answer."
    )


def _what_is_added(new: _OpenedExchange, earlier: list[_EarlierExchange]) -> str:
    """Return sentences on what a server learns that has the replies of both."""
    nearest = min(earlier, key=lambda exchange: len(exchange.differences(new)))
    differences = nearest.differences(new)
    may_ask = json.loads(new.agreement)["tasks"]
    times = f"{len(earlier)} time{'s' * (len(earlier) > 1)}"
    if nearest.n_rows_apart is None:
        begin = f"The rows of node {new.node!r} have been asked about before ({times})."
    else:
        begin = (
            f"Nearly the same rows of node {new.node!r} have been asked about before "
            f"({times}): those of all rows or of one class differ in "
            f"{nearest.n_rows_apart}, which is fewer than min_rows={nearest.min_rows}."
        )
    return (
        f"{begin} The exchange {nearest.opened.exchange} was answered "
        f"{_listed_counts(nearest.answered)}; {new.exchange} may ask "
        f"{_listed_counts(may_ask)}, {_with_other(differences)}. Whoever has the "
        "replies to both learns more about single rows than either agreement allows, "
        "since sums of the same rows can be subtracted from each other."
    )


def _listed_counts(tasks: Mapping[str, int]) -> str:
    """As "join once, evaluate 2 times"."""
    return ", ".join(
        f"{task} once" if n == 1 else f"{task} {n} times" for task, n in tasks.items()
    )


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _differences(new: _OpenedExchange, earlier: _OpenedExchange) -> list[str]:
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
