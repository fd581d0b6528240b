# SPDX-License-Identifier: BSD-3-Clause
"""Schedules of rates and epochs, and means of parameters, on plain arrays."""

from ._permutation import align_hidden_units, started_apart
from ._rounds import Weight, learning_rates, mean_parameters, relative_change
