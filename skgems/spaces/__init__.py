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
    "Accuracy",
    "Ball",
    "Certified",
    "Construction",
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
    "NoSpaceError",
    "Registered",
    "Sampled",
    "SpaceProfile",
    "build_space",
    "intersect",
]
