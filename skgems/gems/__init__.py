"""GEMS: one model in the intersection of the nodes' good-enough spaces."""

from ._further import Candidates, Rounds
from ._layers import (
    LastLayer,
    MergedLast,
    activation_of,
    last_layer_of_settings,
    last_layer_settings,
    settled_last_layer,
)
from ._logistic import GEMSLogisticAggregator
from ._mlp import GEMSMLPAggregator
from ._stage import calibration_plan

__all__ = ["Candidates", "Rounds"]
