"""Rows in blocks, how exactly they are summed, and their second moments."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg, sparse
from scipy.special import logsumexp
from sklearn import get_config
from sklearn.utils.extmath import safe_sparse_dot

# Blocks of X that are read twice are made to stay in the cache of one core.
_CACHE_BYTES = 2**19
# Rows that are copied for one product stay in the cache that cores share.
_MOST_BLOCK_BYTES = 2**22


def working_bytes() -> int:
    return int(get_config()["working_memory"] * 2**20)


def block_bytes() -> int:
    """Bytes of rows to copy at a time: what a cache and ``working_memory`` hold."""
    return min(max(working_bytes() // 16, 2**20), _MOST_BLOCK_BYTES)


def float_type(X) -> np.dtype:
    return np.dtype(np.float32 if X.dtype == np.float32 else np.float64)


def ratio(values, sizes: np.ndarray, otherwise: float = 0.0) -> np.ndarray:
    found = np.full(np.broadcast_shapes(np.shape(values), sizes.shape), otherwise)
    return np.divide(values, sizes, out=found, where=sizes > 0)


def row_blocks(X, bytes_per_row: int, limit: int) -> list[slice]:
    """Slices over the rows of X, each within `limit` bytes (one row at least)."""
    n_rows = X.shape[0]
    size = max(1, min(n_rows, limit // max(1, bytes_per_row)))
    # gen_batches checks its arguments, which here takes as long as a small product.
    return [slice(i, min(i + size, n_rows)) for i in range(0, n_rows, size)]


def square_blocks(X) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield (rows, X[rows], X[rows] ** 2), which the next block overwrites."""
    if sparse.issparse(X):
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        squares = sparse.csr_matrix((X.data**2, X.indices, X.indptr), X.shape)
        yield slice(0, X.shape[0]), X, squares
        return
    blocks = row_blocks(X, X.shape[1] * X.itemsize, _CACHE_BYTES)
    buffer = np.empty((blocks[0].stop, X.shape[1]), dtype=X.dtype)
    for rows in blocks:
        block = X[rows]
        yield rows, block, np.multiply(block, block, out=buffer[: len(block)])


def indicator(labels: np.ndarray, n_labels: int, values=None) -> sparse.csc_matrix:
    """Sparse matrix (n_labels, n_rows) that sums rows, times values, by label."""
    values = np.ones(len(labels)) if values is None else values
    # Columns of one number each: in this form nothing has to be put in order.
    every = np.arange(len(labels) + 1)
    return sparse.csc_matrix((values, labels, every), shape=(n_labels, len(labels)))


# Of a weight, a feature or a distance, and of a sum of squares: far beyond what anybody
# has, and so that no product that is made of them on the way overflows.
LARGEST, LARGEST_SQUARE = 1e25, 1e50
LARGEST_FLOAT32 = 1e15
SMALLEST, SMALLEST_SQUARE = 1e-25, 1e-50
# Features that deviate by less are constant: the smallest normal numbers, of which
# squares have all their digits, are 1e-308 and 1e-38. Squares of float64 numbers leave
# room for their reciprocals, and for squares of weights, times as many features.
_LEAST, _LEAST_FLOAT32 = 1e-145, 2e-19
# A feature that is constant deviates by a few units in the last place of its size.
_ULPS = 8


def rounding(sizes: np.ndarray, X) -> np.ndarray:
    """Deviations up to which features are constant; ``sizes``: magnitudes about 0."""
    dtype = float_type(X)
    relative = _ULPS * np.finfo(dtype).eps
    if sparse.issparse(X):
        relative = max(relative, np.sqrt(max(X.shape[0], 50) * np.finfo(float).eps))
    least = _LEAST_FLOAT32 if dtype == np.float32 else _LEAST
    return np.maximum(relative * sizes, least)


def rounding_of_values(values: np.ndarray) -> np.ndarray:
    """The same of some values, one a row; float32 numbers are of float32 rows."""
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
    """Raise ValueError, which names a feature, where sums do not hold what rows do."""
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


def column_ends(X) -> np.ndarray:
    ends = [X.max(axis=0), X.min(axis=0)]
    ends = [end.toarray().ravel() if sparse.issparse(end) else end for end in ends]
    return np.asarray(ends, dtype=np.float64)


def check_rows(X) -> None:
    sizes = np.abs(column_ends(X)).max(axis=0)
    check_sizes(sizes, np.zeros_like(sizes), float_type(X))


@dataclass(frozen=True, eq=False)
class Moments:
    """Number, mean and covariance of rows; 0 where features vary by rounding alone."""

    n_rows: int
    mean: np.ndarray = field(repr=False)  # (n_features,)
    covariance: np.ndarray = field(repr=False)  # (n_features, n_features)


@np.errstate(over="ignore", invalid="ignore")  # what is too large is an error
def row_moments(X) -> Moments:
    """Mean and covariance of rows (ndarray or CSR), in float64 and one pass."""
    n_rows, n_features = X.shape
    if n_rows == 0:
        raise ValueError("X has no rows.")
    n_bytes = 8 * (n_features + 1) ** 2
    if n_bytes > working_bytes():
        raise ValueError(
            f"geometry='gram' needs a matrix of {n_features + 1} x {n_features + 1} "
            f"numbers a node ({n_bytes / 2**20:.0f} MiB), more than scikit-learn's "
            f"working_memory ({get_config()['working_memory']} MiB). Use "
            "geometry='ellipsoid', or raise working_memory by sklearn.set_config."
        )
    if sparse.issparse(X):
        wide = X.astype(np.float64, copy=False)
        shift = np.zeros(n_features)
        mean = np.asarray(wide.mean(axis=0)).ravel()
        covariance = safe_sparse_dot(wide.T, wide, dense_output=True) / n_rows
    else:
        # Deviations from a row keep digits where means are far from 0.
        shift = X[0].astype(np.float64)
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
        mean, covariance = sums[-1, :-1].copy(), sums[:-1, :-1]
    covariance = covariance - np.outer(mean, mean)
    mean = shift + mean
    sizes = np.abs(mean)
    check_sizes(sizes, n_rows * covariance.diagonal(), float_type(X))
    clear_constants(covariance, np.square(rounding(sizes, X)))
    return Moments(n_rows, mean, covariance)


def mean_squares(X, weights: np.ndarray) -> np.ndarray:
    """Mean of each feature's squares, and of 1, under weights (n_rows, n_weights)."""
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
    """Log-loss of each row, in nats, and its gradient in the logits."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    residuals = np.exp(shifted)
    totals = residuals.sum(axis=1)
    index = np.arange(len(y))
    losses = np.log(totals) - shifted[index, y]
    residuals /= totals[:, None]
    residuals[index, y] -= 1.0
    return losses, residuals


def about_origin(W: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """A linear model of the same logits on rows less an origin."""
    return np.vstack([W[:-1], W[-1] + origin @ W[:-1]])
