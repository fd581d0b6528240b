# SPDX-License-Identifier: BSD-3-Clause
"""No row follows from sums behind fronts under the rule of disclosure.

With many columns that are made of few, sums tell more numbers than the rows have.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.attacked_exchanges import (
    BEING_BUILT,
    DEFAULT_RULE,
    group_of_rows,
    told_in_combine,
)
from helpers.attacked_tables import Verdict, attacked_table, judge_claims
from helpers.attacks_by_fits import (
    FourierMap,
    IdentityMap,
    PowerMap,
    View,
    rows_of_fit,
    rows_of_ranges,
)
from helpers.attacks_on_summaries import (
    claims_of_ranges,
    claims_of_two_fronts,
    random_features,
    scaled_rows,
    told_behind,
)
from sklearn.preprocessing import PowerTransformer

# Measures that are no whole numbers, scaled by the node beforehand.
CONTINUOUS = ["iris", "wine", "breast cancer", "penguins"]


def normal_rows(n_rows: int, n_features: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n_rows, n_features))


# Ranges of singular sums --------------------------------------------------------------


@pytest.mark.parametrize(
    "rule, finds",
    [(None, True), pytest.param(DEFAULT_RULE, False, marks=BEING_BUILT)],
)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_ranges_behind_random_features_have_rows_unless_the_rule_holds(
    name, rule, finds
):
    table = attacked_table(name).scaled().first_of_each_class(12)
    features = random_features(40, table.n_features)
    groups = told_behind(features, table, disclosure=rule)
    verdict = judge_claims(table.X, claims_of_ranges(features, groups))
    assert (verdict.n_found >= 6) == finds
    assert finds or verdict.n_found == 0
    assert verdict.n_false == 0


def test_two_fronts_of_few_rows_have_all_rows_in_common():
    X = np.exp(0.5 * normal_rows(5, 10))
    step = PowerTransformer().fit(np.exp(0.5 * normal_rows(200, 10, seed=1)))
    views = [
        View(features=IdentityMap(), group=group_of_rows(X)),
        View(features=PowerMap(step), group=group_of_rows(step.transform(X))),
    ]
    verdict = judge_claims(X, rows_of_ranges(views, n_starts=100))
    assert verdict == Verdict(n_found=5, n_false=0)


# Fits of made-up rows -----------------------------------------------------------------


def test_made_up_rows_with_the_sums_of_random_features_are_the_rows():
    X = normal_rows(25, 3)
    features = random_features(17, 3, gamma=0.5)
    group = group_of_rows(features.transform(X))
    view = View(features=FourierMap.of(features), group=group)
    verdict = judge_claims(X, rows_of_fit(view, n_starts=12))
    assert verdict == Verdict(n_found=25, n_false=0)


def test_made_up_rows_are_fitted_together_with_their_weights():
    X = normal_rows(16, 3)
    features = random_features(17, 3, gamma=0.5)
    weights = np.where(np.arange(16) < 4, 0.6, 1.0)
    group = group_of_rows(features.transform(X), weights)
    view = View(features=FourierMap.of(features), group=group)
    claims = rows_of_fit(view, n_starts=12, with_weights=True, n_rows=16)
    verdict = judge_claims(X, claims)
    assert verdict == Verdict(n_found=16, n_false=0)


@BEING_BUILT
@pytest.mark.parametrize("n_components", [8, 17, 44])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_fewer_numbers_are_told_behind_random_features_than_rows_have(
    name, n_components
):
    table = attacked_table(name).scaled().some_columns(slice(0, 4))
    table = table.first_of_each_class(40)
    features = random_features(n_components, table.n_features)
    groups = told_behind(features, table, disclosure=DEFAULT_RULE)
    n_told = sum(
        np.isfinite(np.triu(group.product)[group.n_parts :]).sum()
        - np.sum(np.tri(len(group.product), k=-1)[group.n_parts :])
        for group in groups
    )
    # A fit has more unknowns than equations, and ends anywhere.
    assert n_told < table.n_rows * table.n_features
    for group in groups:
        view = View(features=FourierMap.of(features), group=group)
        claims = rows_of_fit(view, n_starts=1, max_steps=50)
        assert judge_claims(table.X, claims).n_found == 0


# combine ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule, finds",
    [(None, True), pytest.param(DEFAULT_RULE, False, marks=BEING_BUILT)],
)
def test_halves_behind_two_fronts_have_rows_unless_the_rule_holds(rule, finds):
    # 11 rows of 30 columns in each half of each class.
    table = attacked_table("breast cancer").first_of_each_class(44)
    told = told_in_combine(table, disclosure=rule)
    claims = claims_of_two_fronts(told, n_starts=6)
    X = scaled_rows(told, table.X[::2])
    assert (len(claims) > 0) == finds
    assert not finds or judge_claims(X, claims).n_found > 0
