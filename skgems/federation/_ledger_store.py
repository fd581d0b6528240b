"""Where the entries of a node's ledger are kept: in a folder, or in a user's mapping.

A folder has

- ``ledger.sqlite``: the entries. They are in an SQLite database, and not in a text file
  beside a lock file, because SQLite has answers to what such a pair has to answer by
  itself. Its lock is one of the operating system, which is gone when its process is:
  nobody has to guess whether a lock file is stale. A write that was cut short is
  recognized by its journal, and undone when the file is next opened. SQLite waits for
  the disk before a commit returns, in an order in which power may fail at any time. And
  it is in Python's standard library. The journal is the classical one, since the newer
  one (WAL) needs memory that processes share, and here only one of them writes.
  Network file systems are another matter: some grant one lock to two machines, so that
  each would count for itself. The folder belongs on a disk of the node's machine.
- ``log.jsonl``: the same entries, a line each, for people and programs that read them.
  What counts is in the database.
- a file for each reply, which is read only where its request comes again.
- ``ledger.key``, the key of the digests of rows, and a file of these for each exchange.
- ``ledger.head``: how many entries there were at last, the digest of their chain, and
  when the file system last saw the database change. An older copy that is put in place
  of the database has fewer entries, or another chain. A copy of the whole folder has
  databases that changed at another time, which no copying program can preserve.
- ``ledger.writing``, while something is being written. Where it is left behind the
  process was killed, and the times in ``ledger.head`` need not agree.

All of them may be read by the node's own user only.
"""

import json
import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import TYPE_CHECKING

from ..messages import read_bytes, remove_partial_files, write_bytes

if TYPE_CHECKING:  # a Python may be built without it
    from sqlite3 import Connection, Cursor

LEDGER_FILE = "ledger.sqlite"
_HEAD = "ledger.head"
_WRITING = "ledger.writing"
_LOG = "log.jsonl"
_REPLACED_LOG = "log.replaced.jsonl"  # one that its owner did without, by again=True
# Written into the database, so that no other program's is taken for a ledger: "SKGM".
_APPLICATION = 0x534B474D
# Of the table below; another one is refused.
_VERSION = 2
# Seconds that a process waits for another one, which is answering: as long as a server
# waits for a node where nobody says otherwise.
LOCK_TIMEOUT = 600.0
# Bytes of ``ledger.head`` that are read at most: it has three short fields.
_MOST_BYTES_OF_HEAD = 2**12
# A commit is on the disk when it returns, and a reply leaves only after it.
SYNCHRONOUS = "EXTRA"
# Seconds between two looks whether the other one is done.
_PAUSE = 0.02
# Names of all files of a ledger, as a regular expression.
_FILES = r"ledger\.\w+|log\.jsonl|.*\.safetensors|.*\.npz"
# Held while a thread makes the file of a database (`_make_private_file`).
_MAKING = Lock()
_SCHEMA = f"""
CREATE TABLE entries (number INTEGER PRIMARY KEY, line TEXT NOT NULL);
CREATE TRIGGER entries_are_not_changed BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'entries of a ledger are only ever added'); END;
CREATE TRIGGER entries_are_not_removed BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'entries of a ledger are only ever added'); END;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
"""


class LedgerError(ValueError):
    """The node's ledger (the parameter ``state``) is unreliable; nothing was answered.

    It is the base class of the other errors about a ledger.
    """


class LedgerDamagedError(LedgerError):
    """A file of the ledger is cut short, or was changed by another program.

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


class MappingStore:
    """Entries and replies in a mapping of the user's, which cannot be locked."""

    def __init__(self, state: MutableMapping) -> None:
        self._state = state

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else is kept out: whoever gives a mapping sees to that."""
        yield

    def where(self, name: str = _LOG) -> str:
        """The place, as an error names it."""
        return f"state[{name!r}]"

    def lines(self) -> list[str]:
        """Entries as JSON, one each."""
        log = self._state.get(_LOG) or b""
        if log and not log.endswith(b"\n"):
            raise LedgerDamagedError(
                f"{self.where()}: its last line is cut short, as by a write that was "
                "interrupted. What that line was to record has not been sent: remove "
                "the line, keep all others, and answer again."
            )
        try:
            return log.decode("utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise LedgerDamagedError(
                f"{self.where()}: it is no text, so it cannot be known what this node "
                "has answered. Put back what was there."
            ) from error

    def append(self, lines: list[str]) -> None:
        """Add entries, all or none."""
        # One assignment, so that entries that belong together come together.
        self._state[_LOG] = (self._state.get(_LOG) or b"") + _as_log(lines)

    def read(self, name: str) -> bytes | None:
        """The bytes of a reply; None if it is not there."""
        return self._state.get(name)

    def write(self, name: str, content: bytes) -> None:
        """Keep the bytes of a reply."""
        self._state[name] = content

    def check_head(self, chain: list[str]) -> None:
        """An older mapping is not recognized: only its owner can see to that."""


class FolderStore:
    """Entries in a database, and replies in files, of one folder on a local disk."""

    def __init__(self, folder: str | os.PathLike) -> None:
        self.folder = Path(folder)
        self._connection: Connection | None = None  # while the folder is locked
        self._was_killed = False  # the process that wrote last
        self._is_writing = False  # there is a file ledger.writing, by this process
        self._is_whole = True  # False while new entries may be in one file alone
        self._lines: list[str] = []  # all entries, when the folder was locked
        self._chain: list[str] = []  # their digests, with those added since

    def where(self, name: str = LEDGER_FILE) -> str:
        """The place, as an error names it."""
        return os.fspath(self.folder / name)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep all other processes and threads out, until this one is done."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._make_private_file()
        self._connection = _connected(self.folder / LEDGER_FILE)
        try:
            self._lock()
            remove_partial_files(self.folder, _FILES)
            self._was_killed = (self.folder / _WRITING).exists()
            yield
            self._write_head()
        except Exception:
            # Where entries were not written whole, the next process mends that.
            self._write_head()
            raise
        finally:
            self._connection.close()

    def lines(self) -> list[str]:
        """Entries as JSON, one each, in their order."""
        with self._naming_what_is_wrong():
            (application,) = self._execute("PRAGMA application_id").fetchone()
            (version,) = self._execute("PRAGMA user_version").fetchone()
            if not self._n_tables():
                return []
            if application != _APPLICATION:
                raise LedgerDamagedError(
                    f"{self.where()}: it is a database of another program. Give the "
                    "node a folder of its own (state)."
                )
            if version != _VERSION:
                raise LedgerError(
                    f"{self.where()}: it is a ledger of version {version}, and this "
                    f"skgems reads version {_VERSION}. Use the version of skgems that "
                    "wrote it until its exchanges are over."
                )
            rows = self._execute("SELECT line FROM entries ORDER BY number")
            self._lines = [line for (line,) in rows]
        return self._lines

    def append(self, lines: list[str]) -> None:
        """Add entries to the database, all or none, and to the log."""
        self._begin_to_write()
        self._is_whole = False
        with self._naming_what_is_wrong():
            self._execute("BEGIN IMMEDIATE")
            try:
                if not self._n_tables():
                    for statement in _statements(_SCHEMA):
                        self._execute(statement)
                for line in lines:
                    self._execute("INSERT INTO entries (line) VALUES (?)", (line,))
                self._execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._execute("ROLLBACK")
                raise
        self._chain += [json.loads(line)["chain"] for line in lines]
        self._append_to_log(lines)
        self._is_whole = True

    def _append_to_log(self, lines: list[str]) -> None:
        """Add entries to the log, which is on the disk when this returns."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with os.fdopen(os.open(self.folder / _LOG, flags, 0o600), "ab") as file:
            file.write(_as_log(lines))
            file.flush()
            os.fsync(file.fileno())

    def _check_log(self) -> None:
        """Raise if the log is not of these entries; what a killed write lacks is added.

        The database is written first: a process that is killed then leaves a log that
        is short of entries. One that has more is of a newer database.
        """
        path = self.folder / _LOG
        log = read_bytes(path) if os.path.lexists(path) else b""
        expected_log = _as_log(self._lines)
        if log == expected_log:
            return
        if not log or (self._was_killed and expected_log.startswith(log)):
            write_bytes(path, expected_log)
            return
        if log.startswith(expected_log):
            raise LedgerOlderError(
                f"{self.where()} lacks entries that {path} has: an older one was put "
                "in its place, so what this node has answered since would not be "
                "counted. Put the newest one back. If it is lost, and you accept that "
                "the server may ask all of that again, give again=True (--again) once."
            )
        raise LedgerDamagedError(
            f"{path}: a line is cut short, or was changed by another program. What "
            f"counts is in {LEDGER_FILE}, which is whole: remove {_LOG}, and it is "
            "written anew."
        )

    def read(self, name: str) -> bytes | None:
        """The bytes of a reply; None if there is no such file."""
        path = self.folder / name
        return read_bytes(path) if os.path.lexists(path) else None

    def write(self, name: str, content: bytes) -> None:
        """Keep the bytes of a reply in a file, which is whole or not there."""
        write_bytes(self.folder / name, content)

    def check_head(self, chain: list[str]) -> None:
        """Raise if entries are missing, or if this may be a copy of the ledger."""
        head = self._head()
        if head is None:
            if chain and not self._was_killed:
                raise LedgerCopiedError(
                    f"{self.where(_HEAD)} is missing: the ledger was copied without "
                    "it. If another copy is in use, answer with that one. If this is "
                    "the only one, and nothing was answered since it was made, give "
                    "again=True (--again) once."
                )
        elif head["entries"] and chain[: head["entries"]][-1:] != [head["chain"]]:
            # The entry at which the head was written is not there, or another one is. A
            # killed process may have added entries after it.
            raise LedgerOlderError(
                f"{self.where()} does not have the {head['entries']} entries that it "
                "had before: an older one was put in its place, so what this node has "
                "answered since would not be counted. Put the newest one back. If it "
                "is lost, and you accept that the server may ask all of that again, "
                "give again=True (--again) once."
            )
        elif head["changed"] != self._time_of_change() and not self._was_killed:
            raise LedgerCopiedError(
                f"{self.where()} is a copy, was restored from a backup, or was touched "
                "by another program: another ledger may know of replies that this one "
                "does not. If another copy is in use, answer with that one. If this "
                "is the only one, and the newest, give again=True (--again) once."
            )
        self._check_log()
        self._go_on(chain)

    def accept_head(self, chain: list[str]) -> None:
        """Go on from these entries, whatever there was before."""
        path = self.folder / _LOG
        if os.path.lexists(path) and read_bytes(path) != _as_log(self._lines):
            os.replace(path, self.folder / _REPLACED_LOG)
        self._check_log()
        self._go_on(chain)

    def _go_on(self, chain: list[str]) -> None:
        """Take these entries for those that there are."""
        self._chain = list(chain)
        # A killed write is at an end now, also where nothing more is written.
        self._is_writing = self._was_killed

    def _make_private_file(self) -> None:
        """Make an empty database that only this user reads, if there is none."""
        # A process that closes a file loses all locks that it has on it, those of other
        # threads too: none of them may have locked the file before it is closed here.
        with _MAKING, suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            os.close(os.open(self.folder / LEDGER_FILE, flags, 0o600))

    def _lock(self) -> None:
        """Wait until no other process has the lock; LedgerBusyError if that is long."""
        from sqlite3 import SQLITE_BUSY, OperationalError

        end = monotonic() + LOCK_TIMEOUT
        with self._naming_what_is_wrong():
            while True:
                try:
                    self._execute("BEGIN EXCLUSIVE")
                    # The lock now stays with the connection, over all commits. Not
                    # before: two that both failed would keep half a lock each.
                    self._execute("PRAGMA locking_mode = EXCLUSIVE")
                    self._execute("COMMIT")
                    self._execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
                    return
                except OperationalError as error:
                    if _primary_code(error) != SQLITE_BUSY:
                        raise
                    if monotonic() >= end:
                        raise LedgerBusyError(
                            f"{self.where()}: another process has been answering with "
                            f"it for more than {LOCK_TIMEOUT:g} seconds. Nothing was "
                            "counted: answer again once that one is done."
                        ) from error
                # Not by SQLite, which would not hear of an interrupt meanwhile.
                sleep(_PAUSE)

    def _begin_to_write(self) -> None:
        """Leave a mark that tells the next process if this one is killed."""
        if not self._is_writing:
            write_bytes(self.folder / _WRITING, b"")
            self._is_writing = True

    def _n_tables(self) -> int:
        """None are there until the first entry comes."""
        (n_tables,) = self._execute("SELECT count(*) FROM sqlite_master").fetchone()
        return n_tables

    def _write_head(self) -> None:
        """Note what a ledger is like that was written, and take the mark away."""
        if not self._is_writing or not self._is_whole:
            return
        head = {
            "entries": len(self._chain),
            "chain": self._chain[-1] if self._chain else "",
            "changed": self._time_of_change(),
        }
        write_bytes(self.folder / _HEAD, json.dumps(head).encode("utf-8"))
        (self.folder / _WRITING).unlink(missing_ok=True)

    def _head(self) -> dict | None:
        """What the last process noted; None if there is no such file."""
        path = self.folder / _HEAD
        if not os.path.lexists(path):
            return None
        head = None
        with suppress(ValueError):
            head = json.loads(read_bytes(path, most=_MOST_BYTES_OF_HEAD))
        fields = {"entries": int, "chain": str, "changed": int}
        if not isinstance(head, dict) or fields != {
            name: type(value) for name, value in head.items()
        }:
            raise LedgerDamagedError(
                f"{path}: it is damaged, so it cannot be known whether the ledger has "
                "all its entries. Put the file back. If there is no backup, and the "
                "ledger beside it is the newest, remove the file, and give again=True "
                "(--again) once."
            )
        return head

    def _time_of_change(self) -> int:
        """Nanoseconds; the file system decides it, and no program can set it."""
        return os.stat(self.folder / LEDGER_FILE).st_ctime_ns

    def _execute(self, statement: str, parameters: tuple = ()) -> "Cursor":
        return self._connection.execute(statement, parameters)

    @contextmanager
    def _naming_what_is_wrong(self) -> Iterator[None]:
        """Say in errors of SQLite which file it is, and what to do."""
        from sqlite3 import SQLITE_CORRUPT, SQLITE_NOTADB, DatabaseError

        try:
            yield
        except DatabaseError as error:
            if _primary_code(error) in (SQLITE_CORRUPT, SQLITE_NOTADB):
                raise LedgerDamagedError(
                    f"{self.where()}: it is damaged ({error}), so it cannot be known "
                    "what this node has answered. Put a backup in its place. If there "
                    "is none, take a new folder, and answer only exchanges that are "
                    "new: nothing is counted in it that was answered before."
                ) from None
            raise OSError(
                f"{self.where()}: it cannot be used ({error}). Keep the ledger in a "
                "folder on a local disk that has free space and where this user may "
                "write."
            ) from None


def _as_log(lines: list[str]) -> bytes:
    """The content of ``log.jsonl``: a line for each entry."""
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


def _connected(path: Path) -> "Connection":
    try:
        import sqlite3
    except ImportError as error:  # a Python that was built without it
        raise ImportError(
            "a node keeps its ledger in an SQLite database, and this Python has no "
            "module sqlite3: use a Python that has this module, or pass a mapping as "
            "state."
        ) from error
    # Transactions are begun and ended below, and waiting is done there.
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    # Text that is damaged is read nevertheless, so that it is said which entry it is.
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    return connection


def _primary_code(error: Exception) -> int | None:
    """SQLite's primary code of an error, without what is in its higher bits."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _statements(script: str) -> Iterator[str]:
    """Statements one by one: a whole script would commit what is open."""
    from sqlite3 import complete_statement

    statement = ""
    for line in script.strip().splitlines():
        statement += f"{line}\n"
        if complete_statement(statement):
            yield statement
            statement = ""
