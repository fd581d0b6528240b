# SPDX-License-Identifier: BSD-3-Clause
"""Schedule: an object of rounds, its words, its checks and searches over it."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.averaged import digits, make_net
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import skgems
from skgems import ModelAveragingAggregator
from skgems.asking import learning_rates
from skgems.averaging import Schedule

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

KINDS = ["cyclical", "exponential", "constant"]


def fit_rounds(**parameters):
    X, y, _, _, _ = digits()
    return ModelAveragingAggregator(
        [make_net()] * 2,
        n_rounds=2,
        local_epochs=2,
        learning_rate=0.1,
        random_state=0,
        **parameters,
    ).fit(X[:400], y[:400])


@pytest.mark.parametrize("kind", KINDS)
def test_a_word_is_the_schedule_of_this_kind(kind):
    of_word = fit_rounds(schedule=kind)
    schedule = Schedule(kind)
    of_object = fit_rounds(schedule=schedule)
    for one, other in zip(of_word.coefs_, of_object.coefs_, strict=True):
        np.testing.assert_array_equal(one, other)
    # They are stored as they were given.
    assert of_word.schedule == kind
    assert of_object.schedule is schedule


def test_rates_and_epochs_are_those_of_the_schedule():
    settled = fit_rounds(schedule=Schedule(decay=0.5, tol=1e6)).history_
    assert [row["epochs"] for row in settled] == [2, 4]
    for row in settled:
        expected = learning_rates(0.1, row["epochs"], decay=0.5)
        np.testing.assert_allclose(row["learning_rates"], expected)
    never_settled = fit_rounds(schedule=Schedule(tol=0.0)).history_
    fixed = fit_rounds(schedule=Schedule(epochs="fixed", tol=1e6)).history_
    assert [row["epochs"] for row in never_settled] == [2, 2]
    assert [row["epochs"] for row in fixed] == [2, 2]


def test_parameters_within_a_word_can_be_set():
    aggregate = ModelAveragingAggregator().set_params(schedule__decay=0.5)
    assert repr(aggregate.schedule) == "Schedule(decay=0.5)"
    aggregate.set_params(schedule="constant", schedule__epochs="fixed")
    assert repr(aggregate.schedule) == "Schedule(epochs='fixed', kind='constant')"
    assert aggregate.get_params()["schedule__tol"] == 0.01
    with pytest.raises(ValueError, match="Invalid parameter 'epsilon'"):
        aggregate.set_params(schedule__epsilon=1.0)
    # Nothing is shared between aggregators.
    other = ModelAveragingAggregator().set_params(schedule__tol=0.1)
    assert (other.schedule.decay, other.schedule.tol) == (0.25, 0.1)


def test_a_copy_has_a_schedule_of_its_own():
    aggregate = ModelAveragingAggregator(schedule=Schedule("exponential", decay=0.5))
    copied = clone(aggregate)
    assert copied.schedule is not aggregate.schedule
    assert repr(copied) == repr(aggregate)
    copied.set_params(schedule__decay=0.1)
    assert aggregate.schedule.decay == 0.5


def test_a_search_over_the_decay():
    X, y, _, _, _ = digits()
    aggregate = ModelAveragingAggregator(
        [make_net()] * 2, n_rounds=1, learning_rate=0.1, random_state=0
    )
    grid = {"schedule": KINDS[:2], "schedule__decay": [0.25, 1e-6]}
    search = GridSearchCV(aggregate, grid, cv=2, error_score="raise")
    search.fit(X[:400], y[:400])
    assert len(search.cv_results_["params"]) == 4
    # A rate that is nearly 0 from the first epoch on teaches less.
    assert search.best_params_["schedule__decay"] == 0.25
    assert search.best_estimator_.schedule.decay == 0.25
    assert aggregate.schedule == "cyclical"


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("linear", "'schedule' parameter of ModelAveragingAggregator"),
        (None, "'schedule' parameter of ModelAveragingAggregator"),
        (Schedule("linear"), "'kind' parameter of Schedule"),
        (Schedule(decay=0.0), "'decay' parameter of Schedule"),
        (Schedule(decay=1.5), "'decay' parameter of Schedule"),
        (Schedule(epochs="fewer"), "'epochs' parameter of Schedule"),
        (Schedule(tol=-0.1), "'tol' parameter of Schedule"),
    ],
)
@pytest.mark.parametrize("n_rounds", [0, 1])
def test_schedules_are_checked_with_rounds_and_without(schedule, message, n_rounds):
    X, y, _, _, _ = digits()
    aggregate = ModelAveragingAggregator(
        [make_net()] * 2, n_rounds=n_rounds, schedule=schedule
    )
    with pytest.raises(ValueError, match=message):
        aggregate.fit(X[:100], y[:100])


@pytest.mark.parametrize("name", ["weights", "decay", "epochs", "epsilon"])
def test_parameters_that_moved_have_no_aliases(name):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        ModelAveragingAggregator(**{name: "equal"})
    with pytest.raises(ValueError, match=f"Invalid parameter '{name}'"):
        ModelAveragingAggregator().set_params(**{name: "equal"})


def test_the_folder_of_an_exchange_keeps_the_schedule(tmp_path):
    aggregate = ModelAveragingAggregator(
        n_rounds=2, schedule=Schedule("constant", epochs="fixed"), random_state=0
    )
    skgems.Exchange(tmp_path, aggregate, nodes=["a", "b"])
    reopened = skgems.Exchange(tmp_path)
    assert repr(reopened.aggregator) == repr(aggregate)
    other = clone(aggregate).set_params(schedule__decay=0.5)
    with pytest.raises(ValueError, match="begun with another params"):
        skgems.Exchange(tmp_path, other, nodes=["a", "b"])
