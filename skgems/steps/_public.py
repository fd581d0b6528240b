"""Fronts that are fitted to what is agreed alone, and rows taken through them singly.

What comes out of a row follows from this row and from what is agreed. So no other row,
and nothing that is wrong with one, changes it: not the type of a column, not the last
digit of a sum, and no error.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
)

from ._columns import Columns, code_as_text, is_gap, polars_to_pandas
from ._front import Front
from ._kind import EXTREMES, NotPooledError
from ._kinds import KINDS
from ._sizes import front_size
from ._trees import Step, steps_by_path

# Steps that round each value by itself, so that rows may enter together.
_BY_VALUE = (
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    SimpleImputer,
)
# Rows that enter together. Of more, one that a step cannot take is longer looked for.
_ROWS_OF_BLOCK = 512


def public_front(front: object) -> Front:
    """Return the front, fitted to what is agreed alone; ValueError if it learns.

    What it was fitted to besides is left out.
    """
    if not isinstance(front, Front):
        raise ValueError(
            "A front of documents does not go with privacy. Count the words of a fixed "
            "list before, and give the counts as columns."
        )
    if front.drop_identifiers:
        raise ValueError(
            "drop_identifiers=True of the front does not go with privacy: nodes would "
            "tell which columns identify rows. Leave these out of all tables."
        )
    _check_learns_nothing(map(type, _steps_that_ask(front)))
    columns = front.columns or _columns_agreed(front)
    if columns is None:
        raise ValueError(
            "front is not fitted, and which columns enter it cannot be seen from its "
            "steps. With privacy nodes do not tell them. Fit it to one made-up row, as "
            "PooledTransformer(front).fit(row)."
        )
    public = replace(front, columns=columns, states={})
    pending = public.advanced({}).pending.values()
    _check_learns_nothing(type(waiting.step) for waiting in pending)
    return public


def _check_learns_nothing(types: Iterable[type]) -> None:
    """Raise NotPooledError if there are types of steps, which learn from rows."""
    for learning in types:
        raise NotPooledError(
            f"front does not go with privacy: {learning.__name__} learns from rows, so "
            "nodes would tell of these without noise. Agree on what it would learn: "
            "bounds by PooledTransformer(MinMaxScaler(), bounds=...), or categories by "
            "OneHotEncoder(categories=[...])."
        )


def _steps_that_ask(front: Front) -> Iterator[Step]:
    """Yield the steps that are fitted to rows, whatever is agreed of columns."""
    for _, step in steps_by_path(front.transformer):
        statistic = KINDS[type(step)].statistic_for(step)
        is_agreed = statistic == EXTREMES and front.bounds is not None
        if statistic is not None and not is_agreed:
            yield step


def _columns_agreed(front: Front) -> Columns | None:
    """Return the columns that agreed categories or bounds name; None: they do not."""
    transformer = front.transformer
    bounds = front.bounds if isinstance(front.bounds, dict) else {}
    if isinstance(transformer, ColumnTransformer):
        has_text = _texts_by_name(transformer)
        return None if has_text is None else _columns_of(has_text)
    if _has_categories(transformer):
        texts = tuple(map(_has_texts, transformer.categories))
        return Columns(n=len(texts), names=None, text=texts, dtype="float64")
    if bounds and all(isinstance(name, str) for name in bounds):
        return _columns_of(dict.fromkeys(bounds, False))
    return None


def _columns_of(has_text: dict[str, bool]) -> Columns:
    return Columns(
        n=len(has_text),
        names=tuple(has_text),
        text=tuple(has_text.values()),
        dtype="float64",
    )


def _texts_by_name(transformer: ColumnTransformer) -> dict[str, bool] | None:
    """Return which columns are texts, by name; None where some have no names."""
    if transformer.remainder != "drop":
        return None
    has_text: dict[str, bool] = {}
    for _, step, names in transformer.transformers:
        is_listed = isinstance(names, list | tuple)
        if not is_listed or not all(isinstance(name, str) for name in names):
            return None
        first = _encoder_in(step)
        texts = [False] * len(names) if first is None else first.categories
        if len(texts) != len(names):
            return None
        for name, text in zip(names, texts, strict=True):
            has_text[name] = has_text.get(name, False) or _has_texts(text)
    return has_text


def _encoder_in(step: Step) -> Step | None:
    """Return the encoder that columns enter, at once or after gaps are filled."""
    if isinstance(step, Pipeline):
        steps = [part for _, part in step.steps if not isinstance(part, SimpleImputer)]
        return _encoder_in(steps[0]) if steps else None
    return step if _has_categories(step) else None


def _has_categories(step: Step) -> bool:
    """Report whether a step encodes agreed categories."""
    is_encoder = isinstance(step, OneHotEncoder | OrdinalEncoder)
    return is_encoder and not isinstance(step.categories, str)


def _has_texts(categories: object) -> bool:
    is_listed = not isinstance(categories, bool)
    return is_listed and any(isinstance(category, str) for category in categories)


def width_and_names(front: Front) -> tuple[int, list[str] | None]:
    """Return how many columns come out of a front, and their names if it has them."""
    try:
        names = front.fitted.get_feature_names_out(front.columns.names).tolist()
    except AttributeError:  # a step has no names for them
        size = front_size(front.advanced({}).front, front.columns)
        return size.n_columns_out, None
    return len(names), names


def rows_by_themselves(front: Front, X: object) -> np.ndarray:
    """Return rows behind a public front, (n_rows, n_columns_out), each by itself.

    A row that the front cannot take is NaN.
    """
    cells = _cells(front.columns, X)
    width, _ = width_and_names(front)
    n_rows = len(cells)
    if n_rows == 0:
        return np.empty((0, width))
    table = front.columns.table(cells)
    transformed = np.full((n_rows, width), np.nan)
    steps = [step for _, step in steps_by_path(front.transformer)]
    size = _ROWS_OF_BLOCK if all(isinstance(s, _BY_VALUE) for s in steps) else 1
    blocks = [slice(k, min(k + size, n_rows)) for k in range(0, n_rows, size)]
    while blocks:
        block = blocks.pop()
        try:
            transformed[block] = _transformed(front, table[block])
        except Exception:
            # Whatever a row lets raise: nobody but the node may see that it did.
            middle = (block.start + block.stop) // 2
            if middle > block.start:
                blocks += [slice(block.start, middle), slice(middle, block.stop)]
    return transformed


def _transformed(front: Front, table: object) -> np.ndarray:
    """Return rows of a table behind the front, dense and without a word."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        Z = polars_to_pandas(front.fitted.transform(table))
    dense = Z.toarray() if sparse.issparse(Z) else np.asarray(Z)
    return dense.astype(np.float64)


def _cells(columns: Columns, X: object) -> list[list]:
    """Return the cells of each row: texts in columns of texts, numbers elsewhere.

    NaN stands for everything else. ValueError for a table of other columns.
    """
    X = polars_to_pandas(X)
    if hasattr(X, "columns") and columns.names is not None:
        missing = [name for name in columns.names if name not in X.columns]
        if missing:
            raise ValueError(
                f"X lacks the columns {missing[:5]}, which enter the front. Name the "
                "columns as they are agreed."
            )
        by_column = [X[name].tolist() for name in columns.names]
    else:
        X = X.toarray() if sparse.issparse(X) else X
        rows = np.asarray(X, dtype=object)
        if rows.ndim != 2 or rows.shape[1] != columns.n:
            raise ValueError(
                f"X has the shape {rows.shape}, but the front takes {columns.n} "
                "columns. Give a table with these columns."
            )
        by_column = rows.T.tolist()
    cells = [
        _texts(values) if is_text else _numbers(values)
        for values, is_text in zip(by_column, columns.text, strict=True)
    ]
    return [list(row) for row in zip(*cells, strict=True)]


def _texts(values: Sequence) -> list:
    return [_as_text(value) for value in values]


def _as_text(value: object) -> object:
    """Return a text, or a code as the text that it is elsewhere; NaN for all else."""
    if isinstance(value, str):
        return value
    is_code = isinstance(value, bool | int | float | np.generic) and not is_gap(value)
    return code_as_text(value) if is_code else np.nan


def _numbers(values: Sequence) -> list[float]:
    return [_as_number(value) for value in values]


def _as_number(value: object) -> float:
    """Return a finite number; NaN for all else."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan
    return number if np.isfinite(number) else np.nan
