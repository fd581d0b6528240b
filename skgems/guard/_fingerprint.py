"""Digests by which a node knows its rows and its classifier again."""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from ..local import digest, local_model
from ..parties import as_groups, missing_labels
from ._row_digests import ROWS_AT_ONCE, RowDigests


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """Digests of all that a node answers from, which stay at the node.

    Equal numbers have equal digests, whatever their dtype and the container that they
    come in, since the same rows may be read from another file the next time.
    """

    # With the mask of rows that only score, the groups and the weights of rows.
    rows: str
    labels: str | None  # None where a message needs none, as those of fronts
    classifier: str
    n_rows: int
    # What users gave, of which digests of single rows are made.
    table: tuple[object, object, object] = field(repr=False, compare=False)
    groups: np.ndarray | None = field(repr=False, compare=False)  # numbers, (n_rows,)
    weights: np.ndarray | None = field(repr=False, compare=False)  # (n_rows,)

    @classmethod
    def from_arrays(
        cls,
        estimator: object,
        X: object,
        y: object,
        held_out: object,
        *,
        groups: object = None,
        weights: np.ndarray | None = None,
    ) -> "Fingerprint":
        """Compute the digests of what users give for a node.

        Other ``groups`` of the same rows divide them into other halves, and sums of
        these tell more of single rows.
        """
        n_rows, arrays = _arrays_of(X)
        if held_out is not None:
            arrays.append(np.asarray(held_out, dtype=bool))
        group_of_row = as_groups(groups, X)
        if group_of_row is not None:
            arrays.append(group_of_row)
        return cls(
            rows=_digest_of(arrays if weights is None else [*arrays, weights]),
            labels=None if y is None else _digest_of([np.asarray(y)]),
            classifier=_digest_of_classifier(estimator),
            n_rows=n_rows,
            table=(X, y, held_out),
            groups=group_of_row,
            weights=weights,
        )

    def row_digests(self, key: bytes) -> RowDigests:
        """Return the digests of single rows, made with a key of the node."""
        X, y, held_out = self.table
        return RowDigests.from_rows(
            X, y, held_out, key=key, groups=self.groups, weights=self.weights
        )

    def has_rows_of(self, rows: str, labels: str | None) -> bool:
        """Report whether rows are the same, and labels, if both have some."""
        return self.rows == rows and (
            self.labels is None or labels is None or self.labels == labels
        )


def _digest_of_classifier(estimator: object) -> str:
    """Digest of its weights, if it has layers, else of the whole; "" if it has none."""
    # Reading and pickling somebody's classifier may raise anything.
    with suppress(Exception):
        # The same net that was trained twice has other times in its history.
        return digest(local_model(estimator, name="").network.as_content())
    with suppress(Exception):
        return digest(estimator)
    return ""


def groups_of_all_rows(groups: object) -> np.ndarray | None:
    """Return groups in which rows without one are a group, (n_rows,).

    A node with such rows replies all the same, and leaves them out of its sums.
    """
    if groups is None:
        return None
    is_missing = missing_labels(groups)
    named = np.asarray(groups, dtype=object).ravel()
    return np.where(is_missing, "no group", named) if is_missing.any() else groups


def _arrays_of(X: object) -> tuple[int, list[np.ndarray]]:
    """The number of rows, and arrays that say all of what is in them."""
    if hasattr(X, "to_pandas"):
        X = X.to_pandas()
    if sparse.issparse(X):
        rows = sparse.csr_array(X, copy=True)
        # Of equal matrices one may store columns in another order, or a sum in parts.
        rows.sum_duplicates()
        shape = np.array(rows.shape)
        return rows.shape[0], [shape, rows.indptr, rows.indices, rows.data]
    if hasattr(X, "columns") and hasattr(X, "dtypes"):  # columns of several types
        names = np.array(list(map(str, X.columns)), dtype=object)
        columns = [np.asarray(X.iloc[:, j]) for j in range(X.shape[1])]
        return len(X), [names, *columns]
    rows = np.asarray(X)
    return len(rows), [rows]


def _digest_of(arrays: list[np.ndarray]) -> str:
    """Digest of shapes and values; numbers as float64, others as texts."""
    hashed = hashlib.sha256()
    for array in arrays:
        hashed.update(f"\n{array.shape}\n".encode())
        for block in _blocks(array):
            hashed.update(block)
    return hashed.hexdigest()


def _blocks(array: np.ndarray) -> Iterator[bytes]:
    """The bytes of all values, a part at a time."""
    if array.dtype.kind in "biuf":
        for start in range(0, len(array), ROWS_AT_ONCE):
            block = np.ascontiguousarray(
                array[start : start + ROWS_AT_ONCE], np.float64
            )
            yield (block + 0.0).data  # -0.0 becomes 0.0, to which it is equal
        return
    for value in array.ravel().tolist():
        # Lengths, since texts may hold whatever stands between two of them.
        text = str(value).encode("utf-8", "surrogatepass")
        yield b"%d " % len(text) + text
