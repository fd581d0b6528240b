"""Labels that are missing, and the node that public rows are labeled with."""

import numpy as np
from numpy.typing import NDArray

# The node of public rows, where nodes are numbers and where they are names.
PUBLIC = -1
PUBLIC_NAME = "public"
# Kinds of arrays whose values are never missing: truth values, integers and texts.
_NEVER_MISSING = "biuUS"


def missing_labels(y) -> NDArray[np.bool_]:
    """Mark the rows whose label is None, NaN, NaT or pandas.NA, shape (n_rows,)."""
    # A list with NaN among texts would become the text "nan" in an array of texts.
    labels = np.asarray(y, dtype=object if isinstance(y, list | tuple) else None)
    if labels.ndim == 0 or labels.dtype.kind in _NEVER_MISSING:
        return np.zeros(len(labels) if labels.ndim else 0, dtype=bool)
    if labels.dtype.kind == "f":
        return _any_of_row(np.isnan(labels))
    mask = np.fromiter(map(_is_missing, labels.ravel()), bool, labels.size)
    return _any_of_row(mask.reshape(labels.shape))


def _any_of_row(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return mask if mask.ndim == 1 else mask.reshape(len(mask), -1).any(axis=1)


def _is_missing(value) -> bool:
    if value is None:
        return True
    try:
        return not value == value  # NaN and NaT differ from themselves
    except (TypeError, ValueError):  # pandas.NA has no truth value, nor have arrays
        return type(value).__name__ == "NAType"
