"""Rows of a node that a task is about."""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_matrix, issparse

from ..local import Member, Rows, indices_of, stacked, without_rare_values
from ..moments import ClassMoments, draw_rows, working_bytes
from ..networks import LayersBelow


def layer_outputs(hidden: LayersBelow | None, X: Rows) -> Rows:
    """Return the output of hidden layers for rows; the rows where there are none."""
    return X if hidden is None else hidden.outputs(X)


def layer_inputs(member: Member, role: str, hidden: LayersBelow | None) -> Rows:
    """Return the output of hidden layers for the rows that have a role.

    Under a rule, values of a unit that few rows of a class have are replaced.
    """
    X, _ = member.rows(role)
    if hidden is None:
        return X
    return without_rare_values(member, hidden.outputs(X), role)


def inputs_to_judge_by(
    member: Member, hidden: LayersBelow | None, rows: np.ndarray
) -> Rows:
    """Return what enters a model that some of the judging rows judge.

    Values that few rows of a class have are replaced under a rule, of rows that are
    held out, too. Areas under curves are told so exactly that they would show them.
    """
    X, _ = member.rows("judging")
    outputs = layer_outputs(hidden, X)
    return without_rare_values(member, outputs, "judging")[rows]


def rows_of_labels(
    member: Member, role: str, labels: Sequence
) -> tuple[Rows, np.ndarray, np.ndarray]:
    """Rows that have a role and one of some labels.

    Returns
    -------
    X : {array, CSR matrix} of shape (n_rows, n_features)
    codes : ndarray of int of shape (n_rows,)
        The index of each row's label.
    rows : ndarray of int of shape (n_rows,)
        Their indices among all rows that have the role.
    """
    X, y = member.rows(role)
    codes = indices_of(y, labels)
    rows = np.flatnonzero(codes >= 0)
    if len(rows) < len(y):  # else no copy is made
        X = X[rows]
    return X, codes[rows], rows


def rows_of_large_classes(
    member: Member, role: str, labels: Sequence
) -> tuple[Rows, np.ndarray, np.ndarray]:
    """Rows as of `rows_of_labels`, of classes in which none is shown alone.

    A request may ask for the rows of one class, of which few may be held out. Where no
    rule holds, these are rows of all of the labels.
    """
    X, codes, rows = rows_of_labels(member, role, labels)
    if member.disclosure is None:
        return X, codes, rows
    _, numbers = np.unique(member.units(role)[rows], return_inverse=True)
    of_units = np.unique(np.column_stack([codes, numbers]), axis=0)[:, 0]
    is_shown = np.bincount(of_units)[codes] >= member.disclosure.rows
    if is_shown.all():  # then no copy is made
        return X, codes, rows
    return X[is_shown], codes[is_shown], rows[is_shown]


# Rows drawn for each of the node's own, at most: an epoch takes five times as long.
MOST_DRAWN = 4


def with_drawn_rows(
    X: Rows, outputs: np.ndarray, *, others: ClassMoments, seed: int | None
) -> tuple[Rows, np.ndarray]:
    """The node's rows and their outputs, and after these others drawn from moments."""
    # They are dense, also where the node's own are not, and are copied twice: they may
    # take a quarter of working_memory, at 8 bytes a number.
    n_rows_in_memory = working_bytes() // (4 * 8 * X.shape[1])
    n_drawn = int(
        min(
            others.n_rows,
            MOST_DRAWN * len(outputs),
            max(n_rows_in_memory, 1),
        )
    )
    X_drawn, outputs_drawn = draw_rows(others, n_drawn, random_state=seed)
    X_drawn = X_drawn.astype(X.dtype)
    if issparse(X):
        X_drawn = csr_matrix(X_drawn)
    return stacked([X, X_drawn]), np.concatenate([outputs, outputs_drawn])
