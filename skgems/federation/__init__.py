# SPDX-License-Identifier: BSD-3-Clause
"""Who takes part in a federation: nodes, their rows, classes and weights."""

from ._federation import Federation, Node
from ._nodes import PUBLIC, deal_rows, hold_out, node_codes, node_names_of
from ._reading import as_mask, check_feature_names, read_federation
from ._shares import Shares, read_shares
from ._simulation import Simulation

__all__ = [
    "PUBLIC",
    "Federation",
    "Node",
    "Shares",
    "Simulation",
    "as_mask",
    "check_feature_names",
    "deal_rows",
    "hold_out",
    "node_codes",
    "node_names_of",
    "read_federation",
    "read_shares",
]
