"""scikit-learn's protocol for aggregators: members, clone, prediction, export.

It reads no rows but to validate them.
"""

from ._aggregator import BaseAggregator, Features
from ._export import (
    NetworkExportMixin,
    TunedNetworkMixin,
    layer_attributes,
    linear_attributes,
    tuned_attributes,
)
from ._labels import check_no_label_missing, encode_labels
from ._members import (
    PUBLIC_NAME,
    MemberParametersMixin,
    is_channel,
    is_named,
    named_members,
    seeded_clone,
    split_by_state,
)
from ._versions import show_versions, versions
from ._warnings import (
    as_own_warnings,
    at_another_party,
    keeps_warnings,
    noted_warnings,
    silenced,
    warn_user,
)

__all__ = ["BaseAggregator", "MemberParametersMixin", "NetworkExportMixin"]
