"""Rows in blocks, how exactly they are summed, and their second moments.

Sums over rows X, (n_rows, n_features), are made by products of a few matrices, such as

    one_hot X  of shape (n_classes, n_features),    X^T X,    (X * X)^T w,

block by block, so that copies stay in a cache. A feature is constant if its deviations
are no more than rounding leaves of equal numbers; it is exactly constant then, with
deviations of 0, so that nobody takes what rounding made for what the feature says.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg, sparse
from scipy.special import logsumexp
from sklearn import get_config
from sklearn.utils.extmath import safe_sparse_dot

Rows = np.ndarray | sparse.csr_matrix  # (n_rows, n_features), of floats

# Numbers that one array of a fit may have: 64 MB.
MOST_NUMBERS = 2**23
# Rows whose products with each other are one matrix, of 128 MB: the time that its
# eigenvectors take is the limit.
MOST_OF_SQUARE = 4000
# Rows of a sample that stands for all: a mean of so many is within a fifth
# (1 / sqrt(25)) of a deviation, and a median of them is that of most, though one may be
# far off. Columns of many values have more than two in so many rows.
SAMPLE_ROWS = 25
# Bytes that are worked on at a time, and more than once, to stay in the cache of one
# core: half of one of 1 MiB.
CACHE_BYTES = 2**19
# Bytes that are worked on once stay in the cache that cores share: 4 MiB.
MOST_BLOCK_BYTES = 2**22


def working_bytes() -> int:
    """scikit-learn's ``working_memory``, which is in MiB, in bytes."""
    return int(get_config()["working_memory"] * 2**20)


def bytes_of_copies() -> int:
    """Return the part of ``working_memory`` for rows of which there are some copies."""
    return working_bytes() // 16


def block_bytes() -> int:
    """Bytes of rows to copy at a time: what a cache and ``working_memory`` hold."""
    return min(max(bytes_of_copies(), 2**20), MOST_BLOCK_BYTES)


def float_type(X: Rows) -> np.dtype:
    """float32 of float32 rows, otherwise float64."""
    return np.dtype(np.float32 if X.dtype == np.float32 else np.float64)


def ratio(
    values: np.ndarray | float, sizes: np.ndarray, otherwise: float = 0.0
) -> np.ndarray:
    """Values over sizes, and `otherwise` where a size is not positive."""
    ratios = np.full(np.broadcast_shapes(np.shape(values), sizes.shape), otherwise)
    return np.divide(values, sizes, out=ratios, where=sizes > 0)


def row_blocks(X: Rows, bytes_per_row: int, limit: int) -> list[slice]:
    """Slices over the rows of X, each within `limit` bytes (one row at least)."""
    n_rows = X.shape[0]
    size = max(1, min(n_rows, limit // max(1, bytes_per_row)))
    # gen_batches checks its arguments, which here takes as long as a small product.
    return [slice(i, min(i + size, n_rows)) for i in range(0, n_rows, size)]


def square_blocks(X: Rows) -> Iterator[tuple[slice, Rows, Rows]]:
    """Yield (rows, X[rows], X[rows] ** 2), which the next block overwrites.

    Sparse rows are one block: their squares are no larger than they are.
    """
    if sparse.issparse(X):
        if not X.has_canonical_format:
            # An entry that is stored in two pieces has not the sum of their squares.
            X = X.copy()
            X.sum_duplicates()
        squares = sparse.csr_matrix((X.data**2, X.indices, X.indptr), X.shape)
        yield slice(0, X.shape[0]), X, squares
        return
    blocks = row_blocks(X, X.shape[1] * X.itemsize, CACHE_BYTES)
    buffer = np.empty((blocks[0].stop, X.shape[1]), dtype=X.dtype)
    for rows in blocks:
        block = X[rows]
        yield rows, block, np.multiply(block, block, out=buffer[: len(block)])


# What a weight, a feature or a distance may be: far beyond what anybody has, and so
# that no product that is made of them on the way overflows, as the largest number in
# float64 is 1e308.
LARGEST = 1e25
SMALLEST = 1e-25  # what is smaller but not 0 has inverses that are too large
# What a feature in float32, whose largest number is 1e38, may be.
LARGEST_FLOAT32 = 1e15
# Deviations below are none, and what may be 0 is taken for it where it divides: squares
# have all their digits, since the smallest normal number is 1e-308, and leave room for
# their reciprocals, and for squares of weights, times as many features.
TINY = 1e-145
# Standard errors that a difference has to exceed, not to be taken for chance.
SURE = 2.0
# Numbers are equal that differ by so many units in the last place: sums of equal
# numbers in different orders end a few units apart.
ULPS = 16
# What sums over rows in another order differ by at most, relative to their size: the
# worst error of some four million rows.
ROUNDING_OF_SUMS = 1e-9


def rounding(sizes: np.ndarray, X: Rows) -> np.ndarray:
    """Deviations up to which features are constant, (n_features,).

    ``sizes`` are the features' magnitudes about 0.
    """
    dtype = float_type(X)
    relative = ULPS * np.finfo(dtype).eps
    if sparse.issparse(X):
        # Sums of sparse rows are about 0, not about a row: the variance, a difference
        # of sums of squares, then errs by a unit in the last place for each row.
        n_ulps = ULPS + X.shape[0]
        relative = max(relative, np.sqrt(n_ulps * np.finfo(float).eps))
    return np.maximum(relative * sizes, _least_deviation(dtype == np.float32))


def _least_deviation(is_float32: bool | np.ndarray) -> np.ndarray:
    """Return the deviation of which the square has all its digits."""
    # As a float of Python: beside one of float32 the other would be rounded to 0.
    least_of_float32 = float(np.sqrt(np.finfo(np.float32).tiny))
    return np.where(is_float32, least_of_float32, TINY)


def rounding_of_values(values: np.ndarray) -> np.ndarray:
    """Return the rounding of features by values (n_values, n_features), without rows.

    Numbers that float32 can hold are taken for those of float32 rows.
    """
    with np.errstate(over="ignore"):  # what overflows is not equal afterwards
        narrow = (values == values.astype(np.float32)).all(axis=0)
    eps = np.where(narrow, np.finfo(np.float32).eps, np.finfo(np.float64).eps)
    roundings = ULPS * eps * np.abs(values).max(axis=0, initial=0.0)
    return np.maximum(roundings, _least_deviation(narrow))


def clear_constants(scatter: np.ndarray, least: np.ndarray) -> None:
    """Set to 0, in place, features whose squares are not above the least.

    A scatter is a matrix, (n_features, n_features), or its diagonal, (n_features,).
    """
    squares = scatter if scatter.ndim == 1 else scatter.diagonal()
    constant = np.flatnonzero(squares <= least)
    scatter[constant] = 0.0
    scatter[..., constant] = 0.0


def directions(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Directions of rows by the matrix of their products with each other, ``B B^T``.

    Returns roots of the eigenvalues, (n_directions,), and eigenvectors, (n_rows,
    n_directions), without those that are not above rounding.
    """
    eigenvalues, vectors = linalg.eigh(kernel)
    noise = len(eigenvalues) * np.finfo(np.float64).eps * eigenvalues[-1:]
    is_direction = eigenvalues > noise
    return np.sqrt(eigenvalues[is_direction]), vectors[:, is_direction]


def check_sizes(sizes: np.ndarray, squares: np.ndarray, dtype: np.dtype) -> None:
    """Raise ValueError, which names a feature, where sums do not hold what rows do.

    Magnitudes of features and their sums of squares are (n_features,); they may be
    infinite or nan, where numbers of `dtype`, that of the rows, overflowed.
    """
    limit = LARGEST_FLOAT32 if dtype == np.float32 else LARGEST
    wrong = np.flatnonzero(~((sizes <= limit) & (squares <= limit**2)))
    if not len(wrong):
        return
    if len(wrong) == 1:
        raise ValueError(
            f"feature {wrong[0]} is too large to be squared and summed: values in "
            f"{np.dtype(dtype)} may be up to {limit:g}. Give it in larger units, the "
            "same at all nodes."
        )
    raise ValueError(
        f"feature {wrong[0]} is too large to be squared and summed, and so are "
        f"{len(wrong) - 1} others: values in {np.dtype(dtype)} may be up to {limit:g}. "
        "Give them in larger units, the same at all nodes."
    )


def column_ends(X: Rows) -> np.ndarray:
    """The largest and the smallest value of each feature, (2, n_features)."""
    ends = [X.max(axis=0), X.min(axis=0)]
    if sparse.issparse(X):
        ends = [end.toarray().ravel() for end in ends]
    return np.asarray(ends, dtype=np.float64)


def check_rows(X: Rows) -> None:
    """Raise ValueError if a feature is too large to be squared and summed."""
    sizes = np.abs(column_ends(X)).max(axis=0)
    check_sizes(sizes, np.zeros_like(sizes), float_type(X))


@dataclass(frozen=True, eq=False, kw_only=True)
class Moments:
    """Number, mean and covariance of rows; 0 where features vary by rounding alone."""

    n_rows: int
    mean: np.ndarray = field(repr=False)  # (n_features,)
    covariance: np.ndarray = field(repr=False)  # (n_features, n_features)


@np.errstate(over="ignore", invalid="ignore")  # what is too large is an error
def row_moments(X: Rows) -> Moments:
    """Mean and covariance of rows (ndarray or CSR), in float64 and one pass.

    With a shift s amid the rows, the mean is ``s + m`` with ``m = sum (x - s) / n``.
    The covariance is ``sum (x - s)(x - s)^T / n - m m^T``.
    """
    n_rows, n_features = X.shape
    if n_rows == 0:
        raise ValueError("X has no rows, so it has no mean. Pass at least one.")
    n_bytes = 8 * (n_features + 1) ** 2
    if n_bytes > working_bytes():
        raise ValueError(
            f"geometry='gram' needs a matrix of {n_features + 1} x {n_features + 1} "
            f"numbers for each node ({n_bytes / 2**20:.0f} MiB), more than "
            f"scikit-learn's working_memory ({get_config()['working_memory']} MiB). "
            "Use geometry='ellipsoid' of spaces or hidden_layers, or raise "
            "working_memory with sklearn.set_config."
        )
    if sparse.issparse(X):
        wide = X.astype(np.float64, copy=False)
        # Any other shift would make all entries of sparse rows differ from 0.
        shift = np.zeros(n_features)
        shifted_mean = np.asarray(wide.mean(axis=0)).ravel()
        mean_products = safe_sparse_dot(wide.T, wide, dense_output=True) / n_rows
    else:
        # Deviations from a row keep digits where means are far from 0.
        shift = X[0].astype(np.float64)
        shifted_mean, mean_products = _dense_mean_products(X, shift)
    covariance = mean_products - np.outer(shifted_mean, shifted_mean)
    mean = shift + shifted_mean
    sizes = np.abs(mean)
    check_sizes(sizes, n_rows * covariance.diagonal(), float_type(X))
    clear_constants(covariance, np.square(rounding(sizes, X)))
    return Moments(n_rows=n_rows, mean=mean, covariance=covariance)


def _dense_mean_products(
    X: np.ndarray, shift: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means of ``x - shift``, (n_features,), and of its products, a matrix."""
    n_rows, n_features = X.shape
    # With a column of ones the same product gives the sums.
    sums = np.empty((n_features + 1, n_features + 1))
    limit = max(working_bytes() // 16, 2**20)
    for rows in row_blocks(X, 8 * (n_features + 1), limit):
        block = np.ones((rows.stop - rows.start, n_features + 1))
        np.subtract(X[rows], shift, out=block[:, :-1])
        if rows.start == 0:
            np.matmul(block.T, block, out=sums)
        else:
            sums += block.T @ block
    sums /= n_rows
    return sums[-1, :-1].copy(), sums[:-1, :-1]


def mean_squares(X: Rows, weights: np.ndarray) -> np.ndarray:
    """Mean of each feature's squares, and of 1, under weights (n_rows, n_weights).

    That is ``sum_i w_ik x_ij^2 / n``, (n_features + 1, n_weights).
    """
    typed = weights.astype(float_type(X), copy=False)
    means = np.zeros((X.shape[1] + 1, weights.shape[1]))
    for rows, _, squares in square_blocks(X):
        means[:-1] += squares.T @ typed[rows]
    means[-1] = weights.sum(axis=0)
    means /= X.shape[0]
    return means


def mean_log_loss(logits: np.ndarray, y: np.ndarray) -> float:
    """Mean negative log-probability, in nats, of labels `y`, columns of `logits`."""
    return float(np.mean(logsumexp(logits, axis=1) - logits[np.arange(len(y)), y]))


def log_losses(logits: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-loss of each row, in nats, and its gradient in the logits.

    With probabilities P these are ``-log P_iy``, (n_rows,), and ``P_ik - [k = y_i]``,
    (n_rows, n_classes).
    """
    shifted = logits - logits.max(axis=1, keepdims=True)
    residuals = np.exp(shifted)
    totals = residuals.sum(axis=1)
    all_rows = np.arange(len(y))
    losses = np.log(totals) - shifted[all_rows, y]
    residuals /= totals[:, None]
    residuals[all_rows, y] -= 1.0
    return losses, residuals


def move_to_origin(W: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """Return the linear model that has the same logits on rows less an origin.

    ``w^T x + b`` is ``w^T (x - origin) + (b + w^T origin)``.
    """
    return np.vstack([W[:-1], W[-1] + origin @ W[:-1]])
