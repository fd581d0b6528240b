"""Keyed digests of single rows, by which a node knows nearly equal tables again.

Sums of two tables that have all but a few rows in common can be subtracted from each
other: what remains is a sum of these few rows. A node keeps one short digest of each
row, made with a key that only the node has, and compares them.

A digest does not depend on the container, the dtype, or the order of rows and columns:
the same patients may be read by another query the next time. It is of the row's values
that are not zero, in order of size, as float32: a table that was stored with less
precision has the same digests. Values that are no numbers count by their texts.

Where rows have groups, such as patients, a difference is of so many groups: one patient
with many rows is not hidden among them.

A table may have come by a column, or have one in other units: no row has the digest it
had then. So a few columns that tell rows apart are compared value by value, too.

Of more than two tables sums are added and subtracted: those of all rows, less those of
two parts of them, have the row that is in neither part. With a column of 0 and 1 for
each table, that says which rows are in it, no number that follows depends on fewer than
1 / h rows, where h is the largest leverage of a row in these columns.
"""

import hashlib
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import combinations, product
from typing import Self

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

# Rows that are made codes, or float64, and hashed at a time, so that no large table is
# copied whole.
ROWS_AT_ONCE = 2**14
# Bytes of a digest: among a million rows the chance that two agree is 3e-8.
_SIZE = 8
# Columns of which the digests of all values are kept. Of two tables that have most rows
# and columns in common they are nearly always some of the same.
_MOST_COLUMNS = 6
# Digests by which columns may be alike: that all these rows are gone is most unlikely.
_LEAST_DIGESTS = 20
# Columns of fewer values of which pairs are looked at: 28 pairs.
_MOST_COARSE = 8
# Leverages of rows in columns of 0 and 1 are exact up to this.
_ROUNDING = 1e-6


@dataclass(frozen=True, kw_only=True)
class RowDigests:
    """Keyed digests of a table, uint64 each."""

    rows: np.ndarray  # (n_rows,), of the values alone
    # (n_rows,), of the label and of whether the row is held out; None without labels.
    labels: np.ndarray | None
    # Of the columns whose values tell most rows apart, in ascending order. A column
    # keeps its digest where rows come in another order.
    columns: np.ndarray
    # (n_rows,), numbers of the groups of rows, which say nothing of them; None where
    # each row stands alone.
    groups: np.ndarray | None = None
    # (n_rows,), of the weight of each row and of the rows of its group; None where
    # there are neither weights nor groups.
    marks: np.ndarray | None = None
    # (n_kept_columns, n_rows), of the values in some of these columns, by row.
    values: np.ndarray | None = None

    @classmethod
    def from_rows(
        cls,
        X: object,
        y: object,
        held_out: object,
        *,
        key: bytes,
        groups: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> Self:
        """Return the digests of what users give for a node.

        ``groups`` are numbers of groups from 0 on, (n_rows,), as are ``weights``.
        """
        rows, columns, values = _digests_of_values(X, key)
        labels = None
        if y is not None:
            codes = _codes(np.asarray(y), key)
            mask = np.zeros(len(codes)) if held_out is None else np.asarray(held_out)
            # All bits of a code but the last, which says whether the row is held out.
            labels = (codes & ~np.uint64(1)) | mask.astype(bool).astype(np.uint64)
        marks = None
        if groups is not None or weights is not None:
            marks = np.zeros_like(rows) if weights is None else _codes(weights, key)
        if groups is not None:
            marks = marks + _sums_of_groups(rows, groups)
        return cls(
            rows=rows,
            labels=labels,
            columns=columns,
            groups=groups,
            marks=marks,
            values=values,
        )

    def to_bytes(self) -> bytes:
        """Return the digests as bytes, to be kept at the node."""
        file = io.BytesIO()
        arrays = {
            field.name: array
            for field in fields(self)
            if (array := getattr(self, field.name)) is not None
        }
        np.savez(file, **arrays)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Return the digests that `to_bytes` has written."""
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return cls(**{field.name: arrays.get(field.name) for field in fields(cls)})

    @property
    def units(self) -> np.ndarray:
        """Return numbers of groups, or else of rows, as units of rows: (n_rows,)."""
        return np.arange(len(self.rows)) if self.groups is None else self.groups

    def _sorted_marks(self) -> np.ndarray:
        """Return the marks in an order that is the same for equal tables."""
        if self.marks is None:
            return np.empty(0)
        keys = [self.marks, self.rows]
        if self.labels is not None:
            keys.insert(1, self.labels)
        return self.marks[np.lexsort(keys)]

    def _columns_alike(
        self, other: "RowDigests"
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield values of columns of both tables that may have most of them in common.

        They have one of their least digests in common.
        """
        if self.values is None or other.values is None:
            return
        least, least_of_other = (
            [np.sort(column)[:_LEAST_DIGESTS] for column in table.values]
            for table in (self, other)
        )
        for j, k in product(range(len(least)), range(len(least_of_other))):
            if np.isin(least[j], least_of_other[k]).any():
                yield self.values[j], other.values[k]

    def compared_with(self, other: "RowDigests") -> "RowComparison":
        """Return what the rows have in common with those of another table.

        Labels count only if both tables have some.
        """
        partners = _Partners.from_digests(self, other, self.rows, other.rows)
        numbers = partners.numbers_apart
        for values, other_values in self._columns_alike(other):
            of_column = _Partners.from_digests(self, other, values, other_values)
            if 2 * of_column.is_alone.sum() < len(of_column.is_alone):
                numbers += of_column.numbers_apart
        return RowComparison(
            is_equal=not partners.is_alone.any(),
            has_equal_marks=np.array_equal(self._sorted_marks(), other._sorted_marks()),
            is_of_same_rows=len(self.rows) == len(other.rows)
            and (
                not partners.has_other_values.any()
                or bool(np.isin(self.columns, other.columns).any())
            ),
            n_rows_apart=min(numbers, default=None),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Partners:
    """Which rows of two tables have an equal one in the other, in a common order."""

    has_other_values: np.ndarray  # (n_rows,), whatever their labels
    is_alone: np.ndarray  # (n_rows,), with their labels
    classes: np.ndarray  # (n_rows,)
    units: np.ndarray  # (n_rows,)

    @classmethod
    def from_digests(
        cls,
        first: RowDigests,
        second: RowDigests,
        digests: np.ndarray,
        others: np.ndarray,
    ) -> "_Partners":
        """Return the partners of rows by some digests of these, (n_rows,) of each."""
        rows = np.concatenate([digests, others])
        labels = np.zeros_like(rows)
        if first.labels is not None and second.labels is not None:
            labels = np.concatenate([first.labels, second.labels])
        units = np.concatenate([first.units, len(rows) + second.units])
        order = np.lexsort((labels, rows))
        labels = labels[order]
        is_own = order < len(digests)
        is_other_row = _is_new(rows[order])
        return cls(
            has_other_values=_has_no_partner(is_other_row, is_own),
            is_alone=_has_no_partner(is_other_row | _is_new(labels), is_own),
            classes=labels & ~np.uint64(1),  # rows of a class, held out or not
            units=units[order],
        )

    @property
    def numbers_apart(self) -> list[int]:
        """Return in how many units the tables differ, in all rows and by class."""
        all_rows = np.zeros_like(self.classes)
        return [
            *_numbers_apart(all_rows, self.units, self.has_other_values),
            *_numbers_apart(all_rows, self.units, self.is_alone),
            *_numbers_apart(self.classes, self.units, self.is_alone),
        ]


@dataclass(frozen=True, kw_only=True)
class RowComparison:
    """What the rows of two tables have in common."""

    is_equal: bool  # the same rows with the same labels, in any order
    has_equal_marks: bool  # the same weights and groups; of equal tables only
    # The same rows, whatever their labels. Columns may be missing or added if one that
    # tells rows apart is in both.
    is_of_same_rows: bool
    # How many rows a difference of sums of the two would be of: the smallest number of
    # rows in which tables that have rows in common differ, of all rows, or of one class
    # of which both have rows in common. None if they differ in no rows, or have none in
    # common. Groups count as one row each.
    n_rows_apart: int | None


def tells_fewer_rows(
    new: RowDigests, earlier: Sequence[RowDigests], *, min_rows: int
) -> bool:
    """Report whether sums of a table and of earlier ones have a sum of too few rows.

    Not if sums of the earlier ones have it by themselves.
    """
    tables = [*earlier, new]
    classes, rows, units = _classes_rows_and_units(tables)
    for numbers in (rows, units):
        members = _members_by_class(tables, classes, numbers, min_rows=min_rows)
        for is_in in members:
            if _largest_leverage(is_in) * min_rows <= 1.0 + _ROUNDING:
                continue
            if _largest_leverage(is_in[:, :-1]) * min_rows <= 1.0 + _ROUNDING:
                return True
    return False


def _classes_rows_and_units(
    tables: Sequence[RowDigests],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return classes of all rows of tables, and numbers of rows and units, (n_all,).

    Equal rows of a table are different ones: the first of them is the first one of
    another table. Units that have a row in common are one.
    """
    digests = np.concatenate([table.rows for table in tables])
    labels = np.concatenate(
        [
            np.zeros_like(table.rows) if table.labels is None else table.labels
            for table in tables
        ]
    )
    of_table = np.repeat(np.arange(len(tables)), [len(table.rows) for table in tables])
    order = np.lexsort((of_table, labels, digests))
    is_other = _is_new(digests[order]) | _is_new(labels[order])
    starts = np.flatnonzero(is_other | _is_new(of_table[order]))
    ranks = np.empty(len(order), dtype=np.uint64)
    ranks[order] = np.arange(len(order)) - np.repeat(
        starts, np.diff(starts, append=len(order))
    )
    numbers = np.empty(len(order), dtype=np.uint64)
    numbers[order] = np.cumsum(is_other)
    rows = np.unique(numbers * np.uint64(len(order) + 1) + ranks, return_inverse=True)[
        1
    ]
    ends = np.cumsum([table.units.max(initial=-1) + 1 for table in tables])
    units = (
        np.concatenate([table.units for table in tables])
        + (np.append(0, ends[:-1])[of_table])
    )
    graph = sparse.coo_array(
        (np.ones(len(rows)), (rows, rows.max(initial=-1) + 1 + units))
    )
    size = max(graph.shape)
    graph.resize((size, size))
    return labels, rows, connected_components(graph, directed=False)[1][rows]


def _members_by_class(
    tables: Sequence[RowDigests],
    labels: np.ndarray,
    numbers: np.ndarray,
    *,
    min_rows: int,
) -> Iterator[np.ndarray]:
    """Yield which rows or units are summed in which table, (n_numbers, n_tables), bool.

    First those of each class with ``min_rows`` of them, and then of all classes.
    """
    of_table = np.repeat(np.arange(len(tables)), [len(table.rows) for table in tables])
    learns = (labels & np.uint64(1)) == 0
    is_in_any = np.zeros((numbers.max(initial=-1) + 1, len(tables)), dtype=bool)
    for label in np.unique(labels[learns]):
        of_class = learns & (labels == label)
        is_in = np.zeros_like(is_in_any)
        is_in[numbers[of_class], of_table[of_class]] = True
        is_in[:, is_in.sum(axis=0) < min_rows] = False
        is_in_any |= is_in
        yield is_in[is_in.any(axis=1)]
    yield is_in_any


def _largest_leverage(is_in: np.ndarray) -> float:
    """Return the largest leverage of a row in columns of 0 and 1, one a table."""
    patterns, counts = np.unique(is_in, axis=0, return_counts=True)
    lines = np.sqrt(counts)[:, None] * patterns
    shares = np.einsum("ij,ji->i", lines, np.linalg.pinv(lines))
    return float((shares / counts).max(initial=0.0))


def _sums_of_groups(digests: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the sum of the digests of each row's group, (n_rows,), modulo 2^64."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(_is_new(groups[order]))
    return np.add.reduceat(digests[order], starts)[groups]


def _has_no_partner(is_new: np.ndarray, is_own: np.ndarray) -> np.ndarray:
    """Report which rows of two tables have no equal one in the other table, (n_rows,).

    Equal rows follow each other; ``is_new`` says where other ones begin.
    """
    starts = np.flatnonzero(is_new)
    kinds = np.cumsum(is_new) - 1
    is_alone = np.empty(len(is_own), dtype=bool)
    for is_here in (is_own, ~is_own):
        n_elsewhere = np.add.reduceat(~is_here, starts, dtype=int)
        n_before = np.cumsum(is_here) - is_here
        ranks = n_before - n_before[starts[kinds]]  # among the equal rows of its table
        is_alone[is_here] = (ranks >= n_elsewhere[kinds])[is_here]
    return is_alone


def _numbers_apart(
    classes: np.ndarray, units: np.ndarray, is_alone: np.ndarray
) -> list[int]:
    """Return in how many units the rows of each class differ between two tables.

    Only of classes of which some rows differ and others are in both tables.
    """
    codes = np.unique(classes, return_inverse=True)[1]
    is_in_both = np.bincount(codes[~is_alone], minlength=codes.max() + 1) > 0
    n_units = units.max() + 1
    # Each unit of each class once.
    differing = np.unique(codes[is_alone] * n_units + units[is_alone]) // n_units
    n_differing = np.bincount(differing, minlength=len(is_in_both))
    return n_differing[is_in_both & (n_differing > 0)].tolist()


def _is_new(ordered: np.ndarray) -> np.ndarray:
    """Report where a value differs from the one before it, (n,)."""
    is_new = np.ones(len(ordered), dtype=bool)
    is_new[1:] = ordered[1:] != ordered[:-1]
    return is_new


def _digests_of_values(
    X: object, key: bytes
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return digests of rows, (n_rows,), of columns that tell rows apart, and values.

    Values are those of a few of these columns, (n_kept_columns, n_rows).
    """
    if hasattr(X, "to_pandas"):
        X = X.to_pandas()
    if sparse.issparse(X):
        return _digests_of_sparse(sparse.csr_array(X, copy=True), key)
    if hasattr(X, "columns") and hasattr(X, "iloc"):  # columns of several types
        columns = [np.asarray(X.iloc[:, j]) for j in range(X.shape[1])]
    else:
        table = np.asarray(X)
        columns = list(table.reshape(len(table), math.prod(table.shape[1:])).T)
    codes = np.empty((len(X), len(columns)), dtype=np.uint64)
    for j, column in enumerate(columns):
        codes[:, j] = _codes(column, key)
    rows = [
        _digests_of_rows(codes[start : start + ROWS_AT_ONCE], key)
        for start in range(0, max(len(codes), 1), ROWS_AT_ONCE)
    ]
    columns, values = _digests_of_columns(codes.T, key)
    return np.concatenate(rows), columns, values


def _digests_of_sparse(X: sparse.csr_array, key: bytes) -> tuple:
    """Return what `_digests_of_values` does, without the zeros of sparse rows."""
    X.sum_duplicates()
    codes = sparse.csr_array((_codes(X.data, key), X.indices, X.indptr), shape=X.shape)
    rows = [
        _digests_of_rows(codes[start : start + ROWS_AT_ONCE].toarray(), key)
        for start in range(0, max(X.shape[0], 1), ROWS_AT_ONCE)
    ]
    by_column = codes.tocsc()
    columns = (
        _with_zeros(
            by_column.data[start:stop], by_column.indices[start:stop], X.shape[0]
        )
        for start, stop in zip(by_column.indptr, by_column.indptr[1:], strict=False)
    )
    return np.concatenate(rows), *_digests_of_columns(columns, key)


def _with_zeros(values: np.ndarray, rows: np.ndarray, n_rows: int) -> np.ndarray:
    """Return all values of a column of which some are stored, (n_rows,)."""
    column = np.zeros(n_rows, values.dtype)
    column[rows] = values
    return column


def _digests_of_rows(codes: np.ndarray, key: bytes) -> np.ndarray:
    """Return the digests of rows of codes, (n_rows,)."""
    codes = np.sort(codes, axis=1)
    # Zeros come first, and are left out: of sparse rows they are not stored.
    starts = np.count_nonzero(codes == 0, axis=1).tolist()
    digests = [
        _digest(row[start:].tobytes(), key)
        for row, start in zip(codes, starts, strict=True)
    ]
    return np.frombuffer(b"".join(digests), dtype=np.uint64)


def _digests_of_columns(
    columns: Iterable[np.ndarray], key: bytes
) -> tuple[np.ndarray, np.ndarray]:
    """Return digests of columns whose values tell most rows apart, sorted, and values.

    Values, (n_kept_columns, n_rows), are those of the columns with the smallest ones,
    which are the same columns where some rows are gone, or where others have come.
    Where there are too few such columns, sums of two others stand for both.
    """
    digests = []
    fine: list[_KeptColumn] = []
    coarse: list[_KeptColumn] = []
    for column in columns:
        if not len(column):
            continue
        ordered = np.sort(column)
        n_values = 1 + np.count_nonzero(np.diff(ordered))
        mixed = _KeptColumn.from_digests(_mixed(column, key), n_values=n_values)
        if 2 * n_values > len(column):
            digests.append(_digest(ordered.tobytes(), key))
            fine = sorted([*fine, mixed], key=_KeptColumn.smallest)[:_MOST_COLUMNS]
        else:
            coarse = sorted([*coarse, mixed], key=_KeptColumn.size)[-_MOST_COARSE:]
    if len(fine) < _MOST_COLUMNS:
        for first, second in combinations(coarse, 2):
            pair = first.digests + second.digests
            n_values = len(np.unique(pair))
            if 2 * n_values > len(pair):
                fine.append(_KeptColumn.from_digests(pair, n_values=n_values))
        fine = sorted(fine, key=_KeptColumn.smallest)[:_MOST_COLUMNS]
    values = np.array([column.digests for column in fine], dtype=np.uint64)
    return np.sort(np.frombuffer(b"".join(digests), dtype=np.uint64)), values


@dataclass(frozen=True, kw_only=True, eq=False)
class _KeptColumn:
    """Digests of the values of a column, or of two together."""

    digests: np.ndarray  # (n_rows,)
    least: int  # of these
    n_values: int  # different ones

    @classmethod
    def from_digests(cls, digests: np.ndarray, *, n_values: int) -> "_KeptColumn":
        """Return a column with the least of its digests."""
        return cls(digests=digests, least=int(digests.min()), n_values=n_values)

    def smallest(self) -> int:
        """Return what columns are sorted by that tell rows apart."""
        return self.least

    def size(self) -> tuple[int, int]:
        """Return what columns of few values are sorted by."""
        return self.n_values, self.least


def _mixed(codes: np.ndarray, key: bytes) -> np.ndarray:
    """Return keyed digests of numbers of values, (n_rows,) uint64.

    They are those of SplitMix64, which are different for different numbers.
    """
    start = np.frombuffer(_digest(b"values", key), dtype=np.uint64)
    mixed = codes + start
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def _digest(content: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_SIZE, key=key).digest()


def _codes(values: np.ndarray, key: bytes) -> np.ndarray:
    """Return a number for each value, equal where values are equal, (n,) uint64.

    Zero and what is not true have the code 0.
    """
    values = np.ma.getdata(values).ravel()
    if values.dtype.kind == "O":
        numbers = _as_numbers(values)
        values = values if numbers is None else numbers
    if values.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            rounded = values.astype(np.float32).astype(np.float64)
        numbers = values.astype(np.float64)
        # Beyond the range of float32 numbers count as they are.
        is_in_range = np.isfinite(rounded) & ((rounded != 0) | (numbers == 0))
        canonical = np.where(is_in_range, rounded, numbers) + 0.0  # -0.0 becomes 0.0
        return canonical.view(np.uint64)
    texts, codes = np.unique(values.astype(str), return_inverse=True)
    digests = [
        _digest(text.encode("utf-8", "surrogatepass"), key) for text in texts.tolist()
    ]
    return np.frombuffer(b"".join(digests), dtype=np.uint64)[codes]


def _as_numbers(values: np.ndarray) -> np.ndarray | None:
    """Return objects as float64 if all are numbers; None if some are not."""
    if any(isinstance(value, str | bytes) for value in values.tolist()):
        return None
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        return None
