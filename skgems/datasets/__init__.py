"""Rows of parties that cannot share them: a data set, and partitions of others."""

from ._labels import missing_labels
from ._partitions import (
    PUBLIC,
    PUBLIC_NAME,
    hold_out_public,
    partition_by_label,
    partition_dirichlet,
    partition_homogeneous,
    partition_mixing,
    shuffled_by_class,
)
from ._penguins import load_penguins

__all__ = [
    "hold_out_public",
    "load_penguins",
    "partition_by_label",
    "partition_dirichlet",
    "partition_homogeneous",
    "partition_mixing",
]
