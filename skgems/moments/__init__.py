"""What rows say in sums and losses, made in blocks within ``working_memory``."""

from ._class_moments import (
    SHARED,
    ClassMoments,
    class_moments,
    deviations,
    large_classes,
    median_of_rows,
    merge_moments,
    moments_kind,
    products,
    weighted_mean,
)
from ._class_sums import MOST_CATEGORIES, ClassSums
from ._clusters import (
    CLUSTER_ROWS,
    SAMPLE_ROWS,
    Centres,
    cluster_classes,
    inverse_deviations,
)
from ._descent import Descent
from ._effective_rows import EffectiveRows
from ._fewer import Span, draw_rows, fewer_parts, k_means
from ._gaussian import GaussianLoss
from ._likelihood import Likelihood, NodeLoss, share_of_gradient
from ._node_means import NodeMeans
from ._rows import (
    LARGEST,
    LARGEST_FLOAT32,
    LARGEST_SQUARE,
    SMALLEST,
    SMALLEST_SQUARE,
    Moments,
    about_origin,
    block_bytes,
    check_rows,
    column_ends,
    directions,
    float_type,
    indicator,
    log_losses,
    mean_log_loss,
    mean_squares,
    ratio,
    rounding,
    row_blocks,
    row_moments,
    square_blocks,
    working_bytes,
)
