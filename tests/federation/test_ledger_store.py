# SPDX-License-Identifier: BSD-3-Clause
"""Files of a ledger: damage, copies and older ones are noticed, and said."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import sys
from contextlib import closing

import numpy as np
import pytest
from helpers.ledgers import (
    X,
    Y,
    answer,
    begin_exchange,
    events_of_log,
    forks,
    judging_request,
    request_without_content,
)
from sklearn.linear_model import LogisticRegression

from skgems.federation import (
    LedgerCopiedError,
    LedgerDamagedError,
    LedgerError,
    LedgerOlderError,
    Message,
    NotAgreedError,
    RowsAskedAgainWarning,
    _ledger_store,
)
from skgems.federation._ledger import open_ledger

# Of a process that has threads, which those that are forked here do not use.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.usefixtures("without_waiting_for_the_disk"),
]


# ---- damage ------------------------------------------------------------------------


# Each function that damages a ledger takes its folder.
def change_an_entry(folder):
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database:
        database.execute("DROP TRIGGER entries_are_not_changed")
        database.execute("UPDATE entries SET line = replace(line, 'begun', 'ended')")
        database.commit()


def damage_a_text(folder):
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database:
        database.execute("DROP TRIGGER entries_are_not_changed")
        database.execute("UPDATE entries SET line = CAST(X'7BFF7D' AS TEXT)")
        database.commit()


def take_another_database(folder):
    (folder / "ledger.sqlite").unlink()
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database:
        database.execute("CREATE TABLE birds (name TEXT)")


def cutting(name, n_bytes):
    """A function that cuts so many bytes off the end of a file."""

    def cut_short(folder):
        (path,) = folder.glob(name)
        path.write_bytes(path.read_bytes()[:-n_bytes])

    return cut_short


def take_another_reply(folder):
    (path,) = folder.glob("*.safetensors")
    Message.of("counts", labels=["ill"], counts=np.array([60])).save(path)


def overwriting(name):
    """A function that writes bytes over a file that are no ledger's."""
    return lambda folder: (folder / name).write_bytes(b"no ledger " * 300)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cutting("log.jsonl", 30), "log.jsonl: a line is cut short.*remove log.jsonl"),
        (overwriting("log.jsonl"), "log.jsonl: a line is cut short, or was changed"),
        (
            cutting("ledger.sqlite", 9000),
            "ledger.sqlite: .* put the ledger back|damaged",
        ),
        (overwriting("ledger.sqlite"), "ledger.sqlite: it is damaged .*Put a backup"),
        (change_an_entry, "entry 2 is not what this node wrote.* put the ledger back"),
        (damage_a_text, "entry 1 is not what this node wrote"),
        (take_another_database, "it is a database of another program. Give the node"),
        (overwriting("ledger.head"), "ledger.head: it is damaged.*Put the file back"),
        (
            cutting("*.safetensors", 8),
            "the reply that is kept there is damaged. Remove",
        ),
        (take_another_reply, "the reply that is kept there is damaged"),
        (cutting("*.safetensors", 3000), "the reply that is kept there is damaged"),
    ],
    # A function's own text has its address, which differs between processes.
    ids=lambda value: getattr(value, "__name__", None),
)
def test_an_error_names_the_damage_and_nothing_is_answered(damage, words, folder):
    agreement, join = begin_exchange()
    answer(join, folder)
    damage(folder)
    with pytest.raises(LedgerDamagedError, match=words):
        answer(join, folder)
    if "reply" not in words:
        for again in (False, True):
            with pytest.raises(LedgerDamagedError, match=words):
                answer(judging_request(agreement), folder, again=again)


def test_a_damaged_log_is_written_anew_once_it_is_removed(folder):
    _, join = begin_exchange()
    reply = answer(join, folder).to_bytes()
    cutting("log.jsonl", 30)(folder)
    (folder / "log.jsonl").unlink()
    assert answer(join, folder).to_bytes() == reply
    assert events_of_log(folder) == ["opened", "begun", "ended"]


def test_a_reply_that_is_removed_is_computed_anew_and_is_the_same(folder):
    _, join = begin_exchange()
    reply = answer(join, folder).to_bytes()
    (path,) = folder.glob("*.safetensors")
    path.unlink()
    assert answer(join, folder).to_bytes() == reply
    assert path.exists()
    assert events_of_log(folder).count("ended") == 1


def test_a_reply_that_is_another_when_computed_anew_is_not_sent(folder):
    _, join = begin_exchange()
    answer(join, folder)
    (path,) = folder.glob("*.safetensors")
    path.unlink()
    other_clf = LogisticRegression(C=0.1).fit(X, Y)
    with pytest.raises(LedgerDamagedError, match=r"anew is not the same.*not sent"):
        answer(join, folder, clf=other_clf)
    assert not path.exists()


def test_a_damaged_head_is_written_anew_once_it_is_removed_and_that_is_accepted(folder):
    agreement, join = begin_exchange()
    answer(join, folder)
    overwriting("ledger.head")(folder)
    (folder / "ledger.head").unlink()
    with pytest.warns(RowsAskedAgainWarning, match=r"ledger.head is missing"):
        answer(judging_request(agreement), folder, again=True)
    answer(judging_request(agreement), folder)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda log: log[:-30], "its last line is cut short.*remove the line"),
        (lambda log: log.replace(b"begun", b"ended"), "entry 2 is not what this node"),
        (lambda log: log[log.index(b"\n") + 1 :], "entry 1 is not what this node"),
        (lambda log: b"\xff\n", "it is no text"),
    ],
)
def test_a_damaged_log_in_a_mapping_is_an_error_until_it_is_repaired(damage, words):
    agreement, join = begin_exchange()
    state = {}
    answer(join, state)
    log = state["log.jsonl"]
    state["log.jsonl"] = damage(log)
    with pytest.raises(LedgerDamagedError, match=words):
        answer(judging_request(agreement), state)
    # Without its last line, as is advised, what that line was to record is not counted.
    state["log.jsonl"] = log[: log[:-1].rindex(b"\n") + 1]
    answer(join, state)
    assert events_of_log(state) == ["opened", "begun", "begun", "ended"]


def test_entries_are_only_ever_added(folder):
    answer(begin_exchange()[1], folder)
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database:
        for statement in ("UPDATE entries SET line = ''", "DELETE FROM entries"):
            with pytest.raises(sqlite3.IntegrityError, match="are only ever added"):
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


def answer_twice_and_restore(restore, folder, backup):
    """The agreement of a node that answers twice, and then goes back to a backup."""
    agreement, join = begin_exchange()
    answer(join, folder)
    shutil.copytree(folder, backup)
    answer(judging_request(agreement, 1.0), folder)
    answer(judging_request(agreement, 2.0), folder)
    restore(backup, folder)
    return agreement


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
    agreement = answer_twice_and_restore(restore, folder, tmp_path / "backup")
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


def test_entries_that_an_older_database_lacks_can_still_be_read(folder, tmp_path):
    agreement = answer_twice_and_restore(restore_database, folder, tmp_path / "backup")
    with pytest.warns(
        RowsAskedAgainWarning, match="used nevertheless, because of again=True"
    ):
        answer(judging_request(agreement, 3.0), folder, again=True)
    replaced_log = (folder / "log.replaced.jsonl").read_bytes()
    # The first message and the two that were answered after the backup.
    assert replaced_log.count(b'"ended"') == 3


def test_a_database_that_was_removed_is_an_older_ledger(folder):
    agreement, join = begin_exchange()
    answer(join, folder)
    (folder / "ledger.sqlite").unlink()
    with pytest.raises(LedgerOlderError, match="does not have the 3 entries that"):
        answer(judging_request(agreement), folder)
    (folder / "ledger.head").unlink()
    with pytest.raises(LedgerOlderError, match="lacks entries that .*log.jsonl has"):
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
    assert events_of_log(folder) == ["opened", "begun", "ended"] + ["begun", "ended"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_files_of_a_ledger_can_be_read_by_the_node_s_user_only(tmp_path):
    agreement, join = begin_exchange()
    wide = tmp_path / "wide"
    wide.mkdir(mode=0o755)
    for folder in (tmp_path / "new", wide):
        for request in (join, judging_request(agreement)):
            answer(request, folder)
        with open_ledger(folder):  # its journal, too
            pass
        paths = list(folder.iterdir())
        assert len(paths) == 7
        assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_partial_files_of_a_killed_write_are_removed(folder):
    agreement, join = begin_exchange()
    answer(join, folder)
    (path,) = folder.glob("*.safetensors")
    names = [
        f".{path.name}-ab3_x9zz",
        ".ledger.head-00000000",
        ".ledger.sqlite-qqqqqqqq",
        ".log.jsonl-abcdefgh",
    ]
    others = [".notes-abcdefgh", f".{path.name}-old", "notes"]  # nothing of ours
    for name in names + others:
        (folder / name).write_bytes(b"half")
    answer(judging_request(agreement), folder)
    assert not [name for name in names if (folder / name).exists()]
    assert all((folder / name).exists() for name in others)


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path):
    agreement, _ = begin_exchange({"counts": 1})
    path = tmp_path / "file"
    path.write_bytes(b"")
    with pytest.raises(FileExistsError):
        answer(request_without_content(agreement, "counts"), path, agreement=agreement)


@pytest.mark.parametrize("error", [OSError("No space left"), KeyboardInterrupt()])
def test_a_log_that_cannot_be_written_is_made_whole_later(error, folder, monkeypatch):
    agreement, join = begin_exchange()
    append = _ledger_store.FolderStore._append_to_log

    def append_unless_ended(store, lines):
        if '"ended"' in lines[-1]:
            raise error
        append(store, lines)

    with monkeypatch.context() as patch:
        patch.setattr(_ledger_store.FolderStore, "_append_to_log", append_unless_ended)
        with pytest.raises(type(error)):
            answer(join, folder)
    assert events_of_log(folder) == ["opened", "begun"]
    answer(join, folder)
    answer(judging_request(agreement), folder)
    assert events_of_log(folder) == ["opened", "begun", "ended"] + ["begun", "ended"]


def test_without_sqlite_a_folder_is_an_error_and_a_mapping_works(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    agreement, _ = begin_exchange({"counts": 1})
    with pytest.raises(ImportError, match="this Python has no module sqlite3"):
        answer(
            request_without_content(agreement, "counts"), folder, agreement=agreement
        )
    answer(request_without_content(agreement, "counts"), {}, agreement=agreement)
