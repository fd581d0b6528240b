"""What rows say in sums and losses, made in blocks within ``working_memory``.

`class_moments` makes counts, means and second moments of labeled rows, by class or
cluster; `merge_moments` adds up those of several nodes. A `Likelihood` is the loss that
is made of them and of gradients, and its minimum is a linear model. The factor on
logits that makes labels most likely is sought here, too (`fit_inverse_temperature`).
Linear classifiers that are functions of sums are made of moments by `PooledForm`.
This room knows arrays and nothing of nodes or estimators.

>>> import numpy as np
>>> from skgems.moments import class_moments, merge_moments
>>> X, codes = np.array([[0.0], [2.0], [5.0], [7.0]]), np.array([0, 0, 1, 1])
>>> halves = [class_moments(X[k::2], codes[k::2], kind="class") for k in range(2)]
>>> merged = merge_moments(halves).by_class()
>>> (merged.origin + merged.means).ravel().tolist()
[1.0, 6.0]
"""

from ._class_moments import (
    SHARED,
    ClassMoments,
    ToldSums,
    class_moments,
    deviations,
    large_classes,
    merge_moments,
    moments_kind,
    weighted_mean,
)
from ._class_sums import MOST_CATEGORIES, ClassSums
from ._class_weights import weights_of
from ._clusters import (
    CLUSTER_ROWS,
    Centers,
    cluster_classes,
    inverse_deviations,
)
from ._codes import drawn_noise, with_noise
from ._cross_validation import cross_validated_C
from ._descent import Descent
from ._effective_rows import EffectiveRows
from ._equations import Root
from ._fewer import draw_rows, fewer_parts, k_means
from ._forms import PooledForm
from ._gaussian import GaussianLoss
from ._liars import (
    Contradictions,
    NodeClaim,
    Trust,
    check_most_liars,
    claims_of_moments,
    contradicting_nodes,
    trusted_nodes,
)
from ._likelihood import MOST_PARTS, Likelihood
from ._likelihood_search import REMEMBERED_STEPS
from ._node_loss import NodeLoss, share_of_gradient
from ._node_means import NodeMeans
from ._part_sums import median_of_rows, products
from ._promises import PROMISE, Rounding, SumPrecision, quadratic_rounding
from ._rows import (
    CACHE_BYTES,
    LARGEST,
    LARGEST_FLOAT32,
    MOST_BLOCK_BYTES,
    MOST_NUMBERS,
    ROUNDING_OF_SUMS,
    SAMPLE_ROWS,
    SMALLEST,
    SURE,
    ULPS,
    Moments,
    block_bytes,
    bytes_of_copies,
    check_rows,
    column_ends,
    directions,
    float_type,
    log_losses,
    mean_log_loss,
    mean_squares,
    move_to_origin,
    ratio,
    rounding,
    row_blocks,
    row_moments,
    square_blocks,
    working_bytes,
)
from ._solutions import weighted_sums
from ._span import Span
from ._temperature import (
    INDEX_OF_FACTOR_ONE,
    LOGIT_FACTORS,
    MOST_GRIDS,
    TemperatureSearch,
    fit_inverse_temperature,
    told_losses,
)
