"""Matrices that sum rows by label, which moments of rows are made with as well."""

import numpy as np
from scipy import sparse


def indicator(
    labels: np.ndarray, n_labels: int, values: np.ndarray | None = None
) -> sparse.csc_matrix:
    """Sparse matrix (n_labels, n_rows) that sums rows, times values, by label."""
    if values is None:
        values = np.ones(len(labels))
    # Columns of one number each: in this form nothing has to be put in order.
    column_ends = np.arange(len(labels) + 1)
    return sparse.csc_matrix(
        (values, labels, column_ends), shape=(n_labels, len(labels))
    )
