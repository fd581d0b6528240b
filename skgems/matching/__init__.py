"""Match the hidden units of networks by a Beta-Bernoulli process (PFNM)."""

from ._layer import Atoms, History, LayerMatch, match_layer
from ._network import (
    NetworkMatch,
    match_again,
    match_networks,
    merged_layers,
    widen_classes,
)
