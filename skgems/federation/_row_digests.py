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
"""

import hashlib
import io
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from scipy import sparse

# Rows that are made codes, or float64, and hashed at a time, so that no large table is
# copied whole.
ROWS_AT_ONCE = 2**14
# Bytes of a digest: among a million rows the chance that two agree is 3e-8.
_SIZE = 8


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
        rows, columns = _digests_of_values(X, key)
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
            rows=rows, labels=labels, columns=columns, groups=groups, marks=marks
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

    def compared_with(self, other: "RowDigests") -> "RowComparison":
        """Return what the rows have in common with those of another table.

        Labels count only if both tables have some.
        """
        rows = np.concatenate([self.rows, other.rows])
        labels = np.zeros_like(rows)
        if self.labels is not None and other.labels is not None:
            labels = np.concatenate([self.labels, other.labels])
        units = np.concatenate([self.units, len(rows) + other.units])
        order = np.lexsort((labels, rows))
        labels = labels[order]
        units = units[order]
        is_own = order < len(self.rows)
        is_other_row = _is_new(rows[order])
        has_other_values = _has_no_partner(is_other_row, is_own)
        is_alone = _has_no_partner(is_other_row | _is_new(labels), is_own)
        classes = labels & ~np.uint64(1)  # rows of a class, held out or not
        all_rows = np.zeros_like(classes)
        numbers = [
            *_numbers_apart(all_rows, units, has_other_values),
            *_numbers_apart(all_rows, units, is_alone),
            *_numbers_apart(classes, units, is_alone),
        ]
        return RowComparison(
            is_equal=not is_alone.any(),
            has_equal_marks=np.array_equal(self._sorted_marks(), other._sorted_marks()),
            is_of_same_rows=len(self.rows) == len(other.rows)
            and (
                not has_other_values.any()
                or bool(np.isin(self.columns, other.columns).any())
            ),
            n_rows_apart=min(numbers, default=None),
        )


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


def _digests_of_values(X: object, key: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return digests of rows, (n_rows,), and of columns that tell rows apart."""
    if hasattr(X, "to_pandas"):
        X = X.to_pandas()
    if sparse.issparse(X):
        return _digests_of_sparse(sparse.csr_array(X, copy=True), key)
    if hasattr(X, "columns") and hasattr(X, "iloc"):  # columns of several types
        columns = [np.asarray(X.iloc[:, j]) for j in range(X.shape[1])]
    else:
        table = np.asarray(X)
        columns = list(table.reshape(len(table), -1).T)
    codes = np.empty((len(X), len(columns)), dtype=np.uint64)
    for j, column in enumerate(columns):
        codes[:, j] = _codes(column, key)
    rows = [
        _digests_of_rows(codes[start : start + ROWS_AT_ONCE], key)
        for start in range(0, len(codes), ROWS_AT_ONCE)
    ]
    return np.concatenate(rows), _digests_of_columns(codes.T, key)


def _digests_of_sparse(X: sparse.csr_array, key: bytes) -> tuple:
    """Return what `_digests_of_values` does, without the zeros of sparse rows."""
    X.sum_duplicates()
    codes = sparse.csr_array((_codes(X.data, key), X.indices, X.indptr), shape=X.shape)
    rows = [
        _digests_of_rows(codes[start : start + ROWS_AT_ONCE].toarray(), key)
        for start in range(0, X.shape[0], ROWS_AT_ONCE)
    ]
    by_column = codes.tocsc()
    columns = (
        _with_zeros(by_column.data[start:stop], X.shape[0])
        for start, stop in zip(by_column.indptr, by_column.indptr[1:], strict=False)
    )
    return np.concatenate(rows), _digests_of_columns(columns, key)


def _with_zeros(values: np.ndarray, n_rows: int) -> np.ndarray:
    """Return all values of a column of which some are stored, in any order."""
    return np.concatenate([values, np.zeros(n_rows - len(values), values.dtype)])


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


def _digests_of_columns(columns: Iterable[np.ndarray], key: bytes) -> np.ndarray:
    """Return the digests of columns whose values tell most rows apart, sorted."""
    digests = []
    for column in columns:
        ordered = np.sort(column)
        n_values = 1 + np.count_nonzero(np.diff(ordered))
        if 2 * n_values > len(ordered):
            digests.append(_digest(ordered.tobytes(), key))
    return np.sort(np.frombuffer(b"".join(digests), dtype=np.uint64))


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
