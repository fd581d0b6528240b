# SPDX-License-Identifier: BSD-3-Clause
"""No row follows from sums behind fronts under the rule of disclosure.

With many columns that are made of few, sums tell more numbers than the rows have.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers.attacked_exchanges import (
    DEFAULT_RULE,
    GroupSums,
    Told,
    group_of_rows,
    sums_in_message,
    told_in_combine,
)
from helpers.attacked_tables import Table, Verdict, attacked_table, judge_claims
from helpers.attacks_by_columns import rows_of_columns
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
    rests_of_halves,
    rows_with_codes,
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
    [(None, True), (DEFAULT_RULE, False)],
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


def test_halves_behind_two_fronts_have_no_rows_under_the_rule():
    # 11 rows of 30 columns in each half of each class.
    table = attacked_table("breast cancer").first_of_each_class(44)
    told = told_in_combine(table, disclosure=DEFAULT_RULE)
    assert not len(claims_of_two_fronts(told, n_starts=6))


def classes_of_five_columns(n_rows: int) -> Table:
    """Two classes, of which the second is a shell around the first."""
    X = normal_rows(n_rows, 5)
    y = np.where(np.linalg.norm(X, axis=1) > 2.0, "ill", "well")
    return Table(name="shell", X=X, y=y)


@cache
def told_of_five_columns() -> list[Told]:
    """Return what a node of 500 rows tells in combine; tests do not alter it."""
    return told_in_combine(
        classes_of_five_columns(1000), disclosure=DEFAULT_RULE, budget="fast"
    )


def widest_of_halves(told: list[Told], half: str) -> list[GroupSums]:
    """Return the sums of each group of a half behind the most columns."""
    content = next(t for t in told if t.request.task == "halves").reply.content
    groups = [sums_in_message(pair[half]) for pair in content["joins"].values()]
    return max(groups, key=lambda of_method: len(of_method[0].product))


def test_a_narrower_candidate_of_combine_reads_its_sums_from_the_widest():
    told = told_of_five_columns()
    halves = next(t for t in told if t.request.task == "halves")
    widest = widest_of_halves(told, "first")[0]
    n_compared = 0
    for number, pair in halves.reply.content["joins"].items():
        (group, *others) = sums_in_message(pair["first"])
        if others or "features" not in str(halves.request.content["asked"][number]):
            continue
        inside = widest.product[: len(group.product), : len(group.product)]
        np.testing.assert_allclose(group.product, inside, rtol=1e-9, atol=1e-9)
        n_compared += 1
    assert n_compared >= 2


@pytest.mark.parametrize("half", ["first", "second"])
def test_halves_tell_fewer_numbers_of_all_columns_than_would_fix_the_rows(half):
    (group,) = widest_of_halves(told_of_five_columns(), half)
    n_columns = len(group.product) - group.n_parts
    assert n_columns == 25  # 20 random features and those they are made of
    # Both classes tell 15 products of their own, which add up to those of all.
    n_numbers = n_columns * (n_columns + 1) / 2 + 15 + group.n_parts * n_columns
    n_rows_of_half = 250
    assert n_numbers <= 0.5 * n_rows_of_half * 5


def table_with_rare_code(seed: int) -> Table:
    """Two classes of 60 rows at each of two nodes, of which four have a code each."""
    rng = np.random.default_rng(seed)
    y = np.array(["ill", "well"])[rng.integers(0, 2, 240)]
    X = rng.standard_normal((240, 5))
    X[:, 0] += 2.0 * (y == "well")
    X[:, 4] = 0.0
    for label in ("ill", "well"):
        for node in (0, 1):
            of_class = (y == label) & (np.arange(240) % 2 == node)
            X[rng.choice(np.flatnonzero(of_class), 4, replace=False), 4] = 1.0
    return Table(name="rare code", X=X, y=y)


def test_products_of_codes_have_one_noise_behind_all_fronts_of_combine():
    """Of noise that each front draws anew, the mean of all would be the product."""
    rng = np.random.default_rng(0)
    y = np.array(["ill", "well"])[rng.integers(0, 2, 1200)]
    X = rng.standard_normal((1200, 6))
    X[:, 0] += 2.0 * (y == "well")
    X[:, 3:] = rng.random((1200, 3)) < 0.2
    table = Table(name="codes", X=X, y=y)
    told = told_in_combine(table, disclosure=DEFAULT_RULE, budget="fast")
    halves = next(t for t in told if t.request.task == "halves")
    sums_by_table = []
    for pair in halves.reply.content["joins"].values():
        groups = sums_in_message(pair["first"])
        # Classes that tell products by themselves have the same sum as all together.
        products = sum(g.product[g.n_parts :, g.n_parts :][3:6, 3:6] for g in groups)
        sums_by_table.append(products)
    assert len(sums_by_table) >= 4
    a_row = 1.0 / X[:, 3].var()  # what one row adds to products of scaled codes
    for products in sums_by_table[1:]:
        difference = np.abs(products - sums_by_table[0])
        assert difference[~np.eye(3, dtype=bool)].max() < 0.1 * a_row


def rows_between_halves_and_all(seed: int, rule: object) -> int:
    """How many rows follow from all sums less those of a half."""
    table = table_with_rare_code(seed)
    is_code = np.arange(5) == 4
    n_found = 0
    for front, rest in rests_of_halves(
        told_in_combine(table, disclosure=rule), is_code
    ):
        rows = rows_with_codes(front, table.X[::2], is_code)
        n_found += judge_claims(rows, rows_of_columns(rest)).n_found
    return n_found


def test_the_sums_of_all_rows_less_those_of_a_half_have_a_row_without_a_rule():
    assert sum(rows_between_halves_and_all(seed, None) for seed in (3, 5)) > 0


@pytest.mark.parametrize("seed", [3, 5])
def test_the_sums_of_all_rows_less_those_of_a_half_have_no_row_under_the_rule(seed):
    assert rows_between_halves_and_all(seed, DEFAULT_RULE) == 0
