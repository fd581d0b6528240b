"""Fine-tuning on public rows, and learning rates and means for rounds of training.

`fine_tune_linear` and `fine_tune_network` fine-tune a fitted model on public rows.
`learning_rates` and `mean_parameters` are for rounds of training.

>>> from skgems.tuning import learning_rates
>>> learning_rates(1.0, epochs=2, decay=0.25).tolist()
[0.5, 0.25]
"""

from ._alignment import align_hidden_units, started_apart
from ._likelihood import ROUGH_TOL, TOL, tune_likelihood
from ._linear import FineTuned, fine_tune_linear
from ._mean import Weight, mean_parameters, median_parameters
from ._network import FineTunedNetwork, fine_tune_network, train_plainly
from ._rounds import learning_rates, relative_change
from ._sizes import array_sizes, times_larger
