"""Rows of parties that cannot share them: a data set, and partitions of others."""

from ._partitions import (
    hold_out_public,
    partition_by_label,
    partition_dirichlet,
    partition_homogeneous,
    partition_mixing,
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
