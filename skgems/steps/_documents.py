"""Documents: rows that are one text, dict or list of words each, and no table."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Union

import numpy as np
from scipy.sparse import issparse

if TYPE_CHECKING:  # pandas is an extra
    import pandas

# Documents, one a row, (n_rows,).
Documents = Union["pandas.Series", np.ndarray]  # noqa: UP007

# Letters of the dtypes of arrays that hold numbers or truth values.
NUMBERS = "biuf"


def are_documents(X: Any) -> bool:
    """Report whether each row is one text, dict or list of words, for vectorizers."""
    vector = _as_vector(X)
    return vector is not None and any(map(_is_document, vector))


def as_documents(X: Any) -> Documents:
    """Documents as an array (n_rows,), or as the Series that they are."""
    return X if hasattr(X, "iloc") else _as_vector(X)


def _as_vector(X: Any) -> Documents | None:
    """Return one value a row, (n_rows,); None for rows of columns or numbers."""
    if isinstance(X, list | tuple):
        return None if _is_table(X) else np.fromiter(X, dtype=object, count=len(X))
    if getattr(X, "ndim", 0) != 1 or issparse(X):
        return None
    if getattr(getattr(X, "dtype", None), "kind", "O") in NUMBERS:
        return None
    return X if hasattr(X, "iloc") else np.asarray(X)


def _is_table(rows: list | tuple) -> bool:
    """Report whether the rows of a list have columns: lists of one length, no words.

    What holds no documents at all is left to be judged as a table.
    """
    if rows and all(isinstance(row, list | tuple) or np.ndim(row) for row in rows):
        return len(set(map(len, rows))) == 1
    return not any(map(_is_document, rows))


def _is_document(row: object) -> bool:
    # Words may have weights, as FeatureHasher takes them: pairs of word and number.
    if isinstance(row, list | tuple | set | frozenset | np.ndarray):
        words = (word[0] if isinstance(word, tuple) and word else word for word in row)
        return any(isinstance(word, str | bytes) for word in words)
    return isinstance(row, str | bytes | Mapping)
