# SPDX-License-Identifier: BSD-3-Clause
"""What a node tells for a power transform gives no row that is far out.

Sums of a column after its largest powers are sums of little but its largest value.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.attacked_exchanges import DEFAULT_RULE
from helpers.attacked_tables import Table, attacked_table, judge_claims
from scipy.stats import skew
from sklearn.preprocessing import PowerTransformer

from skgems import PooledTransformer

NAMES = ["iris", "wine", "breast cancer", "penguins"]
FAR_OUT = 3  # the row that is
POWERS = np.linspace(-2.0, 4.0, 25)  # after which nodes tell sums


def outlying_table(name: str) -> Table:
    """A table of which one row is far out in all columns."""
    table = attacked_table(name).scaled().some_columns(slice(0, 4))
    X = table.X.copy()
    X[FAR_OUT] = 60.0 + np.arange(4.0)
    return Table(name=name, X=X, y=table.y)


def told_of_powers(table: Table, rule: object) -> dict:
    """What one of two nodes tells for a power transform."""
    front = PooledTransformer(PowerTransformer())
    reply = front.summarize(table.X, name="lyon", disclosure=rule)
    return reply.content["parts"]["0"]


def rows_of_powers(part: dict) -> np.ndarray:
    """Claim the largest value of each column, (1, n_columns)."""
    if "squares" in part:
        # Sums of squares after two powers p and q of little but exp(s p) / p.
        sums = part["squares"] + part["counts"] * part["means"] ** 2
        sums *= POWERS[:, None] ** 2
        s = np.log(sums[-1] / sums[-2]) / (2.0 * (POWERS[-1] - POWERS[-2]))
    else:
        # The other values of the last part are as those of the part before.
        before, last = part["logarithms"][-2:]
        n_rows = part["counts"] / len(part["logarithms"])
        s = before + n_rows * (last - before)
    return np.expm1(s)[None]


@pytest.mark.parametrize("name", NAMES)
def test_sums_after_the_largest_powers_are_the_row_that_is_far_out(name):
    table = outlying_table(name)
    claims = rows_of_powers(told_of_powers(table, None))
    np.testing.assert_allclose(claims[0], table.X[FAR_OUT], rtol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_parts_of_columns_do_not_give_the_row_that_is_far_out(name):
    table = outlying_table(name)
    part = told_of_powers(table, DEFAULT_RULE)
    assert set(part) == {"statistic", "counts", "logarithms"}
    assert judge_claims(table.X, rows_of_powers(part)).n_found == 0


def test_each_number_told_for_powers_is_of_ten_rows_alike():
    table = attacked_table("wine").scaled().some_columns(slice(0, 3))
    means = told_of_powers(table, DEFAULT_RULE)["logarithms"]
    s = np.sort(np.sign(table.X) * np.log1p(np.abs(table.X)), axis=0)
    parts = np.array_split(s, len(means))
    assert min(map(len, parts)) >= 10
    np.testing.assert_allclose(means, [part.mean(axis=0) for part in parts])


def test_a_power_transform_under_the_rule_makes_columns_symmetric():
    X = np.exp(np.random.default_rng(0).normal(size=(600, 3)))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    front = PooledTransformer(PowerTransformer())
    replies = [front.summarize(X[k::3], name=f"n{k}") for k in range(3)]
    fitted = front.set_params(summaries=replies).fit()
    assert np.abs(skew(X)).min() > 3
    assert np.abs(skew(fitted.transform(X))).max() < 0.5


@pytest.mark.parametrize("n_rows", [10, 19, 25])
def test_few_rows_tell_of_few_parts(n_rows):
    X = np.random.default_rng(0).normal(size=(n_rows, 2))
    part = told_of_powers(Table(name="few", X=X, y=np.zeros(n_rows)), DEFAULT_RULE)
    assert part["logarithms"].shape == (n_rows // 10, 2)


def test_nothing_is_told_of_a_column_of_few_values():
    X = np.random.default_rng(0).normal(size=(40, 2))
    X[9:, 1] = np.nan
    part = told_of_powers(Table(name="gaps", X=X, y=np.zeros(40)), DEFAULT_RULE)
    assert part["counts"][1] == 0
    assert (part["logarithms"][:, 1] == 0).all()
