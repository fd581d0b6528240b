"""Sums over the rows of each part (a class, or a cluster of one), in one pass.

With the rows x of a part p, their weights w (1 unless they are given) and a point s_p
amid the part, the shift, there are

    n_p = sum w,    m_p = sum w (x - s_p) / n_p,

    sum w (x - s_p - m_p)(x - s_p - m_p)^T = sum w (x - s_p)(x - s_p)^T - n_p m_p m_p^T.

The products on the right are summed over a group of parts at once: all parts of a
class, or all parts. The subtraction costs no digits, as rows lie about their shift.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

from ..disclosure import indicator
from ._rows import SAMPLE_ROWS, Rows, block_bytes, float_type

# Divisor of the sums of a part without weight, which are 0.
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False, kw_only=True)
class PartSums:
    """Counts, means and products of the rows of parts."""

    shifts: np.ndarray  # (n_parts, n_features), points that means are less
    counts: np.ndarray  # (n_parts,), rows of each part, or their weight
    means: np.ndarray  # (n_parts, n_features), less the shifts
    # (n_groups, n_features, n_features), or their diagonals (n_groups, n_features):
    # products of rows less the means of their parts.
    scatter: np.ndarray
    squares: np.ndarray | None  # (n_parts, n_features), the same of each part


def sum_parts(
    X: Rows,
    part_of_row: np.ndarray,
    *,
    group_of_part: np.ndarray,
    n_groups: int,
    weights: np.ndarray | None,
    is_diagonal: bool,
    with_squares: bool,
) -> PartSums:
    """Sums of the rows of parts, in float64.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
    part_of_row : ndarray of shape (n_rows,)
        Indices of parts, each of which has a row.
    group_of_part : ndarray of shape (n_parts,)
        Index of the scatter that products of the part's rows are added to.
    weights : ndarray of shape (n_rows,), or None
        None: 1 of each row.
    is_diagonal : bool
        Whether scatters have only the squares of features.
    with_squares : bool
        Whether squares are summed by part as well.
    """
    shifts = _points_amid_parts(X, part_of_row, n_parts=len(group_of_part))
    n_features = X.shape[1]
    if is_diagonal:
        scatter = np.zeros((n_groups, n_features))
    else:
        scatter = np.zeros((n_groups, n_features, n_features))
    totals = _Totals(
        sums=np.zeros_like(shifts),
        products=scatter,
        squares=np.zeros_like(shifts) if with_squares else None,
    )
    if sparse.issparse(X):
        adder: _SparseAdder | _DenseAdder = _SparseAdder(totals)
    else:
        adder = _DenseAdder(totals, shifts.astype(float_type(X), copy=False))
    # Rows of one part after those of another, so that each product is of one group.
    order = np.argsort(part_of_row, kind="stable")
    sorted_parts = part_of_row[order]
    group_changes = np.flatnonzero(np.diff(group_of_part[sorted_parts])) + 1
    for block in _blocks(X, group_changes):
        rows = order[block]
        parts = sorted_parts[block]
        adder.add(
            X[rows],
            parts,
            weights=None if weights is None else weights[rows],
            group=group_of_part[parts[0]],
        )

    counts = np.bincount(part_of_row, weights=weights).astype(np.float64)
    means = totals.sums / np.maximum(counts, _TINY)[:, None]
    for g in range(n_groups):
        in_group = group_of_part == g
        scatter[g] -= products(
            means[in_group], counts[in_group], is_diagonal=is_diagonal
        )
    squares = totals.squares
    if squares is not None:
        squares = np.maximum(squares - counts[:, None] * means**2, 0.0)
    return PartSums(
        shifts=shifts, counts=counts, means=means, scatter=scatter, squares=squares
    )


def median_of_rows(X: Rows, rows: np.ndarray) -> np.ndarray:
    """Median of some of `rows`, indices; a constant feature has exactly its value.

    It is zero for sparse rows, which stay sparse only if nothing is subtracted.
    """
    if sparse.issparse(X):
        return np.zeros(X.shape[1])
    chosen = np.linspace(0, len(rows) - 1, min(SAMPLE_ROWS, len(rows)))
    # Rounded as the rows are, so that differences of theirs are exact.
    median = _median(X[rows[chosen.astype(np.intp)]])
    return median.astype(X.dtype).astype(np.float64)


def _median(rows: np.ndarray) -> np.ndarray:
    """NumPy's median of each feature, of a few rows without missing values.

    Sorting few rows takes a quarter of the time, and many parts are summed.
    """
    rows = np.sort(rows, axis=0)
    middle = len(rows) // 2
    if len(rows) % 2:
        return rows[middle]
    return (rows[middle - 1] + rows[middle]) / 2


def products(rows: np.ndarray, weights: np.ndarray, *, is_diagonal: bool) -> np.ndarray:
    """Weighted sum of the products of rows with themselves, or of their squares.

    That is ``sum w x x^T``, (n_features, n_features), or ``sum w x^2``, (n_features,).
    """
    if is_diagonal:
        return weights @ rows**2
    rooted = np.sqrt(weights)[:, None] * rows
    return rooted.T @ rooted


def _points_amid_parts(X: Rows, part_of_row: np.ndarray, *, n_parts: int) -> np.ndarray:
    """A point amid each part, (n_parts, n_features).

    Parts may lie far apart: a point that they share would cost digits.
    """
    order = np.argsort(part_of_row, kind="stable")
    ends = np.cumsum(np.bincount(part_of_row, minlength=n_parts))
    return np.stack([median_of_rows(X, rows) for rows in np.split(order, ends[:-1])])


@dataclass(frozen=True, eq=False, kw_only=True)
class _Totals:
    """Sums about shifts, which grow in place."""

    sums: np.ndarray  # (n_parts, n_features)
    products: np.ndarray  # (n_groups, n_features[, n_features])
    squares: np.ndarray | None  # (n_parts, n_features), or None: not asked for

    @property
    def is_diagonal(self) -> bool:
        return self.products.ndim == 2


@dataclass(frozen=True, eq=False)
class _SparseAdder:
    """Adds blocks of sparse rows, whose shifts are zero, to the totals."""

    totals: _Totals

    def add(
        self,
        block: sparse.csr_matrix,
        parts: np.ndarray,
        *,
        weights: np.ndarray | None,
        group: int,
    ) -> None:
        """Add rows of one group; `parts`, (n_rows,), is sorted."""
        totals = self.totals
        block = block.astype(np.float64, copy=False)
        present = parts[_ends_of_runs(parts) - 1]
        one_hot = indicator(np.searchsorted(present, parts), len(present), weights)
        totals.sums[present] += safe_sparse_dot(one_hot, block, dense_output=True)
        weighted = block if weights is None else sparse.diags(weights) @ block
        if totals.is_diagonal:
            squares = block.multiply(weighted).sum(axis=0)
            totals.products[group] += np.asarray(squares).ravel()
        else:
            totals.products[group] += safe_sparse_dot(
                block.T, weighted, dense_output=True
            )
        if totals.squares is not None:
            totals.squares[present] += (one_hot @ block.power(2)).toarray()


@dataclass(frozen=True, eq=False)
class _DenseAdder:
    """Adds blocks of dense rows to the totals; a block is overwritten."""

    totals: _Totals
    shifts: np.ndarray  # (n_parts, n_features), of the type of the rows

    def add(
        self,
        block: np.ndarray,
        parts: np.ndarray,
        *,
        weights: np.ndarray | None,
        group: int,
    ) -> None:
        """Add rows of one group; `parts`, (n_rows,), is sorted."""
        totals = self.totals
        stops = _ends_of_runs(parts)
        starts = [0, *stops[:-1]]
        present = parts[stops - 1]
        factors = np.ones(len(parts)) if weights is None else weights
        factors = factors.astype(block.dtype)
        for part, start, stop in zip(present, starts, stops, strict=True):
            block[start:stop] -= self.shifts[part]
            totals.sums[part] += factors[start:stop] @ block[start:stop]
        if weights is not None:
            block *= np.sqrt(weights).astype(block.dtype)[:, None]
        if totals.is_diagonal:
            totals.products[group] += np.einsum(
                "ij,ij->j", block, block, dtype=np.float64
            )
        else:
            totals.products[group] += block.T @ block
        if totals.squares is not None:
            for part, start, stop in zip(present, starts, stops, strict=True):
                rows = block[start:stop]
                totals.squares[part] += np.einsum("ij,ij->j", rows, rows, dtype=float)


def _ends_of_runs(parts: np.ndarray) -> np.ndarray:
    """Return the stops of runs of equal numbers: [2, 3] of [3, 3, 5]."""
    return np.flatnonzero(np.diff(parts, append=-1)) + 1


def _blocks(X: Rows, group_changes: np.ndarray) -> Iterator[slice]:
    """Blocks of sorted rows of one group each, within memory and a core's cache.

    Sparse rows of a group are one block: they are small, and copied by each product.
    """
    n_rows = X.shape[0]
    size = n_rows
    if not sparse.issparse(X):
        size = max(1, block_bytes() // (max(X.shape[1], 1) * float_type(X).itemsize))
    starts = [0, *group_changes]
    stops = [*group_changes, n_rows]
    for start, stop in zip(starts, stops, strict=True):
        for i in range(start, stop, size):
            yield slice(i, min(i + size, stop))
