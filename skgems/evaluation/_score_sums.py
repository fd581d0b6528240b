"""Sums over rows from which standard errors of a logistic regression follow.

With a row z, extended by 1, its weight w, its class c and the probabilities p of the
model, the residuals are ``r_k = 1[k = c] - p_k``. Over the classes k, l after the first

    gradient[k]       = sum of w r_k z
    information[k, l] = sum of w p_k (1[k = l] - p_l) z z'
    middle            = sum over units u of s_u s_u',  s_u[k] = sum over rows of w r_k z

where a unit, such as a patient, is what is independent of others: as a rule, one row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.special import softmax
from sklearn.utils import gen_batches

# Bytes that a block of rows may take: what fits into a processor's cache of 8 MiB.
_BLOCK_BYTES = 2**23


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreSums:
    """Sums over rows; m is the number of parameters."""

    gradient: np.ndarray  # (m,), of the log-likelihood
    information: np.ndarray  # (m, m)
    middle: np.ndarray  # (m, m)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Block:
    """Some rows, and what a model says of them."""

    rows: slice
    Z: np.ndarray  # (n_rows, n_columns + 1), extended by 1
    P: np.ndarray  # (n_rows, n_classes), probabilities
    columns: np.ndarray  # (n_rows,), the class of each row

    @cached_property
    def residuals(self) -> np.ndarray:
        """Return residuals of the classes after the first, (n_rows, n_classes - 1)."""
        indicators = self.columns[:, None] == np.arange(self.P.shape[1])
        return (indicators - self.P)[:, 1:]

    def variances(self, k: int, j: int) -> np.ndarray:
        """Return ``p_k (1[k = j] - p_j)`` of classes after the first, (n_rows,)."""
        p_k = self.P[:, k + 1]
        return p_k * (float(k == j) - self.P[:, j + 1])

    def scores(self) -> np.ndarray:
        """Return the gradient of each row, (n_rows, n_params)."""
        products = self.residuals[:, :, None] * self.Z[:, None, :]
        return products.reshape(len(self.Z), -1)


def score_sums(
    Z: np.ndarray | sparse.csr_matrix,
    columns: np.ndarray,
    W: np.ndarray,
    *,
    weights: np.ndarray | None = None,
    units: np.ndarray | None = None,
) -> ScoreSums:
    """Sum gradient, information and products of scores over rows.

    Parameters
    ----------
    Z : {ndarray, CSR matrix} of shape (n_rows, n_columns)
    columns : ndarray of int of shape (n_rows,)
        The class of each row.
    W : ndarray of shape (n_columns + 1, n_classes)
        The model, intercepts last.
    weights : ndarray of shape (n_rows,), default=None
        How much each row counts. None: once.
    units : ndarray of shape (n_rows,), default=None
        What each row is a part of, such as a patient. None: each row is a unit.
    """
    n_rows = Z.shape[0]
    weights = np.ones(n_rows) if weights is None else weights
    n_inputs, n_classes = W.shape
    n_params = n_inputs * (n_classes - 1)
    gradient = np.zeros(n_params)
    information = np.zeros((n_params, n_params))
    middle = np.zeros((n_params, n_params))
    of_units = _UnitSums(units, n_params)
    for block in _blocks(Z, columns, W):
        w = weights[block.rows]
        scores = w[:, None] * block.scores()
        gradient += scores.sum(axis=0)
        if of_units.are_rows:
            middle += scores.T @ scores
        else:
            of_units.add(block.rows, scores)
        for k in range(n_classes - 1):
            of_k = slice(k * n_inputs, (k + 1) * n_inputs)
            for j in range(k, n_classes - 1):
                of_j = slice(j * n_inputs, (j + 1) * n_inputs)
                v = w * block.variances(k, j)
                products = (v[:, None] * block.Z).T @ block.Z
                information[of_k, of_j] += products
                if j > k:
                    information[of_j, of_k] += products
    if not of_units.are_rows:
        middle = of_units.sums.T @ of_units.sums
    return ScoreSums(gradient=gradient, information=information, middle=middle)


class _UnitSums:
    """Sums of scores by unit, where a unit has several rows."""

    def __init__(self, units: np.ndarray | None, n_params: int) -> None:
        self.numbers = None
        if units is not None:
            distinct, numbers = np.unique(units, return_inverse=True)
            if len(distinct) < len(units):
                self.numbers = numbers
                self.sums = np.zeros((len(distinct), n_params))

    @property
    def are_rows(self) -> bool:
        """Report whether each row is a unit."""
        return self.numbers is None

    def add(self, rows: slice, scores: np.ndarray) -> None:
        """Add the scores of some rows."""
        np.add.at(self.sums, self.numbers[rows], scores)


def _blocks(
    Z: np.ndarray | sparse.csr_matrix, columns: np.ndarray, W: np.ndarray
) -> Iterator[_Block]:
    """Yield blocks of rows within a bound on memory."""
    n_rows = Z.shape[0]
    size = max(1, _BLOCK_BYTES // (8 * W.size))
    for rows in gen_batches(n_rows, size):
        yield _block_of(Z, columns, W, rows=rows)


def _block_of(
    Z: np.ndarray | sparse.csr_matrix,
    columns: np.ndarray,
    W: np.ndarray,
    *,
    rows: slice,
) -> _Block:
    """Return some rows, extended by 1, with their probabilities."""
    some = Z[rows].toarray() if sparse.issparse(Z) else Z[rows]
    extended = np.column_stack([some.astype(np.float64), np.ones(some.shape[0])])
    return _Block(
        rows=rows,
        Z=extended,
        P=softmax(extended @ W, axis=1),
        columns=columns[rows],
    )


def columns_that_are_told(
    Z: np.ndarray | sparse.csr_matrix,
    columns: np.ndarray,
    W: np.ndarray,
    *,
    weights: np.ndarray,
    units: np.ndarray,
) -> list[np.ndarray]:
    """Return the columns whose products with the rows the sums are.

    They are ``r`` for the gradient, ``v z`` for the information, and ``r s`` for the
    products of scores. Here s is the sum of scores of the row's unit, so that ``r s``
    is ``r^2 z`` where each row is a unit. The leverages of a row in these, beside its
    own columns, say how much of it can be read from the sums.

    Parameters
    ----------
    Z, columns, W : as for `score_sums`
    weights : ndarray of shape (n_rows,)
        How much each row counts in products of scores, beside the weight with which it
        counts in all sums.
    units : ndarray of shape (n_rows,)

    Returns
    -------
    told : list of three ndarrays of shape (n_rows, n_told)
    """
    block = _block_of(Z, columns, W, rows=slice(None))
    n_outputs = W.shape[1] - 1
    pairs = [(k, j) for k in range(n_outputs) for j in range(k, n_outputs)]
    of_information = [block.variances(k, j)[:, None] * block.Z for k, j in pairs]
    scores = weights[:, None] * block.scores()
    sums = np.zeros_like(scores)
    _, numbers = np.unique(units, return_inverse=True)
    np.add.at(sums, numbers, scores)
    of_middle = [r[:, None] * sums[numbers] for r in block.residuals.T]
    return [block.residuals, np.hstack(of_information), np.hstack(of_middle)]


def triangle_of(matrix: np.ndarray) -> np.ndarray:
    """Return the upper triangle of a symmetric matrix, with its diagonal."""
    return matrix[np.triu_indices(len(matrix))]


def matrix_of_triangle(triangle: np.ndarray, n: int) -> np.ndarray:
    """Return the symmetric (n, n) matrix of an upper triangle."""
    matrix = np.zeros((n, n))
    matrix[np.triu_indices(n)] = triangle
    return matrix + np.triu(matrix, 1).T
