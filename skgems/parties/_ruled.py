"""A node's table under the rule of disclosure, before any front."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d

from ..disclosure import Disclosure
from ..local import class_sizes, ruled_table
from ..steps import are_documents, as_rows
from ._nodes import RowsLike


@dataclass(frozen=True, eq=False, kw_only=True)
class RuledTable:
    """Rows of a node, all of them, of which those that learn pass the rule."""

    X: RowsLike
    weights: np.ndarray | None  # (n_rows,); None: each row counts once
    # (n_rows,), bool: rows that are in no sum, since they only score, or their class
    # has too few.
    is_left_out: np.ndarray
    is_changed: bool


def table_under(
    rule: Disclosure | None,
    X: RowsLike,
    y: ArrayLike | None,
    *,
    held_out: np.ndarray | None,
    groups: np.ndarray | None,
    weights: np.ndarray | None,
    halves: np.ndarray | None,
) -> RuledTable | None:
    """Return a table under the rule; None for documents, ruled behind a front.

    Parameters
    ----------
    rule : Disclosure or None
        None: there is no rule, and None is returned.
    X : {array-like, sparse matrix, DataFrame} of shape (n_rows, n_columns)
    y : array-like of shape (n_rows,), or None
        None: rows have no classes.
    held_out : ndarray of bool of shape (n_rows,), or None
        Rows that only score.
    groups : ndarray of shape (n_rows,), or None
        A number for the group of each row.
    weights : ndarray of shape (n_rows,), or None
        How much each row counts before the rule.
    halves : ndarray of shape (n_rows,), or None
        The half of each row, where halves are summed by themselves.
    """
    if rule is None or are_documents(X):
        return None
    X = as_rows(X)
    n_rows = X.shape[0]
    if len(X.shape) != 2 or not n_rows:
        return None
    codes = np.zeros(n_rows, dtype=int)
    if y is not None:
        codes = np.unique(column_or_1d(y), return_inverse=True)[1]
    units = np.arange(n_rows) if groups is None else groups
    learns = np.ones(n_rows, dtype=bool) if held_out is None else ~held_out
    groups_that_learn = None if groups is None else groups[learns]
    sizes = class_sizes(codes[learns], groups_that_learn, codes.max() + 1)
    # The bound of `Member.drop_small_classes`, before there is a member.
    is_left_out = ~learns | (sizes[codes] < rule.min_rows)
    if is_left_out.all():
        return None
    ruled = ruled_table(
        X,
        np.where(is_left_out, -1, codes),
        rule=rule,
        units=units,
        weights=np.ones(n_rows) if weights is None else weights,
        halves=halves,
    )
    has_weights = weights is not None or (ruled.weights != 1).any()
    return RuledTable(
        X=ruled.X,
        weights=ruled.weights if has_weights else None,
        is_left_out=is_left_out,
        is_changed=ruled.is_changed,
    )
