# SPDX-License-Identifier: BSD-3-Clause
"""What public rows do to a finished model, and calibration."""

from ._calibration import N_GRIDS, TemperatureSearch, fit_inverse_temperature
from ._likelihood import tune_likelihood
from ._linear import FineTuned, fine_tune_linear
from ._network import FineTunedNetwork, fine_tune_network, train_layers, train_plainly

__all__ = [
    "N_GRIDS",
    "FineTuned",
    "FineTunedNetwork",
    "TemperatureSearch",
    "fine_tune_linear",
    "fine_tune_network",
    "fit_inverse_temperature",
    "train_layers",
    "train_plainly",
    "tune_likelihood",
]
