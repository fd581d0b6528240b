# SPDX-License-Identifier: BSD-3-Clause
"""What was tried is printed, and the surest of the best is taken."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.digit_halves import entry

from skgems import PooledAggregator
from skgems.choice import Candidate, Choice, surest_of_the_best
from skgems.choice._choice import Trials
from skgems.choice._scoring import ClassShares, by_counts
from skgems.moments import LOGIT_FACTORS


def test_the_smallest_log_loss_within_a_standard_error():
    rng = np.random.default_rng(0)
    good = rng.random(400) < 0.9
    nearly_as_good = good.copy()  # one right less: of five rows that differ
    nearly_as_good[np.flatnonzero(good)[:3]] = False
    nearly_as_good[np.flatnonzero(~good)[:2]] = True
    is_right = np.array([np.zeros(400), nearly_as_good, good], dtype=float)
    losses = [0.1, 0.3, 0.4]  # the first is far less often right
    place, errors = surest_of_the_best(is_right @ is_right.T, 400, losses)
    assert place == 1 and errors[2] == 0.0 < errors[1]
    assert surest_of_the_best(is_right @ is_right.T, 400, [0.1, 0.5, 0.4])[0] == 2
    differences = good.astype(float) - nearly_as_good
    np.testing.assert_allclose(errors[1], differences.std() / 20, rtol=1e-12)
    is_right[1] = 0.0
    assert surest_of_the_best(is_right @ is_right.T, 400, losses)[0] == 2


@pytest.mark.parametrize(
    ("losses", "place"),
    [([2.0, 1.0, 3.0], 1), ([2.0, 1.0, 1.0], 1), ([np.inf, np.inf, np.inf], 0)],
)
def test_of_candidates_that_are_as_often_right_the_smallest_log_loss_wins(
    losses, place
):
    is_right = np.ones((3, 400))
    assert surest_of_the_best(is_right @ is_right.T, 400, losses)[0] == place


def test_no_candidate_that_could_be_made_is_an_error():
    trials = Trials([Candidate("a", PooledAggregator())])
    with trials.making(0):
        raise ValueError("odd")
    with pytest.raises(ValueError, match=r"No candidate could be fitted. \['a'\]: Odd"):
        trials.check_able()


class OddError(Exception):
    """An error of some package that is of no type of Python's own."""


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (ValueError("odd"), "odd"),
        (TypeError("odd"), "odd"),
        (np.linalg.LinAlgError("singular"), "singular"),
        (KeyError("age"), "KeyError: 'age'"),
        (FloatingPointError("overflow"), "FloatingPointError: overflow"),
        (MemoryError(), "MemoryError"),
        (AttributeError("no mean_"), "AttributeError: no mean_"),
        (OddError("odd"), "OddError: odd"),
    ],
)
def test_failures_of_any_type_are_noted_with_the_time_that_they_took(failure, text):
    trials = Trials([Candidate(name, PooledAggregator()) for name in "ab"])
    with trials.making(0) as entry_of_a:
        entry_of_a["bytes"] += 3
        raise failure
    assert trials.able == [1]
    assert entry_of_a["error"] == text and entry_of_a["bytes"] == 3
    assert entry_of_a["seconds"] > 0 == trials.table[1]["seconds"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_who_stops_the_program_stops_it(stop):
    trials = Trials([Candidate("a", PooledAggregator())])
    with pytest.raises(stop), trials.making(0):
        raise stop


def test_a_node_of_most_rows_is_a_doubt():
    trials = Trials([Candidate("a", PooledAggregator())])
    trials.enter(0, n_right=300, losses=np.ones(len(LOGIT_FACTORS)), n_rows=400)
    n_judging = {"lyon": 396, "paris": 2, "cork": 2}
    comparison = by_counts(np.array([[300]]), 400, trials.log_losses())
    choice = trials.choice(
        comparison,
        n_judging=n_judging,
        shares=ClassShares(accuracy=0.5, log_loss=2.0),
    )
    assert choice.n_rows == 400
    (doubt,) = choice.doubts
    assert doubt.startswith("Node 'lyon' has 396 of the 400 rows that judged")


def test_the_largest_class_stands_beside_accuracies_and_may_be_a_doubt():
    trials = Trials([Candidate("a", PooledAggregator())])
    trials.enter(0, n_right=360, losses=np.ones(len(LOGIT_FACTORS)), n_rows=400)
    comparison = by_counts(np.array([[360]]), 400, trials.log_losses())
    n_judging = {"lyon": 200, "paris": 200}
    choices = [
        trials.choice(
            comparison,
            n_judging=n_judging,
            shares=ClassShares(accuracy=n / 400, log_loss=2.0),
        )
        for n in (360, 359)
    ]
    assert [choice.largest_class for choice in choices] == [0.9, 359 / 400]
    assert "(always the largest class) 0.900" in " ".join(str(choices[0]).split())
    (doubt,) = choices[0].doubts
    assert "its accuracy is 0.900, and the share of this class is 0.900" in doubt
    assert choices[1].doubts == ()


def test_what_is_printed_is_whole_and_explained():
    long = " ".join(f"column {k} of the table is odd;" for k in range(40))
    table = entry("linear"), entry("QDA", long), entry("vote", accuracy=None)
    choice = Choice(
        name="linear", table=table, n_rows=300, doubts=("few rows judged", long)
    )
    lines = str(choice).splitlines()
    assert max(map(len, lines)) <= 88
    text = " ".join(str(choice).split())
    assert f"QDA could not be fitted: {long} vote" in text
    assert f"Doubt: few rows judged Doubt: {long}" in text
    assert "* linear 0.900 0.300 2.500 1.0" in text
    assert "log-loss (nats)" in lines[0]
    assert "sent (MB)" in lines[0] and "time (s)" in lines[0]
    assert "* marks the candidate that was chosen" in text
    assert lines[1].index("linear") == lines[2].index("QDA")
