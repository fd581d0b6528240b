"""Good-enough spaces of hidden units, and merging the units of several nodes."""

from ._merging import MergedLayer, merge_neurons
from ._spaces import (
    HIDDEN_GEOMETRIES,
    NeuronSpaces,
    build_neuron_spaces,
    neuron_importances,
)
