# SPDX-License-Identifier: BSD-3-Clause
"""Match the hidden units of networks by a Beta-Bernoulli process (PFNM)."""

from ._again import match_again
from ._atoms import Atoms
from ._layer import History, LayerMatch, match_layer
from ._network import NetworkMatch, match_networks, merged_layers, widen_classes
