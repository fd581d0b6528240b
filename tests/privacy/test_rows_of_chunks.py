# SPDX-License-Identifier: BSD-3-Clause
"""No row follows from the summary of chunks, in memory or in passes over them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sklearn
from helpers.attacked_exchanges import (
    DEFAULT_RULE,
    replies_with_moments,
    told_in_summary,
)
from helpers.attacked_tables import Table, attacked_table, judge_claims
from helpers.attacks_by_columns import rows_of_columns
from helpers.attacks_by_differences import row_of_origin, rows_of_dominated_sums
from helpers.attacks_on_summaries import claims_of_groups

from skgems import GEMSLogisticAggregator, PooledAggregator

AGGREGATORS = {
    "by class": GEMSLogisticAggregator(random_state=0),
    "of all classes": PooledAggregator(),
}
# MiB that scikit-learn may work in: all rows of a table fit, or must be passed over.
MEMORY = {"at once": 1024, "in passes": 1}
# Rows that are attacked, which are far from the others: these deviate too little from
# each other for a claim to be right by chance.
N_ATTACKED = 20


def patients(kind: str) -> Table:
    """Two classes of 300 rows, a few of which some columns show, or are far out."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 20))
    X[:300] += 0.5
    if kind == "far out":
        X[:N_ATTACKED] += 1e6 * np.eye(20)
    elif kind == "out":
        X[:N_ATTACKED] += 1e3 * np.eye(20)
    elif kind == "one column":
        X[:, 19] = np.arange(600) == 7
    elif kind == "corrected":
        X[:, 19] = X[:, 18] + 0.5 * (np.arange(600) == 7)
    elif kind == "nearly equal":
        X[:, 19] = X[:, 18] + 1e-6 * (np.arange(600) == 7)
    elif kind == "nearly constant":
        X[:, 19] = 4.0 + 1e-14 * rng.integers(0, 3, 600)
        X[7, 19] += 1e-9
    elif kind == "shared direction":
        X[:, 19] = X[:, 18] + 3.0 * np.isin(np.arange(600), [7, 8])
    return Table(name=kind, X=X, y=np.repeat(["ill", "well"], 300))


def told_of_chunks(
    table: Table, *, aggregator: str, disclosure: object, memory: str
) -> object:
    """Return the message of the summary of a table in chunks of 90 rows."""

    def chunks():
        for start in range(0, len(table.y), 90):
            yield table.X[start : start + 90], table.y[start : start + 90]

    with sklearn.config_context(working_memory=MEMORY[memory]):
        return told_in_summary(
            AGGREGATORS[aggregator],
            Table(name=table.name, X=None, y=None),
            disclosure=disclosure,
            chunks=chunks,
        )


ATTACKS = {
    "far out": (rows_of_dominated_sums, 15),
    "one column": (rows_of_columns, 1),
    "corrected": (rows_of_columns, 1),
}


@pytest.mark.parametrize("kind", ATTACKS)
def test_rows_of_chunks_follow_from_sums_without_a_rule(kind):
    table = patients(kind)
    attack, n_shown = ATTACKS[kind]
    message = told_of_chunks(
        table, aggregator="by class", disclosure=None, memory="in passes"
    )
    claims = claims_of_groups(attack, message, table.n_features)
    assert judge_claims(table.X[:N_ATTACKED], claims).n_found >= n_shown


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize("kind", [*ATTACKS, "out", "shared direction"])
def test_no_row_of_chunks_follows_from_sums_under_the_rule(kind, aggregator, memory):
    table = patients(kind)
    message = told_of_chunks(
        table, aggregator=aggregator, disclosure=DEFAULT_RULE, memory=memory
    )
    for attack in (rows_of_columns, rows_of_dominated_sums):
        claims = claims_of_groups(attack, message, table.n_features)
        assert judge_claims(table.X[:N_ATTACKED], claims).n_found == 0


# Of the last two columns: in the combination u of them one row is alone, for little.
# Products have no digits of the small difference, or of the small column, beside those
# of the other columns, unless they are about means, as they are sent.
SMALL_COMBINATIONS = {"nearly equal": (-1.0, 1.0), "nearly constant": (0.0, 1.0)}


def rows_of_combination(message: object, weights: tuple[float, float]) -> np.ndarray:
    """Return claims of the row that has most of a combination u of the last columns.

    With the scatter S and the row's deviation u_i, S a = u_i (x_i - m); and S a without
    its length is that of any of the rows with this direction.
    """
    claims = []
    for _, moments in replies_with_moments(message.content):
        if moments.is_diagonal:
            continue
        a = np.zeros(moments.n_features)
        a[-2:] = weights
        means = moments.origin + moments.means
        for scatter, mean, n in itertools.product(
            moments.scatter, means, moments.counts
        ):
            square = a @ scatter @ a
            lengths = [n * (mean @ a)]
            if square > 0:
                lengths += [np.sqrt(square * n / (n - 1)), -np.sqrt(square)]
            claims += [mean + scatter @ a / u for u in lengths if u]
    return np.array(claims).reshape(-1, 20)


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("kind", SMALL_COMBINATIONS)
def test_no_row_of_chunks_follows_from_a_small_difference_of_columns(kind, memory):
    table = patients(kind)
    for disclosure, n_found in ((None, 1), (DEFAULT_RULE, 0)):
        message = told_of_chunks(
            table, aggregator="by class", disclosure=disclosure, memory=memory
        )
        claims = rows_of_combination(message, SMALL_COMBINATIONS[kind])
        assert judge_claims(table.X[:N_ATTACKED], claims).n_found == n_found


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("name", ["digits", "documents"])
def test_no_row_of_a_wide_table_in_chunks_follows_from_its_columns(name, memory):
    table = attacked_table(name).first_of_each_class(300)
    message = told_of_chunks(
        table, aggregator="by class", disclosure=DEFAULT_RULE, memory=memory
    )
    claims = claims_of_groups(rows_of_columns, message, table.n_features)
    assert judge_claims(table.X, claims).n_found == 0


@pytest.mark.parametrize("memory", MEMORY)
def test_the_origin_of_sums_of_chunks_is_no_row(memory):
    table = patients("far out")
    message = told_of_chunks(
        table, aggregator="by class", disclosure=DEFAULT_RULE, memory=memory
    )
    ((_, moments),) = replies_with_moments(message.content)
    claims = row_of_origin(moments)
    assert judge_claims(table.X[:N_ATTACKED], claims).n_found == 0
