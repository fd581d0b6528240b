"""A fitted classifier of any supported library, to plain arrays and back.

`read_network` makes a `Network` of a fitted classifier: dense layers, activations, and
the labels of the outputs, with affine steps of pipelines folded in. A linear model is a
network without hidden layers. `to_logistic_regression`, `to_mlp_classifier` and
`to_module` lead back.

>>> import numpy as np
>>> from sklearn.linear_model import LogisticRegression
>>> from skgems.networks import read_network
>>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array(["a", "b", "c"])
>>> network = read_network(LogisticRegression().fit(X, y), name="lyon")
>>> network.n_hidden_layers, network.classes.tolist()
(0, ['a', 'b', 'c'])
"""

from ._columns import (
    columns_dropped_by,
    dropped_columns,
    dropped_in_table,
    zero_dropped,
)
from ._inputs import chooses_columns, takes_documents, takes_missing_values
from ._module_state import ModuleState
from ._named_rows import NamedRows
from ._nets import evaluated, fingerprint, layer_tensors, row_dtype, row_width
from ._network import (
    ACTIVATIONS,
    N_ROWS,
    TOLERANCE,
    Coordinates,
    Layers,
    LayersBelow,
    Network,
    activate,
    as_labels,
    as_two_logits,
    check_finite,
    common_dtype,
    linear_logits,
    one_per_layer,
    squared_slopes,
    union_of_classes,
)
from ._read import (
    SUMMED,
    check_outputs_fit,
    check_state_fits,
    count_outputs,
    is_constant,
    is_fitted,
    is_skorch,
    keeps_nonlinearity,
    last_layer,
    module_of,
    net_probabilities,
    output_labels,
    output_link,
    output_parameters,
    outputs_of_made_up_rows,
    read_network,
    sets_probabilities,
    why_forwards_differ,
)
from ._sklearn import (
    final_step,
    label_array,
    linear_attributes,
    to_logistic_regression,
    to_mlp_classifier,
    to_module,
    unwrap,
)
