"""Schedules of rates and epochs, and means of parameters, on plain arrays."""

from ._rounds import (
    Weight,
    align_hidden_units,
    learning_rates,
    mean_parameters,
    relative_change,
    started_apart,
)
from ._sizes import array_sizes, times_larger
