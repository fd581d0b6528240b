# SPDX-License-Identifier: BSD-3-Clause
"""Averages of parameters, in one shot or in rounds of co-learning."""

from ._averages import StartedApartWarning
from ._averaging import ModelAveragingAggregator
from ._co_learning import CoLearning

__all__ = [
    "StartedApartWarning",
]
