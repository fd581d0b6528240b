# SPDX-License-Identifier: BSD-3-Clause
"""A node counts, answers and keeps in one step, whoever comes or dies in between."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
import warnings
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator
from skgems.channels import inspect
from skgems.federation import (
    Agreement,
    ClassesLeftOutWarning,
    LedgerBusyError,
    LedgerCopiedError,
    LedgerDamagedError,
    LedgerError,
    LedgerOlderError,
    Message,
    NotAgreedError,
    ReplyDeclinedError,
    RowsAskedAgainError,
    RowsAskedAgainWarning,
    RowsChangedError,
    _ledger,
    _ledger_store,
    _replying,
    first_request,
    reply_to,
)
from skgems.federation._ledger import open_ledger
from skgems.messages import _packing, sealed

RNG = np.random.RandomState(0)
X = RNG.standard_normal((60, 3))
Y = np.where(X[:, 0] > 0, "ill", "well")
CLF = LogisticRegression().fit(X, Y)
# Six rows of each class, of which nothing may be said where sums are of ten.
FEW = np.r_[np.flatnonzero(Y == "ill")[:6], np.flatnonzero(Y == "well")[:6]]
FEW_ROWS = {"rows": X[FEW], "y": Y[FEW]}
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
# Of a process that has threads, which those that are forked here do not use.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch):
    """Kills of a process, unlike those of power, lose nothing that was written."""
    monkeypatch.setattr(os, "fsync", lambda number: None)
    monkeypatch.setattr(_ledger_store, "SYNCHRONOUS", "OFF")


def agreed(tasks=None, **settings):
    """An agreement of a new exchange, and the first request that it comes with."""
    agg = GEMSLogisticAggregator(**{"n_rounds": 3, "random_state": 0} | settings)
    agreement = Agreement.of(agg)
    if tasks is not None:
        agreement = replace(agreement, tasks=tasks)
    return agreement, sealed(first_request(agg, agg._first_requests()), agreement)


def judging(agreement, size=1.0, **content):
    """A request to judge a model, each of another size."""
    W = size * np.vstack([CLF.coef_.T, CLF.intercept_])
    content = {
        "W": np.hstack([-W / 2, W / 2]),
        "labels": ["ill", "well"],
        "columns": np.array([0, 1]),
        "factors": np.ones(1),
        **content,
    }
    return sealed(Message.of("evaluate", **content), agreement)


def asked(agreement, task):
    return sealed(Message.of(task), agreement)


def answer(request, state, *, clf=CLF, rows=X, y=Y, **options):
    return reply_to(request, clf, rows, y, name="lyon", state=state, **options)


def log_of(state):
    data = state["log.jsonl"] if isinstance(state, dict) else None
    data = (state / "log.jsonl").read_bytes() if data is None else data
    return [json.loads(line) for line in data.splitlines()]


def events(state):
    return [entry["event"] for entry in log_of(state)]


@pytest.fixture(params=["folder", "mapping"])
def state(request, tmp_path):
    return tmp_path / "kept" if request.param == "folder" else {}


@pytest.fixture
def kept(tmp_path):
    return tmp_path / "kept"


# ---- kills -------------------------------------------------------------------------


def killed_at(point, call):
    """Run in a process of its own, which is killed at some line of the ledger's code.

    Returns the number of lines that were run, if it came to an end.
    """
    modules = _ledger, _ledger_store, _replying, _packing
    files = {module.__file__ for module in modules}
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        n_lines = 0

        def trace(frame, event, argument):
            nonlocal n_lines
            if frame.f_code.co_filename not in files:
                return None
            if event == "line":
                n_lines += 1
                if n_lines == point:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        try:
            sys.settrace(trace)
            call()
            sys.settrace(None)
            os.write(writing, str(n_lines).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    return int(told) if told else None


@forks
@pytest.mark.skipif(sys.gettrace() is not None, reason="lines are traced already")
def test_a_kill_at_any_point_neither_counts_nor_locks_out(tmp_path):
    agreement, _ = agreed({"counts": 1, "describe": 1})
    request = asked(agreement, "counts")
    whole = answer(request, tmp_path / "whole", agreement=agreement).to_bytes()

    def call(folder):
        return lambda: answer(request, folder, agreement=agreement)

    n_lines = killed_at(None, call(tmp_path / "lines"))
    assert n_lines > 200
    left = set()
    for k, point in enumerate(np.linspace(1, n_lines - 1, 50).astype(int)):
        folder = tmp_path / f"kept {k}"
        assert killed_at(point, call(folder)) is None
        left.update(path.suffix for path in folder.glob("*"))
        again = answer(request, folder, agreement=agreement)
        assert again.to_bytes() == whole
        assert events(folder).count("ended") == 1
        assert "failed" not in events(folder)
        assert not list(folder.glob(".*")) and not (folder / "ledger.writing").exists()
        answer(asked(agreement, "describe"), folder, agreement=agreement)
        content = {"method": "GEMSLogisticAggregator", "settings": {}, "requests": {}}
        with pytest.raises(NotAgreedError):
            answer(sealed(Message.of("join", **content), agreement), folder)
    # Kills came while files were being written, and between two of them.
    assert {".sqlite", ".sqlite-journal", ".writing", ".safetensors"} <= left


@forks
@pytest.mark.parametrize(
    "n_kills", [4, pytest.param(50, marks=pytest.mark.slow)], ids=str
)
def test_kills_at_any_time_neither_count_nor_lock_out(n_kills, tmp_path, monkeypatch):
    monkeypatch.undo()  # as it is where power may fail, too
    agreement, join = agreed()
    rng = random.Random(n_kills)
    start = time.monotonic()
    whole = answer(join, tmp_path / "whole").to_bytes()
    seconds = time.monotonic() - start
    for k in range(n_kills):
        folder = tmp_path / f"kept {k}"
        pid = os.fork()
        if pid == 0:
            answer(join, folder)
            os._exit(0)
        time.sleep(rng.uniform(0, seconds))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert answer(join, folder).to_bytes() == whole
        assert events(folder).count("ended") == 1
        for size in (1.0, 2.0):
            answer(judging(agreement, size), folder)
        with pytest.raises(NotAgreedError, match="'evaluate' was agreed 2 times"):
            answer(judging(agreement, 3.0), folder)


class KilledError(BaseException):
    """As of a process: nothing catches it."""


class Mapping(dict):
    """A mapping of the user's, at whose k-th use the process is killed."""

    def __init__(self, *given):
        super().__init__(*given)
        self.left = np.inf

    def _use(self):
        self.left -= 1
        if self.left < 0:
            raise KilledError

    def get(self, *given):
        self._use()
        return super().get(*given)

    def __setitem__(self, name, data):
        self._use()
        super().__setitem__(name, data)
        self._use()


def test_a_kill_at_any_use_of_a_mapping_neither_counts_nor_locks_out():
    agreement, _ = agreed({"counts": 1})
    request = asked(agreement, "counts")
    whole = answer(request, {}, agreement=agreement)
    for n_uses in range(100):
        state = Mapping()
        state.left = n_uses
        try:
            answer(request, state, agreement=agreement)
        except KilledError:
            state.left = np.inf
            again = answer(request, state, agreement=agreement)
            assert again.to_bytes() == whole.to_bytes()
            assert events(state).count("ended") == 1
        else:
            break
    assert n_uses > 6


def test_an_interrupt_does_not_count(state, monkeypatch):
    agreement, _ = agreed({"counts": 1})

    def interrupted(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_replying, "answer", interrupted)
        with pytest.raises(KeyboardInterrupt):
            answer(asked(agreement, "counts"), state, agreement=agreement)
    assert events(state) == ["opened", "begun"]
    assert answer(asked(agreement, "counts"), state).task == "counts"
    assert events(state) == ["opened", "begun", "begun", "ended"]


def test_what_was_interrupted_counts_for_nothing_else_either(state, monkeypatch):
    agreement, _ = agreed({"evaluate": 1})

    def interrupted(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_replying, "answer", interrupted)
        with pytest.raises(KeyboardInterrupt):
            answer(judging(agreement, 1.0), state, agreement=agreement)
    # Neither of another request, nor of another exchange.
    answer(agreed(random_state=1)[1], state, rows=X + 1.0)
    answer(judging(agreement, 2.0), state)
    with pytest.raises(NotAgreedError, match=r"answered 1\.$"):
        answer(judging(agreement, 3.0), state)


def test_an_interrupted_exchange_is_no_earlier_one(state, monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_replying, "answer", interrupted)
        with pytest.raises(KeyboardInterrupt):
            answer(agreed()[1], state)
    answer(agreed(random_state=1)[1], state)
    with pytest.raises(RowsAskedAgainError):
        answer(agreed()[1], state)


# ---- many at once ------------------------------------------------------------------


@forks
@pytest.mark.parametrize("n_agreed", [2, 5])
def test_processes_answer_together_what_was_agreed(n_agreed, kept):
    agreement, join = agreed(n_rounds=n_agreed + 1)
    answer(join, kept)
    start, pids = time.monotonic() + 0.1, []
    for k in range(8):
        pid = os.fork()
        if pid == 0:
            status = 4
            try:
                time.sleep(max(0.0, start - time.monotonic()))
                answer(judging(agreement, 1.0 + k), kept)
                status = 0
            except NotAgreedError:
                status = 3
            finally:
                os._exit(status)
        pids.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert sorted(codes) == [0] * n_agreed + [3] * (8 - n_agreed)
    assert events(kept).count("ended") == 1 + n_agreed
    with pytest.raises(NotAgreedError, match=f"was agreed {n_agreed} times"):
        answer(judging(agreement, 20.0), kept)


def test_threads_answer_together_what_was_agreed(kept):
    agreement, join = agreed()
    answer(join, kept)
    told = []

    def ask(size):
        try:
            told.append(answer(judging(agreement, size), kept))
        except NotAgreedError as exc:
            told.append(exc)

    threads = [threading.Thread(target=ask, args=(1.0 + k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(reply, Message) for reply in told) == 2


def test_whoever_waits_too_long_is_told_so(kept, monkeypatch):
    agreement, _ = agreed({"counts": 1})
    monkeypatch.setattr(_ledger_store, "LOCK_TIMEOUT", 0.05)
    with (
        open_ledger(kept),
        pytest.raises(LedgerBusyError, match=r"more than 0.05 seconds. Nothing was"),
    ):
        answer(asked(agreement, "counts"), kept, agreement=agreement)
    answer(asked(agreement, "counts"), kept, agreement=agreement)


LOCKING = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=0)
try:
    database.execute("BEGIN EXCLUSIVE")
    print("open")
except sqlite3.OperationalError as exc:
    print(exc)
database.close()
"""


def test_a_thread_that_comes_in_between_opens_the_ledger_to_no_process(
    kept, monkeypatch
):
    """A process that closes a file of its own loses the locks that it has on it."""
    agreement, _ = agreed({"counts": 1})
    monkeypatch.setattr(_ledger_store, "LOCK_TIMEOUT", 0.05)
    busy = []

    def ask():
        try:
            answer(asked(agreement, "counts"), kept, agreement=agreement)
        except LedgerBusyError as exc:
            busy.append(exc)

    def seen_by_another_process():
        command = [sys.executable, "-c", LOCKING, kept / "ledger.sqlite"]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    with open_ledger(kept):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        assert len(busy) == 1
        assert seen_by_another_process() == "database is locked"
    assert seen_by_another_process() == "open"


# ---- what counts -------------------------------------------------------------------


def test_an_error_of_the_rows_counts_once_and_may_be_mended(state):
    agreement, _ = agreed({"evaluate": 2})
    accepted = replace(agreement, min_rows=2)
    for _ in range(3):
        with pytest.raises(ValueError, match="fewer than min_rows=10"):
            answer(judging(accepted), state, agreement=accepted, **FEW_ROWS)
    # Another request is another look at the rows.
    with pytest.raises(ValueError, match="fewer than min_rows=10"):
        answer(judging(accepted, 2.0), state, **FEW_ROWS)
    with pytest.raises(NotAgreedError, match="'evaluate' was agreed 2 times"):
        answer(judging(accepted, 3.0), state, **FEW_ROWS)
    assert events(state) == ["opened"] + ["begun", "failed"] * 4
    assert "TooFewRowsError" in log_of(state)[-1]["error"]
    # What was advised helps: the same requests are answered, and no others.
    for size in (1.0, 2.0):
        answer(judging(accepted, size), state, min_rows=2, **FEW_ROWS)
    with pytest.raises(NotAgreedError, match="'evaluate' was agreed 2 times"):
        answer(judging(accepted, 3.0), state, min_rows=2, **FEW_ROWS)


def test_a_smaller_min_rows_is_not_advised_where_it_does_not_help(state):
    agreement, _ = agreed({"evaluate": 1})
    for min_rows in (20, 10, 1):
        with pytest.raises(ValueError, match="has fewer than min_rows=10 rows") as told:
            answer(
                judging(agreement),
                state,
                agreement=agreement,
                min_rows=min_rows,
                **FEW_ROWS,
            )
        assert "Set a smaller" not in str(told.value)
        assert "no setting of the node changes" in str(told.value)
    # As it says: another agreement, which the owner accepts.
    other, _ = agreed({"evaluate": 1})
    other = replace(other, min_rows=2)
    options = {"agreement": other, "min_rows": 2} | FEW_ROWS
    with pytest.raises(RowsAskedAgainError, match="with other min_rows"):
        answer(judging(other), state, **options)
    with pytest.warns(RowsAskedAgainWarning):
        answer(judging(other), state, again=True, **options)


def test_it_is_said_that_a_kept_reply_stays_without_small_classes(state):
    agreement, join = agreed()
    few = np.r_[np.flatnonzero(Y == "ill"), np.flatnonzero(Y == "well")[:5]]
    rows = {"rows": X[few], "y": Y[few]}
    with pytest.warns(ClassesLeftOutWarning, match="changes only others") as told:
        first = answer(join, state, **rows)
    assert "Set a smaller" not in str(told[0].message)
    assert answer(join, state, min_rows=2, **rows).to_bytes() == first.to_bytes()
    with pytest.warns(ClassesLeftOutWarning, match="Set a smaller min_rows"):
        reply_to(join, CLF, X[few], Y[few], name="lyon")


def test_what_is_refused_leaves_nothing(state):
    agreement, _ = agreed({"counts": 1})
    odd = sealed(Message.of("counts", more=3), agreement)
    for request in (odd, asked(agreement, "describe"), Message.of("counts")):
        with pytest.raises(ValueError, match=r"no field|not agreed|of no exchange"):
            answer(request, state, agreement=agreement)
    if isinstance(state, dict):
        assert state == {}
    else:
        assert not (state / "log.jsonl").exists()


def test_requests_of_equal_content_are_one(state):
    agreement, _ = agreed({"evaluate": 1})
    first = answer(judging(agreement), state, agreement=agreement)
    # A default that is written out, and an envelope.
    request = judging(agreement, of="judging").with_envelope(number="7")
    again = answer(request, state)
    assert again.digest == first.digest
    assert again.envelope["to"] == request.digest != first.envelope["to"]
    assert events(state) == ["opened", "begun", "ended"]


def test_what_is_declined_is_neither_counted_nor_kept(state):
    agreement, join = agreed()
    shown = []

    def confirm(reply):
        shown.append(reply)
        return len(shown) > 1

    with pytest.raises(ReplyDeclinedError, match="'lyon' was declined: nothing was"):
        answer(join, state, confirm=confirm)
    assert "ended" not in events(state)
    # So that it can be made anew with what its owner prefers.
    second = answer(join, state, confirm=confirm, min_rows=20)
    assert second.digest != shown[0].digest
    with pytest.raises(ReplyDeclinedError):
        answer(join, state, confirm=lambda reply: False)


# ---- damage ------------------------------------------------------------------------


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


def cut(name, n_bytes):
    def cut_short(folder):
        (path,) = folder.glob(name)
        path.write_bytes(path.read_bytes()[:-n_bytes])

    return cut_short


def take_another_reply(folder):
    (path,) = folder.glob("*.safetensors")
    Message.of("counts", labels=["ill"], counts=np.array([60])).save(path)


def rubbish(name):
    return lambda folder: (folder / name).write_bytes(b"no ledger " * 300)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut("log.jsonl", 30), "log.jsonl: a line is cut short.*remove log.jsonl"),
        (rubbish("log.jsonl"), "log.jsonl: a line is cut short, or was changed"),
        (cut("ledger.sqlite", 9000), "ledger.sqlite: .* put the ledger back|damaged"),
        (rubbish("ledger.sqlite"), "ledger.sqlite: it is damaged .*Put a backup"),
        (change_an_entry, "entry 2 is not what this node wrote.* put the ledger back"),
        (damage_a_text, "entry 1 is not what this node wrote"),
        (take_another_database, "it is a database of another program. Give the node"),
        (rubbish("ledger.head"), "ledger.head: it is damaged.*Put the file back"),
        (cut("*.safetensors", 8), "the reply that is kept there is damaged. Remove"),
        (take_another_reply, "the reply that is kept there is damaged"),
        (cut("*.safetensors", 3000), "the reply that is kept there is damaged"),
    ],
    # A function's own text has its address, which differs between processes.
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_is_damaged_is_said_and_nothing_answered(damage, words, kept):
    agreement, join = agreed()
    answer(join, kept)
    damage(kept)
    with pytest.raises(LedgerDamagedError, match=words):
        answer(join, kept)
    if "reply" not in words:
        for again in (False, True):
            with pytest.raises(LedgerDamagedError, match=words):
                answer(judging(agreement), kept, again=again)


def test_what_is_advised_for_damage_helps(kept):
    agreement, join = agreed()
    first = answer(join, kept).to_bytes()
    cut("log.jsonl", 30)(kept)
    (kept / "log.jsonl").unlink()
    assert answer(join, kept).to_bytes() == first
    assert events(kept) == ["opened", "begun", "ended"]
    # A reply is computed anew, and is the same.
    (path,) = kept.glob("*.safetensors")
    path.unlink()
    assert answer(join, kept).to_bytes() == first and path.exists()
    assert [event for event in events(kept) if event == "ended"] == ["ended"]
    path.unlink()
    other = LogisticRegression(C=0.1).fit(X, Y)
    with pytest.raises(LedgerDamagedError, match=r"anew is not the same.*not sent"):
        answer(join, kept, clf=other)
    assert not path.exists()
    rubbish("ledger.head")(kept)
    (kept / "ledger.head").unlink()
    with pytest.warns(RowsAskedAgainWarning, match=r"ledger.head is missing"):
        answer(judging(agreement), kept, again=True)
    answer(judging(agreement), kept)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda log: log[:-30], "its last line is cut short.*remove the line"),
        (lambda log: log.replace(b"begun", b"ended"), "entry 2 is not what this node"),
        (lambda log: log[log.index(b"\n") + 1 :], "entry 1 is not what this node"),
        (lambda log: b"\xff\n", "it is no text"),
    ],
)
def test_a_log_in_a_mapping_that_is_damaged(damage, words):
    (agreement, join), state = agreed(), {}
    answer(join, state)
    log = state["log.jsonl"]
    state["log.jsonl"] = damage(log)
    with pytest.raises(LedgerDamagedError, match=words):
        answer(judging(agreement), state)
    # Without its last line, as is advised, what that line was to record is not counted.
    state["log.jsonl"] = log[: log[:-1].rindex(b"\n") + 1]
    answer(join, state)
    assert events(state) == ["opened", "begun", "begun", "ended"]


def test_entries_are_only_ever_added(kept):
    answer(agreed()[1], kept)
    with closing(sqlite3.connect(kept / "ledger.sqlite")) as database:
        for statement in ("UPDATE entries SET line = ''", "DELETE FROM entries"):
            with pytest.raises(sqlite3.IntegrityError, match="are only ever added"):
                database.execute(statement)


def test_a_ledger_of_another_version_is_not_read(kept):
    agreement, join = agreed()
    answer(join, kept)
    with closing(sqlite3.connect(kept / "ledger.sqlite")) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(LedgerError, match="it is a ledger of version 99, and this"):
        answer(judging(agreement), kept)


# ---- copies and older ones ---------------------------------------------------------


def test_a_copy_is_not_answered_from_beside_the_ledger(kept, tmp_path):
    agreement, join = agreed()
    answer(join, kept)
    copy = tmp_path / "copy"
    shutil.copytree(kept, copy)
    for request in (join, judging(agreement)):
        with pytest.raises(LedgerCopiedError, match="is a copy.*answer with that one"):
            answer(request, copy)
    answer(judging(agreement), kept)
    moved = kept.rename(tmp_path / "moved")  # which is no copy
    answer(judging(agreement, 2.0), moved)


@pytest.mark.parametrize("way", ["folder", "files", "database", "without head"])
def test_an_older_ledger_is_recognised(way, kept, tmp_path):
    agreement, join = agreed()
    answer(join, kept)
    backup = tmp_path / "backup"
    shutil.copytree(kept, backup)
    answer(judging(agreement, 1.0), kept)
    answer(judging(agreement, 2.0), kept)
    if way == "folder":
        shutil.rmtree(kept)
        shutil.copytree(backup, kept)
    elif way == "files":  # within the same files
        for path in backup.iterdir():
            shutil.copy2(path, kept / path.name)
    else:
        shutil.copy2(backup / "ledger.sqlite", kept / "ledger.sqlite")
    if way == "without head":
        (kept / "ledger.head").unlink()
    kinds = {"database": LedgerOlderError}
    with pytest.raises(kinds.get(way, LedgerCopiedError), match="again=True") as told:
        answer(judging(agreement, 3.0), kept)
    assert "--again" in str(told.value)
    # Its owner accepts it, once, and is told so.
    with pytest.warns(RowsAskedAgainWarning, match="used nevertheless, by again=True"):
        answer(judging(agreement, 3.0), kept, again=True)
    answer(judging(agreement, 4.0), kept)
    assert "accepted" in events(kept)
    with pytest.raises(NotAgreedError, match="'evaluate' was agreed 2 times"):
        answer(judging(agreement, 5.0), kept)
    if way == "database":  # what the lost entries were can still be read
        lost = (kept / "log.replaced.jsonl").read_bytes()
        assert lost.count(b'"ended"') == 3


def test_a_database_that_was_removed_is_missed(kept):
    agreement, join = agreed()
    answer(join, kept)
    (kept / "ledger.sqlite").unlink()
    with pytest.raises(LedgerOlderError, match="does not have the 3 entries that"):
        answer(judging(agreement), kept)
    (kept / "ledger.head").unlink()
    with pytest.raises(LedgerOlderError, match="lacks entries that .*log.jsonl has"):
        answer(judging(agreement), kept)


# ---- files -------------------------------------------------------------------------


@forks
def test_processes_that_begin_together_make_one_ledger(kept):
    (agreement, join), pids = agreed(), []
    for _ in range(6):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                answer(join, kept)
                status = 0
            finally:
                os._exit(status)
        pids.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert codes == [0] * 6
    answer(judging(agreement), kept)
    assert events(kept) == ["opened", "begun", "ended"] + ["begun", "ended"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_what_is_kept_is_private_to_the_node(tmp_path):
    agreement, join = agreed()
    wide = tmp_path / "wide"
    wide.mkdir(mode=0o755)
    for folder in (tmp_path / "new", wide):
        for request in (join, judging(agreement)):
            answer(request, folder)
        with open_ledger(folder):  # its journal, too
            pass
        paths = list(folder.iterdir())
        assert len(paths) == 5
        assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_partial_files_of_a_killed_write_are_removed(kept):
    agreement, join = agreed()
    answer(join, kept)
    (path,) = kept.glob("*.safetensors")
    names = [
        f".{path.name}-ab3_x9zz",
        ".ledger.head-00000000",
        ".ledger.sqlite-qqqqqqqq",
        ".log.jsonl-abcdefgh",
    ]
    others = [".notes-abcdefgh", f".{path.name}-old", "notes"]  # nothing of ours
    for name in names + others:
        (kept / name).write_bytes(b"half")
    answer(judging(agreement), kept)
    assert not [name for name in names if (kept / name).exists()]
    assert all((kept / name).exists() for name in others)


def test_a_folder_that_cannot_be_used(tmp_path):
    agreement, _ = agreed({"counts": 1})
    path = tmp_path / "file"
    path.write_bytes(b"")
    with pytest.raises(FileExistsError):
        answer(asked(agreement, "counts"), path, agreement=agreement)


@pytest.mark.parametrize("error", [OSError("No space left"), KeyboardInterrupt()])
def test_a_log_that_cannot_be_written_is_made_whole_later(error, kept, monkeypatch):
    agreement, join = agreed()
    append = _ledger_store.FolderStore._append_to_log

    def failing(store, lines):
        if '"ended"' in lines[-1]:
            raise error
        append(store, lines)

    with monkeypatch.context() as patch:
        patch.setattr(_ledger_store.FolderStore, "_append_to_log", failing)
        with pytest.raises(type(error)):
            answer(join, kept)
    assert events(kept) == ["opened", "begun"]
    answer(join, kept)
    answer(judging(agreement), kept)
    assert events(kept) == ["opened", "begun", "ended"] + ["begun", "ended"]


def test_without_sqlite_it_is_said_what_to_do(kept, monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    agreement, _ = agreed({"counts": 1})
    with pytest.raises(ImportError, match="this Python has no module sqlite3"):
        answer(asked(agreement, "counts"), kept, agreement=agreement)
    answer(asked(agreement, "counts"), {}, agreement=agreement)


# ---- rows --------------------------------------------------------------------------


def test_rows_that_change_within_an_exchange(state):
    agreement, join = agreed()
    answer(join, state)
    one = X.copy()
    one[7, 1] += 1e-9
    mask = np.arange(len(Y)) == 3
    flipped = np.where(np.arange(len(Y)) == 3, "ill", Y)
    changes = [
        {"rows": one},
        {"rows": X[1:], "y": Y[1:]},
        {"y": flipped if (flipped != Y).any() else Y[::-1]},
        {"held_out": mask},
        {"rows": X[::-1], "y": Y[::-1]},
    ]
    for changed in changes:
        with pytest.raises(RowsChangedError, match="Answer with the rows of before"):
            answer(judging(agreement), state, **changed)
        # What was kept is given without a look at them.
        answer(join, state, **changed)
    assert events(state) == ["opened", "begun", "ended"]
    answer(judging(agreement), state)


def test_equal_rows_of_another_container_are_the_same(state):
    pandas = pytest.importorskip("pandas")
    agreement, _ = agreed({"evaluate": 9})
    whole = np.round(10 * X)
    clf = LogisticRegression().fit(whole, Y)
    containers = [
        whole,
        np.asfortranarray(whole),
        whole.astype(np.float32),
        whole.astype(int),
        whole.tolist(),
    ]
    for k, rows in enumerate(containers):
        y = [Y, Y.tolist(), Y.astype(object), pandas.Series(Y), Y][k]
        request = judging(agreement, 1.0 + k)
        answer(request, state, agreement=agreement, clf=clf, rows=rows, y=y)
    assert events(state).count("ended") == len(containers)


@pytest.mark.parametrize("kind", ["sparse", "table"])
def test_rows_of_any_kind_are_known_again(kind, kept):
    pandas = pytest.importorskip("pandas")
    agreement, _ = agreed({"evaluate": 3})
    if kind == "sparse":
        rows, other = (sparse.csr_array(np.round(part)) for part in (X, X + 1))
        same = rows.copy()
        for start, stop in itertools.pairwise(rows.indptr):
            same.indices[start:stop] = rows.indices[start:stop][::-1]
            same.data[start:stop] = rows.data[start:stop][::-1]
        same = sparse.csr_array((same.data, same.indices, same.indptr))
        clf = LogisticRegression().fit(rows, Y)
    else:
        rows = pandas.DataFrame(X, columns=["a", "b", "c"])
        same, other = rows.copy(), rows.assign(c=0.0)
        clf = LogisticRegression().fit(rows, Y)
    answer(judging(agreement), kept, agreement=agreement, clf=clf, rows=rows)
    answer(judging(agreement, 2.0), kept, clf=clf, rows=same)
    with pytest.raises(RowsChangedError):
        answer(judging(agreement, 3.0), kept, clf=clf, rows=other)


def test_rows_may_be_mended_until_something_was_answered(state):
    agreement, join = agreed()
    with pytest.raises(ValueError, match="fewer than min_rows"):
        answer(join, state, **FEW_ROWS)
    answer(join, state)
    answer(judging(agreement), state)
    assert [entry["n_rows"] for entry in log_of(state) if "n_rows" in entry] == [12, 60]


# ---- across exchanges --------------------------------------------------------------


def test_another_exchange_of_the_same_rows_needs_the_owner(state):
    first, join = agreed()
    answer(join, state)
    answer(judging(first), state)
    other, other_join = agreed(n_components=2, random_state=3)
    with pytest.raises(RowsAskedAgainError) as told:
        answer(other_join, state)
    words = str(told.value)
    assert f"{first.exchange} was answered join once, evaluate once" in words
    assert "may ask join once, evaluate 2 times, score once" in words
    assert "with other settings.n_components, settings.random_state." in words
    assert "again=True (--again)" in words
    assert isinstance(told.value, NotAgreedError)
    # It does not matter under whose agreement.
    with pytest.raises(RowsAskedAgainError):
        answer(other_join, state, agreement=other)
    with pytest.warns(RowsAskedAgainWarning, match="can be subtracted from each other"):
        answer(other_join, state, agreement=other, again=True)
    # Once accepted it goes on, and so does the other.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer(judging(other), state)
        answer(judging(first, 2.0), state)
    # Rows that were not asked about are nobody's.
    third, third_join = agreed(n_components=2, random_state=4)
    answer(third_join, state, rows=X + 1.0)
    with pytest.raises(RowsAskedAgainError, match=r"asked about before \(2 times\)"):
        answer(agreed(random_state=5)[1], state)


def test_a_killed_start_of_an_accepted_exchange_stays_accepted(state, monkeypatch):
    answer(agreed()[1], state)
    other, join = agreed(n_components=2)

    def killed(*given):
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(_replying, "answer", killed)
        with pytest.warns(RowsAskedAgainWarning), pytest.raises(KilledError):
            answer(join, state, again=True)
    answer(join, state)


def test_the_same_exchange_again_adds_nothing_and_counts_on(state):
    first, join = agreed()
    told = answer(join, state)
    answer(judging(first, 1.0), state)
    # A server that lost all begins anew: what it asks again it is told again.
    second, again = agreed()
    reply = answer(again, state)
    assert reply.digest == told.digest
    assert reply.envelope["exchange"] == second.exchange
    answer(judging(second, 1.0), state)
    answer(judging(second, 2.0), state)
    for agreement in (first, second):
        with pytest.raises(NotAgreedError, match="'evaluate' was agreed 2 times") as no:
            answer(judging(agreement, 3.0), state)
    assert f"The exchange '{first.exchange}' had the same terms" in str(no.value)
    assert events(state).count("ended") == 3
    third, join = agreed()
    with pytest.warns(RowsAskedAgainWarning, match="on the same terms"):
        answer(join, state, agreement=third, again=True)
    answer(judging(third, 3.0), state)


def test_another_classifier_is_another_exchange(state):
    _, join = agreed()
    first = answer(join, state)
    other = LogisticRegression(C=0.1).fit(X, Y)
    assert answer(join, state, clf=other).to_bytes() == first.to_bytes()
    _, again = agreed()
    with pytest.raises(RowsAskedAgainError, match="with other classifier"):
        answer(again, state, clf=other)
    with pytest.warns(RowsAskedAgainWarning):
        reply = answer(again, state, clf=other, again=True)
    assert reply.digest != first.digest


def test_many_exchanges_with_other_seeds_are_one_and_errors(state):
    n_answered = 0
    for seed in range(20):
        try:
            answer(agreed(random_state=seed)[1], state)
            n_answered += 1
        except RowsAskedAgainError:
            pass
    assert n_answered == 1


def test_errors_in_other_exchanges_are_looks_at_the_rows(state):
    with pytest.raises(ValueError, match="fewer than min_rows"):
        answer(agreed()[1], state, **FEW_ROWS)
    with pytest.raises(RowsAskedAgainError):
        answer(agreed(random_state=1)[1], state, **FEW_ROWS)


def test_again_needs_a_ledger():
    with pytest.raises(ValueError, match=r"give state \(--state\), too"):
        reply_to(Message.of("counts"), CLF, X, Y, name="lyon", again=True)


# ---- what a person reads -----------------------------------------------------------


def test_the_owner_reads_what_was_said(kept):
    agreement, join = agreed()
    answer(join, kept)
    answer(judging(agreement), kept)
    with pytest.warns(RowsAskedAgainWarning):
        answer(agreed(n_components=1)[1], kept, again=True)
    inspected = inspect(kept)
    assert (inspected.kind, inspected.node) == ("ledger", "lyon")
    words = str(inspected)
    assert "the ledger of node 'lyon'" in words and "about 60 rows." in words
    assert "How many rows of which class judge" in words
    assert "5 evaluate.right" in words
    with pytest.raises(ValueError, match="a folder without a ledger"):
        inspect(kept.parent)
