# SPDX-License-Identifier: BSD-3-Clause
"""A fitted classifier of any supported library, to plain arrays and back."""

from ._classes import align_outputs, union_of_classes
from ._network import Network
from ._read import is_fitted, read_network
from ._write import to_logistic_regression, to_mlp_classifier, to_module

__all__ = [
    "Network",
    "align_outputs",
    "is_fitted",
    "read_network",
    "to_logistic_regression",
    "to_mlp_classifier",
    "to_module",
    "union_of_classes",
]
