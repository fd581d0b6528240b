"""What rows look like before any number is looked at: columns, names, texts."""

import numbers as kinds_of_numbers
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from ._documents import are_documents

_FLOATS = ("float32", "float64")


class ColumnsError(ValueError):
    """What is wrong with columns, in words that tell no value of a row."""


@dataclass(frozen=True)
class Columns:
    n: int
    names: tuple[str, ...] | None
    text: tuple[bool, ...]
    dtype: str  # of the numbers, "float32" or "float64"

    @classmethod
    def of(cls, X) -> "Columns":
        names, single = None, X.dtype == np.float32 if hasattr(X, "dtype") else False
        if hasattr(X, "columns"):
            if all(isinstance(name, str) for name in X.columns):
                names = tuple(X.columns)  # others are no names, as in scikit-learn
            single = all(str(dtype) == "float32" for dtype in X.dtypes)
            text = tuple(_is_text(column) for _, column in X.items())
        elif X.dtype.kind == "O":
            text = tuple(map(_is_text, X.T))
        else:
            text = (False,) * X.shape[1]
        return cls(X.shape[1], names, text, _FLOATS[not single])

    @classmethod
    def from_content(cls, content) -> "Columns":
        names = content.get("names")
        names = None if names is None else tuple(names)
        text = tuple(map(bool, content["text"]))
        if content["dtype"] not in _FLOATS or (names and len(names) != len(text)):
            raise ValueError("columns do not go together")
        return cls(len(text), names, text, content["dtype"])

    def as_content(self) -> dict:
        names = {} if self.names is None else {"names": list(self.names)}
        return {**names, "text": list(self.text), "dtype": self.dtype}

    def table(self, rows, text: bool = False):
        data = np.array(rows, dtype=object if text or any(self.text) else self.dtype)
        if self.names is None:
            return data
        import pandas as pd

        frame = pd.DataFrame(data, columns=list(self.names))
        numbers = np.flatnonzero(~np.array(self.text))
        return frame.astype({self.names[j]: self.dtype for j in numbers})

    def has_text(self, columns) -> bool:
        """Whether one of some columns, by name or place, holds texts."""
        labels = self.names or range(self.n)
        pairs = zip(labels, self.text, strict=True)
        return any(holds and label in columns for label, holds in pairs)

    def part(self, places) -> "Columns":
        """Some of the columns, by their places."""
        names = None if self.names is None else tuple(self.names[j] for j in places)
        text = tuple(self.text[j] for j in places)
        return Columns(len(text), names, text, self.dtype)

    def example(self):
        return self.table([["" if own else 1.0 for own in self.text]])

    def of_rows(self, X):
        """Rows with these columns in this order, where columns of texts are objects."""
        if self.names is not None and hasattr(X, "columns"):
            if list(X.columns) != list(self.names):
                X = X[list(self.names)]
            self._check_texts(X)
            texts = [self.names[j] for j in np.flatnonzero(self.text)]
            kept = {name: object for name in texts if X[name].dtype != object}
            return X.astype(kept) if kept else X
        self._check_texts(X)
        return X.astype(object) if any(self.text) else X

    def _check_texts(self, X) -> None:
        """ColumnsError for numbers in a column that holds texts at other nodes."""
        labels = self.names or range(self.n)
        for j in np.flatnonzero(self.text):
            column = X.iloc[:, j] if hasattr(X, "iloc") else X[:, j]
            if not _is_text(column) and any(map(_is_number, column)):
                raise ColumnsError(
                    f"the column {labels[j]!r} holds numbers here and texts at other "
                    "nodes. Let all nodes write it alike, or leave it out of all "
                    "tables."
                )


def _is_number(value) -> bool:
    return isinstance(value, kinds_of_numbers.Number | np.bool_) and bool(
        value == value
    )


def _is_text(column) -> bool:
    if getattr(column.dtype, "kind", "O") in "biuf":
        return False
    return any(isinstance(value, str) for value in column)


def as_rows(X):
    """What users give as rows: tables stay, all else becomes an array."""
    if hasattr(X, "to_pandas"):
        X = X.to_pandas()
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        if len(set(X.columns)) < X.shape[1]:
            raise ColumnsError("two columns have the same name.")
        return X
    if are_documents(X):
        raise ColumnsError(
            "X holds documents, one text or dict a row, but this transformer takes "
            "columns. A front of documents is HashingVectorizer(n_features=4096), or "
            "FeatureHasher(n_features=4096) of dicts."
        )
    if issparse(X):
        return check_array(X, accept_sparse="csr", ensure_all_finite="allow-nan")
    given = np.asarray(X) if hasattr(X, "__array__") else np.array(X, dtype=object)
    if given.dtype.kind in "OUS" and given.ndim == 2:
        given = given.astype(object)
        if any(map(_is_text, given.T)):
            return given
        given = np.array(given.tolist())  # whole numbers of lists stay such
    kept = None if given.dtype.kind in "biu" else [np.float64, np.float32]
    return check_array(given, dtype=kept, ensure_all_finite="allow-nan")


def numbers(X, *, sparse=False):
    """Rows as float64, dense unless ``sparse``; NaN are missing values."""
    X = X.toarray() if issparse(X) and not sparse else X
    known = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
    return check_array(X, accept_sparse="csc", **known)
