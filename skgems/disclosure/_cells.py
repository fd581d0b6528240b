"""Values that few rows of a class have, which become the commonest one."""

import numpy as np
from scipy import sparse

from ._leverages import numbered

Rows = np.ndarray | sparse.csr_matrix

# Rows in which columns are counted together: the first ones decide nearly all columns.
_ROWS_AT_ONCE = 1000


def clamped(
    X: Rows, codes: np.ndarray, groups: np.ndarray | None, *, cell: int
) -> Rows:
    """Return rows in which fewer than ``cell`` rows of a class never stand alone.

    Where a class and column has at least one and fewer than ``cell`` rows (or groups of
    rows, such as patients) beside its commonest value, these get the commonest value.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_columns)
        Numbers without missing values. It is not changed.
    codes : ndarray of shape (n_rows,)
        The class of each row; negative for rows that stay as they are.
    groups : ndarray of shape (n_rows,), or None
        None: each row is a group of its own.
    cell : int

    Returns
    -------
    X : {ndarray, sparse matrix} of shape (n_rows, n_columns)
        ``X`` itself if nothing changes.
    """
    groups = np.arange(len(codes)) if groups is None else numbered(groups)
    if sparse.issparse(X):
        return _clamped_sparse(X, codes, groups, cell=cell)
    changed = X
    for c in np.unique(codes[codes >= 0]).tolist():
        rows = np.flatnonzero(codes == c)
        columns, values = _columns_to_look_at(X, rows, groups, cell=cell)
        for j, commonest in zip(columns.tolist(), values, strict=True):
            differing = rows[X[rows, j] != commonest]
            n_differing = len(np.unique(groups[differing]))
            if 0 < n_differing < cell and len(differing) < len(rows) / 2:
                if changed is X:
                    changed = X.copy()
                changed[differing, j] = commonest
    return changed


def _columns_to_look_at(
    X: np.ndarray, rows: np.ndarray, groups: np.ndarray, *, cell: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return columns in which few groups may differ from one value, and these values.

    Of any ``2 cell - 1`` groups at least ``cell`` have that value then. Columns that
    many rows of the next ones show to have other values are not looked at any more.
    """
    sample = X[_rows_of_groups(rows, groups, n_groups=2 * cell - 1)]
    if len(sample) < 2 * cell - 1:
        columns = np.arange(X.shape[1])
        return columns, np.array([_middle(X[rows, j]) for j in columns])
    sample = np.sort(sample, axis=0)
    middle = sample[cell - 1]
    columns = np.flatnonzero((sample == middle).sum(axis=0) >= cell)
    most_others = cell * np.bincount(groups[rows]).max()
    n_others = np.zeros(len(columns), dtype=int)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        if not len(columns):
            break
        values = X[np.ix_(rows[start : start + _ROWS_AT_ONCE], columns)]
        n_others += (values != middle[columns]).sum(axis=0)
        may_be_few = n_others < most_others
        columns = columns[may_be_few]
        n_others = n_others[may_be_few]
    columns = columns[n_others > 0]
    return columns, middle[columns]


def _rows_of_groups(
    rows: np.ndarray, groups: np.ndarray, *, n_groups: int
) -> np.ndarray:
    """Return one of the rows of each of the first groups, so many at most."""
    first_rows: dict[int, int] = {}
    for row in rows:
        first_rows.setdefault(int(groups[row]), int(row))
        if len(first_rows) == n_groups:
            break
    return np.array(list(first_rows.values()), dtype=np.intp)


def _middle(values: np.ndarray) -> float:
    """Return the value that more than half of the values are, if there is one."""
    half = len(values) // 2
    return np.partition(values, half)[half]


def _clamped_sparse(
    X: Rows, codes: np.ndarray, groups: np.ndarray, *, cell: int
) -> Rows:
    """Return sparse rows under the rule; their commonest value may be 0 or another."""
    given = X
    X = sparse.csr_matrix(X, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    has_class = codes >= 0
    n_classes = codes.max(initial=0) + 1
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    of_class = has_class[rows]
    places = np.where(of_class, codes[rows], 0).astype(np.int64) * X.shape[1]
    places += X.indices
    n_places = n_classes * X.shape[1]
    n_values = np.bincount(places[of_class], minlength=n_places)
    # There are no fewer groups than values by the largest group.
    may_be_few = n_values < cell * np.bincount(groups).max(initial=1)
    counted = np.flatnonzero(of_class & may_be_few[places])
    # Pairs of a place and a group, once each.
    pairs = np.unique(np.column_stack([places[counted], groups[rows[counted]]]), axis=0)
    n_groups = np.full(n_places, cell)
    n_groups[may_be_few] = np.bincount(pairs[:, 0], minlength=n_places)[may_be_few]
    sizes = np.repeat(np.bincount(codes[has_class], minlength=n_classes), X.shape[1])
    is_few = (n_groups < cell) & (n_values < sizes / 2)
    is_replaced = is_few[places] & of_class
    changes = is_replaced.any()
    X.data[is_replaced] = 0
    X.eliminate_zeros()
    is_commonest_other = (n_values >= sizes / 2).reshape(n_classes, -1)
    for c in np.flatnonzero(np.bincount(codes[has_class], minlength=n_classes)):
        columns = np.flatnonzero(is_commonest_other[c])
        rows_of_class = np.flatnonzero(codes == c)
        of_class = X[rows_of_class].tocsc()
        for j in columns.tolist():
            column = of_class[:, [j]].toarray()
            replaced = clamped(
                column, np.zeros(len(column), int), groups[rows_of_class], cell=cell
            )
            if replaced is not column:
                changes = True
                X = X.tolil()
                X[rows_of_class, j] = replaced
                X = X.tocsr()
    return X if changes else given
