# SPDX-License-Identifier: BSD-3-Clause
"""What rows say in sums and losses, made in blocks within ``working_memory``."""

from ._blocks import float_type, row_blocks, square_blocks, working_bytes
from ._class_moments import SHARED, ClassMoments, class_moments, merge_moments
from ._gaussian import GaussianLoss
from ._likelihood import Likelihood, NodeLoss, share_of_gradient
from ._losses import log_losses, mean_log_loss
from ._moments import Moments, clear_constants, mean_squares, row_moments

__all__ = [
    "SHARED",
    "ClassMoments",
    "GaussianLoss",
    "Likelihood",
    "Moments",
    "NodeLoss",
    "class_moments",
    "clear_constants",
    "float_type",
    "log_losses",
    "mean_log_loss",
    "mean_squares",
    "merge_moments",
    "row_blocks",
    "row_moments",
    "share_of_gradient",
    "square_blocks",
    "working_bytes",
]
