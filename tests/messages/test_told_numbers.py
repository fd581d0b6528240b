# SPDX-License-Identifier: BSD-3-Clause
"""What can be guessed from a reply is said before it is sent."""

from __future__ import annotations

import re

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, ModelAveragingAggregator, PooledAggregator
from skgems.channels import Exchange
from skgems.disclosure import guess_advantage
from skgems.gems import Moments
from skgems.guard import answer, inspect
from skgems.messages import Message, told_in_words

RNG = np.random.default_rng(0)
y = np.repeat(["ill", "well"], [20, 40])
X = RNG.normal(size=(60, 3))
ONE_MEAN = GEMSLogisticAggregator(moments=Moments(n_components=1), random_state=0)


def figures(sentences: str) -> list[float]:
    """The advantage, and the share of the numbers."""
    found = re.findall(r"up to ([\d.]+) better|told are ([\d.]+) times", sentences)
    return [float(first or second) for first, second in found]


def summarized(aggregator, classifier=None, **options):
    options = {"disclosure": None, "name": "lyon", **options}
    return aggregator.summarize(classifier, X, y, **options)


def test_a_summary_says_how_well_it_is_guessed_and_how_much_it_tells():
    guess = summarized(ONE_MEAN).guess
    assert guess.startswith("Whoever knows a row of class 'ill' can guess")
    assert figures(guess) == [round(guess_advantage(9, 20), 2), 0.15]  # 9 of 20 x 3


def test_gradients_and_what_classes_share_are_told_of_all_rows():
    guess = summarized(ONE_MEAN, LogisticRegression().fit(X, y)).guess
    # 4 numbers of a gradient of 60 rows.
    assert figures(guess) == [round(guess_advantage([9, 4], [20, 60]), 2), 0.15]
    guess = summarized(PooledAggregator()).guess
    assert figures(guess) == [
        round(guess_advantage([6, 3], [20, 60]), 2),
        0.1,  # means and squares of 20 rows, more than 15 numbers of 60
    ]


def test_several_answers_of_a_summary_are_taken_together():
    agg = GEMSLogisticAggregator(random_state=0)
    classifier = LogisticRegression().fit(X, y)
    # Radii of a space are of single rows.
    assert figures(summarized(agg, classifier, space=True).guess)[0] == 1.0


def test_sums_by_class_of_a_pooled_classifier():
    guess = summarized(PooledAggregator(pooled=GaussianNB())).guess
    assert figures(guess) == [round(guess_advantage(6, 20), 2), 0.1]


def test_a_message_without_sums_says_nothing():
    agg = ModelAveragingAggregator()
    assert summarized(agg, LogisticRegression().fit(X, y)).guess == ""


def test_under_the_rule_fewer_numbers_are_told_than_half_of_those_of_the_rows():
    share = figures(summarized(ONE_MEAN, disclosure="auto").guess)[1]
    assert 0.0 < share <= 0.5


def test_inspection_prints_the_guess(tmp_path):
    summary = summarized(ONE_MEAN)
    path = tmp_path / "lyon.safetensors"
    summary.save(path)
    assert inspect(path).overview["guess"] == summary.guess
    assert "guess:" in str(inspect(path))


def test_unknowns_are_those_of_the_columns_before_a_front(tmp_path):
    features = RBFSampler(n_components=8, random_state=0)
    agg = GEMSLogisticAggregator(
        moments=Moments(n_components=1), front=features, random_state=0
    )
    exchange = Exchange(tmp_path, agg, nodes=["lyon"], disclosure=None)
    for _ in range(2):  # what columns there are, and then the sums
        exchange.step()
        request = exchange.waiting_for["lyon"]
        reply = answer(request, None, X, y, name="lyon", disclosure=None)
    share = 8 * 11 / 2 / (20 * 3)
    assert figures(inspect(reply).overview["guess"])[1] == round(share, 2)


def test_halves_are_rows_of_their_own():
    summary = summarized(ONE_MEAN).message.content
    joins = {"0": {"first": summary, "second": summary}}
    guess = told_in_words(Message.of("halves", joins=joins, refused={}))
    assert "a row of class 'ill' in the first half" in guess
    assert figures(guess) == figures(summarized(ONE_MEAN).guess)


def test_statistics_of_a_front_are_of_all_rows(tmp_path):
    agg = GEMSLogisticAggregator(front=StandardScaler(), random_state=0)
    exchange = Exchange(tmp_path, agg, nodes=["lyon"], disclosure=None)
    exchange.step()
    request = exchange.waiting_for["lyon"]
    reply = answer(request, None, X, y, name="lyon", disclosure=None)
    guess = inspect(reply).overview["guess"]
    assert guess.startswith("Whoever knows a row can guess")
    assert figures(guess) == [round(guess_advantage(6, 60), 2), round(6 / 180, 2)]
