"""What rows look like before any number is looked at: columns, names, texts.

`Columns` describes the columns of a table. The checks here name columns that cannot be
taken, by what they hold and with what to do about it, and never tell a value.
"""

import datetime
import re
import sys
import unicodedata
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, Union

import numpy as np
from scipy.sparse import issparse, sparray, spmatrix
from sklearn.utils import check_array

from ._documents import are_documents
from ._identifiers import LEFT_OUT

if TYPE_CHECKING:  # pandas is an extra
    import pandas

# Rows that have columns, (n_rows, n_columns).
Table = Union["pandas.DataFrame", np.ndarray, sparray, spmatrix]  # noqa: UP007
Column = Union["pandas.Series", np.ndarray]  # (n_rows,) # noqa: UP007

_FLOATS = ("float32", "float64")
# Different whole numbers up to which they are taken for codes where other nodes have
# texts, such as 0, 1 and 2 beside "3+": grades and numbers of visits have as many, ages
# have more.
MOST_CODES = 10
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
# Codes such as 007 and postal codes; no number is written so.
_PADDED_CODE = re.compile(r"0\d+")
# Letters of the dtypes of numpy whose values are numbers: truth values too.
_NUMERIC_LETTERS = frozenset("biuf")
# What columns hold, in the words of errors; of all else the names of types are said.
NUMBERS = "numbers"
INFINITE = "infinite numbers"
TEXTS = "texts"
DATES = "dates"
TIME_SPANS = "time spans"
_KIND_OF_LETTER: Mapping[str, str] = {
    **dict.fromkeys(_NUMERIC_LETTERS, NUMBERS),
    "M": DATES,
    "m": TIME_SPANS,
}
# The types of pandas are subclasses of these.
_TYPES_OF_KIND: Mapping[str, tuple[type, ...]] = {
    NUMBERS: (Real, Decimal, np.bool_),
    TEXTS: (str,),
    DATES: (datetime.date, datetime.time, np.datetime64),
    TIME_SPANS: (datetime.timedelta, np.timedelta64),
}
# What to do about columns that a step cannot take, by what they hold.
REMEDIES: Mapping[str, str] = {
    INFINITE: "Replace them by finite numbers, or by NaN where the value is unknown.",
    TEXTS: (
        "Give them to an encoder: in Python by a ColumnTransformer, on the command "
        "line with --front auto or a file for --front; or leave them out of the tables "
        "of all nodes."
    ),
    DATES: "Put numbers in place of the dates, the same way at all nodes, such as the "
    "days since an agreed day, or the year and the month; or leave the columns out.",
    TIME_SPANS: "Put numbers in place of the time spans, in the same unit at all "
    "nodes, such as X[column].dt.total_seconds(); or leave the columns out.",
}
# The same for columns that hold anything else.
OTHER_REMEDY = "Leave them out, or turn them into numbers."


class ColumnsError(ValueError):
    """What is wrong with columns, in words that tell no value of a row."""


@dataclass(frozen=True)
class Columns:
    """The columns of a table: how many, their names, and which of them hold texts."""

    n: int
    names: tuple[str, ...] | None  # None: they have places alone
    text: tuple[bool, ...]  # whether a column holds texts, for each
    dtype: str  # of the numbers, "float32" or "float64"
    # Which of them steps are not given, since they identify rows. Empty: none.
    left_out: tuple[bool, ...] = ()

    @classmethod
    def from_table(cls, X: Table) -> "Columns":
        """Describe the columns of a table."""
        names = None
        is_single = hasattr(X, "dtype") and X.dtype == np.float32
        if hasattr(X, "columns"):
            if all(isinstance(name, str) for name in X.columns):
                names = tuple(X.columns)  # others are no names, as in scikit-learn
            is_single = all(str(dtype) == "float32" for dtype in X.dtypes)
            text = tuple(_has_text(column) for _, column in X.items())
        elif X.dtype.kind == "O":
            text = tuple(map(_has_text, X.T))
        else:
            text = (False,) * X.shape[1]
        dtype = "float32" if is_single else "float64"
        return cls(n=X.shape[1], names=names, text=text, dtype=dtype)

    @classmethod
    def from_content(cls, content: Mapping) -> "Columns":
        """Inverse of `as_content`; ValueError where fields contradict each other."""
        missing = [field for field in ("text", "dtype") if field not in content]
        if missing:
            raise ValueError(f"its columns lack the field {missing[0]!r}")
        names = content.get("names")
        names = None if names is None else tuple(names)
        text = tuple(map(bool, content["text"]))
        left_out = tuple(map(bool, content.get("left_out", ())))
        if content["dtype"] not in _FLOATS:
            raise ValueError(
                f"the dtype of columns is {content['dtype']!r:.40}, not float32 or "
                "float64"
            )
        if names and len(names) != len(text):
            raise ValueError(f"{len(text)} columns have {len(names)} names")
        if left_out:
            _check_left_out(left_out, n_columns=len(text))
        return cls(
            n=len(text),
            names=names,
            text=text,
            dtype=content["dtype"],
            left_out=left_out,
        )

    def leave_out_identifiers(self, roles: Sequence[str]) -> "Columns":
        """Return these columns, less those that identify rows or that no model uses.

        None is left out where all would be.
        """
        left_out = tuple(role in LEFT_OUT for role in roles)
        if not any(left_out) or all(left_out):
            return replace(self, left_out=())
        return replace(self, left_out=left_out)

    def as_content(self) -> dict:
        """Fields of a message."""
        content: dict = {"text": list(self.text), "dtype": self.dtype}
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
        """Places of the columns that steps are given."""
        return [j for j in range(self.n) if not (self.left_out and self.left_out[j])]

    @property
    def kept(self) -> "Columns":
        """The columns that steps are given."""
        places = self.kept_places
        return self if len(places) == self.n else self.part(places)

    def part(self, places: Sequence[int]) -> "Columns":
        """Return some of the columns, by their places."""
        names = self.names
        return Columns(
            n=len(places),
            names=None if names is None else tuple(names[j] for j in places),
            text=tuple(self.text[j] for j in places),
            dtype=self.dtype,
        )

    def table(self, rows: Sequence[Sequence], text: bool = False) -> Table:
        """Values of rows as a table of these columns; ``text``: all may be texts."""
        dtype = object if text or any(self.text) else self.dtype
        values = np.array(rows, dtype=dtype)
        if self.names is None:
            return values
        import pandas as pd

        frame = pd.DataFrame(values, columns=list(self.names))
        places_of_numbers = np.flatnonzero(~np.array(self.text))
        return frame.astype({self.names[j]: self.dtype for j in places_of_numbers})

    def example(self) -> Table:
        """Return one row that such a table may have."""
        return self.table([["" if is_text else 1.0 for is_text in self.text]])

    def has_text(self, columns: Container) -> bool:
        """Report whether one of some columns, given by name or place, holds texts."""
        labels = self.names or range(self.n)
        return any(
            is_text and label in columns
            for label, is_text in zip(labels, self.text, strict=True)
        )

    def arranged(self, X: Table) -> Table:
        """Return rows with these columns in this order; texts as objects, gaps as NaN.

        To scikit-learn the gap of pandas, pandas.NA, is no gap among objects. A column
        that holds texts at any node is one of texts: codes that are numbers here, such
        as 0, 1 and 2 where others have "3+", become texts. ColumnsError for other
        numbers.
        """
        if not hasattr(X, "columns"):
            return self._with_texts(X) if any(self.text) else X
        if self.names is None:
            if any(self.text):
                X = X.astype(object)
        elif list(X.columns) != list(self.names):
            X = X[list(self.names)]
        return self._with_gaps_as_nan(X)

    def _with_texts(self, X: np.ndarray) -> np.ndarray:
        """An array with NaN for gaps, and texts for codes in columns of texts."""
        X = with_nan(np.array(X, dtype=object))  # users keep theirs
        for j in np.flatnonzero(self.text):
            X[:, j] = self._codes_as_texts(X[:, j], label=self.labels[j])
        return X

    def _with_gaps_as_nan(self, frame: "pandas.DataFrame") -> "pandas.DataFrame":
        """A frame with NaN for the gaps of pandas in columns of texts and objects."""
        replaced = {}
        for name, is_text in zip(frame.columns, self.text, strict=True):
            if is_text or frame.dtypes[name] == np.dtype(object):
                replaced[name] = with_nan(frame[name].astype(object))
            if is_text:
                replaced[name] = self._codes_as_texts(replaced[name], label=name)
        if replaced:
            frame = frame.copy(deep=False)  # users keep theirs
            for name, column in replaced.items():
                frame[name] = column
        return frame

    def _codes_as_texts(self, column: Column, *, label: object) -> Column:
        """A column of objects, (n_rows,), in which codes that are numbers are texts."""
        is_number = np.array(
            [not isinstance(value, str) and _is_number(value) for value in column],
            dtype=bool,
        )
        if not is_number.any():
            return column
        values = np.array(column, dtype=object)
        if are_codes(values[is_number]):
            values[is_number] = list(map(code_as_text, values[is_number]))
        elif not _has_text(column):
            raise ColumnsError(
                f"the column {label!r} holds numbers here and texts at other nodes. "
                f"Only up to {MOST_CODES} different whole numbers are taken for codes "
                "that are texts elsewhere. Let all nodes write the column alike: as "
                "numbers (pandas.to_numeric), or as texts (X[column].astype(str), on "
                "the command line --as-text), or leave it out of all tables."
            )
        if isinstance(column, np.ndarray):
            return values
        return type(column)(values, column.index, dtype=object, name=column.name)


# ---- what columns hold ---------------------------------------------------------------


def _check_left_out(left_out: tuple[bool, ...], *, n_columns: int) -> None:
    if len(left_out) != n_columns:
        raise ValueError(
            f"left_out has {len(left_out)} entries, but there are {n_columns} columns"
        )
    if all(left_out):
        raise ValueError("all columns are left out")


def _is_number(value: object) -> bool:
    return isinstance(value, _TYPES_OF_KIND[NUMBERS]) and not is_gap(value)


def are_codes(column: Column) -> bool:
    """Report whether a column's numbers may be codes: few, whole, or truth values."""
    numbers = {value for value in column if _is_number(value)}
    return len(numbers) <= MOST_CODES and all(
        np.isfinite(float(number)) and number == int(number) for number in numbers
    )


def code_as_text(code: object) -> str:
    """A code as a table has it: 1 where others read 1.0, since they have gaps."""
    if isinstance(code, float | np.floating) and code.is_integer():
        return str(int(code))
    return str(code)


def labels_of_written_numbers(X: Table) -> list:
    """Names, or places, of columns of texts of which all read as numbers.

    Columns that are surely of codes are not among them: few different whole numbers, or
    such as 007.
    """
    is_table = hasattr(X, "columns") or (X.ndim == 2 and X.dtype.kind == "O")
    if not is_table or issparse(X):
        return []
    return [
        label
        for label, column in _labelled_columns(X)
        if getattr(column.dtype, "kind", "O") not in _NUMERIC_LETTERS
        and _are_written_numbers(column)
    ]


def _are_written_numbers(column: Column) -> bool:
    texts: set[str] = set()
    for value in column:
        if not isinstance(value, str) or value in texts:
            continue
        text = value.strip()
        if not _NUMBER.fullmatch(text) or _PADDED_CODE.fullmatch(text):
            return False
        texts.add(value)
    has_fraction = any(float(text) % 1 != 0 for text in texts)
    return has_fraction or len(texts) > MOST_CODES


def is_gap(value: object) -> bool:
    """Report whether a value is missing: None, NaN, NaT or pandas.NA."""
    # By name, since pandas need not be there.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    is_float_or_time = isinstance(value, float | np.datetime64 | np.timedelta64)
    return is_float_or_time and value != value


def _has_text(column: Column) -> bool:
    if getattr(column.dtype, "kind", "O") in _NUMERIC_LETTERS:
        return False
    return any(isinstance(value, str) for value in column)


def with_nan(objects: Column | np.ndarray) -> Column | np.ndarray:
    """Objects with NaN for pandas.NA and NaT; None stays, which scikit-learn knows."""
    pandas = sys.modules.get("pandas")
    if pandas is None:  # then nobody has these values
        return objects
    if objects.dtype != object:
        return objects
    values = np.array(objects, dtype=object)
    is_gap = pandas.isna(values)
    gaps = values[is_gap]
    is_gap_of_pandas = [value is pandas.NA or value is pandas.NaT for value in gaps]
    if not any(is_gap_of_pandas):
        return objects
    gaps[is_gap_of_pandas] = np.nan
    values[is_gap] = gaps
    if isinstance(objects, np.ndarray):
        return values
    return pandas.Series(values, objects.index, dtype=object, name=objects.name)


def labels_of(table: Table) -> list:
    """Names of the columns of a table, or their places where they have no names."""
    return list(table.columns if hasattr(table, "columns") else range(table.shape[1]))


def _labelled_columns(X: Table) -> Iterable[tuple[Any, Column]]:
    """Columns of a table, with their names or places."""
    return X.items() if hasattr(X, "columns") else enumerate(X.T)


def labels_by_kind(X: Table) -> dict[str, list]:
    """Names, or places, of the columns of a table, by what the columns hold."""
    is_numeric_array = isinstance(X, np.ndarray) and X.dtype.kind in _NUMERIC_LETTERS
    if issparse(X) or is_numeric_array:
        return {NUMBERS: list(range(X.shape[1]))}
    labels: dict[str, list] = {}
    for label, column in _labelled_columns(X):
        labels.setdefault(column_kind(column), []).append(label)
    return labels


def labels_of_infinite(X: Table) -> list:
    """Names, or places, of the columns of numbers among which are infinite ones."""
    if issparse(X):
        return []
    return [
        label
        for label, column in _labelled_columns(X)
        if column_kind(column) == NUMBERS and np.isinf(as_floats(column)).any()
    ]


def as_floats(column: Column) -> np.ndarray:
    """The numbers of a column without its gaps."""
    values = np.asarray(column)
    if values.dtype != object:
        return values.astype(np.float64)
    return np.array([value for value in values if not is_gap(value)], np.float64)


def column_kind(column: Column) -> str:
    """Name the kind of a column's values: `TEXTS`, or their types in words."""
    kind_of_dtype = _KIND_OF_LETTER.get(getattr(column.dtype, "kind", "O"))
    if kind_of_dtype is not None:
        return kind_of_dtype
    types = {type(value) for value in column if not is_gap(value)}
    # A column that has both texts and numbers is one of texts.
    if any(issubclass(type_, str) for type_ in types):
        return TEXTS
    for kind, types_of_kind in _TYPES_OF_KIND.items():
        if all(issubclass(type_, types_of_kind) for type_ in types):
            return kind
    return f"values of the types {sorted(type_.__name__ for type_ in types)}"


# ---- what is refused -----------------------------------------------------------------


def check_no_times(X: Any) -> None:
    """Raise ColumnsError for columns of dates or time spans."""
    for kind in (DATES, TIME_SPANS):
        _refuse(kind, _labels_in_table(X).get(kind))


def check_numbers_or_texts(X: Any) -> None:
    """Raise ColumnsError for columns that hold neither finite numbers nor texts."""
    by_kind = _labels_in_table(X)
    for kind, labels in by_kind.items():
        if kind not in (NUMBERS, TEXTS):
            _refuse(kind, labels)
    if by_kind or hasattr(X, "iloc"):
        _refuse(INFINITE, labels_of_infinite(X))


def _labels_in_table(X: Any) -> dict[str, list]:
    """Labels by kind of a table, or of an array of objects; none if all are numbers."""
    if hasattr(X, "iloc"):
        letters = {getattr(dtype, "kind", "O") for dtype in X.dtypes}
        return {} if letters <= _NUMERIC_LETTERS else labels_by_kind(X)
    is_array = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OMm"
    return labels_by_kind(X) if is_array else {}


def _refuse(kind: str, labels: list | None) -> None:
    """Raise ColumnsError if there are columns that hold something of a kind."""
    if labels:
        raise ColumnsError(
            f"Columns {labels[:5]} hold {kind}. {REMEDIES.get(kind, OTHER_REMEDY)}"
        )


def names_alike(missing: Iterable, present: Iterable) -> str:
    """A sentence on names that look like missing ones, but are coded otherwise; ""."""
    by_form = {unicodedata.normalize("NFC", str(name)): name for name in present}
    for name in missing:
        other = by_form.get(unicodedata.normalize("NFC", str(name)))
        if other is not None and other != name:
            return (
                f" The column {other!a} looks like {name!a}, but its letters are coded "
                "otherwise. Give all nodes one code, as unicodedata.normalize('NFC', "
                "name) does."
            )
    return ""


def _check_names(names: Sequence) -> None:
    """Raise ColumnsError for names of columns that are no names to scikit-learn."""
    if len(set(names)) < len(names):
        raise ColumnsError("two columns have the same name.")
    others = [name for name in names if not isinstance(name, str)]
    if 0 < len(others) < len(names):
        raise ColumnsError(
            f"Some names of columns are texts, but {others[:5]} are not. Make all of "
            "them texts, as X.columns.astype(str) does."
        )


# ---- rows of any form ----------------------------------------------------------------


def polars_to_pandas(X: Any) -> Any:
    """Return a table of polars as one of pandas, and everything else as it is.

    Steps have such tables as output after ``set_config(transform_output="polars")``.
    """
    if not hasattr(X, "to_pandas"):
        return X
    try:
        return X.to_pandas()
    except ImportError:  # polars uses pyarrow for it, which may be missing
        import pandas

        return pandas.DataFrame({name: X[name].to_numpy() for name in X.columns})


def as_rows(X: Any) -> Table:
    """Convert rows as users give them: tables stay, all else becomes an array."""
    X = polars_to_pandas(X)
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
    # Of lists, objects first: numpy would make texts of numbers beside them.
    array = np.asarray(X) if hasattr(X, "__array__") else np.array(X, dtype=object)
    return _array_of_rows(array)


def _array_of_rows(array: np.ndarray) -> np.ndarray:
    """An array as it is if it holds texts, else of numbers."""
    if array.ndim == 2 and array.dtype.kind in "OUS":
        objects = with_nan(array.astype(object))
        if any(map(_has_text, objects.T)):
            return objects
        check_no_times(objects)
        array = np.array(objects.tolist())  # whole numbers of lists stay such
    elif array.ndim == 2 and array.dtype.kind in "Mm":
        check_no_times(array)
    is_of_whole_numbers = array.dtype.kind in "biu"
    return check_array(
        array,
        dtype=None if is_of_whole_numbers else [np.float64, np.float32],
        ensure_all_finite="allow-nan",
    )


def numbers(X: Any, *, sparse: bool = False) -> np.ndarray | sparray | spmatrix:
    """Rows as float64, dense unless ``sparse``; NaN are missing values."""
    if issparse(X) and not sparse:
        X = X.toarray()
    return check_array(
        X, accept_sparse="csc", dtype=np.float64, ensure_all_finite="allow-nan"
    )
