# SPDX-License-Identifier: BSD-3-Clause
"""Sums of rows by label, as a sparse matrix."""

from __future__ import annotations

import numpy as np
from scipy import sparse


def indicator(
    labels: np.ndarray, n_labels: int, values: np.ndarray | None = None
) -> sparse.csc_matrix:
    """Sparse matrix (n_labels, n_rows) that sums rows by their label.

    `values`, of shape (n_rows,), are weights of the rows. None: 1.
    """
    values = np.ones(len(labels)) if values is None else values
    # Columns of one number each: in this form nothing has to be put in order.
    every = np.arange(len(labels) + 1)
    return sparse.csc_matrix((values, labels, every), shape=(n_labels, len(labels)))
