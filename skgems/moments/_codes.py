"""Products of columns of codes, such as of categories: told with noise of one row.

Which rows have two rare codes follows from whole numbers by programs, however many rows
are behind each number. So each product of two columns of two values gets a whole number
of -1, 0 or 1 times what one row more would add.
"""

import numpy as np
from scipy import sparse

from ._rows import SAMPLE_ROWS, Rows


def code_units(X: Rows, rows: np.ndarray) -> np.ndarray:
    """Return by how much both values of each column differ, (n_columns,).

    It is 0 for columns that have more values than two, or one, in some rows.
    """
    if sparse.issparse(X):
        return _code_units_of_sparse(X[rows])
    # A few rows tell most columns of many values.
    columns = np.flatnonzero(_are_ends(X[rows[:SAMPLE_ROWS]]))
    values = X[np.ix_(rows, columns)]
    is_code = _are_ends(values)
    units = np.zeros(X.shape[1])
    values = values[:, is_code]
    units[columns[is_code]] = values.max(axis=0).astype(float) - values.min(axis=0)
    return units


def _are_ends(X: np.ndarray) -> np.ndarray:
    """Return which columns have no values between the lowest and the highest one."""
    return ((X == X.min(axis=0)) | (X == X.max(axis=0))).all(axis=0)


def _code_units_of_sparse(X: sparse.csr_matrix) -> np.ndarray:
    X = X.tocsc()
    units = np.zeros(X.shape[1])
    for j in range(X.shape[1]):
        values = X.data[X.indptr[j] : X.indptr[j + 1]]
        has_one_value = len(values) and (values == values[0]).all()
        if has_one_value and len(values) < X.shape[0]:
            units[j] = abs(float(values[0]))
    return units


def with_noise(
    scatter: np.ndarray, units: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return products in which those of two columns of codes have noise.

    Where a matrix is not definite with it, small eigenvalues are raised to 0.
    """
    columns = np.flatnonzero((units > 0) & (scatter.diagonal() > 0))
    if len(columns) < 2:
        return scatter
    noise = np.triu(rng.integers(-1, 2, (len(columns), len(columns))), 1)
    sizes = np.outer(units[columns], units[columns])
    scatter = scatter.copy()
    scatter[np.ix_(columns, columns)] += (noise + noise.T) * sizes
    values, vectors = np.linalg.eigh(scatter)
    if values[0] >= 0:
        return scatter
    raised = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return (raised + raised.T) / 2
