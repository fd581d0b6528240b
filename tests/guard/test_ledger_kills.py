# SPDX-License-Identifier: BSD-3-Clause
"""A node counts, answers and keeps in one step, whoever comes or dies in between."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from helpers.ledgers import (
    KilledError,
    X,
    answer,
    begin_exchange,
    events_of_log,
    forks,
    judging_request,
    request_without_content,
)

from skgems.asking import Message
from skgems.guard import (
    LedgerBusyError,
    NotAgreedError,
    RowsAskedAgainError,
    _ledger,
    _ledger_store,
    _replying,
)
from skgems.guard._ledger import open_ledger
from skgems.messages import _packing, sealed

# Of a process that has threads, which those that are forked here do not use.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.usefixtures("without_waiting_for_the_disk"),
]


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
        n_lines_written = pipe.read()
    os.waitpid(pid, 0)
    return int(n_lines_written) if n_lines_written else None


@forks
@pytest.mark.skipif(sys.gettrace() is not None, reason="lines are traced already")
@pytest.mark.parametrize(
    "n_points", [20, pytest.param(50, marks=pytest.mark.slow)], ids=str
)
def test_a_kill_at_any_point_neither_counts_nor_locks_out(n_points, tmp_path):
    agreement, _ = begin_exchange({"counts": 1, "describe": 1})
    request = request_without_content(agreement, "counts")
    expected = answer(request, tmp_path / "whole", agreement=agreement).to_bytes()

    def answer_in(folder):
        return lambda: answer(request, folder, agreement=agreement)

    n_lines = killed_at(None, answer_in(tmp_path / "lines"))
    assert n_lines > 200  # so that these points are different ones
    names = set()
    for k, point in enumerate(np.linspace(1, n_lines - 1, n_points).astype(int)):
        folder = tmp_path / f"kept {k}"
        assert killed_at(point, answer_in(folder)) is None
        for path in folder.glob("*"):
            names.add(path.name)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        repeated = answer(request, folder, agreement=agreement)
        assert repeated.to_bytes() == expected
        check_ledger_is_whole(folder)
        check_ledger_counts_on(folder, agreement)
    # Kills came while the database was being written, too.
    assert names >= {"ledger.head", "ledger.sqlite", "ledger.sqlite-journal"}


def check_ledger_is_whole(folder):
    """One request has ended, none has failed, and no file is left half-written."""
    assert events_of_log(folder) == ["opened", "ended"]
    names = {path.name for path in folder.iterdir()}
    # An empty journal may be left until the next write.
    assert names - {"ledger.sqlite-journal"} == {"ledger.head", "ledger.sqlite"}


def check_ledger_counts_on(folder, agreement):
    """What is agreed is still answered, and what is not agreed still refused."""
    answer(request_without_content(agreement, "describe"), folder, agreement=agreement)
    join = Message.of("join", method="GEMSLogisticAggregator", settings={}, requests={})
    with pytest.raises(NotAgreedError):
        answer(sealed(join, agreement), folder)


@forks
@pytest.mark.parametrize(
    "n_kills", [4, pytest.param(50, marks=pytest.mark.slow)], ids=str
)
def test_kills_at_any_time_neither_count_nor_lock_out(n_kills, tmp_path, monkeypatch):
    monkeypatch.undo()  # as it is where power may fail, too
    agreement, join = begin_exchange()
    rng = random.Random(n_kills)
    start = time.monotonic()
    expected = answer(join, tmp_path / "whole").to_bytes()
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
        assert answer(join, folder).to_bytes() == expected
        assert events_of_log(folder).count("ended") == 1
        for size in (1.0, 2.0):
            answer(judging_request(agreement, size), folder)
        with pytest.raises(NotAgreedError, match="'evaluate' may be asked 2 times"):
            answer(judging_request(agreement, 3.0), folder)


@forks
def test_a_node_that_is_killed_while_its_owner_looks_at_the_reply_has_not_answered(
    folder,
):
    agreement, join = begin_exchange()
    answer(join, folder)

    def kill(reply):
        os.kill(os.getpid(), signal.SIGKILL)

    for size in (1.0, 2.0, 3.0):
        pid = os.fork()
        if pid == 0:
            answer(judging_request(agreement, size), folder, confirm=kill)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert events_of_log(folder) == ["opened", "ended"]
    for size in (4.0, 5.0):
        answer(judging_request(agreement, size), folder)


class Mapping(dict):
    """A mapping of the user's, at whose k-th use the process is killed."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.n_uses_left = np.inf

    def _use(self):
        self.n_uses_left -= 1
        if self.n_uses_left < 0:
            raise KilledError

    def get(self, *arguments):
        self._use()
        return super().get(*arguments)

    def __setitem__(self, name, content):
        self._use()
        super().__setitem__(name, content)
        self._use()


def test_a_kill_at_any_use_of_a_mapping_neither_counts_nor_locks_out():
    agreement, _ = begin_exchange({"counts": 1})
    request = request_without_content(agreement, "counts")
    expected = answer(request, {}, agreement=agreement)
    for n_uses in range(100):
        state = Mapping()
        state.n_uses_left = n_uses
        try:
            answer(request, state, agreement=agreement)
        except KilledError:
            state.n_uses_left = np.inf
            repeated = answer(request, state, agreement=agreement)
            assert repeated.to_bytes() == expected.to_bytes()
            assert events_of_log(state).count("ended") == 1
        else:
            break
    # It is read, and changed at once: kills came before, between and after.
    assert n_uses >= 3


@contextmanager
def interrupts(monkeypatch):
    """An interrupt comes while a node computes its reply, and is let through."""

    def raise_interrupt(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_replying, "reply_as_message", raise_interrupt)
        with pytest.raises(KeyboardInterrupt):
            yield


def test_an_interrupt_does_not_count(state, monkeypatch):
    agreement, _ = begin_exchange({"counts": 1})
    request = request_without_content(agreement, "counts")
    with interrupts(monkeypatch):
        answer(request, state, agreement=agreement)
    assert events_of_log(state) == []
    answer(request_without_content(agreement, "counts"), state, agreement=agreement)
    assert events_of_log(state) == ["opened", "ended"]


def test_an_interrupt_counts_for_no_other_request_or_exchange(state, monkeypatch):
    agreement, _ = begin_exchange({"evaluate": 1})
    with interrupts(monkeypatch):
        answer(judging_request(agreement, 1.0), state, agreement=agreement)
    # Neither of another request, nor of another exchange.
    answer(begin_exchange(random_state=1)[1], state, rows=X + 1.0)
    answer(judging_request(agreement, 2.0), state, agreement=agreement)
    with pytest.raises(NotAgreedError, match=r"was answered 1 times already\.$"):
        answer(judging_request(agreement, 3.0), state)


def test_an_interrupted_exchange_is_no_earlier_one(state, monkeypatch):
    with interrupts(monkeypatch):
        answer(begin_exchange()[1], state)
    answer(begin_exchange(random_state=1)[1], state)
    with pytest.raises(RowsAskedAgainError):
        answer(begin_exchange()[1], state)


# ---- a full disk -------------------------------------------------------------------


@forks
@pytest.mark.parametrize("is_new", [True, False])
def test_a_full_disk_leaves_nothing_half_written(is_new, folder, tmp_path):
    resource = pytest.importorskip("resource")
    agreement, join = begin_exchange()
    request = join if is_new else judging_request(agreement)
    for path in (folder, tmp_path / "whole"):
        if not is_new:
            answer(join, path)
    expected = answer(request, tmp_path / "whole")
    before = events_of_log(folder)
    n_bytes = (tmp_path / "whole" / "ledger.sqlite").stat().st_size
    statuses = []
    for most in (0, 10, *np.linspace(1000, n_bytes + 1000, 8).astype(int)):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
                answer(request, folder)
                status = 0
            except OSError as error:
                is_named = "ledger" in str(error)
                status = 2 if is_named else 3
            finally:
                os._exit(status)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        if statuses[-1] == 2:
            assert events_of_log(folder) == before
    assert set(statuses) == {0, 2}
    assert answer(request, folder).digest == expected.digest
    assert len(events_of_log(folder)) == len(before) + 1 + is_new
    if is_new:
        answer(judging_request(agreement, 2.0), folder)


# ---- many at once ------------------------------------------------------------------


@forks
@pytest.mark.parametrize("n_agreed", [2, 5])
def test_processes_answer_together_what_was_agreed(n_agreed, folder):
    agreement, join = begin_exchange(n_rounds=n_agreed + 1)
    answer(join, folder)
    start = time.monotonic() + 0.1
    pids = []
    for k in range(8):
        pid = os.fork()
        if pid == 0:
            status = 4
            try:
                time.sleep(max(0.0, start - time.monotonic()))
                answer(judging_request(agreement, 1.0 + k), folder)
                status = 0
            except NotAgreedError:
                status = 3
            finally:
                os._exit(status)
        pids.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert sorted(codes) == [0] * n_agreed + [3] * (8 - n_agreed)
    assert events_of_log(folder).count("ended") == 1 + n_agreed
    with pytest.raises(NotAgreedError, match=f"may be asked {n_agreed} times"):
        answer(judging_request(agreement, 20.0), folder)


def test_threads_answer_together_what_was_agreed(folder):
    agreement, join = begin_exchange()
    answer(join, folder)
    answers = []

    def ask(size):
        try:
            answers.append(answer(judging_request(agreement, size), folder))
        except NotAgreedError as exc:
            answers.append(exc)

    threads = [threading.Thread(target=ask, args=(1.0 + k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(reply, Message) for reply in answers) == 2


def test_a_ledger_that_stays_locked_too_long_is_an_error(folder, monkeypatch):
    agreement, _ = begin_exchange({"counts": 1})
    monkeypatch.setattr(_ledger_store, "LOCK_TIMEOUT", 0.05)
    with (
        open_ledger(folder),
        pytest.raises(LedgerBusyError, match=r"more than 0.05 seconds. Nothing was"),
    ):
        answer(
            request_without_content(agreement, "counts"), folder, agreement=agreement
        )
    answer(request_without_content(agreement, "counts"), folder, agreement=agreement)


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


def test_a_thread_that_waits_does_not_unlock_the_ledger_for_other_processes(
    folder, monkeypatch
):
    """A process that closes a file of its own loses the locks that it has on it."""
    agreement, _ = begin_exchange({"counts": 1})
    monkeypatch.setattr(_ledger_store, "LOCK_TIMEOUT", 0.05)
    busy_errors = []

    def ask():
        try:
            answer(
                request_without_content(agreement, "counts"),
                folder,
                agreement=agreement,
            )
        except LedgerBusyError as exc:
            busy_errors.append(exc)

    def output_of_another_process():
        command = [sys.executable, "-c", LOCKING, folder / "ledger.sqlite"]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    with open_ledger(folder):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        assert len(busy_errors) == 1
        assert output_of_another_process() == "database is locked"
    assert output_of_another_process() == "open"
