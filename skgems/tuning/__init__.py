"""What public rows do to a finished model, and calibration."""

from ._linear import FineTuned, fine_tune_linear, tune_likelihood
from ._network import (
    N_GRIDS,
    FineTunedNetwork,
    TemperatureSearch,
    fine_tune_network,
    fit_inverse_temperature,
    train_plainly,
)
