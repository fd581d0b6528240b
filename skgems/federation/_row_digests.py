"""Keyed digests of single rows, by which a node knows nearly equal tables again.

Sums of two tables that have all but a few rows in common can be subtracted from each
other: what remains is a sum of these few rows. A node keeps one short digest of each
row, made with a key that only the node has, and compares them.

A digest does not depend on the container, the dtype, or the order of rows and columns:
the same patients may be read by another query the next time. It is of the row's values
that are not zero, in order of size, as float32: a table that was stored with less
precision has the same digests. Values that are no numbers count by their texts.
"""

import hashlib
import io
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy import sparse

# Rows that are hashed at a time, so that no large table is copied whole.
_BLOCK = 2**14
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

    @classmethod
    def of(cls, X: object, y: object, held_out: object, *, key: bytes) -> Self:
        """Return the digests of what users give for a node."""
        rows, columns = _digests_of_values(X, key)
        labels = None
        if y is not None:
            codes = _codes(np.asarray(y), key)
            mask = np.zeros(len(codes)) if held_out is None else np.asarray(held_out)
            # All bits of a code but the last, which says whether the row is held out.
            labels = (codes & ~np.uint64(1)) | mask.astype(bool).astype(np.uint64)
        return cls(rows=rows, labels=labels, columns=columns)

    def to_bytes(self) -> bytes:
        """Return the digests as bytes, to be kept at the node."""
        file = io.BytesIO()
        arrays = {"rows": self.rows, "columns": self.columns}
        if self.labels is not None:
            arrays["labels"] = self.labels
        np.savez(file, **arrays)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Return the digests that `to_bytes` has written."""
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return cls(
                rows=arrays["rows"],
                labels=arrays["labels"] if "labels" in arrays else None,
                columns=arrays["columns"],
            )

    def compared_with(self, other: "RowDigests") -> "RowComparison":
        """Return what the rows have in common with those of another table.

        Labels count only if both tables have some.
        """
        kinds = _Kinds.of(self, other)
        by_row = kinds.with_any_label()
        has_rows = len(self.rows) == len(other.rows) and (
            not by_row.changes.any() or bool(np.isin(self.columns, other.columns).any())
        )
        return RowComparison(
            is_equal=not kinds.changes.any(),
            is_of_same_rows=has_rows,
            n_rows_apart=min(
                by_row.n_rows_by_group() + kinds.n_rows_by_group(), default=None
            ),
        )


@dataclass(frozen=True, kw_only=True)
class RowComparison:
    """What the rows of two tables have in common."""

    is_equal: bool  # the same rows with the same labels, in any order
    # The same rows, whatever their labels. Columns may be missing or added if one that
    # tells rows apart is in both.
    is_of_same_rows: bool
    # How many rows a difference of sums of the two would be of: the smallest number of
    # rows in which tables that have rows in common differ, of all rows, or of one class
    # of which both have rows in common. None if they differ in no rows, or have none in
    # common.
    n_rows_apart: int | None


@dataclass(frozen=True, kw_only=True)
class _Kinds:
    """How often each kind of row, one of different values or label, is in two tables.

    All arrays are of shape (n_kinds,), in the order of the digests of rows.
    """

    rows: np.ndarray  # digests
    groups: np.ndarray  # of its class
    in_first: np.ndarray
    in_second: np.ndarray

    @classmethod
    def of(cls, first: RowDigests, second: RowDigests) -> Self:
        """Count the rows of two tables, with their labels if both have some."""
        rows = np.concatenate([first.rows, second.rows])
        labels = np.zeros_like(rows)
        if first.labels is not None and second.labels is not None:
            labels = np.concatenate([first.labels, second.labels])
        order = np.lexsort((labels, rows))
        rows = rows[order]
        labels = labels[order]
        is_of_first = order < len(first.rows)
        starts = np.flatnonzero(_is_new(rows) | _is_new(labels))
        return cls(
            rows=rows[starts],
            groups=labels[starts] & ~np.uint64(1),  # rows of a class, held out or not
            in_first=np.add.reduceat(is_of_first, starts, dtype=int),
            in_second=np.add.reduceat(~is_of_first, starts, dtype=int),
        )

    def with_any_label(self) -> Self:
        """Return the kinds of rows whatever their labels are, all in one group."""
        starts = np.flatnonzero(_is_new(self.rows))
        return replace(
            self,
            rows=self.rows[starts],
            groups=np.zeros(len(starts), dtype=np.uint64),
            in_first=np.add.reduceat(self.in_first, starts),
            in_second=np.add.reduceat(self.in_second, starts),
        )

    @property
    def changes(self) -> np.ndarray:
        """How much more often each kind is in the first table than in the second."""
        return self.in_first - self.in_second

    def n_rows_by_group(self) -> list[int]:
        """Return the numbers of rows that differ, of all rows and of each class.

        Only where some rows differ and others are in common.
        """
        groups, codes = np.unique(self.groups, return_inverse=True)
        n_differing = np.bincount(codes, np.abs(self.changes), len(groups))
        n_common = np.bincount(
            codes, np.minimum(self.in_first, self.in_second), len(groups)
        )
        n_differing = np.append(n_differing, n_differing.sum())
        n_common = np.append(n_common, n_common.sum())
        is_partial = (n_differing > 0) & (n_common > 0)
        return n_differing[is_partial].astype(int).tolist()


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
        _digests_of_rows(codes[start : start + _BLOCK], key)
        for start in range(0, len(codes), _BLOCK)
    ]
    return np.concatenate(rows), _digests_of_columns(codes.T, key)


def _digests_of_sparse(X: sparse.csr_array, key: bytes) -> tuple:
    """Return what `_digests_of_values` does, without the zeros of sparse rows."""
    X.sum_duplicates()
    codes = sparse.csr_array((_codes(X.data, key), X.indices, X.indptr), shape=X.shape)
    rows = [
        _digests_of_rows(codes[start : start + _BLOCK].toarray(), key)
        for start in range(0, X.shape[0], _BLOCK)
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
