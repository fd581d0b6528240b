# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on all that a node tells in a summary, or while `combine` runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import PowerTransformer, StandardScaler

from helpers.attacked_exchanges import (
    GroupSums,
    Told,
    replies_with_moments,
    sums_in_message,
    told_in_fit,
    told_in_summary,
)
from helpers.attacked_tables import Table
from helpers.attacks_by_codes import n_rare, n_wrong, proven_combinations
from helpers.attacks_by_differences import (
    ClusterSums,
    rows_of_classifier,
    rows_of_clusters,
    unscaled_group,
)
from helpers.attacks_by_fits import (
    FeatureMap,
    FourierMap,
    IdentityMap,
    PowerMap,
    View,
    rows_of_ranges,
)
from helpers.lattices import rows_of_lattices
from skgems import GEMSLogisticAggregator, PooledTransformer
from skgems.asking import Message
from skgems.gems import Moments
from skgems.local import TooFewRowsError, opened_front
from skgems.steps import RandomFeatures

# Of the ridge below.
ALPHA = 2.0
# Fitted classifiers whose coefficients are sums of rows, or that come with such.
CLASSIFIERS = {
    "centroids": NearestCentroid(),
    "lda": LinearDiscriminantAnalysis(),
    "ridge": RidgeClassifier(alpha=ALPHA),
    "scaler": make_pipeline(StandardScaler(), LogisticRegression()),
}


# Sums of one summary ------------------------------------------------------------------


def claims_of_groups(
    attack: Callable[[GroupSums], np.ndarray], message: Message, n_features: int
) -> np.ndarray:
    """Return the rows that an attack claims of all groups of rows in a message."""
    claims = [attack(group) for group in sums_in_message(message.content)]
    return np.concatenate([np.zeros((0, n_features)), *claims])


def claims_of_lattices(message: Message, n_features: int) -> np.ndarray:
    """Return the rows that lattices give of all moments in a message."""
    claims = [
        rows_of_lattices(moments)
        for _, moments in replies_with_moments(message.content)
        if moments.roots is None and getattr(moments, "block", None) is None
    ]
    return np.concatenate([np.zeros((0, n_features)), *claims])


def rare_combinations_proven(table: Table, rule: object) -> tuple[int, int]:
    """Return how many combinations are proven that few rows have, and wrong proofs."""
    aggregator = GEMSLogisticAggregator(random_state=0)
    message = told_in_summary(aggregator, table, disclosure=rule)
    n_proven = n_false = 0
    for group in sums_in_message(message.content):
        claims = proven_combinations(group)
        X = table.X if group.label is None else table.X[table.y == group.label]
        n_proven += n_rare(X, claims)
        n_false += n_wrong(X, claims)
    return n_proven, n_false


def cluster_differences(table: Table, numbers: range, rule: object) -> np.ndarray:
    """Return rows by which clusters of several summaries of the same rows differ."""
    clusters: dict[str, list[ClusterSums]] = {}
    for n_components in numbers:
        moments = Moments(n_components=n_components)
        aggregator = GEMSLogisticAggregator(moments=moments, random_state=0)
        message = told_in_summary(aggregator, table, disclosure=rule)
        for labels, told in replies_with_moments(message.content):
            for column in np.unique(told.columns):
                of_class = ClusterSums.of_moments(told, column)
                clusters.setdefault(labels[column], []).append(of_class)
    claims = [
        rows_of_clusters(first, second)
        for of_label in clusters.values()
        for k, first in enumerate(of_label)
        for second in of_label[:k]
    ]
    return np.concatenate([np.zeros((0, table.n_features)), *claims])


# Behind random features ---------------------------------------------------------------


def random_features(
    n_components: int, n_features: int, gamma: str | float = "auto"
) -> RandomFeatures:
    """Return random features that a seed draws, as every party can."""
    features = RandomFeatures(n_components, gamma=gamma, random_state=0)
    return features.fit(np.zeros((2, n_features)))


def told_behind(
    features: RandomFeatures, table: Table, *, disclosure: object
) -> list[GroupSums]:
    """Return the sums of each group of rows that a summary has behind such features.

    There are none where the means of so many features would tell too much of few rows.
    """
    front = PooledTransformer(features).fit(table.X)
    aggregator = GEMSLogisticAggregator(front=front, random_state=0)
    try:
        message = told_in_summary(aggregator, table, disclosure=disclosure)
    except TooFewRowsError:
        return []
    return sums_in_message(message.content)


def claims_of_ranges(
    features: RandomFeatures, groups: list[GroupSums], starts_a_row: int = 3
) -> np.ndarray:
    """Return the rows in the range of the sums of each group of rows."""
    claims = [np.zeros((0, len(features.weights_)))]
    for group in groups:
        view = View(features=FourierMap.of(features), group=group)
        n_starts = int(starts_a_row * group.n_rows)
        claims.append(rows_of_ranges([view], n_starts=n_starts))
    return np.concatenate(claims)


# combine ------------------------------------------------------------------------------


def views_of_halves(told: list[Told], half: str) -> dict[object, list[View]]:
    """Return sums of each class of one half, behind every front of scaled columns."""
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
    """Return what a front makes of scaled columns; None if it makes something else."""
    steps = dict(opened_front(front).fitted.steps)
    last = steps.popitem()[1]
    if isinstance(last, PowerTransformer):
        return PowerMap(last)
    if "StandardScaler" not in repr([last, *steps.values()]):
        return None
    if isinstance(last, FeatureUnion):
        return FourierMap.of_union(last)
    if isinstance(last, RandomFeatures):
        return None if steps.keys() - {"columntransformer"} else FourierMap.of(last)
    return None if steps else IdentityMap()


def scaled_rows(told: list[Told], X: np.ndarray) -> np.ndarray:
    """Return rows as they enter random features: scaled, or behind powers."""
    (halves,) = [pair for pair in told if pair.request.task == "halves"]
    fronts = [asked["front"] for asked in halves.request.content["asked"].values()]
    maps = [map_of_front(front) for front in fronts]
    kind = IdentityMap if any(isinstance(m, IdentityMap) for m in maps) else PowerMap
    front = fronts[[isinstance(m, kind) for m in maps].index(True)]
    return opened_front(front).transform(X)


def claims_of_two_fronts(told: list[Told], *, n_starts: int) -> np.ndarray:
    """Return scaled rows that are in the range of the sums behind two fronts."""
    claims = []
    for half in ("first", "second"):
        for views in views_of_halves(told, half).values():
            by_kind = {type(view.features): view for view in views}
            if {IdentityMap, PowerMap} <= by_kind.keys():
                pair = [by_kind[IdentityMap], by_kind[PowerMap]]
                claims.append(rows_of_ranges(pair, n_starts=n_starts))
    return np.concatenate(claims) if claims else np.zeros((0, 0))


def claims_of_halves_behind_features(
    told: list[Told], *, starts_a_row: int
) -> np.ndarray:
    """Return scaled rows that are in the range of the sums behind random features."""
    claims = []
    for half in ("first", "second"):
        for views in views_of_halves(told, half).values():
            claims += [
                rows_of_ranges([view], n_starts=int(starts_a_row * view.group.n_rows))
                for view in views
                if isinstance(view.features, FourierMap)
            ]
    return np.concatenate(claims) if claims else np.zeros((0, 0))


def rests_of_halves(
    told: list[Told], is_code: np.ndarray
) -> list[tuple[dict, GroupSums]]:
    """Return the sums of each class in the last message less those of one half of it.

    Each comes with the front that both are behind. Columns of codes, (n_features,),
    are 0 and 1 again.
    """
    by_task = {pair.request.task: pair for pair in told}
    if "join" not in by_task:  # nothing is told of all rows beside their halves
        return []
    join = by_task["join"]
    front = join.request.content["front"]
    of_all = groups_by_label(join.reply.content, front, is_code)
    rests = []
    for number, pair in by_task["halves"].reply.content["joins"].items():
        asked = by_task["halves"].request.content["asked"][number]["front"]
        if asked["tree"] != front["tree"]:
            continue
        for summary in pair.values():
            for label, group in groups_by_label(summary, asked, is_code).items():
                if label in of_all:
                    rest = of_all[label].with_one - group.with_one
                    sums = GroupSums(label=label, product=rest, n_parts=1)
                    rests.append((front, sums))
    return rests


def groups_by_label(
    content: dict, front: dict, is_code: np.ndarray
) -> dict[object, GroupSums]:
    """Return the sums of each class in a message, with codes of 0 and 1 again."""
    zeros = opened_front(front).transform(np.zeros((1, len(is_code))))[0]
    ones = opened_front(front).transform(np.ones((1, len(is_code))))[0]
    scale = np.where(is_code, ones - zeros, 1.0)
    scale = np.where(scale != 0, scale, 1.0)
    center = np.where(is_code, zeros, 0.0)
    return {
        group.label: unscaled_group(group, -center / scale, 1.0 / scale)
        for group in sums_in_message(content)
        if np.isfinite(group.product).all()
    }


def rows_with_codes(front: dict, X: np.ndarray, is_code: np.ndarray) -> np.ndarray:
    """Return rows behind a front, but for columns of codes, which stay."""
    return np.where(is_code, X, opened_front(front).transform(X))


# Fitted classifiers and fronts --------------------------------------------------------


def with_lone_class(table: Table) -> Table:
    """Return the rows of two classes, and one row of a third, which comes last."""
    first, second, third = np.unique(table.y)[:3]
    large = np.flatnonzero(np.isin(table.y, [first, second]))
    lone = np.flatnonzero(table.y == third)[:1]
    return table.some_rows(np.append(large, lone))


def claims_of_classifier(table: Table, kind: str, rule: object) -> np.ndarray:
    """Return rows that a summary's classifier, of CLASSIFIERS, and its sums give."""
    classifier = CLASSIFIERS[kind].fit(table.X, table.y)
    aggregator = GEMSLogisticAggregator(random_state=0)
    message = told_in_summary(aggregator, table, disclosure=rule, classifier=classifier)
    return rows_of_classifier(message, kind=kind, alpha=ALPHA)


def told_behind_scaler(table: Table, rule: object) -> list[Told]:
    """Return what a node tells when a scaler is fitted, and sums are made behind it."""
    other = table.some_rows(slice(1, None, 2))
    front = PooledTransformer(StandardScaler())
    aggregator = GEMSLogisticAggregator(front=front, random_state=0)
    return told_in_fit(aggregator, {"lyon": table, "rome": other}, disclosure=rule)
