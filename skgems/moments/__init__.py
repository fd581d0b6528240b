# SPDX-License-Identifier: BSD-3-Clause
"""What rows say in sums and losses, made in blocks within ``working_memory``."""

from ._blocks import (
    block_bytes,
    float_type,
    indicator,
    ratio,
    row_blocks,
    square_blocks,
    working_bytes,
)
from ._class_moments import (
    SHARED,
    ClassMoments,
    class_moments,
    large_classes,
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
