"""Take the rows of nodes through a front that is fitted."""

from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length, column_or_1d

from ..compat import safe_indexing
from ..disclosure import Disclosure
from ..local import stacked
from ..steps import Front, polars_to_pandas
from ._nodes import Rows, RowsLike, node_codes, node_names_of
from ._rows import cells_of


def fitted_without_learning(front: Front | None, X: RowsLike = None) -> Front | None:
    """Return the fitted front of backbones, with rows or without; else None."""
    is_unfitted = isinstance(front, Front) and front.columns is None
    return front.fit_backbones(X) if is_unfitted else None


def raise_front_not_fitted(front: Front) -> NoReturn:
    if isinstance(front, Front) and front.learns_nothing:
        raise ValueError(
            "The front is not fitted, and the number of columns that its Backbone "
            "takes cannot be seen from its module. Fit it to a single row of the "
            "right shape, which may be made up, as Backbone(net).fit(X[:1])."
        )
    raise ValueError(
        "The front is not fitted, and there are no rows to fit it on. Fit a "
        "PooledTransformer to the summaries of the nodes, and pass it as front."
    )


def owners_of(nodes: ArrayLike | None, X: RowsLike) -> dict[str, np.ndarray]:
    """Rows of each node by its name; of one node where nobody said whose they are."""
    if nodes is None:
        return {"all": np.arange(X.shape[0])}
    names = node_names_of(nodes, X.shape[0])
    codes = node_codes(nodes, names, X.shape[0])
    return {name: np.flatnonzero(codes == k) for k, name in enumerate(names)}


def labels_of_rows(X: RowsLike, y: ArrayLike | None) -> np.ndarray | None:
    """Return the labels, shape (n_rows,), of which there are as many as rows."""
    if y is None:
        return None
    labels = column_or_1d(y)
    check_consistent_length(X, labels)
    return labels


def transform_by_front(
    front: Front,
    X: RowsLike,
    nodes: ArrayLike | None = None,
    *,
    y: ArrayLike | None = None,
    held_out: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    disclosure: Disclosure | None = None,
) -> Rows:
    """Transform rows by a front, those of each node by themselves.

    Some steps round by what other rows there are: bits are those of nodes elsewhere.
    Under a rule bins of few rows of a node join a neighbor; public rows pass none.
    ``y``, ``held_out`` and ``groups`` are (n_rows,).
    """

    y = labels_of_rows(X, y)

    def transformed(rows: np.ndarray) -> Rows:
        cells = cells_of(
            disclosure,
            y if disclosure is None else y[rows],
            held_out=None if held_out is None else held_out[rows],
            groups=None if groups is None else groups[rows],
        )
        return polars_to_pandas(front.transform(rows_as_given(rows), cells=cells))

    def rows_as_given(rows: np.ndarray) -> RowsLike:
        return X if len(rows) == X.shape[0] else safe_indexing(X, rows)

    rows_of_owners = list(owners_of(nodes, X).values())
    public_rows = np.setdiff1d(np.arange(X.shape[0]), np.concatenate(rows_of_owners))
    owned = [rows for rows in rows_of_owners if len(rows)]
    parts = [transformed(rows) for rows in owned]
    if len(public_rows):
        parts.append(polars_to_pandas(front.transform(rows_as_given(public_rows))))
    if len(parts) == 1:
        return parts[0]
    in_order_of_X = np.argsort(np.concatenate([*owned, public_rows]))
    return stacked(parts)[in_order_of_X]
