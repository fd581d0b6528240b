# SPDX-License-Identifier: BSD-3-Clause
"""Who takes part in a federation, what they send each other, and how plans run."""

from ..messages import Message, SignatureError, sign, signing_keys
from ._calibration import inverse_temperature
from ._channel import InProcess, TooFewNodes
from ._described import DescribedNode, describe_nodes
from ._doubts import (
    warn_of_members,
    warn_of_variances,
)
from ._federation import Federation, Node
from ._nodes import PUBLIC, deal_rows, node_codes, node_names_of
from ._plan import answer, run
from ._reading import as_mask, check_feature_names, read_federation, told_members
from ._retraining import ask_to_retrain
from ._shares import Shares, ask_counts, ask_shares, counts_rows
from ._simulation import Simulation
from ._summarizing import (
    MIN_ROWS,
    ClassesLeftOutWarning,
    RowsExposedWarning,
    SummarizingMixin,
    member_of,
    summary_of,
    without_small_classes,
)
from ._summary import (
    AskAgainError,
    SummarizedMember,
    Summary,
    SummaryFile,
    is_path,
    load_message,
)
from ._warnings import (
    ClassWeightWarning,
    HeavyTailsWarning,
    NodesDisagreeWarning,
    SameRowsWarning,
    VariancesOnlyWarning,
)

__all__ = [
    "Message",
    "SignatureError",
    "sign",
    "signing_keys",
    "ClassesLeftOutWarning",
    "ClassWeightWarning",
    "HeavyTailsWarning",
    "VariancesOnlyWarning",
    "NodesDisagreeWarning",
    "SameRowsWarning",
    "RowsExposedWarning",
    "MIN_ROWS",
    "SummaryFile",
    "Summary",
    "SummarizingMixin",
    "SummarizedMember",
    "AskAgainError",
    "PUBLIC",
    "DescribedNode",
    "Federation",
    "InProcess",
    "Node",
    "Shares",
    "Simulation",
    "TooFewNodes",
    "answer",
    "as_mask",
    "ask_counts",
    "ask_shares",
    "ask_to_retrain",
    "check_feature_names",
    "counts_rows",
    "deal_rows",
    "describe_nodes",
    "inverse_temperature",
    "node_codes",
    "node_names_of",
    "read_federation",
    "run",
    "told_members",
    "warn_of_members",
    "warn_of_variances",
    "summary_of",
    "is_path",
    "load_message",
    "member_of",
    "without_small_classes",
]
