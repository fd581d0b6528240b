# SPDX-License-Identifier: BSD-3-Clause
"""What is said where sums do not hold what a pooled model would be made of."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from ..local import Member, class_weight_of, heavy_tails
from ._warnings import ClassWeightWarning, HeavyTailsWarning, VariancesOnlyWarning

__all__ = ["warn_of_members", "warn_of_variances"]

_MAX_NAMES = 5


def warn_of_members(members: Iterable, *, rows=True, stacklevel: int) -> None:
    """Warn of class weights and, of their ``rows``, of heavy tails.

    ``stacklevel`` is that of the caller.
    """
    weights, tails, features = {}, {}, []
    for member in members:
        if not isinstance(member, Member):
            continue  # warned when it summarized
        weight = class_weight_of(member.picklable.estimator)
        if weight is not None:
            weights[member.name] = weight
        found = heavy_tails(member) if rows else None
        if found is not None:
            tails[member.name] = round(found[0])
            features += found[1]
    if weights:
        warnings.warn(
            f"The classifiers of nodes {_first(weights)} weigh classes. The sums that "
            "nodes send count every row alike, so the aggregate is the model without "
            "these weights, and may rarely predict rare classes. Its predict_proba "
            "over the classes' shares is balanced; RidgeClassifiers that agree, and "
            "pooled=RidgeClassifier(class_weight=...), keep weights.",
            ClassWeightWarning,
            stacklevel=stacklevel + 1,
        )
    if tails:
        named = sorted(set(features), key=lambda j: (-features.count(j), j))[:3]
        warnings.warn(
            "Some rows lie far outside of their class. The logits of the node's own "
            f"model have a kurtosis (3 of Gaussians) at nodes of {_first(tails)}. "
            "A few rows then decide covariances, and the aggregate may be far from the "
            f"pooled model. Features {named} have the largest part in it: have all "
            "nodes take logarithms or ranks of such features.",
            HeavyTailsWarning,
            stacklevel=stacklevel + 1,
        )


def warn_of_variances(n_features: int, *, stacklevel: int) -> None:
    """Warn where moments='auto' is variances."""
    warnings.warn(
        f"A covariance of {n_features} features has too many numbers for moments="
        "'auto', so nodes send variances only, which take features for independent. "
        "Where they are correlated, the aggregate may be far from the pooled model. "
        "Have all nodes reduce their features alike, or set moments='shared' "
        f"({4e-6 * n_features**2:.0f} MB a node), or 'diagonal' if that is meant.",
        VariancesOnlyWarning,
        stacklevel=stacklevel + 1,
    )


def _first(found: dict) -> str:
    some = dict(list(found.items())[:_MAX_NAMES])
    more = f" and {len(found) - len(some)} others" if len(found) > len(some) else ""
    return f"{some}{more}"
