# SPDX-License-Identifier: BSD-3-Clause
"""How well a reader of sums guesses whether a given row took part.

The rule of disclosure does not stop this: the page on privacy says how well it works.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers.attacked_exchanges import (
    DEFAULT_RULE,
    group_of_rows,
    sums_in_message,
    told_in_summary,
)
from helpers.attacked_tables import Table, attacked_table
from helpers.memberships import (
    Population,
    expected_advantage,
    log_ratios,
    measured_advantage,
)
from scipy.stats import skew
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from skgems import GEMSLogisticAggregator, PooledAggregator
from skgems.messages import told_in_words


def simulated_advantage(n_rows: int, n_features: int, n_trials: int = 40) -> float:
    """The advantage of guesses about normal rows, whose sums are all told."""
    rng = np.random.default_rng(0)
    population = Population.normal(n_features)
    of_rows, of_others = [], []
    for _ in range(n_trials):
        X, others = rng.standard_normal((2, n_rows, n_features))
        with_one = group_of_rows(X).with_one
        of_rows.append(log_ratios(with_one, X, population))
        of_others.append(log_ratios(with_one, others, population))
    return measured_advantage(np.concatenate(of_rows), np.concatenate(of_others))


@pytest.mark.parametrize("n_features", [3, 10, 20])
@pytest.mark.parametrize("rows_a_column", [3, 10])
def test_the_advantage_is_as_expected_on_normal_columns(n_features, rows_a_column):
    n_rows = rows_a_column * n_features
    expected = expected_advantage(n_rows, n_features)
    assert abs(simulated_advantage(n_rows, n_features) - expected) < 0.1


def test_more_rows_hide_each_of_them_better_and_more_columns_worse():
    assert expected_advantage(1000, 10) < expected_advantage(100, 10)
    assert expected_advantage(100, 10) < expected_advantage(100, 20)
    assert expected_advantage(1e9, 2) < 0.001
    assert expected_advantage(10, 100) > 0.99


def split_in_three(table: Table, n_rows: int, seed: int) -> list[Table]:
    """Rows that take part, as many others, and what is known of the people."""
    order = np.random.default_rng(seed).permutation(table.n_rows)
    parts = [order[:n_rows], order[n_rows : 2 * n_rows], order[2 * n_rows :]]
    return [table.some_rows(part) for part in parts]


def one_class(name: str, label: str) -> Table:
    """The rows of one class, in four columns without much skewness."""
    table = attacked_table(name)
    X = table.X[table.y == label]
    columns = np.argsort(np.abs(skew(X)))[:4]
    return Table(name=name, X=X[:, columns], y=np.full(len(X), label)).scaled()


CLASSES = [("penguins", "cAdelie"), ("penguins", "cGentoo"), ("breast cancer", "c1")]


@pytest.mark.parametrize("name, label", CLASSES)
@pytest.mark.parametrize("rule", [None, DEFAULT_RULE])
def test_guesses_about_real_rows_are_about_as_good_as_expected(name, label, rule):
    n_rows = 25
    table = one_class(name, label)
    aggregator = GEMSLogisticAggregator(random_state=0)
    of_rows, of_others = [], []
    for seed in range(10):
        inside, outside, known = split_in_three(table, n_rows, seed)
        # A second class, since there is nothing to learn from one.
        both = Table(
            name=name,
            X=np.vstack([inside.X, known.X + 1.0]),
            y=np.append(inside.y, np.full(known.n_rows, "other")),
        )
        message = told_in_summary(aggregator, both, disclosure=rule)
        groups = [g for g in sums_in_message(message.content) if g.label == label]
        population = Population.of(known.X)
        for group in groups:
            of_rows.append(log_ratios(group.with_one, inside.X, population))
            of_others.append(log_ratios(group.with_one, outside.X, population))
    assert of_rows
    advantage = measured_advantage(np.concatenate(of_rows), np.concatenate(of_others))
    expected = expected_advantage(n_rows, table.n_features)
    assert -0.1 < advantage < expected + 0.1


@pytest.mark.parametrize("rule", [None, DEFAULT_RULE])
def test_what_a_summary_prints_is_about_what_is_measured_on_normal_columns(rule):
    n_rows, n_features = 40, 4
    aggregator = PooledAggregator(pooled=LinearDiscriminantAnalysis())
    population = Population.normal(n_features)
    of_rows, of_others, printed = [], [], []
    rng = np.random.default_rng(0)
    for _ in range(20):
        X, others = rng.standard_normal((2, n_rows, n_features))
        # The rows of both classes together are known by what all classes share.
        table = Table(name="normal", X=X, y=np.repeat(["ill", "well"], n_rows // 2))
        message = told_in_summary(aggregator, table, disclosure=rule)
        printed.append(float(re.search(r"up to ([\d.]+)", told_in_words(message))[1]))
        (group,) = sums_in_message(message.content)
        of_rows.append(log_ratios(group.with_one, X, population))
        of_others.append(log_ratios(group.with_one, others, population))
    measured = measured_advantage(np.concatenate(of_rows), np.concatenate(of_others))
    # Means of each class are told, too, which these guesses do not use.
    assert -0.03 < np.mean(printed) - measured < 0.15
