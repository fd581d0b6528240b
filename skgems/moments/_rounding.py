# SPDX-License-Identifier: BSD-3-Clause
"""Sizes that sums of squares can hold, and deviations that are only rounding."""

import numpy as np
from scipy import linalg, sparse

from ._blocks import float_type

# Of a weight, a feature or a distance, and of a sum of squares: far beyond what anybody
# has, and so that no product that is made of them on the way overflows.
LARGEST, LARGEST_SQUARE = 1e25, 1e50
LARGEST_FLOAT32 = 1e15
SMALLEST, SMALLEST_SQUARE = 1e-25, 1e-50
# Deviations whose squares lose digits, or are 0.
_LEAST, _LEAST_FLOAT32 = 1e-100, 1e-17
# A feature that is constant deviates by a few units in the last place of its size.
_ULPS = 8


def rounding(sizes: np.ndarray, X) -> np.ndarray:
    """Root mean square deviations up to which features of some rows are constant.

    ``sizes`` are magnitudes about 0. Sparse rows have lost the digits of the mean.
    """
    dtype = float_type(X)
    relative = _ULPS * np.finfo(dtype).eps
    if sparse.issparse(X):
        relative = max(relative, np.sqrt(max(X.shape[0], 50) * np.finfo(float).eps))
    least = _LEAST_FLOAT32 if dtype == np.float32 else _LEAST
    return np.maximum(relative * sizes, least)


def rounding_of_values(values: np.ndarray) -> np.ndarray:
    """The same where only some values of each feature are known, one a row.

    What float32 rows have in common at a node is a float32 number.
    """
    with np.errstate(over="ignore"):
        narrow = (values == values.astype(np.float32)).all(axis=0)
    eps = np.where(narrow, np.finfo(np.float32).eps, np.finfo(np.float64).eps)
    least = np.where(narrow, _LEAST_FLOAT32, _LEAST)
    return np.maximum(_ULPS * eps * np.abs(values).max(axis=0, initial=0.0), least)


def clear_constants(scatter: np.ndarray, least: np.ndarray) -> None:
    """Set to 0, in place, features whose squares are not above the least."""
    squares = scatter if scatter.ndim == 1 else scatter.diagonal()
    constant = np.flatnonzero(squares <= least)
    scatter[constant] = 0.0
    scatter[..., constant] = 0.0


def directions(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Roots of the eigenvalues of products of rows, and vectors, but for rounding."""
    values, vectors = linalg.eigh(kernel)
    kept = values > len(values) * np.finfo(np.float64).eps * values[-1:]
    return np.sqrt(values[kept]), vectors[:, kept]


def check_sizes(sizes: np.ndarray, squares: np.ndarray, dtype) -> None:
    """Raise ValueError, which names a feature, where sums do not hold what rows have.

    ``sizes`` are magnitudes about 0, ``squares`` sums of squared deviations.
    """
    limit = LARGEST_FLOAT32 if dtype == np.float32 else LARGEST
    wrong = np.flatnonzero(~((sizes <= limit) & (squares <= limit**2)))
    if not len(wrong):
        return
    also = f" (and {len(wrong) - 1} others)" if len(wrong) > 1 else ""
    raise ValueError(
        f"feature {wrong[0]}{also} is too large to be squared and summed: values in "
        f"{np.dtype(dtype)} may be up to {limit:g}. Give it in larger units, the same "
        "at all nodes."
    )


def check_rows(X) -> None:
    """Raise ValueError, which names a feature, where rows are too large for sums."""
    ends = [X.max(axis=0), X.min(axis=0)]
    ends = [end.toarray().ravel() if sparse.issparse(end) else end for end in ends]
    sizes = np.abs(ends).max(axis=0)
    check_sizes(sizes, np.zeros_like(sizes), float_type(X))
