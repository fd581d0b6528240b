"""Products of columns of codes, such as of categories: told with noise of one row.

Which rows have two rare codes follows from whole numbers by programs, however many rows
are behind each number. So each product of two columns of two values gets a whole number
of -1, 0 or 1 times what one row more would add. It is always the same for the same two
columns of the same rows, whatever their units are and what other columns are told with
them: of noise that is drawn anew each time nothing would be left in the mean.
"""

import hashlib
from collections.abc import Sequence

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


def drawn_noise(n_columns: int, rng: np.random.Generator) -> np.ndarray:
    """Return numbers of rows to add to products of columns, (n_columns, n_columns)."""
    noise = np.triu(rng.integers(-1, 2, (n_columns, n_columns)), 1)
    return noise + noise.T


def noise_of_rows(
    X: Rows, units: np.ndarray, groups: Sequence[np.ndarray]
) -> np.ndarray:
    """Return numbers of rows to add to products, which follow from the rows.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_columns)
    units : ndarray of shape (n_columns,)
        By how much the two values of columns of codes differ; 0: it has others.
    groups : sequence of ndarray
        Indices of rows. Products are summed over all groups, each of which has noise of
        its own in columns that vary in it.

    Returns
    -------
    noise : ndarray of shape (n_columns, n_columns)
    """
    columns = np.flatnonzero(units > 0)
    values = X[:, columns]
    values = values.toarray() if sparse.issparse(values) else values
    has_value = values == values[np.concatenate(groups)].max(axis=0)
    # Of both values the first row's is 0. With the other one as 1 signs are others.
    signs = np.where(has_value[0], -1, 1)
    has_value ^= has_value[0]
    keys = np.array([_key(has_value[:, j]) for j in range(len(columns))], np.uint64)
    of_pairs = np.zeros((len(columns), len(columns)), dtype=int)
    for rows in groups:
        is_in_group = np.zeros(X.shape[0], dtype=bool)
        is_in_group[rows] = True
        of_group = has_value[rows]
        varies = of_group.any(axis=0) & ~of_group.all(axis=0)
        drawn = _drawn_of_keys(keys, _key(is_in_group))
        of_pairs += drawn * np.outer(varies, varies)
    np.fill_diagonal(of_pairs, 0)
    noise = np.zeros((X.shape[1], X.shape[1]))
    noise[np.ix_(columns, columns)] = of_pairs * np.outer(signs, signs)
    return noise


def _key(is_one: np.ndarray) -> int:
    """Return 64 bits that follow from which rows have one of two values."""
    content = np.packbits(is_one).tobytes()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def _drawn_of_keys(keys: np.ndarray, key_of_group: int) -> np.ndarray:
    """Return -1, 0 or 1 for each pair of columns, the same in both orders."""
    of_sums = _mixed(keys[:, None] + keys)
    of_differences = _mixed((keys[:, None] ^ keys) + np.uint64(key_of_group))
    return (_mixed(of_sums + of_differences) % np.uint64(3)).astype(int) - 1


def _mixed(x: np.ndarray) -> np.ndarray:
    """Return 64 bits that each depend on all bits of another 64 (SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def with_noise(scatter: np.ndarray, units: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return products in which those of two columns of codes have noise.

    Where a matrix is not definite with it, small eigenvalues are raised to 0.
    """
    columns = np.flatnonzero((units > 0) & (scatter.diagonal() > 0))
    if len(columns) < 2:
        return scatter
    pairs = np.ix_(columns, columns)
    scatter = scatter.copy()
    scatter[pairs] += noise[pairs] * np.outer(units[columns], units[columns])
    values, vectors = np.linalg.eigh(scatter)
    if values[0] >= 0:
        return scatter
    raised = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return (raised + raised.T) / 2
