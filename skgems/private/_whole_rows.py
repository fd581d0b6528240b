"""One row as whole numbers of bounded length, and the vector that rows add up to.

With the middle and half of the range of each column, a row x becomes

    u = (x - middle) / half, clipped to [-1, 1],    z = u / (norm sqrt(d)),

shortened to |z| <= 1 and cut to whole numbers I = trunc(M z), with M = 2^15 - 1. Rows
of a class c add the vector

    (a e_c, b e_c (x) z, g svec(z z')),    a^2 + b^2 + g^2 = 1,

where svec has the upper triangle of a matrix, its entries off the diagonal times
sqrt 2. There is one matrix of all classes, or one of each. The squared length of what a
row adds is a^2 + b^2 |z|^2 + g^2 |z|^4 <= 1. Nodes sum M, I and I I' in place of 1, z
and z z', and `VectorLayout` has the unit of each number.

Sums of at most 2^23 such rows are whole numbers below 2^53, which float64 adds exactly
in any order. So the order of rows, and which nodes have them, change no bit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import gen_batches

# The whole number that 1 becomes: products of two have 30 bits.
ONE = 2**15 - 1
# Steps between the middle and a bound: 2^14 squares of them have 52 bits.
_STEPS = 2.0**19
# Rows that are summed in float64: 2^23 products of 30 bits have 53 bits.
_MOST_ROWS_OF_BLOCK = 2**23
# Numbers of rows in a block, 16 MB: larger blocks are no faster.
_NUMBERS_OF_BLOCK = 2**21
# Shares a^2, b^2, g^2 of a row's squared length that counts, means and products have.
# They are within half a point of the best accuracy on penguins, digits and penbased.
_SHARES = (0.02, 0.88, 0.10)


@dataclass(frozen=True, eq=False, kw_only=True)
class RowBounds:
    """What rows are put within: the range of each column, and the largest length."""

    low: np.ndarray  # (n_columns,)
    high: np.ndarray  # (n_columns,)
    norm: float

    # Halves first: the range of bounds near the largest number is none.

    @property
    def middle(self) -> np.ndarray:
        return self.low / 2 + self.high / 2

    @property
    def half(self) -> np.ndarray:
        return self.high / 2 - self.low / 2

    @property
    def longest(self) -> float:
        """Return the largest length of a row, in halves of the ranges."""
        return self.norm * np.sqrt(len(self.low))

    def clipped(self, X: np.ndarray) -> np.ndarray:
        """Return rows in halves of the ranges from the middle, each in [-1, 1].

        Values that are missing or infinite become the middle, 0.
        """
        within = np.clip(np.where(np.isfinite(X), X, self.middle), self.low, self.high)
        # A range of the smallest numbers has a half of 0.
        with np.errstate(divide="ignore", invalid="ignore"):
            units = np.clip((within - self.middle) / self.half, -1.0, 1.0)
        return np.nan_to_num(units, nan=0.0)

    def whole_rows(self, X: np.ndarray) -> np.ndarray:
        """Return rows as whole numbers of length `ONE` at most, float64."""
        # On a grid, so that squares add up exactly, in any order.
        steps = np.trunc(_STEPS * self.clipped(X))
        lengths = np.sqrt((steps * steps).sum(axis=1))
        # No quotient is above 1, however small the norm is that a server asks for.
        longest = np.maximum(lengths, _STEPS * self.longest)
        rows = np.trunc(ONE * steps / longest[:, None])
        # Rounding of the lengths: of whole numbers they are exact.
        is_long = (rows * rows).sum(axis=1) > ONE**2
        rows[is_long] = np.trunc(rows[is_long] * (1.0 - 2.0**-10))
        return rows

    def as_step(self) -> FunctionTransformer:
        """Return a transformer that puts rows within the bounds, for a pipeline."""
        return FunctionTransformer(self.within, accept_sparse=True)

    def within(self, X: np.ndarray) -> np.ndarray:
        """Return rows in their own units, moved within the bounds and shortened."""
        dense = X.toarray() if sparse.issparse(X) else X
        units = self.clipped(np.asarray(dense, dtype=np.float64))
        lengths = np.maximum(np.linalg.norm(units, axis=1), self.longest)
        return self.middle + self.half * units * (self.longest / lengths)[:, None]


@dataclass(frozen=True, kw_only=True)
class VectorLayout:
    """Where counts, sums and products are in the vector, and in which units."""

    n_classes: int
    n_columns: int
    by_class: bool = False  # whether products of columns are of each class

    @property
    def n_matrices(self) -> int:
        """Number of matrices of products."""
        return self.n_classes if self.by_class else 1

    @property
    def n_products(self) -> int:
        """Number of entries of the upper triangles of all matrices."""
        return self.n_matrices * self.n_columns * (self.n_columns + 1) // 2

    @property
    def n_numbers(self) -> int:
        """Length of the vector."""
        return self.n_classes * (1 + self.n_columns) + self.n_products

    @cached_property
    def triangle(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the entries of the upper triangle."""
        return np.triu_indices(self.n_columns)

    @property
    def parts(self) -> tuple[slice, slice, slice]:
        """Return the places of counts, of sums by class, and of products."""
        n_sums = self.n_classes * self.n_columns
        return (
            slice(0, self.n_classes),
            slice(self.n_classes, self.n_classes + n_sums),
            slice(self.n_classes + n_sums, self.n_numbers),
        )

    @cached_property
    def weights(self) -> np.ndarray:
        """Return by how much of its length one unit moves the vector, (n_numbers,)."""
        counts, sums, products = self.parts
        share_of_counts, share_of_sums, share_of_products = np.sqrt(_SHARES)
        rows, columns = self.triangle
        is_off_diagonal = np.tile(rows != columns, self.n_matrices)
        weights = np.empty(self.n_numbers)
        weights[counts] = share_of_counts / ONE
        weights[sums] = share_of_sums / ONE
        weights[products] = share_of_products / ONE**2
        weights[products][is_off_diagonal] *= np.sqrt(2.0)
        return weights

    def vector(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the vector of whole rows, (n_numbers,), int64.

        ``columns`` are the classes of the rows, (n_rows,), as indices.
        """
        total = np.zeros(self.n_numbers, dtype=np.int64)
        # An empty table is a block of no rows.
        for block in gen_batches(max(len(rows), 1), self._rows_of_block):
            total += self._exact_sums(rows[block], columns[block])
        return total

    @property
    def _rows_of_block(self) -> int:
        n_rows = _NUMBERS_OF_BLOCK // self.n_columns
        return min(max(n_rows, 1), _MOST_ROWS_OF_BLOCK)

    def _exact_sums(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the sums of one block, which float64 holds exactly."""
        counts, sums, products = self.parts
        total = np.empty(self.n_numbers, dtype=np.int64)
        total[counts] = ONE * np.bincount(columns, minlength=self.n_classes)
        rows_by_class = [rows[columns == c] for c in range(self.n_classes)]
        total[sums] = np.concatenate([part.sum(axis=0) for part in rows_by_class])
        groups = rows_by_class if self.by_class else [rows]
        triangles = [(part.T @ part)[self.triangle] for part in groups]
        total[products] = np.concatenate(triangles)
        return total


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisySums:
    """Counts, sums by class and products of rows z, as far as noise lets them be."""

    counts: np.ndarray  # (n_classes,)
    sums: np.ndarray  # (n_classes, n_columns)
    # (n_matrices, n_columns, n_columns), one of all classes or one of each.
    products: np.ndarray
    # Standard deviations of the noise: of a count, of a sum, and of a product of a
    # column with itself; those of two columns have 1 / sqrt 2 of the last.
    deviations: tuple[float, float, float]

    @classmethod
    def from_vector(
        cls, vector: np.ndarray, layout: VectorLayout, *, sigma: float
    ) -> "NoisySums":
        """Read the total of all nodes, whose noise has ``sigma`` in all."""
        counts, sums, products = layout.parts
        n_columns = layout.n_columns
        matrices = np.zeros((layout.n_matrices, n_columns, n_columns))
        rows, columns = layout.triangle
        entries = vector[products].reshape(layout.n_matrices, -1) / ONE**2
        matrices[:, rows, columns] = entries
        matrices[:, columns, rows] = entries
        return cls(
            counts=vector[counts] / ONE,
            sums=vector[sums].reshape(layout.n_classes, -1) / ONE,
            products=matrices,
            deviations=tuple(sigma / np.sqrt(_SHARES)),
        )


def dense_blocks(
    X: np.ndarray | sparse.spmatrix | sparse.sparray,
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield the rows of a table block by block, as arrays of float64."""
    n_rows, n_columns = X.shape
    rows_of_block = max(_NUMBERS_OF_BLOCK // max(n_columns, 1), 1)
    for block in gen_batches(n_rows, rows_of_block) if n_rows else ():
        part = X[block]
        if sparse.issparse(part):
            part = part.toarray()
        yield block, np.asarray(part, dtype=np.float64)
