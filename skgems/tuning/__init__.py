"""What public rows do to a finished model, and calibration."""

from ._calibration import N_GRIDS, TemperatureSearch, fit_inverse_temperature
from ._linear import FineTuned, fine_tune_linear, tune_likelihood
from ._network import FineTunedNetwork, fine_tune_network, train_layers, train_plainly
