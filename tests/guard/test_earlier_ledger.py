# SPDX-License-Identifier: BSD-3-Clause
"""A ledger of the version before is read once, and its account goes on."""

from __future__ import annotations

import os
import shutil
import signal

import pytest
from helpers.ledgers import (
    X,
    Y,
    answer,
    as_earlier_version,
    begin_exchange,
    events_of_log,
    forks,
    judging_request,
)

from skgems.guard import (
    LedgerCopiedError,
    LedgerDamagedError,
    LedgerOlderError,
    NotAgreedError,
    RowsAskedAgainError,
    RowsAskedAgainWarning,
    inspect,
)

# Of a process that has threads, which those that are forked here do not use.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.usefixtures("without_waiting_for_the_disk"),
]


def names_in(state):
    """Names of all files of a folder, or of all entries of a mapping."""
    is_mapping = isinstance(state, dict)
    return set(state) if is_mapping else {path.name for path in state.iterdir()}


def begin_earlier_ledger(state):
    """The agreement, request and reply of an exchange in an earlier ledger."""
    agreement, join = begin_exchange()
    reply = answer(join, state)
    answer(judging_request(agreement), state)
    as_earlier_version(state)
    return agreement, join, reply


def test_an_earlier_ledger_is_taken_over(state):
    agreement, join, reply = begin_earlier_ledger(state)
    names_before = names_in(state)
    assert answer(join, state).to_bytes() == reply.to_bytes()
    assert events_of_log(state) == ["opened", "ended", "ended"]
    assert len(names_before) >= 5
    assert names_in(state) <= {"ledger.sqlite", "ledger.head"}
    # It counts on, and knows the rows again.
    answer(judging_request(agreement, 2.0), state)
    with pytest.raises(NotAgreedError, match="'evaluate' may be asked 2 times"):
        answer(judging_request(agreement, 3.0), state)
    with pytest.raises(RowsAskedAgainError, match="have been asked about before"):
        answer(begin_exchange(random_state=1)[1], state)
    with pytest.raises(RowsAskedAgainError, match="differ in 1,"):
        answer(begin_exchange(random_state=1)[1], state, rows=X[1:], y=Y[1:])


def test_an_earlier_ledger_can_be_inspected_and_is_left_as_it_is(folder):
    begin_earlier_ledger(folder)
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert inspect(folder).node == "lyon"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == contents


def test_a_copy_of_an_earlier_ledger_is_noticed(folder, tmp_path):
    agreement, join, _ = begin_earlier_ledger(folder)
    copy = shutil.copytree(folder, tmp_path / "copy")
    for _ in range(2):
        with pytest.raises(LedgerCopiedError, match="is a copy"):
            answer(join, copy)
    with pytest.warns(RowsAskedAgainWarning, match="used nevertheless"):
        answer(judging_request(agreement, 2.0), copy, again=True)
    assert events_of_log(copy) == ["opened", "ended", "ended", "accepted", "ended"]


def test_an_older_one_in_the_place_of_an_earlier_ledger_is_noticed(folder):
    _, join, _ = begin_earlier_ledger(folder)
    (folder / "ledger.sqlite").unlink()
    with pytest.raises(LedgerOlderError, match="does not have the 3 entries"):
        answer(join, folder)


def test_an_earlier_ledger_whose_process_was_killed_is_no_copy(folder):
    _, join, reply = begin_earlier_ledger(folder)
    os.utime(folder / "ledger.sqlite")  # it was written, and the head was not
    (folder / "ledger.writing").touch()
    assert answer(join, folder).digest == reply.digest
    assert names_in(folder) == {"ledger.sqlite", "ledger.head"}


def remove_entry(content):
    """The log without its first line."""
    return content[content.index(b"\n") + 1 :]


@pytest.mark.parametrize(
    ("ending", "damage", "words"),
    [
        ("log.jsonl", remove_entry, "entry 1 is not what this node wrote"),
        ("log.jsonl", lambda content: content[:-9], "entry 3 is not what this"),
        ("ledger.key", lambda content: None, "'ledger.key' beside it is missing"),
        ("ledger.key", lambda content: b"other" * 9, "is missing or damaged"),
        ("-rows.npz", lambda content: None, "-rows.npz' beside it is missing"),
        ("-rows.npz", lambda content: content[:-1], "is missing or damaged"),
    ],
)
def test_an_earlier_ledger_that_is_damaged_is_not_taken_over(ending, damage, words):
    state = {}
    _, join, _ = begin_earlier_ledger(state)
    (name,) = [name for name in state if name.endswith(ending)]
    content = damage(state.pop(name))
    if content is not None:
        state[name] = content
    for _ in range(2):
        with pytest.raises(LedgerDamagedError, match=words):
            answer(join, state)


def test_a_reply_that_an_earlier_ledger_lost_is_no_reason_to_lose_the_account(folder):
    agreement, join, _ = begin_earlier_ledger(folder)
    for path in folder.glob("*.safetensors"):
        path.unlink()
    answer(judging_request(agreement, 2.0), folder)
    with pytest.raises(LedgerDamagedError, match="this request got is missing or dam"):
        answer(join, folder)
    with pytest.raises(NotAgreedError, match="'evaluate' may be asked 2 times"):
        answer(judging_request(agreement, 3.0), folder)


@forks
def test_a_kill_while_a_ledger_is_taken_over_loses_nothing(tmp_path, monkeypatch):
    from skgems.guard import _earlier_ledger

    for k, killed in enumerate(["_read", "_remove"]):
        folder = tmp_path / str(k)
        agreement, join, reply = begin_earlier_ledger(folder)
        pid = os.fork()
        if pid == 0:
            monkeypatch.setattr(
                _earlier_ledger,
                killed,
                lambda *arguments: os.kill(os.getpid(), signal.SIGKILL),
            )
            answer(join, folder)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        assert answer(join, folder).digest == reply.digest
        assert events_of_log(folder) == ["opened", "ended", "ended"]
        answer(judging_request(agreement, 2.0), folder)
        assert names_in(folder) == {"ledger.sqlite", "ledger.head"}
