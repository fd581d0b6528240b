# SPDX-License-Identifier: BSD-3-Clause
"""Golden cases of skgems.datasets: which node gets which row."""

from __future__ import annotations

import numpy as np
from golden.data import digits, iris
from golden.records import indices

from skgems.datasets import (
    hold_out_public,
    partition_by_label,
    partition_dirichlet,
    partition_homogeneous,
    partition_mixing,
)

Y, STRINGS = digits("disjoint").y, digits("disjoint", strings=True).y
SOURCE = digits("disjoint").X[:, 20] > 0.4


def dealt(nodes):
    """The nodes of the rows, as a record."""
    return {"nodes": indices(nodes)}


CASES = {
    "by label": lambda: dealt(partition_by_label(Y, 3)),
    "by label shuffled": lambda: dealt(partition_by_label(Y, 3, random_state=0)),
    "homogeneous": lambda: dealt(partition_homogeneous(Y, 4, random_state=0)),
    "homogeneous strings": lambda: dealt(
        partition_homogeneous(STRINGS, 4, random_state=1)
    ),
    "homogeneous unstratified": lambda: dealt(
        partition_homogeneous(Y, 4, stratify=False, random_state=0)
    ),
    "homogeneous count": lambda: dealt(partition_homogeneous(50, 4, random_state=0)),
    "dirichlet": lambda: dealt(partition_dirichlet(Y, 3, alpha=0.5, random_state=0)),
    "dirichlet uneven": lambda: dealt(
        partition_dirichlet(Y, 4, alpha=0.1, min_size=5, random_state=1)
    ),
    "mixing": lambda: dealt(partition_mixing(SOURCE, mixing=0.4, random_state=0)),
    "public": lambda: dealt(
        hold_out_public(iris().nodes, 12, y=iris().y, random_state=0)
    ),
    "public of names": lambda: dealt(
        hold_out_public(np.array(["a", "b"])[iris().nodes], 12, random_state=0)
    ),
}
