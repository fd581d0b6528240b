"""A fitted classifier of any supported library, to plain arrays and back."""

from ._inputs import takes_documents, takes_missing_values
from ._network import (
    ACTIVATIONS,
    Coordinates,
    HiddenLayers,
    Layers,
    Network,
    activate,
    check_finite,
    common_dtype,
    linear_logits,
    one_per_layer,
    squared_slopes,
    union_of_classes,
)
from ._read import (
    SUMMED,
    count_outputs,
    is_constant,
    is_fitted,
    is_skorch,
    last_layer,
    module_of,
    output_labels,
    output_link,
    output_parameters,
    read_network,
)
from ._sklearn import label_array, to_logistic_regression, to_mlp_classifier, to_module
from ._wrappers import final_step, unwrap
