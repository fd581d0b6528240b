"""Keep a node's ledger in one SQLite database, in a folder or in a user's mapping.

The file ``ledger.sqlite`` has all of it: the entries, the replies, and the digests of
rows. An answer is one transaction, so that it is counted and kept as a whole or not at
all, also where the process is killed or the disk is full. The lock is one of the
operating system, which is gone when its process is. SQLite waits for the disk before a
commit returns. The journal is the classical one, since the newer one (WAL) needs two
more files beside an open database, and here only one process writes at a time.

Network file systems are another matter: some grant one lock to two machines, so that
each would count for itself. The folder belongs on a disk of the node's machine.

One thing cannot be in the file: when the file itself has changed. ``ledger.head`` has
the number of entries, and the time at which the file system last saw the database
change. A database that is put in its place is older, or has changed at another time,
which no copying program can preserve. While something is written the head has no time:
after a kill it cannot be told.

Both files can be read by the node's own user only.
"""

import hashlib
import json
import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import TYPE_CHECKING

from ..messages import MOST_HEADER, read_bytes, remove_partial_files, write_bytes

if TYPE_CHECKING:  # a Python may be built without it
    from sqlite3 import Connection, DatabaseError

LEDGER_FILE = "ledger.sqlite"
_HEAD = "ledger.head"
# Under which name the node's key of the digests of rows is kept.
KEY_OF_ROWS = "ledger.key"
# Written into the database, so that no other program's is taken for a ledger: "SKGM".
_APPLICATION = 0x534B474D
# Of the table below: another one is refused.
_VERSION = 3
# Left behind by a process of the version before that was killed.
EARLIER_MARK = "ledger.writing"
# Seconds that a process waits for another one, which is answering: as long as a server
# waits for a node where nobody says otherwise.
LOCK_TIMEOUT = 600.0
# Seconds between two looks whether the other one is done.
PAUSE = 0.02
# A commit is on the disk when it returns, and a reply leaves only after it.
SYNCHRONOUS = "EXTRA"
# Bytes of a value in the database: SQLite allows 10^9, and replies may have more.
_MOST_BYTES_OF_PART = 2**28
# Held while a thread makes the file of a database (`_FolderStore`).
_MAKING = Lock()
# Entries are contents of this name, in their order.
_ENTRY = "entry"
# SQLite notices a page that is none of its own, but not a content that is another one.
_SCHEMA = (
    """CREATE TABLE contents (
        number INTEGER PRIMARY KEY,
        name TEXT NOT NULL, content BLOB NOT NULL, sha256 BLOB NOT NULL
    )""",
    "CREATE INDEX contents_by_name ON contents (name)",
    """CREATE TRIGGER contents_are_not_changed BEFORE UPDATE ON contents
    BEGIN SELECT RAISE(ABORT, 'a ledger is only ever added to'); END""",
    """CREATE TRIGGER contents_are_not_removed BEFORE DELETE ON contents
    BEGIN SELECT RAISE(ABORT, 'a ledger is only ever added to'); END""",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
)


class LedgerError(ValueError):
    """The node's ledger (the parameter ``state``) is unreliable; nothing was answered.

    It is the base class of the other errors about a ledger.
    """


class LedgerDamagedError(LedgerError):
    """The ledger is cut short, or was changed by another program.

    Since the ledger cannot be read, ``again=True`` does not help.
    """


class LedgerCopiedError(LedgerError):
    """The ledger is a copy or was restored; the original may contain more replies.

    Answer with the original. If there is none in use, and nothing was answered since
    the copy was made, give ``again=True`` once.
    """


class LedgerOlderError(LedgerError):
    """The ledger lacks entries that it had before, since an older one replaced it.

    Put the newest ledger back. If it is lost, ``again=True`` given once accepts that
    the server may ask again for what the lost entries recorded.
    """


class LedgerBusyError(TimeoutError):
    """Another process uses the same ledger for longer than this one waits."""


def name_of_digests(sha256: str) -> str:
    """Return under which name the digests of rows are kept that have a SHA-256."""
    return f"{sha256}-rows.npz"


def name_of_reply(account: str, key: str) -> str:
    """Return under which name the reply to what was asked in an account is kept."""
    return f"{account}-{key}.safetensors"


def name_of_residuals(account: str, key: str) -> str:
    """Return under which name the residuals are kept that weigh a told gradient."""
    return f"{account}-{key}-residuals.npy"


@contextmanager
def open_store(state: str | os.PathLike | MutableMapping) -> Iterator["LedgerStore"]:
    """Open the database of a ledger, and keep others out until the block is left.

    What the block adds is kept if it ends well, or once it has called `commit`.
    """
    is_mapping = isinstance(state, MutableMapping)
    store = _MappingStore(state) if is_mapping else _FolderStore(Path(state))
    try:
        store.open()
        yield store
        store.commit()
    finally:
        with suppress(OSError):  # of a disk that is full: another error says so
            store.roll_back()
        store.close()


class LedgerStore:
    """The entries of a ledger, and contents by name, in an SQLite database."""

    def __init__(self, database: str | Path, *, place: str) -> None:
        self.place = place  # as errors name it
        self._connection = _connected(database)
        self._is_writing = False  # in a transaction

    def open(self) -> None:
        """Make the database ready for reading, and keep others out."""
        raise NotImplementedError

    def check_is_newest(self) -> None:
        """Raise LedgerError for a ledger that is a copy, or that lacks entries."""

    def entries(self) -> list[dict]:
        """Return all entries in their order."""
        return [json.loads(line) for line in self._contents(_ENTRY)]

    def add(self, entry: dict) -> None:
        """Add an entry after all others."""
        self._insert(_ENTRY, json.dumps(entry).encode())

    def content(self, name: str) -> bytes | None:
        """Return what is kept under a name; None if there is nothing."""
        parts = self._contents(name)
        return b"".join(parts) if parts else None

    def keep(self, name: str, content: bytes) -> None:
        """Keep a content under a name, unless there is one already."""
        if not self._contents(name):
            for start in range(0, len(content), _MOST_BYTES_OF_PART):
                self._insert(name, content[start : start + _MOST_BYTES_OF_PART])

    def commit(self) -> None:
        """Let all that was added since the last commit count, or nothing of it."""
        if self._is_writing:
            self._execute("COMMIT")
            self._is_writing = False
            self._note_change()

    def roll_back(self) -> None:
        """Undo what was added since the last commit."""
        if self._is_writing:
            self._execute("ROLLBACK")
            self._note_change()

    def close(self) -> None:
        """Let others in."""
        self._connection.close()

    def earlier_lines(self) -> list[bytes] | None:
        """Return the entries of a database of the version before; None: it is none."""
        if self._version() != _VERSION - 1:
            return None
        rows = self._execute("SELECT line FROM entries ORDER BY number")
        return [line for (line,) in rows]

    def _contents(self, name: str) -> list[bytes]:
        """Return all contents of a name; LedgerDamagedError if one is another."""
        if self._version() != _VERSION:
            return []
        rows = self._execute(
            "SELECT number, content, sha256 FROM contents WHERE name = ? "
            "ORDER BY number",
            name,
        )
        for number, content, sha256 in rows:
            if _sha256(content) != sha256:
                raise LedgerDamagedError(
                    f"{self.place}: row {number} of its table ({name}) is not what "
                    "this node wrote, so it cannot be known what the node has "
                    "answered. Put a backup in its place."
                )
        return [content for _, content, _ in rows]

    def _insert(self, name: str, content: bytes) -> None:
        """Add a content; a transaction begins that `commit` ends."""
        if not self._is_writing:
            self._note_beginning()
            self._execute("BEGIN IMMEDIATE")
            self._is_writing = True
        if self._version() != _VERSION:
            self._execute("DROP TABLE IF EXISTS entries")  # of the version before
            for statement in _SCHEMA:
                self._execute(statement)
        self._execute(
            "INSERT INTO contents (name, content, sha256) VALUES (?, ?, ?)",
            name,
            content,
            _sha256(content),
        )

    def _note_beginning(self) -> None:
        """Note outside of the database that it is about to change."""

    def _note_change(self) -> None:
        """Note outside of the database what it is like after a change."""

    def _version(self) -> int:
        """Return the version of the table, 0 if there is none yet.

        An error says if it is of another program or version.
        """
        ((n_tables,),) = self._execute("SELECT count(*) FROM sqlite_master")
        if not n_tables:
            return 0
        ((application,),) = self._execute("PRAGMA application_id")
        if application != _APPLICATION:
            raise LedgerDamagedError(
                f"{self.place}: it is a database of another program. Give the node a "
                "folder of its own (state)."
            )
        ((version,),) = self._execute("PRAGMA user_version")
        if version not in (_VERSION, _VERSION - 1):
            raise LedgerError(
                f"{self.place}: it is a ledger of version {version}, and this skgems "
                f"reads version {_VERSION}. Use the version of skgems that wrote it "
                "until its exchanges are over."
            )
        return version

    def _execute(self, statement: str, *parameters: object) -> list[tuple]:
        """Return the rows that SQLite gives; its errors say where, and what to do."""
        from sqlite3 import DatabaseError

        try:
            return self._connection.execute(statement, parameters).fetchall()
        except DatabaseError as error:
            raise self._readable(error) from None

    def _readable(self, error: "DatabaseError") -> Exception:
        """Return an error of ours that says what one of SQLite means."""
        from sqlite3 import SQLITE_CORRUPT, SQLITE_NOTADB

        if _primary_code(error) in (SQLITE_CORRUPT, SQLITE_NOTADB):
            return LedgerDamagedError(
                f"{self.place}: it is damaged ({error}), so it cannot be known what "
                "this node has answered. Put a backup in its place. If there is none, "
                "take a new folder, and answer only exchanges that are new: nothing is "
                "counted in it that was answered before."
            )
        return OSError(
            f"{self.place}: it cannot be used ({error}). Keep the ledger in a folder "
            "on a local disk that has free space and where this user may write."
        )


class _MappingStore(LedgerStore):
    """A database whose bytes are in a mapping of the user's, which cannot be locked."""

    def __init__(self, state: MutableMapping) -> None:
        super().__init__(":memory:", place=f"state[{LEDGER_FILE!r}]")
        self._state = state

    def open(self) -> None:
        """Read the bytes; whoever gives a mapping keeps others out."""
        content = self._state.get(LEDGER_FILE)
        if content:
            self._connection.deserialize(content)

    def roll_back(self) -> None:
        """Leave the mapping as it is, which only a commit changes."""

    def _note_change(self) -> None:
        self._state[LEDGER_FILE] = self._connection.serialize()


class _FolderStore(LedgerStore):
    """A database in a folder on a local disk, and its head."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / LEDGER_FILE
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # A process that closes a file loses all locks that it has on it, those of other
        # threads too: none of them may have locked the file before it is closed here.
        with _MAKING, suppress(FileExistsError):
            self._path.touch(mode=0o600, exist_ok=False)
        super().__init__(self._path, place=os.fspath(self._path))

    def open(self) -> None:
        """Wait until no other process has the lock; LedgerBusyError if that is long."""
        from sqlite3 import SQLITE_BUSY, DatabaseError

        end = monotonic() + LOCK_TIMEOUT
        while True:
            try:
                self._connection.execute("BEGIN EXCLUSIVE")
                # The lock now stays with the connection, over all commits. Not before:
                # two that both failed would keep half a lock each.
                self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._connection.execute("COMMIT")
                self._connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
                break
            except DatabaseError as error:
                if _primary_code(error) != SQLITE_BUSY:
                    raise self._readable(error) from None
                if monotonic() >= end:
                    raise LedgerBusyError(
                        f"{self.place}: another process has been answering with it for "
                        f"more than {LOCK_TIMEOUT:g} seconds. Nothing was counted: "
                        "answer again once that one is done."
                    ) from error
            # Not by SQLite, which would not hear of an interrupt meanwhile.
            sleep(PAUSE)
        remove_partial_files(self._folder, _HEAD)

    def check_is_newest(self) -> None:
        n_entries = self._n_entries()
        head = self._head()
        if n_entries < head["entries"]:
            raise LedgerOlderError(
                f"{self.place} does not have the {head['entries']} entries that it had "
                "before: an older one was put in its place, so what this node has "
                "answered since would not be counted. Put the newest one back. If it "
                "is lost, and you accept that the server may ask all of that again, "
                "give again=True (--again) once."
            )
        if head["changed"] is None:
            self._note_change()  # a write that was killed is at an end now
        elif n_entries and head["changed"] != self._time_of_change():
            raise LedgerCopiedError(
                f"{self.place} is a copy, was restored from a backup, or was touched "
                f"by another program; or {_HEAD} beside it is missing. Another ledger "
                "may know of replies that this one does not. If another copy is in "
                "use, answer with that one. If this is the only one, and the newest, "
                "give again=True (--again) once."
            )

    def _note_beginning(self) -> None:
        self._write_head(changed=None)

    def _note_change(self) -> None:
        # Where the disk is full the head stays as it was while something was written.
        with suppress(OSError):
            self._write_head(changed=self._time_of_change())

    def _write_head(self, *, changed: int | None) -> None:
        head = {"entries": self._n_entries(), "changed": changed}
        write_bytes(self._folder / _HEAD, json.dumps(head).encode("utf-8"))

    def _head(self) -> dict:
        """Return what was noted last."""
        path = self._folder / _HEAD
        if os.path.lexists(self._folder / EARLIER_MARK):
            return {"entries": 0, "changed": None}
        if not os.path.lexists(path):
            return {"entries": 0, "changed": 0}
        try:
            head = json.loads(read_bytes(path, most=MOST_HEADER))
            return {"entries": int(head["entries"]), "changed": head["changed"]}
        except (ValueError, TypeError, KeyError, RecursionError):
            raise LedgerDamagedError(
                f"{path}: it is damaged, so it cannot be known whether the ledger has "
                "all its entries. Put the file back. If there is no backup, and the "
                "ledger beside it is the newest, remove the file, and give again=True "
                "(--again) once."
            ) from None

    def _time_of_change(self) -> int:
        """Nanoseconds; the file system decides it, and no program can set it."""
        return os.stat(self._path).st_ctime_ns

    def _n_entries(self) -> int:
        version = self._version()
        if not version:
            return 0
        table = (
            f"contents WHERE name = '{_ENTRY}'" if version == _VERSION else "entries"
        )
        ((n_entries,),) = self._execute(f"SELECT count(*) FROM {table}")
        return n_entries


def _connected(database: str | Path) -> "Connection":
    try:
        import sqlite3
    except ImportError as error:  # a Python that was built without it
        raise ImportError(
            "a node keeps its ledger in an SQLite database, and this Python has no "
            "module sqlite3: use a Python that has this module."
        ) from error
    # Transactions are begun and ended above, and waiting is done there.
    connection = sqlite3.connect(database, timeout=0, isolation_level=None)
    # Text that is damaged is read nevertheless, so that it is said which entry it is.
    connection.text_factory = bytes
    return connection


def _sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _primary_code(error: Exception) -> int | None:
    """Return SQLite's primary code of an error, without what is in its higher bits."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
