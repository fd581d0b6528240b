# SPDX-License-Identifier: BSD-3-Clause
"""What a node counts, answers and keeps, within an exchange and across exchanges."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace

import numpy as np
import pytest
from helpers.ledgers import (
    CLF,
    FEW_ROWS,
    KilledError,
    X,
    Y,
    agreed,
    answer,
    asked,
    events,
    judging,
    log_of,
)

from skgems.channels import inspect
from skgems.federation import (
    ClassesLeftOutWarning,
    Message,
    NotAgreedError,
    ReplyDeclinedError,
    RowsAskedAgainError,
    RowsAskedAgainWarning,
    _ledger_store,
    _replying,
    reply_to,
)
from skgems.messages import sealed

# Of a process that has threads, which those that are forked here do not use.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch):
    """Kills of a process, unlike those of power, lose nothing that was written."""
    monkeypatch.setattr(os, "fsync", lambda number: None)
    monkeypatch.setattr(_ledger_store, "SYNCHRONOUS", "OFF")


@pytest.fixture(params=["folder", "mapping"])
def state(request, tmp_path):
    return tmp_path / "kept" if request.param == "folder" else {}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "kept"


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
        with pytest.raises(
            ValueError, match="has fewer than min_rows=10 rows"
        ) as caught:
            answer(
                judging(agreement),
                state,
                agreement=agreement,
                min_rows=min_rows,
                **FEW_ROWS,
            )
        assert "Set a smaller" not in str(caught.value)
        assert "no setting of the node changes" in str(caught.value)
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
    with_few_well = np.r_[np.flatnonzero(Y == "ill"), np.flatnonzero(Y == "well")[:5]]
    X_few = X[with_few_well]
    y_few = Y[with_few_well]
    with pytest.warns(ClassesLeftOutWarning, match="changes only others") as caught:
        first = answer(join, state, rows=X_few, y=y_few)
    assert "Set a smaller" not in str(caught[0].message)
    again = answer(join, state, min_rows=2, rows=X_few, y=y_few)
    assert again.to_bytes() == first.to_bytes()
    with pytest.warns(ClassesLeftOutWarning, match="Set a smaller min_rows"):
        reply_to(join, CLF, X_few, y_few, name="lyon")


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
    replies_shown = []

    def confirm(reply):
        replies_shown.append(reply)
        return len(replies_shown) > 1

    with pytest.raises(ReplyDeclinedError, match="'lyon' was declined: nothing was"):
        answer(join, state, confirm=confirm)
    assert "ended" not in events(state)
    # So that it can be made anew with what its owner prefers.
    second = answer(join, state, confirm=confirm, min_rows=20)
    assert second.digest != replies_shown[0].digest
    with pytest.raises(ReplyDeclinedError):
        answer(join, state, confirm=lambda reply: False)


# ---- across exchanges --------------------------------------------------------------


def test_another_exchange_of_the_same_rows_needs_the_owner(state):
    first, join = agreed()
    answer(join, state)
    answer(judging(first), state)
    other, other_join = agreed(n_components=2, random_state=3)
    with pytest.raises(RowsAskedAgainError) as caught:
        answer(other_join, state)
    words = str(caught.value)
    assert f"{first.exchange} was answered join once, evaluate once" in words
    assert "may ask join once, evaluate 2 times, score once" in words
    assert "with other settings.n_components, settings.random_state." in words
    assert "again=True (--again)" in words
    assert isinstance(caught.value, NotAgreedError)
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
    first_reply = answer(join, state)
    answer(judging(first, 1.0), state)
    # A server that lost all begins anew: what it asks again it is told again.
    second, second_join = agreed()
    reply = answer(second_join, state)
    assert reply.digest == first_reply.digest
    assert reply.envelope["exchange"] == second.exchange
    answer(judging(second, 1.0), state)
    answer(judging(second, 2.0), state)
    for agreement in (first, second):
        with pytest.raises(
            NotAgreedError, match="'evaluate' was agreed 2 times"
        ) as caught:
            answer(judging(agreement, 3.0), state)
    assert f"The exchange '{first.exchange}' had the same terms" in str(caught.value)
    assert events(state).count("ended") == 3
    third, join = agreed()
    with pytest.warns(RowsAskedAgainWarning, match="on the same terms"):
        answer(join, state, agreement=third, again=True)
    answer(judging(third, 3.0), state)


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


def test_the_owner_reads_what_was_said(folder):
    agreement, join = agreed()
    answer(join, folder)
    answer(judging(agreement), folder)
    with pytest.warns(RowsAskedAgainWarning):
        answer(agreed(n_components=1)[1], folder, again=True)
    inspected = inspect(folder)
    assert (inspected.kind, inspected.node) == ("ledger", "lyon")
    words = str(inspected)
    assert "the ledger of node 'lyon'" in words and "about 60 rows." in words
    assert "How many rows of which class judge" in words
    assert "5 evaluate.right" in words
    with pytest.raises(ValueError, match="a folder without a ledger"):
        inspect(folder.parent)
