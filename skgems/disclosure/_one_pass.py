"""Whether all that a class tells holds, from one pass over its rows, or two.

What is told of a class are products of its columns about the means of parts, which are
clusters or the whole class. With the squared weight v of a row x of part p, the sum V_p
of these, the mean m_p and the scatter S, its leverage is

    h = v (1 / V_p + (x - m_p)' S^+ (x - m_p)),

and with columns of length 1, the ends of columns and the least eigenvalue l of S

    (x - m_p)' S^+ (x - m_p) <= sum_j max (x_j - m_pj)^2 / l.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from ._leverages import BELOW, CONSTANT, NOTHING, ROUNDING, numbered

# Bytes of rows that are looked at together: they stay in the cache of a core.
_BLOCK_BYTES = 2**20
# Rows of each part whose mean rows are counted from.
_SHIFT_ROWS = 50
# How much larger squares about such a point may be than squares about the mean: digits
# that are lost are no more than half.
_MOST_LOST = 1e6
# Share of a direction below which it has nothing of a column.
_NO_PART = 1e-13


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassRows:
    """Rows of one class, in the order of their parts."""

    X: np.ndarray | sparse.csr_matrix  # (n_all_rows, n_columns)
    indices: np.ndarray  # (n_rows,), of the rows of the class in X
    residuals: np.ndarray  # (n_rows, n_residuals), told with the columns
    known: np.ndarray  # (n_rows, n_known), of sums that are known beside those told
    squares: np.ndarray  # (n_rows,), squared weights
    ends: np.ndarray  # (n_parts,), where the rows of each part end

    @classmethod
    def from_table(
        cls,
        X: np.ndarray | sparse.csr_matrix,
        indices: np.ndarray,
        *,
        residuals: np.ndarray,
        known: np.ndarray,
        weights: np.ndarray,
        parts: np.ndarray | None,
    ) -> "ClassRows":
        """Return some rows of a table, by indices into all that is given."""
        ends = np.array([len(indices)])
        if parts is not None:
            numbers = numbered(parts[indices])
            indices = indices[np.argsort(numbers, kind="stable")]
            ends = np.cumsum(np.bincount(numbers))
        weights = weights[indices]
        residuals = residuals[indices]
        known = known[indices] / weights[:, None]
        if known.shape == residuals.shape:
            # They are nearly equal: together they span what the difference spans, which
            # has digits of its own.
            known = known - residuals
        return cls(
            X=X,
            indices=indices,
            residuals=residuals,
            known=known,
            squares=weights**2,
            ends=ends,
        )

    @property
    def n_columns(self) -> int:
        """Return how many columns there are, with residuals and known sums."""
        return self.X.shape[1] + self.residuals.shape[1] + self.known.shape[1]

    def dense(self, places: np.ndarray | slice) -> np.ndarray:
        """Return some rows with all columns, (n_rows, n_columns), as a copy."""
        rows = self.X[self.indices[places]]
        rows = rows.toarray() if sparse.issparse(rows) else rows
        return np.hstack(
            [rows, self.residuals[places], self.known[places]], dtype=np.float64
        )

    def blocks(self) -> Iterator[tuple[int, slice, np.ndarray]]:
        """Yield numbers of parts, places of some rows of each, and these rows."""
        size = max(1, _BLOCK_BYTES // (8 * max(self.n_columns, 1)))
        start = 0
        for part, end in enumerate(self.ends.tolist()):
            for first in range(start, end, size):
                places = slice(first, min(first + size, end))
                yield part, places, self.dense(places)
            start = end

    def column_sums(self, columns: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return combinations of a few columns about means of parts, with weights.

        They are (n_rows, n_combinations).
        """
        n_features = self.X.shape[1]
        of_X = columns < n_features
        rest = np.hstack([self.residuals, self.known])[:, columns[~of_X] - n_features]
        combined = rest @ factors[~of_X]
        if of_X.any():
            values = self.X[:, columns[of_X]][self.indices]
            values = values.toarray() if sparse.issparse(values) else values
            values = values.astype(np.float64) - values.mean(axis=0)
            combined += values @ factors[of_X]
        starts = np.append(0, self.ends[:-1])
        for _ in range(2):  # the mean is rounded
            totals = np.add.reduceat(self.squares[:, None] * combined, starts)
            means = totals / np.add.reduceat(self.squares, starts)[:, None]
            combined -= np.repeat(means, np.diff(self.ends, prepend=0), axis=0)
        return np.sqrt(self.squares)[:, None] * combined


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassPass:
    """Sums over the rows of a class by part, and the ends of columns."""

    rows: ClassRows
    totals: np.ndarray  # (n_parts,), of squared weights
    least: np.ndarray  # (n_parts,), the least of these
    largest: np.ndarray  # (n_parts,), the largest of these
    means: np.ndarray  # (n_parts, n_columns)
    low: np.ndarray  # (n_parts, n_columns), ends of columns about these means
    high: np.ndarray  # (n_parts, n_columns)
    scatter: np.ndarray  # (n_columns, n_columns), about the means
    squares: np.ndarray  # (n_parts, n_columns), its diagonal by part
    has_digits: bool  # whether squares have most of their digits

    @classmethod
    def from_rows(cls, rows: ClassRows) -> "ClassPass":
        """Return the sums of a class."""
        starts = np.append(0, rows.ends[:-1])
        shape = (len(rows.ends), rows.n_columns)
        shifts = np.empty(shape)
        low = np.full(shape, np.inf)
        high = np.full(shape, -np.inf)
        sums = np.zeros(shape)
        squares = np.zeros(shape)
        products = np.zeros((rows.n_columns, rows.n_columns))
        for part, (start, end) in enumerate(zip(starts, rows.ends, strict=True)):
            spread = np.linspace(start, end - 1, min(_SHIFT_ROWS, end - start))
            shifts[part] = rows.dense(spread.astype(np.intp)).mean(axis=0)
        is_weighted = bool((rows.squares != 1.0).any())
        for part, places, block in rows.blocks():
            block -= shifts[part]
            np.minimum(low[part], block.min(axis=0), out=low[part])
            np.maximum(high[part], block.max(axis=0), out=high[part])
            roots = np.ones(len(block))
            if is_weighted:
                roots = np.sqrt(rows.squares[places])
                block *= roots[:, None]
            sums[part] += roots @ block
            squares[part] += np.einsum("ij,ij->j", block, block)
            products += block.T @ block
        totals = np.add.reduceat(rows.squares, starts)
        offsets = sums / totals[:, None]
        rooted = np.sqrt(totals)[:, None] * offsets
        means = shifts + offsets
        squares_about_means = squares - rooted**2
        sizes = np.square(means) * totals[:, None]
        is_lost = squares_about_means * _MOST_LOST <= squares
        is_lost |= squares_about_means <= _MOST_LOST * CONSTANT**2 * sizes
        return cls(
            rows=rows,
            totals=totals,
            least=np.minimum.reduceat(rows.squares, starts),
            largest=np.maximum.reduceat(rows.squares, starts),
            means=means,
            low=low - offsets,
            high=high - offsets,
            scatter=products - rooted.T @ rooted,
            squares=squares_about_means,
            has_digits=not (is_lost & (high > low)).any(),
        )

    def merged(self) -> "ClassPass":
        """Return the sums of the same rows as one part."""
        total = self.totals.sum(keepdims=True)
        mean = self.totals @ self.means / total
        between = self.means - mean
        rooted = np.sqrt(self.totals)[:, None] * between
        squares = (self.squares + rooted**2).sum(axis=0, keepdims=True)
        low = (self.low + between).min(axis=0, keepdims=True)
        high = (self.high + between).max(axis=0, keepdims=True)
        size = np.square(self.means).max(axis=0) * total
        is_lost = squares <= _MOST_LOST * CONSTANT**2 * size
        return ClassPass(
            rows=replace(self.rows, ends=self.rows.ends[-1:]),
            totals=total,
            least=self.least.min(keepdims=True),
            largest=self.largest.max(keepdims=True),
            means=mean[None],
            low=low,
            high=high,
            scatter=self.scatter + rooted.T @ rooted,
            squares=squares,
            has_digits=self.has_digits and not (is_lost & (high > low)).any(),
        )

    @property
    def _largest_squares(self) -> np.ndarray:
        """The largest square in each column, (n_parts, n_columns)."""
        return np.maximum(self.high, -self.low) ** 2

    def _largest_by_part(self) -> float:
        """Return what no leverage exceeds in a column of a part alone.

        Where all rows of a part weigh the same one row has it.
        """
        squares = np.where(self.high > self.low, self.squares, np.inf)
        shares = (self._largest_squares / squares)[:, : self.rows.X.shape[1]]
        largest = shares.max(axis=1, initial=0.0)
        return float((self.largest * (1.0 / self.totals + largest)).max())

    def fails_by_part(self, *, bound: float) -> bool:
        """Report whether one row has most of a column of a part, or may have it."""
        is_even = bool((self.least == self.largest).all())
        return is_even and self._largest_by_part() > bound / BELOW

    def holds(self, units: np.ndarray | None, *, bound: float) -> bool:
        """Report whether all leverages of a class are known to be below a bound.

        These are leverages in its columns, the residuals and what is known, together,
        and in each column of each part alone. Where it is not known, some may be.

        Parameters
        ----------
        units : ndarray of shape (n_rows,), or None
            What counts as one row, in the order of the rows. None: each row does.
        bound : float
        """
        bound *= BELOW
        n_in_unit = 1 if units is None else np.bincount(units).max()
        if not self.has_digits:
            return False
        if len(self.totals) > 1 and n_in_unit * self._largest_by_part() > bound:
            return False
        varies = (self.high > self.low).any(axis=0)
        scale = varies / np.sqrt(np.where(varies, self.scatter.diagonal(), 1.0))
        values, vectors = np.linalg.eigh(scale[:, None] * self.scatter * scale)
        kept = values > ROUNDING * max(values.max(initial=0.0), 1.0)
        if not _are_rounding(self.rows, scale[:, None] * vectors[:, ~kept]):
            return False
        least = values[kept].min(initial=np.inf)
        lengths = (self._largest_squares * scale**2).sum(axis=1) / least
        largest = self.largest * (1.0 / self.totals + lengths)
        if n_in_unit * largest.max() <= bound:
            return True
        if kept.sum() + len(self.totals) > bound * len(self.rows.indices):
            return False  # leverages sum to the rank
        directions = scale[:, None] * vectors[:, kept] / np.sqrt(values[kept])
        h = self._leverages(directions)
        return bool((h if units is None else np.bincount(units, h)).max() <= bound)

    def _leverages(self, directions: np.ndarray) -> np.ndarray:
        """Return the leverages of rows by B with ``BB' = S^+``, in a second pass."""
        h = np.empty(len(self.rows.indices))
        for part, places, block in self.rows.blocks():
            block -= self.means[part]
            lines = block @ directions
            h[places] = np.einsum("ij,ij->i", lines, lines) + 1.0 / self.totals[part]
        return self.rows.squares * h


def _are_rounding(rows: ClassRows, directions: np.ndarray) -> bool:
    """Report whether rows have nothing along directions, (n_columns, n_directions)."""
    if not directions.shape[1]:
        return True
    largest = np.abs(directions).max(axis=1)
    columns = np.flatnonzero(largest > _NO_PART * largest.max())
    if not len(columns):
        return True
    lines = rows.column_sums(columns, directions[columns])
    return bool((np.linalg.norm(lines, axis=0) <= NOTHING).all())
