# SPDX-License-Identifier: BSD-3-Clause
"""A ledger counts what the noise of replies spends, once for each draw."""

from __future__ import annotations

import os
import secrets
import signal
from dataclasses import replace

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
    log_of,
    request_without_content,
)
from numpy.testing import assert_allclose

from skgems import GEMSLogisticAggregator, PooledAggregator, Privacy
from skgems.guard import (
    Agreement,
    Limits,
    NoiseSpentError,
    NotAgreedError,
    ReplyDeclinedError,
    account_in,
)
from skgems.messages import TASKS, sealed
from skgems.parties import Summary
from skgems.private import Charge, Spent

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.usefixtures("without_waiting_for_the_disk", "noisy_counts"),
]
ONE = Charge.from_epsilon(1.0, 1e-5)
TWO = Limits(most_epsilon=2.0)


@pytest.fixture
def noisy_counts(monkeypatch):
    """Let counts have noise, so that any task stands for one of sums with noise."""
    counts = TASKS["counts"]

    def answer_with_noise(member, request):
        reply = counts.answer(member, request)
        draws = [secrets.randbelow(2**40) for _ in reply.counts]
        return replace(reply, counts=np.array(draws))

    def charge_of(request):
        return ONE

    noisy = replace(counts, answer=answer_with_noise, charge=charge_of)
    monkeypatch.setitem(TASKS, "counts", noisy)


def begin_noisy_exchange():
    """The agreement of a new exchange about counts with noise, and its request."""
    agreement, _ = begin_exchange({"counts": 1})
    return agreement, request_without_content(agreement, "counts")


def ask(state, *, limits=None, exchange=None, **options):
    """The counts with noise in a reply, by default of a new exchange of equal terms."""
    agreement, request = begin_noisy_exchange() if exchange is None else exchange
    reply = answer(request, state, agreement=agreement, limits=limits, **options)
    return reply.content["counts"].tolist()


def ask_on_other_terms(state, *, limits=None, **options):
    """Counts with noise of an exchange whose terms no other one has."""
    agreement, request = begin_noisy_exchange()
    agreement = replace(agreement, further_settings={"number": secrets.token_hex()})
    return ask(state, limits=limits, exchange=(agreement, request), **options)


def account_of(state):
    return account_in(state)


# ---- draws and charges -------------------------------------------------------------


def test_a_kept_reply_is_sent_again_without_a_second_charge(state):
    exchange = begin_noisy_exchange()
    first = ask(state, exchange=exchange)
    assert ask(state, exchange=exchange) == first
    # So it is in another exchange of the same terms and rows.
    assert ask(state) == first
    account = account_of(state)
    assert account.n_exchanges == 1
    assert_allclose(account.spent.epsilon, 1.0)


def test_a_second_draw_is_a_second_charge(state):
    first = ask(state)
    assert ask_on_other_terms(state, limits=TWO) != first
    account = account_of(state)
    assert account.n_exchanges == 2
    assert_allclose(account.spent.epsilon, Spent([ONE, ONE]).epsilon)
    assert account.says().startswith(
        "These rows: epsilon 1.47 of 2.00 spent at delta 1e-5, by 2 exchanges; adding "
        "or removing one row. By rho alone"
    )


def test_the_account_is_that_of_the_ledger_whatever_rows_are_given(state):
    ask(state)
    with pytest.raises(NoiseSpentError, match="has spent epsilon 1.00 of 1.00"):
        ask(state, rows=X[:30], y=Y[:30])
    with pytest.raises(NoiseSpentError, match="has spent epsilon 1.00 of 1.00"):
        ask(state, rows=X + 5.0)
    assert events_of_log(state) == ["opened", "ended"]


def test_beyond_the_limit_of_the_owner_it_is_said_what_is_left(state):
    limits = Limits(most_epsilon=1.2)
    ask(state, limits=limits)
    with pytest.raises(NoiseSpentError) as caught:
        ask_on_other_terms(state, limits=limits)
    left = np.floor(100 * Spent([ONE]).epsilon_left(1.2)) / 100
    text = str(caught.value)
    assert "has spent epsilon 1.00 of 1.20 at delta 1e-5, by 1 exchange" in text
    assert f"is left for one more reply is epsilon {left:.2f}" in text
    # What is advised helps.
    assert "--limit most_epsilon=1.47" in text
    ask_on_other_terms(state, limits=Limits(most_epsilon=1.47))


def test_an_epsilon_above_the_limit_is_refused_before_rows_are_read(state):
    with pytest.raises(NoiseSpentError, match=r"has spent epsilon 0.00 of 0.50"):
        ask(state, limits=Limits(most_epsilon=0.5))
    assert log_of(state) == []


def test_all_that_the_owner_allows_is_left_before_anything_is_spent(state):
    with pytest.raises(NoiseSpentError, match="one more reply is epsilon 0.50"):
        ask(state, limits=Limits(most_epsilon=0.5))


def test_the_limit_that_is_advised_has_no_more_digits_than_needed(state):
    with pytest.raises(NoiseSpentError, match=r"most_epsilon=1\.0\), or"):
        ask(state, limits=Limits(most_epsilon=0.5))


def test_a_request_that_fails_spends_nothing(state, monkeypatch):
    exchange = begin_noisy_exchange()
    noisy = TASKS["counts"]

    def fail(member, request):
        raise ValueError("the table cannot be read")

    with monkeypatch.context() as patch:
        patch.setitem(TASKS, "counts", replace(noisy, answer=fail))
        with pytest.raises(ValueError, match="cannot be read"):
            ask(state, exchange=exchange)
    assert account_of(state).spent.epsilon == 0.0
    ask(state, exchange=exchange)
    assert_allclose(account_of(state).spent.epsilon, 1.0)


def test_an_owner_who_declines_a_reply_gets_no_other_noise(state):
    exchange = begin_noisy_exchange()
    seen = []

    def decline(reply):
        seen.append(reply.content["counts"].tolist())
        return False

    for _ in range(2):
        with pytest.raises(ReplyDeclinedError, match="counted and kept"):
            ask(state, exchange=exchange, confirm=decline)
    assert ask(state, exchange=exchange) == seen[0] == seen[1]
    assert_allclose(account_of(state).spent.epsilon, 1.0)


@pytest.mark.parametrize("most", [0, -1.0, True, "2", float("inf"), float("nan")])
def test_a_limit_that_is_no_epsilon_is_refused(most):
    with pytest.raises(ValueError, match="most_epsilon must be a number above 0"):
        Limits(most_epsilon=most)


# ---- replies without noise ---------------------------------------------------------


def test_rows_told_of_without_noise_are_not_told_of_with_noise(state):
    agreement, join = begin_exchange()
    answer(join, state, agreement=agreement)
    for again in (False, True):
        with pytest.raises(NoiseSpentError, match="number epsilon would be untrue"):
            ask(state, again=again)
        # One row more or less is not enough.
        with pytest.raises(NoiseSpentError, match="number epsilon would be untrue"):
            ask(state, again=again, rows=X[1:], y=Y[1:])
    # Other rows may be told of.
    ask(state, rows=X + 5.0)


def test_rows_told_of_with_noise_are_not_told_of_without(state):
    ask(state)
    agreement, join = begin_exchange()
    for again in (False, True):
        with pytest.raises(NoiseSpentError, match="were told of with noise"):
            answer(join, state, agreement=agreement, again=again)
    answer(join, state, agreement=agreement, rows=X + 5.0)


@pytest.mark.parametrize("first", ["counts", "evaluate"])
def test_an_exchange_cannot_ask_for_both(state, first):
    agreement, _ = begin_exchange({"counts": 1, "evaluate": 1})
    requests = {
        "counts": request_without_content(agreement, "counts"),
        "evaluate": judging_request(agreement),
    }
    answer(requests.pop(first), state, agreement=agreement)
    (second,) = requests.values()
    with pytest.raises(NoiseSpentError, match="both with noise and without"):
        answer(second, state)


def test_without_a_ledger_nothing_with_noise_is_refused_for_what_was_spent():
    agreement, request = begin_noisy_exchange()
    with pytest.raises(ValueError, match="Pass state"):
        answer(request, None, agreement=agreement)


# ---- summaries ---------------------------------------------------------------------

PRIVACY = Privacy(classes=["ill", "well"], low=[-3] * 3, high=[3] * 3, epsilon=1.0)


def summary_with_noise(state, rows=X, y=Y, *, kind=GEMSLogisticAggregator, **options):
    """The summary of a node whose ledger is in ``state``."""
    aggregator = kind(privacy=Privacy(**{**PRIVACY.get_params(), **options}))
    return aggregator.summarize(None, rows, y, name="lyon", state=state, limits=TWO)


def test_a_summary_is_kept_and_counted_once(state):
    pytest.importorskip("opendp")
    first = summary_with_noise(state)
    # The sums are the same whatever is made of them.
    second = summary_with_noise(state, kind=PooledAggregator)
    assert second.message.to_bytes() == first.message.to_bytes()
    assert_allclose(account_in(state).spent.epsilon, 1.0)
    assert summary_with_noise(state, X[1:], Y[1:]).message != first.message
    assert_allclose(account_in(state).spent.epsilon, Spent([ONE, ONE]).epsilon)
    with pytest.raises(NoiseSpentError, match="has spent epsilon 1.47 of 2.00"):
        summary_with_noise(state, epsilon=1.5)


def test_a_server_that_asks_for_a_summary_gets_the_one_that_was_made(state):
    pytest.importorskip("opendp")
    summary = summary_with_noise(state)
    aggregator = GEMSLogisticAggregator(privacy=PRIVACY)
    agreement = Agreement.of(aggregator, nodes=["lyon", "oslo"])
    request = aggregator._agreed_terms.first_message().with_fields(rows_alone=True)
    # The classifier is set aside.
    reply = answer(sealed(request, agreement), state, agreement=agreement)
    assert Summary(reply).n_bytes == summary.n_bytes
    assert replace(reply, envelope={}).to_bytes() == summary.message.to_bytes()
    assert_allclose(account_in(state).spent.epsilon, 1.0)


def test_nearly_the_same_rows_get_no_summary_after_a_reply_without_noise(state):
    agreement, join = begin_exchange()
    answer(join, state, agreement=agreement)
    for rows, y in ((X, Y), (X[1:], Y[1:])):
        with pytest.raises(NoiseSpentError, match="were told of without noise"):
            summary_with_noise(state, rows, y)


def test_rows_of_one_person_are_one_charge(state):
    pytest.importorskip("opendp")
    summary_with_noise(state, rows_of_one=2)
    assert_allclose(account_in(state).spent.epsilon, 1.0)
    assert (
        "adding or removing one person, who has at most 2" in account_in(state).says()
    )


def test_a_summary_without_noise_needs_no_ledger(state):
    with pytest.raises(ValueError, match="this aggregator has none"):
        GEMSLogisticAggregator().summarize(None, X, Y, name="lyon", state=state)
    with pytest.raises(ValueError, match="limits are about what a ledger counts"):
        GEMSLogisticAggregator(privacy=PRIVACY).summarize(
            None, X, Y, name="lyon", limits=TWO
        )
    with pytest.raises(ValueError, match="Pass X and y in place of chunks"):
        GEMSLogisticAggregator(privacy=PRIVACY).summarize(
            None, chunks=lambda: [(X, Y)], name="lyon", state=state
        )


# ---- processes ---------------------------------------------------------------------


def in_another_process(call):
    """Start a call in a process of its own; return the number of the process."""
    pid = os.fork()
    if pid:
        return pid
    try:
        call()
    finally:
        os._exit(0)


@forks
def test_a_kill_between_noise_and_keeping_is_charged_once_and_sent_once(
    folder, monkeypatch
):
    exchange = begin_noisy_exchange()
    noisy = TASKS["counts"]

    def draw_and_die(member, request):
        noisy.answer(member, request)
        os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setitem(TASKS, "counts", replace(noisy, answer=draw_and_die))
        pid = in_another_process(lambda: ask(folder, exchange=exchange))
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    assert account_of(folder).spent.epsilon == 0.0  # nothing has left
    first = ask(folder, exchange=exchange)
    assert ask(folder, exchange=exchange) == first
    assert events_of_log(folder) == ["opened", "ended"]
    assert_allclose(account_of(folder).spent.epsilon, 1.0)


@forks
def test_a_kill_between_keeping_and_sending_is_charged_once_and_sent_once(folder):
    exchange = begin_noisy_exchange()

    def show_and_die(reply):
        (folder / "shown").write_text(str(reply.content["counts"].tolist()))
        os.kill(os.getpid(), signal.SIGKILL)

    pid = in_another_process(
        lambda: ask(folder, exchange=exchange, confirm=show_and_die)
    )
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    assert_allclose(account_of(folder).spent.epsilon, 1.0)
    assert str(ask(folder, exchange=exchange)) == (folder / "shown").read_text()
    assert events_of_log(folder) == ["opened", "ended"]


@forks
def test_two_processes_are_one_charge(folder):
    exchange = begin_noisy_exchange()
    folder.mkdir(mode=0o700)

    def ask_and_write(k):
        (folder / f"sent {k}").write_text(str(ask(folder, exchange=exchange)))

    pids = [in_another_process(lambda k=k: ask_and_write(k)) for k in range(2)]
    for pid in pids:
        os.waitpid(pid, 0)
    sent = {path.read_text() for path in folder.glob("sent *")}
    assert len(list(folder.glob("sent *"))) == 2
    assert len(sent) == 1
    assert events_of_log(folder) == ["opened", "ended"]
    assert_allclose(account_of(folder).spent.epsilon, 1.0)


@forks
def test_two_processes_cannot_spend_what_is_left_twice(folder):
    limits = Limits(most_epsilon=1.5)
    ask(folder)

    def ask_and_write(k):
        try:
            text = str(ask_on_other_terms(folder, limits=limits))
        except NotAgreedError as refusal:
            text = type(refusal).__name__
        (folder / f"sent {k}").write_text(text)

    pids = [in_another_process(lambda k=k: ask_and_write(k)) for k in range(2)]
    for pid in pids:
        os.waitpid(pid, 0)
    sent = sorted(path.read_text() for path in folder.glob("sent *"))
    assert sent[0] == "NoiseSpentError"
    assert sent[1].startswith("[")
    assert account_of(folder).n_exchanges == 2
