"""A data set of three nodes, and partitions that deal the rows of others to nodes.

A partition takes labels and returns the node of each row, which ``fit`` takes as
``nodes``. `load_penguins` returns rows whose nodes are three islands. Begin with
`partition_by_label` and `partition_dirichlet`.

>>> import numpy as np
>>> from skgems.datasets import partition_by_label
>>> partition_by_label(np.array([0, 1, 2, 3, 0]), 2)
array([0, 0, 1, 1, 0])
"""

from ._groups import as_groups, parts_of_groups, shuffled_by_class
from ._labels import PUBLIC, PUBLIC_NAME, missing_labels
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
