# SPDX-License-Identifier: BSD-3-Clause
"""A node counts and keeps what it answers, within and across exchanges."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from helpers.disclosures import rule_of
from helpers.ledgers import (
    CLF,
    FEW_ROWS,
    KilledError,
    X,
    Y,
    answer,
    begin_exchange,
    events_of_log,
    judging_request,
    log_of,
    request_without_content,
)

from skgems.asking import Message
from skgems.gems import Moments
from skgems.guard import (
    NotAgreedError,
    ReplyDeclinedError,
    RowsAskedAgainError,
    RowsAskedAgainWarning,
    _replying,
    inspect,
    reply_to,
)
from skgems.messages import sealed
from skgems.parties import ClassesLeftOutWarning

# Python warns of forks in a process with threads; the children here use none.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.usefixtures("without_waiting_for_the_disk"),
]


# ---- within an exchange ------------------------------------------------------------


def test_a_request_that_fails_counts_once_and_can_be_asked_again(state):
    agreement, _ = begin_exchange({"evaluate": 2})
    accepted = replace(agreement, disclosure=rule_of(2))
    for _ in range(3):
        with pytest.raises(ValueError, match="fewer than min_rows=10"):
            answer(judging_request(accepted), state, agreement=accepted, **FEW_ROWS)
    # Another request counts as well, as its error says something about the rows.
    with pytest.raises(ValueError, match="fewer than min_rows=10"):
        answer(judging_request(accepted, 2.0), state, **FEW_ROWS)
    with pytest.raises(NotAgreedError, match="'evaluate' may be asked 2 times"):
        answer(judging_request(accepted, 3.0), state, **FEW_ROWS)
    assert events_of_log(state) == ["opened"] + ["failed"] * 4
    assert "TooFewRowsError" in log_of(state)[-1]["error"]
    # What was advised helps: the same requests are answered, and no others.
    answer(judging_request(accepted, 1.0), state, disclosure=rule_of(2), **FEW_ROWS)
    answer(judging_request(accepted, 2.0), state, disclosure=rule_of(2), **FEW_ROWS)
    with pytest.raises(NotAgreedError, match="'evaluate' may be asked 2 times"):
        answer(judging_request(accepted, 3.0), state, disclosure=rule_of(2), **FEW_ROWS)


def test_a_smaller_min_rows_is_not_advised_where_it_does_not_help(state):
    agreement, _ = begin_exchange({"evaluate": 1})
    for min_rows in (20, 10, 1):
        with pytest.raises(
            ValueError, match="has fewer than min_rows=10 rows"
        ) as caught:
            answer(
                judging_request(agreement),
                state,
                agreement=agreement,
                disclosure=rule_of(min_rows),
                **FEW_ROWS,
            )
        assert "smaller min_rows" not in str(caught.value)
        assert "no setting of the node changes" in str(caught.value)


def test_another_agreement_with_a_smaller_min_rows_needs_the_owner(state):
    agreement, _ = begin_exchange({"evaluate": 1})
    with pytest.raises(ValueError, match="has fewer than min_rows=10 rows"):
        answer(judging_request(agreement), state, agreement=agreement, **FEW_ROWS)
    agreement_of_two, _ = begin_exchange({"evaluate": 1})
    agreement_of_two = replace(agreement_of_two, disclosure=rule_of(2))
    request = judging_request(agreement_of_two)
    with pytest.raises(RowsAskedAgainError, match="with other disclosure"):
        answer(
            request,
            state,
            agreement=agreement_of_two,
            disclosure=rule_of(2),
            **FEW_ROWS,
        )
    with pytest.warns(RowsAskedAgainWarning):
        answer(
            request,
            state,
            agreement=agreement_of_two,
            disclosure=rule_of(2),
            again=True,
            **FEW_ROWS,
        )


def test_a_smaller_min_rows_does_not_change_a_reply_that_is_kept(state):
    _, join = begin_exchange()
    X_few, y_few = rows_of_five_well()
    with pytest.warns(
        ClassesLeftOutWarning, match="has an effect in other exchanges only"
    ) as caught:
        first = answer(join, state, rows=X_few, y=y_few)
    assert "smaller min_rows" not in str(caught[0].message)
    second = answer(join, state, disclosure=rule_of(2), rows=X_few, y=y_few)
    assert second.to_bytes() == first.to_bytes()


def test_without_a_ledger_a_smaller_min_rows_is_advised_for_small_classes():
    _, join = begin_exchange()
    X_few, y_few = rows_of_five_well()
    with pytest.warns(
        ClassesLeftOutWarning, match="Disclosure with a smaller min_rows"
    ):
        reply_to(join, CLF, X_few, y_few, name="lyon")


def rows_of_five_well():
    """All rows that are ill, and five that are well."""
    rows = np.r_[np.flatnonzero(Y == "ill"), np.flatnonzero(Y == "well")[:5]]
    return X[rows], Y[rows]


def test_a_request_that_is_refused_is_not_in_the_ledger(state):
    agreement, _ = begin_exchange({"counts": 1})
    with_another_field = sealed(Message.of("counts", more=3), agreement)
    of_another_task = request_without_content(agreement, "describe")
    of_no_exchange = Message.of("counts")
    for request in (with_another_field, of_another_task, of_no_exchange):
        with pytest.raises(
            ValueError, match=r"unknown field|not agreed|names no exchange"
        ):
            answer(request, state, agreement=agreement)
    assert log_of(state) == []


def test_requests_of_equal_content_count_once(state):
    agreement, _ = begin_exchange({"evaluate": 1})
    first = answer(judging_request(agreement), state, agreement=agreement)
    # The same with a default written out, and in another envelope.
    request = judging_request(agreement, of="judging").with_envelope(number="7")
    second = answer(request, state)
    assert second.digest == first.digest
    assert second.envelope["to"] == request.digest != first.envelope["to"]
    assert events_of_log(state) == ["opened", "ended"]


def test_a_reply_that_the_owner_declines_is_neither_counted_nor_kept(state):
    _, join = begin_exchange()
    replies_shown = []

    def confirm(reply):
        replies_shown.append(reply)
        return len(replies_shown) > 1

    with pytest.raises(ReplyDeclinedError, match="'lyon' was declined. Nothing was"):
        answer(join, state, confirm=confirm)
    assert "ended" not in events_of_log(state)
    # So the owner can make it anew, with another min_rows.
    second = answer(join, state, confirm=confirm, disclosure=rule_of(20))
    assert second.digest != replies_shown[0].digest
    with pytest.raises(ReplyDeclinedError):
        answer(join, state, confirm=lambda reply: False)


# ---- across exchanges --------------------------------------------------------------


def test_another_exchange_of_the_same_rows_needs_the_owner(state):
    first, join = begin_exchange()
    answer(join, state)
    answer(judging_request(first), state)
    other, other_join = begin_exchange(moments=Moments(n_components=2), random_state=3)
    with pytest.raises(RowsAskedAgainError) as caught:
        answer(other_join, state)
    error = str(caught.value)
    assert f"{first.exchange} was answered join once, evaluate once" in error
    assert "may ask join once, evaluate 2 times, score once" in error
    assert "with other settings.n_components, settings.random_state." in error
    assert "again=True (--again)" in error
    assert isinstance(caught.value, NotAgreedError)
    # Nor is it answered where the node has the file of the agreement.
    with pytest.raises(RowsAskedAgainError):
        answer(other_join, state, agreement=other)


def test_an_exchange_that_the_owner_accepts_goes_on_beside_the_first(state):
    first, join = begin_exchange()
    answer(join, state)
    answer(judging_request(first), state)
    other, other_join = begin_exchange(moments=Moments(n_components=2), random_state=3)
    with pytest.warns(RowsAskedAgainWarning, match="can be subtracted from each other"):
        answer(other_join, state, agreement=other, again=True)
    # The owner is asked once.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer(judging_request(other), state)
        answer(judging_request(first, 2.0), state)
    with pytest.raises(RowsAskedAgainError, match=r"asked about before \(2 times\)"):
        answer(begin_exchange(random_state=5)[1], state)


def test_an_exchange_about_other_rows_does_not_need_the_owner(state):
    _, join = begin_exchange()
    answer(join, state)
    _, second_join = begin_exchange(moments=Moments(n_components=2), random_state=3)
    with pytest.warns(RowsAskedAgainWarning):
        answer(second_join, state, again=True)
    _, join_about_other_rows = begin_exchange(
        moments=Moments(n_components=2), random_state=4
    )
    answer(join_about_other_rows, state, rows=X + 1.0)
    # Nor does it count as an exchange about the first rows.
    with pytest.raises(RowsAskedAgainError, match=r"asked about before \(2 times\)"):
        answer(begin_exchange(random_state=5)[1], state)


def test_a_killed_start_of_an_accepted_exchange_has_to_be_accepted_again(
    state, monkeypatch
):
    _, join = begin_exchange()
    answer(join, state)
    _, other_join = begin_exchange(moments=Moments(n_components=2))

    def raise_killed(*args):
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(_replying, "reply_as_message", raise_killed)
        with pytest.warns(RowsAskedAgainWarning), pytest.raises(KilledError):
            answer(other_join, state, again=True)
    with pytest.raises(RowsAskedAgainError):
        answer(other_join, state)
    with pytest.warns(RowsAskedAgainWarning):
        answer(other_join, state, again=True)


def test_an_accepted_exchange_stays_accepted_after_an_error(state):
    _, join = begin_exchange()
    with pytest.raises(ValueError, match="fewer than min_rows"):
        answer(join, state, **FEW_ROWS)
    _, other_join = begin_exchange(random_state=1)
    with pytest.warns(RowsAskedAgainWarning), pytest.raises(ValueError, match="fewer"):
        answer(other_join, state, again=True, **FEW_ROWS)
    with pytest.raises(ValueError, match="fewer than min_rows"):
        answer(other_join, state, **FEW_ROWS)


def test_an_exchange_on_the_same_terms_gets_the_kept_replies_and_counts_on(state):
    first, join = begin_exchange()
    first_reply = answer(join, state)
    answer(judging_request(first, 1.0), state)
    # A server that has lost everything begins anew, and gets the same reply.
    second, second_join = begin_exchange()
    reply = answer(second_join, state)
    assert reply.digest == first_reply.digest
    assert reply.envelope["exchange"] == second.exchange
    answer(judging_request(second, 1.0), state)
    answer(judging_request(second, 2.0), state)
    for agreement in (first, second):
        with pytest.raises(
            NotAgreedError, match="'evaluate' may be asked 2 times"
        ) as caught:
            answer(judging_request(agreement, 3.0), state)
    assert f"The exchange '{first.exchange}' had the same terms" in str(caught.value)
    assert events_of_log(state).count("ended") == 3
    third, third_join = begin_exchange()
    with pytest.warns(RowsAskedAgainWarning, match="on the same terms"):
        answer(third_join, state, agreement=third, again=True)
    answer(judging_request(third, 3.0), state)


def test_only_the_first_of_many_exchanges_with_other_seeds_is_answered(state):
    _, join = begin_exchange(random_state=0)
    answer(join, state)
    for seed in range(1, 20):
        _, join = begin_exchange(random_state=seed)
        with pytest.raises(RowsAskedAgainError):
            answer(join, state)


def test_an_exchange_that_ended_in_an_error_counts_as_one_about_the_rows(state):
    _, join = begin_exchange()
    with pytest.raises(ValueError, match="fewer than min_rows"):
        answer(join, state, **FEW_ROWS)
    _, other_join = begin_exchange(random_state=1)
    with pytest.raises(RowsAskedAgainError):
        answer(other_join, state, **FEW_ROWS)


def test_answering_again_needs_a_ledger():
    with pytest.raises(ValueError, match=r"Pass state \(--state\) too"):
        reply_to(Message.of("counts"), CLF, X, Y, name="lyon", again=True)


# ---- what a person reads -----------------------------------------------------------


def test_inspect_shows_the_owner_what_the_node_has_sent(folder):
    agreement, join = begin_exchange()
    answer(join, folder)
    answer(judging_request(agreement), folder)
    _, other_join = begin_exchange(moments=Moments(n_components=1))
    with pytest.warns(RowsAskedAgainWarning):
        answer(other_join, folder, again=True)
    inspected = inspect(folder)
    assert inspected.kind == "ledger"
    assert inspected.node == "lyon"
    assert "a ledger" in inspected.words and "'lyon'" in inspected.words
    assert "about 60 rows." in " ".join(inspected.words.split())
    assert "Number of rows of each class that judge" in inspected.details
    assert "3 evaluate.right" in inspected.details


def test_inspect_refuses_a_folder_without_a_ledger(folder):
    with pytest.raises(ValueError, match="this folder has no ledger"):
        inspect(folder.parent)
