# SPDX-License-Identifier: BSD-3-Clause
"""Good-enough model spaces of linear models, on plain arrays."""

from ._accuracy import AccuracyProfile, accuracy_profile
from ._conflicts import largest_coalition, pairwise_conflicts
from ._intersection import Intersection, intersect
from ._loss import LossProfile, loss_profile
from ._metric import (
    DiagonalMetric,
    GramMetric,
    ball_metric,
    combine_metrics,
    ellipsoid_metric,
    gram_metric,
)
from ._space import GoodEnoughSpace, build_space

__all__ = [
    "AccuracyProfile",
    "DiagonalMetric",
    "GoodEnoughSpace",
    "GramMetric",
    "Intersection",
    "LossProfile",
    "accuracy_profile",
    "ball_metric",
    "build_space",
    "combine_metrics",
    "ellipsoid_metric",
    "gram_metric",
    "intersect",
    "largest_coalition",
    "loss_profile",
    "pairwise_conflicts",
]
