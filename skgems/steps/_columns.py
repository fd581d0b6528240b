"""What rows look like before any number is looked at: columns, names, texts."""

import datetime
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from ._documents import are_documents
from ._identifiers import IDENTIFIES

_FLOATS = ("float32", "float64")
# What columns hold, in the words of errors; of all else the names of types are said.
NUMBERS = "numbers"
INFINITE = "infinite numbers"
TEXTS = "texts"
DATES = "dates"
TIME_SPANS = "time spans"
_OF_DTYPE: Mapping[str, str] = {
    **dict.fromkeys("biuf", NUMBERS),
    "M": DATES,
    "m": TIME_SPANS,
}
# Those of pandas are subclasses.
_OF_TYPE: Mapping[str, tuple[type, ...]] = {
    NUMBERS: (Real, Decimal, np.bool_),
    TEXTS: (str,),
    DATES: (datetime.date, datetime.time, np.datetime64),
    TIME_SPANS: (datetime.timedelta, np.timedelta64),
}
# What to do about columns that a step cannot take, by what they hold.
REMEDIES: Mapping[str, str] = {
    INFINITE: "Put NaN in place of what is not known, or numbers that are finite.",
    TEXTS: "Give them to an encoder: in Python by a ColumnTransformer, at the command "
    "line by --front auto or the file of --front; or leave them out of the tables of "
    "all nodes.",
    DATES: "Put numbers in place of the dates, the same way at all nodes, such as the "
    "days since an agreed day, or the year and the month; or leave the columns out.",
    TIME_SPANS: "Put numbers in place of the time spans, in the same unit at all "
    "nodes, such as X[column].dt.total_seconds(); or leave the columns out.",
}


class ColumnsError(ValueError):
    """What is wrong with columns, in words that tell no value of a row."""


@dataclass(frozen=True)
class Columns:
    n: int
    names: tuple[str, ...] | None
    text: tuple[bool, ...]
    dtype: str  # of the numbers, "float32" or "float64"
    # Which of them steps are not given, since they identify rows. Empty: none.
    left_out: tuple[bool, ...] = ()

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
        left_out = tuple(map(bool, content.get("left_out", ())))
        if content["dtype"] not in _FLOATS or (names and len(names) != len(text)):
            raise ValueError("columns do not go together")
        if left_out and (len(left_out) != len(text) or all(left_out)):
            raise ValueError("columns that are left out do not go with the others")
        return cls(len(text), names, text, content["dtype"], left_out)

    def without_identifiers(self, roles: Sequence[str]) -> "Columns":
        """The same, leaving out those that identify rows, unless all columns do."""
        identify = tuple(role == IDENTIFIES for role in roles)
        if not any(identify) or all(identify):
            return replace(self, left_out=())
        return replace(self, left_out=identify)

    def as_content(self) -> dict:
        content = {"text": list(self.text), "dtype": self.dtype}
        if self.names is not None:
            content["names"] = list(self.names)
        if any(self.left_out):
            content["left_out"] = list(self.left_out)
        return content

    @property
    def labels(self) -> list:
        """Names of the columns, or their places where they have no names."""
        return list(range(self.n) if self.names is None else self.names)

    @property
    def kept_places(self) -> list[int]:
        return [j for j in range(self.n) if not (self.left_out and self.left_out[j])]

    @property
    def kept(self) -> "Columns":
        """The columns that steps are given."""
        places = self.kept_places
        if len(places) == self.n:
            return self
        names = None if self.names is None else tuple(self.names[j] for j in places)
        text = tuple(self.text[j] for j in places)
        return Columns(len(places), names, text, self.dtype)

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
        """Rows with these columns in this order; texts are objects, gaps in them NaN.

        To scikit-learn the gap of pandas, pandas.NA, is no gap among objects.
        """
        if not hasattr(X, "columns"):
            self._check_texts(X)
            return with_nan(X.astype(object)) if any(self.text) else X
        if self.names is None:
            self._check_texts(X)
            X = X.astype(object) if any(self.text) else X
        else:
            if list(X.columns) != list(self.names):
                X = X[list(self.names)]
            self._check_texts(X)
        replaced = {}
        for name, is_text in zip(X.columns, self.text, strict=True):
            if is_text or X.dtypes[name] == np.dtype(object):
                objects = X[name].astype(object)
                replaced[name] = with_nan(objects)
        if replaced:
            X = X.copy(deep=False)
            for name, objects in replaced.items():
                X[name] = objects
        return X

    def _check_texts(self, X) -> None:
        """ColumnsError for numbers in a column that holds texts at other nodes."""
        for j in np.flatnonzero(self.text):
            column = X.iloc[:, j] if hasattr(X, "iloc") else X[:, j]
            if not _is_text(column) and any(map(_is_number, column)):
                raise ColumnsError(
                    f"the column {self.labels[j]!r} holds numbers here and texts at "
                    "other nodes. Let all nodes write it alike, as numbers "
                    "(pandas.to_numeric) or as texts, or leave it out of all tables."
                )


def _is_number(value) -> bool:
    return isinstance(value, _OF_TYPE[NUMBERS]) and not _is_gap(value)


def _is_text(column) -> bool:
    if getattr(column.dtype, "kind", "O") in "biuf":
        return False
    return any(isinstance(value, str) for value in column)


def with_nan(objects):
    """Objects with NaN for pandas.NA and NaT; None stays, which scikit-learn knows."""
    pandas = sys.modules.get("pandas")
    if pandas is None:  # then nobody has these values
        return objects
    if objects.dtype != object:
        return objects
    values = np.array(objects, dtype=object)
    is_gap = pandas.isna(values)
    gaps = values[is_gap]
    is_of_pandas = [value is pandas.NA or value is pandas.NaT for value in gaps]
    if not any(is_of_pandas):
        return objects
    gaps[is_of_pandas] = np.nan
    values[is_gap] = gaps
    if isinstance(objects, np.ndarray):
        return values
    return pandas.Series(values, objects.index, dtype=object, name=objects.name)


def _labelled(X) -> Iterable[tuple]:
    """Columns of a table, with their names or places."""
    return X.items() if hasattr(X, "columns") else enumerate(X.T)


def labels_by_kind(X) -> dict[str, list]:
    """Names, or places, of the columns of a table, by what the columns hold."""
    if issparse(X) or (isinstance(X, np.ndarray) and X.dtype.kind in "biuf"):
        return {NUMBERS: list(range(X.shape[1]))}
    labels: dict[str, list] = {}
    for label, column in _labelled(X):
        labels.setdefault(column_kind(column), []).append(label)
    return labels


def labels_of_infinite(X) -> list:
    """Names, or places, of the columns of numbers among which are infinite ones."""
    if issparse(X):
        return []
    return [
        label
        for label, column in _labelled(X)
        if column_kind(column) == NUMBERS and np.isinf(_as_floats(column)).any()
    ]


def _as_floats(column) -> np.ndarray:
    """The numbers of a column without its gaps."""
    values = np.asarray(column)
    if values.dtype != object:
        return values.astype(np.float64)
    return np.array([value for value in values if not _is_gap(value)], np.float64)


def column_kind(column) -> str:
    """What a column holds: `TEXTS`, say, or names of types in words."""
    kind = _OF_DTYPE.get(getattr(column.dtype, "kind", "O"))
    if kind is not None:
        return kind
    types = {type(value) for value in column if not _is_gap(value)}
    if any(issubclass(own, str) for own in types):
        return TEXTS
    for kind, known in _OF_TYPE.items():
        if all(issubclass(own, known) for own in types):
            return kind
    return f"values of the types {sorted(own.__name__ for own in types)}"


def _is_gap(value) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.datetime64 | np.timedelta64) and value != value


def check_no_times(X) -> None:
    """Raise ColumnsError for columns of dates or time spans."""
    for kind in (DATES, TIME_SPANS):
        _raise_of(kind, _labels_in_table(X).get(kind))


def check_numbers_or_texts(X) -> None:
    """Raise ColumnsError for columns that hold neither finite numbers nor texts."""
    by_kind = _labels_in_table(X)
    for kind, labels in by_kind.items():
        if kind not in (NUMBERS, TEXTS):
            _raise_of(kind, labels)
    if by_kind or hasattr(X, "iloc"):
        _raise_of(INFINITE, labels_of_infinite(X))


def _labels_in_table(X) -> dict[str, list]:
    """Labels by kind of a table, or of an array of objects; none if all are numbers."""
    if hasattr(X, "iloc"):
        kinds = {getattr(dtype, "kind", "O") for dtype in X.dtypes}
        return {} if kinds <= set("biuf") else labels_by_kind(X)
    is_array = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OMm"
    return labels_by_kind(X) if is_array else {}


def _raise_of(kind: str, labels: list | None) -> None:
    if labels:
        remedy = REMEDIES.get(kind, "Leave them out, or make numbers of them.")
        raise ColumnsError(f"Columns {labels[:5]} hold {kind}. {remedy}")


def _check_names(names) -> None:
    """Raise ColumnsError for names of columns that are no names to scikit-learn."""
    if len(set(names)) < len(names):
        raise ColumnsError("two columns have the same name.")
    others = [name for name in names if not isinstance(name, str)]
    if 0 < len(others) < len(names):
        raise ColumnsError(
            f"Some names of columns are texts, but {others[:5]} are not. Make all of "
            "them texts, as X.columns.astype(str) does."
        )


def as_rows(X):
    """What users give as rows: tables stay, all else becomes an array."""
    if hasattr(X, "to_pandas"):
        X = X.to_pandas()
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        _check_names(X.columns)
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
        given = with_nan(given.astype(object))
        if any(map(_is_text, given.T)):
            return given
        check_no_times(given)
        given = np.array(given.tolist())  # whole numbers of lists stay such
    elif given.dtype.kind in "Mm" and given.ndim == 2:
        check_no_times(given)
    kept = None if given.dtype.kind in "biu" else [np.float64, np.float32]
    return check_array(given, dtype=kept, ensure_all_finite="allow-nan")


def numbers(X, *, sparse=False):
    """Rows as float64, dense unless ``sparse``; NaN are missing values."""
    X = X.toarray() if issparse(X) and not sparse else X
    known = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
    return check_array(X, accept_sparse="csc", **known)
