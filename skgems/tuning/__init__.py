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

from ._alignment import align_hidden_units, started_apart
from ._likelihood import tune_likelihood
from ._linear import FineTuned, fine_tune_linear
from ._mean import Weight, mean_parameters
from ._network import FineTunedNetwork, fine_tune_network, train_plainly
from ._rounds import learning_rates, relative_change
from ._sizes import array_sizes, times_larger
from ._temperature import N_GRIDS, TemperatureSearch, fit_inverse_temperature
