"""Tuning by public rows, calibration, and rounds of training: rates and means.

Functions that do something to a finished model: `fine_tune_linear` and
`fine_tune_network` let public rows move it, `fit_inverse_temperature` calibrates its
probabilities. `learning_rates` and `mean_parameters` are for rounds of training.

>>> import numpy as np
>>> from skgems.tuning import fit_inverse_temperature
>>> logits = np.array([[9.0, 0.0]] * 4)  # as if all rows were of the first class
>>> factor = fit_inverse_temperature(logits, np.array([0, 0, 0, 1]))
>>> factor < 1  # one of four is not, so that probabilities have to be less sure
True
"""

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
