"""The channel by files: requests and replies in a folder, and what nodes do there."""

import hashlib
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ..asking import Channel, LeftOutError, RepliesMissingError, check_reply_of
from ..base import PUBLIC_NAME
from ..disclosure import disclosure_of
from ..messages import (
    AGREEMENT,
    Agreement,
    Message,
    Place,
    check_text,
    naming,
    remove_partial_files,
    signed,
    write_bytes,
)
from ..parties import load_message
from ._methods import OtherVersionError

if TYPE_CHECKING:  # as a Python may be without it
    import sqlite3

# Files of an exchange, and the version of what is in the first one.
STATE = "exchange.json"
_LOCK = "exchange.lock"
_VERSION = 4  # others are refused


class Folder(Channel):
    """Channel to nodes that answer by files in a folder.

    Give it to an aggregator as `estimators`. Requests are written into the folder
    "requests", and replies are expected in the folder "replies". Until all replies are
    there, ``fit`` raises :class:`~skgems.asking.RepliesMissingError`; then call
    ``fit`` again with the same ``random_state``. :class:`Exchange` does all this for
    you, and is the better choice in most cases.

    Parameters
    ----------
    path : str or os.PathLike
        Path of the folder. It is created if it does not exist.
    names : list of str, default=None
        Names of the nodes. If None, the names that are kept in the folder are used; a
        new folder needs them.
    public_keys : dict of str to path or bytes, default=None
        Public ed25519 key of each node, by its name. If given, every node needs one,
        and an unsigned reply is refused.
    private_key : str or os.PathLike, default=None
        File of the server's private key, made by
        :func:`~skgems.guard.signing_keys`. If given, requests are signed.
    reports : bool, default=False
        Whether a fit ends with one more message, which asks the nodes how well the
        aggregate does on their rows.
    disclosure : Disclosure, "auto" or None, default="auto"
        Rule of the agreement that is made if the folder has none: the server refuses
        replies that were made under a laxer one. An agreement that is in the folder
        keeps its own rule.

    Attributes
    ----------
    notes : list of str
        What was wrong with replies that are asked for again.

    Raises
    ------
    ValueError
        If a new folder is given without names, if the folder holds an exchange with
        other nodes, or if another server is working in it.

    Examples
    --------
    >>> import tempfile
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.channels import Folder
    >>> from skgems.asking import RepliesMissingError
    >>> folder = Folder(tempfile.mkdtemp(), ["lyon", "paris"])
    >>> try:
    ...     GEMSLogisticAggregator(folder, random_state=0).fit()
    ... except RepliesMissingError as missing:
    ...     [path.name for path in missing.requests.values()]
    ['001-lyon.safetensors', '001-paris.safetensors']
    """

    def __init__(
        self,
        path,
        names=None,
        *,
        public_keys=None,
        private_key=None,
        reports=False,
        disclosure="auto",
    ) -> None:
        self.path = Path(path)
        self._public_keys = dict(public_keys or {})
        self._private_key = private_key
        self.reports = reports
        disclosure_of(disclosure)  # raises for other values
        self.disclosure = disclosure
        self.notes: list[str] = []
        self._is_alone = False
        new_names = None if names is None else list(names)
        place = self.path / STATE
        if not place.exists():
            if new_names is None:
                raise ValueError(
                    f"{place} does not exist: a new folder needs the names of the "
                    "nodes."
                )
            _check_names(new_names)
        with self.alone():
            self._begin_or_go_on(new_names)
            remove_partial_files(self.path, f"{STATE}|{AGREEMENT}")
            remove_partial_files(self.path / "requests", r".*\.safetensors")
            self._write()
        without_key = set(self.names) - set(self._public_keys)
        if self._public_keys and without_key:
            raise ValueError(
                f"public_keys has no key of the nodes {sorted(without_key)}."
            )

    def _begin_or_go_on(self, names: list[str] | None) -> None:
        """Read the folder's state, or make a new one, and the folders of messages."""
        place = self.path / STATE
        if place.exists():
            self.read()
            if names not in (None, self.names):
                raise ValueError(
                    f"{place}: this exchange has begun with the nodes {self.names}, "
                    f"not {names}. Use another folder."
                )
        else:
            self._state = {
                "version": _VERSION,
                "nodes": names,
                "left_out": {},  # names of nodes, by number of the message
                "messages": [],  # for each, the digest of the request to each node
            }
        for folder in (self.path / "requests", self.path / "replies"):
            folder.mkdir(parents=True, exist_ok=True)
            if folder.is_symlink():  # somebody else's choice of where to write
                raise ValueError(f"{folder}: it is a symbolic link, not a folder.")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other servers out of the folder while the block runs.

        Raises
        ------
        ValueError
            If another server is working in the folder.
        """
        if self._is_alone:
            yield
            return
        self.path.mkdir(parents=True, exist_ok=True)
        with closing(_lock_of(self.path / _LOCK)):
            self._is_alone = True
            try:
                yield
            finally:
                self._is_alone = False

    @property
    def names(self) -> list[str]:
        """Names of the nodes."""
        return self._state["nodes"]

    def ask(self, requests: Mapping[str, Message]) -> dict[str, Message | LeftOutError]:
        """Write requests and return the replies that are there.

        Parameters
        ----------
        requests : mapping of str to Message
            The request for each node, by its name.

        Returns
        -------
        replies : dict of str to Message or LeftOutError
            The reply of each node, or a LeftOutError for a node that was left out.

        Raises
        ------
        RepliesMissingError
            If the reply of a node is missing.
        """
        digests = {name: request.digest for name, request in requests.items()}
        number = self._number(digests)
        left_out = self._state["left_out"].get(str(number), ())
        replies: dict[str, Message | LeftOutError] = {}
        unanswered = {}  # paths of requests, by name of the node
        for name, request in requests.items():
            if name in left_out:
                replies[name] = LeftOutError("the server goes on without it")
                continue
            addressed = request.with_envelope(node=name, number=str(number))
            if self._private_key is not None:
                addressed = signed(addressed, self._private_key)
            path = self._place("requests", number, name)
            _write_if_changed(path, addressed.to_bytes())
            reply = self._reply(addressed, digests[name], name=name, number=number)
            if reply is None:
                unanswered[name] = path
            else:
                replies[name] = reply
        if unanswered:
            raise RepliesMissingError(unanswered)
        return replies

    def leave_out(self, names: Iterable[str], requests: Mapping) -> None:
        """Continue without the missing replies of some nodes, which cannot be undone.

        Parameters
        ----------
        names : iterable of str
            Names of the nodes.
        requests : mapping
            The attribute ``requests`` of the RepliesMissingError that named them.
        """
        for name in names:
            number = str(int(Path(requests[name]).name.partition("-")[0]))
            left_out = self._state["left_out"].setdefault(number, [])
            left_out.extend({name} - set(left_out))
        self._write()

    def read(self) -> None:
        """Read the folder's state again, since another server may have changed it."""
        place = self.path / STATE
        with exchange_at(place):
            state = json.loads(place.read_text(encoding="utf-8"))
            version = state["version"]
        if version != _VERSION:
            raise ValueError(
                f"{place}: its format has version {version}, but this skgems reads "
                f"version {_VERSION}. Start again in another folder."
            )
        with exchange_at(place):
            _check_names(state["nodes"])
            for named in (state["left_out"], *state["messages"]):
                named.items()
        if state.get("digest") != _digest_of_state(state):
            raise ValueError(
                f"{place}: it has changed since it was written, by hand or by a fault "
                "of the disk, so that replies could be asked for again. Put a copy of "
                "the file back, or start again in another folder."
            )
        self._state = state

    @property
    def agreement(self) -> Agreement | None:
        """The agreement of all parties, a file in the folder; None without one."""
        place = self.path / AGREEMENT
        return Agreement.load(place) if place.exists() else None

    @agreement.setter
    def agreement(self, agreement: Agreement) -> None:
        agreement.save(self.path / AGREEMENT)

    @property
    def aggregator(self) -> dict | None:
        """The aggregator as kept in the folder, in JSON; None if there is none."""
        return self._state.get("aggregator")

    @aggregator.setter
    def aggregator(self, state: dict) -> None:
        self._state["aggregator"] = state
        self._write()

    def _write(self) -> None:
        self._state["digest"] = _digest_of_state(self._state)
        text = json.dumps(self._state, indent=1)
        write_bytes(self.path / STATE, text.encode("utf-8"))

    def _number(self, digests: dict[str, str]) -> int:
        """The number of the message whose requests have these digests, by name."""
        messages = self._state["messages"]
        for number, digests_of_message in enumerate(messages, 1):
            if digests.items() <= digests_of_message.items():
                return number
        messages.append(digests)
        self._write()
        return len(messages)

    def _reply(
        self, request: Message, digest: str, *, name: str, number: int
    ) -> Message | None:
        """A node's reply, checked; None where it is missing, or replies to another.

        ``digest`` is that of the request before it was addressed and signed.
        """
        path = self._place("replies", number, name)
        if not os.path.lexists(path):  # it has the name that a node gave it, or is not
            path = path.with_name(f"reply-{path.name}")
        if not os.path.lexists(path):
            return None
        reply = load_message(path, public_key=self._public_keys.get(name))
        sender = reply.envelope.get("node")
        if sender != name:
            raise ValueError(f"{path}: envelope.node is {sender!r}, not {name!r}.")
        is_of_exchange = reply.envelope.get("exchange") == request.envelope.get(
            "exchange"
        )
        if reply.envelope.get("to") != digest or not is_of_exchange:
            note = (
                f"{path} answers another request, or belongs to another exchange, and "
                "is not used."
            )
            if note not in self.notes:
                self.notes.append(note)
            return None
        with naming(path):
            check_reply_of(name, request, reply)
            if self.agreement is not None:
                self.agreement.check_bound(reply, name)
        return reply

    def _place(self, folder: str, number: int, name: str) -> Path:
        return self.path / folder / f"{number:03d}-{self._slugs[name]}.safetensors"

    @cached_property
    def _slugs(self) -> dict[str, str]:
        """Return the part of file names for each name; no two names share one."""
        counts = Counter(map(_folded, self.names))
        slugs = {}
        for name in self.names:
            slugs[name] = _slug(name)
            if slugs[name] != name or counts[_folded(name)] > 1:
                digest = hashlib.sha256(name.encode()).hexdigest()
                slugs[name] += f"-{digest[:8]}"
        return slugs

    def __repr__(self) -> str:
        return f"Folder({os.fspath(self.path)!r}, {self.names})"


def _lock_of(place: Path) -> "sqlite3.Connection":
    """A lock that is held until it is closed; ValueError if another server holds it.

    SQLite has locks on every system, which the system lets go of if this process dies.
    Nothing is ever written into the file.
    """
    import sqlite3

    lock = sqlite3.connect(place, timeout=0, isolation_level=None)
    try:
        # An exclusive lock would be refused to both of two servers that begin at once,
        # since each of them reads first.
        lock.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        lock.close()
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            raise ValueError(
                f"{place.parent}: another server is at work in this folder."
            ) from None
        raise ValueError(
            f"{place}: this file, which keeps other servers out, cannot be locked "
            f"({error}). Use a folder on a disk of this machine."
        ) from None
    return lock


def _digest_of_state(state: Mapping) -> str:
    """Digest of all that is kept of an exchange, but for the digest itself."""
    kept = {name: value for name, value in state.items() if name != "digest"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _write_if_changed(path: Path, content: bytes) -> None:
    """Write a file, but leave one that holds the same as it is."""
    if not path.exists() or path.read_bytes() != content:
        write_bytes(path, content)


@contextmanager
def exchange_at(place: Path) -> Iterator[None]:
    """Within, raise what a wrong file leads to as a ValueError that names it."""
    try:
        yield
    except OtherVersionError as error:
        raise ValueError(f"{place}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise ValueError(
            f"{place}: it cannot be read as an exchange: {exc!r}."
        ) from None


def _slug(name: str) -> str:
    """A name as it may stand in that of a file."""
    return re.sub(r"[^\w.-]", "_", name)[:60]


def _folded(name: str) -> str:
    """Return a name as systems see it that ignore case and forms of accents."""
    return unicodedata.normalize("NFKC", _slug(name)).casefold()


def _check_names(nodes: list) -> None:
    wrong = [n for n in nodes if not isinstance(n, str) or n in ("", PUBLIC_NAME)]
    is_repeated = not wrong and len(set(nodes)) < len(nodes)
    if type(nodes) is not list or not nodes or wrong or is_repeated:
        raise ValueError(
            "nodes must be a list of different names, none of them empty or "
            f"{PUBLIC_NAME!r}, which marks public rows; got {nodes!r}."
        )
    for name in nodes:
        check_text(name, Place("nodes"))
