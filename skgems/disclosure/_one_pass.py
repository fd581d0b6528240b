"""Whether all that a class tells holds, from one pass over its rows, or two.

What is told of a class are products of its columns about the means of parts, which are
clusters or the whole class. With the squared weight v of a row x of part p, the sum V_p
of these, the mean m_p and the scatter S, its leverage is

    h = v (1 / V_p + (x - m_p)' S^+ (x - m_p)),
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from ._directions import Directions
from ._leverages import BELOW, CONSTANT, NOTHING, numbered

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
        residuals = _drop_last(residuals[indices])
        known = _drop_last(known[indices] / weights[:, None])
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

    def are(self, other: "ClassRows") -> bool:
        """Report whether these are the same rows, with the same weights and sums."""
        return self.X is other.X and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("indices", "residuals", "known", "squares", "ends")
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

    @property
    def is_weighted(self) -> bool:
        """Report whether some row weighs more or less than 1."""
        return bool((self.squares != 1.0).any())

    def vary(self, columns: np.ndarray) -> np.ndarray:
        """Report of some columns whether they have more than one value."""
        varies = np.zeros(len(columns), dtype=bool)
        if not len(columns):
            return varies
        first = self.dense(slice(0, 1))[:, columns]
        for _, _, block in self.blocks():
            varies |= (block[:, columns] != first).any(axis=0)
        return varies

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
    """Sums over the rows of a class, about the mean of the class or of its parts."""

    rows: ClassRows
    totals: np.ndarray  # (n_parts,), of squared weights
    means: np.ndarray  # (n_parts, n_columns)
    scatter: np.ndarray  # (n_columns, n_columns), about the means
    varies: np.ndarray  # (n_columns,), bool: columns that are not constant
    has_digits: bool  # whether squares have most of their digits
    # What no leverage of a row exceeds in a column of a part alone, and whether some
    # row has it; 0 where there is one part.
    largest_by_part: float = 0.0
    is_reached: bool = False

    @classmethod
    def from_rows(cls, rows: ClassRows) -> "ClassPass":
        """Return the sums of a class as one part."""
        n_rows = len(rows.indices)
        spread = np.linspace(0, n_rows - 1, min(_SHIFT_ROWS, n_rows))
        shift = rows.dense(spread.astype(np.intp)).mean(axis=0)
        sums = np.zeros(rows.n_columns)
        scatter = np.zeros((rows.n_columns, rows.n_columns))
        roots = np.sqrt(rows.squares)
        for _, places, block in rows.blocks():
            block -= shift
            if rows.is_weighted:
                block *= roots[places, None]
            sums += roots[places] @ block
            scatter += block.T @ block
        before = scatter.diagonal().copy()
        total = rows.squares.sum()
        offset = sums / total
        scatter -= total * np.outer(offset, offset)
        mean = shift + offset
        squares = scatter.diagonal()
        is_lost = squares * _MOST_LOST <= before
        is_lost |= squares <= _MOST_LOST * CONSTANT**2 * mean**2 * total
        lost = np.flatnonzero(is_lost)
        varies = np.ones(rows.n_columns, dtype=bool)
        varies[lost] = rows.vary(lost)
        return cls(
            rows=rows,
            totals=np.array([total]),
            means=mean[None],
            scatter=scatter,
            varies=varies,
            has_digits=not varies[lost].any(),
        )

    def divided(self, rows: ClassRows) -> "ClassPass":
        """Return the sums about the means of parts, of the same rows in their order."""
        starts = np.append(0, rows.ends[:-1])
        shape = (len(rows.ends), rows.n_columns)
        low = np.full(shape, np.inf)
        high = np.full(shape, -np.inf)
        sums = np.zeros(shape)
        before = np.zeros(shape)
        roots = np.sqrt(rows.squares)
        for part, places, block in rows.blocks():
            block -= self.means[0]
            np.minimum(low[part], block.min(axis=0), out=low[part])
            np.maximum(high[part], block.max(axis=0), out=high[part])
            if rows.is_weighted:
                block *= roots[places, None]
            sums[part] += roots[places] @ block
            before[part] += np.einsum("ij,ij->j", block, block)
        totals = np.add.reduceat(rows.squares, starts)
        offsets = sums / totals[:, None]
        rooted = np.sqrt(totals)[:, None] * offsets
        squares = before - rooted**2
        means = self.means[0] + offsets
        varies = high > low
        is_lost = squares * _MOST_LOST <= before
        is_lost |= squares <= _MOST_LOST * CONSTANT**2 * means**2 * totals[:, None]
        scatter = self.scatter - rooted.T @ rooted
        is_lost |= scatter.diagonal() * _MOST_LOST <= self.scatter.diagonal()
        largest_squares = np.maximum(high - offsets, offsets - low) ** 2
        shares = largest_squares / np.where(varies & ~is_lost, squares, np.inf)
        share = shares[:, : rows.X.shape[1]].max(axis=1, initial=0.0)
        largest = np.maximum.reduceat(rows.squares, starts)
        least = np.minimum.reduceat(rows.squares, starts)
        return ClassPass(
            rows=rows,
            totals=totals,
            means=means,
            scatter=scatter,
            varies=varies.any(axis=0),
            has_digits=self.has_digits and not (is_lost & varies).any(),
            largest_by_part=float((largest * (1.0 / totals + share)).max()),
            # Where all rows of a part weigh the same one row has it.
            is_reached=bool((least == largest).all()),
        )

    def fails_by_part(self, *, bound: float) -> bool:
        """Report whether one row has most of a column of a part, or may have it."""
        return self.is_reached and self.largest_by_part > bound / BELOW

    def holds_by_part(self, *, bound: float) -> bool:
        """Report whether no row is known to have most of a column of a part."""
        return self.largest_by_part <= bound * BELOW

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
        if not self.has_digits or n_in_unit * self.largest_by_part > bound:
            return False
        h = self._leverages
        return bool((h if units is None else np.bincount(units, h)).max() <= bound)

    @cached_property
    def _leverages(self) -> np.ndarray:
        """Bounds on the leverages of rows, in the order of parts, (n_rows,).

        They are the leverages where no column is nearly a combination of others.
        """
        squares = np.where(self.varies, self.scatter.diagonal(), 1.0)
        scale = self.varies / np.sqrt(squares)
        directions = Directions.from_products(scale[:, None] * self.scatter * scale)
        directions = directions.of_unscaled(scale)
        h = np.ones(len(self.rows.indices))
        if not _are_rounding(self.rows, directions.doubtful):
            return h
        for part, places, block in self.rows.blocks():
            block -= self.means[part]
            lines = directions.lines(block)
            h[places] = np.einsum("ij,ij->i", lines, lines) + 1.0 / self.totals[part]
        return self.rows.squares * h


class KeptPasses:
    """The last sums of each class.

    Weights of rows are found with them, and what is told of rows with these weights.
    """

    def __init__(self) -> None:
        self._passes: dict[int, ClassPass] = {}

    def of_rows(self, c: int, rows: ClassRows) -> ClassPass:
        """Return the sums of the rows of a class."""
        kept = self._passes.get(c)
        if kept is None or not kept.rows.are(rows):
            kept = ClassPass.from_rows(rows)
            self._passes[c] = kept
        return kept


def _drop_last(residuals: np.ndarray) -> np.ndarray:
    """Return columns without the last one, if they sum to 0, as those of a model do."""
    rounding = CONSTANT * np.abs(residuals).max(initial=0.0)
    if residuals.size and (np.abs(residuals.sum(axis=1)) <= rounding).all():
        return residuals[:, :-1]
    return residuals


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
