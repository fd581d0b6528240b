"""Averages of parameters, in one shot or in rounds of co-learning."""

from ._averages import CoLearning, StartedApartWarning
from ._averaging import ModelAveragingAggregator
from ._downpour import Downpour

__all__ = ["Downpour", "StartedApartWarning"]
