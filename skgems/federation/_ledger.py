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

Each entry has a digest of itself and of all before it, so that none can be changed, or
be missing in the middle, unnoticed.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime

from ..base import warn_user
from ..local import numbers_about_layers
from ..messages import FIRST, Agreement, Message, NotAgreedError, key_of, says
from ._fingerprint import Fingerprint
from ._front_states import fitted_fronts
from ._ledger_store import (
    FolderStore,
    LedgerDamagedError,
    LedgerError,
    MappingStore,
)
from ._warnings import RowsAskedAgainWarning

_Store = MappingStore | FolderStore
# Parts of an agreement that change nothing of what replies say about rows.
_NOT_OF_ROWS = ("exchange", "nodes", "classes", "feature_names", "public_key")
# Characters of an error that an entry repeats.
_MOST_ERROR = 2000


class RowsChangedError(LedgerError):
    """Rows or labels are not those of the earlier messages of the same exchange."""


class RowsAskedAgainError(NotAgreedError):
    """The same rows were asked about before, in an exchange with other terms."""


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
        ledger = Ledger(store, entries, chain)
        try:
            store.check_head(chain)
        except LedgerError as exc:
            if not again or isinstance(exc, LedgerDamagedError):
                raise
            store.accept_head(chain)
            ledger.accept(exc)
        yield ledger


def read_entries(folder: str | os.PathLike) -> list[dict]:
    """All entries of the ledger in a folder, for its owner to look at."""
    store = FolderStore(folder)
    with store.locked():
        return _checked_entries(store)[0]


@dataclass(kw_only=True)
class _Opened:
    """What an exchange is of, and under which account its answers are counted."""

    exchange: str
    # The exchange with which the answers are counted: its own, or an earlier one of the
    # same rows, classifier and terms.
    account: str
    node: str
    agreement: str  # as JSON
    rows: str
    labels: str | None
    classifier: str
    n_rows: int
    again: bool

    @property
    def terms(self) -> dict:
        """All of the agreement that decides what replies say about the rows."""
        terms = json.loads(self.agreement)
        return {name: part for name, part in terms.items() if name not in _NOT_OF_ROWS}


class Ledger:
    """What a node has answered so far; made by `open_ledger`."""

    def __init__(self, store: _Store, entries: list[dict], chain: list[str]) -> None:
        self._store = store
        self._entries = entries
        self._chain = chain
        # By exchange, the latest: rows may change until something was answered.
        self._opened: dict[str, _Opened] = {}
        for entry in entries:
            if entry["event"] == "opened":
                self._opened[entry["exchange"]] = _opened_of(entry)
        self._current: _Opened | None = None
        # Of requests, which may be large, and are the same throughout.
        self._keys: dict[Message, str] = {}

    def agreement_for(self, request: Message, accepted: Agreement | None) -> Agreement:
        """The agreement that binds: accepted, kept, or offered by a first request."""
        exchange = request.envelope.get("exchange")
        if accepted is not None:
            exchange = accepted.exchange
        opened = self._opened.get(exchange)
        bound = None if opened is None else Agreement.from_json(opened.agreement)
        if accepted is not None and bound is not None and accepted != bound:
            raise NotAgreedError(
                f"what is kept here (state) is of the exchange {exchange!r} under "
                "another agreement: give the one that was accepted first. If the "
                "server asks for something else, it has to begin a new exchange."
            )
        if accepted is not None or bound is not None:
            return accepted or bound
        if request.task not in FIRST or "agreement" not in request.envelope:
            raise NotAgreedError(
                f"nothing is agreed yet, and the request ({request.task!r}) offers "
                "nothing: the first one of an exchange does, or give agreement=."
            )
        offered = Agreement.from_json(request.envelope["agreement"])
        offered.check_modest()
        return offered

    def enter(
        self,
        agreement: Agreement,
        *,
        node: str,
        fingerprint: Callable[[], Fingerprint],
        again: bool,
    ) -> None:
        """Go on with an exchange, or begin it; RowsAskedAgainError if that says more.

        The rows are looked at only where no reply can have been kept.
        """
        self._check_node(node)
        opened = self._opened.get(agreement.exchange)
        if opened is None or not self._counted(opened.account, "ended"):
            opened = self._begun_with(
                fingerprint(), agreement=agreement, node=node, again=again
            )
        self._current = opened

    def kept_reply(self, request: Message) -> Message | None:
        """The reply that an equal request got, or None where none is kept."""
        ended = self._ended(request)
        if ended is None:
            return None
        name = self._file_of(request)
        data = self._store.read(name)
        if data is None:  # it is computed anew, and has to be the same
            return None
        reply = None
        with suppress(ValueError):
            reply = Message.from_bytes(data)
        if reply is None or reply.digest != ended["reply"]:
            raise LedgerDamagedError(
                f"{self._store.where(name)}: the reply that is kept there is damaged. "
                "Remove it, and answer again: it is then computed anew, sent only if "
                "it is the same, and not counted."
            )
        self._add(*self._opening(request))
        return reply

    def answered(self, request: Message) -> Counter:
        """How often each task counts so far, without requests that equal this one."""
        counted = self._counted(self._current.account, "ended", "failed")
        tasks = {entry["key"]: entry["task"] for entry in counted}
        tasks.pop(self._key(request), None)
        return Counter(tasks.values())

    def has_answered(self, task: str) -> bool:
        ended = self._counted(self._current.account, "ended")
        return any(entry["task"] == task for entry in ended)

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
        except NotAgreedError as exc:
            current = self._current
            if current.account == current.exchange:
                raise
            raise NotAgreedError(
                f"{exc} The exchange {current.account!r} had the same terms and the "
                "same rows, and is counted with this one. If the node's owner accepts "
                "more, the server begins a new exchange, whose first request is "
                "answered with its agreement and again=True."
            ) from None

    def begin(self, request: Message, fingerprint: Fingerprint) -> None:
        """Record that rows are about to be looked at; RowsChangedError if others."""
        current = self._current
        if not fingerprint.has_rows_of(current.rows, current.labels):
            raise RowsChangedError(
                f"The rows of node {current.node!r} (X, y or held_out) are not those "
                "of the earlier messages of this exchange, so that replies would not "
                "go together, and differences between them would show what changed. "
                "Answer with the rows of before; if they were wrong, the server has to "
                "begin a new exchange."
            )
        self._add(*self._opening(request), self._entry("begun", request))

    def layer_numbers_before(self, request: Message) -> int:
        """How many numbers about hidden layers were told before a request came first.

        A reply whose file is lost is computed anew, and is to be the same.
        """
        n_numbers = 0
        for entry in self._counted(self._current.account, "ended"):
            if entry["key"] == self._key(request):
                break
            n_numbers += entry["layer_numbers"]
        return n_numbers

    def check_layer_numbers(
        self, request: Message, reply: Message, *, most: int
    ) -> None:
        """Raise if replies about hidden layers have more numbers than the rows hold.

        Parameters
        ----------
        most : int
            Rows times features of the node.
        """
        more = numbers_about_layers(request, reply)
        before = self.layer_numbers_before(request)
        if more and before + more > most:
            raise NotAgreedError(
                f"about hidden layers this reply would tell {more} numbers, after "
                f"{before} that were told before; the rows here hold {most} (rows "
                "times features), and as many numbers can show single rows. Let the "
                "server merge fewer units (max_units), set moments='auto', or answer "
                "with min_rows=1 under an agreement of min_rows=1, if single rows may "
                "be known."
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
        data = reply.to_bytes()
        # The file first: a reply that is counted can be given again.
        self._store.write(self._file_of(request), data)
        if ended is None:
            entry = self._entry("ended", request) | {
                "reply": reply.digest,
                "bytes": len(data),
                "numbers": sum(array.size for array in reply.arrays.values()),
                "layer_numbers": numbers_about_layers(request, reply),
                "says": says(reply),
            }
            self._add(entry)

    def fail(self, request: Message, error: Exception) -> None:
        """Count a request at whose rows an error came up, which the server may see."""
        text = f"{type(error).__name__}: {error}"[:_MOST_ERROR]
        self._add(self._entry("failed", request) | {"error": text})

    def accept(self, error: LedgerError) -> None:
        """Record that the owner goes on with a ledger that may lack entries."""
        warn_user(
            f"The ledger is used nevertheless, by again=True: {error}",
            RowsAskedAgainWarning,
        )
        entry = {"event": "accepted", "at": _now(), "task": "", "error": str(error)}
        self._add(entry)

    def _check_node(self, node: str) -> None:
        others = {opened.node for opened in self._opened.values()} - {node}
        if others:
            raise NotAgreedError(
                f"what is kept here (state) is of node {min(others)!r}, not of "
                f"{node!r}: each node keeps its own."
            )

    def _begun_with(
        self, fingerprint: Fingerprint, *, agreement: Agreement, node: str, again: bool
    ) -> _Opened:
        """The opening of an exchange in which nothing has been answered yet."""
        before = self._opened.get(agreement.exchange)
        new = _Opened(
            exchange=agreement.exchange,
            account=agreement.exchange,
            node=node,
            agreement=agreement.to_json(),
            again=again,
            **asdict(fingerprint),
        )
        if before is not None and before.again and replace(before, again=again) == new:
            return before  # accepted, but that attempt was killed, or failed
        earlier = self._earlier(new, fingerprint)
        if earlier and again:
            warn_user(self._what_is_added(new, earlier), RowsAskedAgainWarning)
        elif earlier:
            new = replace(new, account=self._shared_account(new, earlier))
        return before if before == new else new

    def _shared_account(self, new: _Opened, earlier: list[_Opened]) -> str:
        """That of an exchange to which the new one adds nothing, or RowsAskedAgain."""
        for opened in earlier:
            if opened.terms == new.terms and opened.classifier == new.classifier:
                return opened.account
        raise RowsAskedAgainError(
            f"{self._what_is_added(new, earlier)} If the node's owner accepts that, "
            "answer with again=True (--again); if not, do not answer."
        )

    def _earlier(self, new: _Opened, fingerprint: Fingerprint) -> list[_Opened]:
        """Other exchanges in which something was said of the same rows."""
        return [
            opened
            for opened in self._opened.values()
            if opened.exchange != new.exchange
            and fingerprint.has_rows_of(opened.rows, opened.labels)
            and self._counted(opened.account, "ended", "failed")
        ]

    def _what_is_added(self, new: _Opened, earlier: list[_Opened]) -> str:
        nearest = min(earlier, key=lambda opened: len(_differences(new, opened)))
        differences = _differences(new, nearest)
        counted = self._counted(nearest.account, "ended", "failed")
        answered = Counter({entry["key"]: entry["task"] for entry in counted}.values())
        may_ask = json.loads(new.agreement)["tasks"]
        return (
            f"The rows of node {new.node!r} have been asked about before "
            f"({len(earlier)} time{'s' * (len(earlier) > 1)}). The exchange "
            f"{nearest.exchange} was answered {_listed_counts(answered)}; "
            f"{new.exchange} may ask {_listed_counts(may_ask)}, "
            f"{_with_other(differences)}. Whoever has the replies to both learns more "
            "of single rows than either agreement says, since sums of the same rows "
            "can be subtracted from each other."
        )

    def _counted(self, account: str, *events: str) -> list[dict]:
        return [
            entry
            for entry in self._entries
            if entry["event"] in events and entry["account"] == account
        ]

    def _ended(self, request: Message) -> dict | None:
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
        return f"{self._current.account}-{self._key(request)}.safetensors"

    def _opening(self, request: Message) -> list[dict]:
        """The entry with which the exchange begins, if it has none yet."""
        current = self._current
        if current is self._opened.get(current.exchange):
            return []
        self._opened[current.exchange] = current
        return [self._entry("opened", request) | asdict(current)]

    def _entry(self, event: str, request: Message) -> dict:
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

    def _add(self, *entries: dict) -> None:
        if not entries:
            return
        lines = []
        for entry in entries:
            before = self._chain[-1] if self._chain else ""
            self._chain.append(_link(before, entry))
            lines.append(json.dumps({**entry, "chain": self._chain[-1]}))
        self._store.append(lines)
        self._entries.extend(entries)


def _checked_entries(store: _Store) -> tuple[list[dict], list[str]]:
    """Entries and the digest of each with all before it; raises where one is wrong."""
    entries, chain = [], []
    for number, line in enumerate(store.lines(), 1):
        try:
            entry = json.loads(line)
            link = entry.pop("chain")
            is_whole = link == _link(chain[-1] if chain else "", entry)
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


def _link(before: str, entry: dict) -> str:
    text = before + json.dumps(entry, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _opened_of(entry: dict) -> _Opened:
    names = (field.name for field in fields(_Opened))
    return _Opened(**{name: entry[name] for name in names})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _listed_counts(tasks: Mapping[str, int]) -> str:
    """As "join once, evaluate 2 times"."""
    return ", ".join(
        f"{task} once" if n == 1 else f"{task} {n} times" for task, n in tasks.items()
    )


def _differences(new: _Opened, earlier: _Opened) -> list[str]:
    """Names of what differs between two exchanges; not what it was in the earlier."""
    terms, before = new.terms, earlier.terms
    settings, settings_before = terms.pop("settings"), before.pop("settings")
    names = [name for name in terms if terms[name] != before.get(name)]
    names += [
        f"settings.{name}"
        for name in sorted(settings.keys() | settings_before.keys())
        if settings.get(name) != settings_before.get(name)
    ]
    if new.classifier != earlier.classifier:
        names.append("classifier")
    return names


def _with_other(differences: list[str]) -> str:
    if not differences:
        return "on the same terms"
    return f"with other {', '.join(differences)}"
