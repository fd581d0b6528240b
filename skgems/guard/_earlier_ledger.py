"""Take over a ledger of the version before, which had replies and digests in files.

In its folder were a database of the entries, ``log.jsonl`` with the same entries as
text, a file for each reply, ``ledger.key``, and a file of digests for each table of
rows. A mapping had all of these but the database. The entries had a digest each, of
themselves and of all before them.

All that counts is taken over as it is, so that a node keeps its account.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import suppress
from pathlib import Path

from ..messages import read_bytes
from ._ledger_store import (
    EARLIER_MARK,
    KEY_OF_ROWS,
    LEDGER_FILE,
    LedgerDamagedError,
    LedgerStore,
    name_of_digests,
    name_of_reply,
)

_State = str | os.PathLike | MutableMapping
_LOG = "log.jsonl"


def take_over(store: LedgerStore, state: _State) -> None:
    """Move a ledger of the version before into the database, if there is one."""
    entries = earlier_entries(store, state)
    if entries is not None:
        for entry in entries:
            store.add(entry)
        for name, content in _contents(store, state, entries=entries):
            store.keep(name, content)
        store.commit()
    elif _read(state, _LOG) is None:
        return
    # A process that is killed here goes on the next time: the log is the last to go.
    for name in [*_names(store.entries()), EARLIER_MARK, _LOG]:
        _remove(state, name)


def earlier_entries(store: LedgerStore, state: _State) -> list[dict] | None:
    """Return the entries of a ledger of the version before; None if it is none.

    An error says which one is damaged.
    """
    lines = store.earlier_lines()
    if isinstance(state, MutableMapping) and LEDGER_FILE not in state:
        log = state.get(_LOG)
        lines = None if log is None else log.splitlines()
    if lines is None:
        return None
    entries = []
    previous = ""
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            digest = entry.pop("chain")
            is_whole = digest == _sha256(previous + json.dumps(entry, sort_keys=True))
        # Whatever lines hold that no node wrote: other JSON, or none, or too deep.
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            is_whole = False
        if not is_whole:
            raise LedgerDamagedError(
                f"{store.place}: entry {number} is not what this node wrote: it was "
                "changed, or one before it is missing. So it cannot be known what the "
                "node has answered: put the ledger back as it was."
            )
        entries.append(entry)
        previous = digest
    return entries


def _names(entries: Iterable[dict]) -> dict[str, str | None]:
    """Return names of files that entries speak of; with a SHA-256 where it counts."""
    names: dict[str, str | None] = {}
    for entry in entries:
        if entry["event"] == "opened":
            names[KEY_OF_ROWS] = entry.get("row_key")
            names[name_of_digests(entry["row_digests"])] = entry["row_digests"]
        if entry["event"] == "ended":
            names[name_of_reply(entry["account"], entry["key"])] = None
    return names


def _contents(
    store: LedgerStore, state: _State, *, entries: list[dict]
) -> Iterator[tuple[str, bytes]]:
    """Yield the files that entries speak of; an error says which one is damaged.

    A reply may be missing, which matters only where it is asked for again.
    """
    for name, sha256 in _names(entries).items():
        content = _read(state, name)
        if sha256 is not None and (content is None or _sha256(content) != sha256):
            raise LedgerDamagedError(
                f"{store.place}: {name!r} beside it is missing or damaged, so it "
                "cannot be known which rows were asked about. Put it back."
            )
        if content is not None:
            yield name, content


def _read(state: _State, name: str) -> bytes | None:
    """Return the content of a file or of an entry of a mapping, None without one."""
    if isinstance(state, MutableMapping):
        return state.get(name)
    path = Path(state) / name
    return read_bytes(path) if os.path.lexists(path) else None


def _remove(state: _State, name: str) -> None:
    if isinstance(state, MutableMapping):
        state.pop(name, None)
    else:
        with suppress(FileNotFoundError):
            os.unlink(Path(state) / name)


def _sha256(content: str | bytes) -> str:
    if isinstance(content, str):
        content = content.encode("utf-8")
    return hashlib.sha256(content).hexdigest()
