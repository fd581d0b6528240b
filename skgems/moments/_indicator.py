# SPDX-License-Identifier: BSD-3-Clause
"""Sums of rows by label, as a sparse matrix."""

from __future__ import annotations

import numpy as np
from scipy import sparse


def indicator(
    labels: np.ndarray, n_labels: int, values: np.ndarray | None = None
) -> sparse.csc_matrix:
    """Matrix that sums what stands at each label.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,), int
        Below `n_labels`.
    n_labels : int
    values : ndarray of shape (n_rows,), default=None
        How much each row counts. None: 1.

    Returns
    -------
    matrix : csc_matrix of shape (n_labels, n_rows)

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.moments import indicator
    >>> indicator(np.array([0, 1, 0]), 2) @ np.array([[1.0], [5.0], [2.0]])
    array([[3.],
           [5.]])
    """
    values = np.ones(len(labels)) if values is None else values
    # Columns of one number each: in this form nothing has to be put in order.
    every = np.arange(len(labels) + 1)
    return sparse.csc_matrix((values, labels, every), shape=(n_labels, len(labels)))
