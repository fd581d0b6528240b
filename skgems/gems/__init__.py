"""GEMS: one model in the intersection of the nodes' good-enough spaces."""

from ._further import Candidates, Rounds
from ._layers import LastLayer, MergedLast, activation_of
from ._logistic import GEMSLogisticAggregator
from ._mlp import GEMSMLPAggregator
from ._stage import calibration_plan

__all__ = ["Candidates", "Rounds"]
