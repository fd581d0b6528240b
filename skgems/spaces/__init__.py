"""Good-enough spaces of linear models and of hidden units, and their intersection.

A space has a geometry, which is its shape, and a criterion, which says what is good
enough. A construction finds its size: sampled or certified. `build_space` makes the
space of one node's model and rows, and `intersect` finds a model in several spaces.
`build_neuron_spaces` and `merge_neurons` do the same for hidden units.

>>> import numpy as np
>>> from skgems.spaces import GoodEnoughSpace, ball_metric, intersect
>>> metric = ball_metric(2, np.array([True, True]))
>>> centers = [np.array([[-1.0, 1.0], [0.0, 0.0]]), np.array([[-3.0, 3.0], [0.0, 0.0]])]
>>> spaces = [
...     GoodEnoughSpace(center=W, metric=metric, radius=2.0, epsilon=0.9)
...     for W in centers
... ]
>>> found = intersect(spaces)
>>> found.found, [bool(space.distance(found.point) <= 2.0 + 1e-6) for space in spaces]
(True, [True, True])
"""

from ._common_units import (
    draw_common_units,
    pooled_input_moments,
    with_common_units,
)
from ._diagonal import DiagonalMetric
from ._geometry import GEOMETRIES, Ball, Ellipsoid, Geometry, Gram, as_geometry
from ._gram import GramMetric
from ._intersection import (
    EmptyIntersectionError,
    EmptyIntersectionWarning,
    Intersection,
    intersect,
    likeliest,
)
from ._margins import MOST_ROWS
from ._metric import (
    Metric,
    combine_metrics,
    diagonal,
    mean_matrix,
    n_constrained,
    ray_map,
    row_norms,
    select_outputs,
    squared_norm,
    weighted_sum,
    with_free,
)
from ._neuron_merging import MergedLayer, merge_neurons
from ._neuron_spaces import (
    HIDDEN_GEOMETRIES,
    NeuronSpaces,
    build_neuron_spaces,
    neuron_importances,
)
from ._outputs import fill_unseen, logits_on_rows, normalize_logits
from ._parts import (
    CONSTRUCTIONS,
    Accuracy,
    Certified,
    Construction,
    Criterion,
    LogLoss,
    Registered,
    Sampled,
    as_construction,
    as_criterion,
)
from ._profile import SpaceProfile, build_space, profile_space
from ._radii import AccuracyProfile, LossProfile, accuracy_profile, loss_profile
from ._space import (
    GoodEnoughSpace,
    NoSpaceError,
    ball_metric,
    ellipsoid_metric,
    factor_kept_inside,
    gram_metric,
)

__all__ = ["Accuracy", "Ball", "Certified", "Construction", "Criterion"]
__all__ += ["Ellipsoid", "EmptyIntersectionError"]
__all__ += ["EmptyIntersectionWarning", "Geometry", "GoodEnoughSpace", "Gram"]
__all__ += ["GramMetric", "Intersection", "LogLoss", "Metric", "NoSpaceError"]
__all__ += ["Registered"]
__all__ += ["Sampled", "build_space", "intersect"]
