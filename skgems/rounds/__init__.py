# SPDX-License-Identifier: BSD-3-Clause
"""Rounds of local training and averaging, on lists of plain arrays."""

from ._loop import AllNodesFailed, Rounds, run_rounds
from ._mean import mean_parameters
from ._permutation import align_hidden_units, started_apart
from ._schedules import learning_rates, next_epochs, relative_change

__all__ = [
    "AllNodesFailed",
    "Rounds",
    "align_hidden_units",
    "learning_rates",
    "mean_parameters",
    "next_epochs",
    "relative_change",
    "run_rounds",
    "started_apart",
]
