"""Rows of any table under the rule of disclosure, before any front.

Columns of texts become columns of 0 and 1 for this, one a text, and missing values the
median with a column that says where they are missing.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse

from ..disclosure import Disclosure, Rows, clamped, told_of
from ..steps import is_gap
from ._cache import seed_from_digest

# Bits of a float32 that a seed does not depend on, which leaves four decimal digits.
_LAST_DIGITS = np.uint32(2**10 - 1)
_HALF_OF_LAST_DIGITS = np.uint32(2**9)


@dataclass(frozen=True, eq=False, kw_only=True)
class RuledRows:
    """Rows that pass the rule, and how much each counts in all sums."""

    X: object  # (n_rows, n_columns), of the type that the table had
    weights: np.ndarray  # (n_rows,)
    is_changed: bool


def ruled_table(
    X: object,
    codes: np.ndarray,
    *,
    rule: Disclosure,
    units: np.ndarray,
    weights: np.ndarray,
    halves: np.ndarray | None = None,
) -> RuledRows:
    """Return a table under the rule.

    Parameters
    ----------
    X : {ndarray, sparse matrix, DataFrame} of shape (n_rows, n_columns)
        It is not changed.
    codes : ndarray of shape (n_rows,)
        The class of each row; negative for rows that are not summed.
    rule : Disclosure
    units : ndarray of shape (n_rows,)
        What counts as one row, such as a patient.
    weights : ndarray of shape (n_rows,)
        How much each row counts before the rule.
    halves : ndarray of shape (n_rows,), or None
        Parts that are summed by themselves; None: there are none.
    """
    table = X.tocsr() if sparse.issparse(X) else X
    if halves is None:
        halves = np.zeros(len(codes))
    # Of each class in each half.
    sums = np.where(codes >= 0, codes * 3 + halves.astype(int) + 1, -1)
    replaced = _replaced(table, sums, units, cell=rule.cell)
    numbers = _as_numbers(replaced)
    told_weights = weights.copy()
    is_replaced = replaced is not table or bool((codes < 0).any())
    for half in np.unique(halves[codes >= 0]):
        rows = np.flatnonzero((halves == half) & (codes >= 0))
        part = numbers[rows]
        _, codes_of_part = np.unique(codes[rows], return_inverse=True)
        told = told_of(
            Rows.without_residuals(
                X=part,
                codes=codes_of_part,
                units=units[rows],
                weights=weights[rows],
                is_changed=is_replaced,
            ),
            rule,
            kind="class",
            n_unknowns=X.shape[1],
            seed=partial(seed_of, part, codes_of_part),
            may_lower=True,
        )
        told_weights[rows] = told.weights
    is_changed = replaced is not table or bool((told_weights != weights).any())
    return RuledRows(X=replaced, weights=told_weights, is_changed=is_changed)


def seed_of(X: object, codes: np.ndarray) -> int:
    """Return a seed that follows from rows, so that nobody else knows it.

    Last digits of numbers do not count: processors compute features a little
    differently, and weights that are drawn should be the same on all of them.
    """
    data = X.data if sparse.issparse(X) else X
    if getattr(data, "dtype", None) is not None and data.dtype.kind == "f":
        bits = np.ascontiguousarray(data, dtype=np.float32).view(np.uint32)
        data = (bits + _HALF_OF_LAST_DIGITS) & ~_LAST_DIGITS
    places = (X.indices, X.indptr) if sparse.issparse(X) else ()
    return seed_from_digest(data, *places, codes)


def _replaced(X: object, codes: np.ndarray, units: np.ndarray, *, cell: int) -> object:
    """Return a table in which values of few rows of a class are the commonest one."""
    if sparse.issparse(X) or (not hasattr(X, "iloc") and X.dtype.kind in "biuf"):
        if not sparse.issparse(X) and np.isnan(X.astype(float, copy=False)).any():
            return _replaced_by_column(X, codes, units, cell=cell)
        return clamped(X, codes, units, cell=cell)
    return _replaced_by_column(X, codes, units, cell=cell)


def _replaced_by_column(
    X: object, codes: np.ndarray, units: np.ndarray, *, cell: int
) -> object:
    """Return the same of columns of any type: a row's value is that of another row."""
    changed = X
    for j in range(X.shape[1]):
        values = X.iloc[:, j].to_numpy() if hasattr(X, "iloc") else X[:, j]
        numbers = _numbered(values)[:, None]
        replaced = clamped(numbers, codes, units, cell=cell)
        if replaced is numbers:
            continue
        rows = np.flatnonzero(replaced[:, 0] != numbers[:, 0])
        sources = [int(np.argmax(numbers[:, 0] == replaced[row, 0])) for row in rows]
        changed = X.copy() if changed is X else changed
        if hasattr(X, "iloc"):
            column = X.iloc[:, j].copy()
            column.iloc[rows] = column.iloc[sources].to_numpy()
            changed.isetitem(j, column)
        else:
            changed[rows, j] = values[sources]
    return changed


def _numbered(values: np.ndarray) -> np.ndarray:
    """Return a number for each value, the same for equal ones; gaps are one value."""
    numbers: dict = {}
    keys = (None if is_gap(value) else value for value in values.tolist())
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], float)


def _as_numbers(X: object) -> np.ndarray | sparse.csr_matrix:
    """Return columns of numbers that say what a table does."""
    if sparse.issparse(X):
        return X
    if not hasattr(X, "iloc") and X.dtype.kind in "biuf":
        numbers = X.astype(np.float64, copy=False)
        return numbers if np.isfinite(numbers).all() else _filled(numbers)
    columns = []
    for j in range(X.shape[1]):
        values = X.iloc[:, j].to_numpy() if hasattr(X, "iloc") else X[:, j]
        columns.append(_columns_of(values))
    return np.hstack(columns)


def _columns_of(values: np.ndarray) -> np.ndarray:
    """Return one column of numbers, or one of 0 and 1 for each value."""
    try:
        numbers = np.array([np.nan if is_gap(v) else float(v) for v in values.tolist()])
    except (TypeError, ValueError):
        codes = _numbered(values).astype(int)
        n_values = codes.max() + 1
        if n_values > len(codes) / 2:  # it identifies rows, and is not used
            return np.zeros((len(codes), 0))
        return np.eye(n_values)[codes]
    return _filled(numbers[:, None])


def _filled(numbers: np.ndarray) -> np.ndarray:
    """Return columns without gaps, and one more for each that has some."""
    is_gap_there = ~np.isfinite(numbers)
    with_gaps = np.flatnonzero(is_gap_there.any(axis=0))
    filled = numbers.copy()
    for j in with_gaps.tolist():
        known = numbers[~is_gap_there[:, j], j]
        filled[is_gap_there[:, j], j] = np.median(known) if len(known) else 0.0
    return np.hstack([filled, is_gap_there[:, with_gaps].astype(float)])
