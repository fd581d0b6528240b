"""Rows that go to members as they are given: documents, and tables with texts."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import validate_data

from ..base import Allows, Method, Takes, is_channel, named_members
from ..compat import num_samples
from ..networks import is_constant, takes_missing_values
from ..steps import NUMBERS, Columns, are_documents, as_documents, as_rows

# Arrays, sparse matrices, tables, and arrays of documents.
Rows = Any


class GivenRowsMethod(Method):
    """A method that asks members to predict, and does not read their weights."""

    takes = Takes(networks=False)


class GivenRowsMixin:
    """Mixin of aggregators whose members get documents and tables as they are given.

    All else is validated, as the rows of other aggregators are.
    """

    _method_class = GivenRowsMethod

    @property
    def _allows(self) -> Allows:
        return Allows(
            more_dimensions=True,  # images for convolutions
            missing_values=self._members_take_missing_values,
            named_inputs=True,  # of modules that have several
        )

    @property
    def _members_take_missing_values(self) -> bool:
        if self.estimators is None or is_channel(self.estimators):
            return False
        members = named_members(self.estimators)[1]
        return all(
            is_constant(member) or takes_missing_values(member) for member in members
        )

    def _validate(self, X, *, reset: bool = True) -> Rows:
        rows = self._validated_as_given(X, reset=reset)
        return super()._validate(X, reset=reset) if rows is None else rows

    def _validate_with_labels(
        self, X, y, *, reset: bool = True
    ) -> tuple[Rows, np.ndarray]:
        rows = self._validated_as_given(X, reset=reset)
        if rows is None:
            return super()._validate_with_labels(X, y, reset=reset)
        y = column_or_1d(y)
        check_consistent_length(rows, y)
        return rows, y

    def _validated_as_given(self, X, *, reset: bool) -> Rows | None:
        """Documents, or a table with texts; None of all other rows."""
        if isinstance(X, np.ndarray) and X.dtype.kind in NUMBERS:
            return None
        behind_front = not reset and getattr(self, "_front", None) is not None
        rows = None if behind_front else rows_as_given(X)
        if rows is None:
            return None
        if not num_samples(rows):
            raise ValueError("X has no rows. Pass at least one.")
        if are_documents(rows):
            self._check_takes_documents(reset)
        else:
            validate_data(self, rows, reset=reset, skip_check_array=True)
        return rows

    def _check_takes_documents(self, reset: bool) -> None:
        """Forget the columns of an earlier fit, or raise ValueError if it had any."""
        if reset:
            vars(self).pop("n_features_in_", None)
            vars(self).pop("feature_names_in_", None)
        elif hasattr(self, "n_features_in_"):
            raise ValueError(
                f"X holds documents, but this {type(self).__name__} was fitted to rows "
                f"of {self.n_features_in_} features. Give rows of these features."
            )


def rows_as_given(X) -> Rows | None:
    """Documents, or a table with columns of other than numbers; None of all else."""
    if are_documents(X):
        return as_documents(X)
    if hasattr(X, "to_pandas"):
        X = X.to_pandas()
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        kinds = {getattr(dtype, "kind", "O") for dtype in X.dtypes}
        return None if kinds <= set(NUMBERS) else as_rows(X)
    table = _table_of_list(X) if isinstance(X, list | tuple) else X
    return table.astype(object) if _is_array_with_texts(table) else None


def _table_of_list(rows: list | tuple) -> np.ndarray | None:
    try:
        return np.array(rows, dtype=object)
    except ValueError:  # lists within lists of different lengths
        return None


def _is_array_with_texts(table: object) -> bool:
    if not isinstance(table, np.ndarray) or table.dtype.kind in NUMBERS:
        return False
    return table.ndim == 2 and any(Columns.from_table(table.astype(object)).text)


def row_digests(rows: Iterable) -> np.ndarray:
    """A number for each row that depends on its values alone, uint64, (n_rows, 1)."""
    digests = [
        int.from_bytes(hashlib.blake2b(_text_of(row), digest_size=8).digest())
        for row in rows
    ]
    return np.array(digests, dtype=np.uint64).reshape(-1, 1)


def _text_of(row: object) -> bytes:
    if isinstance(row, bytes):
        return row
    if isinstance(row, str):
        return row.encode("utf-8", "surrogatepass")
    if isinstance(row, Mapping):
        row = sorted((str(key), str(value)) for key, value in row.items())
    return repr([str(value) for value in row] if np.iterable(row) else row).encode()
