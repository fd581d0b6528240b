# SPDX-License-Identifier: BSD-3-Clause
"""What rows say in sums and losses, made in blocks within ``working_memory``."""

from ._blocks import (
    block_bytes,
    float_type,
    indicator,
    row_blocks,
    square_blocks,
    working_bytes,
)
from ._class_moments import (
    SHARED,
    ClassMoments,
    RowSums,
    class_moments,
    median_of_rows,
    merge_moments,
    moments_kind,
)
from ._descent import Descent
from ._gaussian import GaussianLoss
from ._k_means import k_means
from ._likelihood import Likelihood, NodeLoss, share_of_gradient
from ._moments import (
    Moments,
    about_origin,
    log_losses,
    mean_log_loss,
    mean_squares,
    row_moments,
)
from ._parts import draw_rows, fewer_parts
from ._pooled import (
    PooledForm,
    common_form,
    pooled_lda,
    pooled_nearest_centroid,
    pooled_ridge,
)
from ._rounding import (
    LARGEST,
    LARGEST_FLOAT32,
    LARGEST_SQUARE,
    SMALLEST,
    SMALLEST_SQUARE,
    check_rows,
    directions,
    rounding,
)
from ._span import Span

__all__ = [
    "LARGEST",
    "LARGEST_FLOAT32",
    "LARGEST_SQUARE",
    "SHARED",
    "SMALLEST",
    "SMALLEST_SQUARE",
    "ClassMoments",
    "Descent",
    "GaussianLoss",
    "Likelihood",
    "Moments",
    "NodeLoss",
    "PooledForm",
    "RowSums",
    "Span",
    "block_bytes",
    "indicator",
    "class_moments",
    "about_origin",
    "check_rows",
    "common_form",
    "directions",
    "draw_rows",
    "fewer_parts",
    "float_type",
    "k_means",
    "log_losses",
    "mean_log_loss",
    "mean_squares",
    "median_of_rows",
    "merge_moments",
    "moments_kind",
    "pooled_lda",
    "pooled_nearest_centroid",
    "pooled_ridge",
    "rounding",
    "row_blocks",
    "row_moments",
    "share_of_gradient",
    "square_blocks",
    "working_bytes",
]
