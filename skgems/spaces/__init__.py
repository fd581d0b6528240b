# SPDX-License-Identifier: BSD-3-Clause
"""Good-enough model spaces of linear models, and their intersection, on plain arrays.

A space is a geometry (which shape) times a criterion (what is good enough) times a
construction (sampled or certified).
"""

from ._accuracy import AccuracyProfile, accuracy_profile
from ._conflicts import largest_coalition
from ._construction import (
    CONSTRUCTIONS,
    Certified,
    Construction,
    Sampled,
    as_construction,
)
from ._criterion import Accuracy, Criterion, LogLoss, as_criterion
from ._geometry import GEOMETRIES, Ball, Ellipsoid, Geometry, Gram, as_geometry
from ._intersection import (
    EmptyIntersectionError,
    EmptyIntersectionWarning,
    Intersection,
    NoSpaceError,
    intersect,
    likeliest,
)
from ._loss import LossProfile, loss_profile
from ._metric import (
    DiagonalMetric,
    GramMetric,
    ball_metric,
    combine_metrics,
    ellipsoid_metric,
    fisher_precision,
    gram_metric,
)
from ._outputs import fill_unseen, logits_on_rows, on_one_scale
from ._profile import SpaceProfile, build_space, profile_space
from ._registered import Registered
from ._space import GoodEnoughSpace

__all__ = [
    "CONSTRUCTIONS",
    "GEOMETRIES",
    "Certified",
    "Construction",
    "Sampled",
    "Accuracy",
    "AccuracyProfile",
    "Ball",
    "Criterion",
    "DiagonalMetric",
    "Ellipsoid",
    "EmptyIntersectionError",
    "EmptyIntersectionWarning",
    "Geometry",
    "GoodEnoughSpace",
    "Gram",
    "GramMetric",
    "Intersection",
    "LogLoss",
    "LossProfile",
    "NoSpaceError",
    "SpaceProfile",
    "Registered",
    "accuracy_profile",
    "as_construction",
    "as_criterion",
    "as_geometry",
    "ball_metric",
    "build_space",
    "combine_metrics",
    "ellipsoid_metric",
    "fill_unseen",
    "fisher_precision",
    "gram_metric",
    "intersect",
    "largest_coalition",
    "likeliest",
    "logits_on_rows",
    "loss_profile",
    "on_one_scale",
    "profile_space",
]
