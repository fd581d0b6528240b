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
    GroupSums,
    Told,
    group_of_rows,
    sums_in_message,
    told_in_combine,
    told_in_summary,
)
from helpers.attacked_tables import Table, Verdict, attacked_table, judge_claims
from helpers.attacks_by_fits import (
    FeatureMap,
    FourierMap,
    IdentityMap,
    PowerMap,
    View,
    rows_of_fit,
    rows_of_ranges,
)
from sklearn.preprocessing import PowerTransformer

from skgems import GEMSLogisticAggregator, PooledTransformer
from skgems.local import opened_front
from skgems.steps import RandomFeatures

# Measures that are no whole numbers, scaled by the node beforehand.
CONTINUOUS = ["iris", "wine", "breast cancer", "penguins"]


def normal_rows(n_rows: int, n_features: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n_rows, n_features))


def random_features(
    n_components: int, n_features: int, gamma: str | float = "auto"
) -> RandomFeatures:
    """Random features that a seed draws, as every party can."""
    features = RandomFeatures(n_components, gamma=gamma, random_state=0)
    return features.fit(np.zeros((2, n_features)))


def told_behind(
    features: RandomFeatures, table: Table, *, disclosure: object
) -> list[GroupSums]:
    """The sums of each group of rows that a summary has behind random features."""
    front = PooledTransformer(features).fit(table.X)
    aggregator = GEMSLogisticAggregator(front=front, random_state=0)
    message = told_in_summary(aggregator, table, disclosure=disclosure)
    return sums_in_message(message.content)


# Ranges of singular sums ------------------------------------------------------------------


def claims_of_ranges(features: RandomFeatures, groups: list[GroupSums]) -> np.ndarray:
    """The rows in the range of the sums of each group of rows."""
    n_features = len(features.weights_)
    claims = [np.zeros((0, n_features))]
    for group in groups:
        view = View(features=FourierMap.of(features), group=group)
        claims.append(rows_of_ranges([view], n_starts=int(3 * group.n_rows)))
    return np.concatenate(claims)


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


# Fits of made-up rows ---------------------------------------------------------------------


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


# combine --------------------------------------------------------------------------------


def views_of_halves(told: list[Told], half: str) -> dict[object, list[View]]:
    """The sums of each class of one half, behind every front of the scaled columns."""
    (halves,) = [pair for pair in told if pair.request.task == "halves"]
    views: dict[object, list[View]] = {}
    for number, summaries in halves.reply.content["joins"].items():
        features = map_of_front(halves.request.content["asked"][number]["front"])
        for group in sums_in_message(summaries[half]):
            if features is not None and group.label is not None:
                view = View(features=features, group=group)
                views.setdefault(group.label, []).append(view)
    return views


def map_of_front(front: dict) -> FeatureMap | None:
    """What a front makes of scaled columns; None if it makes something else."""
    steps = dict(opened_front(front).fitted.steps)
    last = steps.popitem()[1]
    if isinstance(last, PowerTransformer):
        return PowerMap(last)
    if "StandardScaler" not in repr([last, *steps.values()]):
        return None
    if isinstance(last, RandomFeatures):
        return None if steps.keys() - {"columntransformer"} else FourierMap.of(last)
    return None if steps else IdentityMap()


def scaled_rows(told: list[Told], X: np.ndarray) -> np.ndarray:
    """Rows behind the front that only scales them."""
    (halves,) = [pair for pair in told if pair.request.task == "halves"]
    fronts = [asked["front"] for asked in halves.request.content["asked"].values()]
    front = next(f for f in fronts if isinstance(map_of_front(f), IdentityMap))
    return opened_front(front).transform(X)


@pytest.mark.parametrize(
    "rule, finds",
    [(None, True), pytest.param(DEFAULT_RULE, False, marks=BEING_BUILT)],
)
def test_halves_behind_two_fronts_have_rows_unless_the_rule_holds(rule, finds):
    table = attacked_table("breast cancer").some_columns(slice(0, 10))
    table = table.first_of_each_class(24)
    told = told_in_combine(table, disclosure=rule)
    X = scaled_rows(told, table.X[::2])
    n_found = 0
    for views in views_of_halves(told, "first").values():
        by_kind = {type(view.features): view for view in views}
        if len(by_kind) == 2:
            ranges = [by_kind[IdentityMap], by_kind[PowerMap]]
            n_found += judge_claims(X, rows_of_ranges(ranges, n_starts=25)).n_found
    assert (n_found > 0) == finds
