"""Partitions of a data set over nodes, to simulate parties that cannot share rows."""

from ._partitions import (
    hold_out_public,
    partition_by_label,
    partition_dirichlet,
    partition_homogeneous,
    partition_mixing,
)

__all__ = [
    "hold_out_public",
    "partition_by_label",
    "partition_dirichlet",
    "partition_homogeneous",
    "partition_mixing",
]
