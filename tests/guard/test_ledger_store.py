# SPDX-License-Identifier: BSD-3-Clause
"""The database of a ledger: damage, copies and older ones are noticed, and said."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import sys
from contextlib import closing

import pytest
from helpers.ledgers import (
    answer,
    begin_exchange,
    events_of_log,
    forks,
    judging_request,
    request_without_content,
)

from skgems.asking import Message
from skgems.guard import (
    LedgerCopiedError,
    LedgerDamagedError,
    LedgerError,
    LedgerOlderError,
    NotAgreedError,
    ReplyDeclinedError,
    RowsAskedAgainWarning,
    _ledger_store,
)

# Of a process that has threads, which those that are forked here do not use.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.usefixtures("without_waiting_for_the_disk"),
]


# ---- damage ------------------------------------------------------------------------


# Each function that damages a ledger takes its folder.
def changing(name, content):
    """A function that changes all contents whose names are like this one."""

    def change(folder):
        with closing(sqlite3.connect(folder / "ledger.sqlite")) as database:
            database.execute("DROP TRIGGER contents_are_not_changed")
            changed = database.execute(
                f"UPDATE contents SET content = {content} WHERE name LIKE ?", (name,)
            )
            assert changed.rowcount
            database.commit()

    return change


def take_another_database(folder):
    (folder / "ledger.sqlite").unlink()
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database:
        database.execute("CREATE TABLE birds (name TEXT)")


def cut_short(folder):
    path = folder / "ledger.sqlite"
    path.write_bytes(path.read_bytes()[:-9000])


def overwriting(name):
    """A function that writes bytes over a file that are no ledger's."""
    return lambda folder: (folder / name).write_bytes(b"no ledger " * 300)


ANOTHER_ENTRY = "CAST(replace(content, 'join', 'john') AS BLOB)"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut_short, "ledger.sqlite: it is damaged .*Put a backup"),
        (overwriting("ledger.sqlite"), "ledger.sqlite: it is damaged .*Put a backup"),
        (changing("entry", ANOTHER_ENTRY), r"row \d+ .*entry. is not what this node"),
        (changing("entry", "X'7BFF7D'"), r"row \d+ .*entry. is not what this node"),
        (changing("entry", "zeroblob(9)"), r"row \d+ .*entry. is not what this node"),
        (take_another_database, "it is a database of another program. Give the node"),
        (overwriting("ledger.head"), "ledger.head: it is damaged.*Put the file back"),
    ],
    # A function's own text has its address, which differs between processes.
    ids=lambda value: getattr(value, "__name__", None),
)
def test_an_error_names_the_damage_and_nothing_is_answered(damage, words, folder):
    agreement, join = begin_exchange()
    answer(join, folder)
    damage(folder)
    for request in (join, judging_request(agreement)):
        for again in (False, True):
            with pytest.raises(LedgerError, match=f"{words}|is a copy, was") as caught:
                answer(request, folder, again=again)
    # It is damaged, whether or not its owner accepts that it is another file.
    assert isinstance(caught.value, LedgerDamagedError)


@pytest.mark.parametrize("content", ["substr(content, 1, 99)", "X'00'"])
def test_a_reply_that_is_damaged_is_not_sent(content, folder):
    _, join = begin_exchange()
    answer(join, folder)
    changing("%.safetensors", content)(folder)
    with (
        pytest.warns(RowsAskedAgainWarning, match="was touched by another program"),
        pytest.raises(LedgerDamagedError, match=r"is not what this node.*Put a backup"),
    ):
        answer(join, folder, again=True)


@pytest.mark.parametrize("name", ["ledger.key", "%-rows.npz"])
def test_a_ledger_with_other_digests_of_rows_is_damaged(name, folder):
    answer(begin_exchange()[1], folder)
    changing(name, "randomblob(32)")(folder)
    agreement, join = begin_exchange(random_state=1)
    with (
        pytest.warns(RowsAskedAgainWarning, match="was touched by another program"),
        pytest.raises(LedgerDamagedError, match=r"is not what this node wrote"),
    ):
        answer(join, folder, agreement=agreement, again=True)


def test_a_damaged_head_is_written_anew_once_it_is_removed_and_that_is_accepted(folder):
    agreement, join = begin_exchange()
    answer(join, folder)
    overwriting("ledger.head")(folder)
    (folder / "ledger.head").unlink()
    with pytest.raises(LedgerCopiedError, match="or ledger.head beside it is missing"):
        answer(judging_request(agreement), folder)
    with pytest.warns(RowsAskedAgainWarning, match=r"ledger.head beside it is missing"):
        answer(judging_request(agreement), folder, again=True)
    answer(judging_request(agreement, 2.0), folder)


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-9000], lambda content: b"no ledger " * 300]
)
def test_a_damaged_database_in_a_mapping_is_an_error(damage):
    agreement, join = begin_exchange()
    state = {}
    answer(join, state)
    state["ledger.sqlite"] = damage(state["ledger.sqlite"])
    with pytest.raises(
        LedgerDamagedError, match=r"state\['ledger.sqlite'\]: it is dam"
    ):
        answer(judging_request(agreement), state)


def test_a_ledger_is_only_ever_added_to(folder):
    answer(begin_exchange()[1], folder)
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database:
        for statement in ("UPDATE contents SET content = ''", "DELETE FROM contents"):
            with pytest.raises(sqlite3.IntegrityError, match="is only ever added to"):
                database.execute(statement)


def test_a_ledger_of_another_version_is_not_read(folder):
    agreement, join = begin_exchange()
    answer(join, folder)
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(LedgerError, match="it is a ledger of version 99, and this"):
        answer(judging_request(agreement), folder)


# ---- copies and older ones ---------------------------------------------------------


def test_a_copy_is_not_answered_from_beside_the_ledger(folder, tmp_path):
    agreement, join = begin_exchange()
    answer(join, folder)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    for request in (join, judging_request(agreement)):
        with pytest.raises(LedgerCopiedError, match="is a copy.*answer with that one"):
            answer(request, copy)
    answer(judging_request(agreement), folder)
    renamed = folder.rename(tmp_path / "moved")  # which is no copy
    answer(judging_request(agreement, 2.0), renamed)


def test_a_copy_is_noticed_after_a_reply_was_declined(folder, tmp_path):
    _, join = begin_exchange()
    answer(join, folder)
    with pytest.raises(ReplyDeclinedError):
        answer(begin_exchange()[1], folder, confirm=lambda reply: False)
    assert events_of_log(folder) == ["opened", "ended"]
    copy = shutil.copytree(folder, tmp_path / "copy")
    with pytest.raises(LedgerCopiedError, match="is a copy"):
        answer(join, copy)


def test_a_copy_is_noticed_after_a_killed_write_has_come_to_an_end(folder, tmp_path):
    _, join = begin_exchange()
    answer(join, folder)
    head = json.loads((folder / "ledger.head").read_bytes())
    head["changed"] = None  # as a killed process leaves it
    (folder / "ledger.head").write_text(json.dumps(head))
    answer(join, folder)
    copy = shutil.copytree(folder, tmp_path / "copy")
    with pytest.raises(LedgerCopiedError, match="is a copy"):
        answer(join, copy)


def test_a_head_that_cannot_be_written_is_no_reason_to_lose_a_reply(
    folder, monkeypatch
):
    """What is committed counts, so that it may leave as well."""
    agreement, join = begin_exchange()
    write_bytes = _ledger_store.write_bytes

    def write_unless_done(path, content):
        if b"null" not in content:
            raise OSError(28, "No space left on device")
        write_bytes(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(_ledger_store, "write_bytes", write_unless_done)
        assert answer(join, folder).task == "join"
    answer(judging_request(agreement), folder)
    assert events_of_log(folder) == ["opened", "ended", "ended"]


def restore_folder(backup, folder):
    """Put a copy in the place of the folder."""
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)


def restore_into_same_files(backup, folder):
    """Copy the contents of all files into those that are there."""
    for path in backup.iterdir():
        shutil.copy2(path, folder / path.name)


def restore_database(backup, folder):
    """Copy the database only."""
    shutil.copy2(backup / "ledger.sqlite", folder / "ledger.sqlite")


def restore_database_without_head(backup, folder):
    """Copy the database only, and remove the head by which its age is seen."""
    restore_database(backup, folder)
    (folder / "ledger.head").unlink()


@pytest.mark.parametrize(
    ("restore", "error"),
    [
        (restore_folder, LedgerCopiedError),
        (restore_into_same_files, LedgerCopiedError),
        (restore_database, LedgerOlderError),
        (restore_database_without_head, LedgerCopiedError),
    ],
)
def test_an_older_ledger_is_used_only_if_its_owner_accepts_it(
    restore, error, folder, tmp_path
):
    agreement, join = begin_exchange()
    answer(join, folder)
    shutil.copytree(folder, tmp_path / "backup")
    answer(judging_request(agreement, 1.0), folder)
    answer(judging_request(agreement, 2.0), folder)
    restore(tmp_path / "backup", folder)
    with pytest.raises(error, match="again=True") as caught:
        answer(judging_request(agreement, 3.0), folder)
    assert "--again" in str(caught.value)
    # Its owner accepts it, once, and is told so.
    with pytest.warns(
        RowsAskedAgainWarning, match="used nevertheless, because of again=True"
    ):
        answer(judging_request(agreement, 3.0), folder, again=True)
    answer(judging_request(agreement, 4.0), folder)
    assert "accepted" in events_of_log(folder)
    with pytest.raises(NotAgreedError, match="'evaluate' may be asked 2 times"):
        answer(judging_request(agreement, 5.0), folder)


def test_a_copy_is_accepted_once_also_if_the_request_is_then_refused(folder, tmp_path):
    agreement, join = begin_exchange()
    answer(join, folder)
    copy = shutil.copytree(folder, tmp_path / "copy")
    with pytest.warns(RowsAskedAgainWarning), pytest.raises(NotAgreedError):
        answer(request_without_content(agreement, "describe"), copy, again=True)
    assert events_of_log(copy) == ["opened", "ended", "accepted"]
    answer(judging_request(agreement), copy)


def test_a_database_that_was_removed_is_an_older_ledger(folder):
    agreement, join = begin_exchange()
    answer(join, folder)
    (folder / "ledger.sqlite").unlink()
    with pytest.raises(LedgerOlderError, match="does not have the 2 entries that"):
        answer(judging_request(agreement), folder)


# ---- files -------------------------------------------------------------------------


@forks
def test_processes_that_begin_together_make_one_ledger(folder):
    agreement, join = begin_exchange()
    pids = []
    for _ in range(6):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                answer(join, folder)
                status = 0
            finally:
                os._exit(status)
        pids.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert codes == [0] * 6
    answer(judging_request(agreement), folder)
    assert events_of_log(folder) == ["opened", "ended", "ended"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_files_of_a_ledger_can_be_read_by_the_node_s_user_only(tmp_path):
    agreement, join = begin_exchange()
    wide = tmp_path / "wide"
    wide.mkdir(mode=0o755)
    for folder in (tmp_path / "new", wide):
        for request in (join, judging_request(agreement)):
            answer(request, folder)
        paths = list(folder.iterdir())
        assert {path.name for path in paths} >= {"ledger.head", "ledger.sqlite"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_a_ledger_is_one_file_and_its_head(folder):
    agreement, join = begin_exchange()
    answer(join, folder)
    answer(judging_request(agreement), folder)
    assert {path.name for path in folder.iterdir()} == {"ledger.head", "ledger.sqlite"}
    state = {}
    answer(join, state)
    assert list(state) == ["ledger.sqlite"]


def test_partial_files_of_a_killed_write_are_removed(folder):
    agreement, join = begin_exchange()
    answer(join, folder)
    others = [".notes-abcdefgh", ".ledger.head-old", "notes"]  # nothing of ours
    for name in [".ledger.head-00000000", *others]:
        (folder / name).write_bytes(b"half")
    answer(judging_request(agreement), folder)
    assert not (folder / ".ledger.head-00000000").exists()
    assert all((folder / name).exists() for name in others)


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path):
    agreement, _ = begin_exchange({"counts": 1})
    path = tmp_path / "file"
    path.write_bytes(b"")
    with pytest.raises(FileExistsError):
        answer(request_without_content(agreement, "counts"), path, agreement=agreement)


def test_replies_of_any_size_are_kept(state, monkeypatch):
    """SQLite has values of at most 1 GB, and larger ones are kept in parts."""
    monkeypatch.setattr("skgems.guard._ledger_store._MOST_BYTES_OF_PART", 100)
    _, join = begin_exchange()
    reply = answer(join, state)
    assert isinstance(reply, Message)
    assert answer(join, state).to_bytes() == reply.to_bytes()


def test_without_sqlite_there_is_no_ledger(state, monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    agreement, _ = begin_exchange({"counts": 1})
    with pytest.raises(ImportError, match="this Python has no module sqlite3"):
        answer(request_without_content(agreement, "counts"), state, agreement=agreement)
