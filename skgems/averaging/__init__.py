"""Averages of parameters, in one shot or in rounds of co-learning."""

from ._averages import CoLearning, StartedApartWarning
from ._averaging import ModelAveragingAggregator

__all__ = ["StartedApartWarning"]
