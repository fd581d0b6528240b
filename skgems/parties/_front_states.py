"""Fitted fronts that the rows of a node contradict."""

import numpy as np

from ..messages import NotAgreedError
from ..steps import Front
from ._nodes import RowsLike


def check_states(
    front: Front,
    X: RowsLike,
    *,
    name: str,
    min_rows: int,
    weights: np.ndarray | None = None,
) -> None:
    """Raise NotAgreedError for a front that cannot be of a node's rows and others.

    Parameters
    ----------
    X : {array-like, DataFrame, sparse matrix}
        The rows that the node's statistics are made of: not those that it holds out.
    min_rows : int
        Columns with fewer known values are in no statistic of the node.
    weights : ndarray of shape (n_rows,), or None
        How much each row counted in these. None: once.
    """
    contradiction = front.contradiction(X, min_rows=min_rows, weights=weights)
    if contradiction:
        raise NotAgreedError(
            "The server says that the front is fitted to the rows of node "
            f"{name!r} and others, but that cannot be. {contradiction}. Do not answer "
            "before the server has explained it. If the rows of the node have "
            "changed since the front was fitted, it has to be fitted again, in a new "
            "exchange."
        )
