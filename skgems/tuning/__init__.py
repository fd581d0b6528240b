"""Tuning by public rows, calibration, and rounds of training: rates and means."""

from ._linear import FineTuned, fine_tune_linear, tune_likelihood
from ._network import (
    N_GRIDS,
    FineTunedNetwork,
    TemperatureSearch,
    fine_tune_network,
    fit_inverse_temperature,
    train_plainly,
)
from ._rounds import (
    Weight,
    align_hidden_units,
    learning_rates,
    mean_parameters,
    relative_change,
    started_apart,
)
from ._sizes import array_sizes, times_larger
