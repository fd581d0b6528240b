"""Values that few rows of a class have, which become the commonest one."""

import numpy as np
from scipy import sparse

Rows = np.ndarray | sparse.csr_matrix


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
    if groups is None:
        groups = np.arange(len(codes))
    if sparse.issparse(X):
        return _clamped_sparse(X, codes, groups, cell=cell)
    changed = X
    for c in np.unique(codes[codes >= 0]).tolist():
        rows = np.flatnonzero(codes == c)
        for j in _columns_to_look_at(X, rows, groups, cell=cell):
            values = X[rows, j]
            commonest = _middle(values)
            differing = rows[values != commonest]
            n_differing = len(np.unique(groups[differing]))
            if 0 < n_differing < cell and len(differing) < len(rows) / 2:
                if changed is X:
                    changed = X.copy()
                changed[differing, j] = commonest
    return changed


def _columns_to_look_at(
    X: np.ndarray, rows: np.ndarray, groups: np.ndarray, *, cell: int
) -> np.ndarray:
    """Return columns in which fewer than ``cell`` groups may differ from one value.

    Of ``2 cell - 1`` groups at least ``cell`` have that value then.
    """
    _, firsts = np.unique(groups[rows], return_index=True)
    sample = np.sort(X[rows[firsts[: 2 * cell - 1]]], axis=0)
    if len(sample) < 2 * cell - 1:
        return np.arange(X.shape[1])
    middle = sample[cell - 1]
    return np.flatnonzero((sample == middle).sum(axis=0) >= cell)


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
    # Pairs of a place and a group, once each.
    pairs = np.unique(np.column_stack([places, groups[rows]])[of_class], axis=0)
    n_groups = np.bincount(pairs[:, 0], minlength=n_places)
    sizes = np.repeat(np.bincount(codes[has_class], minlength=n_classes), X.shape[1])
    is_few = (n_groups < cell) & (n_values < sizes / 2)
    is_replaced = is_few[places] & of_class
    changes = is_replaced.any()
    X.data[is_replaced] = 0
    X.eliminate_zeros()
    for place in np.flatnonzero(n_values >= sizes / 2).tolist():
        if not sizes[place]:
            continue
        c, j = divmod(place, X.shape[1])
        rows_of_class = np.flatnonzero(codes == c)
        column = X[rows_of_class][:, [j]].toarray()
        replaced = clamped(
            column, np.zeros(len(column), int), groups[rows_of_class], cell=cell
        )
        if replaced is not column:
            changes = True
            X = X.tolil()
            X[rows_of_class, j] = replaced
            X = X.tocsr()
    return X if changes else given
